"""Pools of rows to try things on, each made from a seed."""

from superteach.datasets.synthetic import make_classification_pool, make_regression_pool, split_evenly

__all__ = ["make_classification_pool", "make_regression_pool", "split_evenly"]

"""Pools of rows to try things on: made from a seed, or read from published files."""

from superteach.datasets.published import (
    load_acs_income,
    load_beijing_air,
    load_heart_disease,
    load_higgs,
    load_superconduct,
)
from superteach.datasets.sources import get_data_home
from superteach.datasets.synthetic import make_classification_pool, make_regression_pool, split_evenly

__all__ = [
    "get_data_home",
    "load_acs_income",
    "load_beijing_air",
    "load_heart_disease",
    "load_higgs",
    "load_superconduct",
    "make_classification_pool",
    "make_regression_pool",
    "split_evenly",
]

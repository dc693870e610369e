"""Pools of rows to try things on: read from published files, or made from a seed (`superteach.datasets`)."""

from superteach.datasets import make_classification_pool, make_regression_pool, split_evenly
from superteach_lab.data.published import (
    load_acs_income,
    load_adult,
    load_beijing_air,
    load_heart_disease,
    load_higgs,
    load_superconduct,
)
from superteach_lab.data.sources import get_data_home

__all__ = [
    "get_data_home",
    "load_acs_income",
    "load_adult",
    "load_beijing_air",
    "load_heart_disease",
    "load_higgs",
    "load_superconduct",
    "make_classification_pool",
    "make_regression_pool",
    "split_evenly",
]

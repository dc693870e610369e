"""scikit-learn's own suite for estimators, run on SuperTeacher with every kind of learner."""

from __future__ import annotations

import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from superteach import SuperTeacher
from superteach.goals import PerturbedFit

LEARNERS = [
    LogisticRegression(),
    LogisticRegression(fit_intercept=False),
    Ridge(),
    LinearSVC(),
    PoissonRegressor(),
]
NEEDS_ARRAY_API = {"check_array_api_input"}
"""Runs only where SCIPY_ARRAY_API is set, for scikit-learn's own estimators as well."""


COUNTS_ROWS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "a lesson counts rows: one of weight 2 is one row, not two"
    for kind in ("dense", "sparse")
}
NO_WEIGHTS = {
    f"check_{name}": "PoissonRegressor divides by the weights of the chosen rows, and is refused with a sentence"
    for name in (
        "sample_weights_pandas_series",
        "sample_weights_not_an_array",
        "sample_weights_list",
        "sample_weights_shape",
        "sample_weights_not_overwritten",
        "all_zero_sample_weights_error",
    )
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.EstimatorCheckFailedWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_check_estimator(learner):
    """No check fails but those on weights that are named here; one is skipped, by scikit-learn for want of a setting."""
    estimator = SuperTeacher(learner, goal=PerturbedFit(0), method="dual")
    known = COUNTS_ROWS | (NO_WEIGHTS if isinstance(learner, PoissonRegressor) else {})
    results = check_estimator(estimator, on_skip=None, on_fail=None, expected_failed_checks=known)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    assert failed == {}
    assert skipped <= NEEDS_ARRAY_API
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == set(known)
    assert {result["status"] for result in results} <= {"passed", "skipped", "xfail"}
    assert len(results) > 45

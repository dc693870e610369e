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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.EstimatorCheckFailedWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_check_estimator(learner):
    """No check fails, and none is skipped but the one that scikit-learn skips for want of a setting."""
    estimator = SuperTeacher(learner, goal=PerturbedFit(0), method="dual")
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    assert failed == {}
    assert skipped <= NEEDS_ARRAY_API
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    assert len(results) > 45

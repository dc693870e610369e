"""Logistic regression without a penalty: C=inf and penalty=None are one learner, and scikit-learn refits its lessons."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from superteach import Learner, SuperTeacher
from superteach.datasets import make_classification_pool
from superteach.exceptions import BudgetError, LearnerError, NotConverged, SettingError

UNPENALISED = LogisticRegression(C=np.inf)
X, Y, OWNER = make_classification_pool(600, 4, 3, random_state=0)


def test_both_ways_to_say_it_are_one_learner():
    assert Learner.of(UNPENALISED) == Learner.of(LogisticRegression(penalty=None))
    assert Learner.of(UNPENALISED).ridge == 0.0


@pytest.mark.parametrize("budget", [30, 200, "best"])
def test_scikit_learn_refits_the_lesson(budget):
    goal = LogisticRegression(C=np.inf).fit(X, Y)
    goal.coef_[0, 1] = 0.0
    teacher = SuperTeacher(UNPENALISED, goal, budget=budget, random_state=0).fit(X, Y, groups=OWNER)
    rows = teacher.sample_indices_
    own = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000).fit(X[rows], Y[rows])
    np.testing.assert_allclose(own.coef_, teacher.coef_, atol=1e-5)
    assert teacher.lesson_.agreement > 0.99
    assert teacher.lesson_.risk < 0.1 * teacher.lesson_.pool_risk


def test_classes_that_a_plane_separates_have_no_model():
    with pytest.raises(NotConverged, match="a plane separates"):
        SuperTeacher(UNPENALISED, np.ones(5), budget=30).fit(X, X[:, 0] > 0.0)


def test_what_needs_a_penalty_says_so():
    with pytest.raises(LearnerError, match="two classes"):
        SuperTeacher(UNPENALISED, np.ones((3, 5)), budget=30).fit(X, OWNER)
    with pytest.raises(LearnerError, match=r"liblinear.*a finite C"):
        Learner.of(LogisticRegression(C=np.inf, solver="liblinear"))
    with pytest.raises(LearnerError, match="count the same"):
        SuperTeacher(UNPENALISED, np.ones(5), budget=30).fit(X, Y, sample_weight=np.full(600, 2.0))
    with pytest.raises(SettingError, match="without a penalty"):
        SuperTeacher(UNPENALISED, np.ones(5), budget=30, privacy="isolated").fit(X, Y)
    with pytest.raises(BudgetError, match="give at least 5"):
        SuperTeacher(UNPENALISED, np.ones(5), budget=4).fit(X, Y)

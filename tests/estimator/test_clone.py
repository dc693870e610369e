"""Searches and cross-validation clone a SuperTeacher: what scikit-learn's own goal is, it stays."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from superteach import SuperTeacher
from superteach.datasets import make_classification_pool
from superteach.exceptions import GoalError
from superteach.goals import FromData, Within

X, Y, OWNER = make_classification_pool(rows=300, teachers=3)
ELSEWHERE = slice(0, 150)
PLAIN = LogisticRegression().fit(X[ELSEWHERE], Y[ELSEWHERE])
SCALED = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[ELSEWHERE], Y[ELSEWHERE])
GOALS = {
    "model": PLAIN,
    "pipeline": SCALED,
    "frozen": FrozenEstimator(PLAIN),
    "frozen pipeline": FrozenEstimator(SCALED),
}


def teacher(goal=PLAIN, **given):
    return SuperTeacher(LogisticRegression(), goal, budget=40, method="random", **given)


@pytest.mark.parametrize("goal", GOALS)
def test_a_clone_has_the_same_goal(goal):
    """The clone teaches what the original teaches, and is fitted by itself."""
    first = teacher(GOALS[goal])
    second = clone(first)
    first.fit(X, Y)
    np.testing.assert_array_equal(clone(first).fit(X, Y).lesson_.goal, first.lesson_.goal)
    np.testing.assert_array_equal(second.fit(X, Y).lesson_.goal, first.lesson_.goal)
    assert not hasattr(clone(first), "lesson_")
    scores = X @ first.lesson_.goal[:-1] + first.lesson_.goal[-1]
    np.testing.assert_allclose(scores, GOALS[goal].decision_function(X), atol=1e-9)


def test_a_change_of_the_clone_leaves_the_original_alone():
    copied = clone(teacher())
    copied.set_params(goal__C=7.0, estimator__C=5.0)
    copied.goal.coef_[:] = 0.0
    assert PLAIN.C == 1.0
    assert np.abs(PLAIN.coef_).max() > 0.0


@pytest.mark.parametrize("goal", GOALS)
def test_cross_validation_teaches_in_every_fold(goal):
    scores = cross_val_score(teacher(GOALS[goal]), X, Y, cv=3, error_score="raise")
    assert scores.shape == (3,)


def test_a_search_over_nested_parameters_in_a_pipeline():
    """`estimator__C` and the goal itself, whose FrozenEstimator scikit-learn hands on as it is."""
    Z = StandardScaler().fit(X).transform(X)
    goals = [FrozenEstimator(LogisticRegression(C=C).fit(Z, Y)) for C in (0.01, 1.0)]
    pipe = Pipeline([("scale", StandardScaler()), ("teach", teacher(goals[0]))])
    grid = {"teach__estimator__C": [0.1, 1.0], "teach__goal": goals, "teach__budget": [30]}
    search = GridSearchCV(pipe, grid, cv=2, error_score="raise").fit(X, Y)
    best = search.best_estimator_["teach"]
    assert best.goal in goals
    np.testing.assert_allclose(best.lesson_.goal[:-1], best.goal.coef_[0])
    assert best.lesson_.settings["learner"]["ridge"] == 1.0 / search.best_params_["teach__estimator__C"]


def test_a_bare_model_among_the_parameters_of_a_search_is_told_what_to_do():
    """scikit-learn clones parameters before we see them."""
    search = GridSearchCV(teacher(), {"goal": [PLAIN]}, cv=2, error_score="raise")
    with pytest.raises(GoalError, match="FrozenEstimator"):
        search.fit(X, Y)


def test_other_goals_are_cloned_as_before():
    for goal in (FromData(X[:50], Y[:50]), Within(near=(PLAIN, 0.5)), np.ones(11)):
        copied = clone(teacher(goal)).fit(X, Y).lesson_.goal
        np.testing.assert_array_equal(copied, teacher(goal).fit(X, Y).lesson_.goal)

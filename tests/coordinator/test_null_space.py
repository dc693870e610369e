"""Directions that no row sees: dummies that add up to the intercept, constant, empty and repeated columns."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.svm import LinearSVC

import superteach as st
from superteach.coordinator.problem import setup
from superteach.learner import Learner

SHARP = {"tol": 1e-12, "max_iter": 100_000}


def table(rows: int, seed: int, how: str) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers and something collinear beside an intercept."""
    rng = np.random.default_rng(seed)
    numbers, word = rng.standard_normal((rows, 2)), rng.integers(4, size=rows)
    dummies = np.eye(4)[word]
    more = {
        "dummies": dummies,
        "constant": np.full((rows, 1), 7.0),
        "empty": np.zeros((rows, 2)),
        "repeated": numbers[:, :1] * 1000.0,
        "nothing": np.empty((rows, 0)),
    }[how]
    X = np.column_stack([numbers, more])
    chance = 1.0 / (1.0 + np.exp(-(numbers @ [1.0, -0.5] + 0.7 * (word == 2))))
    return X, (rng.random(rows) < chance).astype(int)


@pytest.mark.parametrize("how", ["dummies", "constant", "empty", "repeated", "nothing"])
def test_the_null_space_is_that_of_the_rows(how, federation_of):
    """Oracle: singular values of the rows themselves, with their constant column."""
    X, y = table(300, 1, how)
    room = setup(federation_of(X, np.where(y, 1.0, -1.0), 3), Learner.of(LogisticRegression()), None, False)
    rows = np.column_stack([X, np.ones(len(X))])
    values = np.linalg.svd(rows / np.maximum(np.linalg.norm(rows, axis=0), 1.0), compute_uv=False)
    null = room.null_space
    assert null.shape[1] == np.count_nonzero(values < 1e-10 * values[0])
    assert np.abs(rows @ null).max(initial=0.0) < 1e-9 * np.abs(rows).max()
    assert np.allclose(null.T @ null, np.eye(null.shape[1]))


@pytest.mark.parametrize("learner", [LogisticRegression(**SHARP), Ridge(alpha=2.0), LinearSVC(C=0.3, **SHARP)])
@pytest.mark.parametrize("how", ["dummies", "constant", "empty", "repeated"])
def test_a_goal_is_moved_to_where_a_fit_ends(how, learner):
    """A fit pushed along a direction that no row sees is moved back to the fit, and taught as the fit would be."""
    X, y = table(400, 2, how)
    fit = learner.fit(X, y)
    goal = np.append(np.ravel(fit.coef_), fit.intercept_)
    rows = np.column_stack([X, np.ones(len(X))])
    _, values, axes = np.linalg.svd(rows, full_matrices=True)
    null = axes[np.count_nonzero(values > 1e-9 * values[0]) :]
    pushed = goal + 3.0 * null.sum(axis=0)
    lessons = [st.SuperTeacher(learner, given, budget=60).fit(X, y).lesson_ for given in (goal, pushed)]
    assert lessons[0].unseen_directions == 0
    assert lessons[1].unseen_directions == len(null)
    assert lessons[1].goal_shift == pytest.approx(np.linalg.norm(3.0 * null.sum(axis=0)), rel=1e-3)
    assert np.allclose(lessons[1].goal, goal, atol=1e-5 * (1.0 + np.abs(goal).max()))
    assert lessons[1].prediction_distance == pytest.approx(lessons[0].prediction_distance, rel=0.5, abs=1e-3)
    assert f"moved by {lessons[1].goal_shift:.2g} along" in lessons[1].verdict


def test_columns_in_raw_units_are_not_taken_for_constant_ones():
    """A year and a large number that hardly varies are seen by rows: no goal is moved along them."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(2013, 2018, 500), 1e6 + rng.standard_normal(500), rng.standard_normal(500)])
    y = X[:, 2] + 0.1 * (X[:, 0] - 2015) + rng.standard_normal(500)
    lesson = st.SuperTeacher(Ridge(), np.array([0.3, 0.1, 1.0, -500.0]), budget=50).fit(X, y).lesson_
    assert lesson.unseen_directions == 0
    assert np.array_equal(lesson.goal, [0.3, 0.1, 1.0, -500.0])


def test_one_hot_rows_beside_an_intercept_teach_the_predictions_of_a_default_fit():
    """scikit-learn's default tolerance stops early along the collinear direction; the lesson predicts as its fit does."""
    rng = np.random.default_rng(4)
    words = rng.integers(6, size=(3000, 3))
    X = np.column_stack([rng.standard_normal((3000, 2)), *(np.eye(6)[word] for word in words.T)])
    y = (X[:, 0] + (words[:, 0] == 1) - (words[:, 1] == 2) + rng.logistic(size=3000) > 0).astype(int)
    goal = LogisticRegression(tol=1e-2).fit(X, y)
    teacher = st.SuperTeacher(LogisticRegression(), goal, budget=300).fit(X, y)
    chosen = teacher.sample_indices_
    refit = LogisticRegression(**SHARP).fit(X[chosen], y[chosen])
    random = LogisticRegression(**SHARP).fit(X[:300], y[:300])
    agreed, by_chance = (np.mean(one.predict(X) == goal.predict(X)) for one in (refit, random))
    assert agreed == pytest.approx(teacher.lesson_.agreement, abs=2e-3)
    assert agreed > 0.99 > by_chance


def test_least_squares_names_dependent_columns_instead():
    X, _ = table(200, 5, "dummies")
    with pytest.raises(st.exceptions.DataError, match="dependent"):
        st.SuperTeacher(LinearRegression(), np.zeros(7), budget=20).fit(X, X[:, 0])

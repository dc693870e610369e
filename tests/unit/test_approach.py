"""Coming nearer to goals out of reach: against refits from the rows, and against a central search by swaps."""

from __future__ import annotations

import numpy as np
import pytest

import superteach as st
from superteach.compare.contestants import by_name
from superteach.compare.task import Task
from superteach.losses import LOSSES, Squared
from superteach.teacher import approach
from superteach.teacher.approach import Place, exchange_many


def ridge_fit(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The minimiser of ½‖y − Xθ‖² + ½‖θ‖²."""
    return np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ y)


def far_goal(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -2.0 * ridge_fit(X, y)


@pytest.mark.parametrize("seed", range(4))
def test_many_rows_are_exchanged_and_the_refit_is_nearer(seed, pool):
    """With squared loss the predicted step is exact: what is accepted brings the refitted model much nearer."""
    X, y = pool("squared", 800, 6, seed)
    chosen = np.zeros(800, dtype=bool)
    chosen[np.random.default_rng(seed).choice(800, 300, replace=False)] = True
    model, goal = ridge_fit(X[chosen], y[chosen]), far_goal(X, y)
    inverse = np.linalg.inv(X[chosen].T @ X[chosen] + np.eye(6))
    after = exchange_many(X, chosen, y, Squared(), Place(model, inverse, goal, np.eye(6)))
    assert np.count_nonzero(after) == 300
    assert np.count_nonzero(after & ~chosen) > 50
    nearer = np.linalg.norm(ridge_fit(X[after], y[after]) - goal)
    assert nearer < 0.8 * np.linalg.norm(model - goal)
    # It is at rest: from there no exchange of many is found.
    inverse = np.linalg.inv(X[after].T @ X[after] + np.eye(6))
    place = Place(ridge_fit(X[after], y[after]), inverse, goal, np.eye(6))
    np.testing.assert_array_equal(exchange_many(X, after, y, Squared(), place), after)


def test_a_curvature_without_an_inverse_exchanges_nothing():
    """A direction that no row sees leaves no model to predict."""
    rows = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0]])
    chosen = np.array([True, True, False, False])
    place = Place(np.zeros(2), np.diag([0.2, 0.0]), np.array([5.0, 0.0]), np.eye(2))
    np.testing.assert_array_equal(exchange_many(rows, chosen, np.ones(4), Squared(), place), chosen)


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_the_nearest_model_is_as_near_as_a_central_search_finds(kind, pool, federation_of, chosen_rows):
    """Goals that cannot be taught: not much farther than a rival who sees all rows, and the size is kept."""
    ours, theirs = [], []
    for seed in range(2):
        X, y = pool(kind, 120, 4, seed)
        goal = far_goal(X, y) if kind == "squared" else np.random.default_rng(seed).standard_normal(4) * 9.0
        learner, federation = st.Learner(LOSSES[kind](), 1.0), federation_of(X, y, 3)
        lesson = st.teach(federation, learner, goal, budget=40, method="match", least_change=1)
        assert lesson.size == len(set(chosen_rows(federation).tolist())) == 40
        assert np.all(np.diff(lesson.objective) < 0.0)
        ours.append(lesson.risk)
        (rival,) = by_name(["bit-flip"])
        rows = rival.choose(Task(X, y, np.zeros(120, dtype=int), learner, goal, 60.0), 40, seed)
        fit = st.teach(federation_of(X[rows], y[rows], 1), learner, goal, budget=40, method="random")
        theirs.append(fit.risk)
    assert min(theirs) > 0.1
    assert np.exp(np.mean(np.log(ours) - np.log(theirs))) < 1.1


def test_large_lessons_far_from_the_goal_get_there_by_exchanges_of_many(pool, federation_of, monkeypatch):
    """As near in far fewer rounds than by a few rows in each turn; and one teacher is not stopped after eight turns."""
    X, y = pool("squared", 4_000, 6, 1)
    learner, fit = st.Learner(Squared(), 1.0), ridge_fit(X, y)
    goal = fit + 2.0 * np.linalg.norm(fit) * np.array([0.6, 0.0, 0.0, -0.8, 0.0, 0.0])

    def taught(teachers: int) -> st.Lesson:
        return st.teach(federation_of(X, y, teachers), learner, goal, budget=2_000, method="match")

    lesson, alone = taught(4), taught(1)
    assert lesson.converged
    assert alone.converged
    assert lesson.risk == pytest.approx(alone.risk, rel=0.01)
    monkeypatch.setattr(approach, "exchange_many", lambda rows, chosen, *_: chosen)
    slow = taught(4)
    assert lesson.risk < 1.001 * slow.risk
    assert lesson.rounds < 0.7 * slow.rounds

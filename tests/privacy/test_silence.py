"""Whether a lesson fails must not depend on rows: a refusal tells as much as an answer."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor

import superteach as st
from superteach.coordinator.teach import teach


def taught(X: np.ndarray, y: np.ndarray, learner: object, privacy: str) -> st.Lesson:
    parts = np.array_split(np.arange(len(y)), 3)
    teachers = [st.Teacher(f"t{place}", X[some], y[some], ids=some) for place, some in enumerate(parts)]
    goal = np.append(np.full(X.shape[1], 0.5), 0.1)
    return teach(st.Federation(st.Threads(teachers)), learner, goal, privacy=privacy, budget=0.1)


@pytest.mark.parametrize("privacy", ["isolated", "dp"])
@pytest.mark.parametrize("size", [1e3, 1e60, 1e-160])
def test_a_row_beyond_what_exp_can_hold_ends_no_lesson(privacy, size):
    """Once a count model met a row of 1,000 at a coefficient of ½: eigenvalues did not converge, and the lesson ended."""
    draw = np.random.default_rng(0)
    X = draw.standard_normal((300, 3))
    y = draw.poisson(np.exp(0.3 * X.sum(axis=1))).astype(np.float64)
    X[7] = size
    assert taught(X, y, PoissonRegressor(), privacy).privacy == privacy


@pytest.mark.parametrize("privacy", ["isolated", "dp"])
def test_rows_of_one_label_or_without_any_width_end_no_lesson(privacy):
    draw = np.random.default_rng(0)
    X = draw.standard_normal((300, 3))
    for rows, labels in ((X, np.ones(300)), (0.0 * X, np.where(X[:, 0] > 0.0, 1.0, -1.0))):
        assert taught(rows, labels, LogisticRegression(), privacy).privacy == privacy

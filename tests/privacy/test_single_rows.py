"""What "the coordinator can read the rows" means: queries with privacy "none" whose replies show single rows."""

from __future__ import annotations

import numpy as np
import pytest

import superteach as st
from superteach.losses import Logistic
from superteach.protocol.queries import Candidates, Gradients, Include, Prepare, Show, Thin
from superteach.selection.relaxation import BINS
from tests.privacy.canaries import numbers_found

WIDTH, ROWS = 3, 120


@pytest.fixture
def lesson(pool):
    """Rows, and an engine over three teachers with them."""
    X, y = pool("logistic", ROWS, WIDTH, 2)
    parts = np.array_split(np.arange(ROWS), 3)
    return X, st.Threads([st.Teacher(f"t{i}", X[part], y[part], part) for i, part in enumerate(parts)])


def test_a_lesson_without_privacy_shows_rows(lesson):
    """The coordinator can read them: as they are, or dividing by what it knows."""
    X, engine = lesson
    metric = np.diag([1.0, 2.0, 0.5])
    talk = [
        Prepare(Logistic(), 0.0),
        Gradients(np.full(WIDTH, 0.3), metric),
        Thin(np.full(BINS, -1.0), 0.0, 3),
        Include(np.zeros(WIDTH + 1)),
    ]
    for number, query in enumerate(talk, 1):
        engine.sum(query, number)
    show = Show(WIDTH)
    shown = engine.gather(show, 5)
    assert numbers_found(shown[0].tobytes(), X.ravel(), [])
    np.testing.assert_array_equal(np.concatenate([show.read(one) for one in shown])[:, :WIDTH], X)
    # A gradient is −ℓ'(x'θ) x, so its direction is the row's, and M is the coordinator's own.
    candidates = Candidates(metric, np.zeros(WIDTH + 1), 1, 0.25, 1000, 5)
    parts = [candidates.read(one).vectors for one in engine.gather(candidates, 6)]
    gradients = np.concatenate(parts) @ np.linalg.inv(metric).T
    assert len(gradients) > 10
    places = [state.undecided.candidates + i * ROWS // 3 for i, state in enumerate(engine.states())]
    rows = X[np.concatenate(places)]
    lengths = np.linalg.norm(gradients, axis=1) * np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(np.abs(np.sum(gradients * rows, axis=1)), lengths, rtol=1e-9)

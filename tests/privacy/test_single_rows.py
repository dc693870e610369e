"""What "the coordinator can read the rows" means: queries with privacy "none" whose replies show single rows."""

from __future__ import annotations

import numpy as np
import pytest
from superteach.protocol.queries.match import OCTAVES

import superteach as st
from superteach.losses import Logistic
from superteach.protocol.queries import Balance, Draw, Gather, Play, Prepare, Price, Show
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
        Balance(np.full(WIDTH, 0.3), metric),
        Draw(np.full(OCTAVES, -1.0), 0.0, 3),
        Price(np.zeros(WIDTH + 1)),
        Play(metric, 4.0, 1, True, 0.25, 5),
    ]
    for number, query in enumerate(talk, 1):
        engine.sum(query, number)
    states = engine.states()
    counts = (ROWS // 3,) * 3
    shown = engine.sum(Show(counts, WIDTH), 6)
    assert numbers_found(shown.tobytes(), X.ravel(), [])
    np.testing.assert_array_equal(Show(counts, WIDTH).read(shown)[:, :WIDTH], X)
    # A pull is −ℓ'(x'θ) x, so its direction is the row's, and M is the coordinator's own.
    gather = Gather(tuple(len(state.play.rows) for state in states), WIDTH + 1)
    pulls = gather.read(engine.sum(gather, 7))[:, :WIDTH] @ np.linalg.inv(metric).T
    assert len(pulls) > 10
    rows = X[np.concatenate([state.play.index + i * ROWS // 3 for i, state in enumerate(states)])]
    lengths = np.linalg.norm(pulls, axis=1) * np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(np.abs(np.sum(pulls * rows, axis=1)), lengths, rtol=1e-9)

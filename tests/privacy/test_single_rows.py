"""What "the coordinator can read your rows" means: queries of an open lesson whose replies show single rows."""

from __future__ import annotations

import numpy as np
import pytest

import superteach as st
from superteach.line.queries.match import OCTAVES
from superteach.losses import Logistic
from superteach.mathematics.learner import Learner
from superteach.organisations.agreement import agree
from superteach.queries import Balance, Draw, Gather, Play, Prepare, Price, RoundAlone, Show
from tests.inside import lesson_at
from tests.loopback import Loopback
from tests.privacy.canaries import numbers_found

WIDTH, ROWS = 3, 120


@pytest.fixture
def lesson(pool, site_of):
    """Three sites with a policy, the line to them and the same rows in one process."""

    def make(**rules):
        X, y = pool("logistic", ROWS, WIDTH, 2)
        parts = np.array_split(np.arange(ROWS), 3)
        sites = {f"t{i}": site_of(f"t{i}", X[part], y[part], **rules) for i, part in enumerate(parts)}
        line = Loopback({name: site.answer for name, site in sites.items()})
        remote = agree(line, "lesson", tuple(sites), Learner(Logistic())).engine(line)
        local = st.InProcess([st.Teacher(f"t{i}", X[part], y[part], part) for i, part in enumerate(parts)])
        return X, sites, remote, local

    return make


def test_a_site_rounds_alone(lesson):
    """Asked for it, each teacher chooses its rows, by the same bits as in one process, and says two counts."""
    _, sites, remote, local = lesson()
    talk = [
        Prepare(Logistic(), 0.0),
        Balance(np.full(WIDTH, 0.3), np.eye(WIDTH)),
        Draw(np.full(OCTAVES, -1.0), 0.0, 3),
        Price(np.array([0.1, 0.0, 0.0, 0.0])),
        RoundAlone(np.eye(WIDTH), 3),
    ]
    for number, query in enumerate(talk, 1):
        told = remote.sum(query, number)
        assert told.tobytes() == local.sum(query, number).tobytes()
    assert told.shape == (2,)
    for site, state in zip(sites.values(), local.states(), strict=True):
        np.testing.assert_array_equal(lesson_at(site).state.chosen, state.chosen)
        assert len(state.chosen) == pytest.approx(float(state.fractions.sum()), abs=0.51)


def test_an_open_lesson_shows_rows(lesson):
    """The coordinator can read them: as they are, or dividing by what it knows."""
    X, sites, remote, _ = lesson()
    metric = np.diag([1.0, 2.0, 0.5])
    talk = [
        Prepare(Logistic(), 0.0),
        Balance(np.full(WIDTH, 0.3), metric),
        Draw(np.full(OCTAVES, -1.0), 0.0, 3),
        Price(np.zeros(WIDTH + 1)),
        Play(metric, 4.0, 1, True, 0.25, 5),
    ]
    for number, query in enumerate(talk, 1):
        remote.sum(query, number)
    states = [lesson_at(site).state for site in sites.values()]
    counts = (ROWS // 3,) * 3
    shown = remote.sum(Show(counts, WIDTH), 6)
    assert numbers_found(shown.tobytes(), X.ravel(), [])
    np.testing.assert_array_equal(Show(counts, WIDTH).read(shown)[:, :WIDTH], X)
    # A pull is −ℓ'(x'θ) x, so its direction is the row's, and M is the coordinator's own.
    gather = Gather(tuple(len(state.play.rows) for state in states), WIDTH + 1)
    pulls = gather.read(remote.sum(gather, 7))[:, :WIDTH] @ np.linalg.inv(metric).T
    assert len(pulls) > 10
    rows = X[np.concatenate([state.play.index + i * ROWS // 3 for i, state in enumerate(states)])]
    lengths = np.linalg.norm(pulls, axis=1) * np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(np.abs(np.sum(pulls * rows, axis=1)), lengths, rtol=1e-9)

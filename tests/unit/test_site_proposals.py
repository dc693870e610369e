"""Changes that a teacher proposes at its own site: told once, however a lesson goes on."""

from __future__ import annotations

import numpy as np
import pytest

from superteach.losses import Logistic
from superteach.queries import Balance, Keep, Prepare, Propose, RankRows
from tests.unit.test_site import agreed, ask

GOAL = np.array([0.4, -0.3, 0.2])
PROPOSE = Propose(GOAL, np.eye(3), 1, 3, (0, 0, 0), (0, 1, 2))


def prepared(site, lesson: str, number: int, seed: int = 4) -> int:
    """Ask all that comes before proposals; the number of the last round."""
    for query in (
        Prepare(Logistic(), 0.0),
        Balance(GOAL, np.eye(3), 0.1, 0.03, 5),
        RankRows("random", seed=seed),
        Keep(b"\x50" + b"\xff" * 15),
    ):
        number += 1
        assert ask(site, number, query, lesson).status == "ok"
    return number


@pytest.fixture
def site(pool, site_of):
    """A site whose changes have eight rows: its policy's least number."""
    return site_of("a", *pool("logistic", 200, 3, 0), least_change=6, least_rows=8)


def told(site, lesson: str, number: int) -> np.ndarray:
    """The slots of a reply."""
    reply = ask(site, number, PROPOSE, lesson)
    assert reply.status == "ok"
    return reply.values.reshape(3, -1)


def test_a_lesson_prepared_anew_proposes_nothing(site):
    """The state begins afresh, what was told does not."""
    agreed(site, "A")
    number = prepared(site, "A", 0)
    first = told(site, "A", number + 1)
    assert np.any(first[0])
    assert not first[:, -1].any(), "as many rows enter as leave"
    changes = site._lessons["A"].state.proposed.changes
    assert all(len(rows) >= 8 for rows in changes)
    number = prepared(site, "A", number + 1)
    assert not told(site, "A", number + 1).any()


def test_a_lesson_begun_anew_proposes_nothing(site):
    """Other rows are chosen there, among them many of the same weak ones."""
    agreed(site, "A")
    assert told(site, "A", prepared(site, "A", 0) + 1).any()
    agreed(site, "A.2", "A")
    assert not told(site, "A.2", prepared(site, "A.2", 0, seed=9) + 1).any()
    agreed(site, "B")  # another lesson follows none
    assert told(site, "B", prepared(site, "B", 0) + 1).any()

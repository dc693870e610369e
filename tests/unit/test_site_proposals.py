"""Changes that a teacher proposes at its own site: told once, however a lesson goes on."""

from __future__ import annotations

import numpy as np
import pytest

from superteach.losses import Logistic
from superteach.queries import Balance, Keep, Prepare, Propose, RankRows
from superteach.teacher.ranks import random_keys
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


def keep(site, lesson: str, number: int, rows: int):
    """Choose so many rows, the same ones first whatever their number."""
    assert ask(site, number, RankRows("random", seed=77), lesson).status == "ok"
    last = int(np.sort(random_keys(np.arange(200, dtype=np.uint64), 77))[rows - 1])
    return ask(site, number + 1, Keep(last.to_bytes(8, "big") + b"\xff" * 8), lesson)


@pytest.mark.parametrize("first", [True, False], ids=["told before", "not told"])
def test_choices_after_proposals_are_remembered(site, first):
    """A lesson begun anew may not choose one row more than the first did after it had told of changes."""
    agreed(site, "A")
    number = prepared(site, "A", 0) + 1
    if first:
        assert told(site, "A", number).any()
    assert keep(site, "A", number + 1, 60).status == "ok"
    agreed(site, "A.2", "A")
    assert ask(site, 1, Prepare(Logistic(), 0.0), "A.2").status == "ok"
    refused = keep(site, "A.2", 2, 61)
    assert refused.status == "refused"
    assert "in 1 row, fewer than 6" in refused.reason


def test_choices_after_proposals_are_compared(site):
    """The same where the lesson begun anew asks for changes first."""
    agreed(site, "A")
    number = prepared(site, "A", 0)
    assert keep(site, "A", number + 1, 60).status == "ok"
    agreed(site, "A.2", "A")
    number = prepared(site, "A.2", 0, seed=9) + 1
    told(site, "A.2", number)
    assert keep(site, "A.2", number + 1, 61).status == "refused"


def test_single_rows_told_of_in_parts_are_remembered_once(pool, site_of):
    """Asked for one more row each time, a site notes one choice each time."""
    site = site_of("a", *pool("logistic", 200, 3, 0), least_change=1, least_rows=1)
    agreed(site, "A")
    number = prepared(site, "A", 0)
    before = len(site._lessons["A"].heard)
    for count in range(1, 8):
        query = Propose(GOAL, np.eye(3), 1, count, (0,), (count - 1,))
        assert ask(site, number + count, query, "A").values.any()
    assert len(site._lessons["A"].heard) - before == 7

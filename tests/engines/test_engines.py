"""Engines in one process: sums, replies one by one, and posts."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import superteach as st
from superteach.coordinator.teach import teach
from superteach.engines.base import add_up
from superteach.exceptions import BadReply
from superteach.goals import PerturbedFit
from superteach.learner import Learner
from superteach.losses import LOSSES, Logistic
from superteach.optim import Block
from superteach.protocol import wire
from superteach.protocol.wire import values_of
from tests.delayed import Delayed
from tests.protocol.test_queries import TALK, asked_of, talk_on

WIDTH, K = 3, 3


def teachers_of(X, y) -> list[st.Teacher]:
    return [st.Teacher(f"t{i}", X[part], y[part], part) for i, part in enumerate(np.array_split(np.arange(len(y)), K))]


@pytest.mark.long(every=3)
@pytest.mark.parametrize("kind", sorted(LOSSES))
def test_a_sum_is_what_was_gathered(kind, pool):
    """A whole talk: replies one by one add up to the sum, to the last bit."""
    teachers = teachers_of(*pool(kind, 301, WIDTH, 0))
    one, other = st.Threads(teachers), st.Threads(teachers)
    for number, query in enumerate(talk_on(LOSSES[kind]()), 1):
        asked = asked_of(one, query)
        replies = other.gather(asked, number)
        assert len(replies) == K
        if asked.varies:
            again = one.gather(asked, number)
            assert [reply.tobytes() for reply in again] == [reply.tobytes() for reply in replies], asked.name
        else:
            assert one.sum(asked, number).tobytes() == add_up(asked, replies).tobytes(), asked.name


@pytest.mark.parametrize("kind", ["BlockRound", "BlockOffer"])
@pytest.mark.parametrize(
    ("place", "number", "fine"),
    [(0, np.inf, True), (0, np.nan, False), (1, np.inf, False), (2, np.nan, False), (-1, np.inf, False)],
)
def test_only_the_conjugate_of_a_block_may_overflow(kind, place, number, fine):
    """An infinite Σh or Σ α_j x_j is a bad reply, and so is a NaN anywhere, whatever the conjugate is."""
    asked = next(query for query in TALK if query.name == kind)
    numbers = np.ones(asked.reply_length)
    numbers[0], numbers[place] = (1.0 if place == 0 else np.inf), number
    if fine:
        assert values_of(asked, "t0", wire.Reply("ok", numbers)).tobytes() == numbers.tobytes()
        return
    with pytest.raises(BadReply, match=f"answered {kind} with {number} among its numbers"):
        values_of(asked, "t0", wire.Reply("ok", numbers))


class Stopped(Exception):
    """Somebody ends a lesson in its middle."""


@pytest.mark.parametrize("make", [st.Threads, lambda teachers: Delayed(teachers, float)])
def test_posts_of_a_lesson_that_failed_do_not_reach_the_next(make, pool):
    """The same engine teaches again as if nothing had been."""
    X, y = pool("logistic", 90, WIDTH, 1)
    parts = np.array_split(np.arange(90), K)
    teachers = [st.Teacher(f"t{i}", X[part], y[part], part) for i, part in enumerate(parts)]
    how = {"method": "dual", "budget": 20, "solver": Block(staleness=2, max_steps=20)}

    def stop(entry):
        if entry.query == "BlockOffer":
            raise Stopped

    used, fresh = make(teachers), make(teachers)
    with pytest.raises(Stopped):
        teach(st.Federation(used, stop), Learner(Logistic()), PerturbedFit(3), **how)
    one, other = (teach(st.Federation(engine), Learner(Logistic()), PerturbedFit(3), **how) for engine in (used, fresh))
    assert one.model.tobytes() == other.model.tobytes()
    assert [entry.query for entry in one.ledger] == [entry.query for entry in other.ledger]


COUNTED = """
import numpy as np, superteach as st
from superteach.protocol.queries import Census
from threadpoolctl import threadpool_info

class Counting(st.Teacher):
    def size_of(self, chosen):
        print(max(library["num_threads"] for library in threadpool_info()))
        return super().size_of(chosen)

st.Threads([Counting("all", np.ones((1 << 19, 1)), np.ones(1 << 19))], threads=4).sum(Census(), 1)
"""


@pytest.mark.parametrize("allowed", [1, 2])
def test_linear_algebra_gets_no_more_threads_than_it_was_given(allowed):
    """One teacher with many numbers and four cores, in a process whose environment allows fewer."""
    environment = os.environ | {"OMP_NUM_THREADS": str(allowed), "OPENBLAS_NUM_THREADS": str(allowed)}
    done = subprocess.run([sys.executable, "-c", COUNTED], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) <= allowed

"""One contract for every engine: the same question, the same sum, to the last bit."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import superteach as st
from benchmarks.delayed import Delayed
from superteach import queries
from superteach.coordinator.teaching import teach
from superteach.engines.remote import values_of
from superteach.errors import BadReply, TeacherLost
from superteach.goals import PerturbedFit
from superteach.line import wire
from superteach.losses import LOSSES, Logistic, Poisson
from superteach.mathematics.learner import Learner
from superteach.organisations.agreement import agree, end
from superteach.solvers import Block
from tests.inside import log_of
from tests.line.test_queries import TALK, asked_of, talk_on
from tests.loopback import Loopback

WIDTH, K = 3, 3


def engines(X, y, loss, site_of, **rules):
    """The same rows behind every engine there is, in one process."""
    parts = np.array_split(np.arange(len(y)), K)
    teachers = [st.Teacher(f"t{i}", X[part], y[part], part) for i, part in enumerate(parts)]
    sites = {f"t{i}": site_of(f"t{i}", X[part], y[part], **rules) for i, part in enumerate(parts)}
    line = Loopback({name: site.answer for name, site in sites.items()})
    agreement = agree(line, "lesson", tuple(sites), Learner(loss))
    return st.InProcess(teachers), agreement.engine(line), (line, agreement, sites)


@pytest.mark.long(every=3)
@pytest.mark.parametrize("kind", sorted(LOSSES))
def test_every_query_has_the_same_sum_over_every_engine(kind, pool, site_of):
    """A whole talk over both engines: equal bits all the way."""
    X, y = pool(kind, 301, WIDTH, 0)
    local, remote, _ = engines(X, y, LOSSES[kind](), site_of)
    for number, query in enumerate(talk_on(LOSSES[kind]()), 1):
        asked = asked_of(local, query)
        assert local.sum(asked, number).tobytes() == remote.sum(asked, number).tobytes(), asked.name


@pytest.mark.long(every=14)
@pytest.mark.parametrize(
    "how",
    [
        {"method": "dual", "budget": 30},
        {"method": "dual", "budget": 30, "solver": Block(max_steps=20)},
        {"method": "match", "budget": 30, "rounding": "together"},
        {"method": "match", "budget": 30, "rounding": "alone"},
        {"method": "match", "budget": "best", "rounding": "alone", "restarts": 2},
        {"method": "random", "budget": 30},
        {"method": "dual", "budget": "best", "standardize": True},
    ],
    ids=str,
)
def test_the_same_lesson_over_every_engine(how, pool, site_of, tmp_path):
    """Model, risk, path and chosen rows are equal to the last bit."""
    X, y = pool("logistic", 300, WIDTH, 1)
    local, remote, (line, agreement, sites) = engines(X, y, Logistic(), site_of)
    one = teach(st.Federation(local), Learner(Logistic()), PerturbedFit(3), **how)
    other = teach(st.Federation(remote), Learner(Logistic()), PerturbedFit(3), **how)
    assert one.model.tobytes() == other.model.tobytes()
    assert (one.risk, one.size, one.consistency, one.path) == (
        other.risk,
        other.size,
        other.consistency,
        other.path,
    )
    told = [(e.number, e.stage, e.query, e.bytes_out, e.bytes_in) for e in one.ledger]
    assert told == [(e.number, e.stage, e.query, e.bytes_out, e.bytes_in) for e in other.ledger]
    rounded = {"Settle", "Gather", "Assign", "RoundAlone"} & {e.query for e in one.ledger}
    if how["method"] == "match":
        assert rounded == ({"RoundAlone"} if how["rounding"] == "alone" else {"Settle", "Gather", "Assign"})
    counts = end(line, agreement)
    assert sum(facts["rows"] for facts in counts.values()) == one.size
    for (name, site), state in zip(sites.items(), local.states(), strict=True):
        written = (site.guard.policy.folder / "lesson.csv").read_text().split()
        assert written[0] == "row"
        assert [int(number) for number in written[1:]] == np.sort(state.chosen).tolist(), name


def test_asynchronous_rounds_over_every_engine_end_at_one_optimum(pool, site_of):
    """Replies arrive in another order; the certified objective and the taught model are the same."""
    X, y = pool("logistic", 300, WIDTH, 1)
    local, remote, (_, _, sites) = engines(X, y, Logistic(), site_of)
    how = {"method": "dual", "budget": 30, "goal_weight": 1.0}
    solver = Block(tolerance=1e-9, max_steps=1000, staleness=2)
    best = teach(st.Federation(local), Learner(Logistic(), 30.0), PerturbedFit(3), **how)
    for engine in (local, remote):
        lesson = teach(st.Federation(engine), Learner(Logistic(), 30.0), PerturbedFit(3), solver=solver, **how)
        assert lesson.converged, lesson.reason
        assert lesson.gap[-1] <= 1e-9 * abs(lesson.objective[-1])
        assert lesson.objective[-1] == pytest.approx(best.objective[-1], rel=2e-9)
        np.testing.assert_allclose(lesson.model, best.model, rtol=1e-6)
    asked = [entry for entry in log_of(sites["t0"].guard.audit) if entry.get("query") == "BlockOffer"]
    alone = [entry for entry in lesson.ledger if entry.teacher == "t0"]
    both = [entry for entry in lesson.ledger if entry.query == "BlockOffer" and entry.teacher is None]
    assert len(asked) == len(alone) + len(both)


class Cut(Loopback):
    """A line to everybody but one, from some message on."""

    def ask(self, requests, seconds):
        lost = any(b'"BlockOffer"' in data for data in requests.values())
        return super().ask({name: data for name, data in requests.items() if not (lost and name == "t1")}, 1.0)


def test_a_teacher_lost_in_an_asynchronous_round_is_named(pool, site_of):
    """The others' replies do not hide it."""
    X, y = pool("logistic", 300, WIDTH, 1)
    _, _, (_, _, sites) = engines(X, y, Logistic(), site_of)
    line = Cut({name: site.answer for name, site in sites.items()})
    agreement = agree(line, "another", tuple(sites), Learner(Logistic()))
    how = {"method": "dual", "budget": 30, "solver": Block(staleness=3)}
    with pytest.raises(TeacherLost, match="teacher t1 is lost: it gave no answer to BlockOffer"):
        teach(st.Federation(agreement.engine(line)), Learner(Logistic()), PerturbedFit(3), **how)


def test_a_conjugate_that_overflows_loses_nobody(pool, site_of):
    """Poisson's Σh* is infinite far out: asynchronous rounds go on over a line as they do in one process."""
    draw = np.random.default_rng(0)
    X = 3.0 * draw.standard_normal((120, WIDTH))
    y = draw.poisson(np.exp(X @ [0.5, -0.3, 0.2] / 3.0)).astype(float)
    local, remote, _ = engines(X, y, Poisson(), site_of)
    goal, infinite = np.array([0.25, -0.15, 0.1]), []
    how = {"method": "dual", "budget": 30, "solver": Block(staleness=2)}
    for engine in (local, remote):
        arrival = engine.arrival

        def look(arrival=arrival):
            position, values = arrival()
            infinite.append(np.isinf(values[0]))
            return position, values

        engine.arrival = look
        lesson = teach(st.Federation(engine), Learner(Poisson(), 0.01, "none"), goal, **how)
        assert np.isfinite(lesson.objective[-1])
        assert any(infinite), "no sum has overflowed, so nothing was tested"
        infinite.clear()


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


@pytest.mark.parametrize("make", [st.InProcess, lambda teachers: Delayed(teachers, float)])
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


def test_a_message_that_comes_again_during_the_work_on_it_is_worked_on_once(pool, site_of, monkeypatch):
    """A line sends again what it may have lost; the second waits for the first and gets the same bytes."""
    X, y = pool("logistic", 60, WIDTH, 1)
    _, _, (_, agreement, sites) = engines(X, y, Logistic(), site_of)
    answer, work, begun, go_on = st.Teacher.answer, [], threading.Event(), threading.Event()

    def slowly(self, *given):
        work.append(1)
        begun.set()
        go_on.wait(30)
        return answer(self, *given)

    monkeypatch.setattr(st.Teacher, "answer", slowly)
    message = wire.pack_question(agreement.lesson, 1, queries.Prepare(Logistic(), 0.0))
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(sites["t0"].answer, message)
        assert begun.wait(30)
        second = threads.submit(sites["t0"].answer, message)
        go_on.set()
        assert first.result(30) == second.result(30)
    assert work == [1]

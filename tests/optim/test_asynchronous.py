"""Asynchronous block rounds: whatever the delays, the certified optimum of the synchronous rule and of Newton."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import superteach as st
from superteach.coordinator.methods import dual
from superteach.exceptions import SettingError
from superteach.losses import LOSSES
from superteach.optim import Block, Newton
from superteach.optim.block import Waiting
from superteach.optim.problem import Certified, DualProblem
from superteach.protocol.queries import Offers, Prepare
from tests.conftest import make_pool
from tests.delayed import Delayed
from tests.optim.test_block import FEATURES, GOAL, PROBLEM, RIDGE, ROWS, SPARSITY, plain_objective

TOLERANCE = 1e-7


class Run:
    """One solve over teachers with delays, and what they keep for themselves at its end."""

    def __init__(self, kind, K, solver, delay, problem=PROBLEM, seed=21) -> None:
        self.kind, self.problem = kind, problem
        self.X, self.y = make_pool(kind, ROWS, FEATURES, seed)
        self.engine = Delayed(
            [
                st.Teacher(f"t{place}", self.X[part], self.y[part], part)
                for place, part in enumerate(np.array_split(np.arange(ROWS), K))
            ],
            delay,
        )
        self.federation = st.Federation(self.engine)
        self.federation.sum(Prepare(LOSSES[kind](), 0.0))
        dual.weigh(self.federation, problem, SPARSITY, solver)
        self.threshold = self.pooled("threshold")
        self.trace = dual.solve(self.federation, problem, solver)

    def pooled(self, name: str) -> np.ndarray:
        return np.concatenate([getattr(state, name) for state in self.engine.states()])

    def check(self) -> None:
        """The α that the teachers hold has the objective that was certified, and that is the optimum."""
        trace = self.trace
        assert trace.converged, trace.reason
        found = plain_objective(self.kind, self.X, self.y, self.threshold, self.pooled("alpha"), self.problem)
        optimum = dual.solve(self.federation, self.problem, Newton(tolerance=1e-13)).objective[-1]
        rounding = 2e-12 * abs(optimum)
        assert trace.objective[-1] == pytest.approx(found, rel=1e-11)
        assert -rounding <= found - optimum <= trace.gap[-1] + rounding
        assert trace.gap[-1] <= TOLERANCE * abs(found)
        low, high = LOSSES[self.kind]().domain(self.y)
        assert np.all((low <= self.pooled("alpha")) & (self.pooled("alpha") <= high))


@pytest.mark.parametrize("kind", sorted(LOSSES))
@pytest.mark.parametrize("K", [1, 3, 7])
def test_one_slow_teacher(kind, K):
    """Every loss reaches the certified optimum although the first teacher is ten times slower."""
    solver = Block(tolerance=TOLERANCE, max_steps=400, staleness=10)
    Run(kind, K, solver, lambda position: 1.0 if position else 10.0).check()


@settings(max_examples=40, deadline=None)
@given(
    kind=some.sampled_from(sorted(LOSSES)),
    K=some.integers(2, 6),
    staleness=some.integers(1, 30),
    seed=some.integers(0, 2**32 - 1),
    spread=some.floats(0.0, 3.0),
)
def test_any_delays(kind, K, staleness, seed, spread):
    """However delays are drawn, anew for every reply, the end is the certified optimum."""
    draw = np.random.default_rng(seed)
    solver = Block(tolerance=TOLERANCE, max_steps=1000, staleness=staleness)
    Run(kind, K, solver, lambda position: float(draw.lognormal(0.0, spread)), seed=seed % 1000).check()


@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_a_strong_pull(kind):
    """Blocks that are tied together closely, where a full stale step would diverge."""
    problem = DualProblem(RIDGE, GOAL, goal_weight=300.0)
    solver = Block(tolerance=TOLERANCE, max_steps=4000, staleness=5)
    Run(kind, 4, solver, lambda position: 1.0 + 3.0 * position, problem).check()


@settings(max_examples=100, deadline=None)
@given(seed=some.integers(0, 2**32 - 1), scale=some.floats(1e-3, 1e3))
def test_the_share_taken_never_raises_the_objective(seed, scale):
    """Against the objective in plain NumPy: offers made for another model, even absurd ones."""
    draw = np.random.default_rng(seed)
    X, y = make_pool("logistic", 40, FEATURES, seed % 1000)
    threshold = draw.uniform(0.0, 1.0, 40)
    problem = DualProblem(scale, GOAL, goal_weight=draw.uniform(0.0, 100.0))
    alpha, offer = y * draw.uniform(0.0, 1.0, (2, 40))

    def objective(a):
        return plain_objective("logistic", X, y, threshold, a, problem)

    model, change = X.T @ alpha / scale, X.T @ (offer - alpha) / scale
    loss = LOSSES["logistic"]()
    rise = float(
        loss.penalised_conjugate(offer, y, threshold).sum() - loss.penalised_conjugate(alpha, y, threshold).sum()
    )
    share = problem.share(model, change, rise)
    assert 0.0 <= share <= 1.0
    assert objective(alpha + share * (offer - alpha)) <= objective(alpha) + 1e-10 * abs(objective(alpha))
    bounds = [s * rise + problem.pull(model + s * change) for s in (share, *np.linspace(0.0, 1.0, 201))]
    assert bounds[0] <= min(bounds) + 1e-10 * max(map(abs, bounds))


@given(K=some.integers(1, 6), staleness=some.integers(1, 8), picks=some.lists(some.integers(0, 99), max_size=200))
def test_staleness_is_bounded(K, staleness, picks):
    """While a question is open no other teacher answers more than staleness + 1 times, and nobody waits for nothing."""
    waiting, asked, answers = Waiting(K, staleness), {}, [0] * K
    for pick in picks:
        for position in waiting.free():
            assert position not in asked
            waiting.ask(position)
            asked[position] = list(answers)
        assert asked
        answering = sorted(asked)[pick % len(asked)]
        del asked[answering]
        waiting.hear(answering)
        answers[answering] += 1
        for before in asked.values():
            assert max(now - then for now, then in zip(answers, before, strict=True)) <= staleness + 1


def test_a_silent_teacher_holds_the_others_in_the_end():
    """The others answer staleness + 1 times and then wait."""
    waiting = Waiting(3, 4)
    for position in waiting.free():
        waiting.ask(position)
    answers = 0
    while True:
        for position in (1, 2):
            waiting.hear(position)
            answers += 1
        if not waiting.free():
            break
        for position in waiting.free():
            waiting.ask(position)
    assert answers == 2 * (4 + 1)
    assert waiting.any


def test_a_slow_teacher_costs_less_time_than_in_synchronous_rounds():
    """On a counted clock, to the same certified gap."""
    clocks = []
    for staleness in (0, 10):
        solver = Block(tolerance=1e-5, max_steps=2000, staleness=staleness)
        run = Run("logistic", 5, solver, lambda position: 1.0 if position else 10.0)
        assert run.trace.converged
        clocks.append(run.engine.clock)
    assert clocks[1] < clocks[0] / 2.0


def test_the_same_delays_give_the_same_bits():
    """Nothing but the order of arrivals decides the outcome."""
    solver = Block(tolerance=TOLERANCE, max_steps=400, staleness=3)
    points = [Run("squared", 3, solver, lambda position: 1.0 + position).trace.point for _ in range(2)]
    assert points[0].tobytes() == points[1].tobytes()


def test_staleness_0_is_the_synchronous_rule_and_asks_nobody_alone(pool, federation_of):
    """To the last bit, and with the same ledger."""
    X, y = pool("logistic", 300, FEATURES, 1)
    learner = st.Learner(LOSSES["logistic"](), 3.0)
    lessons = [
        st.teach(federation_of(X, y, 3), learner, GOAL, budget=30, method="dual", solver=solver)
        for solver in (
            Block(max_steps=20),
            Block(max_steps=20, staleness=0),
            Block(max_steps=20, staleness=2),
        )
    ]
    plain, zero, stale = lessons
    assert plain.model.tobytes() == zero.model.tobytes()
    assert [entry.query for entry in plain.ledger] == [entry.query for entry in zero.ledger]
    assert {entry.teacher for entry in zero.ledger} == {None}
    assert {entry.teacher for entry in stale.ledger} == {None, "t0", "t1", "t2"}


def test_the_ledger_says_who_was_asked_alone(pool, federation_of):
    """One teacher's bytes for a post, everybody's for the sum at the end; numbers never repeat."""
    X, y = pool("squared", 60, FEATURES, 1)
    federation = federation_of(X, y, 3, LOSSES["squared"]())
    dual.weigh(federation, PROBLEM, SPARSITY, Block())
    first = len(federation.ledger)
    dual.solve(federation, PROBLEM, Block(max_steps=5, staleness=2, tolerance=0.0))
    entries = federation.ledger[first:]
    *alone, last = entries
    assert len(alone) == 3 * 5
    assert {entry.query for entry in entries} == {"BlockOffer"}
    assert all(entry.teacher in federation.names for entry in alone)
    assert last.teacher is None
    assert last.bytes_in == 3 * alone[0].bytes_in == 3 * 8 * (3 + 2 * FEATURES)
    numbers = [entry.number for entry in federation.ledger]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))


def test_the_report_counts_who_was_asked_alone(pool, federation_of, tmp_path):
    """The page does not say that all answered the same questions."""
    X, y = pool("logistic", 300, FEATURES, 1)
    learner = st.Learner(LOSSES["logistic"](), 3.0)
    how = {"budget": 30, "method": "dual"}
    for staleness, said in ((0, False), (2, True)):
        solver = Block(max_steps=5, tolerance=0.0, staleness=staleness)
        lesson = st.teach(federation_of(X, y, 3), learner, GOAL, solver=solver, **how)
        lesson.save(tmp_path / "lesson.json")
        again = st.Lesson.load(tmp_path / "lesson.json")
        assert again.ledger == lesson.ledger
        again.report(tmp_path / "report.html")
        page = re.sub(r"<[^>]+>", "", (tmp_path / "report.html").read_text(encoding="utf-8"))
        assert ("asked alone in a share of 15 asynchronous ones" in page) is said


class Overflowing:
    """Blocks whose replies have an infinite sum."""

    def __init__(self, reply) -> None:
        self.posts, self.sums, self.reply, self._open = 0, 0, reply, []

    def post(self, position, model, taken):
        self.posts += 1
        self._open.append(position)

    def arrival(self):
        return self._open.pop(0), self.reply

    def offers(self, model, taken):
        self.sums += 1
        assert self.sums == 1, "all are asked together although nobody was asked alone"
        return self.reply


@pytest.mark.parametrize("sums", [(1.0, np.inf), (np.inf, np.inf), (np.inf, 1.0), (1.0, np.nan)])
def test_what_has_overflowed_is_not_near_the_optimum(sums):
    """An infinite gap is not a small share of an infinite objective: teachers are asked up to the limit."""
    none = np.zeros(FEATURES)
    blocks = Overflowing(Offers(*sums, 1.0, none, none))
    trace = Block(max_steps=5, staleness=2).solve(blocks, PROBLEM, 2, lambda certificate: None)
    assert blocks.posts == trace.steps == 2 * 5
    assert not trace.converged


@pytest.mark.parametrize("objective", [np.inf, -np.inf, np.nan])
def test_an_objective_that_has_overflowed_is_not_certified(objective, pool, federation_of):
    """No gap, not even an infinite one, is a small share of it."""
    federation = federation_of(*pool("squared", 60, FEATURES, 1), 2, LOSSES["squared"]())
    dual.weigh(federation, PROBLEM, SPARSITY, Block())

    class Overflown(DualProblem):
        def certify_block(self, *_):
            return Certified(objective, np.inf)

    for staleness in (0, 2):
        trace = dual.solve(federation, Overflown(**vars(PROBLEM)), Block(max_steps=3, staleness=staleness))
        assert not trace.converged, trace.reason


@pytest.mark.parametrize("staleness", [-1, 1.5, True, None])
def test_a_bad_staleness_is_refused(staleness):
    """A whole number from 0."""
    with pytest.raises(SettingError, match="staleness"):
        Block(staleness=staleness).check(3, False)


def test_beta_goes_with_synchronous_rounds_only():
    """Asynchronous steps are found, not given."""
    with pytest.raises(SettingError, match="beta"):
        Block(staleness=1, beta=2.0).check(3, False)


def test_an_engine_that_asks_all_together_is_named(pool, federation_of):
    """Before any round of the lesson."""
    whole = federation_of(*pool("logistic", 60, FEATURES, 1), 2).engine

    class Plain:
        names, features = whole.names, whole.features

        def sum(self, query, number):
            return whole.sum(query, number)

    federation = st.Federation(Plain())
    learner = st.Learner(LOSSES["logistic"](), 1.0)
    with pytest.raises(SettingError, match="Plain asks all teachers together"):
        st.teach(federation, learner, GOAL, method="dual", solver=Block(staleness=1))
    assert federation.ledger == ()

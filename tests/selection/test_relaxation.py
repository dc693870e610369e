"""The relaxed choice against the rows themselves: linear and conic programming, exact fractions, and rows in memory."""

from __future__ import annotations

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy.special import expit, logit

from superteach.coordinator.methods.match import FederatedRows
from superteach.losses import LOSSES
from superteach.optim import Newton
from superteach.protocol.queries import Envelope, Include
from superteach.selection import relaxation
from superteach.selection.relaxation import BINS, DEFAULT, SHORTEST, OwnRows, RelaxationOptions, prior, relax
from tests.oracles import solve_tightly
from tests.selection.oracle import can_be_met, equations_of, gradients_of, margin_of

SOLVER = Newton(max_steps=DEFAULT.steps)
problems = pytest.mark.parametrize(
    ("kind", "free"),
    [("logistic", False), ("logistic", True), ("squared", False), ("squared", True)],
    ids=["logistic", "logistic with intercept", "squared", "squared with intercept"],
)


class Question:
    """One pool, goal and size, and the probabilities found; the equations stand ready for other judges."""

    def __init__(self, federation_of, kind, X, y, goal, size, *, ridge=1.0, free=False, K=3, seed=0, thin=True):
        self.federation = federation_of(X, y, K, LOSSES[kind](), 1.0 if free else 0.0)
        rows = np.column_stack([X, np.ones(len(y))]) if free else X
        self.gradients = gradients_of(kind, rows, y, goal)
        weights = np.full(len(goal), ridge)
        if free:
            weights[-1] = 0.0
        self.target, self.size, self.goal = np.append(weights * goal, size), size, goal
        eta = rows @ goal
        bend = expit(eta) * expit(-eta) if kind == "logistic" else np.ones(len(y))
        curvature = (rows.T * bend) @ rows * (size / len(y)) + np.diag(weights + 1e-9)
        self.metric = np.linalg.cholesky(np.linalg.inv(curvature)).T
        self.rows = FederatedRows(self.federation, goal, self.metric, seed)
        self.found = relax(self.rows, self.metric, self.target[:-1], size, SOLVER, thin)
        self.proof = None
        if not self.found.met:
            direction = self.found.direction / np.linalg.norm(self.found.direction)
            margin = self.margin(direction)
            self.proof = (direction, margin) if margin > 0.0 else None

    def margin(self, direction: np.ndarray) -> float:
        """What teachers' sums prove along a direction; not above 0: nothing."""
        reached = self.federation.sum(Envelope(direction, self.goal, np.zeros(len(self.goal)), np.zeros(1)))[0, 0]
        return float(direction @ self.target) - float(reached)

    def probabilities(self) -> np.ndarray:
        """b_j of all rows, from the gradients above and the log-odds that teachers keep; 0 for rows not sampled."""
        b, first = np.zeros(len(self.gradients)), 0
        lifted = equations_of(self.gradients).T @ self.found.dual
        for state in self.federation.engine.states():
            own = len(state.gradients.bins)
            index = np.arange(own) if state.sample.index is None else state.sample.index
            b[first + index] = expit(state.sample.odds[:] + lifted[first + index])
            first += own
        return b


def goals_near_and_far(kind: str, free: bool, pool, seed: int):
    """A pool of 1,000 to 2,000 rows with a goal: near what the rows say, or many times too long."""
    rng = np.random.default_rng([seed, free])
    X, y = pool(kind, int(rng.integers(1000, 2001)), 4, seed)
    truth = np.linalg.lstsq(X, y, rcond=None)[0]
    goal = truth + 0.7 * np.linalg.norm(truth) * rng.standard_normal(4) / 2.0
    if free:
        goal = np.append(goal, 0.2 * rng.standard_normal())
    return X, y, goal * (rng.uniform(20.0, 60.0) if seed % 2 else 1.0), int(rng.integers(30, 200))


@pytest.mark.parametrize(("size", "unknowns"), [(20, 3), (60, 30), (200, 5), (200, 60), (900, 11), (1900, 4)])
@pytest.mark.parametrize("spread", [0.3, 2.0, 6.0])
def test_the_prior_adds_up_to_the_size(size, unknowns, spread):
    """Probabilities of 5,000 rows of many lengths: half of the lesson evenly, half by octaves."""
    bins = relaxation.bins_of(np.exp(spread * np.random.default_rng(3).standard_normal(5000)))
    odds = prior(np.bincount(bins, minlength=BINS), size, unknowns)
    assert odds.shape == (BINS,)
    probability = expit(odds)[bins]
    assert probability.sum() == pytest.approx(size, rel=0.02)
    assert probability.min() >= 0.5 * size / 5000 * (1.0 - 1e-6)
    # Beyond the even part an octave gives at most half of its rows.
    assert np.all(probability - 0.5 * size / 5000 <= 0.5 * DEFAULT.ladder + 1e-9)


def test_the_prior_spreads_a_lesson_over_lengths():
    bins = relaxation.bins_of(np.exp2(np.random.default_rng(0).uniform(-8.0, 0.0, 5_000)))
    likely = expit(prior(np.bincount(bins, minlength=BINS), 200, 11))[bins]
    assert likely.sum() == pytest.approx(200.0, rel=1e-3)
    parts = [likely[bins == one].sum() for one in np.unique(bins)]
    assert max(parts) < 2.0 * min(parts)


def test_the_prior_of_all_rows_and_of_rows_that_change_nothing():
    """No probability is 0 or 1, whatever is asked for."""
    counts = np.zeros(BINS, dtype=np.int64)
    counts[70] = 40
    assert expit(prior(counts, 40, 3))[70] < 1.0
    counts[70], counts[0] = 0, 40
    np.testing.assert_allclose(expit(prior(counts, 10, 3))[0], 0.25)


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_are_the_nearest_in_relative_entropy(seed):
    """Of all that meet the target, by a conic solver; both asked for many digits."""
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=(40, 3))
    target = draw.uniform(0.2, 0.5, 40) @ vectors
    rows = OwnRows(vectors, draw)
    sharp = RelaxationOptions(softness=1e-12, met=1e-8)
    found = relax(rows, np.ones(3), target, 14, Newton(max_steps=50), False, options=sharp)
    near = expit(rows.odds)
    b = cp.Variable(40)
    apart = cp.sum(cp.kl_div(b, near) + cp.kl_div(1 - b, 1 - near))
    least = solve_tightly(cp.Problem(cp.Minimize(apart), [vectors.T @ b == target, cp.sum(b) == 14.0]))
    assert found.met
    ours = rows.probabilities(found.dual)
    np.testing.assert_allclose(ours @ vectors, target, atol=1e-6)
    assert ours.sum() == pytest.approx(14.0, abs=1e-6)
    np.testing.assert_allclose(ours, b.value, atol=1e-4)
    away = np.sum(ours * np.log(ours / near) + (1.0 - ours) * np.log((1.0 - ours) / (1.0 - near)))
    assert away == pytest.approx(least, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_target_out_of_reach_is_approached_as_near_as_can_be(seed):
    """By a conic solver, within a twentieth."""
    draw = np.random.default_rng(seed)
    vectors, target = np.abs(draw.normal(size=(200, 2))), draw.uniform(-6.0, -2.0, 2)
    rows = OwnRows(vectors, draw)
    found = relax(rows, np.ones(2), target, 20, SOLVER, False)
    likely = rows.probabilities(found.dual)
    b = cp.Variable(200)
    away = cp.norm(target - vectors.T @ b)
    least = solve_tightly(cp.Problem(cp.Minimize(away), [b >= 0, b <= 1, cp.sum(b) == likely.sum()]))
    assert not found.met
    assert found.freedom == pytest.approx((likely * (1.0 - likely)).sum(), rel=1e-6)
    np.testing.assert_allclose(found.total, likely @ vectors, rtol=1e-6)
    assert likely.sum() == pytest.approx(20.0, abs=1.0)  # a teacher's last dual variable is put right afterwards
    assert least * 0.99 <= np.linalg.norm(target - found.total) <= least * 1.05


@problems
def test_rows_in_memory_and_a_federation_have_the_same_probabilities(kind, free, pool, federation_of):
    """Three teachers with gradients, or their vectors M g_j in one place: the same problem, to rounding."""
    for seed in (2, 3):  # a goal within reach, and one that is not
        X, y, goal, size = goals_near_and_far(kind, free, pool, seed)
        asked = Question(federation_of, kind, X, y, goal, size, free=free, thin=False)
        own = OwnRows(asked.gradients @ asked.metric.T, np.random.default_rng(0))
        found = relax(own, np.ones(len(goal)), asked.metric @ asked.target[:-1], size, SOLVER, False)
        assert found.met == asked.found.met == (seed == 2)
        np.testing.assert_allclose(found.target, asked.found.target, rtol=1e-9, atol=1e-12)
        assert (found.idle, found.idle_mass) == (asked.found.idle, pytest.approx(asked.found.idle_mass, abs=1e-6))
        left = [np.linalg.norm(one.target - one.total) for one in (found, asked.found)]
        if found.met:
            np.testing.assert_allclose(own.probabilities(found.dual), asked.probabilities(), rtol=1e-4, atol=1e-7)
            assert found.freedom == pytest.approx(asked.found.freedom, rel=1e-4)
        else:  # steps end where the gradient is a tenth of δv: far out dual variables may differ by as much
            assert left[0] == pytest.approx(left[1], rel=0.3)


@problems
@pytest.mark.parametrize("thin", [False, True])
def test_probabilities_meet_the_goal(kind, free, thin, pool, federation_of):
    """With b from the rows: Σ b_j g_j = Λθ* and Σ b_j = n, to a tenth of a row; and such a b exists by HiGHS too."""
    X, y, goal, size = goals_near_and_far(kind, free, pool, 2)
    asked = Question(federation_of, kind, X, y, goal, size, free=free, thin=thin)
    assert asked.found.met
    assert can_be_met(asked.gradients, asked.target)
    b = asked.probabilities()
    moved = asked.gradients @ asked.metric.T
    usual = np.sqrt(b @ np.square(moved).sum(axis=1) / size)
    left = equations_of(asked.gradients) @ b - asked.target
    assert np.linalg.norm(asked.metric @ left[:-1]) <= 0.1 * usual
    assert abs(left[-1]) <= 0.1
    np.testing.assert_allclose(asked.found.total, b @ moved, atol=1e-6 * usual * size)
    np.testing.assert_allclose(asked.found.target, asked.metric @ asked.target[:-1], rtol=1e-9, atol=1e-12)
    assert asked.federation.sum(Include(asked.found.dual)) == pytest.approx(b.sum(), rel=1e-9)
    states = asked.federation.engine.states()
    assert np.concatenate([state.probabilities for state in states]).sum() == pytest.approx(b.sum(), rel=1e-9)
    assert np.minimum(b, 1.0 - b).sum() > 5 * len(goal), "rounding has undecided rows to work with"


def test_log_odds_go_by_length(pool, federation_of):
    """Every row has the prior's odds of its own bin of ‖M g_j‖; rows that were sampled have at least the least one."""
    X, y, goal, size = goals_near_and_far("logistic", False, pool, 2)
    X, y = np.tile(X, (10, 1)), np.tile(y, 10)
    size = 40
    whole, thinned = (Question(federation_of, "logistic", X, y, goal, size, K=1, thin=thin) for thin in (False, True))
    bins = np.floor(np.log2(np.linalg.norm(whole.gradients @ whole.metric.T, axis=1))).astype(int) - SHORTEST
    odds = prior(np.bincount(bins, minlength=BINS), size, len(goal) + 1)[bins]
    (state,) = whole.federation.engine.states()
    assert state.sample.index is None
    np.testing.assert_allclose(state.sample.odds[:], odds, rtol=1e-9)
    (state,) = thinned.federation.engine.states()
    stays = state.sample.index
    least = min(DEFAULT.thin, size / DEFAULT.ample)
    np.testing.assert_allclose(state.sample.odds[:], np.maximum(odds[stays], logit(least)), rtol=1e-9)
    likely = np.minimum(expit(odds) / least, 1.0)
    assert set(np.flatnonzero(likely >= 1.0)) <= set(stays)
    assert abs(len(stays) - likely.sum()) < 5.0 * np.sqrt(likely @ (1.0 - likely)) + 1e-9
    # In the mean the lesson has as many rows as before.
    expected = expit(np.maximum(odds[stays], logit(least))).sum()
    assert expected == pytest.approx(size, rel=0.3)


def test_who_holds_which_row_changes_nothing(pool, federation_of):
    """Rows are sampled by their ids and all else is sums: one teacher and seven get the same probabilities."""
    X, y, goal, size = goals_near_and_far("squared", True, pool, 6)
    one, seven = (Question(federation_of, "squared", X, y, goal, size, free=True, K=K) for K in (1, 7))
    np.testing.assert_allclose(one.found.dual, seven.found.dual, rtol=1e-6)
    np.testing.assert_allclose(one.probabilities(), seven.probabilities(), rtol=1e-6)


def test_the_units_of_columns_do_not_matter(pool, federation_of):
    """Columns a million times as long, and a goal a million times as short: the same probabilities."""
    X, y, goal, size = goals_near_and_far("logistic", False, pool, 4)
    unit = np.array([1e6, 1.0, 1e-3, 10.0])
    found = []
    for scale in (np.ones(4), unit):
        asked = Question(federation_of, "logistic", X * scale, y, goal / scale, size, ridge=1e-30)
        assert asked.found.met
        found.append(asked.probabilities())
    np.testing.assert_allclose(found[0], found[1], atol=0.02)


@problems
def test_the_verdict_is_that_of_linear_programming(kind, free, pool, federation_of):
    """Sixteen goals each, near ones and far ones: proved to be out of reach exactly where HiGHS finds no b."""
    verdicts = []
    for seed in range(16):
        X, y, goal, size = goals_near_and_far(kind, free, pool, seed)
        asked = Question(federation_of, kind, X, y, goal, size, free=free, seed=seed)
        verdicts.append(can_be_met(asked.gradients, asked.target))
        assert asked.found.met == verdicts[-1], seed
        assert (asked.proof is None) == verdicts[-1], seed
        if asked.proof is not None:
            direction, margin = asked.proof
            assert np.linalg.norm(direction) == pytest.approx(1.0)
            assert margin == pytest.approx(margin_of(direction, asked.gradients, asked.target), rel=1e-9)
            assert margin > 0.0
    assert 5 <= sum(verdicts) <= 11


numbers = some.integers(-4, 4)


@settings(max_examples=150, deadline=None)
@given(some.data(), some.integers(1, 12), some.integers(1, 3), some.integers(1, 3))
def test_no_proof_is_false(federation_of, data, rows, features, K):
    """Tiny pools of whole numbers, many of them on the very edge: exact fractions confirm every proof."""
    line = some.lists(numbers, min_size=features, max_size=features)
    X = np.array(data.draw(some.lists(line, min_size=rows, max_size=rows)), dtype=float)
    y = np.array(data.draw(some.lists(numbers, min_size=rows, max_size=rows)), dtype=float)
    goal = np.array(data.draw(line), dtype=float) * data.draw(some.sampled_from([0.5, 1.0, 8.0]))
    size = data.draw(some.integers(1, rows))
    asked = Question(federation_of, "squared", X, y, goal, size, K=min(K, rows))
    if asked.proof is None:
        return
    direction = [Fraction(float(number)) for number in asked.proof[0]]
    margin = sum(u * Fraction(float(t)) for u, t in zip(direction, asked.target, strict=True))
    for lifted in equations_of(asked.gradients).T:
        margin -= max(Fraction(0), sum(u * Fraction(float(g)) for u, g in zip(direction, lifted, strict=True)))
    assert margin > 0
    if margin > 1e-4:  # HiGHS forgives violations of 1e-7
        assert not can_be_met(asked.gradients, asked.target)


@settings(max_examples=60, deadline=None)
@given(some.integers(0, 2**32 - 1), some.sampled_from(["logistic", "squared"]), some.booleans())
def test_random_pools_get_no_false_proof(pool, federation_of, seed, kind, free):
    """Random pools of 6 to 60 rows, where about half of all goals are out of reach."""
    rng = np.random.default_rng(seed)
    features = int(rng.integers(1, 5))
    X, y = pool(kind, int(rng.integers(6, 61)), features, seed)
    goal = rng.uniform(0.1, 3.0) * rng.standard_normal(features + free)
    size = int(rng.integers(1, len(y) + 1))
    asked = Question(federation_of, kind, X, y, goal, size, ridge=rng.uniform(0.01, 3.0), free=free)
    if asked.proof is not None:
        margin = margin_of(asked.proof[0], asked.gradients, asked.target)
        assert margin == pytest.approx(asked.proof[1], rel=1e-6)
        assert margin > 0.0
        assert margin < 1e-4 or not can_be_met(asked.gradients, asked.target)
    if asked.found.met:
        b = asked.probabilities()
        left = equations_of(asked.gradients) @ b - asked.target
        moved = asked.gradients @ asked.metric.T
        assert np.linalg.norm(asked.metric @ left[:-1]) <= 0.1 * np.sqrt(np.square(moved).sum(axis=1).max())
        assert abs(left[-1]) <= 0.1


def test_a_direction_that_proves_nothing_gives_no_proof(pool, federation_of):
    """For a goal within reach no direction is accepted, whichever is offered."""
    X, y, goal, size = goals_near_and_far("logistic", False, pool, 0)
    asked = Question(federation_of, "logistic", X, y, goal, size)
    rng = np.random.default_rng(0)
    for _ in range(30):
        assert asked.margin(rng.standard_normal(5)) < 0.0
    assert asked.margin(np.zeros(5)) == 0.0

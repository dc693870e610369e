"""Prices against the rows themselves: linear programming, exact fractions, and every subset of tiny pools."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy.optimize import linprog
from scipy.special import expit, logit

from superteach.losses import LOSSES
from superteach.protocol.queries import Envelope, Price
from superteach.protocol.queries.match import OCTAVES, SHORTEST
from superteach.selection import prices

problems = pytest.mark.parametrize(
    ("kind", "free"),
    [("logistic", False), ("logistic", True), ("squared", False), ("squared", True)],
    ids=["logistic", "logistic with intercept", "squared", "squared with intercept"],
)


def pulls_of(kind: str, X: np.ndarray, y: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """g_j = −ℓ'(x_j'θ*) x_j, written out for the two losses."""
    eta = X @ goal
    slope = y * expit(-y * eta) if kind == "logistic" else y - eta
    return slope[:, None] * X


def equations_of(pulls: np.ndarray) -> np.ndarray:
    """The matrix that b is multiplied with: one line per coefficient, and one that counts rows."""
    return np.vstack([pulls.T, np.ones(len(pulls))])


def can_be_balanced(pulls: np.ndarray, target: np.ndarray) -> bool:
    """HiGHS's verdict on 0 ≤ b ≤ 1, Σ b g = Λθ*, Σ b = n."""
    found = linprog(np.zeros(len(pulls)), A_eq=equations_of(pulls), b_eq=target, bounds=(0.0, 1.0))
    assert found.status in (0, 2)
    return found.status == 0


def margin_of(direction: np.ndarray, pulls: np.ndarray, target: np.ndarray) -> float:
    """u'(Λθ*, n) − Σ_j max(0, u'(g_j, 1)), from the rows."""
    return float(direction @ target - np.maximum(direction @ equations_of(pulls), 0.0).sum())


class Question:
    """One pool, goal and size, and the prices that teachers agree on; the equations stand ready for other judges."""

    def __init__(self, federation_of, kind, X, y, goal, size, *, ridge=1.0, free=False, K=3, seed=0, **how):
        self.federation = federation_of(X, y, K, LOSSES[kind](), 1.0 if free else 0.0)
        rows = np.column_stack([X, np.ones(len(y))]) if free else X
        self.pulls = pulls_of(kind, rows, y, goal)
        weights = np.full(len(goal), ridge)
        if free:
            weights[-1] = 0.0
        self.target, self.size, self.goal = np.append(weights * goal, size), size, goal
        eta = rows @ goal
        bend = expit(eta) * expit(-eta) if kind == "logistic" else np.ones(len(y))
        curvature = (rows.T * bend) @ rows * (size / len(y)) + np.diag(weights + 1e-9)
        self.metric = np.linalg.cholesky(np.linalg.inv(curvature)).T
        self.prices = prices.agree(self.federation.sum, goal, self.target[:-1], self.metric, size, seed, **how)
        self.proof = None
        if not self.prices.balanced:
            direction = self.prices.point / np.linalg.norm(self.prices.point)
            margin = self.margin(direction)
            self.proof = (direction, margin) if margin > 0.0 else None

    def margin(self, direction: np.ndarray) -> float:
        """What teachers' sums prove along a direction; not above 0: nothing."""
        reached = self.federation.sum(Envelope(direction, self.goal, np.zeros(len(self.goal)), np.zeros(1)))[0, 0]
        return float(direction @ self.target) - float(reached)

    def fractions(self) -> np.ndarray:
        """b_j of all rows, from the pulls above and the log-odds that teachers keep; 0 for rows not drawn."""
        b, first = np.zeros(len(self.pulls)), 0
        lifted = equations_of(self.pulls).T @ self.prices.point
        for state in self.federation.engine.states():
            own = len(state.balance.octave)
            index = np.arange(own) if state.drawing.index is None else state.drawing.index
            b[first + index] = expit(state.drawing.odds[:] + lifted[first + index])
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
def test_the_ladder_is_about_as_long_as_the_lesson(size, unknowns, spread):
    """Probabilities of 5,000 rows of many strengths add up to the size: half of it evenly, half by octaves."""
    lengths = np.exp(spread * np.random.default_rng(3).standard_normal(5000))
    octave = np.clip(np.floor(np.log2(lengths)).astype(int) - SHORTEST, 0, OCTAVES - 1)
    counts = np.bincount(octave, minlength=OCTAVES)
    odds = prices.ladder(counts, size, unknowns)
    assert odds.shape == (OCTAVES,)
    probability = expit(odds)[octave]
    assert probability.sum() == pytest.approx(size, rel=0.02)
    assert probability.min() >= 0.5 * size / 5000 * (1.0 - 1e-6)
    # Beyond the even part an octave gives at most half of its rows.
    assert np.all(probability - 0.5 * size / 5000 <= 0.5 * prices.LADDER + 1e-9)


def test_a_ladder_for_all_rows_and_for_rows_that_pull_at_nothing():
    """No probability is 0 or 1, whatever is asked for."""
    counts = np.zeros(OCTAVES, dtype=np.int64)
    counts[70] = 40
    assert expit(prices.ladder(counts, 40, 3))[70] < 1.0
    counts[70], counts[0] = 0, 40
    np.testing.assert_allclose(expit(prices.ladder(counts, 10, 3))[0], 0.25)


@problems
@pytest.mark.parametrize("thin", [False, True])
def test_prices_balance_the_goal(kind, free, thin, pool, federation_of):
    """With b from the rows: Σ b_j g_j = Λθ* and Σ b_j = n, to a tenth of a row; and such a b exists by HiGHS too."""
    X, y, goal, size = goals_near_and_far(kind, free, pool, 2)
    asked = Question(federation_of, kind, X, y, goal, size, free=free, thin=thin)
    assert asked.prices.balanced
    assert can_be_balanced(asked.pulls, asked.target)
    b = asked.fractions()
    moved = asked.pulls @ asked.metric.T
    usual = np.sqrt(b @ np.square(moved).sum(axis=1) / size)
    left = equations_of(asked.pulls) @ b - asked.target
    assert np.linalg.norm(asked.metric @ left[:-1]) <= 0.1 * usual
    assert abs(left[-1]) <= 0.1
    np.testing.assert_allclose(asked.prices.total, b @ moved, atol=1e-6 * usual * size)
    np.testing.assert_allclose(asked.prices.aim, asked.metric @ asked.target[:-1], rtol=1e-9, atol=1e-12)
    assert asked.federation.sum(Price(asked.prices.point)) == pytest.approx(b.sum(), rel=1e-9)
    states = asked.federation.engine.states()
    assert np.concatenate([state.fractions for state in states]).sum() == pytest.approx(b.sum(), rel=1e-9)
    assert np.minimum(b, 1.0 - b).sum() > 5 * len(goal), "rounding has fractions to work with"


def test_log_odds_go_by_strength(pool, federation_of):
    """Every row has the ladder's odds of its own octave, of ‖M g_j‖; rows drawn by lot at least 1/8."""
    X, y, goal, size = goals_near_and_far("logistic", False, pool, 2)
    size = 40
    whole, thinned = (Question(federation_of, "logistic", X, y, goal, size, K=1, thin=thin) for thin in (False, True))
    octave = np.floor(np.log2(np.linalg.norm(whole.pulls @ whole.metric.T, axis=1))).astype(int) - SHORTEST
    odds = prices.ladder(np.bincount(octave, minlength=OCTAVES), size, len(goal) + 1)[octave]
    (state,) = whole.federation.engine.states()
    assert state.drawing.index is None
    np.testing.assert_allclose(state.drawing.odds[:], odds, rtol=1e-9)
    (state,) = thinned.federation.engine.states()
    stays = state.drawing.index
    np.testing.assert_allclose(state.drawing.odds[:], np.maximum(odds[stays], logit(prices.LEAST)), rtol=1e-9)
    likely = np.minimum(expit(odds) / prices.LEAST, 1.0)
    assert set(np.flatnonzero(likely >= 1.0)) <= set(stays)
    assert abs(len(stays) - likely.sum()) < 5.0 * np.sqrt(likely @ (1.0 - likely)) + 1e-9
    # By lot and not otherwise: in the mean the lesson has as many rows as before.
    expected = expit(np.maximum(odds[stays], logit(prices.LEAST))).sum()
    assert expected == pytest.approx(size, rel=0.3)


def test_who_holds_which_row_changes_no_price(pool, federation_of):
    """Lots are drawn by row and all else is sums: one teacher and seven agree on the same prices."""
    X, y, goal, size = goals_near_and_far("squared", True, pool, 6)
    one, seven = (Question(federation_of, "squared", X, y, goal, size, free=True, K=K) for K in (1, 7))
    np.testing.assert_allclose(one.prices.point, seven.prices.point, rtol=1e-6)
    np.testing.assert_allclose(one.fractions(), seven.fractions(), rtol=1e-6)


def test_the_units_of_columns_do_not_matter(pool, federation_of):
    """Columns a million times as long, and a goal a million times as short: the same fractions."""
    X, y, goal, size = goals_near_and_far("logistic", False, pool, 4)
    unit = np.array([1e6, 1.0, 1e-3, 10.0])
    found = []
    for scale in (np.ones(4), unit):
        asked = Question(federation_of, "logistic", X * scale, y, goal / scale, size, ridge=1e-30)
        assert asked.prices.balanced
        found.append(asked.fractions())
    np.testing.assert_allclose(found[0], found[1], atol=0.02)


@problems
def test_the_verdict_is_that_of_linear_programming(kind, free, pool, federation_of):
    """Sixteen goals each, near ones and far ones: proved to be out of reach exactly where HiGHS finds no b."""
    verdicts = []
    for seed in range(16):
        X, y, goal, size = goals_near_and_far(kind, free, pool, seed)
        asked = Question(federation_of, kind, X, y, goal, size, free=free, seed=seed)
        verdicts.append(can_be_balanced(asked.pulls, asked.target))
        assert asked.prices.balanced == verdicts[-1], seed
        assert (asked.proof is None) == verdicts[-1], seed
        if asked.proof is not None:
            direction, margin = asked.proof
            assert np.linalg.norm(direction) == pytest.approx(1.0)
            assert margin == pytest.approx(margin_of(direction, asked.pulls, asked.target), rel=1e-9)
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
    for lifted in equations_of(asked.pulls).T:
        margin -= max(Fraction(0), sum(u * Fraction(float(g)) for u, g in zip(direction, lifted, strict=True)))
    assert margin > 0
    if margin > 1e-4:  # HiGHS forgives violations of 1e-7
        assert not can_be_balanced(asked.pulls, asked.target)


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
        margin = margin_of(asked.proof[0], asked.pulls, asked.target)
        assert margin == pytest.approx(asked.proof[1], rel=1e-6)
        assert margin > 0.0
        assert margin < 1e-4 or not can_be_balanced(asked.pulls, asked.target)
    if asked.prices.balanced:
        b = asked.fractions()
        left = equations_of(asked.pulls) @ b - asked.target
        moved = asked.pulls @ asked.metric.T
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

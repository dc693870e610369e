"""The nearest relaxed lesson: derivatives, the projection, and the descent against finite differences, CVXPY and SLSQP."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from test_small_pools import CASES, RIDGE, pool_for, pool_of

from superteach.learner import Learner
from superteach.losses import LOSSES
from superteach.losses.scalar import Weighted
from superteach.selection.nearest import NearestOptions, Pool, descend, linearised, nearest, project


def even(pool: Pool, size: int) -> np.ndarray:
    return np.full(len(pool.target), size / len(pool.target))


@pytest.mark.parametrize("seed", range(4))
def test_the_projection_is_that_of_a_quadratic_programme(seed):
    draw = np.random.default_rng(seed)
    point, total = 3.0 * draw.standard_normal(40), float(draw.integers(1, 40))
    nearest = cp.Variable(40)
    cp.Problem(
        cp.Minimize(cp.sum_squares(nearest - point)), [nearest >= 0, nearest <= 1, cp.sum(nearest) == total]
    ).solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    found = project(point, total)
    assert found.sum() == pytest.approx(total, rel=1e-10)
    np.testing.assert_allclose(found, nearest.value, atol=1e-5)


@pytest.mark.parametrize("total", [0.0, 7.0, 20.0])
def test_the_projection_ends_where_entries_are_alike_or_all_or_none(total):
    for point in (np.zeros(20), np.repeat([0.0, 1e6], 10), np.linspace(-1e-9, 1e-9, 20)):
        found = project(point, total)
        assert found.sum() == pytest.approx(total, abs=1e-9)
        assert 0.0 <= found.min() <= found.max() <= 1.0


@pytest.mark.parametrize("name", [*CASES, "Poisson", "weighted"])
def test_what_a_probability_moves_is_the_derivative(name, pool):
    """Central differences in every probability; no kink of the hinge lies within them."""
    if name in CASES:
        rows = pool_of(*CASES[name], 30, 3, 1, "predictions", pool)
    else:
        X, y = pool("poisson" if name == "Poisson" else "logistic", 30, 3, 1)
        goal, weights = np.array([0.3, -0.2, 0.1]), np.linspace(0.5, 2.0, 30)
        learner = (
            Learner(LOSSES["poisson"](), 0.05, ridge_per_row=True)
            if name == "Poisson"
            else Learner(Weighted(LOSSES["logistic"](), weights), RIDGE)
        )
        rows = pool_for(X, y, learner, goal, np.diag([1.0, 2.0, 3.0]))
    chance = np.random.default_rng(0).uniform(0.2, 0.6, 30)
    chance *= 12.0 / chance.sum()
    here, step = linearised(rows, chance, rows.goal), 1e-4
    for row in range(0, 30, 4):
        one = step * (np.arange(30) == row)
        ahead, back = (linearised(rows, chance + side * one, here.model).lacks for side in (1.0, -1.0))
        np.testing.assert_allclose(here.moves[row], (ahead - back) / (2.0 * step), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["ridge", "logistic", "Poisson"])
def test_probabilities_teach_what_scikit_learn_learns_from_weights(name, pool):
    kind = {"ridge": "squared", "logistic": "logistic", "Poisson": "poisson"}[name]
    X, y = pool(kind, 50, 3, 2)
    chance = np.random.default_rng(0).uniform(0.0, 1.0, 50)
    chance *= 20.0 / chance.sum()
    learner = Learner(LOSSES[kind](), 0.05 if name == "Poisson" else RIDGE, "free", ridge_per_row=name == "Poisson")
    rows = pool_for(np.column_stack([X, np.ones(50)]), y, learner, np.zeros(4), np.eye(4))
    estimator = {
        "ridge": Ridge(RIDGE),
        "logistic": LogisticRegression(C=1 / RIDGE, solver="newton-cholesky", tol=1e-12),
        "Poisson": PoissonRegressor(alpha=0.05, solver="newton-cholesky", tol=1e-12),
    }[name].fit(X, y, sample_weight=chance)
    expected = np.append(np.ravel(estimator.coef_), estimator.intercept_)
    np.testing.assert_allclose(linearised(rows, chance, rows.goal).model, expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["ridge", "logistic", "support vectors"])
def test_the_descent_ends_where_slsqp_does(name, seed, pool):
    """Twelve rows: no farther than a general solver from the same start, beside the part at which a descent stops."""
    rows = pool_of(*CASES[name], 12, 3, 2 * seed + 1, "coefficients", pool)
    start = even(rows, 5)
    found = descend(rows, start, NearestOptions(little=1e-8)).nearest

    def square(chance: np.ndarray) -> float:
        return (
            linearised(rows, np.clip(chance, 0.0, 1.0) * (5.0 / np.clip(chance, 0.0, 1.0).sum()), rows.goal).distance
            ** 2
        )

    best = minimize(
        square,
        start,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * 12,
        constraints={"type": "eq", "fun": lambda chance: chance.sum() - 5.0},
        options={"maxiter": 200, "ftol": 1e-10},
    )
    assert found.distance <= 1.05 * np.sqrt(best.fun) + 1e-3 * np.linalg.norm(rows.goal)


def far_pool(seed: int) -> Pool:
    """Rows in which most directions are alike, and a goal from another population."""
    draw = np.random.default_rng(seed)
    X = draw.standard_normal((1_000, 12)) @ np.diag(np.logspace(0, -1.5, 12))
    truth = draw.standard_normal(12)
    y, goal = X @ truth + 0.1 * draw.standard_normal(1_000), truth + 0.3 * draw.standard_normal(12)
    return pool_for(X, y, Learner(LOSSES["squared"](), 1.0), goal, np.linalg.qr(X / 1_000**0.5)[1])


@pytest.mark.parametrize("seed", range(3))
def test_the_way_is_downhill_at_any_size(seed):
    """Probabilities stay within bounds and keep their sum; the other end keeps the freedom that rounding needs."""
    rows = far_pool(seed)
    for size in (25, 50, 100, 200):
        begin = linearised(rows, even(rows, size), rows.goal).distance
        ends = descend(rows, even(rows, size))
        for end in ends:
            assert end.probabilities.sum() == pytest.approx(size, rel=1e-9)
            assert 0.0 <= end.probabilities.min() <= end.probabilities.max() <= 1.0
            assert end.distance == pytest.approx(linearised(rows, end.probabilities, end.model).distance, rel=1e-6)
        assert ends.nearest.distance <= ends.free.distance <= begin
        assert float(ends.free.probabilities @ (1.0 - ends.free.probabilities)) > 1.5 * 13
        assert ends.nearest.distance < 0.97 * begin


def test_a_goal_within_reach_is_met(pool):
    """As the fit of some of the rows is: the descent ends on the goal itself."""
    X, y = pool("logistic", 400, 4, 3)
    learner = LogisticRegression(C=1 / RIDGE, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
    goal = learner.fit(X[:40], y[:40]).coef_[0]
    rows = pool_for(X, y, Learner(LOSSES["logistic"](), RIDGE), goal, np.eye(4))
    assert descend(rows, even(rows, 40)).nearest.distance < 1e-5 * np.linalg.norm(goal)


def test_a_descent_stops_where_work_or_time_is_up():
    """One step is taken, and what it reached is what is returned."""
    rows = far_pool(0)
    whole = descend(rows, even(rows, 50)).nearest.distance
    short = [
        descend(some, even(rows, 50), NearestOptions(work=work)).nearest.distance
        for some, work in ((rows, 1.0), (replace(rows, late=lambda: True), 1e12))
    ]
    assert short[0] == short[1]
    assert whole < short[0] <= linearised(rows, even(rows, 50), rows.goal).distance


@pytest.mark.parametrize("seed", range(3))
def test_several_valleys_are_tried(seed, pool):
    """Targets without noise: never farther than where the descent from even probabilities ends."""
    draw = np.random.default_rng(seed)
    X, truth = draw.standard_normal((500, 5)), draw.standard_normal(5)
    goal = truth + draw.standard_normal(5)
    rows = pool_for(X, X @ truth, Learner(LOSSES["squared"](), 1.0), goal, np.eye(5))
    found = nearest(rows, 20)
    assert found.nearest.probabilities.sum() == pytest.approx(20.0, rel=1e-9)
    assert found.nearest.distance <= 1.001 * descend(rows, even(rows, 20)).nearest.distance

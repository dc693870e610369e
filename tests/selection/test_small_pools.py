"""Small pools: the best subset against fits of all of them, and exchanges by the true risk from any subset."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracle
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from superteach.learner import Intercept, Learner
from superteach.losses import LOSSES, Logistic, Squared
from superteach.losses.scalar import Weighted
from superteach.optim.problem import ridge_penalty
from superteach.selection.nearest import NearestOptions, Pool, fit
from superteach.selection.subsets import best_subset, exchange_by_risk, reduced

RIDGE = 0.7
CASES: dict[str, tuple[str, Intercept]] = {
    "ridge": ("squared", "none"),
    "ridge with an intercept": ("squared", "free"),
    "logistic": ("logistic", "none"),
    "logistic with an intercept": ("logistic", "free"),
    "support vectors": ("squared_hinge", "penalised"),
}
METRICS = ("coefficients", "predictions")


def penalty_of(width: int, intercept: Intercept, ridge: float = RIDGE) -> np.ndarray:
    return np.append(np.full(width - 1, ridge), 0.0 if intercept == "free" else ridge)


def pool_for(X, y, learner: Learner, goal, measure) -> Pool:
    """What a coordinator makes of rows that it was shown."""

    def penalty(size: int) -> np.ndarray:
        return ridge_penalty(learner.penalty(size), len(goal), learner.free_intercept).diagonal

    return Pool(X, y, learner.loss, penalty, goal, measure, learner.refuses)


def pool_of(kind: str, intercept: Intercept, rows: int, width: int, seed: int, metric: str, pool) -> Pool:
    """A pool, and a goal as far from the fit of all rows as that is long, or a third of it."""
    X, y = pool(kind, rows, width, seed)
    if intercept != "none":
        X = np.column_stack([X, np.ones(rows)])
    draw = np.random.default_rng(1000 + seed)
    penalty = penalty_of(X.shape[1], intercept)
    fitted = oracle.models(kind, X, y, penalty, np.ones((1, rows), dtype=bool))[0]
    noise = draw.standard_normal(len(fitted))
    goal = fitted + (1.0 if seed % 2 else 0.3) * noise * np.linalg.norm(fitted) / np.linalg.norm(noise)
    units = np.eye(len(fitted)) if metric == "coefficients" else np.linalg.qr(X / np.sqrt(rows), mode="r")
    return pool_for(X, y, Learner(LOSSES[kind](), RIDGE, intercept), goal, units)


def true_risks(pool: Pool, chosen: np.ndarray) -> np.ndarray:
    return oracle.risks(pool.loss.name, pool.design, pool.target, pool.penalty(1), pool.goal, pool.measure, chosen)


def assert_best(pool: Pool, low: int, high: int, seed: int = 0) -> None:
    found, risk = best_subset(pool, low, high, [], np.random.default_rng(seed))
    assert low <= found.sum() <= high
    lowest = true_risks(pool, oracle.subsets(len(pool.target), low, high)).min()
    assert risk == pytest.approx(lowest, rel=1e-6, abs=1e-9)
    assert true_risks(pool, found[None])[0] == pytest.approx(lowest, rel=1e-6, abs=1e-9)


@pytest.mark.long(every=8)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", CASES)
def test_four_of_thirty_rows_are_the_best_of_all(name, metric, seed, pool):
    assert_best(pool_of(*CASES[name], 30, 2 + seed % 4, seed, metric, pool), 4, 4, seed)


@pytest.mark.long(every=6)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", CASES)
def test_of_all_sizes_the_best_is_found(name, metric, seed, pool):
    """Fourteen rows: goals within reach and far out of it."""
    assert_best(pool_of(*CASES[name], 14, 2 + seed, seed, metric, pool), 1, 14, seed)


@pytest.mark.parametrize(("rows", "size"), [(60, 3), (100, 3), (400, 2)])
def test_two_or_three_of_many_rows_are_the_best_of_all(rows, size, pool):
    assert_best(pool_of("squared", "none", rows, 2, 1, "coefficients", pool), size, size)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["weighted", "Poisson"])
def test_weights_and_penalties_by_row_count(name, seed, pool):
    """The best of all subsets of five to seven of twelve rows; a row of weight 2 counts as two rows."""
    draw, width = np.random.default_rng(seed), 2
    X, y = pool("poisson" if name == "Poisson" else "squared", 12, width, seed)
    goal, every = 0.5 * draw.standard_normal(width), oracle.subsets(12, 5, 7)
    if name == "Poisson":
        learner = Learner(LOSSES["poisson"](), 0.05, ridge_per_row=True)
        risks = oracle.risks("poisson", X, y, np.full(width, 0.05), goal, np.eye(width), every, True)
    else:
        weights = draw.integers(1, 3, 12).astype(float)
        learner = Learner(Weighted(Squared(), weights), RIDGE)
        gram = np.einsum("sj,j,ja,jb->sab", every, weights, X, X) + RIDGE * np.eye(width)
        models = np.linalg.solve(gram, ((every * weights * y) @ X)[..., None])[..., 0]
        risks = np.linalg.norm(models - goal, axis=1)
    found, risk = best_subset(pool_for(X, y, learner, goal, np.eye(width)), 5, 7, [], draw)
    assert risk == pytest.approx(risks.min(), rel=1e-6)
    assert risks[(every == found).all(axis=1)][0] == pytest.approx(risk, rel=1e-6)


def test_sixty_four_rows_end_far_below_what_exchanges_alone_reach():
    """Ma et al. (2018), ridge in two columns, any size: the median risk is below 2e-5 of that of all rows."""
    ratios = []
    for seed in range(5):
        draw = np.random.default_rng(seed)
        X, goal = draw.standard_normal((64, 2)), np.full(2, 2**-0.5)
        y = X @ goal + np.sqrt(0.1) * draw.standard_normal(64)
        _, risk = best_subset(pool_for(X, y, Learner(Squared(), 0.05), goal, np.eye(2)), 1, 64, [], draw)
        full = np.linalg.solve(X.T @ X + 0.05 * np.eye(2), X.T @ y)
        ratios.append(risk / np.linalg.norm(full - goal))
    assert np.median(ratios) < 2e-5


@pytest.mark.parametrize("name", CASES)
def test_batched_fits_are_those_of_scikit_learn(name, pool):
    kind, intercept = CASES[name]
    rows = pool_of(kind, intercept, 12, 3, 2, "coefficients", pool)
    chosen = oracle.subsets(12, 6, 6)[::40]
    chosen = chosen[[kind == "squared" or len(set(rows.target[one])) == 2 for one in chosen]]
    places = np.array([np.flatnonzero(one) for one in chosen])
    shape = len(chosen), len(rows.goal)
    penalty, start = np.broadcast_to(rows.penalty(6), shape), np.broadcast_to(rows.goal, shape)
    models = fit(rows.design[places], rows.target[places], rows.loss, np.ones(places.shape), penalty, start)
    sharp = {"tol": 1e-12, "max_iter": 100_000}
    learner = {
        "squared": Ridge(RIDGE, fit_intercept=intercept == "free", solver="cholesky"),
        "logistic": LogisticRegression(
            C=1 / RIDGE, fit_intercept=intercept == "free", solver="newton-cholesky", **sharp
        ),
        "squared_hinge": LinearSVC(C=1 / RIDGE, dual=False, **sharp),
    }[kind]
    for subset, model in zip(chosen, models, strict=True):
        learner.fit(rows.design[subset][:, :3], rows.target[subset])
        expected = np.append(np.ravel(learner.coef_), learner.intercept_ if intercept != "none" else [])
        np.testing.assert_allclose(model, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("far", [10.0, 1e3, 1e6])
def test_models_are_found_where_losses_are_flat_at_the_start(far, pool):
    """Far out rows are certain, and an intercept without penalty has no curvature there."""
    X, y = pool("logistic", 60, 2, 0)
    design, start = np.column_stack([X, np.ones(60)]), far * np.array([1.0, -1.0, 0.5])
    masks = np.random.default_rng(0).random((5, 60)) < 0.5
    penalty, shape = np.tile([0.5, 0.5, 0.0], (5, 1)), (5, 60)
    models = fit(
        np.broadcast_to(design, (5, 60, 3)),
        np.broadcast_to(y, shape),
        Logistic(),
        masks.astype(float),
        penalty,
        np.tile(start, (5, 1)),
    )
    for mask, model in zip(masks, models, strict=True):
        learner = LogisticRegression(C=2.0, solver="newton-cholesky", tol=1e-12).fit(X[mask], y[mask])
        np.testing.assert_allclose(model, [*learner.coef_[0], *learner.intercept_], atol=1e-6)


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_exchanges_only_lower_the_true_risk(kind, pool):
    """From any subset: never farther, within its bounds, mostly much nearer; and no single exchange is left that helps."""
    gains = []
    for seed in range(5):
        rows = pool_of(kind, "none", 60, 3, seed, "coefficients", pool)
        start = np.random.default_rng(seed).permutation(60) < 15
        (end,), (risk,) = exchange_by_risk(rows, start[None], 15)
        assert end.sum() == 15
        before, after = true_risks(rows, np.stack([start, end]))
        assert after == pytest.approx(risk, rel=1e-6)
        assert after <= before
        gains.append(after / before)
        (free,), _ = exchange_by_risk(rows, start[None], 10, high=20)
        assert 10 <= free.sum() <= 20
        assert true_risks(rows, free[None])[0] <= before
        if kind == "squared":  # ranked exactly
            inside, outside = np.flatnonzero(end), np.flatnonzero(~end)
            swaps = np.array([end ^ np.isin(np.arange(60), (i, j)) for i in inside for j in outside])
            assert true_risks(rows, swaps).min() >= risk * (1.0 - 2e-4)
    assert np.median(gains) < 0.1


def test_exchanges_stop_where_work_or_time_is_up(pool):
    """With no work allowed nothing changes; with little, some of the way is gone."""
    rows = pool_of("squared", "none", 60, 3, 1, "coefficients", pool)
    start = (np.random.default_rng(1).permutation(60) < 15)[None]
    (before,) = true_risks(rows, start)
    for changed in (rows, replace(rows, late=lambda: True)):
        end, _ = exchange_by_risk(changed, start, 15, NearestOptions(work=0.0 if changed is rows else 1e9))
        np.testing.assert_array_equal(end, start)
    _, (little,) = exchange_by_risk(rows, start, 15, NearestOptions(work=1.0))
    _, (much,) = exchange_by_risk(rows, start, 15)
    assert much <= little <= before


def test_a_subset_of_one_class_is_made_acceptable(pool):
    """A classifier's subset gets a row of the other class, and the search goes on from there."""
    rows = pool_of("logistic", "none", 40, 2, 3, "coefficients", pool)
    start = np.zeros((1, 40), dtype=bool)
    start[0, np.flatnonzero(rows.target > 0.0)[:6]] = True
    (end,), (risk,) = exchange_by_risk(rows, start, 6)
    assert end.sum() == 6
    assert 0 < np.count_nonzero(rows.target[end] > 0.0) < 6
    assert np.isfinite(risk)


@pytest.mark.parametrize("intercept", ["none", "free"])
def test_wide_pools_are_turned_and_not_changed(intercept, pool):
    """More columns than rows: every subset has the same risk in fewer columns."""
    wide = pool_of("logistic", intercept, 8, 40, 1, "coefficients", pool)
    turned = reduced(wide)
    assert len(turned.goal) <= 8 + 2 < len(wide.goal)
    chosen = oracle.subsets(8, 1, 8)
    np.testing.assert_allclose(true_risks(turned, chosen), true_risks(wide, chosen), rtol=1e-6)


def test_least_squares_without_a_penalty_needs_independent_rows(pool):
    """Subsets that leave a model undetermined are refused; the best of the others is found."""
    X, y = pool("squared", 12, 2, 5)
    X[6:] = X[:6]  # every row twice, with another target
    goal = np.array([0.4, -0.2])
    _, risk = best_subset(pool_for(X, y, Learner(Squared(), 0.0), goal, np.eye(2)), 2, 3, [], np.random.default_rng(0))
    lowest = np.inf
    for subset in oracle.subsets(12, 2, 3):
        if np.linalg.matrix_rank(X[subset]) == 2:
            lowest = min(lowest, np.linalg.norm(np.linalg.lstsq(X[subset], y[subset])[0] - goal))
    assert risk == pytest.approx(lowest, rel=1e-6)

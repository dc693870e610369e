"""Small pools: the best subset against fits of all of them, and bounds that leave out no subset they must keep."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from superteach.learner import Intercept, Learner
from superteach.losses import LOSSES, Loss, Squared
from superteach.losses.scalar import Weighted
from superteach.optim.problem import ridge_penalty
from superteach.selection import exhaustive
from superteach.selection.polish import best_subset, starts, swap_search
from superteach.selection.subsets import SubsetProblem

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


def subset_problem(X, y, learner: Learner, goal, metric) -> SubsetProblem:
    """What a coordinator makes of rows that it was shown."""
    sizes, width = range(len(y) + 1), len(goal)
    penalties = [ridge_penalty(learner.penalty(size), width, learner.free_intercept).diagonal for size in sizes]
    return SubsetProblem(X, y, learner.loss, np.stack(penalties), goal, metric, learner.refuses)


def problem_of(kind: str, intercept: Intercept, rows: int, width: int, seed: int, metric: str, pool) -> SubsetProblem:
    """A pool, and a goal as far from the fit of all rows as that is long, or a third of it."""
    X, y = pool(kind, rows, width, seed)
    if intercept != "none":
        X = np.column_stack([X, np.ones(rows)])
    draw = np.random.default_rng(1000 + seed)
    penalty = penalty_of(X.shape[1], intercept)
    fit = oracle.models(kind, X, y, penalty, np.ones((1, rows), dtype=bool))[0]
    noise = draw.standard_normal(len(fit))
    goal = fit + (1.0 if seed % 2 else 0.3) * noise * np.linalg.norm(fit) / np.linalg.norm(noise)
    units = np.eye(len(fit)) if metric == "coefficients" else np.linalg.qr(X / np.sqrt(rows), mode="r")
    return subset_problem(X, y, Learner(LOSSES[kind](), RIDGE, intercept), goal, units)


def true_risks(problem: SubsetProblem, chosen: np.ndarray) -> np.ndarray:
    return oracle.risks(
        problem.loss.name, problem.design, problem.target, problem.penalties[-1], problem.goal, problem.metric, chosen
    )


def assert_best(problem: SubsetProblem, found: exhaustive.Best, chosen: np.ndarray, low: int, high: int) -> None:
    assert low <= found.subset.sum() <= high
    lowest = true_risks(problem, chosen).min()
    assert found.risk == pytest.approx(lowest, rel=1e-6, abs=1e-9)
    assert true_risks(problem, found.subset[None])[0] == pytest.approx(lowest, rel=1e-6, abs=1e-9)


FOUR_OF_THIRTY = oracle.subsets(30, 4, 4)


@pytest.mark.long(every=8)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", CASES)
def test_four_of_thirty_rows_are_the_best_of_all(name, metric, seed, pool):
    problem = problem_of(*CASES[name], 30, 2 + seed % 4, seed, metric, pool)
    found = best_subset(problem, 4, 4, seed=seed)
    assert found.proved
    assert_best(problem, found, FOUR_OF_THIRTY, 4, 4)


@pytest.mark.long(every=6)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", CASES)
def test_of_all_sizes_the_best_is_found(name, metric, seed, pool):
    """Fourteen rows: goals within reach and far out of it."""
    problem = problem_of(*CASES[name], 14, 2 + seed, seed, metric, pool)
    found = best_subset(problem, 1, 14, seed=seed)
    assert found.proved
    assert_best(problem, found, oracle.subsets(14, 1, 14), 1, 14)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ridge with an intercept", "logistic", "support vectors"])
def test_twenty_rows_at_any_size(name, pool):
    problem = problem_of(*CASES[name], 20, 3, 1, "coefficients", pool)
    found = best_subset(problem, 1, 20)
    assert found.proved
    assert_best(problem, found, oracle.subsets(20, 1, 20), 1, 20)


@pytest.mark.parametrize("seed", range(4))
def test_pairs_of_halves_are_the_subsets_that_all_rows_have(seed, pool, monkeypatch):
    """A proof by halves agrees with fits of all subsets, and with no test left out nothing else is fitted."""
    problem = problem_of("logistic", "free", 15, 2, seed, "coefficients", pool)
    every = oracle.subsets(15, 5, 7)
    start = np.arange(15) % 2 == 0
    start[14] = False
    monkeypatch.setattr(exhaustive, "EVERY", 0)  # nothing is fitted without a bound
    found = exhaustive.search(problem, start, 5, 7)
    assert found.proved
    assert_best(problem, found, every, 5, 7)


def test_only_free_rows_change(pool):
    """The best subset that agrees with the start on all rows that are not free."""
    problem = problem_of("squared", "none", 20, 2, 3, "coefficients", pool)
    start, free = np.arange(20) % 3 == 0, np.arange(20) < 12
    found = exhaustive.search(problem, start, 5, 9, free)
    assert not found.proved
    assert (found.subset == start)[~free].all()
    every = oracle.subsets(20, 5, 9)
    nearby = every[(every == start)[:, ~free].all(axis=1)]
    assert found.risk == pytest.approx(true_risks(problem, nearby).min(), rel=1e-6)


class Unbounded(Squared):
    """A loss of somebody's own that says nothing about its curvature."""

    def most_curved(self, y):
        return None


def bounded(name: str, seed: int, pool) -> tuple[SubsetProblem, np.ndarray]:
    """Problems of every kind, with the true risks of all subsets of five to seven of twelve rows."""
    draw, chosen = np.random.default_rng(seed), oracle.subsets(12, 5, 7)
    kind = {"Poisson": "poisson", "weighted": "logistic", "unbounded": "squared", "collinear": "squared"}[name]
    X, y = pool(kind, 12, 3, seed)
    metric, per_row, penalty = draw.standard_normal((3, 3)), False, np.full(3, RIDGE)
    loss: Loss = LOSSES[kind]()
    learner = Learner(loss, RIDGE)
    if name == "Poisson":
        learner, per_row = Learner(loss, 0.05, ridge_per_row=True), True
        penalty = np.full(3, 0.05)
    elif name == "unbounded":
        learner = Learner(Unbounded(), RIDGE)
    elif name == "collinear":
        X[:, 2] = X[:, 0] - X[:, 1]
        metric = np.linalg.qr(X / np.sqrt(12), mode="r")
    goal = 0.5 * draw.standard_normal(3)
    if name == "weighted":
        weights = draw.uniform(0.5, 2.0, 12)
        learner = Learner(Weighted(loss, weights), RIDGE)
        problem = subset_problem(X, y, learner, goal, metric)
        return problem, problem.risks(chosen)[0]
    problem = subset_problem(X, y, learner, goal, metric)
    return problem, oracle.risks(kind, X, y, penalty, goal, metric, chosen, per_row)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["Poisson", "weighted", "unbounded", "collinear", *CASES])
def test_no_subset_within_the_radius_is_left_out(name, seed, pool):
    """Whatever the loss, penalty and metric: subsets at most ρ away pass every test, for any ρ."""
    chosen = oracle.subsets(12, 5, 7)
    if name in CASES:
        problem = problem_of(*CASES[name], 12, 3, seed, METRICS[seed % 2], pool)
        risks = true_risks(problem, chosen)
    else:
        problem, risks = bounded(name, seed, pool)
    order = np.argsort(risks)
    shares = []
    for place in (0, 20, 200, 1000):
        start, radius = chosen[order[place]], risks[order[place]]
        tests = exhaustive.tests_around(problem, start, float(radius))
        assert tests
        within = chosen[risks <= radius]
        for test in tests:
            assert test.passed(within @ test.features + test.base).all()
        passed = np.stack([test.passed(chosen @ test.features + test.base) for test in tests]).all(axis=0)
        shares.append(passed.mean())
    assert shares[0] < 0.9  # they do leave out others


def test_a_search_that_would_take_too_long_says_so(pool):
    """Logistic, ten columns, any size of 30 rows: no proof, and still no exchange that helps."""
    problem = problem_of("logistic", "none", 30, 10, 1, "coefficients", pool)
    found = best_subset(problem, 1, 30)
    assert not found.proved
    flips = np.array([found.subset ^ (np.arange(30) == row) for row in range(30)])
    assert true_risks(problem, flips).min() >= found.risk * (1.0 - 1e-6)


@pytest.mark.parametrize("name", CASES)
def test_batched_fits_are_those_of_scikit_learn(name, pool):
    kind, intercept = CASES[name]
    problem = problem_of(kind, intercept, 12, 3, 2, "coefficients", pool)
    chosen = oracle.subsets(12, 6, 6)[::40]
    risks, models = problem.risks(chosen)
    sharp = {"tol": 1e-12, "max_iter": 100_000}
    learner = {
        "squared": Ridge(RIDGE, fit_intercept=intercept == "free", solver="cholesky"),
        "logistic": LogisticRegression(
            C=1 / RIDGE, fit_intercept=intercept == "free", solver="newton-cholesky", **sharp
        ),
        "squared_hinge": LinearSVC(C=1 / RIDGE, dual=False, **sharp),
    }[kind]
    for subset, risk, model in zip(chosen, risks, models, strict=True):
        y = problem.target[subset]
        if kind != "squared" and len(set(y)) < 2:
            assert np.isinf(risk)
            continue
        learner.fit(problem.design[subset][:, :3], y)
        expected = np.append(np.ravel(learner.coef_), learner.intercept_ if intercept != "none" else [])
        np.testing.assert_allclose(model, expected, rtol=1e-5, atol=1e-7)
        assert risk == pytest.approx(np.linalg.norm(expected - problem.goal), rel=1e-5)


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_swaps_only_lower_the_true_risk(kind, pool):
    """From any subset: never farther, within its bounds, mostly much nearer; and no single exchange is left that helps."""
    gains = []
    for seed in range(5):
        problem = problem_of(kind, "none", 60, 3, seed, "coefficients", pool)
        start = np.random.default_rng(seed).permutation(60) < 15
        (risk,), (end,) = swap_search(problem, start[None], 15, 15)
        assert end.sum() == 15
        before, after = true_risks(problem, np.stack([start, end]))
        assert after == pytest.approx(risk, rel=1e-6)
        assert after <= before
        gains.append(after / before)
        _, (free,) = swap_search(problem, start[None], 10, 20)
        assert 10 <= free.sum() <= 20
        assert true_risks(problem, free[None])[0] <= before
        if kind == "squared":  # ranked exactly
            swaps = np.array(
                [end ^ np.isin(np.arange(60), (i, j)) for i in np.flatnonzero(end) for j in np.flatnonzero(~end)]
            )
            assert true_risks(problem, swaps).min() >= risk * (1.0 - 1e-6)
    assert np.median(gains) < 0.1


def test_a_subset_of_one_class_is_made_acceptable(pool):
    """A classifier's subset gets a row of the other class, and the search goes on from there."""
    problem = problem_of("logistic", "none", 40, 2, 3, "coefficients", pool)
    start = np.zeros((1, 40), dtype=bool)
    start[0, np.flatnonzero(problem.target > 0.0)[:6]] = True
    (risk,), (end,) = swap_search(problem, start, 6, 6)
    assert end.sum() == 6
    assert 0 < np.count_nonzero(problem.target[end] > 0.0) < 6
    assert np.isfinite(risk)


@pytest.mark.parametrize("intercept", ["none", "free"])
def test_wide_pools_are_turned_and_not_changed(intercept, pool):
    """More columns than rows: every subset has the same risk in fewer columns."""
    problem = problem_of("logistic", intercept, 8, 40, 1, "coefficients", pool)
    reduced = problem.reduced()
    assert len(reduced.goal) <= 8 + 2 < len(problem.goal)
    chosen = oracle.subsets(8, 1, 8)
    np.testing.assert_allclose(reduced.risks(chosen)[0], true_risks(problem, chosen), rtol=1e-6)


def test_least_squares_without_a_penalty_needs_independent_rows(pool):
    """Subsets that leave a model undetermined are refused; the best of the others is found."""
    X, y = pool("squared", 12, 2, 5)
    X[6:] = X[:6]  # every row twice, with another target
    goal = np.array([0.4, -0.2])
    problem = subset_problem(X, y, Learner(Squared(), 0.0), goal, np.eye(2))
    found = best_subset(problem, 2, 3)
    assert found.proved
    lowest = np.inf
    for subset in oracle.subsets(12, 2, 3):
        if np.linalg.matrix_rank(X[subset]) == 2:
            lowest = min(lowest, np.linalg.norm(np.linalg.lstsq(X[subset], y[subset])[0] - goal))
    assert found.risk == pytest.approx(lowest, rel=1e-6)


def test_starts_have_the_sizes_that_are_allowed(pool):
    problem = problem_of("squared", "none", 20, 2, 0, "coefficients", pool)
    sizes = starts(problem, 3, 17, 8, np.random.default_rng(0)).sum(axis=1)
    assert sizes.min() == 3
    assert sizes.max() == 17

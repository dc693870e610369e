"""Choosing rows as an integer programme: pools so small that every choice can be tried."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from superteach import SuperTeacher, datasets
from superteach.goals import PerturbedFit
from tests.paper.helpers import rows_by_bonmin

BONMIN = 1e-8
"""Ten times the least gain in ‖θ_S − θ*‖² for which it goes on."""


def subsets(rows, size=None):
    """One line of zeros and ones for each choice of `size` rows (None: of any number but none)."""
    every = np.arange(1, 2**rows)[:, None] >> np.arange(rows) & 1
    return (every if size is None else every[every.sum(axis=1) == size]).astype(float)


def mask(rows, chosen):
    return np.isin(np.arange(rows), chosen)[None].astype(float)


def risks(kind, X, y, ridge, goal, choices):
    """‖θ_S − θ*‖ of each choice S, with θ_S = argmin Σ_{j∈S} ℓ_j(x_j'θ) + (Λ/2)‖θ‖² by Newton's steps, all at once."""
    rows, width = X.shape
    squares = (X[:, :, None] * X[:, None]).reshape(rows, -1)
    models = np.zeros((len(choices), width))
    for _ in range(50):
        scores = models @ X.T
        if kind == "ridge":
            slope, curvature = scores - y, np.ones_like(scores)
        else:
            wrong = 1.0 / (1.0 + np.exp(y * scores))
            slope, curvature = -y * wrong, wrong * (1.0 - wrong)
        gradient = (choices * slope) @ X + ridge * models
        if np.abs(gradient).max() < 1e-11:
            return np.linalg.norm(models - goal, axis=1)
        hessian = ((choices * curvature) @ squares).reshape(-1, width, width) + ridge * np.eye(width)
        models -= np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
    raise AssertionError("Newton's steps have not converged")


def drawn(kind, rows, width, seed):
    """x ~ N(0, I), θ* = 1/√d, and targets x'θ* + noise, or their signs."""
    generator = np.random.default_rng(seed)
    X, goal = generator.standard_normal((rows, width)), np.full(width, width**-0.5)
    y = X @ goal + (0.1**0.5 if kind == "ridge" else 0.7) * generator.standard_normal(rows)
    return X, y if kind == "ridge" else np.where(y > 0.0, 1.0, -1.0), goal


def learner(kind, ridge):
    """scikit-learn's name for the learner with Λ = `ridge`."""
    if kind == "ridge":
        return Ridge(ridge, fit_intercept=False)
    return LogisticRegression(C=1.0 / ridge, fit_intercept=False)


def taught(kind, method, X, y, ridge, goal, size, owner):
    teacher = SuperTeacher(learner(kind, ridge), goal, budget=size, method=method, measure="coefficients")
    return teacher.fit(X, y, groups=owner)


# Section III: oblivious teaching ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_oblivious_teachers_solve_their_own_problems(kind):
    """Each of K teachers chooses |S|/K rows that are, for the learner with Λ/K, among the best of all its choices."""
    K, own, each, ridge = 3, 14, 4, 1.0
    owner, choices = np.repeat(np.arange(K), own), subsets(own, each)
    nearer = {ridge / K: [], ridge: []}
    for seed in range(5):
        X, y, goal = drawn(kind, K * own, 2, seed)
        oblivious = taught(kind, "oblivious", X, y, ridge, goal, K * each, owner)
        chosen = oblivious.sample_indices_
        np.testing.assert_array_equal(np.bincount(owner[chosen]), [each] * K)
        for i in range(K):
            mine = mask(own, chosen[owner[chosen] == i] - i * own)
            for own_ridge, shares in nearer.items():
                reached, *every = risks(kind, X[owner == i], y[owner == i], own_ridge, goal, np.vstack([mine, choices]))
                shares.append(np.mean(np.array(every) < reached * (1.0 - 1e-9)))
        pooled = risks(kind, X, y, ridge, goal, mask(K * own, chosen))[0]
        assert oblivious.lesson_.risk == pytest.approx(pooled, rel=1e-6)
    assert np.median(nearer[ridge / K]) < 0.01
    assert np.median(nearer[ridge]) > 0.05  # with the whole of Λ these rows are nothing special


def test_an_oblivious_teacher_sees_no_rows_but_its_own():
    """Other rows of the others change nothing of its choice; when teachers collaborate they do."""
    X, y, goal = drawn("logistic", 300, 3, 0)
    other = X.copy()
    other[100:] = np.random.default_rng(1).standard_normal((200, 3))
    owner = np.repeat([0, 1, 2], 100)
    for method, same in (("oblivious", True), ("match", False)):
        first, second = (
            taught("logistic", method, rows, y, 1.0, goal, 30, owner).sample_indices_ for rows in (X, other)
        )
        assert np.array_equal(first[first < 100], second[second < 100]) is same


@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_oblivious_teaching_ends_farther_than_collaborative_teaching(kind):
    """On the paper's clusters, K = 5, 4 % of the rows: nearer than all rows, and a multiple of the collaborative risk."""
    make = datasets.make_classification_pool if kind == "logistic" else datasets.make_regression_pool
    for seed in range(3):
        X, y, owner = make(2000, random_state=seed)
        apart, together = (
            taught(kind, method, X, y, 0.4, PerturbedFit(100 + seed), 80, owner).lesson_
            for method in ("oblivious", "match")
        )
        assert 3.0 * together.risk < apart.risk < apart.pool_risk


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_oblivious_teaching_by_integer_programmes(kind):
    """As the paper has it: a solver within each teacher finds the best of its choices, and the union is farther."""
    pytest.importorskip("casadi")
    K, own, each, ridge = 3, 12, 4, 1.0
    owner = np.repeat(np.arange(K), own)
    for seed in range(3):
        X, y, goal = drawn(kind, K * own, 2, seed)
        oblivious, together = (
            taught(kind, method, X, y, ridge, goal, K * each, owner) for method in ("oblivious-minlp", "match")
        )
        chosen = oblivious.sample_indices_
        for i in range(K):
            mine = mask(own, chosen[owner[chosen] == i] - i * own)
            choices = np.vstack([mine, subsets(own, each)])
            reached, *every = risks(kind, X[owner == i], y[owner == i], ridge / K, goal, choices)
            assert reached**2 <= min(every) ** 2 + BONMIN
        assert together.lesson_.risk < oblivious.lesson_.risk


# Section IV: the central programme of Ma et al. -------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_the_central_programme_finds_the_best_choice(kind):
    """min ‖θ − θ*‖² over b ∈ {0,1}^N and θ, the learner's stationarity as equations: no choice is nearer."""
    for seed in range(5):
        X, y, goal = drawn(kind, 12, 2, seed)
        chosen = mask(12, rows_by_bonmin(kind, X, y, 1.0, goal, 4))
        reached, *every = risks(kind, X, y, 1.0, goal, np.vstack([chosen, subsets(12, 4)]))
        assert reached**2 <= min(every) ** 2 + BONMIN


def test_definition_1_on_the_pools_of_ma_et_al():
    """d = 2, n = 16: risk(S)/risk(pool) of the best choices has the printed median, 7.8e-3, between its quartiles.

    Their loss (x'θ − y)² + (0.1/2)‖θ‖² is twice ½(x'θ − y)² + (0.05/2)‖θ‖².
    """
    best, shares = [], []
    for seed in range(20):
        X, y, goal = drawn("ridge", 16, 2, seed)
        every = risks("ridge", X, y, 0.05, goal, subsets(16))
        best.append(every.min() / every[-1])
        if seed < 10:
            lesson = SuperTeacher(learner("ridge", 0.05), goal, measure="coefficients").fit(X, y).lesson_
            assert lesson.pool_risk == pytest.approx(every[-1], rel=1e-6)
            assert lesson.ratio == pytest.approx(lesson.risk / every[-1], rel=1e-6)
            assert lesson.ratio < 1.0
            shares.append(lesson.ratio / best[-1])
    low, high = np.quantile(best, (0.25, 0.75))
    assert low < 7.8e-3 < high
    assert min(shares) > 1.0 - 1e-6
    assert np.median(shares) < 1.0 + 1e-6

"""The paper's Theorem 1 and Observation 1, as printed and as they hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge

from superteach import SuperTeacher
from superteach.optim import Newton
from tests.paper.dual import KINDS, Dual

each_kind = pytest.mark.parametrize("kind", KINDS)


def learned(kind: str, X: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """argmin Σ ℓ_j + (Λ/2)‖θ‖²; scikit-learn's own logistic regression needs two classes."""
    if kind == "ridge":
        return np.linalg.solve(X.T @ X + ridge * np.eye(X.shape[1]), X.T @ y)

    def curvature(theta):
        share = expit(y * (X @ theta))
        return (X * (share * (1.0 - share))[:, None]).T @ X + ridge * np.eye(X.shape[1])

    return minimize(
        lambda theta: np.logaddexp(0.0, -y * (X @ theta)).sum() + ridge / 2 * theta @ theta,
        np.zeros(X.shape[1]),
        jac=lambda theta: -X.T @ (y * expit(-y * (X @ theta))) + ridge * theta,
        hess=curvature,
        method="trust-exact",
        options={"gtol": 1e-10 * (1.0 + ridge)},
    ).x


def oblivious(kind: str, X, y, owner, goal, ridge: float, budget: int) -> tuple[float, float, float]:
    """R*(θ_S) where each of K teachers chose alone, with Λ/K, and what Theorem 1 allows: as printed, and as corrected."""
    K, tau = owner.max() + 1, np.square(X).sum(axis=1).max() * (0.25 if kind == "logistic" else 1.0)
    learner = Ridge(alpha=ridge / K, fit_intercept=False)
    if kind == "logistic":
        learner = LogisticRegression(C=K / ridge, fit_intercept=False)
    chosen, alone = [], []
    for rows in (np.flatnonzero(owner == teacher) for teacher in range(K)):
        taught = SuperTeacher(learner, goal, budget=budget, measure="coefficients").fit(X[rows], y[rows])
        chosen.append(rows[taught.sample_indices_])
        model = learned(kind, X[chosen[-1]], y[chosen[-1]], ridge / K)
        np.testing.assert_allclose(taught.lesson_.model, model, rtol=1e-5, atol=1e-7)
        alone.append(0.5 * np.square(model - goal).sum())
    rows = np.concatenate(chosen)
    risk = 0.5 * np.square(learned(kind, X[rows], y[rows], ridge) - goal).sum()
    return risk, (tau / (ridge * K) + 1.0 / K**2) * sum(alone), (budget * tau / ridge + 1.0 / K) * sum(alone)


@pytest.mark.parametrize("ridge", [4.0, 400.0])
def test_theorem_1_by_hand(ridge):
    """Two teachers with one row x = 1, y = 1 each: alone and together they teach 1/(1 + Λ/2), a risk beyond the print's."""
    one = np.ones(2)
    risk, printed, corrected = oblivious("ridge", one[:, None], one, np.arange(2), np.ones(1), ridge, 1)
    assert risk == pytest.approx(0.5 * (ridge / (ridge + 2.0)) ** 2)
    assert risk / printed == pytest.approx(2.0 * ridge / (ridge + 2.0))
    assert risk / corrected == pytest.approx(ridge / (ridge + 2.0))


@each_kind
def test_theorem_1_holds_as_corrected_and_fails_as_printed(kind):
    """Erratum 3, on random problems: R*(θ_S) ≤ Σ_i (|S_i|τ/Λ + 1/K) R*(θ_Si), where the print is broken."""
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        K, width = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        owner = np.repeat(np.arange(K), 5)
        X = rng.standard_normal((5 * K, width))
        y = X @ rng.standard_normal(width) + rng.standard_normal(5 * K)
        if kind == "logistic":
            y = np.where(y > 0.0, 1.0, -1.0)
            y[::5], y[1::5] = 1.0, -1.0  # every teacher has both classes
        goal, ridge = rng.standard_normal(width), float(10.0 ** rng.uniform(-1.0, 3.0))
        found.append(oblivious(kind, X, y, owner, goal, ridge, 3))
    risk, printed, corrected = np.array(found).T
    assert np.all(risk <= (1.0 + 1e-9) * corrected)
    assert np.max(risk / corrected) > 0.5, "no problem comes near the bound, so it says little"
    assert np.count_nonzero(risk > 1.01 * printed) >= 2


def sparse_goal(kind: str, rows: int, features: int, seed: int) -> tuple[Dual, np.ndarray, np.ndarray]:
    """A problem with θ* = (1/Λ) Σ_{j∈A} α*_j a_j, A and α*; two teachers, a pull that leaves nothing else to wish for."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    y = rng.choice([-1.0, 1.0], rows) if kind == "logistic" else rng.standard_normal(rows)
    support = np.sort(rng.choice(rows, 4, replace=False))
    if kind == "logistic":
        y[support] = [1.0, -1.0, 1.0, -1.0]
    alpha = np.zeros(rows)
    alpha[support] = rng.uniform(0.2, 0.8, 4)
    problem = Dual(kind, X, y, np.arange(rows) % 2, np.zeros(features), 1.0, 1e6, 1e-3)
    return problem.but(goal=problem.model(alpha)), support, alpha


@each_kind
@pytest.mark.parametrize("seed", range(3))
def test_observation_1_holds_for_at_most_d_rows(kind, seed):
    """Erratum 5: N ≤ d rows fit θ* by one α only; then the rows of A are chosen, and the optimum is the objective of α*."""
    problem, support, alpha = sparse_goal(kind, 10, 12, seed)
    taught = problem.teach(Newton(), budget=4)
    np.testing.assert_array_equal(taught.sample_indices_, support)
    assert taught.lesson_.objective[-1] == pytest.approx(problem.objective(alpha), rel=1e-4)


@each_kind
def test_observation_1_fails_for_more_rows(kind):
    """Erratum 5: N > d rows fit θ* in many ways; the least-norm α̂ is spread over all rows, and A is not found."""
    exact = 0
    for seed in range(10):
        problem, support, _ = sparse_goal(kind, 60, 5, seed)
        assert np.count_nonzero(problem.warm_start) == 60
        exact += np.array_equal(problem.teach(Newton(), budget=4).sample_indices_, support)
    assert exact <= 2

"""Textbook formulas: every subset of a small pool fitted, and what can be met at all. Nothing here is the product's."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.optimize import linprog
from scipy.special import expit


def subsets(rows: int, low: int, high: int) -> np.ndarray:
    """All subsets of `low` to `high` rows, one line of truth values each."""
    lists = [np.array(list(combinations(range(rows), size))) for size in range(low, high + 1)]
    lines = np.zeros((sum(map(len, lists)), rows), dtype=bool)
    first = 0
    for chosen in lists:
        lines[np.arange(first, first + len(chosen))[:, None], chosen] = True
        first += len(chosen)
    return lines


def derivatives(kind: str, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, slope and curvature of a loss."""
    if kind == "squared":
        return 0.5 * (eta - y) ** 2, eta - y, np.ones_like(eta)
    if kind == "logistic":
        wrong = 0.5 * (1.0 - np.tanh(0.5 * y * eta))
        return np.logaddexp(0.0, -y * eta), -y * wrong, wrong * (1.0 - wrong)
    if kind == "squared_hinge":
        short = np.maximum(1.0 - y * eta, 0.0)
        return short**2, -2.0 * y * short, 2.0 * (short > 0.0)
    assert kind == "poisson"
    mean = np.exp(np.minimum(eta, 50.0))
    return mean - y * eta, mean - y, mean


def models(
    kind: str, X: np.ndarray, y: np.ndarray, penalty: np.ndarray, chosen: np.ndarray, per_row: bool = False
) -> np.ndarray:
    """argmin Σ_S ℓ + ½ θ'diag(penalty)θ for every subset, times |S| where it is `per_row`; damped Newton from 0."""
    penalty = penalty * (chosen.sum(axis=1)[:, None] if per_row else np.ones((len(chosen), 1)))
    found = np.zeros((len(chosen), X.shape[1]))

    def objective(at: np.ndarray) -> np.ndarray:
        return (chosen * derivatives(kind, at @ X.T, y)[0]).sum(axis=1) + 0.5 * (penalty * at**2).sum(axis=1)

    for _ in range(80):
        _, slope, curvature = derivatives(kind, found @ X.T, y)
        gradient = (chosen * slope) @ X + penalty * found
        if np.abs(gradient).max() < 1e-11:
            break
        hessian = ((chosen * curvature) @ np.einsum("jk,jl->jkl", X, X).reshape(len(X), -1)).reshape(
            len(chosen), X.shape[1], -1
        )
        hessian += np.eye(X.shape[1]) * (penalty + 1e-13)[:, None, :]
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        before, length = objective(found), np.ones(len(chosen))
        for _ in range(40):
            worse = objective(found - length[:, None] * step) > before + 1e-13 * np.abs(before)
            if not worse.any():
                break
            length[worse] *= 0.5
        found = found - length[:, None] * step
    return found


def risks(
    kind: str,
    X: np.ndarray,
    y: np.ndarray,
    penalty: np.ndarray,
    goal: np.ndarray,
    metric: np.ndarray,
    chosen: np.ndarray,
    per_row: bool = False,
) -> np.ndarray:
    """‖M(θ_S − θ*)‖ of every subset; infinite where a classifier sees one class."""
    parts = np.array_split(chosen, max(1, len(chosen) // 8192))
    fitted = np.concatenate([models(kind, X, y, penalty, part, per_row) for part in parts])
    found = np.linalg.norm((fitted - goal) @ metric.T, axis=1)
    if kind in ("logistic", "squared_hinge"):
        positive = chosen[:, y > 0.0].sum(axis=1)
        found[(positive == 0) | (positive == chosen.sum(axis=1))] = np.inf
    return found


def gradients_of(kind: str, X: np.ndarray, y: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """g_j = −ℓ'(x_j'θ*) x_j, written out for two losses."""
    eta = X @ goal
    slope = y * expit(-y * eta) if kind == "logistic" else y - eta
    return slope[:, None] * X


def equations_of(gradients: np.ndarray) -> np.ndarray:
    """The matrix that b is multiplied with: one line per coefficient, and one that counts rows."""
    return np.vstack([gradients.T, np.ones(len(gradients))])


def can_be_met(gradients: np.ndarray, target: np.ndarray) -> bool:
    """HiGHS's verdict on 0 ≤ b ≤ 1, Σ b g = Λθ*, Σ b = n."""
    found = linprog(np.zeros(len(gradients)), A_eq=equations_of(gradients), b_eq=target, bounds=(0.0, 1.0))
    assert found.status in (0, 2)
    return found.status == 0


def margin_of(direction: np.ndarray, gradients: np.ndarray, target: np.ndarray) -> float:
    """u'(Λθ*, n) − Σ_j max(0, u'(g_j, 1)), from the rows."""
    return float(direction @ target - np.maximum(direction @ equations_of(gradients), 0.0).sum())

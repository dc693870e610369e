"""Every subset of a tiny pool, each with the learner's model in closed form or by Newton, from textbook formulas."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from superteach.types import Array


def masks(rows: int, size: int | None) -> Array:
    """One line of zeros and ones for each subset of this size (None: for each subset but the empty one)."""
    if size is None:
        numbers = np.arange(1, 2**rows)
        return ((numbers[:, None] >> np.arange(rows)) & 1).astype(np.float64)
    chosen = np.array(list(combinations(range(rows), size)))
    lines = np.zeros((len(chosen), rows))
    lines[np.arange(len(chosen))[:, None], chosen] = 1.0
    return lines


def risks(kind: str, X: Array, y: Array, ridge: float, goal: Array, subsets: Array) -> Array:
    """‖θ_S − θ*‖ of every subset, for "ridge" (½ squared error) or "logistic" (labels −1 and +1)."""
    parts = np.array_split(subsets, max(1, len(subsets) // 4096))
    return np.concatenate([np.linalg.norm(models(kind, X, y, ridge, part) - goal, axis=1) for part in parts])


def models(kind: str, X: Array, y: Array, ridge: float, subsets: Array) -> Array:
    """θ_S of every subset, all at once."""
    return (_ridge if kind == "ridge" else _logistic)(X, y, ridge, subsets)


def _ridge(X: Array, y: Array, ridge: float, subsets: Array) -> Array:
    gram = np.einsum("sj,ja,jb->sab", subsets, X, X, optimize=True) + ridge * np.eye(X.shape[1])
    models: Array = np.linalg.solve(gram, (subsets @ (X * y[:, None]))[:, :, None])[:, :, 0]
    return models


def _logistic(X: Array, y: Array, ridge: float, subsets: Array) -> Array:
    signed = X * y[:, None]
    models = np.zeros((len(subsets), X.shape[1]))

    def value(at: Array) -> Array:
        losses: Array = subsets * np.logaddexp(0.0, -at @ signed.T)
        return np.asarray(losses.sum(axis=1) + 0.5 * ridge * np.square(at).sum(axis=1))

    for _ in range(60):
        wrong = 1.0 / (1.0 + np.exp(np.minimum(models @ signed.T, 500.0)))
        gradient = -(subsets * wrong) @ signed + ridge * models
        if np.abs(gradient).max() < 1e-12:
            break
        weights = subsets * wrong * (1.0 - wrong)
        hessian = np.einsum("sj,ja,jb->sab", weights, X, X, optimize=True) + ridge * np.eye(X.shape[1])
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        before, length = value(models), np.ones(len(subsets))
        for _ in range(30):
            worse = value(models - length[:, None] * step) > before + 1e-13 * np.abs(before)
            if not worse.any():
                break
            length[worse] *= 0.5
        models = models - length[:, None] * step
    return models

"""Every subset of a handful of rows at once: the learner's model on each, and the best of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from superteach.exceptions import SettingError
from superteach.losses import Loss, Squared
from superteach.types import Array

Masks = npt.NDArray[np.bool_]

MOST_ROWS = 16
_STEPS = 100
_HALVINGS = 40


def all_masks(rows: int) -> Masks:
    """Return every non-empty subset of n rows, as 2^n − 1 lines of a table."""
    if not 1 <= rows <= MOST_ROWS:
        raise SettingError(f"{rows} rows: all subsets are looked at for 1 to {MOST_ROWS} rows")
    numbers = np.arange(1, 1 << rows, dtype=np.int64)
    return np.asarray((numbers[:, None] >> np.arange(rows)) & 1 == 1)


def fit_all(loss: Loss, X: Array, y: Array, masks: Masks, ridge: float) -> Array:
    """argmin_θ Σ_{j∈S} ℓ_j(x_j'θ) + (Λ/2)‖θ‖² for every subset S, by Newton on all of them together."""
    width, weights = X.shape[1], masks.astype(np.float64)
    penalty = ridge * np.eye(width)
    squares = X[:, :, None] * X[:, None, :]
    if isinstance(loss, Squared):
        curvature = np.tensordot(weights, squares, 1) + penalty
        return np.asarray(np.linalg.solve(curvature, ((weights * y) @ X)[:, :, None])[:, :, 0])

    def value(models: Array, kept: Array) -> Array:
        rows = (kept * loss.value(models @ X.T, y)).sum(axis=1)
        return np.asarray(rows + 0.5 * ridge * np.square(models).sum(axis=1))

    models = np.zeros((len(masks), width))
    open_ = np.arange(len(masks))
    for _ in range(_STEPS):
        here, kept = models[open_], weights[open_]
        terms = loss.terms(here @ X.T, y)
        gradient = (kept * terms.slope) @ X + ridge * here
        size = np.abs(kept * terms.slope) @ np.abs(X) + ridge * np.abs(here)
        busy = np.any(np.abs(gradient) > 1e-13 * (size + 1e-300), axis=1)
        open_, here, kept, gradient = open_[busy], here[busy], kept[busy], gradient[busy]
        if not len(open_):
            break
        curvature = np.tensordot(kept * terms.curvature[busy], squares, 1) + penalty
        step = np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
        before = value(here, kept)
        length = np.ones(len(open_))
        for _ in range(_HALVINGS):
            worse = value(here - length[:, None] * step, kept) > before + 1e-14 * np.abs(before)
            if not worse.any():
                break
            length[worse] *= 0.5
        models[open_] = here - length[:, None] * step
    return models


def best_subset(loss: Loss, X: Array, y: Array, ridge: float, goal: Array) -> tuple[npt.NDArray[np.bool_], Array]:
    """The subset whose model is nearest to the goal, and that model; among equals the first."""
    masks = all_masks(len(X))
    models = fit_all(loss, X, y, masks, ridge)
    best = int(np.argmin(np.square(models - goal).sum(axis=1)))
    return masks[best], models[best]

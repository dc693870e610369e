"""An independent check of a lower bound: NumPy alone, and nothing else of this package.

A learner of n rows ends at θ exactly where Σ_S −ℓ'(x_j'θ) x_j = Dθ. So no n rows teach any model θ of the
ball ‖A(θ − θ°)‖ ≤ r if there are v and c with

    Σ_j max(0, −ℓ'(x_j'θ) x_j'v + c) < v'Dθ + n c     on all of it.

Here every row's term is bounded by a chord, raised by what 256 cells and the third derivative in them say; A is taken from
the rows by a singular value decomposition. With several outputs θ and v have one row for each.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
CELLS = 256
"""Parts of an interval in which a term is looked at by itself."""


def slopes(loss: str, t: Array, y: Array, delta: float) -> Array:
    """−ℓ' of a loss of one predictor; labels are −1 and 1."""
    with np.errstate(over="ignore"):
        if loss == "logistic":
            return np.asarray(y / (1.0 + np.exp(y * t)))
        if loss == "squared_hinge":
            return np.asarray(2.0 * y * np.maximum(1.0 - y * t, 0.0))
        if loss == "huber":
            return np.asarray(np.clip(y - t, -delta, delta))
        return np.asarray(y - np.exp(t) if loss == "poisson" else y - t)


def chord(
    loss: str, t: Array, h: Array, y: Array, a: Array, c: float, delta: float, floor: float
) -> tuple[Array, Array]:
    """Height and slope of a line above max(floor, −ℓ'(t + s) a + c) for |s| ≤ h."""

    def term(s: Array) -> Array:
        return np.maximum(slopes(loss, t + s, y, delta) * a + c, floor)

    slope = (term(h) - term(-h)) / np.where(h > 0.0, 2.0 * h, 1.0)
    # Between kinks, losses that have them are quadratic; else a cell's largest term is at one of its ends.
    kinks = {"squared_hinge": [y], "huber": [y - delta, y + delta]}.get(loss, [])
    points = [-h, h, *(np.clip(kink - t, -h, h) for kink in kinks)]
    height = np.max([term(s) - slope * s for s in points], axis=0)
    for k in range(CELLS if loss in ("logistic", "poisson") else 0):
        first, last = (2.0 * k / CELLS - 1.0) * h, (2.0 * (k + 1) / CELLS - 1.0) * h
        begins, ends = term(first), term(last)
        most = np.maximum(begins, ends)
        near = np.exp(-np.maximum(np.maximum(t + first, -t - last), 0.0))  # |ℓ'''| is at most exp(−|t|), and 0.0963
        third = np.minimum(0.0963, near) if loss == "logistic" else np.exp(np.minimum(t + last, 700.0)) * (a > 0.0)
        bent = np.abs(a) * third * np.square(2.0 * h / CELLS) / 8.0 * (most > floor)
        smooth = np.maximum(begins - slope * first, ends - slope * last) + bent
        height = np.maximum(height, np.minimum(smooth, most - np.minimum(slope * first, slope * last)))
    return height, slope


def bounds(loss: str, t: Array, h: Array, y: Array, a: Array, c: float, delta: float) -> tuple[Array, Array]:
    """Height and tilt of every row, outputs × rows; `loss` names the one of each output, or softmax."""
    if len(t) == 1:
        height, slope = chord(loss, t[0], h, y[0], a[0], c, delta, 0.0)
        return height, slope[None]
    if loss == "softmax":
        own = y[0].astype(int) == np.arange(len(t))[:, None]
        e = np.exp(t - t.max(axis=0))
        others = np.maximum((1.0 - np.eye(len(t))) @ e, 1e-300)
        weights = (1.0 - np.eye(len(t)))[:, :, None] * e[None] / others[:, None]  # of output e in log Σ_{e≠c}
        lines = np.eye(len(t))[:, :, None] - weights
        reach = np.linalg.norm(lines, axis=1) * h * (1.0 + 1e-12)
        ones = np.ones_like(t)
        top, turn = chord("logistic", np.log(e / others), reach, -ones, -ones, 0.0, delta, -np.inf)
        gap = a.max(axis=0) - a
        middle = (own * a).sum(axis=0) - a.max(axis=0) + (gap * top).sum(axis=0)
        tilt = np.einsum("cj,cej->ej", gap * turn, lines)
    else:
        each, tilt = chord(loss, t, h * np.ones_like(t), y, a, 0.0, delta, -np.inf)
        middle = each.sum(axis=0)
    swing = np.linalg.norm(tilt, axis=0) * h
    low, high = middle + c - swing, middle + c + swing
    crossing = (low < 0.0) & (high > 0.0)
    share = np.where(crossing, high / np.where(crossing, high - low, 1.0), low >= 0.0)
    return np.where(crossing, 0.5 * high, np.maximum(middle + c, 0.0)), share * tilt


def margin(
    rows: Array, y: Array, loss: str, penalty: Array, goal: Array, size: int, direction: Array, radius: float,
    measure: Array | None = None, delta: float = 1.35, weights: Array | float = 1.0,
) -> float:  # fmt: skip
    """By how much a direction (v, c) proves that no `size` rows teach a model within the radius; above 0: it does.

    `rows` have the constant column where there is an intercept, `penalty` is D for one output, `y` is outputs × rows (for
    softmax the class's number), `weights` count rows. `measure` is A of one output; None: ‖A θ‖ is the root mean square of
    predictions.
    """
    count, width = rows.shape
    unit = np.linalg.norm(rows, axis=0)
    unit = np.where(unit > 0.0, unit, 1.0)
    left, sizes, right = np.linalg.svd(rows / unit, full_matrices=False)
    seen = sizes > 3e-6 * sizes[0]
    null = np.linalg.svd(right[seen])[2][seen.sum() :].T / unit[:, None]
    stiff = penalty[:, None] * null  # every fit has θ'D z = 0 where X z = 0
    theta, v = (np.reshape(one, (-1, width)) for one in (goal, direction[:-1]))
    theta, v = (one - one @ stiff @ np.linalg.pinv(null.T @ stiff) @ null.T for one in (theta, v))
    if measure is None:
        reach = np.sqrt(count) * np.linalg.norm(left[:, seen], axis=1)
        back = np.sqrt(count) * right[seen] / sizes[seen, None] / unit
    else:
        back = np.linalg.inv(measure).T
        reach = np.linalg.norm(rows @ back.T, axis=1)
    c, along = float(direction[-1]), weights * (v @ rows.T)
    height, tilt = bounds(loss, theta @ rows.T, radius * reach, np.atleast_2d(y), along, c, delta)
    needed = float(np.sum(penalty * v * theta)) + size * c
    moved = radius * float(np.linalg.norm((tilt @ rows - penalty * v) @ back.T))
    reached = float(height.sum())
    return needed - reached - moved - 1e-11 * (reached + abs(needed) + moved)

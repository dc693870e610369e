"""How much a row can add along a direction, at any model of a ball: an upper bound that is linear in the model.

At a model θ row j adds φ(θ) = max(0, v'g_j(θ) + c) to what a lesson can reach along (v, c), with the gradient g_j of minus
its loss. For models whose predictors for the row are within `half` of those of the centre θ°, φ lies below

    height + tilt'(η − η°),     η = Θ x_j,  η° = Θ° x_j

Sums of `height` and of tilt ⊗ x_j bound what all rows reach, at every model of the ball at once, and changes of rows that
point apart cancel. One predictor: the chord of φ, moved up until φ lies below it, which closed forms tell
(`Loss.turns`). Several: a linear bound of v'g_j first, then the chord of its positive part. For softmax that bound is

    v'g = a_y − max a + Σ_c (max a − a_c) p_c,    p_c = σ(η_c − log Σ_{e≠c} exp η_e),    a = V x

whose argument is concave in η and lies below its tangent, and σ lies below its chord over what the tangent reaches.

All arrays end in rows. Heights are rounded upwards: they hold in exact arithmetic for the rows as stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from superteach.losses.multioutput import EachLoss, Softmax
from superteach.losses.scalar import Logistic, Loss
from superteach.types import Array

UNIT = 2.0**-53
"""Relative error of one rounding in double precision."""
ROUNDINGS = 32.0
"""Roundings behind any number that is computed from a row's products, an exponential counted as four; a bound."""


STILL = 1e-9
"""Share of a predictor by which it must move, or of a height by which another must exceed it, to be told from rounding:
slopes of shorter intervals would be noise, and differ from engine to engine."""


class Products(NamedTuple):
    """What a bound needs of rows: products with the centre θ° and the direction v, how far predictors move, and slack."""

    at: Array
    """η°: one number per row, or outputs × rows."""
    half: Array
    """How far the predictors of a row move within the ball, in their Euclidean norm."""
    along: Array
    """V x, shaped like `at`."""
    at_error: Array
    """Bound of the rounding error of `at`, per row."""
    along_error: Array
    """Bound of the rounding error of `along`, per row; of several outputs their sum."""


class Majorant(NamedTuple):
    """Rows' bounds, and a subgradient of them in the direction: `pull` in V x, `on` in c."""

    height: Array
    tilt: Array
    pull: Array
    on: Array


def majorant(loss: Loss, rows: Products, y: Array, price: float, weight: Array | float = 1.0) -> Majorant:
    """Bound every row; a height is infinite where the loss tells no bound. `price` is c, `weight` multiplies the loss."""
    half = rows.half * (1.0 + ROUNDINGS * UNIT) + rows.at_error
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if loss.outputs == 1:
            found, steepest = _chord(loss, rows.at, half, y, rows.along, price, weight)
            tilted = np.abs(found.tilt)
        else:
            inner, turned, steepest = _linear(loss, rows.at, half, y, rows.along, weight)
            found = _positive(inner, turned, half, price)
            tilted = np.linalg.norm(found.tilt, axis=0)
        steep, bend = steepest
        reach = np.abs(rows.along) if loss.outputs == 1 else np.abs(rows.along).sum(axis=0)
        size = np.abs(rows.at) if loss.outputs == 1 else np.abs(rows.at).max(axis=0)
        error = tilted * rows.at_error + steep * rows.along_error
        computed = (steep + bend * (size + half)) * reach + abs(price) + tilted * half
        height = found.height + error + ROUNDINGS * max(loss.outputs, 1) * UNIT * computed
    return found._replace(height=np.where(np.isfinite(height), height, np.inf))


def _chord(
    loss: Loss, at: Array, half: Array, y: Array, along: Array, price: float, weight: Array | float, floor: float = 0.0
) -> tuple[Majorant, tuple[Array, Array]]:
    """The chord of max(floor, −wℓ'(t) a + c) over [at − half, at + half], moved up; and bounds of w|ℓ'| and wℓ'' there."""
    low, high = at - half, at + half
    first, last = -weight * loss.gradient(low, y), -weight * loss.gradient(high, y)
    steep = np.maximum(np.abs(first), np.abs(last))
    most = loss.most_curvature
    bend = weight * (np.broadcast_to(most, at.shape) if np.isfinite(most) else loss.curvature_range(low, high, y)[1])
    begins, ends = first * along + price, last * along + price
    below, above = np.maximum(begins, floor), np.maximum(ends, floor)
    moves = half > STILL * (1.0 + np.abs(at))
    tilt = np.where(moves, (above - below) / np.where(moves, 2.0 * half, 1.0), 0.0)
    pulled = weight * along
    turns = loss.turns(np.where(pulled != 0.0, -tilt / np.where(pulled != 0.0, pulled, 1.0), np.inf), y)
    if turns is None:  # slopes change by at most the largest curvature
        middle = -weight * loss.gradient(at, y)
        top = np.maximum(middle * along + price + bend * np.abs(along) * half, floor)
        on = np.asarray(top > floor, dtype=np.float64)
        return Majorant(top, np.zeros_like(at), middle * on, on), (steep, bend)
    top = np.maximum(below + tilt * half, above - tilt * half)
    # Both ends touch: half of each is a subgradient for the centre of the ball.
    started, ended = begins > floor, ends > floor
    pull, on = 0.5 * (first * started + last * ended), 0.5 * (started + 1.0 * ended)
    for turn in turns:
        t = np.clip(turn, low, high)
        slope = -weight * loss.gradient(t, y)
        there = slope * along + price
        value = np.maximum(there, floor) - tilt * (t - at)
        higher = value > top + STILL * np.abs(top)
        top = np.fmax(top, value)  # NaN: no such turn
        pull, on = np.where(higher, slope * (there > floor), pull), np.where(higher, 1.0 * (there > floor), on)
    return Majorant(top, tilt, pull, on), (steep, bend)


def _linear(
    loss: Loss, at: Array, half: Array, y: Array, along: Array, weight: Array | float
) -> tuple[Majorant, Array, tuple[Array, Array]]:
    """A linear bound of −a'∇ℓ(η), how its tilt's part of a bound at the far end changes with a, and bounds of slopes."""
    if isinstance(loss, EachLoss):
        found, (steep, bend) = _chord(loss.of, at, half, loss.targets(y), along, 0.0, weight, -np.inf)
        own = np.where(along != 0.0, found.tilt / np.where(along != 0.0, along, 1.0), 0.0)
        turned = own * _unit(found.tilt) * half
        height = found.height.sum(axis=0)
        return found._replace(height=height), turned, (steep.max(axis=0), bend.max(axis=0))
    if isinstance(loss, Softmax):
        return _softmax(at, half, y, along, weight)
    slope = -weight * loss.gradient(at, y)
    reach = loss.most_curvature * weight * np.linalg.norm(along, axis=0) * half
    whole = np.einsum("cj,cj->j", slope, along) + reach
    bend = weight * np.full(at.shape[1], loss.most_curvature)
    steep = np.linalg.norm(slope, axis=0) + bend * half
    return Majorant(whole, np.zeros_like(at), slope, np.ones(at.shape[1])), np.zeros_like(at), (steep, bend)


def _softmax(
    at: Array, half: Array, y: Array, along: Array, weight: Array | float
) -> tuple[Majorant, Array, tuple[Array, Array]]:
    outputs, rows = at.shape
    own, largest = y.astype(np.intp), along.argmax(axis=0)
    every = np.arange(rows)
    whole = logsumexp(at, axis=0)
    share = np.exp(at - whole)
    rest = 1.0 - share
    top = at.argmax(axis=0)
    others = at.copy()
    others[top, every] = -np.inf
    rest[top, every] = np.exp(logsumexp(others, axis=0) - whole)  # without cancellation
    rest = np.maximum(rest, 1e-300)
    score = at - whole - np.log(rest)  # η_c − log Σ_{e≠c} exp η_e
    odds = share / rest
    # l_c = e_c − w_c with w_ce = p_e/(1 − p_c), e ≠ c: probabilities, so ‖l_c‖² is at most 2, also where 1 − p_c vanishes.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        length = np.sqrt(1.0 + np.maximum(np.square(share).sum(axis=0) - np.square(share), 0.0) / np.square(rest))
    length = np.fmin(length, np.sqrt(2.0) * (1.0 + UNIT))
    reach = length * half * (1.0 + ROUNDINGS * UNIT)
    negative = np.full_like(at, -1.0)  # −ℓ' of a negative label is −σ
    one, _ = _chord(Logistic(), score, reach, negative, negative, 0.0, 1.0, -np.inf)
    gap = weight * (along[largest, every] - along)
    height = weight * (along[own, every] - along[largest, every]) + (gap * one.height).sum(axis=0)

    def combined(scale: Array) -> Array:
        """Σ_c scale_c l_c."""
        spread = scale / rest
        return np.asarray(scale - share * (spread.sum(axis=0) - spread))

    with np.errstate(over="ignore", invalid="ignore"):
        tilt = combined(gap * one.tilt)
    unknown = ~np.isfinite(tilt).all(axis=0)  # at radius 0 any tilt will do, elsewhere such a row has no bound
    tilt[:, unknown] = 0.0
    height = np.where(unknown & (half > 0.0), np.inf, height)
    pull = -weight * one.height
    pull[largest, every] += weight * one.height.sum(axis=0) - weight
    pull[own, every] += weight
    step = _unit(tilt) * half
    # l_c's for every c, where s is the step to the far end.
    moved = step - ((share * step).sum(axis=0) - share * step) / rest
    turned = -weight * one.tilt * moved
    turned[largest, every] += weight * (one.tilt * moved).sum(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        slack = 8.0 * outputs * UNIT * (gap * (one.height + one.tilt * reach * (1.0 + odds))).sum(axis=0)
    steep = np.broadcast_to(2.0 * weight, (rows,))
    return Majorant(height + slack, tilt, pull, np.ones(rows)), turned, (steep, steep)


def _positive(inner: Majorant, turned: Array, half: Array, price: float) -> Majorant:
    """The chord of the positive part of a linear bound plus c."""
    middle, swing = inner.height + price, np.linalg.norm(inner.tilt, axis=0) * half
    high, low = middle + swing, middle - swing
    crossing = (low < 0.0) & (high > 0.0)
    share = np.where(crossing, high / np.where(crossing, high - low, 1.0), 1.0 * (low >= 0.0))
    height = np.where(crossing, 0.5 * high, np.maximum(middle, 0.0))
    on = np.where(crossing, 0.5, share)
    return Majorant(height, share * inner.tilt, on * inner.pull + np.where(crossing, 0.5, 0.0) * turned, on)


def _unit(tilt: Array) -> Array:
    length = np.linalg.norm(tilt, axis=0)
    return tilt / np.where(length > 0.0, length, 1.0)

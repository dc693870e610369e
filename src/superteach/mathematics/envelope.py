"""How much rows can pull along a direction at any model of a region: an upper bound that is linear in the model.

At a model θ row j adds φ(t) = max(0, −ℓ'(t) u'x_j + u₀), t = x_j'θ, to what a lesson can reach along u. For t within
`half` of `at` it lies below A + B(t − at), the chord moved up until it does. Sums of A and of B x_j then bound
what all rows reach, at every model of the region at once.
"""

from __future__ import annotations

import numpy as np

from superteach.mathematics.losses import Logistic, Loss, Squared
from superteach.types import Array


def envelope(
    loss: Loss, at: Array, half: Array, y: Array, along: Array, price: float, weight: Array | float = 1.0
) -> tuple[Array, Array]:
    """Return A and B of every row, `along` being u'x_j and `price` u₀."""

    def reached(t: Array) -> Array:
        return np.maximum(-weight * loss.gradient(t, y) * along + price, 0.0)

    if not isinstance(loss, Squared | Logistic):  # slopes change by at most max ℓ''
        most = loss.most_curvature * weight * np.abs(along) * half
        return np.maximum(-weight * loss.gradient(at, y) * along + price + most, 0.0), np.zeros_like(at)
    low, high = at - half, at + half
    below, above = reached(low), reached(high)
    tilt = np.where(half > 0.0, (above - below) / np.where(half > 0.0, 2.0 * half, 1.0), 0.0)
    top = np.maximum(below + tilt * half, above - tilt * half)
    if isinstance(loss, Squared):  # φ is convex
        return top, tilt
    # φ − Bt is largest at an end, or where −ℓ''(t) u'x = B: at two points ±τ.
    pull = weight * np.abs(along)
    share = np.clip(np.abs(tilt) / np.where(pull > 0.0, pull, 1.0), 1e-300, 0.25)
    root = np.sqrt(1.0 - 4.0 * share)
    turn = np.log1p(root) - np.log(4.0 * share / (1.0 + root))
    for t in (np.clip(turn, low, high), np.clip(-turn, low, high)):
        top = np.maximum(top, reached(t) - tilt * (t - at))
    return top, tilt

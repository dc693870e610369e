"""How near any lesson can come: a direction proves it, and one sum over rows checks it.

A learner of n rows S ends at θ exactly where Σ_{j∈S} g_j(θ) = Dθ, with the gradient g_j of minus the loss of row j and the
penalty's diagonal D. Hence no n rows teach any model of the ball ‖A(θ − θ°)‖ ≤ r around a goal θ° if for some (v, c)

    Σ_j max(0, v'g_j(θ) + c) < v'Dθ + n c     for every θ of the ball.

The left side lies below a function that is linear in θ (`selection.majorant`): a height and a tilt, sums over rows. So it
is enough that

    height − v'Dθ° − n c + r ‖R(tilt − Dv)‖ < 0,     R = A⁻ᵀ.

The left side, less what is rounded outwards, is the `deficit` of a direction; it is homogeneous in (v, c). For one radius it
is nearly convex in (v, c), so quasi-Newton steps find a direction that proves a larger radius, and so on. Whatever they
find, the last sum alone is the proof.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy import optimize

from superteach.types import Array

UNIT = 2.0**-53
"""Relative error of one rounding in double precision."""
EVALUATIONS = 150
"""Sums that are asked for while a direction is improved, at most."""
GROWTH = 1.2
"""Factor by which the next radius to be proved lies beyond the last; the first that no search proves is the last."""
RADII = 12
"""Radii that one question asks about, where the largest that holds is sought."""
SAFETY = 1e-6
"""Share of a radius that is not claimed: the measure A is itself computed from sums."""
STEPS = {"maxcor": 30, "ftol": 1e-5, "gtol": 1e-12}
"""Of L-BFGS-B: it ends where a step gains less than this share. With 1e-6 it asks
half as often again, and the median bound on real tables is 1 % larger."""


class Envelope(NamedTuple):
    """What all rows together add along a direction at any model of a ball, and a subgradient in the direction."""

    height: float
    tilt: Array
    pull: Array
    on: float


class Envelopes(Protocol):
    """Sums over all rows: one envelope for every radius asked about, around the goal θ°."""

    def __call__(self, direction: Array, radii: Array) -> list[Envelope]:
        """Answer for the direction (v, c)."""
        ...


@dataclass(frozen=True, eq=False)
class Ball:
    """What a lesson is, and how distance to its goal is measured."""

    centre: Array
    """θ°."""
    stiffness: Array
    """D."""
    measure: Array
    """R for one output, a matrix or its diagonal: a change of the model by 1 in the measure moves x'θ by at most ‖R x‖."""
    size: int
    """n."""

    def lean(self, vector: Array) -> tuple[Array, float]:
        """R for every output, and a bound of the rounding error of its norm."""
        own = vector.reshape(-1, len(self.measure) if self.measure.ndim == 1 else self.measure.shape[1])
        if self.measure.ndim == 1:
            moved, size = own * self.measure, float(np.abs(own * self.measure).sum())
        else:
            moved = own @ self.measure.T
            size = float((np.abs(own) @ np.linalg.norm(self.measure, axis=0)).sum())
        return moved, 2.0 * (len(own[0]) + 8) * UNIT * size

    def back(self, moved: Array) -> Array:
        """R' for every output: the change of the model that belongs to one in the measure."""
        return np.asarray(moved * self.measure if self.measure.ndim == 1 else moved @ self.measure).ravel()


class Deficit(NamedTuple):
    """By how much rows reach less than a ball needs, negative where that proves; and its subgradient in (v, c)."""

    value: float
    gradient: Array


def deficit(ball: Ball, direction: Array, radius: float, sums: Envelope) -> Deficit:
    """What one envelope says of a ball; the value is rounded upwards."""
    v, c = direction[:-1], float(direction[-1])
    stiff = ball.stiffness * v
    lean, lean_error = ball.lean(sums.tilt - stiff)
    length = float(np.linalg.norm(lean))
    needed = float(stiff @ ball.centre) + ball.size * c
    error = 2.0 * (len(v) + 8) * UNIT * (float(np.abs(stiff) @ np.abs(ball.centre)) + ball.size * abs(c))
    error += radius * lean_error + 1e-12 * (sums.height + radius * length)  # what owners send is added up in some order
    value = sums.height - needed + radius * length + error
    moved = ball.back(lean) * (radius / length if length > 0.0 else 0.0)
    gradient = np.append(sums.pull - ball.stiffness * (ball.centre + moved), sums.on - ball.size)
    return Deficit(value if np.isfinite(value) else np.inf, gradient)


def margin(ball: Ball, direction: Array, ask: Envelopes) -> float:
    """By how much the direction proves the goal itself out of reach; negative where it does not."""
    return -deficit(ball, direction, 0.0, ask(direction, np.zeros(1))[0]).value


def radius(ball: Ball, direction: Array, ask: Envelopes, low: float, high: float, rounds: int = 3) -> float:
    """The largest radius found that the direction proves, from `low`, which is said to hold, to `high`."""
    first = low if low > 0.0 else 1e-8 * high
    for _ in range(rounds):
        tried = np.geomspace(first, high, RADII)
        sums = ask(direction, tried)
        holds = [deficit(ball, direction, float(r), one).value < 0.0 for r, one in zip(tried, sums, strict=True)]
        if not any(holds):
            return low
        last = int(np.flatnonzero(holds)[-1])
        low = first = float(tried[last])
        if last + 1 == len(tried):
            return low
        high = float(tried[last + 1])
    return low


def strengthen(
    ball: Ball,
    direction: Array,
    ask: Envelopes,
    basis: Array,
    known: float,
    most: float,
    late: Callable[[], bool] = lambda: False,
    evaluations: int = EVALUATIONS,
) -> tuple[Array, float]:
    """Turn a direction that proves a radius `known` into one that proves more, up to `most`: the direction, the radius.

    Rows of `basis`, or its diagonal, span the directions v that are tried, in units in which they are alike.
    """
    unit = 1.0 / np.sqrt(ball.size)

    def direction_of(point: Array) -> Array:
        v = basis * point[:-1] if basis.ndim == 1 else basis.T @ point[:-1]
        return np.append(v, unit * point[-1])

    v = direction[:-1]
    inner = v / basis if basis.ndim == 1 else np.linalg.lstsq(basis.T, v, rcond=None)[0]
    start = np.append(inner, direction[-1] / unit)
    start /= np.linalg.norm(start)
    if known <= 0.0:
        known = radius(ball, direction_of(start), ask, 0.0, most)
    asked = 0

    def improve(start: Array, aim: float) -> tuple[Array, float]:
        """Go down from a point until the deficit of a radius is negative; the lowest point and its deficit."""
        lowest, value = start, np.inf

        def function(point: Array) -> tuple[float, Array]:
            nonlocal asked, lowest, value
            if value < 0.0 or asked >= evaluations or late():
                raise StopIteration
            along = direction_of(point)
            found = deficit(ball, along, aim, ask(along, np.array([aim]))[0])
            asked += 1
            if found.value < value:
                lowest, value = point.copy(), found.value
            inner = basis * found.gradient[:-1] if basis.ndim == 1 else basis @ found.gradient[:-1]
            gradient = np.append(inner, unit * found.gradient[-1])
            return found.value, gradient - (gradient @ start) * start

        with suppress(StopIteration):
            optimize.minimize(function, start, jac=True, method="L-BFGS-B", options=STEPS)
        return lowest, value

    while asked < evaluations and known < most and not late():
        aim = min(max(GROWTH * known, 1e-4 * most), most)
        lowest, value = improve(start, aim)
        reached = radius(ball, direction_of(lowest), ask, aim if value < 0.0 else 0.0, min(2.0 * aim, most), 3)
        asked += 3
        if reached > known:
            known, start = reached, lowest / np.linalg.norm(lowest)
        if value >= 0.0:
            break
    best = direction_of(start)
    return best / np.linalg.norm(best), known

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
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from superteach.types import Array

UNIT = 2.0**-53
"""Relative error of one rounding in double precision."""
EVALUATIONS = 150
"""Sums that are asked for while a direction is improved, at most."""
GROWTH = 1.2
"""Factor by which the next radius to be proved lies beyond the last."""
GAIN = 1.02
"""Factor that the radius must gain by a search, or it is the last."""
RADII = 12
"""Radii that one question asks about, where the largest that holds is sought."""
SAFETY = 1e-6
"""Share of a radius that is not claimed: the measure A is itself computed from sums."""
DESCENT, SLOPE = 1e-4, 0.5
"""Shares of Armijo's and Wolfe's conditions."""


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

    def direction_at(point: Array) -> Array:
        v = basis * point[:-1] if basis.ndim == 1 else basis.T @ point[:-1]
        return np.append(v, unit * point[-1])

    v = direction[:-1]
    inner = v / basis if basis.ndim == 1 else np.linalg.lstsq(basis.T, v, rcond=None)[0]
    start = np.append(inner, direction[-1] / unit)
    start /= np.linalg.norm(start)
    if known <= 0.0:
        known = radius(ball, direction_at(start), ask, 0.0, most)
    used, tiny = 0, 1e-4 * most
    while used < evaluations and known < most and not late():
        aim = min(max(GROWTH * known, tiny), most)
        normal = start

        def function(point: Array, aim: float = aim, normal: Array = normal) -> tuple[float, Array]:
            along = direction_at(point)
            found = deficit(ball, along, aim, ask(along, np.array([aim]))[0])
            gradient = found.gradient[:-1]
            inner = basis * gradient if basis.ndim == 1 else basis @ gradient
            whole = np.append(inner, unit * found.gradient[-1])
            return found.value, whole - (whole @ normal) * normal

        point, value, count = descend(function, start, evaluations - used, late)
        used += count
        reached = radius(ball, direction_at(point), ask, aim if value < 0.0 else 0.0, min(2.0 * aim, most), 3)
        used += 3
        better = reached > known
        gained = reached > GAIN * known
        if better:
            known, start = reached, point / np.linalg.norm(point)
        if not gained:
            break
    found = direction_at(start)
    return found / np.linalg.norm(found), known


def descend(
    function: Callable[[Array], tuple[float, Array]], start: Array, most: int, late: Callable[[], bool]
) -> tuple[Array, float, int]:
    """Go down by BFGS with a weak Wolfe search, which serves kinks too, until the value is negative or steps end."""
    point, (value, gradient) = start, function(start)
    inverse, count = np.eye(len(start)), 1
    fresh = True
    while value >= 0.0 and count < most and not late():
        along = -inverse @ gradient
        slope = float(along @ gradient)
        if not slope < 0.0:
            break
        low, high = 0.0, np.inf
        step = min(1.0, 0.1 / float(np.linalg.norm(along))) if fresh else 1.0
        found = None
        while count < most:
            tried = point + step * along
            there, ahead = function(tried)
            count += 1
            if not there <= value + DESCENT * step * slope:
                high = step
            else:
                found = tried, there, ahead
                if there < 0.0 or float(ahead @ along) >= SLOPE * slope:
                    break
                low = step
            step = 0.5 * (low + high) if np.isfinite(high) else 2.0 * step
            if step * float(np.linalg.norm(along)) < 1e-7 or (np.isfinite(high) and high - low < 1e-3 * high):
                break
        if found is None:
            break
        moved, turned = found[0] - point, found[2] - gradient
        gained = value - found[1]
        point, value, gradient = found
        curved = float(moved @ turned)
        if curved > 0.0:
            if fresh:
                inverse *= curved / float(turned @ turned)
            share = moved / curved
            swept = inverse @ turned
            inverse += np.outer(share, share) * (curved + float(turned @ swept))
            inverse -= np.outer(swept, share) + np.outer(share, swept)
            fresh = False
        if gained <= 1e-6 * value:
            break
    return point, value, count

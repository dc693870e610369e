"""The loop that Newton and L-BFGS share: a direction, a step, a reason to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from superteach.exceptions import SettingError
from superteach.optim.function import Moments, Smooth, Stop
from superteach.types import Array, is_number, is_whole

Direction = Callable[[Array, Moments], Array]

_STEPS = 2.0 ** -np.arange(-2.0, 9.0)
"""Step lengths of a line search, 4 down to 2⁻⁸, all asked for in one round."""
_ARMIJO = 1e-4
"""Share of the decrease along the slope that a step must reach."""
_FLOOR = "float64 allows no further step"
_ROUNDING = 1e-13
"""A value this much (relatively) above the last counts as equal to it."""


@dataclass(frozen=True, eq=False)
class Solution:
    """Where a solver ended, after how many steps, and why."""

    point: Array
    sums: Moments
    steps: int
    converged: bool
    reason: str


def check_limits(tolerance: object, max_steps: object) -> None:
    """Refuse a solver that could never end, or never begin."""
    if not (is_number(tolerance) and 0.0 <= tolerance < 1.0):
        raise SettingError(f"tolerance={tolerance!r} must be a number from 0 to 1")
    if not (is_whole(max_steps) and max_steps >= 1):
        raise SettingError(f"max_steps={max_steps!r} must be an int of at least 1")


def descend(
    function: Smooth,
    start: Array,
    direction_of: Direction,
    order: Literal[1, 2],
    stop: Stop,
    max_steps: int,
    curved: bool = False,
) -> Solution:
    """Minimise a smooth convex function: a step costs one round while full steps hold, else two."""
    point = np.asarray(start, dtype=np.float64)
    sums, here = function.moments(point, order)
    # Whether a full step may be tried without a search. Newton's first one nearly always holds, but not in the
    # paper's dual, where the way from 0 is long.
    trusted = (order == 2 or curved) and not function.cautious
    for step in range(max_steps + 1):
        reason = stop(point, sums, here)
        if reason:
            return Solution(point, sums, step, True, reason)
        if step == max_steps:
            break
        direction = direction_of(point, here)
        slope = float(direction @ here.gradient)
        if not slope < 0.0:
            return Solution(point, sums, step, False, "no descent direction is left in float64")
        if trusted:
            next_sums, there = function.moments(point + direction, order)
            if _holds(here, there, slope):
                point, sums, here = point + direction, next_sums, there
                continue
        length = _search(function, point, direction, here.value, slope)
        if length is None:
            return Solution(point, sums, step, False, _FLOOR)
        next_sums, there = function.moments(point + abs(length) * direction, order)
        if length < 0.0 and not _flatter(here, there):
            return Solution(point, sums, step, False, _FLOOR)
        trusted = abs(length) >= 0.5
        point, sums, here = point + abs(length) * direction, next_sums, there
    return Solution(point, sums, max_steps, False, f"the limit of {max_steps} steps was reached")


def _holds(here: Moments, there: Moments, slope: float) -> bool:
    """Armijo's rule; where values differ by rounding alone, a smaller gradient."""
    if not np.isfinite(there.value):
        return False
    if _tells(slope, here.value) and there.value <= here.value + _ARMIJO * slope:
        return True
    equal = there.value <= here.value + _ROUNDING * max(abs(here.value), abs(there.value))
    return equal and _flatter(here, there)


def _tells(slope: float, value: float) -> bool:
    """Tell whether a step along this slope can be seen in the value at all."""
    return -slope > 1e-15 * abs(value)


def _flatter(here: Moments, there: Moments) -> bool:
    return bool(np.linalg.norm(there.gradient) < np.linalg.norm(here.gradient))


def _search(function: Smooth, point: Array, direction: Array, value: float, slope: float) -> float | None:
    """Return the best of a batch of step lengths; try shorter batches if none of the first will do.

    At the bottom of float64 values no longer tell one step from another; then the full step is returned
    as −1, to be taken only if it makes the gradient smaller.
    """
    if not _tells(slope, value):
        return -1.0
    steps = _STEPS
    for _ in range(4):
        values = function.values(point, direction, steps)
        values = np.where(np.isfinite(values), values, np.inf)
        best = int(np.argmin(values))
        if values[best] <= value + _ARMIJO * steps[best] * slope:
            return float(steps[best])
        if -slope <= 1e-9 * abs(value) and values[best] <= value + _ROUNDING * abs(value):
            return -1.0
        steps = steps[-1] / 8.0 * _STEPS
    return None

"""The loop that Newton and L-BFGS share: a direction, a step, a reason to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from superteach.queries import Moments
from superteach.solvers.function import Function, Stop

Array = npt.NDArray[np.float64]
Direction = Callable[[Array, Moments], Array]

_STEPS = 2.0 ** -np.arange(-2.0, 14.0)
"""Step lengths of one line search, 4 down to 2⁻¹³, all asked for in one round."""
_ARMIJO = 1e-4
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


def descend(
    function: Function,
    start: Array,
    direction_of: Direction,
    order: Literal[1, 2],
    stop: Stop,
    max_steps: int,
) -> Solution:
    """Minimise a smooth convex function: a step costs one round while full steps hold, else two."""
    point = np.asarray(start, dtype=np.float64)
    sums, here = function.moments(point, order)
    trusted = False  # whether the last full step held, so that the next may be tried without a search
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
            return Solution(point, sums, step, False, "no step lowers the value any more in float64")
        trusted = length >= 0.5
        point = point + length * direction
        sums, here = function.moments(point, order)
    return Solution(point, sums, max_steps, False, f"the limit of {max_steps} steps was reached")


def _holds(here: Moments, there: Moments, slope: float) -> bool:
    """Armijo's rule; where values differ by rounding alone, a smaller gradient."""
    if not np.isfinite(there.value):
        return False
    if there.value <= here.value + _ARMIJO * slope:
        return True
    equal = there.value <= here.value + _ROUNDING * max(abs(here.value), abs(there.value))
    return equal and bool(np.linalg.norm(there.gradient) < np.linalg.norm(here.gradient))


def _search(function: Function, point: Array, direction: Array, value: float, slope: float) -> float | None:
    """The best of a batch of step lengths; a second, shorter batch if none of the first will do."""
    for shrink in (1.0, 2.0**-14, 2.0**-28):
        steps = _STEPS * shrink
        values = function.values(point, direction, steps)
        values = np.where(np.isfinite(values), values, np.inf)
        best = int(np.argmin(values))
        if values[best] <= value + _ARMIJO * steps[best] * slope:
            return float(steps[best])
        if shrink == 1.0 and values[best] <= value + _ROUNDING * abs(value) and -slope <= 1e-9 * abs(value):
            return 1.0  # at the bottom of float64: the values no longer tell, the Newton step still does
    return None

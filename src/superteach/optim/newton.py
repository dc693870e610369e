"""Newton's method, and the loop that it shares with L-BFGS: a direction, a step, a reason to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy import linalg

from superteach.exceptions import Setting, SettingError, TeachingError
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


@dataclass(frozen=True)
class Newton:
    """Newton steps with the curvature summed over all teachers; stops on the gap or on its limit."""

    tolerance: float = 1e-10
    max_steps: int = 200
    gradients_only: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_limits(self.tolerance, self.max_steps)

    def minimise(self, function: Smooth, start: Array, stop: Stop) -> Solution:
        """Minimise from a start until `stop` says so."""
        return descend(function, start, _newton_direction, 2, stop, self.max_steps)


def _newton_direction(point: Array, here: Moments) -> Array:
    curvature = here.curvature
    assert curvature is not None
    if not (np.isfinite(curvature).all() and np.isfinite(here.gradient).all()):
        raise TeachingError(
            "the sums overflow float64; very large or badly scaled columns are the usual cause, try ",
            Setting("standardize", True),
        )
    # Scaled to a diagonal of ones, so that the units of columns do not matter.
    spread = np.sqrt(np.maximum(np.diag(curvature), 0.0))
    curved = spread > 1e-150  # below, squares of scales overflow
    scale = np.where(curved, 1.0 / np.where(curved, spread, 1.0), 1.0)
    scaled, gradient = curvature * np.outer(scale, scale), here.gradient * scale
    # LAPACK by hand: on a matrix this small SciPy's checks, done above, cost ten times the factorisation.
    factor, failed = linalg.lapack.dpotrf(scaled)
    if not failed:
        diagonal = np.abs(np.diag(factor))
        if diagonal.min() > 1e-7 * diagonal.max():
            return np.asarray(-scale * linalg.lapack.dpotrs(factor, gradient)[0])
    # Flat directions (a constant column, an intercept no row speaks for yet) get no step of their own.
    return np.asarray(-scale * (linalg.pinvh(scaled) @ gradient))

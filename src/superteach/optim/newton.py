"""Newton's method: width × width numbers a round, a dozen rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import linalg

from superteach.exceptions import Setting, TeachingError
from superteach.optim.descent import Solution, check_limits, descend
from superteach.optim.function import Moments, Smooth, Stop
from superteach.types import Array


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

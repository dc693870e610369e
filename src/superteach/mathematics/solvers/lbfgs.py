"""L-BFGS: as many numbers a round as the model has, for models too wide for a curvature matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from superteach.line.queries import Moments
from superteach.mathematics.solvers.descent import Solution, check_limits, descend
from superteach.mathematics.solvers.function import Smooth, Stop
from superteach.types import Array


@dataclass(frozen=True)
class LBFGS:
    """Limited-memory quasi-Newton steps from gradients alone; stops on the gap or on its limit."""

    tolerance: float = 1e-10
    max_steps: int = 2000
    memory: int = 30

    def __post_init__(self) -> None:
        check_limits(self.tolerance, self.max_steps)

    def minimise(self, function: Smooth, start: Array, stop: Stop, bends: Array | float = 1.0) -> Solution:
        """Minimise from a start until `stop` says so; `bends` is the diagonal of the curvature, as far as it is known.

        On rows of texts, whose columns differ a thousandfold, it saves three steps of four.
        """
        return descend(function, start, _Recursion(self.memory, bends), 1, stop, self.max_steps)


class _Recursion:
    """The two-loop recursion over the last steps and changes of gradient."""

    def __init__(self, memory: int, bends: Array | float) -> None:
        self._memory, self._bends = memory, bends
        self._pairs: list[tuple[Array, Array, float]] = []
        self._last: tuple[Array, Array] | None = None

    def __call__(self, point: Array, here: Moments) -> Array:
        gradient = here.gradient
        if self._last is not None:
            moved, changed = point - self._last[0], gradient - self._last[1]
            product = float(moved @ changed)
            if product > 1e-14 * float(np.linalg.norm(moved) * np.linalg.norm(changed)):
                self._pairs = [*self._pairs[-self._memory + 1 :], (moved, changed, product)]
        self._last = (point, gradient)
        direction = -gradient
        weights = []
        for moved, changed, product in reversed(self._pairs):
            weight = float(moved @ direction) / product
            weights.append(weight)
            direction = direction - weight * changed
        direction = direction / self._bends
        if self._pairs:
            _, changed, product = self._pairs[-1]
            direction = direction * (product / float(changed @ (changed / self._bends)))
        for (moved, changed, product), weight in zip(self._pairs, reversed(weights), strict=True):
            direction = direction + (weight - float(changed @ direction) / product) * moved
        return direction

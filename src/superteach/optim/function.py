"""A function of a small point that is known only through sums over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from superteach.optim.problem import Quadratic
from superteach.types import Array


class Blocks(NamedTuple):
    """The curvature of each output by itself, as if the others stood still."""

    own: Array
    """Outputs × width × width."""
    last: Array
    """Curvature of what follows the outputs: none, or one number."""


class Moments(NamedTuple):
    """Σ_j f_j(x_j'p), its gradient and (order 2) its curvature, whole or output by output."""

    value: float
    gradient: Array
    curvature: Array | None
    blocks: Blocks | None = None


class Sums(Protocol):
    """Whoever adds Σ_j f_j(x_j'p) up over rows: all teachers together, or one who holds rows."""

    def moments(self, point: Array, order: Literal[1, 2]) -> Moments:
        """Value, gradient and (order 2) curvature at a point."""

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        """Values at point + s·direction for every step s."""


Stop = Callable[[Array, Moments, Moments], str | None]
"""Takes a point, the sums over rows there and the same with the quadratic; returns why to stop, or None to go on."""


class Smooth(Protocol):
    """What a solver sees of a function."""

    @property
    def cautious(self) -> bool:
        """Whether the first step is to be searched for as well, because the way from the start may be long."""

    def moments(self, point: Array, order: Literal[1, 2]) -> tuple[Moments, Moments]:
        """The sums over rows, and the whole function: value, gradient and (order 2) curvature."""

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        """Values at point + s·direction for every step s."""


@dataclass(frozen=True, eq=False)
class Function:
    """Σ_j f_j(x_j'p) + ½ p'diag(a)p − b'p: a sum over rows and a known quadratic."""

    sums: Sums
    smooth: Quadratic
    cautious: bool = False

    def moments(self, point: Array, order: Literal[1, 2]) -> tuple[Moments, Moments]:
        """The sums over the rows, and the same with the quadratic added."""
        sums = self.sums.moments(point, order)
        return sums, with_quadratic(sums, self.smooth, point)

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        """Values at point + s·direction for every step s."""
        sums = self.sums.values(point, direction, steps)
        return np.asarray(sums + [self.smooth.value(point + step * direction) for step in steps])

    def flat(self, tolerance: float, floor: float = 0.0) -> Stop:
        """Stop when the gradient is tolerance times smaller than the parts that cancel in it.

        Where the rows are fitted perfectly both parts vanish together; `floor` is the size below which
        they no longer count.
        """

        def stop(point: Array, sums: Moments, whole: Moments) -> str | None:
            norm = float(np.linalg.norm(whole.gradient))
            parts = sums.gradient, self.smooth.diagonal * point, self.smooth.linear
            scale = max(floor, *(float(np.linalg.norm(part)) for part in parts))
            if norm <= tolerance * scale:
                return f"gradient norm {norm:.2g} is at most {tolerance:g} of its parts"
            return None

        return stop


def with_quadratic(sums: Moments, smooth: Quadratic, point: Array) -> Moments:
    """Add the quadratic, which is known without rows, to sums over rows."""
    curvature = None if sums.curvature is None else sums.curvature + np.diag(smooth.diagonal)
    blocks = sums.blocks
    if blocks is not None:
        count, width, _ = blocks.own.shape
        own, last = smooth.diagonal[: count * width].reshape(count, width), smooth.diagonal[count * width :]
        blocks = Blocks(blocks.own + own[:, :, None] * np.eye(width), blocks.last + last)
    return Moments(sums.value + smooth.value(point), sums.gradient + smooth.gradient(point), curvature, blocks)

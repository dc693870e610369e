"""A function of a small point that is known only through sums over rows somebody else holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

import numpy as np

from superteach.optim.problem import Quadratic
from superteach.protocol.queries import AskMoments, AskValues, Blocks, Moments, Query, RowFunction, RowSet
from superteach.types import Array

Stop = Callable[[Array, Moments, Moments], str | None]
"""Takes a point, the sums over rows there and the same with the quadratic; returns why to stop, or None to go on."""


Read = TypeVar("Read")


class Ask(Protocol):
    """Whoever answers a query with what its sum says: `Federation.sum`, or rows of one's own."""

    def __call__(self, query: Query[Read], /) -> Read:
        """Ask `query`; return what its sum says."""


class Sums(Protocol):
    """Whoever answers with sums: a federation, or one who holds rows of his own."""

    def sum(self, query: Query[Read]) -> Read:
        """Ask `query` of all; return what the summed reply says."""


class Smooth(Protocol):
    """What a solver sees of a function."""

    @property
    def rows_add(self) -> str:
        """What each row adds to it."""

    def moments(self, point: Array, order: Literal[1, 2]) -> tuple[Moments, Moments]:
        """The sums over rows, and the whole function: value, gradient and (order 2) curvature; one round."""

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        """Values at point + s·direction for every step s; one round."""


class Curvatures(dict[bytes, Moments]):
    """The last sums with a curvature, by their point: who asks for them again there is told the same."""

    def of(self, ask: Ask, query: AskMoments) -> Moments:
        """Ask, or remember."""
        here = query.point.tobytes()
        told = (self.get(here) if query.order == 2 else None) or ask(query)
        if query.order == 2:
            self.clear()
            self[here] = told
        return told


@dataclass(frozen=True, eq=False)
class Function:
    """Σ_j f_j(x_j'p) + ½ p'diag(a)p − b'p, whose sum is asked for and whose quadratic is known."""

    ask: Ask
    rows_add: RowFunction
    rows: RowSet
    smooth: Quadratic
    outputs: int = 1
    """Curvature is asked for output by output where there are several."""
    held: Curvatures = field(default_factory=Curvatures)

    def moments(self, point: Array, order: Literal[1, 2]) -> tuple[Moments, Moments]:
        """The sums over the rows, and the same with the quadratic added: one round."""
        asked = AskMoments(self.rows_add, self.rows, point, order, self.outputs if order == 2 else 1)
        sums = self.held.of(self.ask, asked)
        return sums, with_quadratic(sums, self.smooth, point)

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        """Values at point + s·direction for every step s: one round."""
        sums = self.ask(AskValues(self.rows_add, self.rows, point, direction, steps))
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

"""Sums over all teachers' rows, as solvers take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from superteach.optim.function import Moments
from superteach.protocol.queries import AskMoments, AskValues, Query, RowFunction, RowSet
from superteach.types import Array

Read = TypeVar("Read")


class Ask(Protocol):
    """Whoever answers a query with what its sum says."""

    def __call__(self, query: Query[Read], /) -> Read:
        """Ask `query`; return what its sum says."""


@dataclass(frozen=True, eq=False)
class RowSums:
    """Σ f_j over some rows: each call is one round."""

    ask: Ask
    function: RowFunction
    rows: RowSet
    outputs: int = 1
    """Curvature is asked for output by output where there are several."""
    rough: bool = False
    """Whether a curvature from some of the rows will do."""
    last: dict[bytes, Moments] = field(default_factory=dict)
    """The last curvature, by its point: who asks for it again costs no round."""

    def moments(self, point: Array, order: Literal[1, 2]) -> Moments:
        """Value, gradient and (order 2) curvature at a point."""
        if order == 1:
            return self.ask(AskMoments(self.function, self.rows, point, 1))
        here = point.tobytes()
        if here not in self.last:
            found = self.ask(AskMoments(self.function, self.rows, point, 2, self.outputs, self.rough))
            self.last.clear()
            self.last[here] = found
        return self.last[here]

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        """Values at point + s·direction for every step s."""
        return self.ask(AskValues(self.function, self.rows, point, direction, steps))

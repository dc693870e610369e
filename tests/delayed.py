"""Teachers of different speed on a clock that is only counted: to see what waiting costs, the same every time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from superteach.engines.threads import Threads
from superteach.protocol.messages import Answers
from superteach.protocol.queries import Query
from superteach.types import Array


class Delayed(Threads):
    """Teachers in one process whose replies take as long as `delay(position)` says; `clock` is the time so far."""

    def __init__(self, teachers: Sequence[Answers], delay: Callable[[int], float]) -> None:
        super().__init__(teachers)
        self._delay = delay
        self._due: list[tuple[float, int, int, Query[object]]] = []
        self.clock = 0.0

    def sum(self, query: Query[object], number: int) -> Array:
        """Everybody waits for the slowest."""
        self.clock += max(self._delay(position) for position in range(len(self._teachers)))
        return super().sum(query, number)

    def post(self, position: int, query: Query[object], number: int) -> None:
        """Ask one teacher, whose reply is due after its delay."""
        heapq.heappush(self._due, (self.clock + self._delay(position), number, position, query))

    def arrival(self) -> tuple[int, Array]:
        """The reply that is due first; the clock moves on to it."""
        self.clock, number, position, query = heapq.heappop(self._due)
        return position, self._ask(position, query, number).values

    def _forget_posts(self) -> None:
        self._due.clear()

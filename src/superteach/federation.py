"""The coordinator's side of the only line there is: broadcast a query, receive one sum."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from superteach.engines.base import Engine
from superteach.errors import TeachingError
from superteach.queries import Query


@dataclass(frozen=True)
class Entry:
    """One round in the ledger; bytes are those of the numbers, over all teachers."""

    number: int
    stage: str
    query: str
    bytes_out: int
    bytes_in: int
    seconds: float
    risk: float | None = None
    """What is left of the way to the goal after this round, where the coordinator knows it."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Federation:
    """K teachers behind an engine; every round is written into the ledger."""

    def __init__(self, engine: Engine, watch: Callable[[Entry], None] | None = None) -> None:
        """`watch` is told of each round once it is over (a progress bar, a log)."""
        self._engine = engine
        self._watch = watch
        self._ledger: list[Entry] = []
        self.stage = "start"

    @property
    def names(self) -> tuple[str, ...]:
        """The teachers' names."""
        return self._engine.names

    @property
    def teachers(self) -> int:
        """K."""
        return len(self._engine.names)

    @property
    def features(self) -> int:
        """How many columns every teacher has."""
        return self._engine.features

    @property
    def ledger(self) -> tuple[Entry, ...]:
        """Every round so far."""
        return tuple(self._ledger)

    def note(self, risk: float) -> None:
        """Write the risk that the last round led to beside it."""
        self._ledger[-1] = replace(self._ledger[-1], risk=risk)

    def sum(self, query: Query) -> Any:
        """Broadcast a query and return what its summed reply says."""
        number = len(self._ledger) + 1
        started = time.perf_counter()
        total = self._engine.sum(query, number)
        if total.shape != (query.reply_length,):
            raise TeachingError(
                f"the sum of {query.name} has shape {total.shape}, expected {query.reply_length} numbers"
            )
        entry = Entry(
            number,
            self.stage,
            query.name,
            self.teachers * query.nbytes,
            self.teachers * 8 * query.reply_length,
            time.perf_counter() - started,
        )
        self._ledger.append(entry)
        if self._watch is not None:
            self._watch(entry)
        return query.read(total)

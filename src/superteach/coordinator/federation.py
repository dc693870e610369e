"""The coordinator's side of the only line there is: broadcast a query, receive one sum."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar

from superteach.engines.base import Engine, Gathering, Posting
from superteach.engines.threads import Threads
from superteach.exceptions import Setting, SettingError, TeachingError
from superteach.lesson import Entry
from superteach.optim.function import Moments
from superteach.protocol.queries import AskMoments, AskValues, Offers, Query, RowFunction, RowSet
from superteach.types import Array, Labels

Read = TypeVar("Read")
_LOG = logging.getLogger(__name__)


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
    kept: dict[bytes, Moments] = field(default_factory=dict)
    """The first two curvatures (at 0 and at the goal, as a rule) and the last, by their points: who asks for one of them
    again costs no round."""

    def moments(self, point: Array, order: Literal[1, 2]) -> Moments:
        """Value, gradient and (order 2) curvature at a point."""
        if order == 1:
            return self.ask(AskMoments(self.function, self.rows, point, 1))
        here = point.tobytes()
        if here not in self.kept:
            found = self.ask(AskMoments(self.function, self.rows, point, 2, self.outputs, self.rough))
            if len(self.kept) > 2:
                self.kept.popitem()
            self.kept[here] = found
        return self.kept[here]

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        """Values at point + s·direction for every step s."""
        return self.ask(AskValues(self.function, self.rows, point, direction, steps))


class Federation:
    """K teachers behind an engine; every round is written into the ledger."""

    def __init__(self, engine: Engine, watch: Callable[[Entry], None] | None = None) -> None:
        """Ask through `engine`; tell `watch` of each round once it is over (a progress bar, a log)."""
        if not hasattr(engine, "sum"):
            raise SettingError(f"a Federation takes an engine such as Threads(teachers), got a {type(engine).__name__}")
        self._engine = engine
        self._watch = watch
        self._ledger: list[Entry] = []
        self._asked = 0
        self._posted: dict[int, tuple[int, Query[Offers]]] = {}
        self._under_way: Query[object] | None = None
        self.stage = "start"
        self.timed = True
        """Whether rounds say how long they took: that depends on rows."""
        self.names = engine.names
        """The teachers' names."""
        self.teachers = len(engine.names)
        """K."""
        self.features = engine.features
        """How many columns every teacher has."""
        self.columns: Sequence[object] = range(engine.features)
        """What the rows' columns are called."""
        self.classes: Labels | None = None
        """The label values, the positive one last; None: there are none, or they are not known."""

    @property
    def here(self) -> bool:
        """Whether all teachers' rows are in this process, so that none leaves it."""
        return isinstance(self._engine, Threads)

    @property
    def ledger(self) -> tuple[Entry, ...]:
        """Every round so far."""
        return tuple(self._ledger)

    def spent(self) -> dict[str, int]:
        """Count rounds and bytes so far; a round that was broken off counts too, for some teachers have answered it."""
        entries = self._ledger + [
            self._entry(query, number, 0.0, self.names[place]) for place, (number, query) in self._posted.items()
        ]
        if self._under_way is not None:
            entries.append(self._entry(self._under_way, self._asked + 1, 0.0))
        bytes_in, bytes_out = sum(entry.bytes_in for entry in entries), sum(entry.bytes_out for entry in entries)
        return {"rounds": len(entries), "bytes_in": bytes_in, "bytes_out": bytes_out}

    def note(self, risk: float) -> None:
        """Write the risk that the last round led to beside it."""
        self._ledger[-1] = replace(self._ledger[-1], risk=risk)

    def sum(self, query: Query[Read]) -> Read:
        """Broadcast a query and return what its summed reply says."""
        number = self._asked + 1
        started = time.perf_counter()
        self._under_way = query
        total = self._engine.sum(query, number)
        self._under_way = None
        self._asked = number  # a round that failed has not been, and its number is free
        return self._heard(query, number, total, started)

    def curvature(self, function: RowFunction, rows: RowSet, point: Array) -> Array:
        """Ask for Σ f_j'' x_j x_j' at a point."""
        found = self.over(function, rows).moments(point, 2).curvature
        assert found is not None
        return found

    def over(self, function: RowFunction, rows: RowSet, outputs: int = 1) -> RowSums:
        """Return Σ f_j over these rows as a function that solvers take."""
        return RowSums(self.sum, function, rows, outputs)

    def post(self, position: int, query: Query[Offers]) -> None:
        """Ask one teacher alone and do not wait: the other verb, for asynchronous rounds only."""
        self._asked += 1
        self._posted[position] = (self._asked, query)
        self.check_posts().post(position, query, self._asked)

    def arrival(self) -> tuple[int, Offers]:
        """Wait for the next reply to a post; return its teacher's position and what it says."""
        started = time.perf_counter()
        position, values = self.check_posts().arrival()
        number, query = self._posted.pop(position)
        return position, self._heard(query, number, values, started, self.names[position])

    def gather(self, query: Query[Read]) -> list[Read]:
        """Broadcast a query and return what every teacher's reply says, in the order of the roster."""
        number, started = self._asked + 1, time.perf_counter()
        self._under_way = query
        replies = self._engine.gather(query, number)
        self._under_way = None
        self._asked = number
        for reply in replies:
            self._check_length(query, reply)
        self._enter(query, number, started, numbers=sum(map(len, replies)))
        return [query.read(reply) for reply in replies]

    def check_gathers(self, privacy: str) -> Gathering:
        """Return the engine if its teachers can teach shares by themselves; else raise an error that names it."""
        if not isinstance(self._engine, Gathering):
            raise SettingError(
                f"{type(self._engine).__name__} does not keep ",
                Setting("privacy", privacy),
                "; use ",
                Setting("privacy", "none"),
            )
        return self._engine

    def check_posts(self) -> Posting:
        """Return the engine if it can ask one teacher alone; else raise an error that names it."""
        if not isinstance(self._engine, Posting):
            raise SettingError(
                f"{type(self._engine).__name__} asks all teachers together; asynchronous rounds need an engine that "
                "asks them one by one (use staleness=0)"
            )
        return self._engine

    def _heard(
        self, query: Query[Read], number: int, values: Array, started: float, teacher: str | None = None
    ) -> Read:
        """Check a reply, write it into the ledger, read it."""
        self._check_length(query, values)
        self._enter(query, number, started, teacher)
        return query.read(values)

    def _check_length(self, query: Query[Any], values: Array) -> None:
        if not query.fits(values):
            raise TeachingError(f"the reply to {query.name} has shape {values.shape}, which is not as declared")

    def _enter(
        self, query: Query[Any], number: int, started: float, teacher: str | None = None, numbers: int | None = None
    ) -> None:
        """Write a round into the ledger, and tell whoever watches."""
        entry = self._entry(query, number, time.perf_counter() - started, teacher, numbers)
        self._ledger.append(entry)
        _LOG.debug("round %d, %s: %s", entry.number, entry.stage, entry.query)
        if self._watch is not None:
            self._watch(entry)

    def _entry(
        self, query: Query[Any], number: int, seconds: float, teacher: str | None = None, numbers: int | None = None
    ) -> Entry:
        replies = self.teachers if teacher is None else 1
        if numbers is None:
            numbers = 0 if query.varies else replies * query.reply_length
        bytes_out, bytes_in = replies * query.nbytes, 8 * numbers
        seconds = seconds if self.timed else math.nan
        return Entry(number, self.stage, query.name, bytes_out, bytes_in, seconds, teacher=teacher)

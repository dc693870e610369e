"""What an engine is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import numpy as np

from superteach.privacy.accounting import Mode
from superteach.protocol.queries import Query
from superteach.types import Array


class Engine(Protocol):
    """Broadcasts a query to every teacher of its roster and adds up what comes back."""

    @property
    def names(self) -> tuple[str, ...]:
        """The roster, in the order the replies are added in."""

    @property
    def features(self) -> int:
        """How many columns every teacher has."""

    def sum(self, query: Query[object], number: int) -> Array:
        """Return the sum of all replies, added in the order of the roster."""

    def gather(self, query: Query[object], number: int) -> list[Array]:
        """Return every teacher's reply, in the order of the roster."""


@runtime_checkable
class Posting(Engine, Protocol):
    """An engine that can also ask teachers one by one, and hand their replies on as they arrive."""

    def post(self, position: int, query: Query[object], number: int) -> None:
        """Ask one teacher and do not wait; it is not asked again before its reply has arrived."""

    def arrival(self) -> tuple[int, Array]:
        """Wait for the next reply to a post: whose it is, and its numbers."""


@runtime_checkable
class Gathering(Engine, Protocol):
    """An engine over teachers that can teach a share of the goal by themselves."""

    @property
    def declared(self) -> tuple[int, ...]:
        """How many rows each teacher says that it has: not the exact number, which tells of single rows."""

    @property
    def most(self) -> tuple[float, ...]:
        """The largest part of a lesson that each teacher carries, from 0 to 1."""

    def keep(self, mode: Mode) -> None:
        """Have all teachers keep to a privacy mode, and begin afresh."""


def add_up(query: Query[object], replies: Iterable[Array]) -> Array:
    """Add replies in the order given: every engine uses this, so that all give the same last bit."""
    total = np.zeros(query.reply_length)
    with np.errstate(invalid="ignore"):  # a line search may overflow, which its caller looks at
        for reply in replies:
            total += reply
    return total

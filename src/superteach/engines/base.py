"""What an engine is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import numpy as np

from superteach.line.queries import Query
from superteach.privacy.fixed import Words, add_words
from superteach.privacy.terms import OPEN_TERMS, PromiseTerms
from superteach.types import Array

Reply = Array | Words
"""Numbers, or under a promise the words for them."""


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


@runtime_checkable
class Posting(Engine, Protocol):
    """An engine that can also ask teachers one by one, and hand their replies on as they arrive."""

    def post(self, position: int, query: Query[object], number: int) -> None:
        """Ask one teacher and do not wait; it is not asked again before its reply has arrived."""

    def arrival(self) -> tuple[int, Array]:
        """Wait for the next reply to a post: whose it is, and its numbers."""


@runtime_checkable
class Promising(Engine, Protocol):
    """An engine whose teachers can keep a promise."""

    @property
    def declared(self) -> tuple[int, ...]:
        """How many rows each teacher says that it has."""

    def keep(self, terms: PromiseTerms) -> None:
        """Have all teachers keep a promise, and begin afresh."""


def add_up(query: Query[object], replies: Iterable[Reply], terms: PromiseTerms = OPEN_TERMS) -> Array:
    """Add replies in the order given: every engine uses this, so that all give the same last bit."""
    if terms.promise != "open":
        words: list[Words] = [np.asarray(reply, dtype=np.uint64) for reply in replies]
        return terms.uncover(query, add_words(*words))
    total = np.zeros(query.reply_length)
    with np.errstate(invalid="ignore"):  # a line search may overflow, which its caller looks at
        for reply in replies:
            total += reply
    return total

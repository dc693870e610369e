"""What crosses the line between a teacher and everybody else.

A teacher works with a plain array until the guard at its door has looked at it. Only a `Sealed` may travel, only
`superteach.privacy.guard` makes one, and engines accept nothing else.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Any, Protocol, Self

from superteach.exceptions import QueryRefused
from superteach.protocol.queries import Query
from superteach.types import Array, Positions

SEAL = object()
"""What makes a reply a sealed one. The guard alone uses it, and a test looks for anybody else who does."""


@dataclass(frozen=True)
class Turn:
    """Which round this is, where the teacher stands in the roster, and how long the roster is."""

    number: int
    position: int
    teachers: int


@dataclass(frozen=True, eq=False)
class Sealed:
    """One reply that may leave its teacher: as many numbers as the query declares."""

    values: Array
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not SEAL:
            raise QueryRefused("a Sealed reply is made by superteach.privacy.guard alone")
        self.values.setflags(write=False)


class Answers(Protocol):
    """A teacher as far as whoever asks it knows one."""

    name: str

    @property
    def rows(self) -> Any:
        """Something with a count of rows and of features."""

    def start(self) -> Any:
        """Return the state before the first query."""

    def under(self, guard: Any) -> Self:
        """Put the same teacher behind another guard."""

    def choosing(self, state: Any, chosen: Positions) -> Any:
        """Return the state with these rows chosen, for whoever owns them."""

    def answer(self, query: Query[object], state: Any, turn: Turn) -> tuple[Any, Sealed]:
        """Return a new state and a sealed reply."""

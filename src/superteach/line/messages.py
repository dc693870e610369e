"""What crosses the line between a teacher and everybody else.

A teacher works with a plain array until its policy has looked at it. Only a `Sealed` may travel, only
`seal` makes one, and engines accept nothing else.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from superteach.errors import QueryRefused, TeachingError
from superteach.line.queries import QUERIES, Query

_KEY = object()


@dataclass(frozen=True)
class Turn:
    """Which round this is, where the teacher stands in the roster, and how long the roster is."""

    number: int
    position: int
    teachers: int


@dataclass(frozen=True, eq=False)
class Sealed:
    """One reply that may leave its teacher: a flat array of the length the query declares."""

    values: npt.NDArray[np.float64]
    key: InitVar[object]

    def __post_init__(self, key: object) -> None:
        if key is not _KEY:
            raise QueryRefused("a Sealed reply is made by superteach.line.messages.seal alone")
        self.values.setflags(write=False)


def seal(query: Query, values: npt.NDArray[np.float64], teacher: str) -> Sealed:
    """Check a reply against its query and release it."""
    if type(query) not in QUERIES:
        raise QueryRefused(f"teacher {teacher} knows no query named {type(query).__name__}")
    if values.shape != (query.reply_length,):
        raise TeachingError(
            f"teacher {teacher} has a reply of shape {values.shape} to {query.name}, "
            f"which takes {query.reply_length} numbers"
        )
    return Sealed(np.array(values, dtype=np.float64), _KEY)


class Answers(Protocol):
    """A teacher as far as whoever asks it knows one."""

    name: str

    @property
    def rows(self) -> Any:
        """Something with a count of rows and of features."""

    def start(self) -> Any:
        """The state before the first query."""

    def answer(self, query: Query, state: Any, turn: Turn) -> tuple[Any, Sealed]:
        """A new state and a sealed reply."""

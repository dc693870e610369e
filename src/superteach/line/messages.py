"""What crosses the line between a teacher and everybody else.

A teacher works with a plain array until the guard at its door has looked at it. Only a `Sealed` may travel, only
`superteach.privacy.guard` makes one, and engines accept nothing else.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import InitVar, dataclass, is_dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from superteach.errors import QueryRefused
from superteach.line.queries import Query
from superteach.types import Array

SEAL = object()
"""What makes a reply a sealed one. The guard alone uses it, and a test looks for anybody else who does."""
DIGITS = 6
"""Digits of its largest number that a mark tells apart: machines may differ in the last bits of sixteen."""


@dataclass(frozen=True)
class Turn:
    """Which round this is, where the teacher stands in the roster, and how long the roster is."""

    number: int
    position: int
    teachers: int


@dataclass(frozen=True, eq=False)
class Sealed:
    """One reply that may leave its teacher: as many numbers as the query declares, or under a promise the words for them."""

    values: Array | npt.NDArray[np.uint64]
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not SEAL:
            raise QueryRefused("a Sealed reply is made by superteach.privacy.guard alone")
        self.values.setflags(write=False)

    @property
    def numbers(self) -> Array:
        """The numbers themselves, where no promise covers them."""
        if self.values.dtype != np.float64:
            raise QueryRefused("this reply is covered by a promise, and no number")
        return np.asarray(self.values, dtype=np.float64)


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

    def answer(self, query: Query[object], state: Any, turn: Turn) -> tuple[Any, Sealed]:
        """Return a new state and a sealed reply."""


def mark_of(query: Query[object], number: int) -> str:
    """Digest a round, its query and the point it asks about: whoever is in step with the others has the same mark.

    Under a promise no message asks a query: teachers know the next one themselves, and say by its mark which it was.
    """
    facts = [number, query.name, query.reply_length, [_plain(value) for _, value in sorted(vars(query).items())]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _plain(value: object) -> object:
    """Write a value as JSON, numbers rounded."""
    if isinstance(value, np.ndarray):
        largest = float(np.abs(value).max(initial=0.0))
        scale = largest if 0.0 < largest < np.inf else 1.0
        return [f"{largest:.{DIGITS - 1}e}", (np.round(value / scale, DIGITS) + 0.0).tolist()]
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return f"{value:.{DIGITS - 1}e}"
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if hasattr(value, "settings"):
        return value.settings()
    if is_dataclass(value) and not isinstance(value, type):
        return [_plain(one) for one in vars(value).values()]
    return value.hex() if isinstance(value, bytes) else value

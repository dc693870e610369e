"""What travels between a coordinator and the partitions of a table, each of which is read by whoever is free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are what, and the loss by name and parameters."""

    features: tuple[str, ...]
    target: str
    owner: str | None
    costs: str | None
    loss: Mapping[str, object]

    @property
    def needed(self) -> list[str]:
        """All columns that teachers read."""
        return [*self.features, self.target, *(name for name in (self.costs, self.owner) if name is not None)]

    def columns(self, widths: Sequence[int]) -> list[str]:
        """Name each column of the rows: a feature with a width above 0 is a vector, and has a column for each entry."""
        return [
            column
            for name, width in zip(self.features, widths, strict=True)
            for column in ([f"{name}[{place}]" for place in range(width)] if width else [name])
        ]


class Member(NamedTuple):
    """A teacher of the roster: its partition, which of the teachers there it is, its name, how many rows it has."""

    partition: int
    place: int
    name: str
    rows: int


class Seat(NamedTuple):
    """A teacher of a partition: its place in the roster, and the id of its first row."""

    position: int
    first: int


class Home(NamedTuple):
    """Where a partition lives: the worker that holds it, its teachers' seats, the digest of its rows."""

    worker: str
    seats: tuple[Seat, ...]
    digest: int


class Piece(NamedTuple):
    """Rows of a Parquet file that follow each other: its path, the first of them, how many."""

    path: str
    first: int
    rows: int


class PartitionReply(NamedTuple):
    """What comes back: one reply of one teacher of one partition, and which worker holds it now."""

    partition: int
    worker: str
    place: int
    """Which of the partition's teachers."""
    reply: bytes


@dataclass(frozen=True)
class Task:
    """One question to partitions, with all that a worker needs which has never heard of the lesson."""

    lesson: str
    layout: Layout
    most_bytes: int | None
    """Memory for rows in each worker; None is half of the machine's, shared by its cores."""
    asking: int = 0
    """Numbers the questions of a lesson from 1; at 0 rows are read and nothing is asked."""
    attempt: int = 0
    question: bytes = b""
    """A query as `wire.pack_question` writes it; nothing asks for the positions of chosen rows."""
    after: int = 0
    """The asking that changed last what partitions remember."""
    changes: bool = False
    teachers: int = 0
    classes: tuple[object, ...] | None = None
    homes: Mapping[int, Home] = field(default_factory=dict)
    """The partitions asked."""
    journal: tuple[tuple[int, bytes], ...] = ()
    """Askings that changed what partitions remember, to be asked again of partitions that are read anew."""
    ends: bool = False
    """Forget the lesson."""

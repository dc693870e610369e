"""Teachers in the partitions of a table: any worker may hold one, and any other can take its place.

What a partition remembers is a function of its rows and of the questions so far. A worker that holds partitions answers for
all of them in one task; those that nobody holds any more are read again and hear the journal of questions that changed
something.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from superteach.engines.base import add_up
from superteach.exceptions import TeachingError
from superteach.protocol import wire
from superteach.protocol.partitions import Home, Member, PartitionReply, Seat, Task
from superteach.protocol.queries import EVERYTHING, Query
from superteach.protocol.wire import reply_of, values_of
from superteach.types import Array, Positions

LOOKS = 2
"""How often all workers are visited before partitions are read again: a free slot may be given to one worker twice. A visit
without work takes about a tenth of a second, a partition read again as long as reading it the first time."""
_log = logging.getLogger(__name__)


class Jobs(Protocol):
    """How tasks get to workers."""

    def visit(self, task: Task) -> Iterable[PartitionReply]:
        """Run a task in every worker: each answers for the partitions that it holds."""

    def load(self, task: Task) -> Iterable[PartitionReply]:
        """Run a task for each partition of `task.homes` (none: for all there are), with its rows."""


class Spark:
    """Asks the partitions of a table, and adds up the replies in the order of the roster."""

    def __init__(
        self, jobs: Jobs, task: Task, roster: Sequence[Member], homes: Mapping[int, tuple[str, int]], features: int
    ) -> None:
        """`homes` has each partition's worker and the digest of its rows, as they were read first."""
        self._jobs, self._features = jobs, features
        self.roster = tuple(roster)
        self._names = tuple(one.name for one in roster)
        self._position = {(one.partition, one.place): position for position, one in enumerate(roster)}
        first = np.cumsum([0, *(one.rows for one in roster)]).tolist()
        seats: dict[int, list[Seat]] = {}
        for (part, _), position in sorted(self._position.items()):
            seats.setdefault(part, []).append(Seat(position, first[position]))
        self._homes = {part: Home(homes[part][0], tuple(seats[part]), homes[part][1]) for part in seats}
        self._task = replace(task, teachers=len(roster))
        self._asked = 0
        self._journal: list[tuple[int, bytes]] = []
        self.loads = 0
        """Partitions that were read again."""

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    @property
    def features(self) -> int:
        return self._features

    def sum(self, query: Query[object], number: int) -> Array:
        """Add up all replies in the order of the roster."""
        return add_up(query, self.gather(query, number))

    def gather(self, query: Query[object], number: int) -> list[Array]:
        """Visit all workers, and read again what none of them holds; replies in the order of the roster."""
        question = wire.pack_question(self._task.lesson, number, query)
        found = self._ask(question, bool(query.changes), query.name)
        values = [values_of(query, name, reply) for name, reply in zip(self._names, found, strict=True)]
        if query.changes:
            if query.changes == EVERYTHING:
                self._journal.clear()
            self._journal.append((self._asked, question))
        return values

    def chosen(self) -> tuple[tuple[Positions, ...], dict[int, int]]:
        """Which rows of its partition each teacher has chosen, and their mark by partition; for whoever owns all."""
        replies = self._ask(b"", False, "a question for chosen rows")
        marks = dict.fromkeys(self._homes, 0)
        for member, one in zip(self.roster, replies, strict=True):
            marks[member.partition] ^= one.facts["mark"]
        return tuple(np.array([] if one.words is None else one.words, dtype=np.int64) for one in replies), marks

    def close(self) -> None:
        """Have workers forget the lesson; one that is not reached forgets it when it needs the memory."""
        try:
            list(self._jobs.visit(replace(self._task, ends=True)))
        except TeachingError as error:
            _log.info("workers were not told of the end of a lesson: %s", error)

    def _ask(self, question: bytes, changes: bool, what: str) -> list[wire.Reply]:
        """Replies of all teachers, in the order of the roster."""
        self._asked += 1
        after = self._journal[-1][0] if self._journal else 0
        task = replace(self._task, asking=self._asked, question=question, after=after, changes=changes)
        found: dict[tuple[int, int], bytes] = {}
        missing = dict(self._homes)
        for attempt in range(LOOKS):
            try:
                self._hear(found, missing, self._jobs.visit(replace(task, attempt=attempt, homes=dict(missing))))
            except TeachingError as error:
                _log.warning("a visit to all workers failed: %s", error)
            if not missing:
                break
        else:
            self._read_again(found, missing, task)
        replies = {self._names[self._position[one]]: reply for one, reply in found.items()}
        return [reply_of(name, what, replies) for name in self._names]

    def _read_again(self, found: dict[tuple[int, int], bytes], missing: dict[int, Home], task: Task) -> None:
        """Have partitions that nobody holds read again, and asked after the journal."""
        _log.warning("%d of %d partitions are lost and read again", len(missing), len(self._homes))
        self.loads += len(missing)
        lost = sorted(missing)
        self._hear(found, missing, self._jobs.load(replace(task, homes=dict(missing), journal=tuple(self._journal))))
        if missing:
            raise TeachingError(
                f"partitions {lost[:5]} were read again and did not answer: the table has other partitions than before; "
                "write it to Parquet first and teach from there"
            )

    def _hear(
        self, found: dict[tuple[int, int], bytes], missing: dict[int, Home], replies: Iterable[PartitionReply]
    ) -> None:
        """Take replies of whole partitions, and note where each lives now."""
        for one in replies:
            found[one.partition, one.place] = one.reply
            self._homes[one.partition] = self._homes[one.partition]._replace(worker=one.worker)
        for part in [part for part in missing if all((part, k) in found for k in range(len(missing[part].seats)))]:
            del missing[part]

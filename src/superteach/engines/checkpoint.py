"""Sums of an unfinished lesson on the coordinator's disk, and the engine that goes on from them.

The coordinator is deterministic: the same sums lead to the same next question. So a lesson that was broken off runs
again from its first question. Sums that are in the journal are taken from there. Only questions that change what a
teacher remembers are asked once more, for a teacher's new process remembers nothing; the answers must be those of the
first time, to the last bit.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from superteach.engines.base import Engine
from superteach.exceptions import TeachingError
from superteach.io.atomic import Records
from superteach.protocol import wire
from superteach.protocol.queries import Query
from superteach.types import Array, Json

_log = logging.getLogger(__name__)
ANEW = "begin the lesson anew, without --resume"


class Journal:
    """One lesson's sums, by round; what interrupted it stands between them."""

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        """Open the journal of a lesson with these settings, or begin it."""
        self._records = Records(path, dict(settings), mode=0o600)
        self._head = self._first_line()

    @property
    def last(self) -> int:
        """The last round that is kept, 0 where there is none."""
        return max((record["cell"].get("round", 0) for record in self._records), default=0)

    @property
    def there(self) -> bool:
        """Whether the file is still this lesson's."""
        return self._first_line() == self._head

    @property
    def ended_by_a_loss(self) -> bool:
        """Whether the last thing noted is what broke the lesson off."""
        return "interruption" in next(reversed(list(self._records)), {"cell": {}})["cell"]

    @property
    def interruptions(self) -> list[Json]:
        """What broke the lesson off, each time."""
        return [dict(record["facts"]) for record in self._records if "interruption" in record["cell"]]

    def replies_of(self, number: int, query: Query[object]) -> list[Array] | None:
        """Return the sum of a round, or its replies, where they are kept and were of the same question."""
        kept = self._records.find({"round": number})
        if kept is None:
            return None
        if kept["question"] != _digest(number, query):
            raise TeachingError(
                f"round {number} of the unfinished lesson asked something else than {query.name} as it is asked now "
                f"(another version of a library?); {ANEW}"
            )
        return [np.frombuffer(bytes.fromhex(one), np.float64).copy() for one in kept["replies"]]

    def keep(self, number: int, query: Query[object], replies: Sequence[Array]) -> None:
        """Put the sum of a round, or its replies, on disk, unless another lesson has taken the place over.

        Where the file is gone the lesson goes on without one: it can be finished, only not resumed.
        """
        if self.there:
            kept = [one.tobytes().hex() for one in replies]
            self._records.put({"round": number}, {"question": _digest(number, query), "replies": kept})
        elif self._records.path.exists():
            raise TeachingError(
                "a lesson with the same settings has begun since and took this one's journal; one of them is enough"
            )

    def _first_line(self) -> bytes:
        try:
            with self._records.path.open("rb") as file:
                return file.readline()
        except OSError:
            return b""

    def interrupt(self, facts: Mapping[str, object]) -> None:
        """Note what broke the lesson off; a note that cannot be written changes nothing of what is done about it."""
        if not self.there:
            return
        try:
            self._records.put({"interruption": len(self.interruptions)}, {"facts": dict(facts)})
        except TeachingError as error:
            _log.warning("%s", error)

    def remove(self) -> None:
        """Remove the journal of a lesson that is over; a journal that another lesson has begun in its place stays."""
        if self.there:
            self._records.path.unlink(missing_ok=True)


def _digest(number: int, query: Query[object]) -> str:
    return hashlib.sha256(wire.pack_question("", number, query)).hexdigest()


class Journalled:
    """An engine that keeps every sum, and does not ask for what is kept unless teachers must hear it again."""

    def __init__(self, engine: Engine, journal: Journal) -> None:
        self._engine, self._journal = engine, journal
        self.names, self.features = engine.names, engine.features
        self.asked_again = 0

    def sum(self, query: Query[object], number: int) -> Array:
        """Return the kept sum or a new one."""
        return self._kept(query, number, lambda: [self._engine.sum(query, number)])[0]

    def gather(self, query: Query[object], number: int) -> list[Array]:
        """Return the kept replies or new ones."""
        return self._kept(query, number, lambda: self._engine.gather(query, number))

    def _kept(self, query: Query[object], number: int, ask: Callable[[], list[Array]]) -> list[Array]:
        """Return what is kept, or ask; a teacher that answers otherwise than before ends the lesson."""
        kept = self._journal.replies_of(number, query)
        if kept is None:
            replies = ask()
            self._journal.keep(number, query, replies)
            return replies
        if query.changes:
            self.asked_again += 1
            if [one.tobytes() for one in ask()] != [one.tobytes() for one in kept]:
                raise TeachingError(
                    f"the teachers answer {query.name} in round {number} otherwise than before the lesson was broken "
                    f"off (other rows, or another version of a library?); {ANEW}"
                )
        return kept

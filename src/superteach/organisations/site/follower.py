"""A teacher in step with the others: it runs the script itself, and waits for totals alone."""

from __future__ import annotations

import queue
import threading
from typing import NamedTuple, Protocol

from superteach.errors import QueryRefused
from superteach.line.messages import Sealed, Turn, mark_of
from superteach.line.queries import Query
from superteach.privacy.fixed import Words
from superteach.privacy.terms import PromiseTerms
from superteach.teacher import Teacher
from superteach.types import Array


class Follows(Protocol):
    """A script as far as a site knows one."""

    def follow(self, engine: Follower) -> None:
        """Ask the engine for one total after the other, up to the choice of rows."""


class Spoken(NamedTuple):
    """What a teacher says in a round."""

    number: int
    query: str
    mark: str
    sealed: Sealed


class Follower:
    """An engine whose sums are this teacher's own words out and the total of all in.

    The script runs on a thread of its own, and only while a message is being answered: `step` wakes it and waits.
    """

    def __init__(
        self, teacher: Teacher, script: Follows, names: tuple[str, ...], position: int, terms: PromiseTerms
    ) -> None:
        self.names, self.teacher, self.state = names, teacher, teacher.start()
        self._script, self._position, self._terms = script, position, terms
        self._totals: queue.SimpleQueue[Words | None] = queue.SimpleQueue()
        self._said: queue.SimpleQueue[Spoken | BaseException | None] = queue.SimpleQueue()
        self._last: Spoken | None = None
        self._broken = self._over = False

    @property
    def features(self) -> int:
        """How many columns this teacher has."""
        return int(self.teacher.rows.features)

    @property
    def number(self) -> int:
        """The last round."""
        return 0 if self._last is None else self._last.number

    def sum(self, query: Query[object], number: int) -> Array:
        """Say this teacher's words and wait for the total; called on the script's own thread."""
        turn = Turn(number, self._position, len(self.names))
        self.state, sealed = self.teacher.answer(query, self.state, turn)
        self._said.put(Spoken(number, query.name, mark_of(query, number), sealed))
        if (total := self._totals.get()) is None:
            raise QueryRefused("this lesson was left for another one")
        return self._terms.uncover(query, total)

    def leave(self) -> None:
        """End the script's thread, where there is one."""
        self._broken = True
        self._totals.put(None)

    def step(self, totals: tuple[Words, ...]) -> Spoken | None:
        """Go on with the total of the last round; what this teacher says next, None at the script's end."""
        if self._broken:
            raise QueryRefused("the script broke off at this teacher; its own log says why: begin another lesson")
        if self._over:
            return None
        if self._last is None:
            if totals:
                raise QueryRefused("there is no total before the first round")
            # A daemon: a lesson that nobody goes on with must not keep this process from ending.
            threading.Thread(target=self._run, daemon=True).start()
        else:
            wanted = self._last.sealed.values.shape
            if [total.shape for total in totals] != [wanted]:
                seen = [total.shape for total in totals]
                raise QueryRefused(f"the total of round {self.number} has shape {wanted}, got {seen}")
            if self.teacher.guard.masker is not None:
                self.teacher.guard.masker.hear(totals[0].tobytes())
            self._totals.put(totals[0])
        said = self._said.get()
        if isinstance(said, BaseException):
            self._broken = True
            raise said
        self._last, self._over = said or self._last, said is None
        return said

    def _run(self) -> None:
        try:
            self._script.follow(self)
            self._said.put(None)
        except BaseException as error:  # it belongs to whoever waits for the words
            self._said.put(error)

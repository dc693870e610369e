"""Teachers that follow a script: the engine of a promise. It adds words and sends the total on, and asks nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from superteach.engines.remote import SECONDS, Line, reply_of
from superteach.errors import BadReply, TeachingError
from superteach.line import wire
from superteach.line.queries import Query
from superteach.line.script import mark_of
from superteach.promises.fixed import Words, add_words
from superteach.promises.terms import OPEN_TERMS, PromiseTerms
from superteach.types import Array


class Relay:
    """Adds up what teachers say in step, and tells them nothing but the total of the round before."""

    def __init__(
        self,
        line: Line,
        lesson: str,
        names: Sequence[str],
        features: int,
        declared: Sequence[int],
        begins: Mapping[str, bytes],
        seconds: float = SECONDS,
    ) -> None:
        """`begins` holds each teacher's own first message, which has all of the script but the totals."""
        self.names, self.features, self.declared = tuple(names), features, tuple(declared)
        self._line, self._lesson, self._begins, self._seconds = line, lesson, begins, seconds
        self._terms = OPEN_TERMS
        self.last: Words | None = None
        """The total of the last round."""

    def keep(self, terms: PromiseTerms) -> None:
        """Have every teacher begin, or hear why one does not; nothing is spent by that."""
        self._terms, replies = terms, self._line.ask(self._begins, self._seconds)
        for name in self.names:
            reply_of(name, "to begin", replies)

    def sum(self, query: Query[object], number: int) -> Array:
        """Send the last total, and add up what teachers say to a query that they know themselves."""
        totals = [] if self.last is None else [self.last]
        message = wire.pack("step", {"lesson": self._lesson, "number": number}, totals)
        replies = self._line.ask(dict.fromkeys(self.names, message), self._seconds)
        mark = mark_of(query, number)
        words = [_words_of(name, number, mark, reply_of(name, f"round {number}", replies)) for name in self.names]
        shapes = {part.shape for part in words}
        if len(shapes) > 1 or words[0].shape[0] != query.reply_length:
            told = ", ".join(f"{name} {part.shape}" for name, part in zip(self.names, words, strict=True))
            raise TeachingError(f"round {number} takes {query.reply_length} numbers, teachers said {told}: begin anew")
        self.last = add_words(*words)
        return self._terms.uncover(query, self.last)


def _words_of(name: str, number: int, mark: str, reply: wire.Reply) -> Words:
    if reply.words is None or reply.words.ndim != 2:
        raise BadReply(name, f"answered round {number} with no words")
    if reply.facts.get("mark") != mark:
        raise BadReply(
            name,
            f"is out of step in round {number}: it answered something else than the others were asked; see that all "
            "teachers and the coordinator have one version of superteach and of its libraries",
        )
    return np.asarray(reply.words, dtype=np.uint64)

"""Teachers behind a line of bytes: the engine for teachers that are processes or machines of their own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from superteach.engines.base import add_up
from superteach.errors import BadReply, QueryRefused, TeacherLost
from superteach.line import wire
from superteach.line.queries import Query
from superteach.types import Array

SECONDS = 600.0
"""How long a teacher may take over one answer."""


class Line(Protocol):
    """Carries bytes to teachers and their answers back."""

    def ask(self, requests: Mapping[str, bytes], seconds: float) -> dict[str, bytes]:
        """Send each teacher its message at once; return the answers that came in time, by teacher."""


class Remote:
    """Asks every teacher of the roster over a line, and adds up the replies in roster order."""

    def __init__(self, line: Line, lesson: str, names: Sequence[str], features: int, seconds: float = SECONDS) -> None:
        self.names, self.features = tuple(names), features
        self._line, self._lesson, self._seconds = line, lesson, seconds
        self._arrived: queue.SimpleQueue[tuple[int, Array | Exception]] = queue.SimpleQueue()

    def sum(self, query: Query[object], number: int) -> Array:
        """Add up what all teachers reply."""
        return add_up(query, self.gather(query, number))

    def gather(self, query: Query[object], number: int) -> list[Array]:
        """Ask all and wait for all; a refusal or a loss ends the round with an error that names the teacher."""
        message = wire.pack_question(self._lesson, number, query)
        requests = dict.fromkeys(self.names, message)
        replies = self._line.ask(requests, self._seconds)
        return [values_of(query, name, reply_of(name, query.name, replies)) for name in self.names]

    def post(self, position: int, query: Query[object], number: int) -> None:
        """Ask one teacher on a thread of its own, which ends when the line's time is up."""
        name, message = self.names[position], wire.pack_question(self._lesson, number, query)

        def carry() -> None:
            try:
                reply = reply_of(name, query.name, self._line.ask({name: message}, self._seconds))
                self._arrived.put((position, values_of(query, name, reply)))
            except Exception as error:  # it belongs to whoever waits for the reply
                self._arrived.put((position, error))

        # A daemon: whoever waits for a lost teacher must not keep this process from ending.
        threading.Thread(target=carry, daemon=True).start()

    def arrival(self) -> tuple[int, Array]:
        """Return the next reply to a post, or the error that came in its place."""
        position, found = self._arrived.get()
        if isinstance(found, Exception):
            raise found
        return position, found


def reply_of(name: str, what: str, replies: Mapping[str, bytes]) -> wire.Reply:
    """Return a teacher's reply; raise an error where it is lost, refuses or failed."""
    if name not in replies:
        raise TeacherLost(name, f"it gave no answer to {what}")
    try:
        reply = wire.read_reply(replies[name])
    except QueryRefused as error:
        raise BadReply(name, f"answered {what} with something else: {error}") from None
    if reply.status == "refused":
        raise QueryRefused(f"teacher {name} refuses {what}: {reply.reason}")
    if reply.status == "failed":
        raise BadReply(name, f"failed over {what}: {reply.reason}")
    return reply


def values_of(query: Query[object], name: str, reply: wire.Reply) -> Array:
    """Return the numbers of a reply; raise an error where they are not as many as declared, or not finite."""
    if reply.values is None or reply.values.shape != (query.reply_length,):
        seen = "no numbers" if reply.values is None else f"numbers of shape {reply.values.shape}"
        raise BadReply(name, f"answered {query.name} with {seen}, expected {query.reply_length}")
    odd = query.wrong(reply.values)
    if odd.any():
        raise BadReply(name, f"answered {query.name} with {reply.values[odd][0]} among its numbers")
    return reply.values

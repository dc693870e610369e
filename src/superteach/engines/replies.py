"""Replies of teachers in other processes: read, and held against what was asked."""

from __future__ import annotations

from collections.abc import Mapping

from superteach.exceptions import BadReply, QueryRefused, TeacherLost
from superteach.protocol import wire
from superteach.protocol.queries import Query
from superteach.types import Array


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
    if reply.values is None or not query.fits(reply.values):
        seen = "no numbers" if reply.values is None else f"numbers of shape {reply.values.shape}"
        raise BadReply(name, f"answered {query.name} with {seen}, not as many as declared")
    odd = query.wrong(reply.values)
    if odd.any():
        raise BadReply(name, f"answered {query.name} with {reply.values[odd][0]} among its numbers")
    return reply.values

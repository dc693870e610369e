"""The closed list of what a coordinator may ask of the teachers.

Each query is a frozen dataclass that owns its facts: what is broadcast, what a teacher replies and how the sum is read,
what the reply shows, the rows it runs over, what it changes in a teacher's memory, its sensitivity, and whether single rows
can be read from it. Policies, guard, engines, journal and docs ask the class. A teacher refuses anything that is not
on the list.
"""

from __future__ import annotations

from types import ModuleType

from superteach.protocol.queries import common, private, selection
from superteach.protocol.queries.common import *  # noqa: F403
from superteach.protocol.queries.common import Query
from superteach.protocol.queries.private import *  # noqa: F403
from superteach.protocol.queries.selection import *  # noqa: F403


def _kinds(*rooms: ModuleType) -> tuple[type[Query[object]], ...]:
    return tuple(
        kind
        for room in rooms
        for kind in vars(room).values()
        if isinstance(kind, type) and kind.__module__ == room.__name__ and "broadcast" in vars(kind)
    )


QUERIES = _kinds(common, selection, private)
"""The closed list: the classes of these modules that say what they broadcast."""
OPEN = tuple(query for query in QUERIES if query.shows_rows)
"""Queries that show single rows as they are."""

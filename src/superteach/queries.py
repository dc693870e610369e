"""The closed list of queries, for users; `superteach.line.queries` has it."""

from superteach.line import queries as _queries
from superteach.line.queries import *  # noqa: F403

__all__ = _queries.__all__

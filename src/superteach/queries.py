"""The closed list of queries, for users; `superteach.line.queries` has it."""

from superteach.line.queries import *  # noqa: F403

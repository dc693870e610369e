"""Exact teaching, from sums over the teachers."""

from __future__ import annotations

from superteach_lab.compare.task import GOAL, SUMS, Contestant, Indices, Proven, Task
from superteach_lab.rivals.ours import chosen_by

RESTARTS = 12


def choose(task: Task, size: int, seed: int) -> Indices | Proven:
    """method="match"."""
    return chosen_by(task, size, seed, method="match")


def long(task: Task, size: int, seed: int) -> Indices | Proven:
    """The best of RESTARTS searches."""
    return chosen_by(task, size, seed, method="match", restarts=RESTARTS)


CONTESTANTS = (
    Contestant("match", "exact teaching", (SUMS, GOAL), choose),
    Contestant("match long", f"the same, the best of {RESTARTS} searches", (SUMS, GOAL), long),
)

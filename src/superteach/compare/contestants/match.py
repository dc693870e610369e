"""Exact teaching, from sums over the teachers."""

from __future__ import annotations

from superteach.compare.contestants.ours import chosen_by
from superteach.compare.task import GOAL, SUMS, Contestant, Indices, Task


def choose(task: Task, size: int, seed: int) -> Indices:
    """method="match"."""
    return chosen_by(task, size, seed, method="match")


CONTESTANTS = (Contestant("match", "exact teaching", (SUMS, GOAL), choose),)

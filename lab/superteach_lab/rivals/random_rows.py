"""Rows drawn at random."""

from __future__ import annotations

import numpy as np

from superteach_lab.compare.task import Contestant, Indices, Task


def choose(task: Task, size: int, seed: int) -> Indices:
    """Without replacement, all rows alike."""
    return np.random.default_rng(seed).choice(task.rows, size, replace=False)


CONTESTANTS = (Contestant("random", "rows drawn at random", (), choose),)

"""All rows: what the learner learns when nobody teaches."""

from __future__ import annotations

import numpy as np

from superteach_lab.compare.task import Contestant, Indices, Task


def choose(task: Task, size: int, seed: int) -> Indices:
    """Every row."""
    return np.arange(task.rows)


CONTESTANTS = (Contestant("full pool", "all rows, no choice", (), choose, whole=True),)

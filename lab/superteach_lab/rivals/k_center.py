"""k-center: every row near to a chosen one; always the row farthest from those chosen comes next (Gonzalez 1985)."""

from __future__ import annotations

import numpy as np

from superteach.types import Array
from superteach_lab.compare.task import ROWS, Contestant, Indices, Task


def farthest_first(points: Array, size: int, first: int) -> Indices:
    """Greedy k-center from a first point: at most twice the best radius."""
    chosen = np.empty(size, dtype=np.int64)
    nearest = np.full(len(points), np.inf)
    square = np.square(points).sum(axis=1)
    row = first
    for step in range(size):
        chosen[step] = row
        np.minimum(nearest, np.maximum(square + square[row] - 2.0 * (points @ points[row]), 0.0), out=nearest)
        nearest[row] = -1.0  # a twin of a chosen row has distance 0 and may still come
        row = int(np.argmax(nearest))
    return chosen


def labelled(task: Task) -> Array:
    """Rows with their targets as one more column of the features' spread."""
    X, y = task.X, task.y
    spread = float(X.std()) or 1.0
    return np.column_stack([X, (y - y.mean()) / (float(y.std()) or 1.0) * spread])


def choose(task: Task, size: int, seed: int) -> Indices:
    """From a random row on."""
    first = int(np.random.default_rng(seed).integers(task.rows))
    return farthest_first(labelled(task), size, first)


CONTESTANTS = (Contestant("k-center", "rows that cover the pool: farthest first", (ROWS,), choose),)

"""Herding: rows whose running mean follows the pool's (Welling 2009)."""

from __future__ import annotations

import numpy as np

from superteach.types import Array
from superteach_lab.compare.task import ROWS, Contestant, Indices, Task


def herd(points: Array, size: int) -> Indices:
    """Always the row after which the mean of those chosen is nearest to the mean of all."""
    mean = points.mean(axis=0)
    square = np.square(points).sum(axis=1)
    taken = np.zeros(len(points), dtype=bool)
    chosen, total = np.empty(size, dtype=np.int64), np.zeros(points.shape[1])
    for step in range(size):
        # ‖(total + p)/(step+1) − mean‖² up to what does not depend on p.
        away = square + 2.0 * points @ (total - (step + 1) * mean)
        away[taken] = np.inf
        row = int(np.argmin(away))
        chosen[step], taken[row] = row, True
        total = total + points[row]
    return chosen


def random_features(X: Array, y: Array, seed: int, count: int = 100) -> Array:
    """cos(w'(x, y) + u): a map whose means tell distributions apart, at the median distance's scale."""
    draw = np.random.default_rng(seed)
    rows = np.column_stack([X, (y - y.mean()) / (float(y.std()) or 1.0) * (float(X.std()) or 1.0)])
    some = rows[draw.integers(len(rows), size=(2, 1000))]
    width = float(np.median(np.linalg.norm(some[0] - some[1], axis=1))) or 1.0
    phase = draw.uniform(0.0, 2.0 * np.pi, count)
    return np.asarray(np.cos(rows @ draw.standard_normal((rows.shape[1], count)) / width + phase))


def choose(task: Task, size: int, seed: int) -> Indices:
    """Herd random Fourier features of rows and targets."""
    return herd(random_features(task.X, task.y, seed), size)


CONTESTANTS = (Contestant("herding", "rows whose mean follows the pool's, kernel herding", (ROWS,), choose),)

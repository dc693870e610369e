"""Rows drawn with probability proportional to their leverage h_j = x_j'(X'X)⁺x_j."""

from __future__ import annotations

import numpy as np

from superteach.types import Array
from superteach_lab.compare.task import ROWS, Contestant, Indices, Task


def leverages(X: Array) -> Array:
    """The diagonal of X(X'X)⁺X', from the Gram matrix."""
    values, vectors = np.linalg.eigh(X.T @ X)
    kept = values > 1e-12 * max(float(values[-1]), 1e-300)
    return np.asarray(np.square(X @ (vectors[:, kept] / np.sqrt(values[kept]))).sum(axis=1))


def choose(task: Task, size: int, seed: int) -> Indices:
    """Without replacement: the largest log(u)/h_j, u uniform (Efraimidis and Spirakis)."""
    weight = np.maximum(leverages(task.design), 1e-300)
    keys = np.log(np.random.default_rng(seed).random(task.rows)) / weight
    return np.argsort(-keys, kind="stable")[:size]


CONTESTANTS = (Contestant("leverage", "rows drawn by their leverage scores", (ROWS,), choose),)

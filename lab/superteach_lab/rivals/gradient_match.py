"""Matching the pool's gradient without the goal (GradMatch, Killamsetty et al. 2021), unweighted.

Gradients of every row at a few models between 0 and the pool's own are stacked, and orthogonal matching
pursuit with weights ≥ 0 rebuilds their sum. A lesson has no weights, so only the rows are kept; where the
sum is rebuilt before there are enough rows, the pursuit starts again among the rest.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from superteach.types import Array
from superteach_lab.compare.task import ROWS, Contestant, Indices, Task

MODELS = 6
MOST_IN_ONE = 40
"""Rows of one pursuit: each step solves least squares over all of them."""


def stacked(task: Task) -> Array:
    """Rows' gradients at models on the way from 0 to the pool's, beside each other."""
    pool = task.fit()
    return np.hstack([task.pulls(share * pool)[0] for share in np.linspace(0.0, 1.0, MODELS)])


def pursue(atoms: Array, target: Array, size: int) -> tuple[Indices, Array]:
    """Orthogonal matching pursuit with weights ≥ 0: rows whose weighted sum comes near the target, and weights."""
    norms = np.maximum(np.linalg.norm(atoms, axis=1), 1e-300)
    chosen: list[int] = []
    weights, left = np.empty(0), target.copy()
    for _ in range(size):
        gain = atoms @ left / norms
        gain[chosen] = -np.inf
        row = int(np.argmax(gain))
        if gain[row] <= 1e-9 * np.linalg.norm(target):
            break
        chosen.append(row)
        weights, _ = nnls(atoms[chosen].T, target)
        left = target - weights @ atoms[chosen]
    return np.array(chosen, dtype=np.int64), weights


def in_pursuits(atoms: Array, size: int) -> Indices:
    """Pursuits one after the other, each among the rows that are left."""
    target, rest = atoms.sum(axis=0), np.arange(len(atoms))
    chosen: list[Indices] = []
    while (missing := size - sum(map(len, chosen))) > 0:
        found, _ = pursue(atoms[rest], target, min(missing, MOST_IN_ONE))
        if not len(found):
            found = np.arange(missing)
        chosen.append(rest[found])
        rest = np.delete(rest, found)
    return np.concatenate(chosen)


def choose(task: Task, size: int, seed: int) -> Indices:
    """Match all gradients at once; nothing is random in it."""
    return in_pursuits(stacked(task), size)


CONTESTANTS = (Contestant("gradient matching", "rows that rebuild the pool's gradient (GradMatch)", (ROWS,), choose),)

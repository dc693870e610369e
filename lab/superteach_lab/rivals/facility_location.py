"""Facility location: max Σ_i max_{j∈S} s(i, j), by lazy greedy (Minoux 1978).

A page of our own: apricot-select has it too, but its last release is of 2021 and brings numba and nose along.
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from superteach.types import Array
from superteach_lab.compare.task import ROWS, Contestant, Indices, Task
from superteach_lab.rivals.k_center import labelled

Similarity = npt.NDArray[np.float32]

MOST = 10_000
"""Rows whose pairwise similarities fit: 400 MB of float32."""


def similarity(points: Array) -> Similarity:
    """Largest distance minus distance, in blocks, as float32."""
    square = np.square(points).sum(axis=1)
    out = np.empty((len(points), len(points)), dtype=np.float32)
    for start in range(0, len(points), 512):
        block = points[start : start + 512]
        apart = square[start : start + 512, None] + square[None, :] - 2.0 * block @ points.T
        out[start : start + 512] = np.sqrt(np.maximum(apart, 0.0))
    np.subtract(out.max(), out, out=out)
    return out


def lazy_greedy(similar: Similarity, size: int) -> Indices:
    """Always the row with the largest gain; gains only shrink, so most need not be computed again."""
    covered = np.zeros(len(similar), dtype=np.float32)
    heap = [(-float(gain), row) for row, gain in enumerate(similar.sum(axis=1, dtype=np.float64))]
    heapq.heapify(heap)
    chosen: list[int] = []
    while len(chosen) < size:
        _, row = heapq.heappop(heap)
        gain = float(np.maximum(similar[row] - covered, 0.0).sum(dtype=np.float64))
        if heap and (-gain, row) > heap[0]:
            heapq.heappush(heap, (-gain, row))
            continue
        chosen.append(row)
        np.maximum(covered, similar[row], out=covered)
    return np.array(chosen)


def refuses(task: Task, size: int) -> str | None:
    """The matrix of similarities has N² entries."""
    if task.rows <= MOST:
        return None
    return f"{task.rows:,} rows have too many pairs to compare; at most {MOST:,}"


def choose(task: Task, size: int, seed: int) -> Indices:
    """Rows that stand for all others; nothing is random in it."""
    return lazy_greedy(similarity(labelled(task)), size)


CONTESTANTS = (Contestant("facility location", "rows that stand for all others", (ROWS,), choose, refuses),)

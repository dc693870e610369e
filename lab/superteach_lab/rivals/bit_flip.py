"""Multi-start bit-flip search: central, cheap and strong.

A lesson teaches θ* where e = H⁻¹(Σ_{j∈S} g_j − Λθ*) is zero, and ‖e‖ is its risk to first order. Every
start (from the relaxation of that equation under random costs, or from random rows) goes downhill by the
best of all swaps of a chosen row for another; then pairs of swaps among the rows that move the model least
go on from the best starts. H is taken anew as rows change. The work is counted, so the same seed gives
the same rows unless its time runs out, which is processor time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from superteach.types import Array, Mask
from superteach_lab.compare.task import GOAL, ROWS, Contestant, Indices, Task
from superteach_lab.rivals.leverage import leverages

TEMPERATURE = 0.03
PASSES = 6
"""Times that H is taken anew in one descent."""


@dataclass(frozen=True)
class Effort:
    """How much is tried."""

    starts: int
    finals: int
    """Best starts that go on with pairs."""
    searches: int
    """Searches over pairs of swaps from each of those."""
    inside: int
    outside: int
    """Chosen and other rows whose swaps are paired."""


SHORT = Effort(starts=4, finals=1, searches=12, inside=60, outside=150)
LONG = Effort(starts=16, finals=3, searches=20, inside=80, outside=200)


class Landscape:
    """‖e‖ over choices of rows."""

    def __init__(self, task: Task, size: int) -> None:
        self.design = task.design
        self.penalty = task.penalty(size)
        self.pulls, self.curvature = task.pulls(task.aim)
        self.target = self.penalty.gradient(task.aim)

    def linearise(self, mask: Mask) -> tuple[Array, Array]:
        """H⁻¹g_j of all rows, and e."""
        rows = self.design[mask]
        hessian = (rows * self.curvature[mask][:, None]).T @ rows + np.diag(self.penalty.diagonal)
        inverse = np.linalg.pinv(hessian, hermitian=True)
        return self.pulls @ inverse, inverse @ (self.pulls[mask].sum(axis=0) - self.target)

    def risk(self, mask: Mask) -> float:
        """‖e‖."""
        return float(np.linalg.norm(self.linearise(mask)[1]))


def relax(pulls: Array, target: Array, size: int, costs: Array, steps: int = 60) -> Array:
    """0 ≤ b ≤ 1 with Σ b_j g_j = target and Σ b_j = n at least cost plus entropy, by Newton on its dual."""
    from scipy.special import expit

    rows, aim = np.column_stack([pulls, np.ones(len(pulls))]), np.append(target, size)
    point = np.zeros(len(aim))
    point[-1] = TEMPERATURE * np.log(size / max(len(pulls) - size, 0.5))

    def value(at: Array) -> float:
        smooth = np.logaddexp(0.0, (rows @ at - costs) / TEMPERATURE).sum()
        return float(TEMPERATURE * smooth - at @ aim)

    now = value(point)
    for _ in range(steps):
        share = expit((rows @ point - costs) / TEMPERATURE)
        gradient = rows.T @ share - aim
        hessian = (rows * (share * (1.0 - share) / TEMPERATURE)[:, None]).T @ rows
        hessian += 1e-12 * np.trace(hessian) * np.eye(len(aim))
        step = -np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        length = 1.0
        while value(point + length * step) > now + 1e-4 * length * float(gradient @ step) and length > 1e-8:
            length *= 0.5
        after = value(point + length * step)
        if not np.isfinite(after):  # where no fractions balance the goal the dual runs away
            break
        point = point + length * step
        before, now = now, after
        if before - now <= 1e-12 * abs(before):
            break
    return np.asarray(expit((rows @ point - costs) / TEMPERATURE))


def descend(land: Landscape, mask: Mask, deadline: float) -> float:
    """The best swap again and again until none helps, H taken anew in between; ‖e‖ at the end."""
    last = np.inf
    for _ in range(PASSES):
        shifts, residual = land.linearise(mask)
        _swap(shifts, mask, residual, deadline)
        risk = land.risk(mask)
        if risk > 0.9 * last or time.process_time() > deadline:
            break
        last = risk
    return risk


def _swap(shifts: Array, mask: Mask, residual: Array, deadline: float) -> None:
    square = np.square(shifts).sum(axis=1)
    inside, outside = np.flatnonzero(mask), np.flatnonzero(~mask)
    if not len(outside):
        return
    cross = -2.0 * shifts[inside] @ shifts[outside].T
    while time.process_time() < deadline:
        along = 2.0 * shifts @ residual
        # ‖e + z_j − z_i‖² − ‖e‖² for every chosen i and other j.
        change = cross + (square - along)[inside][:, None]
        change += (square + along)[outside][None, :]
        leave, enter = divmod(int(np.argmin(change)), len(outside))
        if change[leave, enter] >= -1e-4 * float(residual @ residual):
            return
        out, new = inside[leave], outside[enter]
        residual = residual + shifts[new] - shifts[out]
        mask[out], mask[new] = False, True
        inside[leave], outside[enter] = new, out
        cross[leave] = -2.0 * shifts[outside] @ shifts[new]
        cross[:, enter] = -2.0 * shifts[inside] @ shifts[out]


def best_pair(
    shifts: Array, mask: Mask, residual: Array, effort: Effort, draw: np.random.Generator
) -> tuple[Indices, Indices]:
    """Two chosen and two other rows whose exchange leaves the least residual, among rows with small shifts."""
    size = np.sqrt(np.square(shifts).sum(axis=1))

    def pick(rows: Indices, most: int) -> Indices:
        # Twice as many of the smallest, half of them left out at random, so that searches differ.
        rows = rows[np.argsort(size[rows], kind="stable")[: 2 * most]]
        return draw.choice(rows, min(most, len(rows)), replace=False)

    inside, outside = pick(np.flatnonzero(mask), effort.inside), pick(np.flatnonzero(~mask), effort.outside)
    swaps = (shifts[outside][None, :, :] - shifts[inside][:, None, :]).reshape(-1, shifts.shape[1])
    # |s + t|² is |s|² + (2s, 1)'(t, |t|²): one product of matrices, in float32 because it only ranks.
    left = np.column_stack([2.0 * (residual + swaps), np.ones(len(swaps))]).astype(np.float32)
    right = np.column_stack([swaps, np.square(swaps).sum(axis=1)]).astype(np.float32).T
    with np.errstate(invalid="ignore"):  # kernels for small float32 matrices read beyond them, and may raise a flag
        parts = [part @ right for part in np.array_split(left, max(1, len(left) // 256))]
    second = np.concatenate([np.argmin(part, axis=1) for part in parts])
    total = np.square(residual + swaps + swaps[second]).sum(axis=1)
    (i, j), (k, m) = np.divmod(np.arange(len(swaps)), len(outside)), np.divmod(second, len(outside))
    total[(i == k) | (j == m)] = np.inf
    best = int(np.argmin(total))
    if not np.isfinite(total[best]):
        return inside[:0], outside[:0]
    return inside[[i[best], k[best]]], outside[[j[best], m[best]]]


def search(task: Task, size: int, seed: int, effort: Effort) -> Indices:
    """Starts, descents, pairs; the choice with the least ‖e‖."""
    draw = np.random.default_rng(seed)
    deadline = time.process_time() + 0.9 * task.seconds
    land = Landscape(task, size)
    steady = 0.5 * leverages(land.design) * task.rows / land.design.shape[1]
    found: list[tuple[float, Mask]] = []
    for start in range(effort.starts):
        order = draw.permutation(task.rows)
        if start % 4 < 3:  # every fourth start is random rows; high leverage keeps H⁻¹ small
            share = relax(land.pulls, land.target, size, draw.random(task.rows) - steady)
            order = np.argsort(-share, kind="stable")
        mask = np.zeros(task.rows, dtype=bool)
        mask[order[:size]] = True
        found.append((descend(land, mask, deadline), mask))
        if time.process_time() > deadline:
            break
    found.sort(key=lambda pair: pair[0])
    finals = [_pairs(land, *one, effort, draw, deadline) for one in found[: effort.finals]]
    best = min([*found[:1], *finals], key=lambda pair: pair[0])[1]
    return np.flatnonzero(best)


def _pairs(
    land: Landscape, risk: float, mask: Mask, effort: Effort, draw: np.random.Generator, deadline: float
) -> tuple[float, Mask]:
    """Go on from a choice by pairs of swaps, each followed by a descent, as long as that helps."""
    for _ in range(effort.searches):
        if time.process_time() > deadline:
            break
        shifts, residual = land.linearise(mask)
        leave, enter = best_pair(shifts, mask, residual, effort, draw)
        after = mask.copy()
        after[leave], after[enter] = False, True
        now = land.risk(after)
        if now < risk:
            risk, mask = now, after
    return risk, mask


def short(task: Task, size: int, seed: int) -> Indices:
    """A few starts."""
    return search(task, size, seed, SHORT)


def long(task: Task, size: int, seed: int) -> Indices:
    """Many starts."""
    return search(task, size, seed, LONG)


CONTESTANTS = (
    Contestant("bit-flip", "central search by swaps, a few starts", (ROWS, GOAL), short),
    Contestant("bit-flip long", "the same with four times as many starts", (ROWS, GOAL), long, slow=True),
)

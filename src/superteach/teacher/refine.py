"""Balancing the goal inside one teacher: costs, the fractional choice, and the search of one turn.

A row's pull on the goal is g_j = −ℓ'(x_j'θ*) x_j, and a lesson S teaches θ* exactly when
Σ_{j∈S} g_j = Λθ*. Choosing or dropping a row shifts the taught model by about ±H⁻¹g_j.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from superteach.losses import Logistic, Terms
from superteach.teacher.pairs import best_pair, small_pairs, swaps

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_STEADY = 0.5
"""Weight of a row's leverage (1 on average) against the random number in its cost."""
_EFFORTS = ((2_000, 60, 9_000), (10_000, 120, 25_000))
"""For teachers of up to so many rows: how many chosen rows a search looks at, and how many swaps of them with
others; it sees all pairs of these. Where there are more rows weak ones abound, and fewer swaps do."""
_LARGE_EFFORT = (60, 2_000)
_SEARCHES = 6
"""Searches in one attempt, each from where the last one ended."""
_ENOUGH = 0.98
"""A search that leaves more than this share of the residual ends the attempt."""
_MANY_ROWS = 256
"""Exchanges that it would take to make up for the residual, from which on many are made at once."""
_STIRRED = 3
"""Attempts with moves drawn at random, where a turn must change many rows."""
_FEW, _WEAK, _MOVES, _DRAWN = 30, 3_000, 4_000, 400
"""Weak chosen rows, swaps of them with weak others, how many of their pairs are kept as moves, and among how
many one is drawn."""


@dataclass(frozen=True, eq=False)
class Balancing:
    """Every row's slope −ℓ'(x_j'θ*), its cost, and the temperature of the fractional choice."""

    pull: Array
    costs: Array
    temperature: float

    def terms(self, t: Array, where: npt.NDArray[np.int64] | slice) -> Terms:
        """τ log(1 + exp((t − c)/τ)): its slope is the fractional choice b_j."""
        z = (t - self.costs[where]) / self.temperature
        value, slope, curvature = Logistic().terms(-z, np.ones_like(z))
        return Terms(self.temperature * value, -slope, curvature / self.temperature)


def costs(uniform: Array, leverage: Array, strength: Array, fine: float, own: Array | None) -> Array:
    """What choosing a row costs; among choices that teach the goal the relaxation takes the cheapest.

    Random numbers break ties. Rows with a high leverage steady the learner, so that what is left after
    rounding moves the model less. Of the rows with the weakest pull every second is taken and every
    second left, because exchanging them later is the finest adjustment there is. An owner's own costs,
    where given, come before all of that.
    """
    if own is not None:
        spread = float(np.ptp(own))
        return np.asarray((own - own.min()) / (spread or 1.0) + 0.05 * uniform)
    drawn = uniform - _STEADY * leverage
    weak = np.argsort(strength, kind="stable")[: round(fine * len(strength))]
    order = weak[np.argsort(uniform[weak], kind="stable")]
    drawn[order[::2]] = drawn.min() - 1.0
    drawn[order[1::2]] += 0.5
    return drawn


def improve(
    shifts: Array,
    chosen: Positions,
    residual: Array,
    least: int,
    draw: np.random.Generator,
    past: tuple[Positions, ...] = (),
) -> Positions:
    """Exchange chosen rows for others so that the residual shrinks; none, or at least `least` changes.

    The least number holds against every earlier choice too: any two rounds can be subtracted.
    """
    before = np.zeros(len(shifts), dtype=bool)
    before[chosen] = True
    best, lowest = before, float(np.linalg.norm(residual))
    for flipped in _attempts(shifts, before, residual, least, draw):
        mask = before ^ flipped
        rest = residual + shifts[flipped & mask].sum(axis=0) - shifts[flipped & before].sum(axis=0)
        norm = float(np.linalg.norm(rest))
        if norm < lowest and far_enough(np.flatnonzero(mask), (chosen, *past), least):
            best, lowest = mask, norm
    return np.flatnonzero(best)


def far_enough(found: Positions, past: tuple[Positions, ...], least: int) -> bool:
    """Whether a choice differs from every earlier one in at least so many rows."""
    return all(len(np.setxor1d(found, old, assume_unique=True)) >= least for old in past)


def _attempts(
    shifts: Array, before: Mask, residual: Array, least: int, draw: np.random.Generator
) -> Iterator[Mask]:
    """Rows to flip: one search after another; and, where many must change, moves at random and one search."""
    size = np.sqrt(np.einsum("ij,ij->i", shifts, shifts))
    yield _searched(shifts, size, before, residual, least, draw)
    if least <= 4:
        return
    inside, outside = np.flatnonzero(before), np.flatnonzero(~before)
    inside = _weakest(size, inside, _FEW)
    outside = _weakest(size, outside, _WEAK // max(1, len(inside)))
    moves = small_pairs(swaps(shifts, inside, outside), _MOVES)
    for _ in range(_STIRRED):
        flipped = np.zeros(len(shifts), dtype=bool)
        rest = residual
        # A move flips four rows, so the pair of moves at the end flips eight.
        for _ in range(max(0, -(-(least - 8) // 4))):
            free = np.flatnonzero(~flipped[moves.rows].any(axis=1))[:_DRAWN]
            if not len(free):
                break
            drawn = draw.choice(free)
            flipped[moves.rows[drawn]] = True
            rest = rest + moves.shifts[drawn]
        flipped[best_pair(moves.without(flipped), rest, float(np.linalg.norm(residual)))] = True
        yield flipped


def _searched(
    shifts: Array, size: Array, before: Mask, residual: Array, least: int, draw: np.random.Generator
) -> Mask:
    """Rows to flip, found by searches that go on while each leaves much less than the one before."""
    flipped = np.zeros(len(shifts), dtype=bool)
    few, most = next((effort for rows, *effort in _EFFORTS if len(shifts) <= rows), _LARGE_EFFORT)
    residual = _by_many(shifts, before, flipped, residual, draw)
    for _ in range(_SEARCHES):
        now = float(np.linalg.norm(residual))
        mask = before ^ flipped
        free = ~flipped if least > 2 else np.ones_like(flipped)  # a row flipped back would no longer count
        inside = _near(size, np.flatnonzero(mask & free), few, 3.0 * now, draw)
        outside = _near(size, np.flatnonzero(~mask & free), most // max(1, len(inside)), 3.0 * now, draw)
        rows = best_pair(swaps(shifts, inside, outside), residual, _ENOUGH * now)
        if not len(rows):
            break
        enters = ~mask[rows]
        residual = residual + shifts[rows[enters]].sum(axis=0) - shifts[rows[~enters]].sum(axis=0)
        flipped[rows] = ~flipped[rows]
    return flipped


def _by_many(shifts: Array, before: Mask, flipped: Mask, residual: Array, draw: np.random.Generator) -> Array:
    """Where one exchange is nothing beside the residual, flip many rows at once, in place; the residual that is left.

    Rows are drawn by the sign of s'C⁻¹e, with C the second moments of the shifts s: what those have in common lies
    along e. The rest of k draws is √k shifts long, so a few such steps leave what pairs can make up for.
    """
    moments = np.linalg.pinv(shifts.T @ shifts / len(shifts), hermitian=True)
    for _ in range(_SEARCHES):
        mask, free, along = before ^ flipped, ~flipped, shifts @ (moments @ residual)
        inside = np.flatnonzero(mask & free & (along > 0.0))
        outside = np.flatnonzero(~mask & free & (along < 0.0))
        if not len(inside) or not len(outside):
            break
        one = shifts[outside].mean(axis=0) - shifts[inside].mean(axis=0)
        count = min(-float(one @ residual) / float(one @ one), len(inside) / 2.0, len(outside) / 2.0)
        if not count >= _MANY_ROWS:
            break
        leave, enter = (draw.choice(rows, int(count), replace=False) for rows in (inside, outside))
        after = residual + shifts[enter].sum(axis=0) - shifts[leave].sum(axis=0)
        if not np.linalg.norm(after) < np.linalg.norm(residual):
            break
        flipped[leave] = flipped[enter] = True
        residual = np.asarray(after)
    return residual


def _near(size: Array, rows: Positions, most: int, limit: float, draw: np.random.Generator) -> Positions:
    """At most so many rows: drawn from those whose shift is within the limit, else the weakest."""
    within = rows[size[rows] <= limit]
    return draw.choice(within, most, replace=False) if len(within) > most else _weakest(size, rows, most)


def _weakest(size: Array, rows: Positions, most: int) -> Positions:
    return rows[np.argpartition(size[rows], most)[:most]] if len(rows) > most else rows

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

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_STEADY = 0.5
"""Weight of a row's leverage (1 on average) against the random number in its cost."""
_INSIDE, _SWAPS, _MANY, _FEW_SWAPS = 60, 9_000, 10_000, 2_000
"""How many chosen rows a search looks at, and how many swaps of them with others: all pairs of these.
Among so many rows there are weak ones enough: fewer swaps, a twentieth of the work, lose a third of the risk."""
_SEARCHES = 6
"""Searches in one attempt, each from where the last one ended."""
_ENOUGH = 0.98
"""A search that leaves more than this share of the residual ends the attempt."""
_STIRRED = 3
"""Attempts with moves drawn at random, where a turn must change many rows."""
_BLOCK = 512
_WEAK, _MOVES, _DRAWN = 3_000, 4_000, 400
"""Swaps of weak rows, how many of their pairs are kept as moves, and among how many one is drawn."""


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
    inside = _weakest(size, inside, _INSIDE // 2)
    outside = _weakest(size, outside, _WEAK // max(1, len(inside)))
    moves = _small_pairs(_swaps(shifts, inside, outside))
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
        left = moves.without(flipped)
        last, _ = _best_pair(left, left, rest)
        flipped[last] = True
        yield flipped


def _searched(
    shifts: Array, size: Array, before: Mask, residual: Array, least: int, draw: np.random.Generator
) -> Mask:
    """Rows to flip, found by searches that go on while each leaves much less than the one before."""
    flipped = np.zeros(len(shifts), dtype=bool)
    for _ in range(_SEARCHES):
        limit = 3.0 * float(np.linalg.norm(residual))
        most = _SWAPS if len(shifts) <= _MANY else _FEW_SWAPS
        mask = before ^ flipped
        free = ~flipped if least > 2 else np.ones_like(flipped)  # a row flipped back would no longer count
        inside = _near(size, np.flatnonzero(mask & free), _INSIDE, limit, draw)
        outside = _near(size, np.flatnonzero(~mask & free), most // max(1, len(inside)), limit, draw)
        swaps = _swaps(shifts, inside, outside)
        rows, after = _best_pair(swaps, swaps, residual)
        if not after < _ENOUGH * limit / 3.0:
            break
        enters = ~mask[rows]
        residual = residual + shifts[rows[enters]].sum(axis=0) - shifts[rows[~enters]].sum(axis=0)
        flipped[rows] = ~flipped[rows]
    return flipped


@dataclass(frozen=True, eq=False)
class _Moves:
    """Ways to change the lesson without changing its size: the rows each flips, and how it shifts the model."""

    rows: Positions
    shifts: Array

    def without(self, flipped: Mask) -> _Moves:
        """Those that touch none of the flipped rows."""
        free = ~flipped[self.rows].any(axis=1)
        return _Moves(self.rows[free], self.shifts[free])


def _swaps(shifts: Array, inside: Positions, outside: Positions) -> _Moves:
    """Every exchange of one chosen row for another row."""
    both = (shifts[outside][None, :, :] - shifts[inside][:, None, :]).reshape(-1, shifts.shape[1])
    leave, enter = np.divmod(np.arange(len(both)), max(1, len(outside)))
    return _Moves(np.column_stack([inside[leave], outside[enter]]), both)


def _near(size: Array, rows: Positions, most: int, limit: float, draw: np.random.Generator) -> Positions:
    """At most so many rows: drawn from those whose shift is within the limit, else the weakest."""
    within = rows[size[rows] <= limit]
    return draw.choice(within, most, replace=False) if len(within) > most else _weakest(size, rows, most)


def _weakest(size: Array, rows: Positions, most: int) -> Positions:
    return rows[np.argpartition(size[rows], most)[:most]] if len(rows) > most else rows


def _small_pairs(swaps: _Moves) -> _Moves:
    """Pairs of swaps that all but cancel, smallest first: moves that change rows but hardly the model."""
    each = -(-2 * _MOVES // max(1, len(swaps.rows)))
    first, second = [], []
    for start, products in _products(swaps.shifts, swaps.shifts):
        few = np.argpartition(products, min(each, products.shape[1] - 1), axis=1)[:, :each]
        first.append(np.repeat(np.arange(start, start + len(few)), few.shape[1]))
        second.append(few.ravel())
    one, two = (np.concatenate(part) if part else np.empty(0, dtype=np.int64) for part in (first, second))
    rows = np.concatenate([swaps.rows[one], swaps.rows[two]], axis=1)
    # The same four rows make two pairs of swaps, each found from both ends.
    _, kept = np.unique(np.sort(rows, axis=1), axis=0, return_index=True)
    kept = kept[(rows[kept, 0] != rows[kept, 2]) & (rows[kept, 1] != rows[kept, 3])]
    total = swaps.shifts[one[kept]] + swaps.shifts[two[kept]]
    order = np.argsort(np.einsum("ij,ij->i", total, total), kind="stable")[:_MOVES]
    return _Moves(rows[kept[order]], total[order])


def _best_pair(ones: _Moves, others: _Moves, residual: Array) -> tuple[Positions, float]:
    """The move of `ones`, alone or with one of `others`, after which the residual is shortest."""
    if not len(ones.rows):
        return np.empty(0, dtype=np.int64), np.inf
    after = residual + ones.shifts
    single = np.einsum("ij,ij->i", after, after)
    alone = int(np.argmin(single))
    best, lowest = ones.rows[alone], float(single[alone])
    if len(others.rows):
        partner = np.concatenate([np.argmin(part, axis=1) for _, part in _products(after, others.shifts)])
        pairs = np.square(after + others.shifts[partner]).sum(axis=1)
        rows = np.sort(np.concatenate([ones.rows, others.rows[partner]], axis=1), axis=1)
        pairs[(np.diff(rows, axis=1) == 0).any(axis=1)] = np.inf
        two = int(np.argmin(pairs))
        if pairs[two] < lowest:
            best, lowest = rows[two], float(pairs[two])
    return best, float(np.sqrt(lowest))


def _products(ones: Array, others: Array) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """|t|² + 2 s't for blocks of s in `ones` and all t in `others`: what t adds to |s + t|² beside |s|²."""
    left = np.column_stack([2.0 * ones, np.ones(len(ones))]).astype(np.float32)
    right = np.column_stack([others, np.einsum("ij,ij->i", others, others)]).astype(np.float32).T
    for start in range(0, len(left), _BLOCK):
        yield start, left[start : start + _BLOCK] @ right

"""Balancing the goal inside one teacher: costs, the fractional choice, and the search of one turn.

A row's pull on the goal is g_j = −ℓ'(x_j'θ*) x_j, and a lesson S teaches θ* exactly when
Σ_{j∈S} g_j = Λθ*. Choosing or dropping a row shifts the taught model by about ±H⁻¹g_j.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from superteach.halves import ASKED, best_exchange, count_ways
from superteach.losses import Logistic, Terms
from superteach.teacher.pairs import best_pair, swaps

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_STEADY = 0.5
"""Weight of a row's leverage (1 on average) against the random number in its cost."""
_SEVERAL, _FINER = 4, 2.2
"""A pair of swaps changes so many rows. Turns that must change more look at exchanges of many weak rows, of which
so many times more are then set aside."""
_EFFORTS = ((2_000, 60, 9_000), (10_000, 120, 25_000))
"""For teachers of up to so many rows: how many chosen rows a search looks at, and how many swaps of them with
others; it sees all pairs of these."""
_SMALL_EFFORT, _LARGE_EFFORT = (60, 4_000), (60, 2_000)
"""The same for brief turns that may change a few rows; and for more rows, where weak ones abound."""
_SEARCHES = 6
"""Searches in one attempt, each from where the last one ended."""
_ENOUGH = 0.98
"""A search that leaves more than this share of the residual ends the attempt."""
_MANY_EXCHANGES = 32
"""Exchanges that it would take to make up for the residual, from which on many are made at once."""
_GLANCE = 4_096
"""Rows that tell whether so many exchanges are needed."""
_FINE, _EACH, _WAYS = 80, 5, 30_000
"""Weak rows whose exchanges are looked at, at most; how many at least of the chosen and of the others; and how
many ways half of them may have with ten columns, which is what the search takes time for."""


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


def costs(
    uniform: Array, leverage: Array, strength: Array, fine: float, least: int, own: Array | None
) -> Array:
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
    share = fine if least <= _SEVERAL else _FINER * fine
    weak = weakest(strength, np.arange(len(strength)), round(share * len(strength)))
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
    brief: bool = False,
) -> Positions:
    """Exchange chosen rows for others so that the residual shrinks; none, or at least `least` changes.

    The least number holds against every earlier choice too: any two rounds can be subtracted. A brief turn looks at
    fewer swaps, because a step of all teachers together will do the rest.
    """
    before = np.zeros(len(shifts), dtype=bool)
    before[chosen] = True
    best, lowest = chosen, float(np.linalg.norm(residual))
    for flipped in _attempts(shifts, before, residual, least, draw, brief):
        found = np.flatnonzero(before ^ flipped)
        norm = float(np.linalg.norm(_left(shifts, before, flipped, residual)))
        if norm < lowest and far_enough(found, (chosen, *past), least):
            best, lowest = found, norm
    return best


def _left(shifts: Array, before: Mask, flipped: Mask, residual: Array) -> Array:
    """The residual after these rows were flipped."""
    entered, gone = shifts[flipped & ~before], shifts[flipped & before]
    return np.asarray(residual + entered.sum(axis=0) - gone.sum(axis=0))


def far_enough(found: Positions, past: tuple[Positions, ...], least: int) -> bool:
    """Whether a choice differs from every earlier one in at least so many rows."""
    return all(len(np.setxor1d(found, old, assume_unique=True)) >= least for old in past)


def _attempts(
    shifts: Array, before: Mask, residual: Array, least: int, draw: np.random.Generator, brief: bool
) -> Iterator[Mask]:
    """Rows to flip: one search for pairs after another, and then every exchange of the weakest rows."""
    size = np.sqrt(np.einsum("ij,ij->i", shifts, shifts))
    searched = _searched(shifts, size, before, residual, least, draw, brief)
    yield searched
    if least <= _SEVERAL:
        return
    for start in (searched, np.zeros_like(searched)) if searched.any() else (searched,):
        # Where a turn needs more than can be asked for, weak rows drawn at random are changed first.
        flipped = _stirred(size, before, start, least - ASKED, draw)
        missing = least - int(np.count_nonzero(flipped))
        rows = finest(size, before ^ flipped, ~flipped, missing, _WAYS * 10 // max(10, shifts.shape[1]))
        rest = _left(shifts, before, flipped, residual)
        # No row is flipped back: it would no longer count.
        flipped[rows] = best_exchange(shifts[rows], before[rows], rest, missing)
        yield flipped


def _stirred(size: Array, before: Mask, start: Mask, least: int, draw: np.random.Generator) -> Mask:
    """The rows flipped so far and weak ones beside them, drawn at random, until they are at least so many."""
    flipped = start.copy()
    missing = least - int(np.count_nonzero(flipped))
    sides = (
        [weakest(size, np.flatnonzero(side & ~flipped), missing) for side in (before, ~before)]
        if missing > 0
        else []
    )
    for rows in sides:
        flipped[draw.choice(rows, min(-(-missing // 2), *map(len, sides)), replace=False)] = True
    return flipped


def finest(size: Array, mask: Mask, free: Mask, least: int, work: int) -> Positions:
    """The weakest rows, among them enough that leave and enough that enter: as many as there is work for."""
    inside, outside = (
        rows[np.argsort(size[rows], kind="stable")]
        for rows in (weakest(size, np.flatnonzero(side & free), _FINE) for side in (mask, ~mask))
    )
    if not len(inside) or not len(outside):
        return inside[:0]
    leaves = np.argsort(np.concatenate([size[inside], size[outside]]), kind="stable") < len(inside)
    each = max(_EACH, least // 2 + 1)
    leave, enter = (np.clip(np.cumsum(side), each, None)[:_FINE] for side in (leaves, ~leaves))
    within = [
        place
        for place, both in enumerate(zip(leave, enter, strict=True))
        if count_ways(*map(int, both)) <= work
    ]
    most = within[-1] if within else 0
    return np.concatenate([inside[: leave[most]], outside[: enter[most]]])


def _searched(
    shifts: Array,
    size: Array,
    before: Mask,
    residual: Array,
    least: int,
    draw: np.random.Generator,
    brief: bool,
) -> Mask:
    """Rows to flip, found by searches that go on while each leaves much less than the one before."""
    flipped = np.zeros(len(shifts), dtype=bool)
    few, most = next((effort for rows, *effort in _EFFORTS if len(shifts) <= rows), _LARGE_EFFORT)
    if brief and least <= _SEVERAL and len(shifts) <= _EFFORTS[-1][0]:
        few, most = _SMALL_EFFORT
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
    some = slice(None, None, max(1, len(shifts) // _GLANCE))
    glance = shifts[some]
    moments = np.linalg.pinv(glance.T @ glance / len(glance), hermitian=True)
    for _ in range(_SEARCHES):
        mask, free, direction = before ^ flipped, ~flipped, moments @ residual
        # A few rows tell whether it would take many; then all are asked how many.
        if _exchanges(glance, mask[some], free[some], residual, direction)[0] < _MANY_EXCHANGES:
            break
        count, leaving, entering = _exchanges(shifts, mask, free, residual, direction)
        count = min(count, len(leaving) / 2.0, len(entering) / 2.0)
        if count < _MANY_EXCHANGES:
            break
        leave, enter = (draw.choice(rows, int(count), replace=False) for rows in (leaving, entering))
        after = residual + shifts[enter].sum(axis=0) - shifts[leave].sum(axis=0)
        if not np.linalg.norm(after) < np.linalg.norm(residual):
            break
        flipped[leave] = flipped[enter] = True
        residual = np.asarray(after)
    return residual


def _exchanges(
    shifts: Array, mask: Mask, free: Mask, residual: Array, direction: Array
) -> tuple[float, Positions, Positions]:
    """How many exchanges of one row that helps for another make up for the residual, and which rows help."""
    along = shifts @ direction
    leaving, entering = (
        np.flatnonzero(mask & free & (along > 0.0)),
        np.flatnonzero(~mask & free & (along < 0.0)),
    )
    if not len(leaving) or not len(entering):
        return 0.0, leaving, entering
    one = shifts[entering].mean(axis=0) - shifts[leaving].mean(axis=0)
    return -float(one @ residual) / max(float(one @ one), np.finfo(float).tiny), leaving, entering


def _near(size: Array, rows: Positions, most: int, limit: float, draw: np.random.Generator) -> Positions:
    """At most so many rows: drawn from those whose shift is within the limit, else the weakest."""
    within = rows[size[rows] <= limit]
    return draw.choice(within, most, replace=False) if len(within) > most else weakest(size, rows, most)


def weakest(size: Array, rows: Positions, most: int) -> Positions:
    """At most so many of the rows, those with the shortest shifts, in no order."""
    return rows[np.argpartition(size[rows], most)[:most]] if len(rows) > most else rows

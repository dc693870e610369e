"""Balancing the goal inside one teacher: costs, the fractional choice, and the search of one turn.

A row's pull on the goal is g_j = −ℓ'(x_j'θ*) x_j, and a lesson S teaches θ* exactly when
Σ_{j∈S} g_j = Λθ*. Choosing or dropping a row shifts the taught model by about ±H⁻¹g_j.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from superteach.losses import Logistic, Terms

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]

_STEADY = 0.5
"""Weight of a row's leverage (1 on average) against the random number in its cost."""
_INSIDE, _OUTSIDE = 60, 150
"""How many chosen and how many other rows a search looks at: 9,000 swaps, and all pairs of them."""
_SEARCHES = 6
"""Searches in one turn, each from where the last one ended."""
_ENOUGH = 0.98
"""A search that leaves more than this share of the residual ends the turn."""
_TRIES = 6
"""How often a turn that must change many rows starts anew."""


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
    for _ in range(1 if least <= 2 else _TRIES):
        mask, rest = before.copy(), residual.copy()
        if least > 4:
            rest = _stir(shifts, mask, rest, (least - 3) // 2, draw)
        for _ in range(_SEARCHES):
            norm = float(np.linalg.norm(rest))
            leaves, enters, after = _best_exchange(shifts, mask, rest, draw)
            if after >= _ENOUGH * norm:
                break
            mask[leaves], mask[enters] = False, True
            rest = rest + shifts[enters].sum(axis=0) - shifts[leaves].sum(axis=0)
        norm = float(np.linalg.norm(rest))
        if norm < lowest and far_enough(np.flatnonzero(mask), (chosen, *past), least):
            best, lowest = mask, norm
    return np.flatnonzero(best)


def far_enough(found: Positions, past: tuple[Positions, ...], least: int) -> bool:
    """Whether a choice differs from every earlier one in at least so many rows."""
    return all(len(np.setxor1d(found, old, assume_unique=True)) >= least for old in past)


def _stir(
    shifts: Array, mask: npt.NDArray[np.bool_], residual: Array, swaps: int, draw: np.random.Generator
) -> Array:
    """Exchange a few weak rows at random, so that what follows cannot be traced to single rows."""
    inside, outside = _near(shifts, mask, residual, draw)
    swaps = min(swaps, len(inside), len(outside))
    leaves = draw.permutation(inside[: 4 * swaps])[:swaps]
    enters = draw.permutation(outside[: 4 * swaps])[:swaps]
    mask[leaves], mask[enters] = False, True
    return np.asarray(residual + shifts[enters].sum(axis=0) - shifts[leaves].sum(axis=0))


def _near(
    shifts: Array, mask: npt.NDArray[np.bool_], residual: Array, draw: np.random.Generator
) -> tuple[Positions, Positions]:
    """Rows whose shifts are of the residual's size or smaller, weakest first."""
    size = np.sqrt(np.einsum("ij,ij->i", shifts, shifts))
    limit = 3.0 * float(np.linalg.norm(residual))

    def pick(rows: Positions, most: int) -> Positions:
        sizes = size[rows]
        if np.count_nonzero(sizes <= limit) > most:
            rows = draw.choice(rows[sizes <= limit], most, replace=False)
        elif len(rows) > most:
            rows = rows[np.argpartition(sizes, most)[:most]]
        return rows[np.argsort(size[rows], kind="stable")]

    return pick(np.flatnonzero(mask), _INSIDE), pick(np.flatnonzero(~mask), _OUTSIDE)


def _best_exchange(
    shifts: Array, mask: npt.NDArray[np.bool_], residual: Array, draw: np.random.Generator
) -> tuple[Positions, Positions, float]:
    """The swap, or pair of swaps, after which the residual is shortest: all of them in one product."""
    inside, outside = _near(shifts, mask, residual, draw)
    if not len(inside) or not len(outside):
        return inside[:0], outside[:0], np.inf
    swaps = (shifts[outside][None, :, :] - shifts[inside][:, None, :]).reshape(-1, shifts.shape[1])
    after = residual + swaps
    # |r + s + t|² = |r + s|² + (|t|² + 2 (r + s)'t): the product holds the bracket for all pairs.
    left = np.column_stack([2.0 * after, np.ones(len(after))]).astype(np.float32)
    right = np.column_stack([swaps, np.einsum("ij,ij->i", swaps, swaps)]).astype(np.float32)
    single = np.einsum("ij,ij->i", after, after)
    first = np.arange(len(swaps))
    second = np.concatenate(
        [np.argmin(part @ right.T, axis=1) for part in np.array_split(left, max(1, len(left) // 512))]
    )
    leave, enter = np.divmod(first, len(outside)), np.divmod(second, len(outside))
    apart = (leave[0] != enter[0]) & (leave[1] != enter[1])
    pairs = np.where(apart, np.square(after + swaps[second]).sum(axis=1), np.inf)
    one, two = int(np.argmin(single)), int(np.argmin(pairs))
    if single[one] <= pairs[two]:
        return inside[leave[0][[one]]], outside[leave[1][[one]]], float(np.sqrt(single[one]))
    rows = [leave[0][two], enter[0][two]], [leave[1][two], enter[1][two]]
    return inside[rows[0]], outside[rows[1]], float(np.sqrt(pairs[two]))

"""Moves that exchange rows of one teacher, and the fast search for a pair of them that cancels a residual."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Moves:
    """Ways to change the lesson without changing its size: the rows each flips, and how it shifts the model."""

    rows: Positions
    shifts: Array

    def without(self, flipped: Mask) -> Moves:
        """Those that touch none of the flipped rows."""
        free = ~flipped[self.rows].any(axis=1)
        return Moves(self.rows[free], self.shifts[free])


def swaps(shifts: Array, inside: Positions, outside: Positions) -> Moves:
    """Every exchange of one chosen row for another row."""
    both = (shifts[outside][None, :, :] - shifts[inside][:, None, :]).reshape(-1, shifts.shape[1])
    leave, enter = np.divmod(np.arange(len(both)), max(1, len(outside)))
    return Moves(np.column_stack([inside[leave], outside[enter]]), both)


def small_pairs(swaps: Moves, most: int) -> Moves:
    """Pairs of swaps that all but cancel, so many, smallest first: they change rows but hardly the model."""
    each = -(-2 * most // max(1, len(swaps.rows)))
    left, right = _factors(swaps.shifts, swaps.shifts)
    first, second = [], []
    for start in range(0, len(left), _BLOCK):
        products = left[start : start + _BLOCK] @ right
        few = np.argpartition(products, min(each, products.shape[1] - 1), axis=1)[:, :each]
        first.append(np.repeat(np.arange(start, start + len(few)), few.shape[1]))
        second.append(few.ravel())
    one, two = (np.concatenate(part) if part else np.empty(0, dtype=np.int64) for part in (first, second))
    rows = np.concatenate([swaps.rows[one], swaps.rows[two]], axis=1)
    # The same four rows make two pairs of swaps, each found from both ends.
    _, kept = np.unique(np.sort(rows, axis=1), axis=0, return_index=True)
    kept = kept[(rows[kept, 0] != rows[kept, 2]) & (rows[kept, 1] != rows[kept, 3])]
    total = swaps.shifts[one[kept]] + swaps.shifts[two[kept]]
    order = np.argsort(np.einsum("ij,ij->i", total, total), kind="stable")[:most]
    return Moves(rows[kept[order]], total[order])


def best_pair(moves: Moves, residual: Array, most: float) -> Positions:
    """The rows of the move, or pair of moves, that leaves the shortest residual; none if that is not below `most`."""
    after = residual + moves.shifts
    single = np.einsum("ij,ij->i", after, after)
    alone = int(np.argmin(single)) if len(single) else 0
    best, lowest = moves.rows[:0].ravel(), most
    if len(single) and single[alone] < lowest**2:
        best, lowest = moves.rows[alone], float(np.sqrt(single[alone]))
    first, second = _partners(after, moves.shifts, lowest)
    pairs = np.square(after[first] + moves.shifts[second]).sum(axis=1)
    rows = np.sort(np.concatenate([moves.rows[first], moves.rows[second]], axis=1), axis=1)
    pairs[(np.diff(rows, axis=1) == 0).any(axis=1)] = np.inf
    two = int(np.argmin(pairs)) if len(pairs) else 0
    if len(pairs) and pairs[two] < lowest**2:
        best = rows[two]
    return best


def _partners(ones: Array, others: Array, within: float) -> tuple[Positions, Positions]:
    """For every s the t with the shortest s + t, where one may be shorter than `within`.

    Along the axis on which t spreads most, s and −t can be no farther apart than that: of all pairs some
    tenth are left, and the nearest among them is the nearest of all.
    """
    axis = np.linalg.eigh(others.T @ others)[1][:, -1] if len(others) else np.zeros(others.shape[1])
    along, against = -(ones @ axis), others @ axis
    order, behind = np.argsort(along, kind="stable"), np.argsort(against, kind="stable")
    along, against = along[order], against[behind]
    left, right = _factors(ones[order], others[behind])
    first, second = [order[:0]], [behind[:0]]
    for start in range(0, len(left), _BLOCK):
        block = slice(start, min(start + _BLOCK, len(left)))
        low, high = np.searchsorted(against, [along[block.start] - within, along[block.stop - 1] + within])
        if high > low:
            first.append(order[block])
            second.append(behind[low + np.argmin(left[block] @ right[:, low:high], axis=1)])
    return np.concatenate(first), np.concatenate(second)


def _factors(ones: Array, others: Array) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Two matrices whose product is |t|² + 2 s't: what t in `others` adds to |s + t|² beside |s|²."""
    left = np.column_stack([2.0 * ones, np.ones(len(ones))])
    right = np.column_stack([others, np.einsum("ij,ij->i", others, others)])
    return left.astype(np.float32), right.astype(np.float32).T

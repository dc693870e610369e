"""Moves that exchange rows of one teacher, and the fast search for a pair of them that cancels a residual."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from superteach import lengths

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]

_BLOCK = 64


@dataclass(frozen=True, eq=False)
class Moves:
    """Ways to change the lesson without changing its size: the rows each flips, and how it shifts the model."""

    rows: Positions
    shifts: Array


def swaps(shifts: Array, inside: Positions, outside: Positions) -> Moves:
    """Every exchange of one chosen row for another row."""
    both = (shifts[outside][None, :, :] - shifts[inside][:, None, :]).reshape(-1, shifts.shape[1])
    leave, enter = np.divmod(np.arange(len(both)), max(1, len(outside)))
    return Moves(np.column_stack([inside[leave], outside[enter]]), both)


def best_pair(moves: Moves, residual: Array, most: float) -> Positions:
    """The rows of the move, or pair of moves, that leaves the shortest residual; none if that is not below `most`."""
    after = residual + moves.shifts
    single = np.einsum("ij,ij->i", after, after)
    alone = int(np.argmin(single)) if len(single) else 0
    best, lowest = moves.rows[:0].ravel(), most
    if len(single) and single[alone] < lowest**2:
        best, lowest = moves.rows[alone], float(np.sqrt(single[alone]))
    first, second = _partners(after, moves.shifts, lowest)
    both = after[first] + moves.shifts[second]
    pairs = np.einsum("ij,ij->i", both, both)
    near = np.flatnonzero(pairs < lowest**2)
    near = near[np.argsort(pairs[near], kind="stable")]
    rows = np.sort(np.concatenate([moves.rows[first[near]], moves.rows[second[near]]], axis=1), axis=1)
    # Two moves of one row cannot both be made.
    apart = np.flatnonzero((np.diff(rows, axis=1) != 0).all(axis=1))
    return rows[apart[0]] if len(apart) else best


def _partners(ones: Array, others: Array, within: float) -> tuple[Positions, Positions]:
    """For every s the t with the shortest s + t, where one may be shorter than `within`.

    Along the axis on which t spreads most, s and −t can be no farther apart than that: of all pairs some
    tenth are left, and the nearest among them is the nearest of all.
    """
    power = lengths.power(ones, others)
    ones, others, within = np.ldexp(ones, -power), np.ldexp(others, -power), float(np.ldexp(within, -power))
    axis = np.linalg.eigh(others.T @ others)[1][:, -1] if len(others) else np.zeros(others.shape[1])
    along, against = -(ones @ axis), others @ axis
    order, behind = np.argsort(along, kind="stable"), np.argsort(against, kind="stable")
    along, against = along[order], against[behind]
    left, right = lengths.factors(ones[order], others[behind])
    first, second = [order[:0]], [behind[:0]]
    for start in range(0, len(left), _BLOCK):
        block = slice(start, min(start + _BLOCK, len(left)))
        low, high = np.searchsorted(against, [along[block.start] - within, along[block.stop - 1] + within])
        if high > low:
            first.append(order[block])
            second.append(behind[low + np.argmin(lengths.added(left[block], right[low:high]), axis=1)])
    return np.concatenate(first), np.concatenate(second)

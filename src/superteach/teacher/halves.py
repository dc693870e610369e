"""Every exchange among a few rows, searched at once by meeting in the middle.

With w rows there are 2^w ways to flip some of them. The 2^{w/2} ways of each half are written down, and for
each way of the one half the search looks for the way of the other that cancels it and the residual best.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LEAF = 512
"""Ways that are compared with one another: fewer are faster, and miss more at their borders."""


_ASKEW = 2
"""How many rows more may enter than leave in one half, or fewer; the other half makes up for it."""


@dataclass(frozen=True, eq=False)
class Ways:
    """Ways to flip some of a few rows: bit r of the code says whether row r is flipped."""

    codes: Positions
    shifts: Array
    balance: Positions
    """Rows that enter less rows that leave."""


def best_exchange(shifts: Array, chosen: Mask, residual: Array, least: int) -> Mask:
    """Which of these rows to flip: as many leave as enter, and what is left of the residual is short.

    Each half flips its part of `least` and is out of balance by two rows at most. Of all such exchanges the one
    found leaves the least where a dozen rows are given; of more rows only ways in the same leaf of a k-d tree
    are compared, so that a near one beyond the border of a leaf can be missed.
    """
    best = np.zeros(len(shifts), dtype=bool)
    halves = slice(0, None, 2), slice(1, None, 2)
    first, second = (_ways(shifts[half], chosen[half], -(-least // 2)) for half in halves)
    if not len(first.codes) or not len(second.codes):
        return best
    axes = np.linalg.eigh(first.shifts.T @ first.shifts)[1]
    ones, others = (residual + first.shifts) @ axes, -(second.shifts @ axes)
    left = np.column_stack([-2.0 * ones, np.ones(len(ones))]).astype(np.float32)
    right = np.column_stack([others, np.einsum("ij,ij->i", others, others)]).astype(np.float32)
    lowest = np.inf
    for balance in np.unique(first.balance):
        alike = np.flatnonzero(first.balance == balance), np.flatnonzero(second.balance == -balance)
        for some, same in _leaves(ones, others, *alike):
            with np.errstate(
                invalid="ignore"
            ):  # BLAS kernels touch padding, and may raise the flag for nothing
                nearest = same[np.argmin(left[some] @ right[same].T, axis=1)]
            gaps = np.square(ones[some] - others[nearest]).sum(axis=1)
            place = int(np.argmin(gaps))
            if gaps[place] < lowest:
                lowest = float(gaps[place])
                for half, code in zip(
                    halves, (first.codes[some[place]], second.codes[nearest[place]]), strict=True
                ):
                    best[half] = code >> np.arange(len(best[half])) & 1
    return best


def _ways(shifts: Array, chosen: Mask, least: int) -> Ways:
    """All ways to flip at least so many of the rows, and to enter about as many as leave."""
    order = np.argsort(
        ~chosen, kind="stable"
    )  # those that leave first: from then on the balance can only grow
    codes, balance, flips = (np.zeros(1, dtype=np.int64) for _ in range(3))
    totals = np.zeros((1, shifts.shape[1]))
    for place, row in enumerate(order):
        sign = -1 if chosen[row] else 1
        to_come = int(np.count_nonzero(~chosen[order[place + 1 :]]))
        # What those still to come cannot bring back into balance is left out at once.
        stay = np.flatnonzero(balance >= -_ASKEW - to_come)
        flip = np.flatnonzero((balance + sign >= -_ASKEW - to_come) & (balance + sign <= _ASKEW))
        codes = np.concatenate([codes[stay], codes[flip] | 1 << row])
        totals = np.concatenate([totals[stay], totals[flip] + sign * shifts[row]])
        flips = np.concatenate([flips[stay], flips[flip] + 1])
        balance = np.concatenate([balance[stay], balance[flip] + sign])
    kept = flips >= least
    return Ways(codes[kept], totals[kept], balance[kept])


def count_ways(leave: int, enter: int) -> int:
    """How many ways half of so many rows that may leave and of so many that may enter have to go through."""
    leave, enter = -(-leave // 2), -(-enter // 2)
    return sum(
        comb(leave, out) * comb(enter, into)
        for out in range(leave + 1)
        for into in range(max(0, out - _ASKEW), min(enter, out + _ASKEW) + 1)
    )


def _leaves(
    ones: Array, others: Array, some: Positions, same: Positions
) -> Iterator[tuple[Positions, Positions]]:
    """Split both lists at the medians of the first, along its widest axis each time, until few are left."""
    waiting = [(some, same)]
    while waiting:
        some, same = waiting.pop()
        if not len(some) or not len(same):
            continue
        axis = int(np.argmax(ones[some].std(axis=0)))
        along, against = ones[some, axis], others[same, axis]
        middle = np.median(along)
        low, below = along <= middle, against <= middle
        if max(len(some), len(same)) <= _LEAF or low.all():
            yield some, same
        else:
            waiting += [(some[low], same[below]), (some[~low], same[~below])]

"""The best of all subsets of a few moves, searched at once by meeting in the middle.

A move shifts the model and makes the lesson larger or smaller by some rows, or neither. With w moves there are 2^w
subsets. The 2^{w/2} ways of each half are written down, and for each way of the one half the search looks for
the way of the other that cancels it and the residual best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from superteach import lengths

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Blocks = dict[tuple[int, int], tuple[Positions, Array]]
"""Codes and shifts of ways, by how many moves they make and by how many rows more enter than leave."""

_LEAF = 512
"""Ways that are compared with one another: fewer are faster, and miss more at their borders."""
_CLOSER = 16
"""Ways of a leaf that are compared exactly."""
_AT_ONCE = 6
"""Moves whose subsets are written down at once; with more, parts are joined."""
_BITS = 62
"""Moves that a code has bits for."""
_GLANCE = 256
"""Ways that tell where to split a list."""
_NARROWER = 0.6
"""How wide half of a bell curve is, as a share of the whole."""
ASKED = 20
"""Moves that a search may be asked for: with more there is no small exchange, and half of them have too many ways."""
ASKEW = 2
"""How many rows more may enter than leave in one half, or fewer; the other half makes up for it."""


@dataclass(frozen=True, eq=False)
class Ways:
    """Subsets of a few moves: bit r of the code says whether move r is made."""

    codes: Positions
    shifts: Array
    balance: Positions
    """Rows that enter less rows that leave."""


def best_exchange(shifts: Array, chosen: Mask, residual: Array, least: int) -> Mask:
    """Which of these rows to flip: as many leave as enter, at least so many, and what is left of the residual is short."""
    signs = np.where(chosen, -1, 1)
    found = near_subsets(signs[:, None] * shifts, signs, residual, least)
    return found[0] if len(found) else np.zeros(len(shifts), dtype=bool)


def near_subsets(
    moves: Array,
    balance: Positions,
    residual: Array,
    least: int = 0,
    most: int | None = None,
    askew: int = ASKEW,
    groups: Positions | None = None,
    count: int = 1,
) -> Mask:
    """Which moves to make, a row of the answer for each of the best subsets, the best first.

    The balance of a subset is zero, and what it leaves of the residual is short. Of moves in one group one is made
    at most. Each half makes its part of `least` moves, `most` at most, and is out of balance by `askew` rows at most.
    Of all such subsets the first leaves the least where a dozen moves are given; of more only ways in the same leaf
    of a k-d tree are compared, so that a near one beyond the border of a leaf can be missed.
    """
    groups = np.arange(len(moves)) if groups is None else groups
    labels = np.unique(groups)
    halves = [np.flatnonzero(np.isin(groups, labels[side::2])) for side in (0, 1)]
    if max(map(len, halves)) > _BITS:
        raise ValueError(f"{len(moves)} moves are too many: a half has room for {_BITS}")
    first, second = (
        _ways(moves[half], balance[half], -(-least // 2), most, askew, groups[half]) for half in halves
    )
    if not len(first.codes) or not len(second.codes):
        return np.zeros((0, len(moves)), dtype=bool)
    power = lengths.power(first.shifts, second.shifts, residual)
    ones, others, start = (np.ldexp(part, -power) for part in (first.shifts, second.shifts, residual))
    axes = np.linalg.eigh(ones.T @ ones)[1]
    ones, others = (start + ones) @ axes, others @ axes
    left, right = lengths.factors(ones, others, max(len(ones), len(others)) <= _LEAF)
    lone = np.einsum("ij,ij->i", ones, ones).astype(left.dtype)
    along = (
        np.ascontiguousarray(ones.T, dtype=np.float32),
        np.ascontiguousarray(-others.T, dtype=np.float32),
    )
    shortest, pairs = np.zeros(0), np.zeros((0, 2), dtype=np.int64)
    for tilt in np.unique(first.balance):
        alike = np.flatnonzero(first.balance == tilt), np.flatnonzero(second.balance == -tilt)
        for some, same in _leaves(*along, *alike):
            apart = lengths.added(left[some], right[same])
            nearest = np.argmin(apart, axis=1)
            if count == 1 and len(some) > _CLOSER:  # float32 tells which are worth a closer look
                gaps = lone[some] + apart[np.arange(len(some)), nearest]
                worth = np.argpartition(gaps, _CLOSER)[:_CLOSER]
                some, nearest = some[worth], nearest[worth]
            nearest = same[nearest]
            gaps = np.square(ones[some] + others[nearest]).sum(axis=1)
            better = np.flatnonzero(gaps < shortest[-1]) if len(shortest) == count else np.arange(len(gaps))
            if len(better):
                shortest = np.concatenate([shortest, gaps[better]])
                pairs = np.concatenate([pairs, np.column_stack([some[better], nearest[better]])])
                kept = np.argsort(shortest, kind="stable")[:count]
                shortest, pairs = shortest[kept], pairs[kept]
    found = np.zeros((len(pairs), len(moves)), dtype=bool)
    for half, ways, places in zip(halves, (first, second), pairs.T, strict=True):
        found[:, half] = ways.codes[places][:, None] >> np.arange(len(half)) & 1
    return found


def _ways(
    moves: Array, balance: Positions, least: int, most: int | None, askew: int, groups: Positions
) -> Ways:
    """All ways to make at least and at most so many of the moves, nearly in balance, one of a group at most."""
    # Those by which rows leave come first: what one part of them lacks in balance the other makes up for.
    order = sorted(np.unique(groups).tolist(), key=lambda group: int(balance[groups == group].min()))
    parts = [np.flatnonzero(groups == group) for group in order]
    highest = len(parts) if most is None else most
    middle = len(parts) // 2
    blocks = _cross(
        _blocks(moves, balance, parts[:middle], highest),
        _blocks(moves, balance, parts[middle:], highest),
        lambda made, tilt: least <= made <= highest and abs(tilt) <= askew,
    )
    tilts = [np.full(len(codes), tilt) for (_, tilt), (codes, _) in blocks.items()]
    codes, shifts = zip(*blocks.values(), strict=True) if blocks else ((), ())
    none = np.zeros(0, dtype=np.int64)
    return Ways(
        np.concatenate([none, *codes]),
        np.concatenate([np.zeros((0, moves.shape[1])), *shifts]),
        np.concatenate([none, *tilts]),
    )


def _blocks(moves: Array, balance: Positions, parts: list[Positions], most: int) -> Blocks:
    """All ways to make at most so many moves, one of each part at most."""
    if 1 < len(parts) <= _AT_ONCE and all(len(part) == 1 for part in parts):
        return _subsets(moves, balance, np.concatenate(parts), most)
    if len(parts) > 1:
        middle = len(parts) // 2
        first, second = (_blocks(moves, balance, some, most) for some in (parts[:middle], parts[middle:]))
        return _cross(first, second, lambda made, _: made <= most)
    blocks = {(0, 0): (np.zeros(1, dtype=np.int64), np.zeros((1, moves.shape[1])))}
    for part in parts if most else ():
        for tilt in np.unique(balance[part]).tolist():
            alike = part[balance[part] == tilt]
            blocks[1, tilt] = (np.int64(1) << alike, moves[alike])
    return blocks


def _subsets(moves: Array, balance: Positions, some: Positions, most: int) -> Blocks:
    """All ways to make at most so many of a few moves."""
    bits = np.arange(1 << len(some))[:, None] >> np.arange(len(some)) & 1
    made, tilts = bits.sum(axis=1), bits @ balance[some]
    codes, shifts = (bits << some).sum(axis=1), bits @ moves[some]
    return {
        key: (codes[alike], shifts[alike])
        for key in dict.fromkeys(zip(made.tolist(), tilts.tolist(), strict=True))
        if key[0] <= most
        for alike in [(made == key[0]) & (tilts == key[1])]
    }


def _cross(first: Blocks, second: Blocks, fits: Callable[[int, int], bool]) -> Blocks:
    """Every way of the one part with every way of the other, where moves made and balance fit together."""
    met: dict[tuple[int, int], list[tuple[Positions, Array]]] = {}
    for (made, tilt), (codes, shifts) in first.items():
        for (more, other), (others, besides) in second.items():
            key = made + more, tilt + other
            if fits(*key):
                both = (
                    (codes[:, None] | others).ravel(),
                    (shifts[:, None] + besides).reshape(-1, shifts.shape[1]),
                )
                met.setdefault(key, []).append(both)
    return {
        key: (np.concatenate([codes for codes, _ in some]), np.concatenate([shifts for _, shifts in some]))
        for key, some in met.items()
    }


def count_ways(leave: int, enter: int) -> int:
    """How many ways half of so many rows that may leave and of so many that may enter have to go through."""
    leave, enter = -(-leave // 2), -(-enter // 2)
    return sum(
        comb(leave, out) * comb(enter, into)
        for out in range(leave + 1)
        for into in range(max(0, out - ASKEW), min(enter, out + ASKEW) + 1)
    )


def _leaves(
    ones: lengths.Rough, others: lengths.Rough, some: Positions, same: Positions
) -> Iterator[tuple[Positions, Positions]]:
    """Split both lists at about the medians of the first, along its widest axis each time, until few are left.

    Both have a row for each axis here, so that what is looked at lies side by side.
    """
    waiting = [(some, same, ones[:, some[:: max(1, len(some) // _GLANCE)]].std(axis=1))] if len(some) else []
    while waiting:
        some, same, widths = waiting.pop()
        if not len(some) or not len(same):
            continue
        if max(len(some), len(same)) <= _LEAF or not widths.any():
            yield some[:_LEAF], same  # where no axis tells them apart all are alike, and some are enough
            continue
        axis = int(np.argmax(widths))
        along, against = ones[axis, some], others[axis, same]
        glance = along[:: max(1, len(along) // _GLANCE)]
        middle = np.partition(glance, len(glance) // 2)[len(glance) // 2]
        low, below = along <= middle, against <= middle
        if low.all():  # many have that very value, as with columns of zeros and ones
            low, below = along < middle, against < middle
        narrower = widths.copy()
        if low.any():
            narrower[axis] *= _NARROWER
            waiting += [(some[low], same[below], narrower), (some[~low], same[~below], narrower)]
        else:
            narrower[axis] = 0.0
            waiting.append((some, same, narrower))

"""Few rows whose sum is near a vector: the k-list search (Wagner's generalised birthday, on real vectors), then exchanges.

Rows are parted at random into lists of sums of a few rows each. Lists are merged two by two: of all pairs of sums the
shortest are kept, and found without looking at all pairs, as those that fall into one cell of a grid. Every merge takes a
factor of lists^(1/d) off what is left, and puts a root of two on, so that this pays in up to about fifteen dimensions.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np

from superteach.types import Array, Mask, Positions

CELLS = 3.0
"""Pairs looked at for every sum that a merge keeps."""
GRIDS = 6
"""Widths of cells that a merge tries, at most, until about so many pairs share one."""
SHORTER = 1e-9
"""Part of the squared residual that an exchange must take off; less may be a rounding error."""


def klists(
    rows: Array, probabilities: Array, target: Array, size: int, draw: np.random.Generator, length: int, top: int
) -> Positions:
    """Find `top` choices of `size` rows with sums near the target, a line each; lists hold `length` sums."""
    if rows.flat[np.abs(rows).argmax()] < 0.0:  # the same rows whichever of two labels is called positive
        rows, target = -rows, -target
    many = 1 << max(1, round(np.log2(max(size, 2) / 2.0)))
    if merging(length, rows.shape[1]) > 0.5:  # many merges bring less than ends that share no rows do to exchanges
        many = min(many, 8)
    parts = np.array_split(draw.permutation(len(rows)), many)
    sizes = np.diff(np.floor(np.linspace(0, size, many + 1)).astype(int))
    sums, places = [], []
    for part, few in zip(parts, sizes, strict=True):
        drawn = part[_draws(probabilities[part], int(few), length, draw)]
        places.append(drawn)
        sums.append(rows[drawn].sum(axis=1) - target * (few / size))
    links: list[list[_Merged]] = []
    while len(sums) > 1:
        width, merged = None, list[_Merged]()
        for one, other in zip(sums[::2], sums[1::2], strict=True):
            merged.append(_merge(one, other, length if len(sums) > 2 else min(top, length), length, draw, width))
            width = merged[-1].width
        links.append(merged)
        sums = [pair.sums for pair in merged]
    order = np.argsort(np.einsum("ij,ij->i", sums[0], sums[0]), kind="stable")[:top]
    found = [order]
    for merged in reversed(links):
        found = [side[at] for pair, at in zip(merged, found, strict=True) for side in (pair.first, pair.second)]
    return np.concatenate([drawn[at] for drawn, at in zip(places, found, strict=True)], axis=1)


def merging(length: int, width: int) -> float:
    """What a merge leaves of a sum's length: the shortest of length² sums of two."""
    return float(np.sqrt(2.0) * length ** (-1.0 / width))


class _Merged(NamedTuple):
    """Sums of pairs, which they are, and the width of cells they were found with."""

    sums: Array
    first: Positions
    second: Positions
    width: float | None


def _draws(chance: Array, few: int, length: int, draw: np.random.Generator) -> Positions:
    """Draw different choices of a few rows, each row by its probability."""
    rows = len(chance)
    if few >= rows or math.comb(rows, few) <= length:
        return np.array(list(combinations(range(rows), min(few, rows))), dtype=np.int64).reshape(-1, min(few, rows))
    if 4 * few > rows:  # most draws with replacement would hold a row twice
        keys = np.log(np.maximum(chance, 1e-12)) + draw.gumbel(size=(length, rows))
        drawn = np.argpartition(-keys, few - 1, axis=1)[:, :few]
    else:
        edges = np.cumsum(np.maximum(chance, 1e-12))
        drawn = np.searchsorted(edges, draw.random((length + length // 2, few)) * edges[-1]).clip(max=rows - 1)
        drawn = drawn[(np.diff(np.sort(drawn, axis=1), axis=1) > 0).all(axis=1)][:length]
    marks = draw.integers(1, 2**40, rows)[drawn].sum(axis=1)  # random numbers of rows, whose sums tell choices apart
    return np.asarray(drawn[np.unique(marks, return_index=True)[1]], dtype=np.int64)


def _merge(one: Array, other: Array, keep: int, length: int, draw: np.random.Generator, width: float | None) -> _Merged:
    """The `keep` shortest sums of pairs, of about CELLS · length pairs that share a cell."""
    pairs = len(one) * len(other)
    if pairs <= 4.0 * CELLS * length:
        first, second = np.divmod(np.arange(pairs), len(other))
    else:
        first, second, width = _neighbours(one, other, CELLS * length, draw, width)
    sums = one[first] + other[second]
    if len(sums) > keep:
        short = np.argpartition(np.einsum("ij,ij->i", sums, sums), keep - 1)[:keep]
        first, second, sums = first[short], second[short], sums[short]
    return _Merged(sums, first, second, width)


def _neighbours(
    one: Array, other: Array, wanted: float, draw: np.random.Generator, width: float | None
) -> tuple[Positions, Positions, float]:
    """About so many pairs whose sums are short: pairs in one cell of a grid along the widest principal axes."""
    spread = one.T @ one / len(one) + other.T @ other / len(other)
    values, axes = np.linalg.eigh(spread)
    deviation, axes = np.sqrt(np.maximum(values[::-1], 1e-300)), axes[:, ::-1]
    if width is None:  # as if sums were normal: the density of differences at 0
        likely = np.log(wanted / (len(one) * len(other)))
        for used in range(1, len(deviation) + 1):
            width = float(np.exp((likely + np.log(np.sqrt(2.0 * np.pi) * deviation[:used]).sum()) / used))
            if used < len(deviation) and width >= 1.5 * deviation[used]:
                break
    assert width is not None
    sides, shift = (one @ axes, -(other @ axes)), draw.random(len(deviation))
    mixed, low, high = draw.integers(1, 2**62, len(deviation)) | 1, 0.0, np.inf
    for _ in range(GRIDS):
        used = max(1, int((deviation > 0.4 * width).sum()))
        cells = [np.floor(side[:, :used] / width + shift[:used]).astype(np.int64) @ mixed[:used] for side in sides]
        orders = [np.argsort(cell, kind="stable") for cell in cells]
        left, right = (cell[order] for cell, order in zip(cells, orders, strict=True))
        begin = np.searchsorted(right, left, "left")
        count = np.searchsorted(right, left, "right") - begin
        found = int(count.sum())
        if 0.5 * wanted <= found <= 2.5 * wanted:
            break
        low, high = (width, high) if found < wanted else (low, width)
        tried = width * float(np.clip((wanted / max(found, 1)) ** (1.0 / used), 0.3, 3.0))
        width = float(np.clip(tried, 1.02 * low, 0.98 * high if np.isfinite(high) else np.inf))
    if not 0 < found <= 20.0 * wanted:  # equal rows by the thousand share one cell
        many = int(wanted)
        return draw.integers(len(one), size=many), draw.integers(len(other), size=many), width
    first = np.repeat(np.arange(len(left)), count)
    second = np.arange(found) - np.repeat(np.cumsum(count) - count, count) + np.repeat(begin, count)
    return orders[0][first], orders[1][second], width


def exchange(rows: Array, taken: Mask, target: Array, pairs: int, steps: int) -> Mask:
    """Exchange chosen rows for others while that brings the sum nearer to the target: among `pairs` pairs of short rows."""
    inside, outside = np.flatnonzero(taken), np.flatnonzero(~taken)
    if not len(inside) or not len(outside):
        return taken
    square = np.einsum("ij,ij->i", rows, rows)
    few = min(len(inside), max(60, pairs // len(outside)))
    inside, outside = _shortest(inside, square, few), _shortest(outside, square, pairs // few)
    leaves, enters = inside.copy(), outside.copy()
    chosen, others, left = rows[leaves], rows[enters], target - taken @ rows
    # Square of what an exchange changes; beside it, what it changes along what is left.
    change = square[leaves][:, None] + square[enters] - 2.0 * (chosen @ others.T)
    after = np.empty_like(change)
    for _ in range(steps):
        np.add(change, (2.0 * (chosen @ left))[:, None], out=after)
        after -= 2.0 * (others @ left)
        i, j = divmod(int(after.argmin()), len(enters))
        if after[i, j] >= -SHORTER * (left @ left):  # nothing to gain, or nothing left
            break
        left = left + chosen[i] - others[j]
        chosen[i], others[j] = others[j].copy(), chosen[i].copy()
        leaves[i], enters[j] = enters[j], leaves[i]
        change[i] = square[leaves[i]] + square[enters] - 2.0 * (others @ chosen[i])
        change[:, j] = square[leaves] + square[enters[j]] - 2.0 * (chosen @ others[j])
    taken = taken.copy()
    taken[inside] = False
    taken[leaves] = True
    return taken


def _shortest(some: Positions, square: Array, many: int) -> Positions:
    return some if len(some) <= many else some[np.argpartition(square[some], many - 1)[:many]]

"""Rounding: inclusion probabilities become whole rows, long rows first, and weaker rows absorb what these leave.

Given vectors w_j with probabilities b_j and a target, choose rows with Σ w_j close to the target. Rows are decided block by
block, longest first: each block holds a fixed part of the freedom Σ b(1 − b) that is left. What it leaves, r = target −
Σ_chosen w_j − Σ_free b_j w_j, is absorbed by tilting the log-odds of all rows still free by w_j'u with u = C⁻¹r and
C = Σ b_j(1 − b_j) w_j w_j'. A block that cannot be absorbed, or costs the rest too much of its freedom, is taken back, and
a third of it is tried. So the last residual is as short as the shortest rows. This is the idea of balanced sampling (the
cube method), one scale of length after the other.

The last rows are decided several times, by the k-list search where that pays, and pairs of short rows are exchanged.

Work: each block multiplies the rows still free by the square of the number of unknowns, once or twice as a rule and TILTS
times at most. Where freedom is ample a block leaves 65 % of it, about five products of all rows in all. Where it is scarce
blocks are smaller, some fifty for each try. At most REFUSALS of all are taken back, and only while there is WORK for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse
from scipy.special import expit, logit

from superteach.selection.few import exchange, klists, merging
from superteach.types import Array, Mask, Matrix, Positions


@dataclass(frozen=True)
class RoundingOptions:
    """Numbers that decide how rows are rounded. What each is worth is in the ablation table of the docs."""

    part: float = 0.35
    """Part of the freedom that is left that a block takes."""
    absorbed: float = 0.01
    """Mean square of the change in log-odds that free rows may still lack after a block; else a smaller one is tried."""
    cost: float = 0.05
    """Part of the rest's freedom that a block may cost it; else a smaller one is tried. Without, wide lessons (100 columns)
    end five times farther away."""
    one_by_one: int = 20
    """Rows per unknown, at the end of a block, that go one by one to the side that leaves less; those before, at random."""
    scarce: float = 6.0
    """Freedom per unknown from which on blocks become smaller, and the rest is decided several times: the best is kept."""
    tries: int = 4
    """How many times."""
    last: int = 80
    """Rows that are left to the k-list search."""
    length: int = 3_000
    """Sums in each list of the k-list search."""
    few: int = 64
    """Rows to choose up to which all of them, if no more than six for each unknown, are left to the k-list search."""
    starts: int = 60
    """Ends of that search from which pairs are exchanged."""
    pairs: int = 400_000
    """Pairs of short rows that are looked at for an exchange."""
    swap_above: float = 0.1
    """Usual lengths of a row from which on what is left is worth swaps of rows that are alike."""
    swaps: int = 400
    """Chosen rows that are paired at a time, at most; eight times as many others are looked at."""
    thin: float = 0.25
    """Rows of a smaller probability become 0 or this at random, so that about n/thin rows are left to decide: with 1/8
    rounding takes twice the time and gains nothing, with 1/2 there is too little to tilt."""
    ample: int = 2_000
    """Rows that are left to decide at least. Without, 50 owners of 100 rows each, and lessons of 14 rows, end 1.6 and 1.4
    times farther away; with 1,000, 80 rows of 2,000 (ridge, 10 columns) 2.6 times."""


DEFAULT = RoundingOptions()
TILTS = 8
"""Newton steps by which free rows absorb what a block leaves, at most; one or two are usual."""
REFUSALS = 200
"""Blocks that are taken back, at most."""
WORK = 1e10
"""Multiplications for blocks that are taken back, at most, about: some seconds."""
PAIRINGS = 6
"""Times that rows are paired anew to be swapped, at most."""
NEIGHBOURS = 10
"""Nearest rows that a chosen row may be swapped for."""
LOOKED = 10_000_000
"""Pairs that the exchanges of few rows look at in a step, over all starts, where these are more than a third."""
STEPS = 400
"""Exchanges, at most."""
EDGE = 1e-9
"""Probabilities stay this far from 0 and 1, so that a row can still be tilted back."""


def round_rows(
    rows: Array,
    probabilities: Array,
    target: Array,
    least: int,
    most: int,
    draw: np.random.Generator,
    unmet: Array | float = 0.0,
    options: RoundingOptions = DEFAULT,
) -> Mask:
    """Choose `least` to `most` of these rows, with a sum as near to `target` as they allow.

    `unmet` is what the probabilities themselves leave of the goal: the last exchanges make up for some of it.
    """
    none = np.zeros(len(rows), dtype=bool)
    if not len(rows) or most <= 0:
        return none
    most = min(most, len(rows))
    if least >= len(rows):
        return ~none
    if not rows.any():  # all alike
        none[: min(max(round(float(probabilities.sum())), least), most)] = True
        return none
    rounding = _Rounding(rows, target, least, most, draw, unmet, options)
    rounding.search(np.clip(probabilities, EDGE, 1.0 - EDGE))
    if not np.any(unmet):  # else most of what is left is what the goal lacks
        rounding.swap_alike()
    return rounding.best


class _Free(NamedTuple):
    """Rows that are not decided yet, longest first, their probabilities, and what they have to add up to."""

    places: Positions
    chance: Array
    target: Array


class _Rounding:
    """One choice of rows, and the nearest mask found."""

    def __init__(
        self,
        rows: Array,
        target: Array,
        least: int,
        most: int,
        draw: np.random.Generator,
        unmet: Array | float,
        options: RoundingOptions,
    ) -> None:
        self._rows, self._least, self._most, self._draw, self._options = rows, least, most, draw, options
        self._aim = target + unmet
        counted = float(least == most)  # else rows that change nothing fill the lesson up
        self._lifted = np.column_stack([rows, np.full(len(rows), counted)])
        self._target = np.append(target, counted * most)
        self._octaves = np.log2(np.maximum(np.linalg.norm(rows, axis=1), 1e-300))
        self._narrow = merging(options.length, self._lifted.shape[1]) < 1.0
        self._refusals, self._work = REFUSALS, WORK
        self.best, self.distance = np.zeros(len(rows), dtype=bool), np.inf

    def search(self, chance: Array) -> None:
        """Decide all rows; the last ones several times."""
        options, unknowns = self._options, self._lifted.shape[1]
        every = _Free(np.arange(len(chance)), chance, self._target)
        few = self._least == self._most <= min(options.few, 6 * unknowns)
        if few:
            pairs = self._most * (len(chance) - self._most)
            starts = min(options.starts, max(options.starts // 3, LOOKED // max(pairs, 1)))
            self._end(np.zeros(len(chance), dtype=bool), every, starts, True)
        taken = np.zeros(len(chance), dtype=bool)
        middle = self._settle(taken, self._ordered(every), options.scarce * unknowns, 0)
        for _ in range(options.tries if len(middle.places) else 1):
            mask = taken.copy()
            last = self._settle(mask, self._ordered(middle), 0.0, options.last if self._narrow else 0)
            self._end(mask, last, options.starts // 2, self._narrow)

    def _end(self, taken: Mask, last: _Free, starts: int, lists: bool) -> None:
        """Choose among the last rows, exchange pairs of short ones, and keep what is nearest so far."""
        rows, options = self._rows[last.places], self._options
        size = round(float(last.chance.sum())) if self._target[-1] == 0.0 else round(float(last.target[-1]))
        aim = self._aim - taken @ self._rows
        if lists and 2 <= size <= 0.75 * len(rows):
            found = klists(rows, last.chance, aim, size, self._draw, options.length, starts)
            nearest, distance = np.zeros(len(rows), dtype=bool), np.inf
            for places in found:
                mask = np.zeros(len(rows), dtype=bool)
                mask[places] = True
                mask = exchange(rows, mask, aim, options.pairs, STEPS)
                left = float(np.linalg.norm(aim - mask @ rows))
                if left < distance:
                    nearest, distance = mask, left
            taken[last.places] = nearest
        elif len(rows):
            taken[last.places[np.argsort(-last.chance, kind="stable")[: max(size, 0)]]] = True
        self._put_count_right(taken)
        taken = exchange(self._rows, taken, self._aim, options.pairs, STEPS)
        left = float(np.linalg.norm(self._aim - taken @ self._rows))
        if left < self.distance:
            self.best, self.distance = taken, left

    def swap_alike(self) -> None:
        """Swap chosen rows for others like them, many at once, where what is left is not short beside rows.

        Where rows are all about equally long none absorbs what others leave. But differences of two rows that are alike
        are short, and are rounded as rows are.
        """
        usual = float(np.median(np.linalg.norm(self._rows, axis=1)))
        for _ in range(PAIRINGS):
            if self.distance <= self._options.swap_above * usual:
                return
            leaves, enters = self._alike()
            change = self._rows[enters] - self._rows[leaves]
            differ = change.any(axis=1)
            change, leaves, enters = change[differ], leaves[differ], enters[differ]
            if len(leaves) <= 4 * self._rows.shape[1]:  # at even chances, less freedom than there are unknowns
                return
            swaps = _Rounding(
                change, self._aim - self.best @ self._rows, 0, len(change), self._draw, 0.0, self._options
            )
            swaps.search(np.full(len(change), 0.5))
            if swaps.distance < self.distance:
                self.best[leaves[swaps.best]], self.best[enters[swaps.best]] = False, True
                self.distance = swaps.distance

    def _alike(self) -> tuple[Positions, Positions]:
        """Pair some chosen rows with neighbours that are not chosen, each at most once, the nearest about first."""
        some = self._options.swaps
        inside, outside = (self._draw.permutation(np.flatnonzero(side)) for side in (self.best, ~self.best))
        inside, outside = inside[:some], outside[: 8 * some]
        near = min(NEIGHBOURS, len(outside))
        if not len(inside) or not near:
            return inside[:0], outside[:0]
        rows = self._rows
        apart = np.square(rows[outside]).sum(axis=1) - 2.0 * rows[inside] @ rows[outside].T
        second = np.argpartition(apart, near - 1, axis=1)[:, :near]
        square = np.take_along_axis(apart, second, axis=1) + np.square(rows[inside]).sum(axis=1)[:, None]
        order = np.argsort(square.ravel() * np.exp(self._draw.standard_normal(square.size)), kind="stable")
        first, pairs, used = np.repeat(np.arange(len(inside)), near), dict[int, int](), set[int]()
        for i, j in zip(first[order].tolist(), second.ravel()[order].tolist(), strict=True):
            if i not in pairs and j not in used:
                pairs[i] = j
                used.add(j)
        return inside[list(pairs)], outside[list(pairs.values())]

    def _put_count_right(self, taken: Mask) -> None:
        """Add or drop rows that leave least: a quarter of those that are missing or too many at a time."""
        left = self._aim - taken @ self._rows
        while excess := int(taken.sum()) - min(max(int(taken.sum()), self._least), self._most):
            sign = -1.0 if excess > 0 else 1.0
            some = np.flatnonzero(taken if excess > 0 else ~taken)
            many = max(1, abs(excess) // 4)
            after = np.square(left - sign * self._rows[some]).sum(axis=1)
            best = some[np.argpartition(after, many - 1)[:many]]
            taken[best] = ~taken[best]
            left = left - sign * self._rows[best].sum(axis=0)

    def _ordered(self, free: _Free) -> _Free:
        """Longest first; about equally long ones by chance."""
        order = np.argsort(-self._octaves[free.places] + 0.5 * self._draw.random(len(free.places)), kind="stable")
        return _Free(free.places[order], free.chance[order], free.target)

    def _settle(self, taken: Mask, free: _Free, until: float, last: int) -> _Free:
        """Decide rows until so much freedom or so few rows are left; those chosen are noted in `taken`."""
        options, part = self._options, self._options.part
        unknowns = self._lifted.shape[1]
        free, root, _ = self._absorb(free)
        while len(free.places) > last:
            freedom = np.cumsum(free.chance * (1.0 - free.chance))
            if freedom[-1] <= until:
                break
            scarcity = min(1.0, freedom[-1] / (options.scarce * unknowns))
            block = int(np.searchsorted(freedom, part * scarcity * freedom[-1])) + 1
            if freedom[-1] <= options.part * unknowns or len(free.places) <= 2 * unknowns:
                block = len(free.places)
            block = min(block, len(free.places) - last)
            into = self._decided(free, block, root)
            rest = _Free(
                free.places[block:], free.chance[block:], free.target - into @ self._lifted[free.places[:block]]
            )
            if len(rest.places):
                after, next_root, lacking = self._absorb(rest)
                left = float((after.chance * (1.0 - after.chance)).sum())
                before = float((rest.chance * (1.0 - rest.chance)).sum())
                dear = lacking > options.absorbed * left or left < (1.0 - options.cost) * before
                if left > unknowns and dear and block > 1 and self._refusals > 0 and self._work > 0.0:
                    self._refusals -= 1
                    self._work -= len(rest.places) * unknowns**2
                    part /= 3.0
                    continue
                rest, root = after, next_root
            taken[free.places[:block]] = into
            free, part = rest, min(options.part, 2.0 * part)
        return free

    def _decided(self, free: _Free, block: int, root: Array) -> Mask:
        """Decide the first rows: at random, and the last of them one by one."""
        rows, chance = self._lifted[free.places[:block]] @ root, free.chance[:block]
        left = (free.target - free.chance @ self._lifted[free.places]) @ root
        head = max(0, block - self._options.one_by_one * rows.shape[1])
        into = np.empty(block, dtype=bool)
        into[:head] = self._draw.random(head) < chance[:head]
        into[head:] = one_by_one(rows[head:], chance[head:], left + (chance[:head] - into[:head]) @ rows[:head])
        return into

    def _absorb(self, free: _Free) -> tuple[_Free, Array, float]:
        """Tilt free rows by Newton's method until they meet their target, or come no nearer.

        Returns them with L, L L' = C⁻¹, and what they lack: r'C⁻¹r is the squared change in log-odds, summed over freedom.
        """
        rows, chance, last = self._lifted[free.places], free.chance, np.inf
        for tilts in range(TILTS):
            variance = chance * (1.0 - chance)
            root = _root((rows.T * variance) @ rows)
            residual = (free.target - chance @ rows) @ root
            lacking = float(residual @ residual)
            if tilts == TILTS - 1 or lacking <= 0.1 * self._options.absorbed * variance.sum() or lacking > 0.5 * last:
                break
            last = lacking
            chance = expit(logit(chance) + np.clip(rows @ (root @ residual), -2.0, 2.0)).clip(EDGE, 1.0 - EDGE)
        return free._replace(chance=chance), root, lacking


def _root(curvature: Array) -> Array:
    """L with L L' = C⁻¹, whatever the scale of columns; 0 for columns in which nothing is free."""
    spread = np.diag(curvature)
    scale = np.where(spread > 0.0, 1.0 / np.sqrt(np.where(spread > 0.0, spread, 1.0)), 0.0)
    softened = curvature * np.outer(scale, scale)
    softened[np.diag_indices_from(softened)] += 1e-12
    factor = linalg.cholesky(softened, lower=True, check_finite=False)
    return np.asarray(linalg.solve_triangular(factor, np.diag(scale), lower=True, check_finite=False).T)


def one_by_one(rows: Array, probabilities: Array, left: Array) -> Mask:
    """Decide each row to the side that leaves the shorter residual."""
    taken, left = np.empty(len(rows), dtype=bool), left.copy()
    half = (0.5 - probabilities) * np.einsum("ij,ij->i", rows, rows)
    for j in range(len(rows)):
        taken[j] = into = bool(left @ rows[j] > half[j])
        left += (probabilities[j] - into) * rows[j]
    return taken


def round_wide(rows: Matrix, probabilities: Array, target: Array, size: int) -> Mask:
    """Decide rows one by one, longest first, without matrices: for models too wide for them, dense or sparse."""
    lengths = sparse.linalg.norm(rows, axis=1) if sparse.issparse(rows) else np.linalg.norm(rows, axis=1)
    order = np.argsort(-lengths, kind="stable")
    chance, left = probabilities[order], target - probabilities @ rows
    one = float(np.mean(lengths)) if len(order) else 1.0
    if sparse.issparse(rows):
        counted = sparse.hstack([rows[order], np.full((len(order), 1), one)], format="csr")
        taken = _sparse_one_by_one(counted, chance, np.append(left, one * (size - float(chance.sum()))))
    else:
        counted = np.column_stack([rows[order], np.full(len(order), one)])
        taken = one_by_one(counted, chance, np.append(left, one * (size - float(chance.sum()))))
    extra = int(taken.sum()) - size
    some = np.flatnonzero(taken if extra > 0 else ~taken)
    taken[some[len(some) - min(abs(extra), len(some)) :]] = extra <= 0  # the shortest come last
    mask = np.empty(len(order), dtype=bool)
    mask[order] = taken
    return mask


def _sparse_one_by_one(rows: Matrix, probabilities: Array, left: Array) -> Mask:
    """Do the same for sparse rows: each looks at its own entries of the residual alone."""
    taken, left = np.empty(len(probabilities), dtype=bool), left.copy()
    half = (0.5 - probabilities) * np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    for j, (first, last) in enumerate(pairwise(rows.indptr.tolist())):
        where, row = rows.indices[first:last], rows.data[first:last]
        taken[j] = into = bool(left[where] @ row > half[j])
        left[where] += (probabilities[j] - into) * row
    return taken


def thinning(size: int, options: RoundingOptions = DEFAULT) -> float:
    """Probability below which rows of a lesson of `size` rows are thinned."""
    ample = options.pairs / options.few if size <= options.few else options.ample
    return min(options.thin, max(size, 1) / ample)


CANDIDATES, GRAM = 400_000, 4e9
"""Rows that rounding decides about at most; chance decides the others first, and what they leave is absorbed like that of a
block. Lessons of 1 and 10 million rows of 10⁹ × 28 took 7.6 and 76 s without a limit, 1.0 and 2.3 s with it, and ended
equally near. Rows times unknowns² are at most GRAM."""


def most_candidates(metric: Array) -> int:
    """How many rows are decided about at most; a metric that is a diagonal costs no squares."""
    return CANDIDATES if metric.ndim == 1 else min(CANDIDATES, int(GRAM / (len(metric) + 1) ** 2))


def counted(aside: float, freedom: float) -> bool:
    """Whether rows are counted while they are decided: not where many rows that change nothing can fill a lesson up."""
    return bool(aside < 4.0 * np.sqrt(freedom))


def deal(count: int, places: tuple[int, ...]) -> tuple[int, ...]:
    """Deal a count out in proportion to places, no more than there are."""
    total = sum(places)
    edges = np.floor(np.cumsum((0, *places)) * (min(max(count, 0), total) / max(total, 1)) + 1e-9).astype(int)
    return tuple(int(share) for share in np.diff(edges))

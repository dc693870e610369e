"""Rounding: inclusion probabilities become whole rows, long rows first, and weaker rows absorb what these leave.

Given vectors w_j with probabilities b_j and a target, choose rows with Σ w_j close to the target. Rows are decided block by
block, longest first. What a block leaves, r = target − Σ_chosen w_j − Σ_free b_j w_j, is absorbed by tilting the log-odds of
all rows still free by w_j'u with u = C⁻¹r and C = Σ b_j(1 − b_j) w_j w_j'. So the last residual is as short as the shortest
rows. This is the idea of balanced sampling (the cube method), one scale of length after the other.

The last rows are decided by looking at all subsets, and pairs of short rows are exchanged while that helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse
from scipy.spatial import cKDTree
from scipy.special import expit, logit

from superteach.selection.sums import exchange, nearest_sum
from superteach.types import Array, Mask, Matrix, Positions


@dataclass(frozen=True)
class RoundingOptions:
    """Numbers that decide how rows are rounded. What each is worth is in the ablation table of the docs."""

    tilt: float = 8.0
    """Square of the change in log-odds that a block may ask of the rows still free, by estimate: where it begins."""
    absorbed: float = 0.01
    """Mean square of the change in log-odds that free rows may still lack after a block; else a smaller one is tried."""
    one_by_one: int = 20
    """Rows per unknown, at the end of a block, that go one by one to the side that leaves less; those before, at random."""
    restart_freedom: float = 5.0
    """Freedom per unknown from which on the rest is decided several times, and the best is kept."""
    restarts: int = 3
    """How many times. Eight take three times as long at 5,000 rows of 10 columns, and end 1.2 times nearer."""
    few_rows: float = 1.5
    """Rows to choose per unknown up to which pairs are exchanged from many starts instead: so few balance nothing."""
    exchange_candidates: int = 400
    """Shortest rows among which pairs are exchanged in the end."""
    swap_above: float = 0.1
    """Usual lengths of a row from which on what is left is worth swaps of rows that are alike. Dummies and balanced classes
    leave no short rows: readmission of diabetics, 400 rows, ends 0.6 usual lengths away without swaps, 0.15 with them."""
    swaps: int = 400
    """Chosen rows that are paired at a time, at most; eight times as many others are looked at."""
    pairings: int = 6
    """Times that rows are paired anew, at most."""
    exact: tuple[tuple[int, int], ...] = ((4, 32), (12, 26), (24, 22))
    """Up to so many unknowns, so many rows are decided by looking at all subsets: 2²⁶ of them take 0.03 s."""
    thin: float = 0.25
    """Rows of a smaller probability become 0 or this at random, so that about n/thin rows are left to decide: with 1/8
    rounding takes twice the time and gains nothing, with 1/2 there is too little to tilt."""
    ample: int = 1_000
    """Rows that are left to decide at least. Without, 50 owners of 100 rows each, and lessons of 14 rows, end 1.6 and 1.4
    times farther away."""


DEFAULT = RoundingOptions()
TILTS = 8
"""Newton steps by which free rows absorb what a block leaves, at most; one or two are usual."""
NEIGHBOURS = 10
"""Nearest rows that a chosen row may be swapped for."""
EDGE = 1e-9
"""Probabilities stay this far from 0 and 1, so that a row can still be tilted back."""


class _Free(NamedTuple):
    """Rows from `first` on are free, with these probabilities; those before are decided, and add up to `total`."""

    first: int
    probabilities: Array
    total: Array


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
    if not len(rows) or most <= 0:
        return np.zeros(len(rows), dtype=bool)
    most = min(most, len(rows))
    unknowns = rows.shape[1] + 1
    if most <= options.few_rows * unknowns:
        return nearest_sum(rows, target + unmet, probabilities, most, draw)
    lengths = np.linalg.norm(rows, axis=1)
    if not lengths.any():
        return _first(rows, probabilities, least, most)
    taken = _nearest_choice(rows, lengths, probabilities, target, (least, most), draw, unmet, options)
    return swap_similar(rows, taken, target + unmet, draw, options)


def _nearest_choice(
    rows: Array,
    lengths: Array,
    probabilities: Array,
    target: Array,
    count: tuple[int, int],
    draw: np.random.Generator,
    unmet: Array | float,
    options: RoundingOptions,
) -> Mask:
    """Decide rows block by block, exchange some in the end, and keep the best of several."""
    least, most = count
    counted = float(least == most)
    lifted = np.column_stack([rows, np.full(len(rows), counted)])
    wanted = np.append(target, counted * most)
    best, distance = np.zeros(len(rows), dtype=bool), np.inf
    for taken in _decided(lifted, lengths, probabilities, wanted, draw, options):
        mask = fix_count_and_exchange(rows, taken, target + unmet, least, most, options.exchange_candidates)
        left = float(np.linalg.norm(target + unmet - mask @ rows))
        if left < distance:
            best, distance = mask, left
    return best


def _first(rows: Array, probabilities: Array, least: int, most: int) -> Mask:
    """Rows of length 0 are all alike: take as many as are wanted."""
    taken = np.zeros(len(rows), dtype=bool)
    taken[: min(max(round(float(probabilities.sum())), least), most)] = True
    return taken


def _decided(
    rows: Array,
    lengths: Array,
    probabilities: Array,
    target: Array,
    draw: np.random.Generator,
    options: RoundingOptions,
) -> list[Mask]:
    """Decide all rows; the last ones several times, each in another order."""
    few = next((count for width, count in options.exact if len(target) <= width), 0)
    begun = _Blocks(rows, lengths, target, draw, options)
    middle = begun.decide(
        _Free(0, np.clip(probabilities[begun.order], EDGE, 1.0 - EDGE), 0.0 * target), few, options.restart_freedom
    )
    free, found = begun.order[middle.first :], []
    for _ in range(options.restarts if len(free) else 1):
        mask = begun.mask()
        if len(free):
            last = _Blocks(rows[free], lengths[free], target - middle.total, draw, options)
            end = last.decide(_Free(0, middle.probabilities[last.order], 0.0 * target), few, 0.0)
            if 0 < len(free) - end.first <= few:
                last.taken[end.first :] = nearest_subset_sum(last.rows[end.first :], target - middle.total - end.total)
            mask[free] = last.mask()
        found.append(mask)
    return found


class _Blocks:
    """Rows in order of length, decided from the longest on."""

    def __init__(
        self,
        rows: Array,
        lengths: Array,
        target: Array,
        draw: np.random.Generator,
        options: RoundingOptions,
    ) -> None:
        octaves = np.log2(np.maximum(lengths, 1e-300)) - 0.5 * draw.random(len(lengths))  # ties go by chance
        self.order = np.argsort(-octaves, kind="stable")
        self.rows, self.taken = rows[self.order], np.zeros(len(rows), dtype=bool)
        self._square = np.square(lengths[self.order] / max(float(lengths.max()), 1e-300))
        self._longest = np.maximum.accumulate(self._square[::-1])[::-1]
        """Square of the longest row from each place on."""
        self._target, self._draw, self._options = target, draw, options
        self._scale = float(lengths.max()) ** 2

    def mask(self) -> Mask:
        """Which rows are taken, in the order they were given in."""
        found = np.empty(len(self.order), dtype=bool)
        found[self.order] = self.taken
        return found

    def decide(self, here: _Free, few: int, until: float) -> _Free:
        """Decide rows until at most `few` are free, or `until` of freedom per unknown.

        A block whose remainder the rows still free cannot absorb is taken back, and a third of it is tried.
        """
        unknowns, part = len(self._target), 1.0
        here, root, lacking = self._absorb(here)
        while free := len(self.rows) - here.first:
            variance = here.probabilities * (1.0 - here.probabilities)
            if free <= few or float(variance.sum()) <= until * unknowns:
                break
            largest = self._block(here.first, variance, lacking) or 1
            block = max(1, round(part * largest))
            after = self._absorb(self._decide_first(here, block, root))
            freedom = float((after[0].probabilities * (1.0 - after[0].probabilities)).sum())
            if freedom > unknowns and after[2] > self._options.absorbed * freedom:
                if block > 1:
                    part = block / largest / 3.0
                    continue
                after = self._absorb(self._decide_first(here, self._next(here.first), root))
            here, root, lacking = after
            part = min(1.0, 2.0 * part)
        return here

    def _absorb(self, here: _Free) -> tuple[_Free, Matrix, float]:
        """Tilt free rows by Newton's method until they meet the target, or come no nearer.

        Returns them with L, L L' = C⁻¹, and what they lack: r'C⁻¹r is the squared change in log-odds, summed over freedom.
        """
        rows, last = self.rows[here.first :], np.inf
        for tilts in range(TILTS):
            freedom = float((here.probabilities * (1.0 - here.probabilities)).sum())
            root = self._root(self._curvature(here))
            residual = (self._target - here.total - here.probabilities @ rows) @ root
            lacking = float(residual @ residual)
            if tilts == TILTS - 1 or lacking <= 0.1 * self._options.absorbed * freedom or lacking > 0.5 * last:
                break
            last = lacking
            tilted = logit(here.probabilities) + np.clip(rows @ (root @ residual), -2.0, 2.0)
            here = here._replace(probabilities=np.clip(expit(tilted), EDGE, 1.0 - EDGE))
        return here, root, lacking

    def _curvature(self, here: _Free) -> Array:
        """C = Σ b(1 − b) w w' over free rows."""
        rows = self.rows[here.first :] * np.sqrt(here.probabilities * (1.0 - here.probabilities))[:, None]
        return np.asarray(rows.T @ rows)

    def _root(self, curvature: Array) -> Array:
        """L with L L' = C⁻¹; a residual as short as the shortest rows is none."""
        shortest = self._scale * float(self._square[-1:].sum())
        softened = curvature + np.diag(1e-13 * np.diag(curvature) + shortest * 1e-3 + 1e-300)
        scale = 1.0 / np.sqrt(np.diag(softened))
        factor = linalg.cholesky(softened * np.outer(scale, scale), lower=True, check_finite=False)
        return np.asarray(linalg.solve_triangular(factor, np.diag(scale), lower=True, check_finite=False).T)

    def _tilt(self, first: int, variance: Array, needed: float) -> float:
        """Square of the tilt that free rows need where the residual's square in C⁻¹ is `needed`."""
        strength = float(variance @ self._square[first:])
        return needed * (float(self._longest[first]) / max(strength, 1e-300) + 4.0 / max(float(variance.sum()), 1e-300))

    def _next(self, first: int) -> int:
        """Rows within an eighth of an octave of the longest: where nothing fits they have to go, whatever they leave."""
        near = self._square[first:] >= self._longest[first] * 2.0**-0.25
        return max(1, int(np.flatnonzero(near)[-1]) + 1 if near.any() else 1)

    def _block(self, first: int, variance: Array, needed: float) -> int | None:
        """How many rows the largest block has whose noise the rest can absorb; None: not even one."""
        unknowns, square = len(self._target), self._square[first:]
        mass, strength = np.cumsum(variance), np.cumsum(variance * square)
        rest, free = strength[-1] - strength, mass[-1] - mass
        # One by one, rows leave what a sixth of a row per unknown weighs; at random, all they weigh.
        kept = np.minimum(1.0, unknowns / 6.0 / np.maximum(mass, 1e-300))
        kept[self._options.one_by_one * unknowns :] = 1.0
        carried = needed * min(1.0, self._tilt(first, variance, needed)) * strength[-1]
        longest = np.append(self._longest[first + 1 :], 0.0)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            noise = (kept * strength * unknowns + carried) / np.maximum(rest, 1e-300)
            tilt = noise * (longest / np.maximum(rest, 1e-300) + 4.0 / np.maximum(free, 1e-300))
            fits = (tilt <= self._options.tilt) & (rest > 0.0) & (mass > 0.0)
        if not fits.any():
            return None
        return int(np.flatnonzero(fits)[-1]) + 1

    def _decide_first(self, here: _Free, block: int, root: Array) -> _Free:
        """Decide the first `block` free rows."""
        rows, chance = self.rows[here.first :], here.probabilities
        left = self._target - here.total - chance @ rows
        at_random = max(0, block - self._options.one_by_one * rows.shape[1])
        taken = np.empty(block, dtype=bool)
        taken[:at_random] = self._draw.random(at_random) < chance[:at_random]
        left = (left + (chance[:at_random] - taken[:at_random]) @ rows[:at_random]) @ root
        taken[at_random:] = one_by_one(rows[at_random:block] @ root, chance[at_random:block], left)
        self.taken[here.first : here.first + block] = taken
        return _Free(here.first + block, chance[block:], here.total + taken @ rows[:block])


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


def nearest_subset_sum(rows: Array, target: Array) -> Mask:
    """Of all subsets of a few rows find the one whose sum is nearest to the target, by meeting in the middle."""
    seen = np.abs(rows).sum(axis=0) > 1e-16 * np.abs(target)  # in the others no sum of rows changes the distance
    rows, target = rows[:, seen], target[seen]
    if not seen.any():
        return np.zeros(len(rows), dtype=bool)
    half = len(rows) // 2
    parts = rows[:half], rows[half:]
    ways = [(np.arange(2 ** len(part))[:, None] >> np.arange(len(part))) & 1 for part in parts]
    sums = ways[0] @ parts[0]
    if 2 * len(np.unique(sums[:, 0])) < len(sums):  # equal sums by the thousand would cost the tree its speed
        sums, kept = np.unique(sums, axis=0, return_index=True)
        ways[0] = ways[0][kept]
    tree = cKDTree(sums, balanced_tree=False, compact_nodes=False)
    asked = target - ways[1] @ parts[1]
    best, pair = np.inf, (0, 0)
    step = max(64, len(asked) // 64)
    for first in range(0, len(asked), step):  # what is known so far bounds the search of the next
        distance, nearest = tree.query(asked[first : first + step], distance_upper_bound=best)
        at = int(distance.argmin())
        if distance[at] < best:
            best, pair = float(distance[at]), (int(nearest[at]), first + at)
    return np.concatenate([ways[0][pair[0]], ways[1][pair[1]]]).astype(bool)


def fix_count_and_exchange(rows: Array, taken: Mask, target: Array, least: int, most: int, looked: int) -> Mask:
    """Put the count right, then exchange pairs of short rows while that brings the sum nearer to the target."""
    taken, left = taken.copy(), target - taken @ rows
    count = int(taken.sum())
    for _ in range(abs(min(max(count, least), most) - count)):
        sign = -1.0 if count > most else 1.0
        some = np.flatnonzero(taken if count > most else ~taken)
        if not len(some):
            break
        best = some[np.square(left - sign * rows[some]).sum(axis=1).argmin()]
        left, taken[best] = left - sign * rows[best], not taken[best]
    # Few rows can leave a small lesson, so more may enter: as many pairs either way.
    chosen = int(taken.sum())
    looked = max(looked, min(looked**2 // max(chosen, 1), 4 * looked))
    strength = np.einsum("ij,ij->i", rows, rows)
    if chosen <= looked // 4:
        strength[taken] = 0.0
    short: Positions = np.argsort(strength)[:looked]
    inside = taken[short]
    taken[short] = exchange(rows[short], left + inside @ rows[short], inside[None])[0]
    return taken


def swap_similar(
    rows: Array, taken: Mask, target: Array, draw: np.random.Generator, options: RoundingOptions = DEFAULT
) -> Mask:
    """Bring the sum nearer to the target by swaps of chosen rows for others like them, many at once.

    Where rows are all about equally long none absorbs what others leave. But differences of two rows that are alike are
    short, and are rounded as rows are.
    """
    left, taken = target - taken @ rows, taken.copy()
    usual = float(np.median(np.linalg.norm(rows, axis=1)))
    for _ in range(options.pairings):
        distance = float(np.linalg.norm(left))
        if distance <= options.swap_above * usual:
            break
        leaves, enters = _alike(rows, taken, draw, options)
        if len(leaves) <= 4 * rows.shape[1]:  # at even chances, less freedom than there are unknowns
            break
        change = rows[enters] - rows[leaves]
        lengths, even = np.linalg.norm(change, axis=1), np.full(len(change), 0.5)
        done = _nearest_choice(change, lengths, even, left, (0, len(change)), draw, 0.0, options)
        after = left - done @ change
        if np.linalg.norm(after) < distance:
            taken[leaves[done]], taken[enters[done]], left = False, True, after
    return taken


def _alike(
    rows: Array, taken: Mask, draw: np.random.Generator, options: RoundingOptions
) -> tuple[Positions, Positions]:
    """Pair some chosen rows with neighbours that are not chosen, each at most once, the nearest about first."""
    inside, outside = (draw.permutation(np.flatnonzero(side)) for side in (taken, ~taken))
    inside, outside = inside[: options.swaps], outside[: 8 * options.swaps]
    near = min(NEIGHBOURS, len(outside))
    if not len(inside) or not near:
        return inside[:0], outside[:0]
    apart = np.square(rows[outside]).sum(axis=1) - 2.0 * rows[inside] @ rows[outside].T
    second = np.argpartition(apart, near - 1, axis=1)[:, :near]
    square = np.take_along_axis(apart, second, axis=1) + np.square(rows[inside]).sum(axis=1)[:, None]
    order = np.argsort(square.ravel() * np.exp(draw.standard_normal(square.size)), kind="stable")
    first, pairs, used = np.repeat(np.arange(len(inside)), near), dict[int, int](), set[int]()
    for i, j in zip(first[order].tolist(), second.ravel()[order].tolist(), strict=True):
        if i not in pairs and j not in used:
            pairs[i] = j
            used.add(j)
    return inside[list(pairs)], outside[list(pairs.values())]


def thinning(size: int, options: RoundingOptions = DEFAULT) -> float:
    """Probability below which rows of a lesson of `size` rows are thinned."""
    return min(options.thin, max(size, 1) / options.ample)


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

"""Exchanges of rows by the true risk: pools in memory, and small pools from many starts.

From a fitted model with curvature H, row j entering for row i moves the learner by one Newton step to

    θ + H⁻¹(α_i x_i + α_j x_j),   (I + DK) α = s∘p,   K = x'H⁻¹x,  p = −ℓ',  D = diag(s ℓ''),  s = ∓1

over these two rows. That is exact for squared loss, so all exchanges are ranked by it, and the best few are refitted. A
subset is a line of places, as many as rows are allowed. An empty place holds the row of zeros after all others, which no
fit notices; so rows enter and leave by exchanges for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from scipy.spatial import cKDTree

from superteach.selection.nearest import DEFAULT, NearestOptions, Pool, fit, inverses
from superteach.types import Array, Mask, Positions

AT_ONCE = 1 << 22
"""Numbers that fits of many subsets, and rankings of their exchanges, may take at once."""
NEIGHBOURHOODS = 2
"""How often rows that may change at once, with all their subsets looked at, are tried in vain."""
GAIN = 1e-4
"""Part of a risk by which an exchange lowers it at least."""
SUMS = {4: 1 << 16, 6: 1 << 15, np.inf: 1 << 12}
"""Sums over a half of the rows of which pairs are looked for, by how many numbers they have at most."""


def best_subset(
    pool: Pool,
    low: int,
    high: int,
    starts: Sequence[Mask],
    draw: np.random.Generator,
    searches: int = 1,
    options: NearestOptions = DEFAULT,
) -> tuple[Mask, float]:
    """Exchange rows of a small pool from several starts on; the subset of `low` to `high` rows with the lowest risk seen."""
    pool = reduced(pool)

    def exchanged(subsets: Mask) -> tuple[Mask, float]:
        found, risks = exchange_by_risk(pool, subsets, low, replace(options, work=options.work / 16.0), high)
        nearest = int(risks.argmin())
        return found[nearest], float(risks[nearest])

    rows, width = pool.design.shape
    cost = min(options.pairs, rows * high) * (20.0 + 2.0 * width) + options.tried * high * width**2 + rows * width**2
    many = int(np.clip(options.work / (4e4 * cost), 1, options.starts)) * searches
    sizes = np.resize(np.unique(np.linspace(low, high, many).round().astype(int)), many)
    best, lowest = exchanged(np.array([*starts, *_random(rows, sizes, draw)]))
    strength = np.linalg.norm(pool.design * pool.loss.gradient(pool.design @ pool.goal, pool.target)[:, None], axis=1)
    vain, side = 0, _side(rows, -(-high // 2), next(SUMS[most] for most in SUMS if len(pool.measure) <= most))
    while vain < NEIGHBOURHOODS * searches and not pool.late():  # weak rows rather than strong ones
        free = np.argsort(np.log(strength + 1e-300) + 0.3 * draw.standard_normal(rows))[: 2 * side]
        near = _balanced(pool, low, high, best, draw.permutation(free), many)
        found, risk = exchanged(near) if len(near) else (best, lowest)
        vain = 0 if risk < 0.9 * lowest else vain + 1
        best, lowest = (found, risk) if risk < lowest else (best, lowest)
    return best, lowest


def _balanced(pool: Pool, low: int, high: int, kept: Mask, free: Positions, top: int) -> Mask:
    """Subsets whose gradients nearly add up to what the goal asks: pairs of sums over halves of the rows that are free."""
    rows, kept = len(pool.target), kept & ~np.isin(np.arange(len(kept)), free)
    middle = (low + high) // 2
    slope, curvature = pool.loss.terms(pool.design @ pool.goal, pool.target)[1:]
    penalty = pool.penalty(middle)
    metric = pool.measure @ inverses(pool.design[None], (middle / rows * curvature)[None], penalty[None])[0]
    # Where the size is fixed, sums of another size are far.
    counted = np.full(rows, 1e3 * (low == high))
    vectors = np.column_stack([-slope[:, None] * (pool.design @ metric.T), counted])
    target = np.append(metric @ (penalty * pool.goal), counted[0] * low) - kept @ vectors
    sides = free[::2], free[1::2]
    halves = [_every(len(side), -(-high // 2)) for side in sides]
    sums = [half @ vectors[side] for half, side in zip(halves, sides, strict=True)]
    tree, step = cKDTree(sums[0], balanced_tree=False, compact_nodes=False), len(sums[1]) // 32 + 1
    apart, nearest = np.full(top, np.inf), np.zeros((2, top), dtype=np.int64)
    for first in range(0, len(sums[1]), step):  # what is known so far bounds the search of the next
        distance, at = tree.query(target - sums[1][first : first + step], distance_upper_bound=apart.max())
        apart, pairs = np.append(apart, distance), np.hstack([nearest, [at, first + np.arange(len(at))]])
        best = np.argpartition(apart, top - 1)[:top]
        apart, nearest = apart[best], pairs[:, best]
    nearest = nearest[:, np.isfinite(apart)]
    found = np.tile(kept, (nearest.shape[1], 1))
    found[:, sides[0]], found[:, sides[1]] = halves[0][nearest[0]], halves[1][nearest[1]]
    size = found.sum(axis=1)
    return np.asarray(found[(size >= low) & (size <= high)])


def _side(rows: int, high: int, many: int) -> int:
    """The most rows that have no more than so many subsets of at most `high` rows."""
    side = 1
    while side < rows and sum(math.comb(side + 1, size) for size in range(high + 1)) <= many:
        side += 1
    return side


def _every(rows: int, high: int) -> Mask:
    """All subsets of at most `high` rows."""
    parts = [np.zeros((1, rows), dtype=bool)]
    for size in range(1, min(rows, high) + 1):
        chosen = np.array(list(combinations(range(rows), size)))
        parts.append(np.zeros((len(chosen), rows), dtype=bool))
        np.put_along_axis(parts[-1], chosen, True, axis=1)
    return np.concatenate(parts)


def _random(rows: int, sizes: Positions, draw: np.random.Generator) -> Mask:
    """Draw subsets of these sizes."""
    return np.asarray(np.argsort(np.argsort(draw.random((len(sizes), rows)), axis=1), axis=1) < sizes[:, None])


def reduced(pool: Pool) -> Pool:
    """The same pool in the span of its rows and the goal, where there are more columns: a penalised learner stays in it."""
    stiff = pool.penalty(1) > 0.0  # an intercept without penalty, the last column, stays as it is
    if stiff.sum() <= len(pool.target) + 1:
        return pool
    basis = np.linalg.qr(np.vstack([pool.design, pool.goal])[:, stiff].T)[0]
    turn = np.zeros((len(stiff), basis.shape[1] + int((~stiff).sum())))
    turn[stiff, : basis.shape[1]] = basis
    turn[~stiff, basis.shape[1] :] = 1.0
    some = np.append(np.zeros(basis.shape[1], dtype=int), np.flatnonzero(~stiff))
    return replace(
        pool,
        design=pool.design @ turn,
        goal=turn.T @ pool.goal,
        measure=pool.measure @ turn,
        penalty=lambda size: pool.penalty(size)[some],
    )


def exchange_by_risk(
    pool: Pool, subsets: Mask, low: int, options: NearestOptions = DEFAULT, high: int = 0
) -> tuple[Mask, Array]:
    """Exchange rows of each subset while that lowers its true risk; the subsets then, and their risks.

    They have `low` to `high` rows (default: `low`). A search that ends because work or time is up has come no farther.
    """
    search = _Search(pool, low, max(low, high), options)
    places = np.stack([search.places(subset) for subset in subsets])
    risks, models = search.risks(places, np.tile(pool.goal, (len(places), 1)))
    active, share = np.arange(len(places)), search.together
    while len(active) and search.work < options.work * max(1, len(places) // options.starts) and not pool.late():
        improved = []
        for some in np.array_split(active, -(-len(active) // share)):
            begin = np.where(np.isfinite(risks[some])[:, None], models[some], pool.goal)
            tried = search.exchanged(places[some], begin)
            flat = tried.reshape(-1, places.shape[1])
            after, fitted = search.risks(flat, np.repeat(begin, tried.shape[1], axis=0))
            best = after.reshape(len(some), -1).argmin(axis=1) + np.arange(len(some)) * tried.shape[1]
            better = after[best] < risks[some] * (1.0 - GAIN)
            where, best = some[better], best[better]
            risks[where], models[where], places[where] = after[best], fitted[best], flat[best]
            improved.append(where)
        active = np.concatenate(improved)
    found = np.zeros((len(places), len(pool.target) + 1), dtype=bool)
    np.put_along_axis(found, places, True, axis=1)
    return found[:, :-1], risks


class _Search:
    """Subsets as lines of places, with the row of zeros that an empty place holds."""

    def __init__(self, pool: Pool, low: int, high: int, options: NearestOptions) -> None:
        self._pool, self._low, self._high, self._options = pool, low, high, options
        self._rows, self._width = pool.design.shape
        self._design = np.vstack([pool.design, np.zeros(self._width)])
        every = np.append(np.arange(self._rows), 0)
        self._target, self._loss = pool.target[every], pool.loss.of_rows(every)
        self._slots = min(high, 1 << 10)
        self._entries = max(1, min(self._rows + 1, options.pairs // self._slots))
        # The step is exact for squared loss.
        self.tried = 1 if pool.loss.name == "squared" and pool.penalty(1).any() else options.tried
        self.work = 0.0
        self.together = max(1, AT_ONCE // (self._slots * self._entries * 8 + 2 * self._rows * self._width))

    def places(self, subset: Mask) -> Positions:
        """A subset as places; one that lacks a class exchanges a row for one of that class."""
        chosen, positive = np.flatnonzero(subset)[: self._high], self._pool.target > 0.0
        if self._pool.refuses(len(chosen), int(positive[chosen].sum())) is not None:
            missing = np.flatnonzero((positive != positive[chosen].all()) & ~subset)
            chosen = np.append(chosen[: self._high - 1], missing[:1]) if len(missing) else chosen
        return np.append(chosen, np.full(self._high - len(chosen), self._rows))

    def risks(self, places: Positions, start: Array) -> tuple[Array, Array]:
        """Fit every subset; risks (infinite where the learner refuses it) and models."""
        parts = np.array_split(np.arange(len(places)), -(-places.size * self._width // AT_ONCE))
        models = np.concatenate([self._fitted(places[part], start[part]) for part in parts])
        risks = np.linalg.norm((models - self._pool.goal) @ self._pool.measure.T, axis=1)
        here = places < self._rows
        sizes, positive = here.sum(axis=1), (here & (self._target[places] > 0.0)).sum(axis=1)
        pairs, which = np.unique(np.stack([sizes, positive]), axis=1, return_inverse=True)
        refused = np.array([self._pool.refuses(int(size), int(many)) is not None for size, many in pairs.T])
        risks[refused[which] | ~np.isfinite(risks)] = np.inf
        if not self._pool.penalty(1).any():  # then some rows leave the model undetermined
            risks[np.linalg.matrix_rank(self._design[places]) < self._width] = np.inf
        return risks, models

    def _fitted(self, places: Positions, start: Array) -> Array:
        self.work += 4.0 * places.size * self._width**2
        rows = self._design[places], self._target[places], self._loss.of_rows(places)
        return fit(*rows, np.ones(places.shape), self._stiff(places), start)

    def _stiff(self, places: Positions) -> Array:
        """The penalty of each subset, by its size."""
        sizes, which = np.unique((places < self._rows).sum(axis=1), return_inverse=True)
        return np.stack([self._pool.penalty(int(size)) for size in sizes])[which]

    def exchanged(self, places: Positions, models: Array) -> Positions:
        """The exchanges of each subset that end nearest to the goal by the step above: subsets × exchanges × places."""
        design, measure, subsets = self._design, self._pool.measure, np.arange(len(places))[:, None]
        self.work += len(places) * (self._rows * self._width * (self._width + len(measure)))
        terms = self._loss.terms(models @ design.T, self._target)
        weights = np.take_along_axis(terms.curvature, places, axis=1)
        moves = design @ inverses(design[places], weights, self._stiff(places))  # H⁻¹x_j, subsets × rows × columns
        mapped, left = moves @ measure.T, (models - self._pool.goal) @ measure.T
        along, square = (mapped @ left[..., None])[..., 0], np.einsum("sjk,sjk->sj", mapped, mapped)
        leverage = np.einsum("sjk,jk->sj", moves, design)
        inside = np.zeros(terms.slope.shape, dtype=bool)
        np.put_along_axis(inside, places, True, axis=1)
        inside[:, -1] = False
        sign = np.where(inside, -1.0, 1.0)
        pull, bend = -sign * terms.slope, sign * terms.curvature
        own = np.maximum(1.0 + bend * leverage, 1e-9)
        alone = pull / own
        single = alone * (2.0 * along + alone * square)
        # Of many rows, those that promise most alone; the row of zeros, for an empty place, is always among them.
        full = (places < self._rows).sum(axis=1) <= self._low
        single[:, -1] = np.where(full, np.inf, -np.inf)
        i = np.take_along_axis(places, _least(np.take_along_axis(single, places, axis=1), self._slots), axis=1)
        j = _least(np.where(inside, np.inf, single), self._entries)
        leave, enter = (subsets, i), (subsets, j)
        cross = moves[leave] @ np.swapaxes(design[j], 1, 2)
        self.work += cross.size * (self._width + len(measure) + 40.0)

        def first(values: Array) -> Array:
            return values[leave][..., None]

        def second(values: Array) -> Array:
            return values[enter][:, None]

        determinant = first(own) * second(own) - first(bend) * second(bend) * cross**2
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            a = (second(own) * first(pull) - first(bend) * cross * second(pull)) / determinant
            b = (first(own) * second(pull) - second(bend) * cross * first(pull)) / determinant
            after = a * (2.0 * first(along) + a * first(square)) + b * (2.0 * second(along) + b * second(square))
            after += 2.0 * a * b * (mapped[leave] @ np.swapaxes(mapped[enter], 1, 2))
        empty = i == self._rows
        again = empty & (np.cumsum(empty, axis=1) > 1)  # one empty place stands for all
        out = second(inside) | again[..., None] | (second(np.isinf(single) & (single > 0.0)))
        out |= empty[..., None] & (j == self._rows)[:, None] | ~(determinant > 1e-9)
        after = np.where(out, np.inf, after).reshape(len(places), -1)
        best = _least(after, self.tried)
        tried = np.repeat(places[:, None], best.shape[1], axis=1)
        at, to = np.divmod(best, j.shape[1])
        slot = np.argmax(places[:, None] == np.take_along_axis(i, at, axis=1)[..., None], axis=2)
        put = np.isfinite(np.take_along_axis(after, best, axis=1))
        entering = np.where(put, np.take_along_axis(j, to, axis=1), np.take_along_axis(places, slot, axis=1))
        np.put_along_axis(tried, slot[..., None], entering[..., None], axis=2)
        return tried


def _least(values: Array, many: int) -> Positions:
    """Where the least numbers of each line are, in no order."""
    if many >= values.shape[1]:
        return np.tile(np.arange(values.shape[1]), (len(values), 1))
    return np.asarray(np.argpartition(values, many - 1, axis=1)[:, :many], dtype=np.int64)

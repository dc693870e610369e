"""Swap search: rows enter, leave or are exchanged while that lowers the true risk, from many starts at once.

From a fitted model θ with curvature H, flipping rows i and j (s = +1 for one that enters, −1 for one that leaves) moves
the learner by one Newton step to

    θ + H⁻¹(α_i x_i + α_j x_j),   (I + DK) α = s∘p,   K = x'H⁻¹x,  p = −ℓ',  D = diag(s ℓ'')

over these two rows. That is exact for squared loss, so all flips and pairs are ranked by it, and the best few are refitted.
In pools of few rows the best subset found is then searched on exhaustively, some rows at a time, in the end all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from superteach.selection.exhaustive import EVERY, Best, count, search
from superteach.selection.subsets import Numbers, SubsetProblem
from superteach.types import Array, Mask


@dataclass(frozen=True)
class PolishOptions:
    """Numbers that decide the search of small pools. What each is worth is in the ablation table of the docs."""

    tried: int = 12
    """Swaps that are refitted in each step, those that promise most."""
    starts: int = 32
    """Subsets drawn at random to start from, in pools of few rows; down to an eighth of them in wide ones."""
    few: int = 128
    """Rows up to which a pool is searched from random starts, and with pairs that enter or leave together where the size is
    free; above, rows are exchanged, enter or leave alone."""
    nearby: tuple[int, ...] = (20, 24, 28, 30)
    """Rows that may change at once, weak ones rather than strong ones, with all their subsets covered: more of them when
    fewer gain nothing. Ridge in two columns, 64 rows: the risk is 4e-4 of that of all rows without, 5e-6 with them."""
    vain: int = 2
    """Neighbourhoods of one size that may gain less than a tenth before larger ones are tried."""


DEFAULT = PolishOptions()
AT_ONCE = 1 << 21
"""Pairs of rows that are ranked at once, over all starts."""
WORK = 1 << 20
"""Rows times squared columns times starts up to which no starts are left out."""
NEARBY_WORK = 2e9
"""Multiplications up to which a neighbourhood is searched: about a quarter of a second."""


def best_subset(
    problem: SubsetProblem, low: int, high: int, start: Mask | None = None, searches: int = 1, seed: int = 0
) -> Best:
    """Find a subset of `low` to `high` rows with a low risk: the lowest there is, where that is proved.

    `start` is a subset to begin with; pools of few rows are searched from others as well, `searches` times as many as usual.
    """
    problem, draw = problem.reduced(), np.random.default_rng(seed)
    begin = np.zeros((0, problem.rows), dtype=bool) if start is None else start[None]
    if problem.rows <= DEFAULT.few:
        many = min(DEFAULT.starts, max(DEFAULT.starts // 8, WORK // (problem.rows * len(problem.goal) ** 2)))
        begin = np.concatenate([begin, starts(problem, low, high, many * searches, draw)])
    risks, subsets = swap_search(problem, begin, low, high)
    best = Best(subsets[risks.argmin()], float(risks.min()), False)
    if problem.rows > DEFAULT.few or not np.isfinite(best.risk) or count(problem.rows, low, high) <= EVERY:
        return search(problem, best.subset, low, high)
    slope = problem.loss.gradient(problem.design @ problem.goal, problem.target)
    strength = np.log(np.abs(slope) * np.linalg.norm(problem.design, axis=1) + 1e-300)
    for nearby in DEFAULT.nearby:
        vain = 0 if nearby < problem.rows else DEFAULT.vain
        while vain < DEFAULT.vain:
            order = np.argsort(strength + 0.3 * draw.standard_normal(problem.rows))
            free = np.isin(np.arange(problem.rows), order[:nearby])
            after = search(problem, best.subset, low, high, free, NEARBY_WORK)
            vain, best = 0 if after.risk < 0.9 * best.risk else vain + 1, after
    return search(problem, best.subset, low, high)


def starts(problem: SubsetProblem, low: int, high: int, many: int, draw: np.random.Generator) -> Mask:
    """Draw subsets to start from, of sizes spread over what is allowed."""
    sizes = np.resize(np.unique(np.round(np.linspace(low, high, many)).astype(int)), many)
    return np.asarray(np.argsort(np.argsort(draw.random((many, problem.rows)), axis=1), axis=1) < sizes[:, None])


def swap_search(problem: SubsetProblem, subsets: Mask, low: int, high: int) -> tuple[Array, Mask]:
    """Improve every subset until no swap lowers its risk; risks and subsets, of `low` to `high` rows each."""
    subsets = np.stack([_acceptable(problem, subset) for subset in subsets])
    risks, models = problem.risks(subsets)
    share = max(1, AT_ONCE // problem.rows**2) if low == high or problem.rows <= DEFAULT.few else 1
    active = np.arange(len(subsets))
    while len(active):
        improved = []
        for some in np.array_split(active, -(-len(active) // share)):
            finite = np.isfinite(risks[some])[:, None]
            nearby = _promising(problem, subsets[some], np.where(finite, models[some], problem.goal), low, high)
            owner = np.repeat(some, nearby.shape[1])
            found, fitted = problem.risks(nearby.reshape(-1, problem.rows))
            best = found.reshape(len(some), -1).argmin(axis=1) + np.arange(len(some)) * nearby.shape[1]
            better = best[found[best] < risks[some] * (1.0 - 1e-9)]
            where = owner[better]
            risks[where], models[where] = found[better], fitted[better]
            subsets[where] = nearby.reshape(-1, problem.rows)[better]
            improved.append(where)
        active = np.concatenate(improved)
    return risks, subsets


def _acceptable(problem: SubsetProblem, subset: Mask) -> Mask:
    """Exchange one row of a subset that lacks a class for a row of that class."""
    subset, positive = subset.copy(), problem.target > 0.0
    if problem.accepted(subset[None])[0] or not subset.any():
        return subset
    missing = np.flatnonzero((~positive if positive[subset].all() else positive) & ~subset)
    if len(missing):
        subset[np.flatnonzero(subset)[-1]] = False
        subset[missing[0]] = True
    return subset


def _promising(problem: SubsetProblem, subsets: Mask, models: Array, low: int, high: int) -> Mask:
    """The swaps of each subset that end nearest to the goal by the step above, applied: subsets × swaps × rows."""
    design, loss, rows = problem.design, problem.loss, problem.rows
    sizes = subsets.sum(axis=1)
    terms = loss.terms(models @ design.T, problem.target)
    hessian = problem.hessians(subsets * terms.curvature, sizes)
    hessian += (1e-12 * np.einsum("skk->s", hessian) + 1e-300)[:, None, None] * np.eye(hessian.shape[1])
    inverse = np.linalg.inv(hessian)
    moves = design @ inverse  # subsets × rows × columns, H⁻¹x_j
    leverage = np.einsum("sjk,jk->sj", moves, design)
    mapped = moves @ problem.metric.T
    left = (models - problem.goal) @ problem.metric.T
    along, square = np.einsum("sjk,sk->sj", mapped, left), np.einsum("sjk,sjk->sj", mapped, mapped)
    sign = np.where(subsets, -1.0, 1.0)
    pull, bend = -sign * terms.slope, sign * terms.curvature
    own = 1.0 + bend * leverage

    def allowed(change: Array) -> Mask:
        after = sizes.reshape(-1, *[1] * (change.ndim - 1)) + change
        return np.asarray((after >= low) & (after <= high))

    def ranked(first: Numbers, second: Numbers) -> Array:
        """What is left, squared, after a pair of flips, less what is left now; first and second are rows of each subset."""
        i, j = (np.arange(len(subsets))[:, None], first), (np.arange(len(subsets))[:, None], second)
        row, column = (slice(None), slice(None), None), (slice(None), None, slice(None))
        cross = moves[i] @ np.swapaxes(design[second], 1, 2)
        determinant = own[i][row] * own[j][column] - bend[i][row] * bend[j][column] * cross**2
        with np.errstate(divide="ignore", invalid="ignore"):
            a = (own[j][column] * pull[i][row] - bend[i][row] * cross * pull[j][column]) / determinant
            b = (own[i][row] * pull[j][column] - bend[j][column] * cross * pull[i][row]) / determinant
        after = a * (2.0 * along[i][row] + a * square[i][row]) + b * (2.0 * along[j][column] + b * square[j][column])
        after += 2.0 * a * b * (mapped[i] @ np.swapaxes(mapped[j], 1, 2))
        after[(determinant <= 1e-9) | ~allowed(sign[i][row] + sign[j][column])] = np.inf
        return np.asarray(after)

    if low < high and rows <= DEFAULT.few:
        first = second = np.tile(np.arange(rows), (len(subsets), 1))
    else:  # all of these subsets have one size
        order = np.argsort(~subsets, axis=1, kind="stable")
        first, second = order[:, : sizes[0]], order[:, sizes[0] :]
    pairs = ranked(first, second)
    pairs[first[:, :, None] == second[:, None, :]] = np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        alone = pull / own
    singles = np.where((own > 1e-9) & allowed(sign), alone * (2.0 * along + alone * square), np.inf)
    every = np.concatenate([singles, pairs.reshape(len(subsets), -1)], axis=1)
    best = np.argpartition(every, min(DEFAULT.tried, every.shape[1] - 1), axis=1)[:, : DEFAULT.tried]
    swapped = np.repeat(subsets[:, None, :], best.shape[1], axis=1)
    for s, t in zip(*np.nonzero(np.isfinite(np.take_along_axis(every, best, axis=1))), strict=True):
        place = best[s, t]
        if place < rows:
            swapped[s, t, place] ^= True
        else:
            i, j = divmod(place - rows, second.shape[1])
            swapped[s, t, [first[s, i], second[s, j]]] ^= True
    return swapped

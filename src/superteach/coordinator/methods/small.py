"""Pools of few rows, which can be looked at in one place: every subset, or exchanges judged by refitted models.

For one owner or one process: teachers show their rows (`queries.Show`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from superteach.mathematics.learner import Learner
from superteach.mathematics.problem import Quadratic, ridge_penalty
from superteach.types import Array, Mask

EVERY = 20
"""Rows up to which every subset is tried: 2²⁰ of them take two to ten seconds."""
SMALL = 1_000
"""Rows of a pool up to which exchanges are judged by refitted models. On 800 rows in raw units that takes risks to between a
half and all of what rounding leaves, at the same distance in predictions and in the same time."""
TRIED = 12
"""Exchanges that are refitted in each step, the most promising ones by the linearised model."""
STEPS = 60
"""Exchanges in one search, at most; it ends before where none lowers the score."""
_BATCH = 1 << 12
"""Lessons fitted at once, which bounds the memory of `every_subset`."""


@dataclass(frozen=True, eq=False)
class SmallPool:
    """All rows on the learner's columns, their targets, and what the learner should end up with."""

    design: Array
    target: Array
    learner: Learner
    goal: Array
    measure: Array
    """How coefficients on these columns become raw ones, in which risk is measured."""

    def penalty(self, size: int) -> Quadratic:
        """Return (Λ/2)‖θ‖² of a lesson of `size` rows."""
        return ridge_penalty(self.learner.penalty(size), len(self.goal), self.learner.free_intercept)

    def refuses(self, masks: Mask) -> Mask:
        """Mark lessons that the learner does not accept."""
        sizes, positive = masks.sum(axis=1), masks @ (self.target > 0.0)
        pairs, which = np.unique(np.stack([sizes, positive]), axis=1, return_inverse=True)
        refused = [self.learner.refuses(int(n), int(p)) is not None for n, p in pairs.T]
        return np.asarray(np.array(refused, dtype=bool)[which])

    def risks(self, masks: Mask) -> tuple[Array, Array]:
        """Find risk and model of every lesson, by Newton on all of them at once; infinite where there is none."""
        count, width = len(masks), len(self.goal)
        sizes = masks.sum(axis=1)
        diagonal = np.stack([self.penalty(int(size)).diagonal for size in sizes])
        models = np.tile(self.goal, (count, 1))
        weights = masks.astype(np.float64)
        open_ = np.ones(count, dtype=bool)
        value = self._values(models, weights, diagonal)
        for _ in range(60):
            some = np.flatnonzero(open_)
            if not len(some):
                break
            terms = self.learner.loss.terms(models[some] @ self.design.T, self.target)
            gradient = (weights[some] * terms.slope) @ self.design + diagonal[some] * models[some]
            bent = weights[some] * terms.curvature
            hessian = np.einsum("sj,jk,jl->skl", bent, self.design, self.design, optimize=True)
            hessian[:, np.arange(width), np.arange(width)] += (
                diagonal[some] + 1e-12 * np.einsum("skk->s", hessian)[:, None] / width
            )
            step = -np.linalg.solve(hessian, gradient[..., None])[..., 0]
            length = np.ones(len(some))
            slope = np.einsum("sk,sk->s", gradient, step)
            for _ in range(30):
                after = self._values(models[some] + length[:, None] * step, weights[some], diagonal[some])
                bad = ~(after <= value[some] + 1e-4 * length * slope + 1e-12 * np.abs(value[some]))
                if not bad.any():
                    break
                length[bad] *= 0.5
            models[some] += length[:, None] * step
            value[some] = after
            small = np.abs(step).max(axis=1) <= 1e-11 * (1.0 + np.abs(models[some]).max(axis=1))
            open_[some[small]] = False
        away = np.linalg.norm((models - self.goal) @ self.measure.T, axis=1)
        away[~np.isfinite(away) | self.refuses(masks)] = np.inf
        return away, models

    def scores(self, masks: Mask) -> tuple[Array, Array]:
        """Score lessons by risk times distance in predictions: no unit gains at the cost of the other. Return models too."""
        risks, models = self.risks(masks)
        return risks * np.linalg.norm((models - self.goal) @ self._spread.T, axis=1), models

    def lens(self, model: Array) -> Array:
        """Weigh coefficients such that risk and distance in predictions of `model` count alike."""
        parts = self.measure, self._spread
        return np.vstack([part / (float(np.linalg.norm(part @ (model - self.goal))) or 1.0) for part in parts])

    @cached_property
    def _spread(self) -> Array:
        """R such that ‖Rθ‖ is the root mean square of x'θ over the pool."""
        return np.asarray(np.linalg.qr(self.design / np.sqrt(len(self.design)), mode="r"))

    def _values(self, models: Array, weights: Array, diagonal: Array) -> Array:
        losses = self.learner.loss.value(models @ self.design.T, self.target)
        return np.asarray((weights * losses).sum(axis=1) + 0.5 * (diagonal * models**2).sum(axis=1))


def every_subset(pool: SmallPool, low: int, high: int) -> Mask:
    """Find the lesson of `low` to `high` rows with the lowest risk there is.

    The gradient at the goal is at most L‖θ_S − θ*‖ long, L = c Σ_S‖x_j‖² + Λ: lessons that cannot win are not fitted.
    """
    rows = len(pool.target)
    numbers = np.arange(1, 1 << rows)
    sizes = np.bitwise_count(numbers)
    numbers = numbers[(sizes >= low) & (sizes <= high)]
    least = np.concatenate([_least_risks(pool, _masks(part, rows)) for part in _parts(numbers)])
    order = np.argsort(least, kind="stable")
    best = np.inf
    chosen: Mask = _masks(numbers[:1], rows)[0]
    for part in _parts(order):
        part = part[least[part] < best]
        if not len(part):
            break
        masks = _masks(numbers[part], rows)
        risks, _ = pool.risks(masks)
        nearest = int(risks.argmin())
        if risks[nearest] < best:
            best, chosen = float(risks[nearest]), masks[nearest]
    return chosen


def _parts(numbers: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    return [numbers[first : first + _BATCH] for first in range(0, len(numbers), _BATCH)]


def _masks(numbers: npt.NDArray[np.int64], rows: int) -> Mask:
    """Make subsets from numbers: bit j says whether row j is in it."""
    return np.asarray((numbers[:, None] >> np.arange(rows)) & 1, dtype=bool)


def _least_risks(pool: SmallPool, masks: Mask) -> Array:
    """Bound the risk of each lesson from below; infinite where the learner refuses it."""
    pulls = -pool.learner.loss.gradient(pool.design @ pool.goal, pool.target)[:, None] * pool.design
    sizes = np.arange(len(pool.target) + 1)
    penalties = [pool.penalty(int(size)) for size in sizes]
    wanted = np.stack([penalty.gradient(pool.goal) for penalty in penalties])
    stiff = np.array([penalty.diagonal.max() for penalty in penalties])
    size = masks.sum(axis=1)
    steepest = pool.learner.loss.most_curvature * (masks @ np.square(pool.design).sum(axis=1)) + stiff[size]
    shortest = float(np.linalg.svd(pool.measure, compute_uv=False)[-1])
    least = shortest * np.linalg.norm(masks @ pulls - wanted[size], axis=1) / steepest
    return np.where(pool.refuses(masks), np.inf, least)


def exchange(pool: SmallPool, chosen: Mask, low: int, high: int) -> Mask:
    """Exchange, add and drop rows while that lowers risk times distance in predictions."""
    score, models = (found[0] for found in pool.scores(chosen[None]))
    if not np.isfinite(score):
        chosen = _accepted(pool, chosen)
        score, models = (found[0] for found in pool.scores(chosen[None]))
    for _ in range(STEPS):
        masks = _promising(pool, chosen, models if np.isfinite(score) else pool.goal, low, high)
        if not len(masks):
            break
        scores, found = pool.scores(masks)
        best = int(scores.argmin())
        if not scores[best] < score * (1.0 - 1e-9):
            break
        chosen, score, models = masks[best], scores[best], found[best]
    return chosen


def _accepted(pool: SmallPool, chosen: Mask) -> Mask:
    """Exchange the last row of a lesson that lacks a class for a row of that class."""
    chosen = chosen.copy()
    positive = pool.target > 0.0
    missing = ~positive if positive[chosen].all() else positive
    if missing.any() and chosen.any():
        chosen[np.flatnonzero(chosen)[-1]] = False
        chosen[np.flatnonzero(missing & ~chosen)[0]] = True
    return chosen


def _promising(pool: SmallPool, chosen: Mask, model: Array, low: int, high: int) -> Mask:
    """List lessons one exchange away that are nearest to the goal by the linearised model."""
    terms = pool.learner.loss.terms(pool.design @ model, pool.target)
    rows = pool.design[chosen]
    hessian = (rows.T * terms.curvature[chosen]) @ rows + np.diag(pool.penalty(int(chosen.sum())).diagonal)
    lens = pool.lens(model)
    moves = lens @ np.linalg.pinv(hessian, hermitian=True) @ (-terms.slope[:, None] * pool.design).T
    left = lens @ (model - pool.goal)
    into, out = np.flatnonzero(~chosen), np.flatnonzero(chosen)
    enter, leave = moves[:, into], -moves[:, out]
    size = len(out)
    found: list[tuple[float, tuple[int, ...]]] = []

    def keep(after: Array, flips: list[tuple[int, ...]]) -> None:
        found.extend((float(after[place]), flips[place]) for place in np.argsort(after)[:TRIED])

    if len(into) and len(out):
        square = np.square(enter).sum(axis=0) + 2.0 * left @ enter
        after = square[:, None] + np.square(leave).sum(axis=0) + 2.0 * left @ leave + 2.0 * enter.T @ leave
        nearest = np.argsort(after, axis=None)[:TRIED]
        pairs = [(int(into[place // size]), int(out[place % size])) for place in nearest]
        keep(after.ravel()[nearest], list(pairs))
    if size < high and len(into):
        keep(np.square(left[:, None] + enter).sum(axis=0) - left @ left, [(int(j),) for j in into])
    if size > low:
        keep(np.square(left[:, None] + leave).sum(axis=0) - left @ left, [(int(j),) for j in out])
    found.sort(key=lambda pair: pair[0])
    masks = np.tile(chosen, (min(len(found), TRIED), 1))
    for mask, (_, flips) in zip(masks, found, strict=False):
        mask[list(flips)] ^= True
    return masks

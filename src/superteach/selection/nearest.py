"""The nearest lesson to a goal out of reach: probabilities of rows, chosen by the true distance of the model they teach.

The learner θ(b) on rows weighted by 0 ≤ b ≤ 1, Σb = n, moves by H⁻¹ Σ_j g_j Δb_j, g_j = −ℓ'_j x_j, to first order. So with
the measure A and w_j = A H⁻¹ g_j every step minimises ½‖A(θ − θ*) + Σ_j w_j Δb_j‖² + ‖Δb‖²/2τ (Levenberg and Marquardt's
method). Its dual has one unknown for each line of A, and Newton's method needs some products of rows by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from superteach.losses.scalar import Loss
from superteach.types import Array


@dataclass(frozen=True)
class NearestOptions:
    """Numbers that decide how hard the nearest lesson is sought."""

    steps: int = 100
    """Steps of a descent, at most; 15 to 40 are usual."""
    little: float = 1e-3
    """Stop where five steps lower the squared distance by less than this part of it."""
    work: float = 5e10
    """Multiplications that a descent may take, and a search by exchanges: about five seconds each on one core."""
    tried: int = 12
    """Exchanges that are refitted in each step, those that promise most."""
    pairs: int = 1 << 18
    """Exchanges that are ranked in each step of one search, at most."""
    starts: int = 128
    """Subsets that a search of a small pool starts from, at most: as many as `work` allows."""
    freedom: float = 1.5
    """Σ b(1 − b) for each number of the measure that probabilities should keep for rounding. Superconduct, 200 rows of 82
    columns: relaxed .40, rounded .54 with it, .32 and 1.2 at the end of the descent."""


DEFAULT = NearestOptions()
STEPS, HALVINGS = 60, 30
"""Newton steps of a fit, and how often each is halved, at most: three to eight and none are usual."""
FLAT = 1e-60
"""Curvature of a coefficient that is taken for none: its inverse's square would overflow."""
ALMOST = 1e-6
"""Distance, as part of the goal's own, from which on a goal is met."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows in memory with their targets, the learner, the goal θ*, and the measure A: ‖A(θ − θ*)‖ is how far a model is."""

    design: Array
    target: Array
    loss: Loss
    penalty: Callable[[int], Array]
    """Diagonal of the penalty's curvature for a lesson of so many rows."""
    goal: Array
    measure: Array
    refuses: Callable[[int, int], object] = lambda rows, positive: None
    """Why the learner refuses so many rows, of which so many have a target above 0; None: it does not."""
    late: Callable[[], bool] = lambda: False
    """Whether time is up."""


def fit(
    design: Array, target: Array, loss: Loss, weights: Array, penalty: Array, start: Array, exact: float = 1e-11
) -> Array:
    """Fit the learner on several weighted sets of rows at once (sets × rows × columns), by Newton's method.

    A curvature is used again while it serves. Models are exact to so many digits of their largest coefficient.
    """
    models, some = start.copy(), np.arange(len(start))
    inverse, stale = np.empty((len(start), start.shape[1], start.shape[1])), np.ones(len(start), dtype=bool)

    def look(at: Array) -> tuple[Array, Array, Array]:
        """Objectives, gradients and the weighted curvatures of rows."""
        value, slope, curvature = loss.of_rows(some).terms((design[some] @ at[..., None])[..., 0], target[some])
        inside, stiff = weights[some], penalty[some]
        objective = np.einsum("sj,sj->s", inside, value) + 0.5 * (stiff * at**2).sum(axis=1)
        return objective, ((inside * slope)[:, None] @ design[some])[:, 0] + stiff * at, inside * curvature

    with np.errstate(over="ignore", invalid="ignore"):
        value, gradient, curvature = look(models)
        # A start far out may lie where losses do not bend, and Newton's steps lead nowhere.
        far = ~(value <= look(0.0 * models)[0])
        if far.any():
            models[far] = 0.0
            value, gradient, curvature = look(models)
        for _ in range(STEPS):
            if stale.any():
                inverse[some[stale]] = inverses(design[some[stale]], curvature[stale], penalty[some[stale]])
            step = -(inverse[some] @ gradient[..., None])[..., 0]
            slope, before, length = np.einsum("sk,sk->s", gradient, step), models[some], np.ones(len(some))
            for _ in range(HALVINGS):
                models[some] = before + length[:, None] * step
                after, gradient, curvature = look(models[some])
                bad = ~(after <= value + 1e-4 * length * slope + 1e-12 * np.abs(value))
                if not bad.any():
                    break
                length[bad] *= 0.5
            stale = np.einsum("sk,skl,sl->s", gradient, inverse[some], gradient) > -0.01 * slope
            going = np.abs(models[some] - before).max(axis=1) > exact * (1.0 + np.abs(before).max(axis=1))
            some, stale, value = some[going], stale[going], after[going]
            gradient, curvature = gradient[going], curvature[going]
            if not len(some):
                break
    return models


def inverses(design: Array, weights: Array, penalty: Array) -> Array:
    """(Σ_j w_j x_j x_j' + D)⁻¹ of several sets of rows, whatever the units of columns."""
    rows = design * np.sqrt(weights)[..., None]
    found = np.swapaxes(rows, 1, 2) @ rows
    every = np.arange(found.shape[1])
    found[:, every, every] += penalty
    diagonal = found[:, every, every]
    scale = 1.0 / np.sqrt(np.where(diagonal > FLAT, diagonal, 1.0))
    scale = scale[:, :, None] * scale[:, None]
    return np.asarray(np.linalg.inv(found * scale + 1e-12 * np.eye(len(every))) * scale)


def project(point: Array, total: float) -> Array:
    """The nearest point with entries between 0 and 1 that add up to a total: all are shifted alike, then clipped."""
    low, high = float(point.min()) - 1.0, float(point.max())
    shift = 0.5 * (low + high)
    for _ in range(100):
        moved = point - shift
        excess = float(np.clip(moved, 0.0, 1.0).sum()) - total
        if abs(excess) <= 1e-12 * total:
            break
        low, high = (shift, high) if excess > 0.0 else (low, shift)
        free = int(np.count_nonzero((moved > 0.0) & (moved < 1.0)))
        newton = shift + excess / free if free else np.inf
        shift = newton if low < newton < high else 0.5 * (low + high)
    return np.clip(point - shift, 0.0, 1.0)


class Linear(NamedTuple):
    """What rows weighted by probabilities teach: the model, what it lacks, and how that changes with each probability."""

    probabilities: Array
    model: Array
    lacks: Array
    """A(θ − θ*)."""
    moves: Array
    """w_j, a line for each row."""

    @property
    def distance(self) -> float:
        """‖A(θ − θ*)‖."""
        return float(np.linalg.norm(self.lacks))


def linearised(pool: Pool, probabilities: Array, start: Array) -> Linear:
    """Fit the learner on rows weighted by probabilities, beginning at a model; the derivative of what it lacks."""
    model = _taught(pool, probabilities, start)
    penalty = pool.penalty(round(float(probabilities.sum())))
    _, slope, curvature = pool.loss.terms(pool.design @ model, pool.target)
    inverse = inverses(pool.design[None], (probabilities * curvature)[None], penalty[None])[0]
    moves = -slope[:, None] * (pool.design @ (inverse @ pool.measure.T))
    return Linear(probabilities, model, pool.measure @ (model - pool.goal), moves)


def _taught(pool: Pool, probabilities: Array, start: Array) -> Array:
    """The learner's model on rows weighted by probabilities."""
    penalty, loss = pool.penalty(round(float(probabilities.sum())))[None], pool.loss.of_rows(None)
    found: Array = fit(pool.design[None], pool.target[None], loss, probabilities[None], penalty, start[None], 1e-8)[0]
    return found


class Descent(NamedTuple):
    """Where a descent ended, and the last probabilities on the way that leave rounding its freedom."""

    nearest: Linear
    free: Linear


def nearest(pool: Pool, size: int, options: NearestOptions = DEFAULT) -> Descent:
    """The nearer of two descents with probabilities of `size` rows in all: there may be several valleys.

    One begins at even probabilities, the other at the half of the rows that suit the goal best.
    """
    misfit = np.abs(pool.loss.gradient(pool.design @ pool.goal, pool.target))
    suited = project(2.0 * size / len(misfit) * (misfit <= np.median(misfit)), size)
    half = replace(options, work=0.5 * options.work)
    found = [descend(pool, start, half) for start in (np.full(len(misfit), size / len(misfit)), suited)]
    return min(found, key=lambda one: one.nearest.distance)


def descend(pool: Pool, start: Array, options: NearestOptions = DEFAULT) -> Descent:
    """Lower the distance of the model that probabilities teach, from `start` on: steps that are no good are cut short."""
    here = free = linearised(pool, start, pool.goal)
    dual, square, work, refused = here.lacks, [here.distance**2], 0.0, 0
    enough = float((ALMOST * np.linalg.norm(pool.measure @ pool.goal)) ** 2)
    longest = max(
        float(np.einsum("ij,ij->i", here.moves, here.moves).max()), 1e-100
    )  # where losses are flat none moves
    trust = 1.0 / longest
    while len(square) <= options.steps and square[-1] > enough and refused < 10:
        after, dual, products = _proximal(here, dual, trust)
        work += pool.design.size * (4.0 * len(pool.goal) + 2.0 * products)
        left = here.lacks + (after - here.probabilities) @ here.moves
        promised = square[-1] - float(left @ left)
        lacks = pool.measure @ (_taught(pool, after, here.model) - pool.goal)
        gain = (square[-1] - float(lacks @ lacks)) / promised if promised > 0.0 else 0.0
        if gain > 0.1:
            here, refused = linearised(pool, after, here.model), 0
            square.append(here.distance**2)
            trust = min(trust * (4.0 if gain > 0.7 else 0.5 if gain < 0.3 else 1.0), 1e12 / longest)
            if float(after @ (1.0 - after)) > options.freedom * (len(lacks) + 1):
                free = here
        else:
            trust, refused = trust / 5.0, refused + 1
        slow = len(square) > 5 and square[-6] - square[-1] < options.little * square[-1]
        if slow or work > options.work or pool.late():
            break
    return Descent(here, free)


def _proximal(here: Linear, dual: Array, trust: float) -> tuple[Array, Array, int]:
    """Probabilities that minimise ½‖lacks + Σ w_j Δb_j‖² + ‖Δb‖²/2τ, about: Newton's method on the dual, which is smooth."""
    total = float(here.probabilities.sum())

    def look(dual: Array) -> tuple[Array, Array, float]:
        """Probabilities at a dual point, what they leave, and the dual's value."""
        found = project(here.probabilities - trust * (here.moves @ dual), total)
        change = found - here.probabilities
        left = here.lacks + change @ here.moves
        return found, left, float(0.5 * dual @ dual - dual @ left - change @ change / (2.0 * trust))

    found, left, value = look(dual)
    products, looks = 1, 0
    while looks < 2 * STEPS and np.linalg.norm(gradient := dual - left) > 1e-2 * np.linalg.norm(left):
        free = here.moves[(found > 0.0) & (found < 1.0)]
        free = free - free.mean(axis=0) if len(free) else free
        step = np.linalg.solve(np.eye(len(dual)) + trust * (free.T @ free), gradient)
        products += len(dual) * len(free) // len(found)
        length = 1.0
        for _ in range(HALVINGS):
            looks, products = looks + 1, products + 1
            tried = look(dual - length * step)
            if tried[2] <= value - 1e-4 * length * float(step @ gradient):
                break
            length *= 0.5
        dual = dual - length * step
        found, left, value = tried
    return found, dual, products

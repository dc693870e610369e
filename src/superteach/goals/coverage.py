"""How much of a set of models is proved to be out of reach, from a direction that proves it for one of them.

At a model θ no n rows teach θ if a direction u has Λu'θ + u₀n > Σ_j max(0, u'(g_j(θ), 1)). Over a region the right side lies
below a function that is linear in θ (`selection.majorant`), and the least of the difference over
set and region is a small convex programme. Any multipliers bound it from below, so what is said here needs no solver's word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, nnls

from superteach.coordinator.problem import FederatedProblem
from superteach.coordinator.proofs import ball_of, envelopes_of
from superteach.optim.problem import ridge_penalty
from superteach.protocol.queries import AskMoments, Moments
from superteach.types import Array

HALVINGS = 12
"""Halvings of a radius on a logarithmic scale over 8 decades, to 1 % of it."""


class Region(NamedTuple):
    """Models of the set within a distance of a centre, in predictions: G θ ≥ h and ‖L(θ − centre)‖ ≤ radius."""

    centre: Array
    rows: Array
    least: Array
    spread: Array
    """L: ‖Lθ‖ is the root mean square of predictions."""


def proved(
    problem: FederatedProblem, direction: Array, size: int, region: Region, radius: float, beyond: float = 0.0
) -> bool:
    """Tell whether no `size` rows teach any model of the region, nor any with predictions within `beyond` of one."""
    inverse: Array = np.asarray(np.linalg.inv(region.spread), dtype=np.float64)
    ball = ball_of(problem, region.centre, size, inverse.T)
    assert ball is not None
    (total,) = envelopes_of(problem, ball)(direction, np.array([radius + beyond]))
    stiff = ball.stiffness * direction[:-1]
    wanted = float(stiff @ region.centre + direction[-1] * size)
    slope = inverse.T @ (stiff - total.tilt)
    lowest = _least(slope, region.rows @ inverse, region.least - region.rows @ region.centre, radius)
    margin = wanted - total.height + lowest - beyond * float(np.linalg.norm(slope))
    return bool(margin > 1e-9 * (abs(wanted) + abs(total.height) + abs(lowest)))


def _least(slope: Array, rows: Array, lack: Array, radius: float) -> float:
    """Bound slope'z from below over rows z ≥ lack and ‖z‖ ≤ radius: μ'lack − radius‖slope − rows'μ‖ for some μ ≥ 0."""

    def bound(prices: Array) -> float:
        return float(prices @ lack - radius * np.linalg.norm(slope - rows.T @ prices))

    if not len(lack):
        return bound(np.zeros(0))
    scale = max(float(np.abs(lack).max()), float(np.abs(rows).max()), 1e-300)
    start, _ = nnls(np.vstack([rows.T, -np.maximum(-lack, 0.0) / scale]), np.append(slope, 0.0))
    found = minimize(lambda prices: -bound(prices), start, bounds=[(0.0, None)] * len(start), method="L-BFGS-B")
    return max(bound(np.zeros(len(start))), bound(start), bound(np.maximum(found.x, 0.0)))


def spread_of(problem: FederatedProblem) -> Array:
    """L for models on scaled columns."""
    squares = problem.federation.curvature("square", "all", np.zeros(problem.width))
    values, axes = np.linalg.eigh(squares / problem.rows)
    return np.asarray(np.sqrt(np.maximum(values, 1e-12 * values[-1]))[:, None] * axes.T)


def beyond_reach(problem: FederatedProblem, size: int, rows: Array, least: Array) -> float:
    """Say how far all models with G θ ≥ h lie beyond any that `size` rows teach, by a model's length alone; 0: unknown.

    A lesson's model has no higher objective than 0 has, so (Λ/2)‖θ_S‖² ≤ Σ_S ℓ_j(0). One bound g'θ ≥ h with h > 0
    keeps the whole set at least h/‖g‖ away from 0.
    """
    learner, width = problem.learner, rows.shape[1]
    stiff = ridge_penalty(learner.penalty(size), width, learner.free_intercept).diagonal
    free = (np.abs(rows[:, stiff == 0.0]) > 0.0).any(axis=1)
    some = (least > 0.0) & ~free
    if not some.any() or stiff.max() <= 0.0:
        return 0.0
    zero: Moments = problem.federation.sum(AskMoments("loss", "all", np.zeros(width), 1))
    total = zero.value * (size / problem.rows if learner.loss.classifies and not learner.weighted else 1.0)
    longest = np.sqrt(2.0 * total / stiff.max())
    return max(0.0, float((least[some] / np.linalg.norm(rows[some], axis=1)).max() - longest * (1.0 + 1e-9)))


def last(holds: Callable[[float], bool], most: float) -> float:
    """Find the largest number up to `most` that `holds`, where all smaller ones hold too; 0 where none is found."""
    if holds(most):
        return most
    low, high = np.log(most) - 8.0 * np.log(10.0), np.log(most)
    if not holds(float(np.exp(low))):
        return 0.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(float(np.exp(middle))) else (low, middle)
    return float(np.exp(low))

"""The two objectives, each written once: scaling and signs are decided here and nowhere else.

Everything the coordinator minimises has one form, Σ_j f_j(x_j'p) + ½ p'diag(a)p − b'p: a sum over all
teachers' rows plus a quadratic the coordinator knows by itself.

The paper's teaching objective (its equation 4; errata in docs/explanation/paper.md), with v = (1/Λ) Σ_j α_j x_j:

    F(α) = Σ_j [ ℓ*_j(−α_j) + c_j |α_j| ] + (Λ/2)‖v‖² + λ_θ ‖v − θ*‖²

The rows meet only in v, so its dual has as many unknowns as the model:

    Φ(p) = Σ_j h*_j(x_j'p) + (Λ²/(2(Λ+2λ_θ)))‖p‖² − (2λ_θΛ/(Λ+2λ_θ)) θ*'p,   α_j = α_j(x_j'p)
    min F = −min Φ + (λ_θΛ/(Λ+2λ_θ)) ‖θ*‖²

An unpenalised intercept has no quadratic and no linear term in Φ; it enforces Σ_j α_j = 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from superteach.types import Array

MOST = 1e100
"""Numbers beyond this overflow when they are squared and summed; the door refuses them."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """x → ((x − centre)/scale, constant): how raw columns become the learner's, and models raw again.

    A constant of 0 means no intercept. scikit-learn's LinearSVC has a penalised constant column of
    `intercept_scaling`; elsewhere the constant is 1.
    """

    constant: float = 0.0
    centre: Array | None = None
    scale: Array | None = None
    outputs: int = 1
    """Models that lie one after the other in a vector of coefficients."""

    def inside(self, raw: Array) -> Array:
        """Turn coefficients in raw units (intercept last) into the same model on scaled columns."""
        if self.outputs > 1:
            return np.concatenate([replace(self, outputs=1).inside(one) for one in raw.reshape(self.outputs, -1)])
        slope, rest = (raw[:-1], raw[-1:]) if self.constant else (raw, raw[:0])
        if self.centre is not None:
            rest = rest + float(self.centre @ slope)
        inner = slope if self.scale is None else slope * self.scale
        return np.concatenate([inner, rest / self.constant if self.constant else rest])

    def raw(self, inside: Array) -> Array:
        """Turn coefficients on scaled columns into the same model in raw units, intercept last."""
        if self.outputs > 1:
            return np.concatenate([replace(self, outputs=1).raw(one) for one in inside.reshape(self.outputs, -1)])
        slope, rest = (inside[:-1], inside[-1:] * self.constant) if self.constant else (inside, inside[:0])
        outer = slope if self.scale is None else slope / self.scale
        if self.centre is not None:
            rest = rest - float(self.centre @ outer)
        return np.concatenate([outer, rest])

    def to_raw(self, width: int) -> Array:
        """Return the matrix by which differences of coefficients on scaled columns become differences in raw units."""
        zero = self.raw(np.zeros(width))
        return np.column_stack([self.raw(column) - zero for column in np.eye(width)])


@dataclass(frozen=True, eq=False)
class Quadratic:
    """½ p'diag(a)p − b'p."""

    diagonal: Array
    linear: Array

    def value(self, point: Array) -> float:
        """Value at a point."""
        return float(0.5 * (self.diagonal * point) @ point - self.linear @ point)

    def gradient(self, point: Array) -> Array:
        """Gradient at a point."""
        return self.diagonal * point - self.linear

    def shifted(self, linear: Array) -> Quadratic:
        """Add linear'p."""
        return replace(self, linear=self.linear - linear)


def ridge_penalty(ridge: float, width: int, free_intercept: bool, outputs: int = 1) -> Quadratic:
    """(Λ/2)‖θ‖², the intercepts left out when they are free."""
    return Quadratic(_penalised(ridge, width, free_intercept, outputs), np.zeros(width))


def _penalised(weight: float, width: int, free_intercept: bool, outputs: int = 1) -> Array:
    diagonal = np.full(width, weight)
    if free_intercept:
        diagonal[width // outputs - 1 :: width // outputs] = 0.0
    return diagonal


class Certified(NamedTuple):
    """The objective at an α, and how far at most it lies above the optimum."""

    objective: float
    gap: float


@dataclass(frozen=True, eq=False)
class DualProblem:
    """The paper's objective for one ridge Λ, goal θ* and goal weight λ_θ (sparsity sits in the rows' c_j)."""

    ridge: float
    goal: Array
    goal_weight: float
    free_intercept: bool = False

    @property
    def smooth(self) -> Quadratic:
        """The part of Φ that the coordinator knows by itself."""
        # Λ² alone would overflow where Λ is huge.
        curvature = self.ridge * (self.ridge / (self.ridge + 2.0 * self.goal_weight))
        pull = 2.0 * self.goal_weight * self.ridge / (self.ridge + 2.0 * self.goal_weight)
        diagonal = _penalised(curvature, len(self.goal), self.free_intercept)
        return Quadratic(diagonal, _penalised(pull, len(self.goal), self.free_intercept) * self.goal)

    def point_of(self, model: Array) -> Array:
        """p = −(Λv + 2λ_θ(v − θ*))/Λ, the point that belongs to a model v."""
        point = -(self.ridge * model + 2.0 * self.goal_weight * (model - self.goal)) / self.ridge
        return self._masked(point)

    def model_of(self, point: Array) -> Array:
        """v = (2λ_θθ* − Λp)/(Λ + 2λ_θ), the model that belongs to a point p."""
        stiffness = self.ridge + 2.0 * self.goal_weight
        return self._masked((2.0 * self.goal_weight * self.goal - self.ridge * point) / stiffness)

    def pull(self, model: Array) -> float:
        """(Λ/2)‖v‖² + λ_θ‖v − θ*‖² over the penalised coordinates."""
        kept, away = self._masked(model), self._masked(model - self.goal)
        return float(0.5 * self.ridge * kept @ kept + self.goal_weight * away @ away)

    def certify(self, point: Array, conjugate: float, aggregate: Array) -> Certified:
        """F and its gap at α(p), from Σh*_j and g = Σ α_j x_j alone.

        Fenchel's equality gives Σ h_j(α_j) = p'g − Σ h*_j, and what is left of the gap is that of the
        quadratic: ((Λ+2λ_θ)/2) ‖g/Λ − v(p)‖², which suffers no cancellation. With a free intercept α(p)
        misses Σ α_j = 0 by g_0; then the gap holds against every p_0 with |p_0| ≤ B = 10(1 + |p_0|),
        at the price B|g_0|.
        """
        model = aggregate / self.ridge
        miss = self._masked(model - self.model_of(point))
        gap = 0.5 * (self.ridge + 2.0 * self.goal_weight) * float(miss @ miss)
        fenchel = float(point @ aggregate) - conjugate
        objective = fenchel + self.pull(model)
        if self.free_intercept:
            reach = 10.0 * (1.0 + abs(float(point[-1]))) * abs(float(aggregate[-1]))
            return Certified(objective + reach, gap + reach + float(point[-1] * aggregate[-1]))
        return Certified(objective, gap)

    def certify_block(self, conjugate: float, separable: float, model: Array, point: Array | None = None) -> Certified:
        """F and its gap at any α with v = model, from Σh_j(α_j) and Σh*_j at a point (default: point_of(v))."""
        objective = separable + self.pull(model)
        point = self.point_of(model) if point is None else point
        bound = -(conjugate + self.smooth.value(point)) + self.constant
        return Certified(objective, objective - bound)

    def share(self, model: Array, change: Array, rise: float) -> float:
        """Say how much of an offered α to take: s in [0, 1] with the least s·rise + pull(v + s·change).

        By convexity Σh rises by s·rise at most, so F falls by at least as much as this bound of it does.
        """
        slope = rise - self.ridge * float(self.point_of(model) @ change)
        curvature = (self.ridge + 2.0 * self.goal_weight) * float(change @ change)
        if not slope < 0.0:
            return 0.0
        return 1.0 if -slope >= curvature else -slope / curvature

    @property
    def constant(self) -> float:
        """(λ_θΛ/(Λ+2λ_θ))‖θ*‖², which closes the gap between −Φ and F."""
        goal = self._masked(self.goal)
        stiffness = self.ridge + 2.0 * self.goal_weight
        return self.goal_weight * self.ridge / stiffness * float(goal @ goal)

    def _masked(self, vector: Array) -> Array:
        if not self.free_intercept:
            return vector
        masked = vector.copy()
        masked[-1] = 0.0
        return masked

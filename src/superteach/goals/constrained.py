"""A goal that is a set: coefficients within bounds, equal to each other, or predictions near the ones of a given model.

How much of a set is proved to be out of reach, from a direction that proves it for one of its models: at a model θ no n rows
teach θ if a direction u has Λu'θ + u₀n > Σ_j max(0, u'(g_j(θ), 1)). Over a region the right side lies below a function that
is linear in θ (`selection.majorant`), and the least of the difference over set and region is a small convex programme. Any
multipliers bound it from below, so what is said here needs no solver's word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, nnls

from superteach.coordinator.problem import NEWTON_WIDTH, FederatedProblem
from superteach.coordinator.proofs import ball_of, envelopes_of
from superteach.exceptions import GoalError
from superteach.goals.base import INTERCEPT, Coverage, check_vector, find_column, refuse_other_kind
from superteach.learner import Learner
from superteach.optim.problem import MOST, ridge_penalty
from superteach.protocol.queries import AskMoments, Moments
from superteach.types import Array, Labels, is_number

_HALVINGS = 60
"""Halvings of the logarithm of a price over 24 decades: the distance in predictions is met to 1e-9 of its size."""
_RADII = 12
"""Halvings of a radius on a logarithmic scale over 8 decades, to 1 % of it."""


class _Bounds(NamedTuple):
    """Constraints on coefficients in raw units, G θ ≥ h."""

    rows: Array
    least: Array


@dataclass(frozen=True)
class Within:
    """θ* = the model of a set that is nearest to the model of all rows, min (θ − θ_pool)'H(θ − θ_pool), H its curvature.

    `at_most` and `at_least` bound coefficients by column name or number ("intercept" for the intercept), `equal` lists
    groups of columns with one coefficient, and `near=(model, distance)` bounds the root mean square of x'(θ − model) over
    all rows. All must hold at once, in raw units. Where no lesson of the budget's size teaches θ*, another point of the set
    nearer to what can be taught takes its place (`moved_to`).
    """

    at_most: Mapping[object, float] = field(default_factory=dict)
    at_least: Mapping[object, float] = field(default_factory=dict)
    equal: Sequence[Sequence[object]] = ()
    near: tuple[object, float] | None = None
    _columns: list[object] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for which, side in (("at_most", self.at_most), ("at_least", self.at_least)):
            if not isinstance(side, Mapping):
                raise GoalError(
                    f"{which}={side!r} in goals.Within must be a dict of bounds by column, such as {{'age': 0}}"
                )
            for name, value in side.items():
                if not (is_number(value) and abs(value) <= MOST):
                    raise GoalError(f"goals.Within bounds column {name!r} by {value!r}; a number is needed")
        for name in self.at_most.keys() & self.at_least.keys():
            if self.at_least[name] > self.at_most[name]:
                raise GoalError(
                    f"goals.Within is empty: column {name!r} is bounded by at least {self.at_least[name]:g} and at most "
                    f"{self.at_most[name]:g}; widen one of them"
                )
        for group in self.equal:
            if isinstance(group, str) or not isinstance(group, Sequence) or len(set(group)) < max(2, len(group)):
                raise GoalError(f"equal={group!r} in goals.Within: name two or more columns in each group, each once")
        if self.near is not None:
            if not (isinstance(self.near, tuple) and len(self.near) == 2):
                raise GoalError("near in goals.Within takes a pair: a model and a distance in predictions")
            if not (is_number(self.near[1]) and 0.0 < self.near[1] <= MOST):
                raise GoalError(f"near={self.near[1]!r} in goals.Within: the distance must be a positive number")
        if not (self.at_most or self.at_least or self.equal or self.near):
            raise GoalError("goals.Within holds every model: give at_most, at_least, equal or near")

    @property
    def in_words(self) -> str:
        """What reports call it."""
        parts = [f"{name} at least {value:g}" for name, value in self.at_least.items()]
        parts += [f"{name} at most {value:g}" for name, value in self.at_most.items()]
        parts += [" = ".join(map(str, group)) for group in self.equal]
        parts += [] if self.near is None else [f"predictions at most {self.near[1]:g} from those of a model given"]
        return f"within: {'; '.join(parts)}"

    def check(self, learner: Learner, columns: Sequence[object], classes: Labels | None) -> None:
        """Refuse unknown columns and models too wide for a matrix over pairs of columns."""
        if learner.outputs > 1:
            raise GoalError(
                f"goals.Within is about one output, the learner has {learner.outputs}; give the goal as an array"
            )
        if len(columns) > NEWTON_WIDTH:
            raise GoalError(f"goals.Within takes at most {NEWTON_WIDTH} columns, the rows have {len(columns)}")
        self._columns[:] = [*columns, INTERCEPT] if learner.intercept != "none" else columns
        for name in [*self.at_most, *self.at_least, *(name for group in self.equal for name in group)]:
            self._place(name)
        if self.near is not None:
            refuse_other_kind(self.near[0], learner)
            try:
                check_vector(_numbers(self.near[0]), len(columns), learner)
            except GoalError as error:
                raise GoalError(f"the model of near= in goals.Within does not fit: {error}") from None

    def vector(self, problem: FederatedProblem) -> Array:
        """Return the point of the set nearest to the pool's model, in raw units."""
        return self.moved_to(problem, problem.fit_pool())

    def moved_to(self, problem: FederatedProblem, model: Array) -> Array:
        """Return the point of the set nearest to a model on scaled columns, in raw units, from one or two sums."""
        width = len(model)
        federation, learner = problem.federation, problem.learner
        bent = federation.curvature("loss", "all", problem.fit_pool())
        penalty = ridge_penalty(learner.penalty(problem.rows), width, learner.free_intercept)
        out = problem.scaling.to_raw(width)
        root = _root(_outside(bent + np.diag(penalty.diagonal), out))
        start, bounds = problem.scaling.raw(model), self._bounds(width)
        if self.near is None:
            return _nearest(root, start, bounds, 0.0, root, start)
        squares = federation.curvature("square", "all", np.zeros(width))
        spread = _root(_outside(squares / problem.rows, out))
        reference = np.asarray(_numbers(self.near[0]), dtype=np.float64).ravel()
        return self._inside_ball(root, start, bounds, spread, reference)

    def coverage(self, problem: FederatedProblem, direction: Array, goal: Array, size: int) -> Coverage:
        """Say how far a proof for one point of the set holds in it: for all of it, or within a radius in predictions."""
        width = len(goal)
        if not np.isfinite(problem.learner.loss.most_curvature):  # pulls change without bound
            return Coverage(0.0, 0.0)
        out, bounds, spread = problem.scaling.to_raw(width), self._bounds(width), _spread_of(problem)
        back, lines = np.linalg.inv(out), bounds.rows @ out
        beyond = _beyond_reach(problem, size, lines, bounds.least)
        if beyond > 0.0:
            return Coverage(np.inf, beyond / float(np.linalg.norm(back, 2)))

        def proved(region: _Region, radius: float, beyond: float = 0.0) -> bool:
            return _proved(problem, direction, size, region, radius, beyond)

        if self.near is not None:
            reference = problem.scaling.inside(np.asarray(_numbers(self.near[0]), dtype=np.float64).ravel())
            ball, radius = _Region(reference, lines, bounds.least, spread), self.near[1]
            if proved(ball, radius):
                # How far around the ball nothing can be taught either.
                apart = _last(lambda beyond: proved(ball, radius, beyond), 100.0 * radius)
                return Coverage(np.inf, apart / float(np.linalg.norm(spread @ back, 2)))
        inside = problem.scaling.inside(goal)
        region = _Region(inside, lines, bounds.least, spread)
        most = 100.0 * float(np.linalg.norm(spread @ inside)) or 1.0
        return Coverage(_last(lambda radius: proved(region, radius), most), 0.0)

    def _inside_ball(self, root: Array, start: Array, bounds: _Bounds, spread: Array, reference: Array) -> Array:
        """Find the least price of a distance at which the point is near enough to the reference."""
        assert self.near is not None
        limit = self.near[1]

        def at(price: float) -> tuple[Array, float]:
            point = _nearest(root, start, bounds, price, spread, reference)
            return point, float(np.linalg.norm(spread @ (point - reference)))

        point, far = at(0.0)
        if far <= limit:
            return point
        unit = float(np.linalg.norm(root) ** 2 / np.linalg.norm(spread) ** 2)
        low, high = 1e-12 * unit, 1e12 * unit
        best, far = at(high)
        if far > limit * (1.0 + 1e-9):
            raise GoalError(
                f"goals.Within is empty: bounds on coefficients leave predictions at least {far:.4g} away from "
                f"the model of near=, at most {limit:g} is asked; widen one of them"
            )
        for _ in range(_HALVINGS):
            middle = np.sqrt(low * high)
            point, far = at(middle)
            if far <= limit:
                best, high = point, middle
            else:
                low = middle
        return best

    def holds(self, model: Array, slack: float = 1e-9) -> bool:
        """Tell whether a model in raw units keeps all bounds on coefficients."""
        bounds = self._bounds(len(model))
        reach = np.abs(bounds.rows) @ np.abs(model) + np.abs(bounds.least)
        return bool(np.all(bounds.rows @ model >= bounds.least - slack * (1.0 + reach)))

    def _place(self, name: object) -> int:
        return find_column(name, self._columns, "goals.Within")

    def _bounds(self, width: int) -> _Bounds:
        unit, rows, least = np.eye(width), list[Array](), list[float]()
        for side, sign in ((self.at_most, -1.0), (self.at_least, 1.0)):
            for name, value in side.items():
                rows.append(sign * unit[self._place(name)])
                least.append(sign * float(value))
        for group in self.equal:
            for other in group[1:]:
                apart = unit[self._place(group[0])] - unit[self._place(other)]
                rows += [apart, -apart]
                least += [0.0, 0.0]
        return _Bounds(np.array(rows).reshape(-1, width), np.array(least))


def _nearest(root: Array, start: Array, bounds: _Bounds, price: float, spread: Array, reference: Array) -> Array:
    """Minimise ‖R(θ − start)‖² + price·‖L(θ − reference)‖² over G θ ≥ h: Lawson and Hanson's least distance."""
    both = np.vstack([root, np.sqrt(price) * spread]) if price else root
    wanted = np.concatenate([root @ start, np.sqrt(price) * (spread @ reference)]) if price else root @ start
    scale = 1.0 / np.maximum(np.linalg.norm(both, axis=0), 1e-300)
    solve = np.linalg.pinv(both * scale, rcond=1e-12)
    free = (solve @ wanted) * scale if price else start.copy()
    if not len(bounds.least):
        return free
    # In y = A(θ − free) lengths are plain: min ‖y‖ with (G A⁻¹) y ≥ h − G free.
    inverse = solve * scale[:, None]
    rows, lack = bounds.rows @ inverse, bounds.least - bounds.rows @ free
    lengths = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    rows, lack = rows / lengths[:, None], lack / lengths
    size = max(float(np.abs(lack).max()), 1e-300)
    dual, left = nnls(np.vstack([rows.T, lack / size]), np.append(np.zeros(rows.shape[1]), 1.0))
    if left < 1e-9:
        raise GoalError("goals.Within is empty: its bounds contradict each other; no model keeps all of them")
    residual = np.append(rows.T @ dual, lack @ dual / size - 1.0)
    return np.asarray(free - inverse @ (residual[:-1] / residual[-1]) * size)


def _outside(inside: Array, out: Array) -> Array:
    """Turn a curvature on scaled columns into one in raw units; `out` makes raw differences of scaled ones."""
    back = np.linalg.inv(out)
    return np.asarray(back.T @ inside @ back)


def _root(matrix: Array) -> Array:
    """Return R with R'R = matrix, whatever the units of its columns."""
    scale = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    values, axes = np.linalg.eigh(matrix / np.outer(scale, scale))
    return np.asarray(np.sqrt(np.maximum(values, 1e-15 * values[-1]))[:, None] * axes.T * scale)


def _numbers(model: object) -> object:
    """Read a fitted model as one vector, intercept last; anything else is passed on."""
    if not hasattr(model, "coef_"):
        return model
    slope = np.asarray(model.coef_, dtype=np.float64).ravel()
    return np.append(slope, np.asarray(getattr(model, "intercept_", [])).ravel())


class _Region(NamedTuple):
    """Models of the set within a distance of a centre, in predictions: G θ ≥ h and ‖L(θ − centre)‖ ≤ radius."""

    centre: Array
    rows: Array
    least: Array
    spread: Array
    """L: ‖Lθ‖ is the root mean square of predictions."""


def _proved(
    problem: FederatedProblem, direction: Array, size: int, region: _Region, radius: float, beyond: float = 0.0
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


def _spread_of(problem: FederatedProblem) -> Array:
    """L for models on scaled columns."""
    squares = problem.federation.curvature("square", "all", np.zeros(problem.width))
    values, axes = np.linalg.eigh(squares / problem.rows)
    return np.asarray(np.sqrt(np.maximum(values, 1e-12 * values[-1]))[:, None] * axes.T)


def _beyond_reach(problem: FederatedProblem, size: int, rows: Array, least: Array) -> float:
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


def _last(holds: Callable[[float], bool], most: float) -> float:
    """Find the largest number up to `most` that `holds`, where all smaller ones hold too; 0 where none is found."""
    if holds(most):
        return most
    low, high = np.log(most) - 8.0 * np.log(10.0), np.log(most)
    if not holds(float(np.exp(low))):
        return 0.0
    for _ in range(_RADII):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(float(np.exp(middle))) else (low, middle)
    return float(np.exp(low))

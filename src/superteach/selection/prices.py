"""Prices: d + 1 numbers, agreed on from sums, from which every row knows its fraction in the lesson by itself.

A lesson teaches θ* exactly when Σ_{j∈S} g_j = t with the pulls g_j = −ℓ'(x_j'θ*) x_j and t = Λθ* (0 for a free intercept).
Relaxed to 0 ≤ b_j ≤ 1, with w_j = M g_j in units in which lengths tell what a row does to predictions (M = H^−½, H the
learner's curvature), prices minimise

    Ψ(u) = Σ_j log(1 + exp(z_j + u'(w_j, 1))) − u'(M t, n) + (δ/2)‖v‖²,        b_j = σ(z_j + u'(w_j, 1))

The log-odds z_j spread the lesson over strong and weak rows: rounding needs weak ones to absorb what strong ones leave. The
term in δ, over all of u = (v, v₀) but the price of a row v₀, is a penalty on the residual: Σ b_j w_j − M t = −δv.
Hardened step by step it vanishes where the goal can be
balanced. Where it cannot, u is the direction that proves it, and b the nearest lesson there is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from superteach.optim import LBFGS, Newton
from superteach.optim.function import Ask, Curvatures, with_quadratic
from superteach.optim.lbfgs import Curved
from superteach.optim.problem import Quadratic
from superteach.protocol.queries import AskMoments, AskValues, Balance, Blocks, Draw, Moments, Price
from superteach.protocol.queries.match import OCTAVES, SHORTEST, lowest_octave, strong_octave
from superteach.types import Array

HARDER = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
"""δ by level, in units in which a row's length is about 1/√n: a goal is mostly balanced at the second."""
BALANCED = 0.01
"""Share of a usual row's length that prices may leave: rounding absorbs it at once."""
LEAST = 0.125
"""Rows with a smaller probability are drawn by lot before prices are agreed on, so that at most n/LEAST take part."""
LADDER = 0.5
"""Share of the lesson that is spread over octaves of strength in equal parts; the rest is spread over rows."""
SLOW = 0.02
"""Share of the residual that a level must take away, where the goal is not balanced yet."""
SLOWER = 0.5
"""The same for several outputs and rows drawn by lot: where these balance the goal, levels take away nearly all of it."""
STEPS = 15
"""Newton steps at one level, at most."""
SKETCHED = 32
"""Directions in which the lengths of pulls at several outputs are measured: squares are right within a quarter."""
FEW = 2
"""Levels that wide models, which have no Newton steps, pass with rows drawn by lot; all rows go on from there."""


@dataclass(frozen=True, eq=False)
class Prices:
    """Where the prices ended."""

    levels: tuple[Array, ...]
    """u at every level of softness, in units of (g_j, 1), as teachers are told it."""
    balanced: bool
    aim: Array
    """M t."""
    total: Array
    """Σ b_j M g_j: what the fractional lesson adds up to."""
    idle: int
    """Octave below which rows pull at nothing."""
    idle_mass: float
    """Σ b_j over these rows."""
    longest: float
    """Length of the longest M g_j, within an octave."""
    usual: float
    """Root mean square of the lengths of rows that are likely to be chosen."""
    freedom: float
    """Σ b_j(1 − b_j), where curvature was summed; else infinite."""

    @property
    def point(self) -> Array:
        """u as teachers are told it."""
        return self.levels[-1]


def metric_of(curvature: Array) -> Array:
    """M with M'M = H⁻¹, from H or its diagonal; directions in which nothing bends have none."""
    if not np.isfinite(curvature).all():
        raise np.linalg.LinAlgError("losses overflow")
    if curvature.ndim == 1:
        return np.asarray(1.0 / np.sqrt(curvature))
    scale = 1.0 / np.sqrt(np.maximum(np.diag(curvature), 1e-300))
    values, axes = np.linalg.eigh(curvature * np.outer(scale, scale))
    kept = values > 1e-13 * values[-1]
    roots = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray((axes * roots) @ axes.T * scale)


def contrasts(outputs: int) -> Array:
    """C − 1 orthonormal rows that span all numbers, one for each of C outputs, that add up to 0.

    Pulls of softmax lie there, so that a metric M with M'M = Q'(Q H Q')⁻¹Q over such outputs has no idle equation.
    """
    helmert = np.tril(np.ones((outputs - 1, outputs)))
    helmert[np.arange(outputs - 1), np.arange(1, outputs)] = -np.arange(1, outputs)
    return np.asarray(helmert / np.linalg.norm(helmert, axis=1, keepdims=True))


def sketch(metric: Array) -> Array:
    """A metric of SKETCHED rows, by random signs, in which lengths are the same within a fraction of an octave."""
    if metric.ndim == 1 or len(metric) <= SKETCHED:
        return metric
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (SKETCHED, len(metric)))
    return np.asarray(signs @ metric / np.sqrt(SKETCHED))


def inverse(matrix: Array) -> Array:
    """The inverse of a symmetric matrix, whatever the units of its columns; flat directions are left out."""
    spread = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale = 1.0 / np.where(spread > 0.0, spread, 1.0)
    inverse = np.linalg.pinv(matrix * np.outer(scale, scale), hermitian=True, rcond=1e-14)
    return np.asarray(inverse * np.outer(scale, scale))


def ladder(counts: npt.NDArray[np.int64], size: int, unknowns: int) -> Array:
    """Log-odds by octave of strength for a lesson of `size` rows.

    One part of the lesson is spread evenly over rows. The other goes in equal parts to each of the n/(d + 1) octaves below
    the strongest tenth of the rows (an octave needs about d + 1 rows to absorb what the one above leaves), at most to a
    half of its rows.
    """
    rows, octaves, top = int(counts.sum()), np.arange(OCTAVES), strong_octave(counts)
    grouped = counts.astype(np.float64)
    grouped[top:] = counts[top:].sum()
    steps = max(size / unknowns, 1.0)
    on = (octaves >= max(top - steps, lowest_octave(counts))) & (counts > 0)
    even = min(size / rows, 1.0 - 1e-9)
    odds = np.full(OCTAVES, even)
    if on.any():
        share, members = size / steps, grouped[on]
        weight = counts[on] / members
        for _ in range(60):
            share = min(share * size / float((weight * np.minimum(0.5 * members, share)).sum()), 1e9 * size)
        odds *= 1.0 - LADDER
        odds[on] += LADDER * np.minimum(0.5, share / members)
    return np.asarray(logit(np.clip(odds, 1e-12, 1.0 - 1e-9)))


def agree(
    ask: Ask,
    model: Array,
    target: Array,
    metric: Array,
    size: int,
    seed: int,
    thin: bool | None = True,
    solver: Newton | LBFGS | None = None,
    outputs: int = 1,
    begun: Array | None = None,
    exact: float = BALANCED,
    border: float = 1.0,
) -> Prices:
    """Take pulls at a model and find prices at which `size` rows balance the target, or come nearest to it.

    `metric` is M, or its diagonal where models are too wide for matrices (then without Newton). With `outputs` a solver
    that begins at a curvature is told that of each output by itself. Softness ends where less than `border` of freedom per
    unknown is left: rounding needs some, a proof none. `begun` is where fewer rows have ended after FEW levels. Without
    `thin` all rows take part, else those drawn by lot, and all where these do not balance it (None: only those drawn).
    """
    width = len(metric)
    curved = isinstance(solver, Curved)
    counts = ask(Balance(model, sketch(metric) if curved else metric))
    odds = ladder(counts, size, width + 1)
    idle = lowest_octave(counts)
    present = np.flatnonzero(counts[idle:]) + idle
    longest = float(2.0 ** (present[-1] + 1 + SHORTEST)) if len(present) else 1.0
    lengths = 2.0 ** (2.0 * (np.arange(OCTAVES) + SHORTEST) + 1.0)
    probability = expit(odds)
    likely = (counts * probability)[idle:]
    usual = float(np.sqrt((likely * lengths[idle:]).sum() / max(likely.sum(), 1e-300))) or 1.0  # 1: every row is idle
    unit = 1.0 / (usual * np.sqrt(size))
    few = float((counts * np.minimum(1.0, probability / LEAST)).sum()) < 0.5 * counts.sum()
    drawn = ask(Draw(odds, LEAST if thin is not False and few else 0.0, seed))
    thinned = drawn.rows < counts.sum()
    point = np.zeros(width + 1) if begun is None else begun
    solver = Newton(max_steps=STEPS) if solver is None else solver
    plain = type(solver) is LBFGS
    enough = exact / np.sqrt(size)
    levels: list[Array] = []
    reached, freedom, before, held = False, np.inf, np.inf, Curvatures()
    for softness in HARDER[:FEW] if thinned and plain else HARDER if begun is None else HARDER[FEW:]:
        function = _Relaxation(ask, metric, target, size, unit, softness, outputs, curved and outputs == 1, held)

        def stop(here: Array, sums: Moments, whole: Moments, softness: float = softness) -> str | None:
            left = float(np.linalg.norm(whole.gradient))
            return "level" if left <= max(0.1 * softness * np.linalg.norm(here[:-1]), 0.1 * enough) else None

        solution = solver.minimise(function, point, stop)
        point, sums = solution.point, solution.sums
        if curved and metric.ndim == 2:  # how much freedom is left
            sums = function.moments(point, 2)[0]
        levels.append(function.told(point))
        left = float(np.linalg.norm(sums.gradient - function.wanted))
        freedom = np.inf if sums.curvature is None else float(sums.curvature[-1, -1]) * size
        reached = bool(left <= enough)
        slow = SLOWER if curved and thinned else SLOW
        if reached or freedom < border * (width + 1) or left > (1.0 - slow) * before:
            break
        # A harder level takes plain L-BFGS two to three times as many steps.
        if (plain and 2 * solution.steps > solver.max_steps) or (curved and not solution.converged):
            break
        before = left
    if not reached and thinned and thin:  # rows left out by lot may balance what these cannot
        begun = point if plain else None
        return agree(ask, model, target, metric, size, seed, False, solver, outputs, begun, exact, border)
    mass = float((counts * expit(odds + levels[-1][-1]))[:idle].sum())
    aim, total = function.wanted[:-1] / unit, sums.gradient[:-1] / unit
    return Prices(tuple(levels), reached, aim, total, idle, mass, longest, usual, freedom)


def take(ask: Ask, found: Prices, metric: Array, size: int) -> Prices:
    """Let rows take prices; where these do not add up to `size` rows, the price of a row is put right first."""
    low, high, step = -np.inf, np.inf, 1.0
    point = found.point.copy()
    for _ in range(60):
        missing = size - ask(Price(point))
        if abs(missing) <= 0.25:
            break
        low, high = (point[-1], high) if missing > 0.0 else (low, point[-1])
        step = 2.0 * step
        if np.isfinite(low) and np.isfinite(high):
            point[-1] = 0.5 * (low + high)
        else:
            point[-1] += step if missing > 0.0 else -step
    if point[-1] == found.point[-1]:
        return found
    sums = ask(AskMoments("relax", "drawn", point, 1))
    core = sums.gradient[:-1]
    total = metric * core if metric.ndim == 1 else metric @ core
    return replace(found, levels=(*found.levels[:-1], point), total=total)


@dataclass(frozen=True, eq=False)
class _Relaxation:
    """Ψ in units in which a usual row has length 1/√n and all rows together count √n."""

    ask: Ask
    metric: Array
    target: Array
    size: int
    unit: float
    softness: float
    outputs: int = 1
    rough: bool = False
    held: Curvatures = field(default_factory=Curvatures)
    """The last curvature, which the next level begins with."""
    rows_add: str = "relax"

    @property
    def wanted(self) -> Array:
        """(M t, n)."""
        moved = self.metric * self.target if self.metric.ndim == 1 else self.metric @ self.target
        return np.append(self.unit * moved, np.sqrt(self.size))

    @property
    def smooth(self) -> Quadratic:
        """The part that needs no rows."""
        return Quadratic(np.append(np.full(len(self.metric), self.softness), 0.0), self.wanted)

    def told(self, point: Array) -> Array:
        """A point in units of (g_j, 1)."""
        moved = self.metric * point[:-1] if self.metric.ndim == 1 else self.metric.T @ point[:-1]
        return np.append(self.unit * moved, point[-1] / np.sqrt(self.size))

    def moments(self, point: Array, order: Literal[1, 2]) -> tuple[Moments, Moments]:
        """The sums over the rows, and the same with the quadratic added: one round."""
        there = self.told(point)
        outputs, rough = (self.outputs, self.rough) if order == 2 else (1, False)
        told = self.held.of(self.ask, AskMoments("relax", "drawn", there, order, outputs, rough))
        sums = Moments(told.value, self._heard(told.gradient), None, self._heard_apart(told.blocks))
        if told.curvature is not None:
            sums = sums._replace(curvature=self._heard(self._heard(told.curvature).T))
        return sums, with_quadratic(sums, self.smooth, point)

    def _heard_apart(self, blocks: Blocks | None) -> Blocks | None:
        """Curvatures of outputs in these units, where the metric is a diagonal."""
        if blocks is None:
            return None
        scale = self.unit * self.metric.reshape(len(blocks.own), -1)
        return Blocks(blocks.own * scale[:, :, None] * scale[:, None, :], blocks.last / self.size)

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        """Values at point + s·direction for every step s: one round."""
        sums = self.ask(AskValues("relax", "drawn", self.told(point), self.told(direction), steps))
        smooth = self.smooth
        return np.asarray(sums + [smooth.value(point + step * direction) for step in steps])

    def _heard(self, sums: Array) -> Array:
        """Sums over (g_j, 1) in these units, along the first axis."""
        core = sums[:-1]
        moved = (self.metric * core.T).T if self.metric.ndim == 1 else self.metric @ core
        return np.concatenate([self.unit * moved, sums[-1:] / np.sqrt(self.size)])

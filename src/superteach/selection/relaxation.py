"""The relaxed choice: inclusion probabilities b_j with Σ b_j g_j = t and Σ b_j = n, found from sums over rows.

A lesson teaches θ* exactly when Σ_{j∈S} g_j = t, with g_j = −ℓ'(x_j'θ*) x_j the (negative) gradient of row j at the goal and
t = Λθ* (0 for a free intercept). Relaxed to 0 ≤ b_j ≤ 1, with w_j = M g_j in units in which lengths tell what a row does to
predictions (M'M = H⁻¹, H the learner's Hessian), the dual variables u = (v, v₀) minimise

    Ψ(u) = Σ_j log(1 + exp(z_j + u'(w_j, 1))) − u'(M t, n) + (δ/2)‖v‖²,        b_j = σ(z_j + u'(w_j, 1))

Of all probabilities that meet the equations b is the nearest to σ(z_j) in relative entropy. The log-odds z_j spread the
lesson over long and short rows: rounding needs short ones to absorb what long ones leave. The term in δ penalises the
residual: Σ b_j w_j − M t = −δv, which is next to nothing where the goal can be met. Where it cannot, u grows until it is the
direction that proves it, and b comes near the nearest lesson there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from superteach.optim.function import Blocks, Moments, Smooth, Stop, Sums, with_quadratic
from superteach.optim.newton import Solution
from superteach.optim.problem import Quadratic
from superteach.types import Array

Counts = npt.NDArray[np.int64]
BINS, SHORTEST = 96, -72
"""Rows are counted by log2 ‖w_j‖: bin k ≥ 1 holds lengths from 2^(k − 72) on, bin 0 all shorter ones."""
DIGITS = 40
"""Octaves below the longest row from which on a row changes nothing: there double precision ends."""


@dataclass(frozen=True)
class RelaxationOptions:
    """Numbers that decide the relaxed choice. What each is worth is in the ablation table of the docs."""

    softness: float = 1e-8
    """δ, in units in which a usual row has the length 1/√n: next to none, which meets the goal or proves that it is out of
    reach."""
    path: tuple[float, ...] = (1e-4, 1e-6, 1e-8, 1e-10)
    """δ by level on the way to a goal out of reach: each one comes nearer, and leaves rounding less freedom."""
    freedom: float = 1.0
    """Freedom Σ b(1 − b) per unknown below which no further level is tried."""
    slow: float = 0.02
    """Part of the residual that a level must take away, or no further one is tried."""
    met: float = 0.01
    """Part of a usual row's length that probabilities may leave: rounding absorbs it."""
    thin: float = 0.125
    """Rows of a smaller probability are sampled first, with this one, so that at most n/thin rows take part."""
    ample: int = 6_000
    """Rows that take part at least, about, where there are so many."""
    ladder: float = 0.5
    """Part of the lesson that is spread evenly over octaves of length; the rest is spread over rows."""
    steps: int = 15
    """Newton steps, at most: a goal within reach takes seven, one out of reach as many as there are."""


DEFAULT = RelaxationOptions()


class Rows(Protocol):
    """Rows that answer with sums: those of all teachers, or one's own."""

    def lengths(self) -> Counts:
        """How many rows are in each bin of length ‖w_j‖."""

    def thin(self, log_odds: Array, least: float) -> int:
        """Give rows log-odds by their bin, and keep those of probability p < `least` with p/least; return how many stay."""

    def sums(self, rough: bool = False) -> Sums:
        """Σ log(1 + exp(z_j + u'(g_j, 1))) over the rows that stay; `rough`: a curvature that only guides steps will do."""


class Solver(Protocol):
    """Newton's method or L-BFGS."""

    @property
    def max_steps(self) -> int:
        """Steps, at most."""

    gradients_only: ClassVar[bool]

    def minimise(self, function: Smooth, start: Array, stop: Stop) -> Solution:
        """Minimise from a start until `stop` says so."""


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Where the relaxed choice ended."""

    dual: Array
    """u, in units of (g_j, 1)."""
    direction: Array
    """u at the least δ: what proves a goal out of reach."""
    met: bool
    """Whether probabilities meet the target."""
    target: Array
    """M t."""
    total: Array
    """Σ b_j M g_j."""
    idle: int
    """Bin below which a row's gradient is nothing."""
    idle_mass: float
    """Σ b_j over these rows."""
    freedom: float
    """Σ b_j(1 − b_j), where curvature was summed; else infinite."""


def bins_of(lengths: Array) -> npt.NDArray[np.int8]:
    """Put lengths into bins."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.floor(np.log2(lengths)) - SHORTEST, 0, BINS - 1), dtype=np.int8)


def idle_bin(counts: Counts) -> int:
    """Return the bin below which rows change nothing beside the longest."""
    present = np.flatnonzero(counts[1:]) + 1
    return int(max(1, present[-1] - DIGITS)) if len(present) else BINS


def long_bin(counts: Counts) -> int:
    """Return the bin from which on rows are long: the longest tenth of the rows lies in it and above."""
    above = np.cumsum(counts[::-1])[::-1]
    return int(np.flatnonzero(above >= 0.1 * counts.sum())[-1])


def metric_of(hessian: Array) -> Array:
    """M with M'M = H⁻¹, from H or its diagonal; flat directions have none."""
    if not np.isfinite(hessian).all():
        raise np.linalg.LinAlgError("losses overflow")
    if hessian.ndim == 1:
        return np.asarray(1.0 / np.sqrt(hessian))
    scale = 1.0 / np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    values, axes = np.linalg.eigh(hessian * np.outer(scale, scale))
    kept = values > 1e-13 * values[-1]
    roots = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray((axes * roots) @ axes.T * scale)


def contrasts(outputs: int) -> Array:
    """C − 1 orthonormal rows that span all numbers, one for each of C outputs, that add up to 0: gradients of softmax do."""
    helmert = np.tril(np.ones((outputs - 1, outputs)))
    helmert[np.arange(outputs - 1), np.arange(1, outputs)] = -np.arange(1, outputs)
    return np.asarray(helmert / np.linalg.norm(helmert, axis=1, keepdims=True))


def sketch(metric: Array, rows: int = 32) -> Array:
    """A metric of fewer rows, by random signs, in which squares of lengths are the same within a quarter."""
    if metric.ndim == 1 or len(metric) <= rows:
        return metric
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (rows, len(metric)))
    return np.asarray(signs @ metric / np.sqrt(rows))


def inverse(matrix: Array) -> Array:
    """The inverse of a symmetric matrix, whatever the units of its columns; flat directions are left out."""
    spread = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale = 1.0 / np.where(spread > 1e-60 * spread.max(), spread, 1.0)
    found = np.linalg.pinv(matrix * np.outer(scale, scale), hermitian=True, rcond=1e-14)
    return np.asarray(found * np.outer(scale, scale))


def prior(counts: Counts, size: int, unknowns: int, ladder: float = DEFAULT.ladder) -> Array:
    """Log-odds by bin of length for a lesson of `size` rows.

    One part of the lesson is spread evenly over rows. The other goes in equal parts to each of the n/(d + 1) octaves below
    the longest tenth of the rows (an octave needs about d + 1 rows to absorb what the one above leaves), at most to a
    half of its rows.
    """
    rows, bins, top = int(counts.sum()), np.arange(BINS), long_bin(counts)
    grouped = counts.astype(np.float64)
    grouped[top:] = counts[top:].sum()
    steps = max(size / unknowns, 1.0)
    on = (bins >= max(top - steps, idle_bin(counts))) & (counts > 0)
    chance = np.full(BINS, min(size / rows, 1.0 - 1e-9))
    if on.any():
        share, members = size / steps, grouped[on]
        weight = counts[on] / members
        for _ in range(60):
            share = min(share * size / float((weight * np.minimum(0.5 * members, share)).sum()), 1e9 * size)
        chance *= 1.0 - ladder
        chance[on] += ladder * np.minimum(0.5, share / members)
    return np.asarray(logit(np.clip(chance, 1e-12, 1.0 - 1e-9)))


def relax(
    rows: Rows,
    metric: Array,
    target: Array,
    size: int,
    solver: Solver,
    thin: bool = True,
    rough: bool = False,
    options: RelaxationOptions = DEFAULT,
    start: Array | None = None,
    reachable: bool = True,
) -> Relaxation:
    """Find probabilities for `size` rows with gradients that add up to `target` (in units of g), or come near it.

    `metric` is M, or its diagonal. With `thin` rows of small probability are sampled first, and all rows take part where
    those do not meet the target. A target that is not `reachable` is approached level by level at once.
    """
    counts = rows.lengths()
    odds = prior(counts, size, len(metric) + 1, options.ladder)
    idle, likely = idle_bin(counts), expit(odds)
    squares = 4.0 ** (np.arange(BINS) + SHORTEST + 0.5)
    mass = (counts * likely)[idle:]
    usual = float(np.sqrt((mass * squares[idle:]).sum() / max(mass.sum(), 1e-300))) or 1.0  # 1: every row is idle
    least = min(options.thin, size / options.ample)
    stay = float((counts * np.minimum(1.0, likely / least)).sum())
    few = thin and stay < 0.5 * counts.sum()
    thinned = rows.thin(odds, least if few else 0.0) < counts.sum()
    unit = 1.0 / (usual * np.sqrt(size))
    sums_of_rows, enough = rows.sums(rough), options.met / np.sqrt(size)
    direction: Array | None = None
    kept: tuple[Array, Moments, float] | None = None
    before, freedom, reached = np.inf, np.inf, np.zeros(len(metric) + 1) if start is None else start
    for softness in ((options.softness,) if reachable else ()) + options.path:
        function = _Scaled(sums_of_rows, metric, target, size, unit, softness)

        def stop(here: Array, sums: Moments, whole: Moments, softness: float = softness) -> str | None:
            left = float(np.linalg.norm(whole.gradient))
            return "near" if left <= max(0.1 * softness * np.linalg.norm(here[:-1]), 0.5 * enough) else None

        solution = solver.minimise(function, reached, stop)
        point, sums = solution.point, solution.sums
        if sums.curvature is None and rough and metric.ndim == 2:
            sums = function.moments(point, 2)[0]
        dual, wanted = function.dual(point), function.wanted
        left = float(np.linalg.norm(sums.gradient - wanted))
        freedom = np.inf if sums.curvature is None else float(sums.curvature[-1, -1]) * size
        met, first, direction = bool(left <= enough), direction is None, dual if direction is None else direction
        if met:
            break
        if thinned and thin:  # rows left out by sampling may make up for what these cannot
            begun = point if solver.gradients_only else None
            return relax(rows, metric, target, size, solver, False, rough, options, begun)
        if first and reachable:
            continue
        if left > before and kept is not None:  # refused: where Newton's method saturates, Σ b is not n
            dual, sums, freedom = kept
            break
        kept = dual, sums, freedom
        if freedom < options.freedom * (len(metric) + 1) or left > (1.0 - options.slow) * before:
            break
        # A harder level takes L-BFGS two to three times as many steps.
        if (solver.gradients_only and 2 * solution.steps > solver.max_steps) or (rough and not solution.converged):
            break
        before, reached = left, point
    assert direction is not None
    aside = float((counts * expit(odds + dual[-1]))[:idle].sum())
    return Relaxation(dual, direction, met, wanted[:-1] / unit, sums.gradient[:-1] / unit, idle, aside, freedom)


@dataclass(frozen=True, eq=False)
class _Scaled:
    """Ψ in units in which a usual row has length 1/√n and all rows together count √n."""

    sums: Sums
    metric: Array
    target: Array
    size: int
    unit: float
    softness: float
    cautious: bool = False

    @property
    def wanted(self) -> Array:
        """(M t, n)."""
        return np.append(self.unit * _times(self.metric, self.target), np.sqrt(self.size))

    @property
    def smooth(self) -> Quadratic:
        """The part that needs no rows."""
        return Quadratic(np.append(np.full(len(self.metric), self.softness), 0.0), self.wanted)

    def dual(self, point: Array) -> Array:
        """A point in units of (g_j, 1)."""
        moved = self.metric * point[:-1] if self.metric.ndim == 1 else self.metric.T @ point[:-1]
        return np.append(self.unit * moved, point[-1] / np.sqrt(self.size))

    def moments(self, point: Array, order: Literal[1, 2]) -> tuple[Moments, Moments]:
        """The sums over the rows, and the same with the quadratic added."""
        raw = self.sums.moments(self.dual(point), order)
        sums = Moments(raw.value, self._inside(raw.gradient), None, self._blocks(raw.blocks))
        if raw.curvature is not None:
            sums = sums._replace(curvature=self._inside(self._inside(raw.curvature).T))
        return sums, with_quadratic(sums, self.smooth, point)

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        """Values at point + s·direction for every step s."""
        sums, smooth = self.sums.values(self.dual(point), self.dual(direction), steps), self.smooth
        return np.asarray(sums + [smooth.value(point + step * direction) for step in steps])

    def _inside(self, sums: Array) -> Array:
        """Sums over (g_j, 1) in these units, along the first axis."""
        return np.concatenate([self.unit * _times(self.metric, sums[:-1]), sums[-1:] / np.sqrt(self.size)])

    def _blocks(self, blocks: Blocks | None) -> Blocks | None:
        """Curvatures of outputs in these units, where the metric is a diagonal."""
        if blocks is None:
            return None
        scale = self.unit * self.metric.reshape(len(blocks.own), -1)
        return Blocks(blocks.own * scale[:, :, None] * scale[:, None, :], blocks.last / self.size)


def _times(metric: Array, sums: Array) -> Array:
    """M times sums, along the first axis; a vector is the diagonal of M."""
    return np.asarray((metric * sums.T).T if metric.ndim == 1 else metric @ sums)


@dataclass(eq=False)
class OwnRows:
    """Rows at hand, as vectors w_j = M g_j; log-odds and the sampled ones are remembered here."""

    vectors: Array
    draw: np.random.Generator

    def __post_init__(self) -> None:
        self.bins = bins_of(np.linalg.norm(self.vectors, axis=1))
        self.kept: npt.NDArray[np.int64] = np.arange(len(self.vectors))
        self.odds = np.zeros(len(self.vectors))

    def lengths(self) -> Counts:
        """Count rows by bin."""
        return np.bincount(self.bins, minlength=BINS).astype(np.int64)

    def thin(self, log_odds: Array, least: float) -> int:
        """Give rows log-odds, and sample."""
        odds = log_odds[self.bins]
        self.kept = np.flatnonzero(self.draw.random(len(odds)) * least < expit(odds))
        self.odds = np.maximum(odds[self.kept], logit(least) if least > 0.0 else -np.inf)
        return len(self.kept)

    def sums(self, rough: bool = False) -> Sums:
        """Sum over the rows that stay."""
        return _Softplus(np.column_stack([self.vectors[self.kept], np.ones(len(self.kept))]), self.odds)

    def probabilities(self, dual: Array) -> Array:
        """b_j of all rows: 0 where a row was not sampled."""
        found = np.zeros(len(self.vectors))
        found[self.kept] = expit(self.odds + self.vectors[self.kept] @ dual[:-1] + dual[-1])
        return found


class _Softplus(NamedTuple):
    """Σ log(1 + exp(z_j + u'a_j)) over rows a_j."""

    rows: Array
    odds: Array

    def moments(self, point: Array, order: Literal[1, 2]) -> Moments:
        at = self.odds + self.rows @ point
        chance = expit(at)
        curvature = (self.rows.T * (chance * (1.0 - chance))) @ self.rows if order == 2 else None
        return Moments(float(np.logaddexp(0.0, at).sum()), chance @ self.rows, curvature)

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        at, along = self.odds + self.rows @ point, self.rows @ direction
        return np.array([np.logaddexp(0.0, at + step * along).sum() for step in steps])

"""The problem: one federation and one learner, from the first count to the last fit."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from superteach.coordinator import metrics
from superteach.coordinator.federation import Federation, RowSums
from superteach.exceptions import DataError, listed
from superteach.learner import Learner, fit
from superteach.losses.scalar import Logistic, Poisson, Squared, SquaredHinge
from superteach.optim import LBFGS, Newton
from superteach.optim.lbfgs import Curved
from superteach.optim.problem import Scaling, ridge_penalty
from superteach.protocol.queries import (
    AskMoments,
    Census,
    ColumnSums,
    Compare,
    Comparison,
    Prepare,
    RowSet,
    Size,
)
from superteach.selection.relaxation import metric_of
from superteach.types import Array

NEWTON_WIDTH = 500
"""Models wider than this, all outputs together, are solved by L-BFGS, unless a solver is given. On digits (650 coefficients)
Newton takes 25 times as long as L-BFGS, and its lessons are no nearer. Of several outputs, up to this width each, L-BFGS
begins at a curvature: on digits lessons take half the time that they take by L-BFGS alone."""
ONE_OUTPUT = 1_000
"""The same for models of one output. With 681 columns, most of them dummies, L-BFGS ends below random rows in 50 s; Newton
in 6 s, above them."""
DEPENDENT = 1e-11
"""Share of the largest eigenvalue of X'X, with columns of unit length, below which least squares is not determined."""
CANCELLED = 1e-10
"""Share of a column's mean square below which its variance, taken from the same sum, is lost to rounding."""
STILL = 1e-7
"""Share of the length of predictions by which a goal may move them where it is moved along directions that no row sees."""
EVENLY_CURVED = (Logistic, Squared, SquaredHinge, Poisson)
"""Losses that curve alike for every row where the model is 0, so that their curvature there is a multiple of X'X."""


@dataclass
class FederatedProblem:
    """One federation, one learner: what fits share, and the pool's own model once it is known."""

    federation: Federation
    learner: Learner
    scaling: Scaling
    rows: int
    solver: Newton | LBFGS
    row_square: float
    """Mean of ‖x_j‖² on scaled columns."""
    costs: bool = False
    """Whether any teacher has costs of rows."""
    deadline: float = np.inf
    """Reading of `time.perf_counter` after which nothing more is tried."""
    _pool: Array | None = field(default=None, repr=False)
    measure: str = "coefficients"
    """What "nearest to the goal" means: distance of "predictions" over the pool, or of raw "coefficients" (the paper's)."""

    @cached_property
    def losses(self) -> RowSums:
        """Σ ℓ_j over all rows; who asks for the last curvature again costs no round."""
        return self.federation.over("loss", "all")

    @property
    def width(self) -> int:
        """How many numbers a model has."""
        return self.learner.outputs * (self.federation.features + (self.learner.intercept != "none"))

    @property
    def wide(self) -> bool:
        """Whether models are too wide for matrices over pairs of coefficients."""
        return self.width > (NEWTON_WIDTH if self.learner.outputs > 1 else ONE_OUTPUT)

    @cached_property
    def bends(self) -> Array:
        """What all rows together bend along each coefficient at most, or about so much: from the squares of columns."""
        scaling, federation, most = self.scaling, self.federation, self.learner.loss.most_curvature
        centre = np.zeros(federation.features) if scaling.centre is None else scaling.centre
        squares = federation.sum(ColumnSums(centre, 2)) / (1.0 if scaling.scale is None else np.square(scaling.scale))
        if scaling.constant:
            squares = np.append(squares, self.rows * scaling.constant**2)
        return np.tile((most if np.isfinite(most) else 1.0) * squares, self.learner.outputs)

    @cached_property
    def gram(self) -> Array:
        """X'X over all rows, for one output; not for wide models."""
        own, loss = self.width // self.learner.outputs, self.learner.loss
        if isinstance(loss, EVENLY_CURVED) and loss.outputs == 1 and not self.learner.weighted:
            # A fit on all rows begins with the same question, and is answered from `held`.
            sums = self.losses.moments(np.zeros(own), 2)
            assert sums.curvature is not None
            return np.asarray(sums.curvature / float(loss.terms(np.zeros(1), np.ones(1)).curvature[0]))
        return self.federation.curvature("square", "all", np.zeros(own))

    def column_spread(self) -> Array | None:
        """Standard deviations of raw columns (root mean squares without an intercept), from sums that are there already.

        They are NaN where the mean is so large that nothing is left of them; None for wide models.
        """
        if self.scaling.scale is not None:
            return self.scaling.scale.copy()
        if self.wide:
            return None
        squares = np.diag(self.gram)[: self.federation.features] / self.rows
        if not self.scaling.constant:
            return np.sqrt(squares)
        mean = self.gram[: self.federation.features, -1] / (self.rows * self.scaling.constant)
        variance = squares - np.square(mean)
        return np.sqrt(np.where(variance > CANCELLED * squares, variance, np.nan))

    @cached_property
    def _spectrum(self) -> tuple[Array, Array, Array]:
        """Lengths of columns, then eigenvalues (0: no row sees it) and eigenvectors of X'X over columns of unit length."""
        gram = self.gram
        lengths = np.sqrt(np.where(np.diag(gram) > 0.0, np.diag(gram), 1.0))
        values, axes = np.linalg.eigh(gram / np.outer(lengths, lengths))
        return lengths, np.where(values > DEPENDENT * values[-1], values, 0.0), axes

    @cached_property
    def null_space(self) -> Array:
        """Orthonormal v, as columns, with x'v = 0 for every row: dummies that add up to the intercept, constant columns."""
        lengths, values, axes = self._spectrum
        return np.asarray(np.linalg.qr(axes[:, values == 0.0] / lengths[:, None])[0])

    @property
    def seen(self) -> Array | None:
        """Rows that span all directions in which some row differs from 0; None: these are all there are."""
        lengths, values, axes = self._spectrum
        return None if values.all() else np.asarray((axes[:, values > 0.0] / lengths[:, None]).T)

    @cached_property
    def to_measure(self) -> Array:
        """A with ‖A(θ − θ*)‖ the distance to the goal, on scaled columns; not for wide models."""
        if self.measure == "coefficients":
            return self.scaling.to_raw(self.width)
        lengths, values, axes = self._spectrum
        seen = np.sqrt(values / self.rows)[:, None] * axes.T * lengths
        return np.asarray(np.kron(np.eye(self.learner.outputs), seen[values > 0.0]), dtype=np.float64)

    @cached_property
    def from_measure(self) -> Array:
        """The inverse of A for one output; directions that no row sees are left out."""
        if self.measure == "coefficients":
            own = self.width // self.learner.outputs
            return np.asarray(np.linalg.pinv(self.to_measure[:own, :own]), dtype=np.float64)
        lengths, values, axes = self._spectrum
        seen = values > 0.0
        return np.asarray(
            np.where(seen, np.sqrt(self.rows / np.where(seen, values, 1.0)), 0.0) * axes / lengths[:, None]
        )

    def distance(self, model: Array, goal: Array) -> float:
        """How far a model is from the goal in the measure, both on scaled columns."""
        if self.measure == "coefficients":
            return metrics.risk(self.scaling.raw(model), self.scaling.raw(goal))
        if self.wide:
            return metrics.apart(self.federation, model, goal, self.learner.outputs)
        return float(np.linalg.norm(self.to_measure @ (model - goal)))

    def without_unseen(self, model: Array) -> Array:
        """Move a model along directions that no row sees to where every fit of the learner ends up.

        A fit has Dθ = Σ_j g_j with D the penalty's diagonal and g_j a multiple of x_j, hence v'Dθ = 0 wherever X v = 0.
        """
        if self.wide or not self.learner.ridge or not self.null_space.shape[1]:
            return model
        rows, null = model.reshape(self.learner.outputs, -1), self.null_space
        stiff = ridge_penalty(1.0, len(null), self.learner.free_intercept).diagonal[:, None] * null
        return np.asarray((rows - rows @ stiff @ np.linalg.pinv(null.T @ stiff) @ null.T).reshape(model.shape))

    def as_learned(self, goal: Array) -> Array:
        """Move a goal so, and no prediction on the pool with it."""
        moved = self.without_unseen(goal)
        if moved is goal:
            return goal
        # X'X knows lengths to half their digits: see that predictions stay.
        seen: Comparison = self.federation.sum(Compare(moved[None], goal, np.zeros(self.learner.outputs)))
        return self.learner.centred(moved) if seen.error[0] <= STILL**2 * seen.spread else goal

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return time.perf_counter() > self.deadline

    def fit_pool(self, near: Array | None = None) -> Array:
        """Fit the learner on all teachers' rows, on scaled columns, once, from 0 or from `near`, whichever is nearer."""
        if self._pool is None:
            self.federation.stage = "pool fit"
            if not self.wide:
                _ = self.gram  # the first question of a fit that begins at 0, kept
            start = np.zeros(self.width)
            # Curvatures of several outputs are dear, and a fit from a goal nearby needs few of them.
            if near is not None and (
                self.learner.outputs > 1 or (not self.wide and self._decrement(near) < self._decrement(start))
            ):
                start = near
            self._pool = self._fit(self.rows, "all", start)
        return self._pool.copy()  # whoever asks may change it

    def _decrement(self, point: Array) -> float:
        """g'H⁻¹g of the learner's objective on all rows: twice what Newton's step from a point promises to lower it by.

        Infinite where losses overflow.
        """
        penalty = ridge_penalty(self.learner.penalty(self.rows), self.width, self.learner.free_intercept)
        sums = self.losses.moments(point, 2)
        assert sums.curvature is not None
        if not (np.isfinite(sums.curvature).all() and np.isfinite(sums.gradient).all()):
            return np.inf
        gradient = metric_of(sums.curvature + np.diag(penalty.diagonal)) @ (sums.gradient + penalty.gradient(point))
        return float(gradient @ gradient)

    def refuses(self, kept: Size) -> str | None:
        """Say why no model belongs to the chosen rows; None: one does."""
        learner = self.learner
        if learner.outputs > 1 and learner.loss.classifies:
            missing = self.federation.sum(Census("chosen", learner.outputs)).classes.count(0)
            if missing:
                return f"{kept.rows} sample(s) have no row of {missing} of the {learner.outputs} classes"
        if not learner.ridge and (dependent := self.dependent("chosen")):
            return f"{kept.rows} sample(s) leave the model undetermined (columns {listed(dependent)})"
        return learner.refuses(kept.rows, kept.positive)

    def dependent(self, rows: RowSet) -> list[object]:
        """Name columns that are linearly dependent over these rows, the intercept included; none where X'X is regular."""
        sums = self.federation.sum(AskMoments("loss", rows, np.zeros(self.width), 2))
        assert sums.curvature is not None
        own = self.width // self.learner.outputs
        gram = sums.curvature[:own, :own]
        unit = 1.0 / np.sqrt(np.where(np.diag(gram) > 0.0, np.diag(gram), 1.0))
        values, axes = np.linalg.eigh(gram * np.outer(unit, unit))
        flat = values <= DEPENDENT * values[-1]
        part = np.flatnonzero((np.abs(axes[:, flat]) > 1e-6).any(axis=1))
        names = [*self.federation.columns, "the intercept"]
        return [names[place] for place in part]

    def fit_chosen(self, size: int, start: Array | None = None) -> Array:
        """Fit the learner on the chosen rows, beginning at `start` (default: the pool's model)."""
        return self._fit(size, "chosen", self.fit_pool() if start is None else start)

    def fit_likely(self, size: int, start: Array) -> Array:
        """Fit the learner on rows weighted by their inclusion probabilities."""
        return self._fit(size, "likely", start)

    def _fit(self, count: int, rows: RowSet, start: Array) -> Array:
        bends = self.bends * (count / self.rows) if self.wide else None
        apart = isinstance(self.solver, Curved) and self.solver.apart
        whole = rows == "all" and not apart
        sums = self.losses if whole else self.federation.over("loss", rows, self.learner.outputs if apart else 1)
        scaled = self.scaling.scale is not None
        return fit(sums, self.learner, count, self.solver, start, self.row_square, bends, scaled).model


def setup(federation: Federation, learner: Learner, solver: object, standardize: bool) -> FederatedProblem:
    """Count the rows, settle the scaling, and tell the teachers which learner they teach."""
    federation.stage = "set-up"

    def check(size: Size) -> None:
        if refusal := learner.refuses(size.rows, size.positive):
            raise DataError(f"all teachers together: {refusal}")

    scaling = Scaling(learner.column, outputs=learner.outputs)
    if standardize:
        size: Size = federation.sum(Census())
        check(size)
        scaling = _standardise(federation, learner, size.rows)
    prepared = federation.sum(Prepare(learner.loss, scaling.constant, scaling.centre, scaling.scale))
    rows = prepared.size.rows
    check(prepared.size)
    problem = FederatedProblem(federation, learner, scaling, rows, LBFGS(), prepared.squares / rows, prepared.costs)
    problem.solver = solver if isinstance(solver, LBFGS) else LBFGS() if problem.wide else Newton()
    if solver is None and learner.outputs > 1 and learner.ridge and problem.width <= NEWTON_WIDTH * learner.outputs:
        problem.solver = Curved(apart=problem.wide)
    if not learner.ridge:
        if problem.wide:
            raise DataError(
                f"a learner without a penalty has too many coefficients, {problem.width}, to see if its model is unique; "
                "leave columns out, or give it a penalty (Ridge, a finite C)"
            )
        dependent = problem.dependent("all")
        if dependent:
            raise DataError(
                f"without a penalty no unique model belongs to these {rows} rows: columns {listed(dependent)} are linearly "
                "dependent; leave one of them out, or give the learner a penalty (Ridge, a finite C)"
            )
    return problem


def _standardise(federation: Federation, learner: Learner, rows: int) -> Scaling:
    """Scale columns by means and standard deviations, from two sums; without an intercept they are not centred."""
    mean = federation.sum(ColumnSums(np.zeros(federation.features), 1)) / rows
    deviation = np.sqrt(federation.sum(ColumnSums(mean, 2)) / rows)
    flat = deviation <= 10.0 * np.finfo(np.float64).eps * np.abs(mean)
    scale = np.where(flat, 1.0, deviation)
    return Scaling(learner.column, mean if learner.column else None, scale, learner.outputs)

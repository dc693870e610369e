"""The classroom: one federation and one learner, from the first count to the last fit."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from superteach.coordinator.federation import Federation
from superteach.errors import DataError, listed
from superteach.line.queries import AskMoments, Census, ClassCounts, ColumnSums, Prepare, RowSet, Size
from superteach.mathematics.learner import Learner, fit
from superteach.mathematics.problem import Scaling
from superteach.mathematics.solvers import LBFGS, Newton
from superteach.mathematics.solvers.function import Curvatures
from superteach.mathematics.solvers.lbfgs import Curved
from superteach.types import Array

NEWTON_WIDTH = 500
"""Models wider than this, all outputs together, are solved by L-BFGS, unless a solver is given. On digits (650 coefficients)
Newton takes 25 times as long as L-BFGS, and its lessons are no nearer."""
CURVED_WIDTH = 500
"""Up to this width of one output, models of several are solved by L-BFGS that begins at a curvature: a matrix for each
output, as large as Newton's largest. On digits lessons take half the time that they take by L-BFGS alone."""
DEPENDENT = 1e-11
"""Share of the largest eigenvalue of X'X, with columns of unit length, below which least squares is not determined."""


@dataclass
class Classroom:
    """One federation, one learner: what fits share, and the pool's own model once it is known."""

    federation: Federation
    learner: Learner
    scaling: Scaling
    rows: int
    solver: Newton | LBFGS
    row_square: float
    """Mean of ‖x_j‖² on scaled columns."""
    deadline: float = np.inf
    """Reading of `time.perf_counter` after which nothing more is tried."""
    _pool: Array | None = field(default=None, repr=False)
    held: Curvatures = field(default_factory=Curvatures, repr=False)
    """The last curvature over all rows, of models with several outputs, where it costs as much as a dozen gradients."""

    @property
    def width(self) -> int:
        """How many numbers a model has."""
        return self.learner.outputs * (self.federation.features + (self.learner.intercept != "none"))

    @property
    def wide(self) -> bool:
        """Whether models are too wide for matrices over pairs of coefficients."""
        return self.width > NEWTON_WIDTH

    @cached_property
    def bends(self) -> Array:
        """What all rows together bend along each coefficient at most, or about so much: from the squares of columns."""
        scaling, federation, most = self.scaling, self.federation, self.learner.loss.most_curvature
        centre = np.zeros(federation.features) if scaling.centre is None else scaling.centre
        squares = federation.sum(ColumnSums(centre, 2)) / (1.0 if scaling.scale is None else np.square(scaling.scale))
        if scaling.constant:
            squares = np.append(squares, self.rows * scaling.constant**2)
        return np.tile((most if np.isfinite(most) else 1.0) * squares, self.learner.outputs)

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return time.perf_counter() > self.deadline

    def fit_pool(self, start: Array | None = None) -> Array:
        """Fit the learner on all teachers' rows, on scaled columns, beginning at 0 or at `start`; once."""
        if self._pool is None:
            self.federation.stage = "pool fit"
            self._pool = self._fit(self.rows, "all", np.zeros(self.width) if start is None else start)
        return self._pool.copy()  # whoever asks may change it

    def refuses(self, kept: Size) -> str | None:
        """Say why no model belongs to the chosen rows; None: one does."""
        learner = self.learner
        if learner.outputs > 1 and learner.loss.classifies:
            missing = np.flatnonzero(self.federation.sum(ClassCounts(learner.outputs)) == 0)
            if len(missing):
                return f"{kept.rows} sample(s) have no row of {len(missing)} of the {learner.outputs} classes"
        if not learner.ridge and (dependent := self.dependent("chosen")):
            return f"{kept.rows} sample(s) leave least squares undetermined (columns {listed(dependent)})"
        return learner.refuses(*kept)

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

    def fit_priced(self, size: int, start: Array) -> Array:
        """Fit the learner on rows weighted by their fractions at the present prices."""
        return self._fit(size, "priced", start)

    def fit_evenly(self, size: int, start: Array) -> Array:
        """Fit the learner on all rows, weighted alike so that they count as `size` rows."""
        stiffer = replace(self.learner, ridge=self.learner.penalty(size) * self.rows / size, ridge_per_row=False)
        return self._fit(self.rows, "all", start, stiffer)

    def _fit(self, count: int, rows: RowSet, start: Array, learner: Learner | None = None) -> Array:
        bends = self.bends * (count / self.rows) if self.wide else None
        held = self.held if rows == "all" and isinstance(self.solver, Curved) else None
        return fit(
            self.federation, learner or self.learner, count, rows, self.solver, start, self.row_square, bends, held
        ).model


def enter(federation: Federation, learner: Learner, solver: object, standardize: bool) -> Classroom:
    """Count the rows, settle the scaling, and tell the teachers which learner they teach."""
    federation.stage = "set-up"
    size: Size = federation.sum(Census())
    refusal = learner.refuses(size.rows, size.positive)
    if refusal:
        raise DataError(f"all teachers together: {refusal}")
    scaling = Scaling(learner.column, outputs=learner.outputs)
    if standardize:
        scaling = _standardise(federation, learner, size.rows)
    squares: float = federation.sum(Prepare(learner.loss, scaling.constant, scaling.centre, scaling.scale))
    room = Classroom(federation, learner, scaling, size.rows, LBFGS(), squares / size.rows)
    room.solver = solver if isinstance(solver, LBFGS) else LBFGS() if room.wide else Newton()
    if solver is None and learner.outputs > 1 and learner.ridge and room.width <= CURVED_WIDTH * learner.outputs:
        room.solver = Curved(apart=room.wide)
    if not learner.ridge:
        if room.wide:
            raise DataError(
                f"LinearRegression with {room.width} coefficients is too wide to see whether it is determined; "
                "leave columns out, or use Ridge(alpha)"
            )
        dependent = room.dependent("all")
        if dependent:
            raise DataError(
                f"LinearRegression has no unique model on these {size.rows} rows: columns {listed(dependent)} are linearly "
                "dependent; leave one of them out, or use Ridge(alpha)"
            )
    return room


def _standardise(federation: Federation, learner: Learner, rows: int) -> Scaling:
    """Scale columns by means and standard deviations, from two sums; without an intercept they are not centred."""
    mean = federation.sum(ColumnSums(np.zeros(federation.features), 1)) / rows
    deviation = np.sqrt(federation.sum(ColumnSums(mean, 2)) / rows)
    flat = deviation <= 10.0 * np.finfo(np.float64).eps * np.abs(mean)
    scale = np.where(flat, 1.0, deviation)
    return Scaling(learner.column, mean if learner.column else None, scale, learner.outputs)

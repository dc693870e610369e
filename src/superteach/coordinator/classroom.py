"""The classroom: one federation and one learner, from the first count to the last fit."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from superteach.coordinator.federation import Federation
from superteach.errors import DataError
from superteach.line.queries import Census, ColumnSums, Prepare, RowSet, Size
from superteach.mathematics.learner import Learner, fit
from superteach.mathematics.problem import Scaling
from superteach.mathematics.solvers import LBFGS, Newton
from superteach.types import Array

NEWTON_WIDTH = 500
"""Models wider than this are solved by L-BFGS, unless a solver is given."""


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

    @property
    def width(self) -> int:
        """How many numbers a model has."""
        return self.federation.features + (self.learner.intercept != "none")

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return time.perf_counter() > self.deadline

    def fit_pool(self) -> Array:
        """Fit the learner on all teachers' rows, on scaled columns; once."""
        if self._pool is None:
            self.federation.stage = "pool fit"
            self._pool = self._fit(self.rows, "all", np.zeros(self.width))
        return self._pool.copy()  # whoever asks may change it

    def fit_chosen(self, size: int, start: Array | None = None) -> Array:
        """Fit the learner on the chosen rows, beginning at `start` (default: the pool's model)."""
        return self._fit(size, "chosen", self.fit_pool() if start is None else start)

    def fit_priced(self, size: int, start: Array) -> Array:
        """Fit the learner on rows weighted by their fractions at the present prices."""
        return self._fit(size, "priced", start)

    def _fit(self, count: int, rows: RowSet, start: Array) -> Array:
        return fit(self.federation, self.learner, count, rows, self.solver, start, self.row_square).model


def enter(federation: Federation, learner: Learner, solver: object, standardize: bool) -> Classroom:
    """Count the rows, settle the scaling, and tell the teachers which learner they teach."""
    federation.stage = "set-up"
    size: Size = federation.sum(Census())
    refusal = learner.refuses(size.rows, size.positive)
    if refusal:
        raise DataError(f"all teachers together: {refusal}")
    scaling = _standardise(federation, learner, size.rows) if standardize else Scaling(learner.column)
    squares: float = federation.sum(Prepare(learner.loss, scaling.constant, scaling.centre, scaling.scale))
    width = federation.features + (learner.intercept != "none")
    fitting = solver if isinstance(solver, LBFGS) else Newton() if width <= NEWTON_WIDTH else LBFGS()
    return Classroom(federation, learner, scaling, size.rows, fitting, squares / size.rows)


def _standardise(federation: Federation, learner: Learner, rows: int) -> Scaling:
    """Scale columns by means and standard deviations, from two sums; without an intercept they are not centred."""
    mean = federation.sum(ColumnSums(np.zeros(federation.features), 1)) / rows
    deviation = np.sqrt(federation.sum(ColumnSums(mean, 2)) / rows)
    flat = deviation <= 10.0 * np.finfo(np.float64).eps * np.abs(mean)
    scale = np.where(flat, 1.0, deviation)
    return Scaling(learner.column, mean if learner.column else None, scale)

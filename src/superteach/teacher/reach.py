"""Products of rows that a bound over a ball of models needs, with bounds of their rounding errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from superteach.losses.arrays import to_numpy
from superteach.protocol import queries
from superteach.selection.majorant import UNIT, Products
from superteach.teacher.rows import Block
from superteach.types import Array


@dataclass(frozen=True, eq=False)
class Reached:
    """Products of a block of rows with a question's model, direction and metric."""

    at: Array
    along: Array
    length: Array
    """‖R x_j‖."""
    spread: Array
    """Σ_k |x_jk| ‖R_k‖, which bounds what rounding changes in R x_j, and in sums over R x_j."""
    at_error: Array
    along_error: Array
    rounding: float
    """Relative error of a product of a row."""

    @classmethod
    def of(cls, query: queries.Envelope, outputs: int, block: Block) -> Reached:
        """Ask a block for its products: X p, ‖R x_j‖² and |X| w."""
        model, direction = (part.reshape(outputs, -1) for part in (query.model, query.direction[:-1]))
        columns = np.abs(query.reach) if query.reach.ndim == 1 else np.linalg.norm(query.reach, axis=0)
        weights = np.stack([np.abs(model).sum(axis=0), np.abs(direction).sum(axis=0), columns])
        rounding = 2.0 * (model.shape[1] + 8) * UNIT
        sizes = to_numpy(block.magnitudes(weights)) * (1.0 + rounding)
        at, along = to_numpy(block.times(model)), to_numpy(block.times(direction))
        if outputs == 1:
            at, along = at[0], along[0]
        length = np.sqrt(to_numpy(block.squares(query.reach)))
        return cls(at, along, length, sizes[2], rounding * sizes[0], rounding * sizes[1], rounding)

    def within(self, radius: float) -> Products:
        """Say what a bound over the ball of a radius needs."""
        half = radius * (self.length * (1.0 + self.rounding) + self.rounding * self.spread)
        return Products(self.at, half, self.along, self.at_error, self.along_error)

    def summing(self, radius: float, tilt: Array) -> float:
        """Bound what rounding changes in r‖R Σ_j B_j ⊗ x_j‖ while these rows are summed up."""
        size = np.abs(tilt) if tilt.ndim == 1 else np.abs(tilt).sum(axis=0)
        return float(radius * 2.0 * (len(self.spread) + 8) * UNIT * (size @ self.spread))


def raised(total: Array, rows: int) -> Array:
    """Raise heights by what rounding can have taken from their sums."""
    total[:, 0] *= 1.0 + 2.0 * (rows + 8) * UNIT
    return np.asarray(total.ravel())

"""The learner's model on rows at hand, by the package's own solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from superteach.learner import Learner, fit
from superteach.losses import Loss
from superteach.optim import Newton
from superteach.optim.function import Moments
from superteach.types import Array


@dataclass(frozen=True, eq=False)
class RowLosses:
    """Σ ℓ(x_j'θ; y_j) over rows at hand, as a solver asks for it."""

    X: Array
    y: Array
    loss: Loss

    def moments(self, point: Array, order: Literal[1, 2]) -> Moments:
        """Value, gradient and (order 2) curvature at a point."""
        terms = self.loss.terms(self.X @ point, self.y)
        curvature = (self.X.T * terms.curvature) @ self.X if order == 2 else None
        return Moments(float(terms.value.sum()), self.X.T @ terms.slope, curvature)

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        """Values at point + s·direction for every step s."""
        at, along = self.X @ point, self.X @ direction
        return np.array([self.loss.value(at + step * along, self.y).sum() for step in steps])


def fitted(X: Array, y: Array, learner: Learner) -> Array:
    """The learner's model on these rows; X has the column of an intercept, if there is one."""
    square = float(np.square(X).sum()) / len(X)
    return fit(RowLosses(X, y, learner.loss), learner, len(X), Newton(), np.zeros(X.shape[1]), square).model

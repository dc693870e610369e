"""One teaching task on plain arrays: the refit that judges every answer, and the numbers the programmes are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from superteach.coordinator import metrics
from superteach.learner import Learner
from superteach.losses import Logistic, Loss, Squared
from superteach.optim.problem import ridge_penalty
from superteach.types import Array, Positions
from superteach_lab.fit import fitted


@dataclass(frozen=True, eq=False)
class Programme:
    """Choose rows, `size` of them (None: any number), such that the learner's model comes close to the goal."""

    X: Array
    y: Array
    loss: Loss
    ridge: float
    goal: Array
    size: int | None
    free_intercept: bool = False
    """The last column is an intercept without penalty."""
    seed: int = 0

    @property
    def rows(self) -> int:
        """N."""
        return len(self.y)

    @property
    def width(self) -> int:
        """d."""
        return len(self.goal)

    @property
    def least(self) -> int:
        """The fewest rows an answer may have."""
        return 1 if self.size is None else self.size

    @property
    def most(self) -> int:
        """The most rows an answer may have."""
        return self.rows if self.size is None else self.size

    @property
    def penalty(self) -> Array:
        """Λ for each coefficient, 0 for a free intercept."""
        return ridge_penalty(self.ridge, self.width, self.free_intercept).diagonal

    @property
    def zero(self) -> float:
        """A distance between models, or one to first order, that counts as none."""
        return 1e-9 * max(1.0, float(np.linalg.norm(self.goal)))

    @cached_property
    def matching(self) -> tuple[Array, Array]:
        """A and c such that A b − c = H⁻¹(Σ b_j g_j − Λθ*), with g_j = −ℓ'(x_j'θ*) x_j.

        H is the learner's curvature at the goal on an even share of the rows, so A b − c is in model units:
        to first order the distance that the rows b leave between the taught model and the goal.
        """
        terms = self.loss.terms(self.X @ self.goal, self.y)
        share = self.most / self.rows
        curvature = share * (self.X.T * terms.curvature) @ self.X + np.diag(self.penalty)
        inverse = np.linalg.pinv(curvature, hermitian=True)
        return inverse @ (-terms.slope[:, None] * self.X).T, inverse @ (self.penalty * self.goal)

    def fit(self, rows: Positions) -> Array:
        """The learner's model on these rows, by the fit that every method is scored with."""
        learner = Learner(self.loss, self.ridge, "free" if self.free_intercept else "none")
        return fitted(self.X[rows], self.y[rows], learner)

    def risk(self, rows: Positions) -> float:
        """‖θ_S − θ*‖, refitted."""
        return metrics.risk(self.fit(rows), self.goal)

    def valid(self, rows: Positions) -> bool:
        """Whether an answer has distinct rows, as many as were asked for."""
        return len(np.unique(rows)) == len(rows) and self.least <= len(rows) <= self.most


def slope(loss: Loss, eta: Any, y: Any, exp: Callable[[Any], Any]) -> Any:
    """ℓ'(η; y) as a formula for a solver's own symbols; `exp` is the solver's exponential."""
    if isinstance(loss, Logistic):
        return -y / (1.0 + exp(y * eta))
    assert isinstance(loss, Squared)
    return eta - y


def gradient_norm(task: Programme, rows: Positions, order: int) -> float:
    """‖A b − c‖ of these rows in the 1-norm or the 2-norm."""
    columns, target = task.matching
    return float(np.linalg.norm(columns[:, rows].sum(axis=1) - target, order))


def greedy(task: Programme) -> Positions:
    """A lesson to start from: add rows while ‖A b − c‖ is smallest, then exchange pairs while it falls."""
    columns, target = task.matching
    chosen = np.zeros(task.rows, dtype=bool)
    residual = -target
    for count in range(task.most):
        sizes = np.where(chosen, np.inf, np.square(residual[:, None] + columns).sum(axis=0))
        best = int(np.argmin(sizes))
        if count >= task.least and sizes[best] >= residual @ residual:
            break
        chosen[best] = True
        residual = residual + columns[:, best]
    for _ in range(10 * task.most):
        inside, outside = np.flatnonzero(chosen), np.flatnonzero(~chosen)
        if not len(outside):
            break
        without = residual[:, None] - columns[:, inside]
        after = (
            np.square(without).sum(axis=0)[:, None]
            + np.square(columns[:, outside]).sum(axis=0)[None, :]
            + 2.0 * without.T @ columns[:, outside]
        )
        out, into = np.unravel_index(int(np.argmin(after)), after.shape)
        if after[out, into] >= (residual @ residual) * (1.0 - 1e-9):
            break
        residual = residual - columns[:, inside[out]] + columns[:, outside[into]]
        chosen[inside[out]], chosen[outside[into]] = False, True
    return np.flatnonzero(chosen)

"""The learner fitted on many subsets of a small pool at once, and how far from the goal each fit ends.

A subset is a line of truth values, one per row; several of them are a matrix with one line each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from superteach.losses.scalar import Loss, Squared
from superteach.types import Array, Mask

Numbers = npt.NDArray[np.intp]

STEPS = 60
"""Newton steps of a fit, at most; four to eight are usual."""
HALVINGS = 30
"""How often a step is halved, at most, until it lowers the objective."""
OUTER = 1 << 22
"""Numbers that the outer products x_j x_j' of all rows may take: then curvatures of many subsets are one product."""
REGULAR = 1e-11
"""Share of the largest eigenvalue of a curvature below which a learner without a penalty has no unique model."""


@dataclass(frozen=True, eq=False)
class SubsetProblem:
    """All rows with their targets, the learner, the goal θ*, and the metric M: the risk of S is ‖M(θ_S − θ*)‖."""

    design: Array
    target: Array
    loss: Loss
    penalties: Array
    """Diagonal of the penalty's curvature, a line for each size of a subset from 0 to all rows."""
    goal: Array
    metric: Array
    refuses: Callable[[int, int], object] = lambda rows, positive: None
    """Why the learner refuses a subset of so many rows, of which so many have a target above 0; None: it does not."""

    @property
    def rows(self) -> int:
        """Rows of the pool."""
        return len(self.target)

    @property
    def cost_of_fit(self) -> float:
        """Multiplications that one of many fits takes the time of, about."""
        return (1.5 if self._linear else 8.0) * (1e4 + 100.0 * len(self.goal) ** 2)

    @property
    def _linear(self) -> bool:
        """Whether one Newton step is the fit."""
        return isinstance(self.loss, Squared) and bool(self.penalties[-1, 0])

    def reduced(self) -> SubsetProblem:
        """The same problem with fewer columns, where there are more of them than rows.

        A penalised learner stays in the span of its rows. So penalised columns are turned to an orthonormal basis of that
        span, and one more column of zeros holds the rest of the goal.
        """
        free = int(self.penalties[-1, -1] == 0.0)  # an intercept without penalty stays as it is
        width = len(self.goal) - free
        if width <= self.rows + 1 or not self.penalties[-1, 0]:
            return self
        basis = np.linalg.qr(self.design[:, :width].T)[0]
        rest = self.goal[:width] - basis @ (basis.T @ self.goal[:width])
        length = float(np.linalg.norm(rest))
        turn = np.zeros((width + free, self.rows + 1 + free))
        turn[:width, : self.rows], turn[:width, self.rows] = basis, rest / (length or 1.0)
        if free:
            turn[-1, -1] = 1.0
        design = self.design @ turn
        design[:, self.rows] = 0.0
        penalties = np.hstack([self.penalties[:, : self.rows + 1], self.penalties[:, width:]])
        return replace(self, design=design, penalties=penalties, goal=turn.T @ self.goal, metric=self.metric @ turn)

    @cached_property
    def _outer(self) -> Array | None:
        if self.design.size * len(self.goal) > OUTER:
            return None
        return np.asarray(np.einsum("jk,jl->jkl", self.design, self.design).reshape(self.rows, -1))

    def hessians(self, weights: Array, sizes: Numbers) -> Array:
        """Σ_j w_j x_j x_j' and the penalty's curvature, for each line of weights."""
        width = len(self.goal)
        if self._outer is not None:
            found = (weights @ self._outer).reshape(-1, width, width)
        else:
            found = np.stack([(self.design.T * line) @ self.design for line in weights])
        found[:, np.arange(width), np.arange(width)] += self.penalties[sizes]
        return np.asarray(found)

    def accepted(self, subsets: Mask) -> Mask:
        """Mark subsets on which the learner can be fitted: a classifier needs two classes."""
        sizes, positive = subsets.sum(axis=1), subsets[:, self.target > 0.0].sum(axis=1)
        pairs, which = np.unique(np.stack([sizes, positive]), axis=1, return_inverse=True)
        fitted = [self.refuses(int(size), int(many)) is None for size, many in pairs.T]
        accepted = np.array(fitted, dtype=bool)[which]
        if not self.penalties[-1].any():
            accepted &= sizes >= len(self.goal)
            some = np.flatnonzero(accepted)
            values = np.linalg.eigvalsh(self.hessians(subsets[some].astype(np.float64), sizes[some]))
            accepted[some] = values[:, 0] > REGULAR * values[:, -1]
        return np.asarray(accepted)

    def risks(self, subsets: Mask) -> tuple[Array, Array]:
        """Fit the learner on every subset; risks (infinite where the learner refuses a subset) and models."""
        models = self.fit(subsets)
        risks = np.linalg.norm((models - self.goal) @ self.metric.T, axis=1)
        risks[~np.isfinite(risks) | ~self.accepted(subsets)] = np.inf
        return risks, models

    def fit(self, subsets: Mask) -> Array:
        """θ_S of every subset, by Newton from the goal on all of them at once."""
        width = len(self.goal)
        sizes, weights = subsets.sum(axis=1), subsets.astype(np.float64)
        models = np.tile(self.goal, (len(subsets), 1))

        def terms(at: Array, some: Numbers) -> tuple[Array, Array, Array]:
            """Objective, gradient and weighted curvatures of rows."""
            value, slope, curvature = self.loss.terms(at @ self.design.T, self.target)
            penalty, inside = self.penalties[sizes[some]], weights[some]
            objective = np.einsum("sj,sj->s", inside, value) + 0.5 * (penalty * at**2).sum(axis=1)
            return objective, (inside * slope) @ self.design + penalty * at, inside * curvature

        some = np.arange(len(subsets))
        # A goal far out may lie where losses do not bend, and Newton's steps lead nowhere.
        models[terms(0.0 * models, some)[0] < terms(models, some)[0]] = 0.0
        value, gradient, curvature = terms(models, some)
        for _ in range(1 if self._linear else STEPS):
            hessian = self.hessians(curvature, sizes[some])
            jitter = 1e-12 * np.einsum("skk->s", hessian) / width + 1e-300
            hessian[:, np.arange(width), np.arange(width)] += jitter[:, None]
            step = -np.linalg.solve(hessian, gradient[..., None])[..., 0]
            slope, before = np.einsum("sk,sk->s", gradient, step), models[some]
            models[some] = before + step
            after = list(terms(models[some], some))
            length = 1.0
            for _ in range(HALVINGS):
                bad = np.flatnonzero(~(after[0] <= value + 1e-4 * length * slope + 1e-12 * np.abs(value)))
                if not len(bad):
                    break
                length *= 0.5
                models[some[bad]] = before[bad] + length * step[bad]
                for part, new in zip(after, terms(models[some[bad]], some[bad]), strict=True):
                    part[bad] = new
            going = np.abs(step).max(axis=1) > 1e-11 * (1.0 + np.abs(models[some]).max(axis=1))
            some, value, gradient, curvature = some[going], *(part[going] for part in after)
            if not len(some):
                break
        return models

"""A small pool on which the paper's problem can be posed as printed, as meant, or half way between."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from superteach import Teacher
from superteach.coordinator.federation import Federation
from superteach.coordinator.methods import dual
from superteach.datasets import make_classification_pool, make_regression_pool
from superteach.engines.threads import Threads
from superteach.learner import Learner
from superteach.losses import Logistic, Loss, Squared
from superteach.optim import Newton
from superteach.optim.problem import DualProblem
from superteach.protocol.queries import BlockRound, Offers, Prepare
from superteach.types import Array
from superteach_lab.fit import fitted

SPARSITY, GOAL_WEIGHT = 0.1, 1000.0
"""The paper's λ_α and λ_θ for logistic regression."""
RIDGE_PER_ROW = 2e-4
"""Λ = ridge·N, which is 1 at N = 5,000."""


class Solved(NamedTuple):
    """α at an optimum, the score that ranks rows by |α| even where α underflows, and the solver's trace."""

    alpha: Array
    score: Array
    trace: dual.Trace


class ErrataPool:
    """Rows dealt out to K teachers, the learner's fit on all of them, and the paper's goal."""

    def __init__(
        self,
        loss: Loss,
        rows: int,
        teachers: int,
        sparsity: float,
        weight: float,
        ridge_per_row: float = RIDGE_PER_ROW,
        seed: int = 0,
    ) -> None:
        self.loss, self.sparsity = loss, sparsity
        if loss.classifies:
            X, labels, owner = make_classification_pool(rows, 10, teachers, random_state=seed)
            y = np.where(labels > 0, 1.0, -1.0)
        else:
            X, y, owner = make_regression_pool(rows, 10, teachers, random_state=seed)
        order = np.argsort(owner, kind="stable")
        self.X, self.y, self.parts = X[order], y[order], np.bincount(owner)
        ridge = ridge_per_row * rows
        truth = fitted(self.X, self.y, Learner(loss, ridge))
        noise = np.random.default_rng(seed).standard_normal(len(truth))
        goal = truth + noise * np.linalg.norm(truth) / np.linalg.norm(noise)
        self.problem = DualProblem(ridge, goal, weight)
        self.threshold = self._weighed(sparsity)

    def _engine(self) -> Threads:
        cuts = np.cumsum(self.parts)[:-1]
        rows = zip(np.split(self.X, cuts), np.split(self.y, cuts), np.split(np.arange(len(self.y)), cuts), strict=True)
        return Threads([Teacher(str(i), *part) for i, part in enumerate(rows)], threads=1)

    def federation(self) -> Federation:
        """A fresh federation over the same rows, told of the loss."""
        self.engine = self._engine()
        self.told = Federation(self.engine)
        self.told.sum(Prepare(self.loss, 0.0))
        return self.told

    def _weighed(self, sparsity: float) -> Array:
        """Tell fresh teachers their thresholds, and return them."""
        dual.weigh(self.federation(), self.problem, sparsity, Newton())
        return np.concatenate([state.threshold for state in self.engine.states() if state.threshold is not None])

    def solved(self, sparsity: float, problem: DualProblem) -> Solved:
        """The optimum of a problem whose thresholds come from this pool's own goal."""
        threshold = self._weighed(sparsity)
        trace = dual.solve(self.told, problem, Newton())
        given = self.X @ trace.point, self.y, threshold
        return Solved(self.loss.best_dual(*given), self.loss.rank(*given), trace)

    def objective(self, alpha: Array) -> float:
        """F(α), the objective that is meant."""
        rows = self.loss.penalised_conjugate(alpha, self.y, self.threshold).sum()
        return float(rows + self.problem.pull(self.X.T @ alpha / self.problem.ridge))

    def block_rounds(self, rounds: int, reduce: Callable[[Array, Array, Array], Array]) -> list[float]:
        """F(α) after each round of Algorithm 1 with a reduce step of one's own: (θ̃, Σαx, α) → θ̃."""
        self._weighed(self.sparsity)
        problem, model, values = self.problem, np.zeros_like(self.problem.goal), []
        for _ in range(rounds):
            beta = (1.0,) * len(self.engine.names)
            query = BlockRound(model, problem.goal, problem.ridge, problem.goal_weight, beta)
            sums: Offers = self.told.sum(query)
            values.append(sums.objective + problem.pull(sums.aggregate / problem.ridge))
            alpha = np.concatenate([state.alpha for state in self.engine.states() if state.alpha is not None])
            model = reduce(model, sums.aggregate, alpha)
        return values


def logistic_pool(rows: int, teachers: int = 5, ridge_per_row: float = RIDGE_PER_ROW) -> ErrataPool:
    """A classification pool with the paper's weights."""
    return ErrataPool(Logistic(), rows, teachers, SPARSITY, GOAL_WEIGHT, ridge_per_row)


def ridge_pool(rows: int, teachers: int = 5) -> ErrataPool:
    """A regression pool with the paper's weights."""
    return ErrataPool(Squared(), rows, teachers, 1.0, 2000.0)

"""The paper's dual problem on a pool: in plain NumPy, for CVXPY, and put to the product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import cvxpy as cp
import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

import superteach as st
from superteach import datasets
from tests.oracles import solve_tightly

KINDS = ("logistic", "ridge")
MILD = {
    "logistic": {"ridge": 10.0, "goal_weight": 10.0, "sparsity": 0.01},
    "ridge": {"ridge": 20.0, "goal_weight": 10.0, "sparsity": 200.0},
}
"""Weights at which all of the paper's terms count on sixty rows: no logistic α underflows, and ridge leaves nine of them."""
PAPERS = {
    "logistic": {"ridge": 1.0, "goal_weight": 1000.0, "sparsity": 0.1},
    "ridge": {"ridge": 1.0, "goal_weight": 2000.0, "sparsity": 1.0},
}
"""The weights of its experiments, at 5,000 rows."""


@dataclass(frozen=True, eq=False)
class Dual:
    """min Σ [ℓ*(−α_j) + λ_α w_j|α_j|] + (Λ/2)‖v‖² + λ_θ‖v − θ*‖², v = (1/Λ) Σ α_j a_j; a = yx for logistic, x for ridge."""

    kind: str
    X: np.ndarray
    y: np.ndarray
    owner: np.ndarray
    goal: np.ndarray
    ridge: float
    goal_weight: float
    sparsity: float

    @cached_property
    def a(self) -> np.ndarray:
        """A row here for each column of the paper's A."""
        return self.X * self.y[:, None] if self.kind == "logistic" else self.X

    @cached_property
    def warm_start(self) -> np.ndarray:
        """α̂ = Λ A'(A A')⁺ θ*."""
        return self.ridge * self.a @ np.linalg.pinv(self.a.T @ self.a, rcond=1e-10, hermitian=True) @ self.goal

    @cached_property
    def weights(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return 1.0 / np.abs(self.warm_start)

    @property
    def teachers(self) -> list[np.ndarray]:
        """The rows of each teacher."""
        return [np.flatnonzero(self.owner == name) for name in np.unique(self.owner)]

    def model(self, alpha: np.ndarray) -> np.ndarray:
        return self.a.T @ alpha / self.ridge

    def objective(self, alpha: np.ndarray) -> float:
        """In plain NumPy; infinite outside the box."""
        if self.kind == "ridge":
            conjugate = alpha**2 / 2 - alpha * self.y
        elif np.all((alpha >= 0.0) & (alpha <= 1.0)):
            conjugate = sum(x * np.log(np.where(x > 0.0, x, 1.0)) for x in (alpha, 1.0 - alpha))
        else:
            return np.inf
        on, v = alpha != 0.0, self.model(alpha)
        penalty = self.sparsity * self.weights[on] @ np.abs(alpha[on])
        return float(
            conjugate.sum() + penalty + self.ridge / 2 * v @ v + self.goal_weight * np.square(v - self.goal).sum()
        )

    def best_change(self, rows: np.ndarray, alpha: np.ndarray, model: np.ndarray) -> np.ndarray:
        """Δα of a teacher with these rows, whose α and the broadcast θ̃ stand as given: its line of Algorithms 2 and 3."""
        new, v = cp.Variable(len(rows)), cp.Variable(len(self.goal))
        change = new - alpha[rows]
        if self.kind == "logistic":
            conjugate = -cp.sum(cp.entr(new)) - cp.sum(cp.entr(1.0 - new))
        else:
            conjugate = cp.sum_squares(new) / 2 - self.y[rows] @ new
        penalty = self.sparsity * self.weights[rows] @ cp.abs(new)
        pull = self.ridge / 2 * cp.sum_squares(v) + self.goal_weight * cp.sum_squares(v - self.goal)
        where = v == model + self.a[rows].T @ change / self.ridge
        solve_tightly(cp.Problem(cp.Minimize(conjugate + penalty + pull), [where]))
        return change.value

    @cached_property
    def best(self) -> np.ndarray:
        """The α that one owner of all rows finds at once."""
        rows = np.arange(len(self.y))
        return self.clipped(self.best_change(rows, np.zeros(len(rows)), np.zeros_like(self.goal)))

    def clipped(self, alpha: np.ndarray) -> np.ndarray:
        """Π, the projection onto the box."""
        return np.clip(alpha, 0.0, 1.0) if self.kind == "logistic" else alpha

    @property
    def learner(self) -> LogisticRegression | Ridge:
        if self.kind == "logistic":
            return LogisticRegression(C=1.0 / self.ridge, fit_intercept=False)
        return Ridge(alpha=self.ridge, fit_intercept=False)

    def teach(self, solver: object, budget: int = 20, **settings) -> st.SuperTeacher:
        """The product's lesson by the paper's method."""
        weights = {"sparsity": self.sparsity, "goal_weight": self.goal_weight}
        teacher = st.SuperTeacher(
            self.learner, self.goal, method="dual", solver=solver, budget=budget, **weights, **settings
        )
        return teacher.fit(self.X, self.y, groups=self.owner)

    def but(self, **changes) -> Dual:
        return replace(self, **changes)


def paper_pool(kind: str, rows: int = 60, features: int = 3, teachers: int = 3, seed: int = 0, **weights) -> Dual:
    """One of the paper's synthetic pools with its goal: the fit of all rows, moved by a noise as long as it is."""
    if kind == "logistic":
        X, y, owner = datasets.make_classification_pool(rows, features, teachers, seed)
        y = 2.0 * y - 1.0
    else:
        X, y, owner = datasets.make_regression_pool(rows, features, teachers, random_state=seed)
    problem = Dual(kind, X, y, owner, np.zeros(features), **{**MILD[kind], **weights})
    fit = np.ravel(problem.learner.fit(X, y).coef_)
    noise = np.random.default_rng(seed).standard_normal(features)
    return problem.but(goal=fit + np.linalg.norm(fit) * noise / np.linalg.norm(noise))


class Watched(st.Threads):
    """Teachers in this process, and every α that they held after a round of Algorithm 1."""

    def __init__(self, teachers) -> None:
        super().__init__(teachers)
        self.alphas: list[np.ndarray] = []

    def sum(self, query, number):
        total = super().sum(query, number)
        if query.name == "BlockRound":
            self.alphas.append(np.concatenate([state.alpha for state in self.states()]))
        return total


def alphas_by_round(problem: Dual, solver: object) -> list[np.ndarray]:
    """The product's α after every round, signed and ordered as the paper's: nobody but its owner sees one elsewhere."""
    engines: list[Watched] = []

    def engine(teachers) -> Watched:
        engines.append(Watched(teachers))
        return engines[-1]

    problem.teach(solver, engine=engine)
    found = []
    for signed in engines[-1].alphas:
        alpha = np.empty_like(signed)
        alpha[np.concatenate(problem.teachers)] = signed
        found.append(alpha * problem.y if problem.kind == "logistic" else alpha)
    return found

"""The paper's misprints, each with a small measurement: python -m superteach_lab.experiments.errata.

Every check is a function that returns plain numbers, computed by the package itself (teachers, queries,
solvers, learner) on seeded synthetic pools. docs/explanation/paper.md tells the same story in words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from superteach import SuperTeacher, Teacher
from superteach.coordinator.federation import Federation
from superteach.coordinator.methods import dual
from superteach.datasets import make_classification_pool, make_regression_pool
from superteach.engines.threads import Threads
from superteach.goals import PerturbedFit
from superteach.learner import Learner
from superteach.losses import Logistic, Loss, Squared
from superteach.optim import Block, Newton
from superteach.optim.problem import DualProblem
from superteach.protocol.queries import BlockRound, Offers, Prepare
from superteach.types import Array
from superteach_lab.fit import fitted

SPARSITY, GOAL_WEIGHT = 0.1, 1000.0
"""The paper's λ_α and λ_θ for logistic regression."""
RIDGE_PER_ROW = 2e-4
"""Λ = ridge·N, which is 1 at N = 5,000."""
CHOSEN = 0.04
"""The share of rows whose choice is compared, about what the paper's table has."""


class Solved(NamedTuple):
    """α at an optimum, the score that ranks rows by |α| even where α underflows, and the solver's trace."""

    alpha: Array
    score: Array
    trace: dual.Trace


class ErrataPool:
    """Rows dealt out to K teachers, the learner's fit on all of them, and the paper's goal."""

    def __init__(self, loss: Loss, rows: int, teachers: int, sparsity: float, weight: float) -> None:
        self.loss, self.sparsity = loss, sparsity
        if loss.classifies:
            X, labels, owner = make_classification_pool(rows, 10, teachers, random_state=0)
            y = np.where(labels > 0, 1.0, -1.0)
        else:
            X, y, owner = make_regression_pool(rows, 10, teachers, random_state=0)
        order = np.argsort(owner, kind="stable")
        self.X, self.y, self.parts = X[order], y[order], np.bincount(owner)
        ridge = RIDGE_PER_ROW * rows
        truth = fitted(self.X, self.y, Learner(loss, ridge))
        noise = np.random.default_rng(0).standard_normal(len(truth))
        goal = truth + noise * np.linalg.norm(truth) / np.linalg.norm(noise)
        self.problem = DualProblem(ridge, goal, weight)
        self.threshold = self._weighed(sparsity)

    def _engine(self) -> Threads:
        cuts = np.cumsum(self.parts)[:-1]
        rows = zip(np.split(self.X, cuts), np.split(self.y, cuts), np.split(np.arange(len(self.y)), cuts), strict=True)
        return Threads([Teacher(str(i), *part) for i, part in enumerate(rows)], threads=1)

    def federation(self) -> Federation:
        """Return a fresh federation over the same rows, which knows the loss."""
        self.engine = self._engine()
        self._federation = Federation(self.engine)
        self._federation.sum(Prepare(self.loss, 0.0))
        return self._federation

    def _weighed(self, sparsity: float) -> Array:
        """Give fresh teachers their thresholds, and return these."""
        dual.weigh(self.federation(), self.problem, sparsity, Newton())
        return np.concatenate([state.threshold for state in self.engine.states() if state.threshold is not None])

    def solved(self, sparsity: float, problem: DualProblem) -> Solved:
        """The optimum of a problem whose thresholds come from this pool's own goal."""
        threshold = self._weighed(sparsity)
        trace = dual.solve(self._federation, problem, Newton())
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
            sums: Offers = self._federation.sum(query)
            values.append(sums.objective + problem.pull(sums.aggregate / problem.ridge))
            alpha = np.concatenate([state.alpha for state in self.engine.states() if state.alpha is not None])
            model = reduce(model, sums.aggregate, alpha)
        return values


def logistic_pool(rows: int, teachers: int = 5) -> ErrataPool:
    """A classification pool with the paper's weights."""
    return ErrataPool(Logistic(), rows, teachers, SPARSITY, GOAL_WEIGHT)


def ridge_pool(rows: int, teachers: int = 5) -> ErrataPool:
    """A regression pool with the paper's weights."""
    return ErrataPool(Squared(), rows, teachers, 1.0, 2000.0)


def shared(first: Array, second: Array) -> float:
    """Share of the rows that both scores put among their best 4 %."""
    count = round(CHOSEN * len(first))
    best = [set(np.argsort(-scores, kind="stable")[:count].tolist()) for scores in (first, second)]
    return len(best[0] & best[1]) / count


# 1 ----------------------------------------------------------------------------------------------------


class ReduceStep(NamedTuple):
    """Objective after every round, with reduce steps as printed, half corrected and as meant."""

    printed: list[float]
    """Logistic, to the letter: θ̃ ← θ̃ + (1/Λ)Σαx, the label missing."""
    labelled: list[float]
    """Logistic, θ̃ ← θ̃ + (1/Λ)Σαyx: the label put back, whole α still added every round."""
    meant: list[float]
    """Logistic, θ̃ = (1/Λ)Σαyx."""
    ridge_printed: list[float]
    """Ridge, whose rows carry no label: θ̃ ← θ̃ + (1/Λ)Σαx."""
    ridge_meant: list[float]


def reduce_step(rows: int = 5000, rounds: int = 5) -> ReduceStep:
    """Run Algorithm 1 with each of those reduce steps."""
    pool, other = logistic_pool(rows), ridge_pool(rows)
    ridge = pool.problem.ridge
    return ReduceStep(
        pool.block_rounds(rounds, lambda model, _, alpha: model + pool.X.T @ np.abs(alpha) / ridge),
        pool.block_rounds(rounds, lambda model, aggregate, _: model + aggregate / ridge),
        pool.block_rounds(rounds, lambda _, aggregate, __: aggregate / ridge),
        other.block_rounds(rounds, lambda model, aggregate, _: model + aggregate / ridge),
        other.block_rounds(rounds, lambda _, aggregate, __: aggregate / ridge),
    )


# 2 ----------------------------------------------------------------------------------------------------


class LostTerms(NamedTuple):
    """What each dropped symbol costs, on one pool."""

    optimum: float
    rounds: int
    meant_after: float
    """F after so many rounds of the meant rule."""
    without_labels_after: float
    """F after as many rounds with θ̃ = (1/Λ)Σαx, the label missing."""
    without_sparsity: float
    """F at the optimum of the problem without λ_α."""
    without_sparsity_shared: float
    """Share of the best 4 % that both optima choose."""


def lost_terms(rows: int = 2000, rounds: int = 10) -> LostTerms:
    """No y_j in an otherwise corrected reduce step, and no λ_α in Algorithm 1."""
    pool = logistic_pool(rows)
    ridge = pool.problem.ridge
    best = pool.solved(SPARSITY, pool.problem)
    meant = pool.block_rounds(rounds, lambda _, aggregate, __: aggregate / ridge)
    unlabelled = pool.block_rounds(rounds, lambda _, __, alpha: pool.X.T @ np.abs(alpha) / ridge)
    unweighted = pool.solved(1.0, pool.problem)
    return LostTerms(
        float(best.trace.objective[-1]),
        rounds,
        meant[-1],
        unlabelled[-1],
        pool.objective(unweighted.alpha),
        shared(best.score, unweighted.score),
    )


# 4 ----------------------------------------------------------------------------------------------------


class Rounds(NamedTuple):
    """How far the block rule lies above the optimum (a share of it), and what β = K does."""

    teachers: int
    optimum: float
    optimum_gap: float
    """Newton's certified gap, a share of the optimum."""
    newton_steps: int
    above: dict[int, float]
    """Rounds → (objective − optimum) / optimum."""
    certified: dict[int, float]
    """Rounds → the block rule's own certified gap / optimum."""
    bold: list[float]
    """Objective of the first rounds with β = K."""


def rounds(teachers: int = 5, rows: int = 5000, at: tuple[int, ...] = (100, 300), regression: bool = False) -> Rounds:
    """Algorithm 1 as meant, β = 1, against Newton's certified optimum; then β = K."""
    pool = (ridge_pool if regression else logistic_pool)(rows, teachers)
    best = pool.solved(pool.sparsity, pool.problem).trace
    optimum = float(best.objective[-1])

    def run(solver: Block) -> dual.Trace:
        federation = pool.federation()
        dual.weigh(federation, pool.problem, pool.sparsity, solver)
        return dual.solve(federation, pool.problem, solver)

    slow = run(Block(max_steps=max(at)))
    bold = run(Block(max_steps=4, beta=float(teachers)))
    return Rounds(
        teachers,
        optimum,
        float(best.gap[-1]) / optimum,
        len(best.gap) - 1,
        {count: float(slow.objective[count - 1]) / optimum - 1.0 for count in at},
        {count: float(slow.gap[count - 1]) / optimum for count in at},
        bold.objective.tolist(),
    )


# 5 ----------------------------------------------------------------------------------------------------


class Halves(NamedTuple):
    """The ridge objective with and without ½ before Σℓ*, and which logistic α are 0."""

    optimum: float
    printed: float
    """F (as meant) at the α that minimises the printed objective."""
    support: int
    printed_support: int
    common_support: int
    shared: float
    logistic_rows: int
    logistic_zeros: int
    """α that are 0 as real numbers, whatever float64 shows: log α = −∞."""
    logistic_underflows: int
    """Rows whose log α lies below what float64 can hold."""
    logistic_least_exponent: float
    """The least log₁₀ α: finite, so that α > 0."""
    free_directions: int
    """N − rank(A): how many directions leave Aα, and so Observation 1's α, undetermined."""


def halves(rows: int = 2000) -> Halves:
    """Solve the printed ridge objective as the meant one with other weights, and look for zeros in logistic α."""
    pool = ridge_pool(rows)
    best = pool.solved(pool.sparsity, pool.problem)
    # ½Σℓ* + rest has the minimiser of Σℓ* + 2·rest, and 2·rest is again a pull of the same form.
    ridge, goal, weight = pool.problem.ridge, pool.problem.goal, pool.problem.goal_weight
    pull = 2.0 * weight + 0.5 * ridge
    printed = pool.solved(2.0 * pool.sparsity, DualProblem(ridge, 2.0 * weight / pull * goal, pull))
    logistic = logistic_pool(rows)
    found = logistic.solved(SPARSITY, logistic.problem)
    log_alpha = -np.logaddexp(0.0, -found.score)
    return Halves(
        float(best.trace.objective[-1]),
        pool.objective(printed.alpha),
        int(np.count_nonzero(best.alpha)),
        int(np.count_nonzero(printed.alpha)),
        int(np.count_nonzero((best.alpha != 0.0) & (printed.alpha != 0.0))),
        shared(best.score, printed.score),
        rows,
        int(np.count_nonzero(np.isneginf(log_alpha))),
        int(np.count_nonzero(log_alpha < np.log(np.nextafter(0.0, 1.0)))),
        float(log_alpha.min() / np.log(10.0)),
        rows - int(np.linalg.matrix_rank(logistic.X)),
    )


# 6 ----------------------------------------------------------------------------------------------------


class Scaled(NamedTuple):
    """Mean risk, super-teaching ratio and share of rows of the best lessons, for both readings of λ at one N."""

    rows: int
    per_row: tuple[float, float, float]
    """Λ = 2e-4·N."""
    constant: tuple[float, float, float]
    """Λ = 1."""


def scaling(rows: int, seeds: Sequence[int] = (0, 1, 2)) -> Scaled:
    """Teach the paper's goal with λ_α and λ_θ as printed, Λ = ridge·N or Λ = 1."""
    found = np.zeros((2, 3))
    for seed in seeds:
        X, y, owner = make_classification_pool(rows, 10, 5, random_state=seed)
        for line, ridge in enumerate((RIDGE_PER_ROW * rows, 1.0)):
            teacher = SuperTeacher(
                Learner(Logistic(), ridge), PerturbedFit(seed), method="dual", budget="best", measure="coefficients"
            )
            lesson = teacher.fit(X, y, groups=owner).lesson_
            found[line] += np.array([lesson.risk, lesson.ratio, lesson.fraction]) / len(seeds)
    (risk, ratio, share), (other, other_ratio, other_share) = found.tolist()
    return Scaled(rows, (risk, ratio, share), (other, other_ratio, other_share))


# ------------------------------------------------------------------------------------------------------

CHECKS: dict[str, Callable[[], NamedTuple]] = {
    "1 reduce step, objective by round": reduce_step,
    "2 symbols lost": lost_terms,
    "4 a hundred rounds, logistic": rounds,
    "4 a hundred rounds, logistic, ten teachers": partial(rounds, 10),
    "4 a hundred rounds, ridge": partial(rounds, regression=True),
    "5 the stray half, and the support": halves,
    **{f"6 scaling, N = {rows:,}": partial(scaling, rows) for rows in (5_000, 50_000, 200_000)},
}
"""The errata's numbers in docs/explanation/paper.md, and what is measured for each; 3 is `superteach reproduce theorem`."""


def main() -> None:
    """Measure everything, and print each figure with its name."""
    for title, measure in CHECKS.items():
        print(title, flush=True)
        for name, value in measure()._asdict().items():
            print(f"    {name}: {value}", flush=True)


if __name__ == "__main__":
    main()

"""The paper's misprints, each with a small measurement: python -m superteach_lab.experiments.errata.

Every check is a function that returns plain numbers, computed by the package itself (teachers, queries,
solvers, learner) on seeded synthetic pools. docs/explanation/paper.md tells the same story in words.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import expit

from superteach import SuperTeacher
from superteach.coordinator.methods import dual
from superteach.datasets import make_classification_pool
from superteach.goals import PerturbedFit
from superteach.learner import Learner
from superteach.losses import Logistic, Loss, Squared
from superteach.optim import Block, Newton
from superteach.optim.function import Function, Moments
from superteach.optim.problem import DualProblem, Quadratic
from superteach.types import Array
from superteach_lab.experiments.pool import RIDGE_PER_ROW, SPARSITY, ErrataPool, logistic_pool, ridge_pool
from superteach_lab.fit import fitted

HEAVY_RIDGE = 1e-2
"""A Λ at which (Λ/2)‖v‖² is no longer a small part of the objective."""
CHOSEN = 0.04
"""The share of rows whose choice is compared, about what the paper's table has."""


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


class NormsPerRow(NamedTuple):
    """The logistic objective with Σ_j‖α_j x_j/Λ‖² (printed) beside the one with ‖Σ_j α_j x_j/Λ‖² (meant)."""

    meant_at_meant: float
    """The least value of the meant one."""
    meant_at_printed: float
    """Its value at the printed one's minimiser."""
    printed_at_meant: float
    printed_at_printed: float
    """The least value of the printed one."""
    gap: float
    """Duality gap of that minimiser, so that it can be trusted."""
    shared: float
    """Share of the best 4 % that both minimisers choose."""


def norms_per_row(rows: int = 2000, ridge_per_row: float = RIDGE_PER_ROW) -> NormsPerRow:
    """Minimise both, and evaluate both at both minimisers."""
    pool = logistic_pool(rows, ridge_per_row=ridge_per_row)
    best = pool.solved(SPARSITY, pool.problem)
    printed, score, gap = _least_per_row(pool)
    return NormsPerRow(
        pool.objective(best.alpha),
        pool.objective(printed),
        _objective_per_row(pool, best.alpha),
        _objective_per_row(pool, printed),
        gap,
        shared(best.score, score),
    )


def _row_curvature(pool: ErrataPool) -> Array:
    """‖x_j‖²/Λ, the second derivative of (Λ/2)‖α_j x_j/Λ‖²."""
    return np.asarray(np.square(pool.X).sum(axis=1) / pool.problem.ridge)


def _objective_per_row(pool: ErrataPool, alpha: Array) -> float:
    """The logistic objective with the norm inside the sum, as printed."""
    rows = pool.loss.penalised_conjugate(alpha, pool.y, pool.threshold) + 0.5 * _row_curvature(pool) * alpha**2
    away = pool.X.T @ alpha / pool.problem.ridge - pool.problem.goal
    return float(rows.sum() + pool.problem.goal_weight * away @ away)


def _least_per_row(pool: ErrataPool) -> tuple[Array, Array, float]:
    """α, score and duality gap of the printed logistic objective's minimiser, by Newton on its own dual."""
    problem, curvature = pool.problem, _row_curvature(pool)

    def logit_of(t: Array) -> Array:
        """The logit s of the best share: s + curvature·σ(s) = t − c, by bisection."""
        low, high = t - pool.threshold - curvature, t - pool.threshold
        for _ in range(60):
            middle = 0.5 * (low + high)
            above = middle + curvature * expit(middle) > t - pool.threshold
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return np.asarray(0.5 * (low + high))

    def values(point: Array) -> tuple[float, Array, Array]:
        t = pool.y * (pool.X @ point)
        share = expit(logit_of(t))
        alpha = pool.y * share
        rows = pool.loss.penalised_conjugate(alpha, pool.y, pool.threshold) + 0.5 * curvature * share**2
        slack = share * (1.0 - share)
        return float((t * share - rows).sum()), alpha, slack / (1.0 + curvature * slack)

    class Rows:
        """The dual's sums over rows, as a solver asks for them."""

        def moments(self, point: Array, order: int) -> Moments:
            value, alpha, weights = values(point)
            return Moments(value, pool.X.T @ alpha, pool.X.T @ (weights[:, None] * pool.X))

        def values(self, point: Array, direction: Array, steps: Array) -> Array:
            return np.array([values(point + step * direction)[0] for step in steps])

    stiff, width = problem.ridge**2 / (2.0 * problem.goal_weight), len(problem.goal)
    smooth = Quadratic(np.full(width, stiff), problem.ridge * problem.goal)
    function = Function(Rows(), smooth)
    point = Newton().minimise(function, np.zeros(width), function.flat(1e-10)).point
    value, alpha, _ = values(point)
    score = logit_of(pool.y * (pool.X @ point))
    return alpha, score, _objective_per_row(pool, alpha) + value + smooth.value(point)


# 3 ----------------------------------------------------------------------------------------------------


class Theorem(NamedTuple):
    """How often each form of Theorem 1's bound fails, and the largest risk / bound of the corrected one."""

    problems: int
    printed: int
    strongly_convex: int
    """With λ/K-strong convexity put right, but the |S_i| still missing."""
    corrected: int
    tightest: float
    example: tuple[float, float, float]
    """One row against a hundred: the risk, the bound without |S_i|, the corrected bound."""


def theorem(problems: int = 500, seed: int = 0) -> Theorem:
    """Random lessons of K teachers, Λ/K each, against the lesson that joins them, with Λ."""
    rng = np.random.default_rng(seed)
    failed, tightest = np.zeros(3, dtype=int), 0.0
    for number in range(problems):
        loss, smoothness = ((Logistic(), 0.25), (Squared(), 1.0))[number % 2]
        risk, sizes, risks, steepest, ridge = _random_lessons(rng, loss)
        tau, K = smoothness * steepest, len(sizes)
        bounds = (
            (tau / (ridge * K) + 1.0 / K**2) * risks.sum(),
            (tau / ridge + 1.0 / K) * risks.sum(),
            ((sizes * tau / ridge + 1.0 / K) * risks).sum(),
        )
        failed += [risk > bound * (1.0 + 1e-9) for bound in bounds]
        tightest = max(tightest, float(risk / bounds[2]))
    return Theorem(problems, int(failed[0]), int(failed[1]), int(failed[2]), tightest, _unequal_lessons())


def _unequal_lessons(ridge: float = 10.0, rows: int = 100) -> tuple[float, float, float]:
    """Ridge with x = 1: a teacher with one row has reached the goal 1, one with many rows of y = 0 has not."""
    one, many = np.array([1.0 + ridge / 2.0]), np.zeros(rows)
    lessons = (one, ridge / 2.0), (many, ridge / 2.0), (np.append(one, many), ridge)
    models = (fitted(np.ones((len(y), 1)), y, Learner(Squared(), weight)) for y, weight in lessons)
    first, second, joint = (0.5 * float(model[0] - 1.0) ** 2 for model in models)
    alone = 1.0 / ridge + 0.5
    return joint, alone * (first + second), alone * first + (rows / ridge + 0.5) * second


def _random_lessons(rng: np.random.Generator, loss: Loss) -> tuple[float, Any, Array, float, float]:
    """½‖θ_S − θ*‖², every |S_i|, every ½‖θ_{S_i} − θ*‖², max ‖x_j‖² and Λ of one random problem."""
    K, width = int(rng.integers(2, 7)), int(rng.integers(2, 5))
    sizes = np.rint(np.exp(rng.uniform(0.0, np.log(50.0), K))).astype(int)
    X = rng.standard_normal((sizes.sum(), width))
    X *= 10.0 ** rng.uniform(-1.0, 1.0) / np.linalg.norm(X, axis=1, keepdims=True)
    signal = X @ rng.standard_normal(width) + rng.standard_normal(len(X))
    y = np.where(signal > 0.0, 1.0, -1.0) if loss.classifies else signal
    ridge = float(10.0 ** rng.uniform(-2.0, 4.0))
    parts = zip(*(np.split(part, np.cumsum(sizes)[:-1]) for part in (X, y)), strict=True)
    models = np.array([fitted(X, y, Learner(loss, ridge / K)) for X, y in parts])
    # A goal anywhere, or one that the teacher with the fewest rows has reached.
    anywhere = 10.0 ** rng.uniform(-1.0, 1.0) * rng.standard_normal(width)
    goal = anywhere if rng.random() < 0.5 else models[int(np.argmin(sizes))]
    risks = 0.5 * np.square(models - goal).sum(axis=1)
    risk = 0.5 * float(np.square(fitted(X, y, Learner(loss, ridge)) - goal).sum())
    return risk, sizes, risks, float(np.square(X).sum(axis=1).max()), ridge


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


def _arrows(values: Sequence[float]) -> str:
    return " → ".join(f"{value:,.0f}" for value in values)


def _evidence() -> list[tuple[str, str, str, Callable[[], str]]]:
    """(number, printed, meant, a function that measures and says what it found)."""

    def first() -> str:
        found = reduce_step()
        return (
            f"objective, rounds 1–5. Logistic: printed {_arrows(found.printed)}; with y_j put back "
            f"{_arrows(found.labelled)}; meant {_arrows(found.meant)}. "
            f"Ridge: printed {_arrows(found.ridge_printed)}; meant {_arrows(found.ridge_meant)}"
        )

    def second() -> str:
        found = lost_terms()
        labels = (
            f"optimum {found.optimum:,.1f}; after {found.rounds} rounds {found.meant_after:,.0f}, without y_j "
            f"{found.without_labels_after:,.0f}. Without λ_α the minimiser has {found.without_sparsity:,.1f} and shares "
            f"{found.without_sparsity_shared:.0%} of the best rows"
        )
        parts = [labels]
        for ridge in (RIDGE_PER_ROW, HEAVY_RIDGE):
            norms = norms_per_row(ridge_per_row=ridge)
            parts.append(
                f"Norms per row, Λ = {ridge:g}·N: the meant minimiser has {norms.meant_at_meant:.4f} (print: "
                f"{norms.printed_at_meant:.4f}), the printed one {norms.meant_at_printed:.4f} (print: "
                f"{norms.printed_at_printed:.4f}), and they share {norms.shared:.0%}"
            )
        return ". ".join(parts)

    def third() -> str:
        found = theorem()
        return (
            f"violated in {found.printed} of {found.problems} random problems as printed, {found.strongly_convex} with "
            f"λ/K alone put right, {found.corrected} as corrected (tightest risk/bound {found.tightest:.4f}). "
            f"One row against a hundred: risk "
            f"{found.example[0]:.3f}, bound without |S_i| {found.example[1]:.3f}, corrected {found.example[2]:.3f}"
        )

    def fourth() -> str:
        parts = []
        for regression, teachers in ((False, 5), (False, 10), (True, 5)):
            found = rounds(teachers, regression=regression)
            above = ", ".join(f"{share:.2%} after {count}" for count, share in found.above.items())
            own = ", ".join(f"{share:.0%}" for share in found.certified.values())
            parts.append(
                f"{'ridge' if regression else 'logistic'}, K = {teachers}: {above} (own certificates {own}; Newton: "
                f"{found.newton_steps} steps, gap {found.optimum_gap:.0e}); β = K: {_arrows(found.bold)}"
            )
        return "rounds above the optimum: " + ". ".join(parts)

    def fifth() -> str:
        found = halves()
        return (
            f"ridge: the printed minimiser has F = {found.printed:,.0f}, the optimum {found.optimum:,.0f}; "
            f"{found.printed_support} and {found.support} non-zeros, {found.common_support} in common. Logistic: "
            f"{found.logistic_zeros} of {found.logistic_rows} α are 0, {found.logistic_underflows} are less than "
            f"float64 can hold (the least is 10^{found.logistic_least_exponent:.0f}). "
            f"{found.free_directions} directions leave Aα as it is"
        )

    def sixth() -> str:
        parts = []
        for rows in (5_000, 50_000, 200_000):
            found = scaling(rows)
            (risk, _, share), (other, _, other_share) = found.per_row, found.constant
            parts.append(f"N = {rows:,}: risk {risk:.2f} at {share:.1%} against {other:.2f} at {other_share:.1%}")
        return "mean over three pools, Λ = 2e-4·N against Λ = 1. " + "; ".join(parts)

    return [
        ("1", "reduce step θ̃ ← θ̃ + (1/λ)Σαx", "θ̃ = (1/Λ)Σαyx; a round adds (β/K)Δα alone", first),
        ("2", "no y_j in the reduce step, no λ_α in Algorithm 1, Σ‖·‖²", "y_j, λ_α and ‖Σ·‖²", second),
        ("3", "R*(θ_S) ≤ (τ/(λK) + 1/K²) Σ R*(θ_Si)", "R*(θ_S) ≤ Σ (|S_i|τ/Λ + 1/K) R*(θ_Si)", third),
        ("4", "T = 100 is enough; 1 ≤ β ≤ K", "a certified gap or a stated limit; β near 1", fourth),
        ("5", "½ before Σℓ* (ridge); the support is found", "no ½; logistic α is never 0", fifth),
        ("6", "λ, 1/n and 1/(λn) in turn", "Λ = ridge·N everywhere", sixth),
    ]


def main() -> None:
    """Measure everything and print one table."""
    table = Table(title="Errata to the print, measured", title_justify="left", show_lines=True, expand=True)
    for name, ratio in (("", 1), ("printed", 10), ("meant", 10), ("measured", 26)):
        table.add_column(name, ratio=ratio, overflow="fold")
    started = time.perf_counter()
    for number, printed, meant, measure in _evidence():
        table.add_row(number, printed, meant, measure())
    console = Console(width=140)
    console.print(table)
    console.print(f"{time.perf_counter() - started:.0f} seconds")


if __name__ == "__main__":
    main()

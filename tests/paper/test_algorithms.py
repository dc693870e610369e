"""The paper's algorithms, against their own lines solved by CVXPY. Errata are numbered as in docs/explanation/paper.md."""

from __future__ import annotations

import numpy as np
import pytest

from superteach.optim import Block, Newton
from tests.delayed import Delayed
from tests.paper.dual import KINDS, PAPERS, Dual, alphas_by_round, paper_pool

each_kind = pytest.mark.parametrize("kind", KINDS)


def rounds_of(
    problem: Dual, rounds: int, betas: tuple[float, ...] = (1.0, 1.0, 1.0), printed: bool = False
) -> list[np.ndarray]:
    """α after every round of Algorithm 2 or 3, with the reduce step as it is meant, or to the letter (erratum 1)."""
    alpha, model, found = np.zeros(len(problem.y)), np.zeros_like(problem.goal), []
    for _ in range(rounds):
        changed = alpha.copy()
        for rows, beta in zip(problem.teachers, betas, strict=True):
            step = beta / len(betas) * problem.best_change(rows, alpha, model)
            changed[rows] = problem.clipped(alpha[rows] + step)
        alpha = changed
        model = model + problem.X.T @ alpha / problem.ridge if printed else problem.model(alpha)
        found.append(alpha)
    return found


def check_certified(problem: Dual, lesson, tolerance: float) -> None:
    """The end is CVXPY's optimum, and no gap on the way claims more than it may."""
    optimum = problem.objective(problem.best)
    size = abs(optimum)
    assert lesson.converged, lesson.reason
    assert lesson.gap[-1] <= tolerance * abs(lesson.objective[-1])
    assert lesson.objective[-1] == pytest.approx(optimum, rel=1e-8 + tolerance)
    # CVXPY's point is feasible, so its objective lies above the true optimum by its own tolerance, and never below.
    assert np.all(lesson.objective - lesson.gap <= optimum + 1e-12 * size)
    assert np.all(lesson.objective >= optimum - 1e-8 * size)


@each_kind
@pytest.mark.parametrize("betas", [(1.0, 1.0, 1.0), (0.5, 1.0, 1.5)])
def test_every_round_is_the_papers(kind, betas):
    """Algorithms 2 and 3: K exact local solves at one broadcast θ̃, a step of β_i/K of each, θ̃ = (1/Λ) Σ α_j a_j."""
    problem = paper_pool(kind)
    solver, wanted = Block(max_steps=5, beta=betas), rounds_of(problem, 5, betas)
    for found, alpha in zip(alphas_by_round(problem, solver), wanted, strict=True):
        np.testing.assert_allclose(found, alpha, atol=1e-5)
    objective = problem.teach(solver).lesson_.objective
    np.testing.assert_allclose(objective, [problem.objective(alpha) for alpha in wanted], rtol=1e-6)


@each_kind
def test_rounds_approach_the_optimum(kind):
    """Algorithm 1: after enough rounds the objective is the optimum, to the gap that is certified."""
    problem = paper_pool(kind)
    check_certified(problem, problem.teach(Block(tolerance=1e-6, max_steps=400)).lesson_, 1e-6)


@each_kind
@pytest.mark.parametrize("slow", [1.0, 10.0])
def test_asynchronous_blocks_end_at_the_optimum(kind, slow):
    """Each teacher alone is asked and answers for a θ̃ that is stale by then, one of them ten times as late as the others."""
    problem = paper_pool(kind)
    lesson = problem.teach(
        Block(tolerance=1e-8, max_steps=1000, staleness=8),
        engine=lambda teachers: Delayed(teachers, lambda position: 1.0 if position else slow),
    ).lesson_
    check_certified(problem, lesson, 1e-8)
    assert {entry.teacher for entry in lesson.ledger if entry.stage == "dual"} >= set(lesson.teachers)


@each_kind
@pytest.mark.parametrize("goal_weight", [0.0, 10.0, 1000.0])
def test_newton_on_d_unknowns_reaches_the_same_optimum(kind, goal_weight):
    """From no pull at all to the paper's, in a dozen steps; each one proves more than the last."""
    problem = paper_pool(kind, goal_weight=goal_weight)
    lesson = problem.teach(Newton()).lesson_
    check_certified(problem, lesson, 1e-10)
    assert len(lesson.objective) <= 20
    bound = lesson.objective - lesson.gap
    assert np.all(np.diff(bound) >= -1e-10 * np.abs(bound[1:]))


@each_kind
def test_the_printed_reduce_step_runs_away(kind):
    """Erratum 1: θ̃ ← θ̃ + (1/λ) Σ α_j x_j adds every α again each round; as it is meant, the objective falls."""
    problem = paper_pool(kind, goal_weight=1000.0)
    printed = [problem.objective(alpha) for alpha in rounds_of(problem, 4, printed=True)]
    meant = problem.teach(Block(max_steps=4)).lesson_.objective
    assert printed[0] == pytest.approx(meant[0], rel=1e-6)
    assert np.all(np.diff(meant) < 0.0)
    assert max(printed) - printed[0] > 100.0 * (meant[0] - meant[-1])


def all_alike(kind: str, teachers: int) -> Dual:
    """Teachers with the same rows, whose steps point the same way: the worst case for steps that are added up."""
    one = paper_pool(kind, 20, 3, 1, goal_weight=1000.0)
    X, y, owner = np.tile(one.X, (teachers, 1)), np.tile(one.y, teachers), np.repeat(np.arange(teachers), 20)
    return one.but(X=X, y=y, owner=owner)


@each_kind
@pytest.mark.parametrize("beta", [0.5, 1.0, 1.9])
@pytest.mark.parametrize("alike", [False, True], ids=["paper's pool", "all alike"])
def test_beta_below_2_is_safe(kind, beta, alike):
    """No round raises F, whatever the rows. Let F end in (q/2)‖v − c‖², and D_i be the change of v in an exact local step:
    that lowers the rest of F by −q⟨v + D_i − c, D_i⟩ at least, so β/K of all K steps change F by at most
    −(qβ/K)(1 − β/2) Σ‖D_i‖²."""
    problem = all_alike(kind, 4) if alike else paper_pool(kind, teachers=4, goal_weight=1000.0)
    objective = problem.teach(Block(max_steps=30, beta=beta)).lesson_.objective
    assert np.all(np.diff(objective) <= 1e-12 * np.abs(objective[1:]))
    assert objective[-1] < objective[0]


@pytest.mark.parametrize("beta", [2.5, 4.0])
def test_beta_above_2_can_diverge(beta):
    """Erratum 4: the paper allows up to β = K; where teachers are alike θ̃ then overshoots by β − 1 each round."""
    objective = all_alike("ridge", 4).teach(Block(max_steps=12, beta=beta)).lesson_.objective
    growth = objective[6:] / objective[5:-1]
    np.testing.assert_allclose(growth, (beta - 1.0) ** 2, rtol=0.2)


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_logistic_alpha_stays_in_its_box(beta):
    """0 ≤ α ≤ 1 at every round. Π never acts: with β ≤ K a step ends between two points of the box."""
    problem = paper_pool("logistic", goal_weight=1000.0)
    alphas = np.array(alphas_by_round(problem.but(goal=5.0 * problem.goal), Block(max_steps=20, beta=beta)))
    assert alphas.shape == (20, 60)
    assert np.all((alphas >= 0.0) & (alphas <= 1.0))
    assert alphas[-1].max() > 0.95, "nothing came near an end of the box"


@each_kind
@pytest.mark.parametrize("dependent", [False, True])
def test_the_warm_start_is_the_least_norm_solution(kind, dependent):
    """Weights 1/|α̂_j|, α̂ = Λ A'(A A')⁺ θ*: a penalty that leaves no α ranks rows by |α̂_j| alone, α̂_j = 0 last."""
    problem = paper_pool(kind)
    X = problem.X.copy()
    X[7] = 0.0
    goal = problem.goal
    if dependent:  # a column that is the sum of two, and a goal that rows can express
        X, goal = np.column_stack([X, X[:, 0] + X[:, 1]]), np.append(goal, goal[0] + goal[1])
    heavy = problem.but(X=X, goal=goal, sparsity=1e9)
    order = np.argsort(-np.abs(heavy.warm_start))
    assert order[-1] == 7
    for budget in (5, 23, 59):
        taught = heavy.teach(Newton(), budget)
        assert set(taught.sample_indices_) == set(order[:budget])
        assert taught.lesson_.objective[-1] == pytest.approx(heavy.goal_weight * goal @ goal, rel=1e-9)


@each_kind
@pytest.mark.parametrize("teachers", [1, 4])
def test_counts_choose_what_a_central_sort_of_alpha_would(kind, teachers):
    """The |S| largest |α| over all teachers, ties included; where ridge leaves no α, what lies nearest to having one."""
    once = paper_pool(kind, 30, **({"sparsity": 50.0} if kind == "ridge" else {}))
    problem = once.but(  # every row three times, at different teachers
        X=np.tile(once.X, (3, 1)), y=np.tile(once.y, 3), owner=(np.arange(90) // 30 + np.arange(90)) % teachers
    )
    v = problem.model(problem.best)
    p = -(v + 2.0 * problem.goal_weight / problem.ridge * (v - problem.goal))
    activation = problem.a @ p if kind == "logistic" else np.abs(problem.y + problem.a @ p)
    score = activation - problem.sparsity * problem.weights
    if kind == "ridge":
        support = np.count_nonzero(score > 0.0)
        np.testing.assert_allclose(np.abs(problem.best), np.maximum(score, 0.0), atol=1e-5)
        assert 10 < support < 46, "budgets are to lie on both sides of the support"
    else:
        np.testing.assert_allclose(problem.best, 1.0 / (1.0 + np.exp(-score)), atol=1e-5)
    ranked = np.sort(score)[::-1]
    for budget in (25, 46, 77) if kind == "logistic" else (10, 25, 46, 77):
        chosen = problem.teach(Newton(), budget).sample_indices_
        np.testing.assert_allclose(np.sort(score[chosen])[::-1], ranked[:budget], atol=1e-5)


@pytest.mark.parametrize(("kind", "teachers"), [("logistic", 5), ("logistic", 10), ("ridge", 5)])
def test_the_objective_falls_but_not_to_the_optimum_in_100_rounds(kind, teachers):
    """The convergence figure and erratum 4, on the paper's smallest pool: after T = 100 rounds F is 1 % too high or more."""
    problem = paper_pool(kind, 5000, 10, teachers, **PAPERS[kind])
    newton, block = (problem.teach(solver).lesson_ for solver in (Newton(), Block(max_steps=100)))
    optimum = newton.objective[-1]
    assert newton.gap[-1] <= 1e-10 * abs(optimum)
    assert len(block.objective) == 100
    assert np.all(np.diff(block.objective) < 0.0)
    assert block.objective[-1] > optimum + 0.01 * abs(optimum)


@each_kind
def test_a_round_costs_kd_numbers(kind):
    """O(TKd): T rounds cost each of K teachers a number of numbers that is affine in d, at most 3 vectors, and not in N."""

    def numbers(rows: int = 60, features: int = 3, teachers: int = 3, rounds: int = 4) -> tuple[float, float]:
        """Numbers that came back from teachers, and that went to each besides one β a teacher, per round."""
        problem = paper_pool(kind, rows, features, teachers)
        lesson = problem.teach(Block(max_steps=rounds, tolerance=0.0)).lesson_
        *found, last = [entry for entry in lesson.ledger if entry.stage == "dual"]  # the last certifies the end
        assert len(found) == rounds
        assert last.bytes_in + last.bytes_out <= 8 * teachers * (3 * features + 8)
        back, out = (sum(getattr(one, name) for one in found) / 8 for name in ("bytes_in", "bytes_out"))
        return back / rounds, out / rounds / teachers - teachers

    back, out = numbers()
    assert numbers(rows=600) == (back, out)
    assert numbers(rounds=12) == (back, out)
    assert numbers(teachers=6) == (2 * back, out)
    widths = np.array([numbers(features=d) for d in (2, 4, 8)])
    per_feature = np.diff(widths, axis=0) / [[2], [4]]
    np.testing.assert_array_equal(per_feature[0], per_feature[1])
    assert np.all(per_feature[0] <= [3 * 3, 3]), "more than three vectors went"
    assert np.all(widths[0] - 2 * per_feature[0] <= [3 * 8, 8]), "more than a few numbers beside vectors went"

"""The paper's Algorithm 1: it descends, its gaps hold, and the printed reduce step does not."""

from __future__ import annotations

import numpy as np
import pytest

import superteach as st
from superteach.coordinator.methods import dual
from superteach.exceptions import SettingError
from superteach.losses import LOSSES
from superteach.optim import Block, Newton
from superteach.optim.problem import DualProblem
from superteach.protocol.queries import BlockRound

ROWS, FEATURES, RIDGE, SPARSITY = 120, 4, 30.0, 0.2
GOAL = 0.7 * np.random.default_rng(5).standard_normal(FEATURES)
PROBLEM = DualProblem(RIDGE, GOAL, goal_weight=1.0)

each_kind = pytest.mark.parametrize("kind", sorted(LOSSES))
teachers = pytest.mark.parametrize("K", [1, 3, 7])


def plain_objective(kind: str, X, y, threshold, alpha, problem: DualProblem) -> float:
    """F(α) in plain NumPy, infinite outside the domain."""

    def entropy(x: np.ndarray) -> np.ndarray:
        safe = np.where(x > 0.0, x, 1.0)
        return np.where(x >= 0.0, np.where(x > 0.0, x, 0.0) * np.log(safe), np.inf)

    share = y * alpha
    conjugate = {
        "logistic": lambda: entropy(share) + entropy(1.0 - share),
        "squared": lambda: alpha**2 / 2 - alpha * y,
        "squared_hinge": lambda: np.where(share >= 0.0, share**2 / 4 - share, np.inf),
        "huber": lambda: np.where(np.abs(alpha) <= 1.35, alpha**2 / 2 - alpha * y, np.inf),
        "poisson": lambda: entropy(y - alpha) - (y - alpha),
    }[kind]()
    v = X.T @ alpha / problem.ridge
    away = v - problem.goal
    pull = problem.ridge / 2 * v @ v + problem.goal_weight * away @ away
    return float(conjugate.sum() + (threshold * np.abs(alpha)).sum() + pull)


class Run:
    """One solve, with the α of all teachers after every round."""

    def __init__(self, kind: str, K: int, solver: Block, pool, federation_of, problem=PROBLEM) -> None:
        self.kind, self.problem = kind, problem
        self.X, self.y = pool(kind, ROWS, FEATURES, 21)
        self.alphas: list[np.ndarray] = []
        self.federation = federation_of(self.X, self.y, K, LOSSES[kind](), watch=self.look)
        dual.weigh(self.federation, problem, SPARSITY, solver)
        self.threshold = self.pooled("threshold")
        self.trace = dual.solve(self.federation, problem, solver)

    def pooled(self, name: str) -> np.ndarray:
        return np.concatenate([getattr(state, name) for state in self.federation.engine.states()])

    def look(self, entry) -> None:
        if entry.query == "BlockRound":
            self.alphas.append(self.pooled("alpha"))

    def objective(self, alpha: np.ndarray) -> float:
        return plain_objective(self.kind, self.X, self.y, self.threshold, alpha, self.problem)

    def newton(self, federation_of) -> dual.Trace:
        federation = federation_of(self.X, self.y, 1, LOSSES[self.kind]())
        dual.weigh(federation, self.problem, SPARSITY, Newton())
        return dual.solve(federation, self.problem, Newton(tolerance=1e-13))

    def check_rounds(self, optimum: float) -> None:
        """Each recorded objective is F of that round's α, descends, and has a gap that holds."""
        objective, gap = self.trace.objective, self.trace.gap
        found = np.array([self.objective(alpha) for alpha in self.alphas])
        np.testing.assert_allclose(objective, found[: len(objective)], rtol=1e-11)
        rounding = 1e-12 * np.abs(objective)
        assert np.all(np.diff(objective) <= rounding[1:])
        assert np.all(gap >= objective - optimum - 2 * rounding)
        assert np.all(objective >= optimum - 2 * rounding)
        low, high = LOSSES[self.kind]().domain(self.y)
        for alpha in self.alphas:
            assert np.all((low <= alpha) & (alpha <= high))


@each_kind
@teachers
def test_descends_to_the_optimum(kind, K, pool, federation_of):
    """Round by round F falls, every gap holds, and the end is one optimum for 1, 3 and 7 teachers."""
    run = Run(kind, K, Block(tolerance=1e-7, max_steps=200), pool, federation_of)
    best = run.newton(federation_of)
    optimum = best.objective[-1]
    assert run.trace.converged, run.trace.reason
    assert run.trace.objective[-1] == pytest.approx(optimum, rel=1e-6)
    assert run.trace.gap[-1] <= 1e-7 * abs(run.trace.objective[-1])
    run.check_rounds(optimum)
    alpha = LOSSES[kind]().best_dual(run.X @ best.point, run.y, run.threshold)
    np.testing.assert_allclose(run.X.T @ run.alphas[-1], run.X.T @ alpha, atol=3e-3 * RIDGE)
    assert np.abs(run.alphas[-1] - alpha).max() <= 5e-3 * np.abs(alpha).max()


@each_kind
def test_descends_under_the_papers_pull(kind, pool, federation_of):
    """With a strong pull the limit of rounds comes first: that is said, and every gap still holds."""
    problem = DualProblem(RIDGE, GOAL, goal_weight=1000.0)
    run = Run(kind, 5, Block(max_steps=40), pool, federation_of, problem)
    assert not run.trace.converged
    assert "limit of 40 rounds" in run.trace.reason
    assert len(run.trace.objective) == len(run.alphas) == 40
    run.check_rounds(run.newton(federation_of).objective[-1])


def test_one_teacher_needs_one_round(pool, federation_of):
    """A single block is the whole problem, solved exactly."""
    run = Run("squared", 1, Block(tolerance=1e-12), pool, federation_of)
    assert len(run.alphas) <= 2


@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_beta_for_each_teacher(kind, pool, federation_of):
    """Each teacher moves by its own β_i/K: the first round shows it, and the optimum stays."""
    betas = (0.5, 1.0, 1.5)
    run = Run(kind, 3, Block(tolerance=1e-7, max_steps=300, beta=betas), pool, federation_of)
    even = Run(kind, 3, Block(tolerance=1e-7, max_steps=300), pool, federation_of)
    # From α = 0 every teacher heads for the same local solution, and moves β_i/K of the way.
    owner = np.repeat(betas, [len(part) for part in np.array_split(np.arange(ROWS), 3)])
    np.testing.assert_allclose(run.alphas[0], owner * even.alphas[0], rtol=1e-6, atol=1e-12)
    optimum = run.newton(federation_of).objective[-1]
    assert run.trace.converged
    assert even.trace.converged
    assert run.trace.objective[-1] == pytest.approx(optimum, rel=1e-6)
    run.check_rounds(optimum)


@pytest.mark.parametrize("beta", [(1.0, 1.0), (1.0, 1.0, 1.0, 1.0), 0.0, -1.0, 3.5, (1.0, 1.0, 4.0), np.nan])
def test_bad_betas_are_refused(beta, pool, federation_of):
    """One β or one for each teacher, above 0 and at most K."""
    with pytest.raises(SettingError, match="beta"):
        Run("squared", 3, Block(beta=beta), pool, federation_of)


def test_no_rounds_are_refused(pool, federation_of):
    """A limit below one round is refused."""
    with pytest.raises(SettingError, match="round"):
        Run("squared", 3, Block(max_steps=0), pool, federation_of)


def test_a_free_intercept_is_refused(pool, federation_of):
    """Σα = 0 ties the blocks together, so Block says no, before any round of the solver and in `teach`."""
    X, y = pool("logistic", ROWS, FEATURES, 0)
    federation = federation_of(X, y, 3, LOSSES["logistic"](), 1.0)
    problem = DualProblem(RIDGE, np.append(GOAL, 0.3), 1.0, free_intercept=True)
    dual.weigh(federation, problem, SPARSITY, Block())
    rounds = len(federation.ledger)
    with pytest.raises(SettingError, match="intercept"):
        dual.solve(federation, problem, Block())
    assert len(federation.ledger) == rounds
    learner = st.Learner(LOSSES["logistic"](), 1.0, "free")
    with pytest.raises(SettingError, match="intercept"):
        st.teach(federation_of(X, y, 3), learner, np.append(GOAL, 0.3), method="dual", solver=Block())


def test_a_penalised_intercept_is_taught(pool, federation_of):
    """A constant column with a penalty is one more feature, which blocks can carry."""
    X, y = pool("squared_hinge", ROWS, FEATURES, 0)
    federation = federation_of(X, y, 3, LOSSES["squared_hinge"](), 2.0)
    problem = DualProblem(RIDGE, np.append(GOAL, 0.3), 1.0)
    dual.weigh(federation, problem, SPARSITY, Block())
    found = dual.solve(federation, problem, Block(tolerance=1e-7, max_steps=300))
    wanted = dual.solve(federation, problem, Newton())
    assert found.objective[-1] == pytest.approx(wanted.objective[-1], rel=1e-6)


@each_kind
def test_the_printed_reduce_step_diverges(kind, pool, federation_of):
    """θ̃ ← θ̃ + (1/Λ)Σαx adds whole α every round and runs away; θ̃ = (1/Λ)Σαx descends."""
    X, y = pool(kind, ROWS, FEATURES, 21)
    problem = DualProblem(RIDGE, GOAL, goal_weight=100.0)
    objectives = {}
    for reduce in ("printed", "corrected"):
        federation = federation_of(X, y, 5, LOSSES[kind]())
        dual.weigh(federation, problem, SPARSITY, Block())
        threshold = np.concatenate([state.threshold for state in federation.engine.states()])
        model, found = np.zeros(FEATURES), []
        for _ in range(40):
            sums = federation.sum(BlockRound(model, GOAL, RIDGE, problem.goal_weight, (1.0,) * 5))
            alpha = np.concatenate([state.alpha for state in federation.engine.states()])
            np.testing.assert_allclose(sums.aggregate, X.T @ alpha, rtol=1e-9, atol=1e-9)
            model = (model if reduce == "printed" else 0.0) + sums.aggregate / RIDGE
            found.append(plain_objective(kind, X, y, threshold, alpha, problem))
        objectives[reduce] = np.array(found)
    printed, corrected = objectives["printed"], objectives["corrected"]
    assert printed[0] == pytest.approx(corrected[0], rel=1e-12)
    assert np.all(np.diff(corrected) <= 1e-12 * np.abs(corrected[1:]))
    # α is bounded for some losses, so the printed rule cannot blow up there: it swings, ever above its start.
    assert printed[-10:].mean() > printed[0] > corrected[-1]
    assert printed[5:].min() > corrected[-1]


@each_kind
def test_the_papers_own_settings(kind, pool, federation_of):
    """At Λ = 1, λ_θ = 1000, λ_α = 0.1 local solves are exact, so F falls; printed, it leaps at once."""
    X, y = pool(kind, 1000, 10, 3)
    goal = 0.5 * np.random.default_rng(0).standard_normal(10)
    problem = DualProblem(1.0, goal, 1000.0)
    objectives = {}
    for reduce in ("printed", "corrected"):
        federation = federation_of(X, y, 5, LOSSES[kind]())
        dual.weigh(federation, problem, 0.1, Block())
        threshold = np.concatenate([state.threshold for state in federation.engine.states()])
        model, found = np.zeros(10), []
        for _ in range(6):
            sums = federation.sum(BlockRound(model, goal, 1.0, 1000.0, (1.0,) * 5))
            alpha = np.concatenate([state.alpha for state in federation.engine.states()])
            model = (model if reduce == "printed" else 0.0) + sums.aggregate
            found.append(plain_objective(kind, X, y, threshold, alpha, problem))
        objectives[reduce] = np.array(found)
    corrected = objectives["corrected"]
    assert np.all(np.diff(corrected) <= 1e-12 * np.abs(corrected[1:]))
    assert objectives["printed"].max() - corrected[0] > 100.0 * (corrected[0] - corrected[-1])

"""The paper's optimum, found through sums, against a conic solver that sees every row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import cvxpy as cp
import numpy as np
import pytest

from superteach.coordinator.methods import dual
from superteach.losses import LOSSES
from superteach.optim import LBFGS, Newton
from superteach.optim.problem import DualProblem
from tests.oracles import solve_tightly

ROWS, FEATURES, RIDGE = 300, 5, 1.5
SPARSITY = 0.02
COLUMNS = {"none": 0.0, "free": 1.0, "penalised": 2.5}
SOLVERS = {"newton": Newton(), "lbfgs": LBFGS(tolerance=1e-12)}

each_kind = pytest.mark.parametrize("kind", sorted(LOSSES))
each_solver = pytest.mark.parametrize("solver", SOLVERS)


@dataclass(frozen=True, eq=False)
class Case:
    """One teaching problem, its rows with the constant column, and the conic solver's answer."""

    kind: str
    X: np.ndarray
    y: np.ndarray
    rows: np.ndarray
    constant: float
    problem: DualProblem
    sparsity: float
    threshold: np.ndarray
    alpha: np.ndarray
    optimum: float

    def objective(self, alpha: np.ndarray) -> float:
        """The paper's objective F(α), in plain NumPy."""
        kept = self.rows[:, :FEATURES] if self.problem.free_intercept else self.rows
        goal = self.problem.goal[: kept.shape[1]]
        v = kept.T @ alpha / RIDGE
        separable = plain_conjugate(self.kind, alpha, self.y).sum() + (self.threshold * np.abs(alpha)).sum()
        return separable + RIDGE / 2 * v @ v + self.problem.goal_weight * ((v - goal) ** 2).sum()


def plain_conjugate(kind: str, alpha: np.ndarray, y: np.ndarray) -> np.ndarray:
    """ℓ*(−α) of each row, signs written out."""

    def entropy(x: np.ndarray) -> np.ndarray:
        return np.where(x > 0.0, x * np.log(np.where(x > 0.0, x, 1.0)), 0.0)

    share = y * alpha
    return {
        "logistic": lambda: entropy(share) + entropy(1.0 - share),
        "squared": lambda: alpha**2 / 2 - alpha * y,
        "squared_hinge": lambda: share**2 / 4 - share,
        "huber": lambda: alpha**2 / 2 - alpha * y,
        "poisson": lambda: entropy(y - alpha) - (y - alpha),
    }[kind]()


def clipped(kind: str, alpha: np.ndarray, y: np.ndarray) -> np.ndarray:
    """α moved into the conjugate's domain, which a conic solver may leave by its tolerance."""
    if kind == "logistic":
        return y * np.clip(y * alpha, 0.0, 1.0)
    if kind == "squared_hinge":
        return y * np.maximum(y * alpha, 0.0)
    if kind == "huber":
        return np.clip(alpha, -1.35, 1.35)
    return np.minimum(alpha, y) if kind == "poisson" else alpha


def conic_conjugate(kind: str, alpha: cp.Variable, y: np.ndarray) -> tuple[cp.Expression, list]:
    """Σ ℓ*(−α_j) and the domain, for CVXPY."""
    share = cp.multiply(y, alpha)
    if kind == "logistic":
        return -cp.sum(cp.entr(share)) - cp.sum(cp.entr(1 - share)), []
    if kind == "squared_hinge":
        return cp.sum_squares(share) / 4 - cp.sum(share), [share >= 0]
    if kind == "poisson":
        return -cp.sum(cp.entr(y - alpha)) - cp.sum(y - alpha), []
    inside = [cp.abs(alpha) <= 1.35] if kind == "huber" else []
    return cp.sum_squares(alpha) / 2 - y @ alpha, inside


@pytest.fixture(scope="module")
def case_of(pool):
    """`case_of(kind, intercept, goal_weight, sparsity)`, each solved once."""

    @cache
    def build(kind: str, intercept: str = "none", goal_weight: float = 20.0, sparsity: float = SPARSITY) -> Case:
        return conic_case(*pool(kind, ROWS, FEATURES, 11), kind, intercept, goal_weight, sparsity)

    return build


def conic_case(X: np.ndarray, y: np.ndarray, kind: str, intercept: str, goal_weight: float, sparsity: float) -> Case:
    """Build a problem and solve it with CLARABEL."""
    constant = COLUMNS[intercept]
    rows = np.column_stack([X, np.full(ROWS, constant)]) if constant else X
    goal = np.random.default_rng(12).standard_normal(rows.shape[1]) * 0.7
    free = intercept == "free"
    wanted = np.append(goal[:-1], 0.0) if free else goal
    least_norm = np.linalg.lstsq(rows.T, RIDGE * wanted, rcond=None)[0]
    threshold = sparsity / np.abs(least_norm)

    alpha = cp.Variable(ROWS)
    separable, constraints = conic_conjugate(kind, alpha, y)
    kept = X if free else rows
    v = cp.Variable(kept.shape[1])
    constraints += [v == kept.T @ alpha / RIDGE]
    if free:
        constraints += [cp.sum(alpha) == 0]
    pull = RIDGE / 2 * cp.sum_squares(v) + goal_weight * cp.sum_squares(v - goal[: kept.shape[1]])
    objective = separable + cp.sum(cp.multiply(threshold, cp.abs(alpha))) + pull
    solve_tightly(cp.Problem(cp.Minimize(objective), constraints))
    problem = DualProblem(RIDGE, goal, goal_weight, free)
    best = clipped(kind, alpha.value, y)
    built = Case(kind, X, y, rows, constant, problem, sparsity, threshold, best, float("nan"))
    object.__setattr__(built, "optimum", built.objective(built.alpha))
    return built


def solved(case: Case, K: int, solver, federation_of) -> dual.Trace:
    """The trace of K teachers."""
    federation = federation_of(case.X, case.y, K, LOSSES[case.kind](), case.constant)
    dual.weigh(federation, case.problem, case.sparsity, solver)
    return dual.solve(federation, case.problem, solver)


def alpha_at(case: Case, point: np.ndarray) -> np.ndarray:
    return LOSSES[case.kind]().best_dual(case.rows @ point, case.y, case.threshold)


def check(case: Case, trace: dual.Trace, tolerance: float) -> None:
    """The trace ends on the optimum, its objective is F, and no certificate promises too much."""
    assert trace.converged, trace.reason
    size = abs(case.optimum)
    alpha = alpha_at(case, trace.point)
    assert trace.objective[-1] == pytest.approx(case.objective(alpha), rel=1e-8)
    assert trace.objective[-1] == pytest.approx(case.optimum, rel=1e-6)
    np.testing.assert_allclose(alpha, case.alpha, rtol=0.0, atol=1e-4 * np.abs(case.alpha).max())
    assert trace.gap[-1] <= tolerance * abs(trace.objective[-1])
    # The conic optimum is feasible, so it lies above the true one: what it rejects is a real error.
    rounding = 1e-11 * (size + np.abs(trace.objective))
    assert np.all(trace.gap >= trace.objective - case.optimum - rounding)
    assert np.all(trace.objective >= case.optimum - 1e-7 * size)


@each_kind
@each_solver
@pytest.mark.parametrize("K", [1, 3, 7])
def test_optimum(kind, solver, K, federation_of, case_of):
    """Objective to 1e-6, α to 1e-4 and an honest gap at every step, whoever holds the rows."""
    check(case_of(kind), solved(case_of(kind), K, SOLVERS[solver], federation_of), 1e-10)


@each_kind
@pytest.mark.parametrize(("goal_weight", "sparsity"), [(0.0, 0.002), (1000.0, 0.1)])
def test_optimum_at_other_weights(kind, goal_weight, sparsity, federation_of, case_of):
    """Without a pull the learner's own sparse dual, and with 1000 and 0.1 the paper's."""
    case = case_of(kind, "none", goal_weight, sparsity)
    check(case, solved(case, 3, Newton(), federation_of), 1e-10)


@each_kind
@each_solver
def test_optimum_with_a_free_intercept(kind, solver, federation_of, case_of):
    """An unpenalised intercept enforces Σα = 0, at the same optimum as the conic solver's constraint."""
    trace = solved(case_of(kind, "free"), 3, SOLVERS[solver], federation_of)
    check(case_of(kind, "free"), trace, 1e-10)
    alpha = alpha_at(case_of(kind, "free"), trace.point)
    assert abs(alpha.sum()) <= 1e-8 * np.abs(alpha).sum()


@each_solver
@pytest.mark.parametrize("kind", ["squared_hinge", "logistic"])
def test_optimum_with_a_penalised_column(kind, solver, federation_of, case_of):
    """LinearSVC's constant column is a feature like any other, in the weights too."""
    trace = solved(case_of(kind, "penalised"), 3, SOLVERS[solver], federation_of)
    check(case_of(kind, "penalised"), trace, 1e-10)


@each_kind
@pytest.mark.parametrize("intercept", ["none", "free"])
def test_the_trace_does_not_depend_on_teachers(kind, intercept, federation_of, case_of):
    """One, three and seven teachers take the same steps and certify the same gaps."""
    traces = [solved(case_of(kind, intercept), K, Newton(), federation_of) for K in (1, 3, 7)]
    for trace in traces[1:]:
        assert len(trace.gap) == len(traces[0].gap)
        np.testing.assert_allclose(trace.objective, traces[0].objective, rtol=1e-9)
        np.testing.assert_allclose(trace.gap[:-1], traces[0].gap[:-1], rtol=1e-4, atol=1e-10)


@each_kind
def test_without_sparsity_and_pull_it_is_the_learners_dual(kind, federation_of, pool):
    """sparsity = goal_weight = 0 leaves the learner: −v is no other than its own fit (Λv = Σαx, p = −v)."""
    X, y = pool(kind, ROWS, FEATURES, 13)
    federation = federation_of(X, y, 3, LOSSES[kind]())
    problem = DualProblem(RIDGE, np.ones(FEATURES), 0.0)
    dual.weigh(federation, problem, 0.0, Newton())
    trace = dual.solve(federation, problem, Newton(tolerance=1e-14))
    theta, scale = -trace.point, np.abs(X).sum()
    gradient = X.T @ LOSSES[kind]().gradient(X @ theta, y) + RIDGE * theta
    assert np.linalg.norm(gradient) <= 1e-8 * scale  # a gap of 1e-14 leaves a gradient of about its square root


@each_solver
def test_weights_are_the_least_norm_solution(solver, federation_of, case_of):
    """The thresholds teachers hold are sparsity/|α̂| with α̂ from NumPy's least-norm solve."""
    for kind, intercept in (("squared", "none"), ("squared", "free"), ("squared_hinge", "penalised")):
        made = case_of(kind, intercept)
        federation = federation_of(made.X, made.y, 3, LOSSES[kind](), made.constant)
        dual.weigh(federation, made.problem, SPARSITY, SOLVERS[solver])
        held = np.concatenate([state.threshold for state in federation.engine.states()])
        np.testing.assert_allclose(held, made.threshold, rtol=1e-8)


@each_solver
def test_weights_of_dependent_columns(solver, federation_of, pool):
    """Where columns repeat, the least-norm α̂ still exists, and both ways to it agree with NumPy."""
    X, y = pool("squared", ROWS, 3, 1)
    X = np.column_stack([X, X[:, 0] - X[:, 2]])
    goal = X.T @ np.random.default_rng(0).standard_normal(ROWS) / ROWS
    federation = federation_of(X, y, 3, LOSSES["squared"]())
    dual.weigh(federation, DualProblem(RIDGE, goal, 1.0), SPARSITY, SOLVERS[solver])
    held = np.concatenate([state.threshold for state in federation.engine.states()])
    least_norm = np.linalg.lstsq(X.T, RIDGE * goal, rcond=1e-10)[0]
    np.testing.assert_allclose(held, SPARSITY / np.abs(least_norm), rtol=1e-7)

"""The paper's method: the dual of the learner, pulled towards the goal, made sparse by adaptive weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.linalg import LinearOperator, minres

from superteach.coordinator.federation import Federation
from superteach.coordinator.methods.base import PATH_FRACTIONS, Method, Outcome
from superteach.coordinator.path import Ranked
from superteach.coordinator.problem import FederatedProblem
from superteach.learner import Learner
from superteach.lesson import Words
from superteach.optim import LBFGS, Block, Newton
from superteach.optim.block import Offers
from superteach.optim.function import Function
from superteach.optim.problem import Certified, DualProblem
from superteach.protocol.queries import AskMoments, BlockRound, Moments, RankRows, Weigh
from superteach.settings import Settings
from superteach.types import Array


class Dual(Method):
    """The paper's method: its teaching problem is solved, and rows are ranked by |α_j|."""

    name = "dual"
    words = Words(
        label="paper's method (dual)",
        chosen="Rows were chosen by the paper's method (dual), solved by a certified solver.",
        objective="The optimum is not known exactly; the best lower bound that any step proved stands in for it, so the "
        "truth lies between the solid line and the dotted one.",
    )
    uses = ("sparsity", "goal_weight")
    solvers = ("Newton", "LBFGS", "Block")
    fractions = PATH_FRACTIONS

    def check(self, settings: Settings, learner: Learner, federation: Federation) -> None:
        """Refuse a block rule that does not fit the teachers or the learner."""
        super().check(settings, learner, federation)
        if isinstance(settings.solver, Block):
            settings.solver.check(federation.teachers, learner.free_intercept)
            if settings.solver.staleness:
                federation.check_posts()

    def start(self, problem: FederatedProblem, goal: Array, settings: Settings) -> Ranked:
        """Solve once; every size is then a cut through one ranking."""
        learner = problem.learner
        settings = settings.for_learner(learner)
        assert settings.goal_weight is not None
        assert settings.sparsity is not None
        dual_problem = DualProblem(learner.penalty(problem.rows), goal, settings.goal_weight, learner.free_intercept)
        outcome = rank(problem.federation, dual_problem, settings.sparsity, settings.solver or problem.solver)
        return Ranked(problem.federation, outcome)

    def tell(self, settings: Settings) -> Words:
        """Name the solver."""
        solver = type(settings.solver).__name__
        how = {"Block": "the paper's own block rule", "LBFGS": "L-BFGS"}.get(solver, "a certified solver")
        label = "paper's rule (block)" if solver == "Block" else self.words.label
        return replace(
            self.words, label=label, chosen=f"Rows were chosen by the paper's method (dual), solved by {how}."
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace(Outcome):
    """Objective and certified gap after every step of a solver, why it stopped, and where."""

    point: Array


@dataclass(frozen=True, eq=False)
class _Blocks:
    """All teachers' blocks, as Algorithm 1 asks them."""

    federation: Federation
    problem: DualProblem

    def round(self, model: Array, beta: tuple[float, ...]) -> Offers:
        return self.federation.sum(self._question(model, beta=beta))

    def conjugate(self, point: Array) -> float:
        return self.federation.over("dual", "all").moments(point, 1).value

    def offers(self, model: Array, taken: tuple[float, ...]) -> Offers:
        return self.federation.sum(self._question(model, taken=taken))

    def post(self, position: int, model: Array, taken: tuple[float, ...]) -> None:
        self.federation.post(position, self._question(model, taken=taken))

    def arrival(self) -> tuple[int, Offers]:
        return self.federation.arrival()

    def _question(self, model: Array, **how: tuple[float, ...]) -> BlockRound:
        problem = self.problem
        return BlockRound(model, problem.goal, problem.ridge, problem.goal_weight, **how)


def rank(federation: Federation, problem: DualProblem, sparsity: float, solver: Newton | LBFGS | Block) -> Trace:
    """Solve the paper's problem and let every teacher sort its rows by |α_j|."""
    federation.stage = "weights"
    weigh(federation, problem, sparsity, solver)
    federation.stage = "dual"
    trace = solve(federation, problem, solver)
    federation.stage = "selection"
    federation.sum(RankRows("block" if isinstance(solver, Block) else "dual", trace.point))
    return trace


def weigh(federation: Federation, problem: DualProblem, sparsity: float, solver: object) -> None:
    """Adaptive weights w_j = 1/|α̂_j| with α̂ = Λ X(X'X)⁺θ*, the least-norm α that has v = θ*.

    A goal of zeros has α̂ = 0, which would put every row out: then the l1 term is left away.
    """
    goal = problem.goal.copy()
    if problem.free_intercept:
        goal[-1] = 0.0
    if not np.any(goal):
        sparsity = 0.0
    width = len(goal)
    if not sparsity:
        direction = np.zeros(width)
    elif isinstance(solver, LBFGS):
        # No width × width matrix may travel: the same system by MINRES, one product a round.
        def product(vector: Array) -> Array:
            sums: Moments = federation.sum(AskMoments("square", "all", np.ravel(vector), 1))
            return sums.gradient

        system = LinearOperator((width, width), matvec=product, dtype=np.float64)
        direction = minres(system, goal, rtol=1e-12, maxiter=10 * width)[0]
    else:
        gram = federation.curvature("square", "all", np.zeros(width))
        direction = np.linalg.pinv(gram, hermitian=True, rcond=1e-12) @ goal
    federation.sum(Weigh(problem.ridge * direction, sparsity))


def solve(federation: Federation, problem: DualProblem, solver: Newton | LBFGS | Block) -> Trace:
    """Minimise the paper's objective; every step is certified by a duality gap."""
    objectives: list[float] = []
    gaps: list[float] = []

    def record(certificate: Certified) -> str | None:
        objectives.append(certificate.objective)
        gaps.append(certificate.gap)
        # An infinite gap is no share of an infinite objective.
        if np.isfinite(certificate).all() and certificate.gap <= solver.tolerance * abs(certificate.objective):
            share = certificate.gap / abs(certificate.objective) if certificate.objective else 0.0
            return f"the duality gap is {share:.1e} of the objective, at most the {solver.tolerance:g} asked for"
        return None

    if isinstance(solver, Block):
        solution = solver.solve(_Blocks(federation, problem), problem, federation.teachers, record)
    else:
        function = Function(federation.over("dual", "all"), problem.smooth, cautious=True)
        solution = solver.minimise(
            function,
            np.zeros_like(problem.goal),
            lambda point, sums, _: record(problem.certify(point, sums.value, sums.gradient)),
        )
    reason = solution.reason
    if not solution.converged:
        reason = f"{reason}, with a duality gap of {gaps[-1]:.2g} on an objective of {objectives[-1]:.6g}"
    return Trace(
        reason=reason,
        converged=solution.converged,
        objective=np.array(objectives),
        gap=np.array(gaps),
        point=solution.point,
    )

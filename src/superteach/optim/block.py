"""The paper's Algorithm 1: every teacher solves its own block, the coordinator adds the blocks up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from superteach.exceptions import SettingError
from superteach.optim import asynchronous
from superteach.optim.descent import Solution, check_limits
from superteach.optim.function import Moments
from superteach.optim.problem import Certified, DualProblem
from superteach.types import Array


@dataclass(frozen=True)
class Block:
    """Block-coordinate descent with step β_i/K (paper: 1 ≤ β_i ≤ K, default 1), T rounds at most.

    `beta` is one number for all teachers or one for each. The printed reduce step adds whole α every
    round and diverges; here θ̃ is (1/Λ) Σ α_j x_j itself, as the absolute sums of the replies give it.

    With a `staleness` above 0 rounds are asynchronous (see solvers.asynchronous): a teacher's question may stay
    open while every other teacher answers `staleness` + 1 times; T·K replies at most. The step is then found, not given.
    """

    tolerance: float = 1e-10
    max_steps: int = 100
    beta: float | tuple[float, ...] = 1.0
    staleness: int = 0

    def solve(
        self,
        blocks: asynchronous.Blocks,
        problem: DualProblem,
        teachers: int,
        record: Callable[[Certified], str | None],
    ) -> Solution:
        """Run the rounds; `record` keeps each certificate and says when the gap is small enough."""
        self.check(teachers, problem.free_intercept)
        if self.staleness:
            most = teachers * self.max_steps
            return asynchronous.solve(blocks, problem, teachers, self.staleness, self.tolerance, most, record)
        betas = self.beta if isinstance(self.beta, tuple) else (float(self.beta),) * teachers
        model = np.zeros_like(problem.goal)
        separable: float | None = None
        for step in range(self.max_steps):
            sums = blocks.round(model, betas)
            # The round evaluates Σh* at the model it was sent, so it certifies the round before it.
            if separable is not None:
                reason = record(problem.certify_block(sums.conjugate, separable, model))
                if reason:
                    return self._end(problem, model, step, True, reason)
            separable, model = sums.objective, sums.aggregate / problem.ridge
        assert separable is not None
        conjugate = blocks.conjugate(problem.point_of(model))
        reason = record(problem.certify_block(conjugate, separable, model))
        limit = f"the limit of {self.max_steps} rounds was reached"
        return self._end(problem, model, self.max_steps, reason is not None, reason or limit)

    def _end(self, problem: DualProblem, model: Array, steps: int, converged: bool, reason: str) -> Solution:
        point = problem.point_of(model)
        return Solution(point, Moments(float("nan"), model * problem.ridge, None), steps, converged, reason)

    def check(self, teachers: int, free_intercept: bool) -> None:
        """Refuse what the rule cannot do, before any work."""
        if free_intercept:
            raise SettingError(
                "solver Block cannot teach an unpenalised intercept: its condition Σα = 0 ties the blocks "
                "together, and block descent stops short of the optimum; use Newton or LBFGS, "
                "or a learner with fit_intercept=False"
            )
        betas = self.beta if isinstance(self.beta, tuple) else (self.beta,) * teachers
        if len(betas) != teachers:
            raise SettingError(f"Block has {len(betas)} values of beta for {teachers} teachers; give one or {teachers}")
        if not all(0.0 < beta <= teachers for beta in betas):
            raise SettingError(f"Block's beta must lie above 0 and at most at K = {teachers}, got {self.beta!r}")
        if type(self.staleness) is not int or self.staleness < 0:
            raise SettingError(f"Block's staleness={self.staleness!r} must be an int of at least 0")
        if self.staleness and self.beta != 1.0:
            raise SettingError(
                f"Block finds its steps when rounds are asynchronous; beta={self.beta!r} goes with staleness=0"
            )
        if self.max_steps == 0:
            raise SettingError(f"Block needs at least one round, got max_steps={self.max_steps}")
        check_limits(self.tolerance, self.max_steps)

"""The paper's Algorithm 1: every teacher solves its own block, the coordinator adds the blocks up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from superteach.exceptions import SettingError
from superteach.optim.function import Moments
from superteach.optim.newton import Solution, check_limits
from superteach.optim.problem import Certified, DualProblem
from superteach.types import Array


class Offers(NamedTuple):
    """What one round of Algorithm 1 sums: Σh* at the broadcast, Σh at α and at each block's best α, Σ α_j x_j of both."""

    conjugate: float
    objective: float
    offered: float
    aggregate: Array
    offer: Array


class Blocks(Protocol):
    """The teachers' blocks, as far as Algorithm 1 knows them."""

    def round(self, model: Array, beta: tuple[float, ...]) -> Offers:
        """Have every teacher solve its block at this model and move by β_i/K."""

    def conjugate(self, point: Array) -> float:
        """Σh* over all rows at a point."""

    def offers(self, model: Array, taken: tuple[float, ...]) -> Offers:
        """Have every teacher take its share of its last offer and solve its block anew; what all say together."""

    def post(self, position: int, model: Array, taken: tuple[float, ...]) -> None:
        """Ask one teacher for the same and do not wait."""

    def arrival(self) -> tuple[int, Offers]:
        """Wait for the next reply to a post."""


class Waiting:
    """Who may be asked: nobody is more than `staleness` replies ahead of a question that is still open."""

    def __init__(self, teachers: int, staleness: int) -> None:
        self._staleness = staleness
        self._open = np.zeros(teachers, dtype=bool)
        self._heard = np.zeros((teachers, teachers), dtype=np.int64)
        """heard[i, j]: replies of j since i was asked."""

    @property
    def any(self) -> bool:
        """Whether a reply is due."""
        return bool(self._open.any())

    def free(self) -> list[int]:
        """Teachers that may be asked now."""
        ahead = (self._heard[self._open] > self._staleness).any(axis=0)
        return np.flatnonzero(~self._open & ~ahead).tolist()

    def ask(self, position: int) -> None:
        """Note that a question goes out."""
        self._open[position], self._heard[position] = True, 0

    def hear(self, position: int) -> None:
        """Note that its reply is here."""
        self._open[position] = False
        self._heard[:, position] += 1


@dataclass(frozen=True)
class Block:
    """Block-coordinate descent with step β_i/K (paper: 1 ≤ β_i ≤ K, default 1), T rounds at most.

    `beta` is one number for all teachers or one for each; while their mean is below 2 no round raises the objective,
    whatever the rows. The printed reduce step adds whole α every round and diverges; here θ̃ is (1/Λ) Σ α_j x_j itself, as
    the absolute sums of the replies give it.

    With a `staleness` above 0 rounds are asynchronous (see `_solve_asynchronously`): a teacher's question may stay
    open while every other teacher answers `staleness` + 1 times; T·K replies at most. The step is then found, not given.
    """

    tolerance: float = 1e-10
    max_steps: int = 100
    beta: float | tuple[float, ...] = 1.0
    staleness: int = 0

    def solve(
        self,
        blocks: Blocks,
        problem: DualProblem,
        teachers: int,
        record: Callable[[Certified], str | None],
    ) -> Solution:
        """Run the rounds; `record` keeps each certificate and says when the gap is small enough."""
        self.check(teachers, problem.free_intercept)
        if self.staleness:
            most = teachers * self.max_steps
            return _solve_asynchronously(blocks, problem, teachers, self.staleness, self.tolerance, most, record)
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


def _solve_asynchronously(
    blocks: Blocks,
    problem: DualProblem,
    teachers: int,
    staleness: int,
    tolerance: float,
    most: int,
    record: Callable[[Certified], str | None],
) -> Solution:
    """Run rounds without waiting: whoever has answered is asked again, with what has arrived until then.

    A teacher's reply offers the best α of its own block for the model it was sent. By the time it arrives that model is
    stale, so the coordinator takes only a share s of the offer: the s in [0, 1] that lowers a bound of F at the *current*
    model most. The bound is exact but for Σh, which is convex: Σh(α + s·d) ≤ Σh(α) + s·rise.

    Why it converges, however the replies are delayed, as long as each comes while others send a bounded number. With
    q = Λ + 2λ_θ, D the offered change of v and v' the model it was made for, an exact local solve has
    rise + ∇pull(v')'D ≤ −q‖D‖². So the share taken is at least 1 − ‖v − v'‖/‖D‖, and taking it lowers F by at least
    (q/2)‖s·D‖². F is bounded below, hence Σ‖s·D‖² is finite: steps vanish, with a bounded delay so does v − v', and then
    so does every D. Where no block can improve, α is the optimum, because blocks meet in the smooth pull alone. A fixed step
    that is short enough for the worst delay, 1/(1 + (K − 1)√(staleness + 1)) of the way by the same argument, is short for
    every reply; a share found anew is short only where it must be.
    """
    waiting, posts = Waiting(teachers, staleness), 0
    total = np.zeros_like(problem.goal)  # Σ α_j x_j of all teachers, once they have taken their shares
    shares, sent = np.zeros(teachers), [total] * teachers
    objectives, gaps = np.zeros(teachers), np.full(teachers, np.inf)

    def question(to: int | slice) -> tuple[Array, tuple[float, ...]]:
        taken = np.zeros(teachers)
        taken[to] = shares[to]  # whoever is not asked has no business with its share
        return total / problem.ridge, tuple(taken.tolist())

    def near() -> bool:
        """Tell whether the gap is small by what each teacher said last, if not all at the same time."""
        objective = float(objectives.sum()) + problem.pull(total / problem.ridge)
        gap = float(gaps.sum())
        # Far out sums overflow, and an infinite gap would pass for a share of an infinite objective.
        return bool(np.isfinite([gap, objective]).all()) and gap <= tolerance * abs(objective)

    while True:
        for position in () if near() else waiting.free()[: most - posts]:
            (model, taken), posts = question(position), posts + 1
            sent[position] = problem.point_of(model)
            waiting.ask(position)
            blocks.post(position, model, taken)
        if waiting.any:
            position, reply = blocks.arrival()
            waiting.hear(position)
            shares[position], total = _take(problem, total, reply)
            objectives[position] = reply.objective
            # Fenchel's gap of this block: over all blocks, at one point, these add up to the duality gap.
            gaps[position] = reply.objective + reply.conjugate - sent[position] @ reply.aggregate
            continue
        # Nobody is at work. All take their shares, and one sum over all certifies where they are.
        at, taken = question(slice(None))
        sums = blocks.offers(at, taken)
        model, point = sums.aggregate / problem.ridge, problem.point_of(at)
        reason = record(problem.certify_block(sums.conjugate, sums.objective, model, point))
        if reason or posts == most:
            last = Moments(float("nan"), sums.aggregate, None)
            limit = f"the limit of {most} replies was reached"
            return Solution(problem.point_of(model), last, posts, reason is not None, reason or limit)
        share, total = _take(problem, sums.aggregate, sums)
        shares[:], gaps[:] = share, np.inf


def _take(problem: DualProblem, total: Array, offers: Offers) -> tuple[float, Array]:
    """Return the share of an offer to take, of one teacher or of all alike, and Σ α_j x_j with it."""
    change = offers.offer - offers.aggregate
    share = problem.share(total / problem.ridge, change / problem.ridge, offers.offered - offers.objective)
    return share, total + share * change

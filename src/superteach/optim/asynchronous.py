"""The paper's blocks without waiting: whoever has answered is asked again, with what has arrived until then.

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

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from superteach.optim.descent import Solution
from superteach.optim.function import Moments
from superteach.optim.problem import Certified, DualProblem
from superteach.types import Array


class BlockSums(NamedTuple):
    """What one round of Algorithm 1 sums: Σh* at the broadcast, Σh at the new α, Σ α_j x_j."""

    conjugate: float
    objective: float
    aggregate: Array


class Offers(NamedTuple):
    """Σh* at the broadcast, Σh at α and at the offered α, Σ α_j x_j of both."""

    conjugate: float
    objective: float
    offered: float
    aggregate: Array
    offer: Array


class Blocks(Protocol):
    """The teachers' blocks, as far as Algorithm 1 knows them."""

    def round(self, model: Array, beta: tuple[float, ...]) -> BlockSums:
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


def solve(
    blocks: Blocks,
    problem: DualProblem,
    teachers: int,
    staleness: int,
    tolerance: float,
    most: int,
    record: Callable[[Certified], str | None],
) -> Solution:
    """Ask and take until the gap is small, by a true sum over all teachers, or `most` replies have come."""
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

"""Oblivious teaching: every teacher chooses by itself, as if there were no other.

Each of K teachers chooses |S|/K of its own rows for a learner with Λ/K, by exact teaching ("match") or in a way that
an extension brings (the laboratory's "minlp"); the learner is then trained on the union with Λ. If every teacher
reached the goal, Σ_{j∈S_i} g_j = (Λ/K)θ* for each i, the union would too; what they miss adds up.
"""

from __future__ import annotations

from typing import Literal

from superteach.coordinator.methods.base import Method, Outcome, Search
from superteach.coordinator.path import last_ranks
from superteach.coordinator.problem import FederatedProblem
from superteach.lesson import Words
from superteach.protocol.queries import Alone, Keep, RankRows, Size, Solo
from superteach.settings import Settings
from superteach.types import Array


class Oblivious(Method):
    """Every teacher chooses its share alone, by exact teaching."""

    name = "oblivious"
    words = Words(
        label="every teacher alone (oblivious)",
        chosen="Every teacher chose its share of the rows alone, by exact teaching (oblivious): the goal was known to "
        "it, the rows of the others were not.",
        unproved="Every teacher chose alone, so nothing is proved of the lesson as a whole; the risk is measured.",
        ended="In the end {reason}.",
    )
    uses = ("solver_seconds",)

    def start(self, problem: FederatedProblem, goal: Array, settings: Settings) -> EachAlone:
        """Ask all teachers anew for each size."""
        return EachAlone(problem, goal, settings)


class EachAlone(Search):
    """Chooses lessons of any size for one goal, each teacher within its own walls."""

    inside: Literal["match", "minlp"] = "match"
    """How a teacher chooses."""
    formulation = "stationary"

    def __init__(self, problem: FederatedProblem, goal: Array, settings: Settings) -> None:
        super().__init__(problem, goal, settings)
        self._seconds = settings.solver_seconds

    def choose(self, size: int) -> Size:
        """Deal the size out evenly, then let every teacher choose its share."""
        federation, learner = self._problem.federation, self._problem.learner
        federation.stage = "shares"
        federation.sum(RankRows("even", seed=self._seed))
        federation.sum(Keep(last_ranks(federation, [size])[0]))
        federation.stage = "alone"
        # A learner that averages its losses shares its penalty out by itself: ridge·|S_i|.
        ridge = learner.ridge if learner.ridge_per_row else learner.ridge / federation.teachers
        query = Alone(
            self._goal,
            ridge,
            learner.ridge_per_row,
            learner.free_intercept,
            self.inside,
            self.formulation,
            self._seconds,
            self._seed,
        )
        solo = self.ask(query)
        self.outcome = Outcome(_reason(solo, federation.teachers), solo.ended == federation.teachers)
        return Size(solo.rows, solo.positive)

    def ask(self, query: Alone) -> Solo:
        """Ask all teachers to choose."""
        solo: Solo = self._problem.federation.sum(query)
        return solo


def _reason(solo: Solo, teachers: int) -> str:
    words = f"{solo.ended} of {teachers} teachers ended their own search"
    stopped = teachers - solo.ended - solo.drawn
    if stopped:
        words += f", {stopped} stopped at a limit"
    if solo.drawn:
        words += f", {solo.drawn} found nothing and drew rows at random"
    return words

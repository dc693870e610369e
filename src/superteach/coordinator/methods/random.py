"""Random rows, whatever the goal: a baseline."""

from __future__ import annotations

from superteach.coordinator.methods.base import PATH_FRACTIONS, Method, Outcome
from superteach.coordinator.path import Ranked
from superteach.coordinator.problem import FederatedProblem
from superteach.lesson import Words
from superteach.protocol.queries import RankRows
from superteach.settings import Settings
from superteach.types import Array


class Random(Method):
    """The baseline anybody would try first: rows drawn at random, whatever the goal."""

    name = "random"
    words = Words(
        label="random rows",
        chosen="Rows were drawn at random, as a baseline.",
        unproved="Rows were drawn at random, so nothing is proved; the risk is measured.",
        ended="",
    )
    fractions = PATH_FRACTIONS
    broad = True

    def start(self, problem: FederatedProblem, goal: Array, settings: Settings) -> Ranked:
        """Let every teacher sort its rows by a number drawn from the seed and the row's id."""
        problem.federation.stage = "selection"
        problem.federation.sum(RankRows("random", seed=settings.random_state))
        return Ranked(problem.federation, Outcome("rows were drawn at random, nothing was solved"))

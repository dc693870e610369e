"""The product's own methods. Their algorithms are loaded when a lesson starts, so that `superteach --help` is quick."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from superteach.coordinator.methods.base import PATH_FRACTIONS, Chooser, Method
from superteach.lesson import Words

if TYPE_CHECKING:
    from superteach.coordinator.federation import Federation
    from superteach.coordinator.problem import FederatedProblem
    from superteach.learner import Learner
    from superteach.optim.problem import DualProblem
    from superteach.settings import Settings
    from superteach.types import Array

SHARES = (0.05, 0.1, 0.2, 0.35, 0.55, 0.8)
"""Shares of a small pool from which exchanges begin with budget="best", where one search does not cover all sizes."""


class Match(Method):
    """Exact teaching: prices balance the pulls of rows on the goal, and rounding keeps the balance."""

    name = "match"
    words = Words(
        label="match",
        chosen="Rows were chosen by exact teaching (match): their pulls on the goal are made to balance.",
        objective="Rows are settled in blocks, strong rows first; the line is what the linearised model then expects of the "
        "lesson. Where the goal is out of reach, points are models on the way towards it.",
        unproved="The risk is measured: the learner was fitted again on the chosen rows. That no other rows of this "
        "number come nearer is neither claimed nor proved.",
        exact=True,
    )
    uses = ("rounding", "restarts")
    broad = True
    shares = True

    def sizes(self, settings: Settings, room: FederatedProblem) -> list[int]:
        """Look at other sizes where a search sees all rows: at all sizes at once, or from several starts."""
        from superteach.coordinator import selection
        from superteach.coordinator.methods.match import DEFAULT
        from superteach.selection.polish import FEW

        if settings.budget != "best" or settings.rounding != "together" or room.rows > DEFAULT.small:
            return super().sizes(settings, room)
        if room.rows <= FEW and room.learner.outputs == 1:
            return [1, room.rows]
        return selection.counts_of("best", room.rows, room.width, SHARES)

    def start(self, room: FederatedProblem, goal: Array, settings: Settings) -> Chooser:
        """Search anew for each size."""
        from superteach.coordinator.methods.match import Matcher

        return Matcher(room, goal, settings)


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
        from superteach.optim import Block

        super().check(settings, learner, federation)
        if isinstance(settings.solver, Block):
            settings.solver.check(federation.teachers, learner.free_intercept)
            if settings.solver.staleness:
                federation.check_posts()

    def start(self, room: FederatedProblem, goal: Array, settings: Settings) -> Chooser:
        """Solve once; every size is then a cut through one ranking."""
        from superteach.coordinator.methods import dual
        from superteach.coordinator.path import Ranked

        problem, sparsity = _problem(room.learner, room.rows, goal, settings)
        outcome = dual.rank(room.federation, problem, sparsity, settings.solver or room.solver)
        return Ranked(room.federation, outcome)

    def tell(self, settings: Settings) -> Words:
        """Name the solver."""
        solver = type(settings.solver).__name__
        how = {"Block": "the paper's own block rule", "LBFGS": "L-BFGS"}.get(solver, "a certified solver")
        label = "paper's rule (block)" if solver == "Block" else self.words.label
        return replace(
            self.words, label=label, chosen=f"Rows were chosen by the paper's method (dual), solved by {how}."
        )


def _problem(learner: Learner, rows: int, goal: Array, settings: Settings) -> tuple[DualProblem, float]:
    """Build the paper's problem over `rows` rows, and its sparsity, with what the settings leave open."""
    from superteach.optim.problem import DualProblem

    told = settings.for_learner(learner)
    assert told.goal_weight is not None
    assert told.sparsity is not None
    return DualProblem(learner.penalty(rows), goal, told.goal_weight, learner.free_intercept), told.sparsity


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

    def start(self, room: FederatedProblem, goal: Array, settings: Settings) -> Chooser:
        """Ask all teachers anew for each size."""
        from superteach.coordinator.methods.oblivious import EachAlone

        return EachAlone(room, goal, settings)


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

    def start(self, room: FederatedProblem, goal: Array, settings: Settings) -> Chooser:
        """Let every teacher sort its rows by a number drawn from the seed and the row's id."""
        from superteach.coordinator.methods.outcome import Outcome
        from superteach.coordinator.path import Ranked
        from superteach.protocol.queries import RankRows

        room.federation.stage = "selection"
        room.federation.sum(RankRows("random", seed=settings.random_state))
        return Ranked(room.federation, Outcome("rows were drawn at random, nothing was solved"))

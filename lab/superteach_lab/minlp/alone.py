"""Method `oblivious-minlp`: every teacher chooses alone, by a mixed-integer programme over its own rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from superteach.coordinator.federation import Federation
from superteach.coordinator.methods import oblivious
from superteach.coordinator.methods.oblivious import EachAlone
from superteach.coordinator.problem import FederatedProblem
from superteach.exceptions import SettingError
from superteach.learner import Learner
from superteach.losses import Loss
from superteach.optim.problem import Scaling
from superteach.protocol.queries import Alone, Solo
from superteach.settings import Settings
from superteach.teacher import OwnChoice, Teacher
from superteach.types import Array
from superteach_lab import minlp


class Oblivious(oblivious.Oblivious):
    """The method: every teacher's own solver, ended after `solver_seconds`."""

    name = "oblivious-minlp"
    words = replace(
        oblivious.Oblivious.words,
        label="every teacher alone (MINLP)",
        chosen="Every teacher chose its share of the rows alone, by a mixed-integer programme over its own rows "
        "(oblivious-minlp).",
    )

    def check(self, settings: Settings, learner: Learner, federation: Federation) -> None:
        """Refuse learners for which there is no such programme, and look for its solver."""
        super().check(settings, learner, federation)
        if learner.weighted:
            raise SettingError(f"method={self.name!r} knows no weights of rows; use method='oblivious'")
        formulation, seconds = Programmes.formulation, settings.solver_seconds
        minlp.check(learner.loss, formulation, None, seconds, 1.0, 0, learner.free_intercept)

    def start(self, problem: FederatedProblem, goal: Array, settings: Settings) -> Programmes:
        """Ask all teachers anew for each size."""
        return Programmes(problem, goal, settings)


class Programmes(EachAlone):
    """Chooses lessons of any size for one goal, by a solver within each teacher's walls."""

    inside = "minlp"

    def ask(self, query: Alone) -> Solo:
        """Ask all teachers; an interruption also ends their solvers."""
        with minlp.interruptible():
            return super().ask(query)


def choose(teacher: Teacher, loss: Loss, scaling: Scaling, size: int, query: Alone) -> OwnChoice:
    """Solve a mixed-integer programme over one teacher's rows."""
    identity = np.eye(len(query.goal))
    rows = np.concatenate([block.mapped(identity) for _, block in teacher.rows.blocks(scaling)])
    found = minlp.solve(
        rows,
        teacher.target,
        loss,
        query.ridge * size if query.ridge_per_row else query.ridge,
        query.goal,
        size,
        formulation=query.formulation,
        seconds=query.seconds,
        seed=query.seed,
        free_intercept=query.free_intercept,
    )
    return OwnChoice(found.rows, found.status == "optimal" or found.status.startswith("finished"))

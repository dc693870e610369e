"""Method `oblivious-minlp`: every teacher chooses alone, by a mixed-integer programme over its own rows."""

from __future__ import annotations

import numpy as np

from superteach.coordinator.alone import Choice
from superteach.coordinator.classroom import Classroom
from superteach.coordinator.methods import oblivious
from superteach.losses import Loss
from superteach.mathematics.problem import Scaling
from superteach.queries import Alone, Solo
from superteach.teacher import Teacher
from superteach.types import Array
from superteach_lab import minlp


class Oblivious(oblivious.Oblivious):
    """Chooses lessons of any size for one goal, by a solver within each teacher's walls."""

    inside = "minlp"

    def __init__(
        self,
        room: Classroom,
        goal: Array,
        seed: int,
        seconds: float = 120.0,
        formulation: str = "stationary",
    ) -> None:
        learner = room.learner
        minlp.check(learner.loss, formulation, None, seconds, 1.0, 0, learner.free_intercept)
        super().__init__(room, goal, seed, seconds, formulation)

    def ask(self, query: Alone) -> Solo:
        """Ask all teachers; an interruption also ends their solvers."""
        with minlp.interruptible():
            return super().ask(query)


def choose(teacher: Teacher, loss: Loss, scaling: Scaling, size: int, query: Alone) -> Choice:
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
    return Choice(found.rows, found.status == "optimal" or found.status.startswith("finished"))

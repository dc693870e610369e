"""Goals: what the learner is to end up with.

A goal is a vector (intercept last where the learner fits one), a fitted scikit-learn model, or any object
with a method `vector(problem)` that returns such a vector in raw units. A problem can fit the learner
on all teachers' rows (`problem.fit_pool()`, scaled columns) and convert (`problem.scaling`). Reports and the screen call a
goal by its `in_words`, where it has them.
"""

from superteach.coordinator.problem import FederatedProblem
from superteach.goals.auc import MaxAUC
from superteach.goals.base import (
    CheckedGoal,
    Goal,
    MovableGoal,
    OptionSource,
    ProvableGoal,
    check_goal,
    check_length,
    check_vector,
    unsolved,
)
from superteach.goals.constrained import Within
from superteach.goals.fitted import FromData, PerturbedFit, Without

BY_OPTION = {goal.option.partition(":")[0]: goal for goal in (PerturbedFit, MaxAUC, Without, FromData)}
"""Goals with a name on the command line: what stands before a colon, as in without:COLUMN."""

__all__ = [
    "BY_OPTION",
    "CheckedGoal",
    "FederatedProblem",
    "FromData",
    "Goal",
    "MaxAUC",
    "MovableGoal",
    "OptionSource",
    "PerturbedFit",
    "ProvableGoal",
    "Within",
    "Without",
    "check_goal",
    "check_length",
    "check_vector",
    "unsolved",
]

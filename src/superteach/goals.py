"""Goals, for users; `superteach.coordinator.goals` has them."""

from superteach.coordinator.goals import (
    CheckedGoal,
    Classroom,
    FromData,
    Goal,
    MaxAUC,
    PerturbedFit,
    check_goal,
    check_vector,
)

__all__ = [
    "CheckedGoal",
    "Classroom",
    "FromData",
    "Goal",
    "MaxAUC",
    "PerturbedFit",
    "check_goal",
    "check_vector",
]

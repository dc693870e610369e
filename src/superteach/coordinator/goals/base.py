"""What a goal is, what it may use, and the checks of whatever is given as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from scipy import sparse

from superteach.coordinator.classroom import Classroom
from superteach.errors import GoalError
from superteach.mathematics.learner import Learner
from superteach.mathematics.problem import MOST
from superteach.types import Array, Labels


@runtime_checkable
class Goal(Protocol):
    """Anything that can name the vector to be taught."""

    def vector(self, classroom: Classroom) -> Array:
        """Return the goal in raw units, intercept last where the learner fits one."""


@runtime_checkable
class CheckedGoal(Goal, Protocol):
    """A goal that can tell before any work that it does not suit the learner or the rows."""

    def check(self, learner: Learner, columns: Sequence[object], classes: Labels | None) -> None:
        """Raise a GoalError; `columns` are names or numbers, `classes` the two labels where they are known."""


@runtime_checkable
class MovableGoal(Goal, Protocol):
    """A goal that is a set: another point of it may take the place of one that cannot be taught."""

    def moved_to(self, classroom: Classroom, model: Array) -> Array:
        """Return the point of the set nearest to a model on scaled columns, in raw units."""


def check_goal(goal: object, features: int, learner: Learner, classes: Labels | None = None) -> Array | Goal:
    """Return the goal as a vector of the right length, or as a Goal that will give one later."""
    if goal is None:
        raise GoalError(
            "no goal is given: pass goal= a vector, a fitted scikit-learn model, or superteach.goals.PerturbedFit(seed)"
        )
    if isinstance(goal, type):
        raise GoalError(f"goal={goal.__name__} is a class; pass an instance of it")
    if isinstance(goal, Goal):
        return goal
    if hasattr(goal, "predict") or hasattr(goal, "coef_"):
        return check_vector(_from_model(goal, learner, classes), features, learner)
    return check_vector(goal, features, learner)


def check_vector(goal: object, features: int, learner: Learner) -> Array:
    """Return a goal as float64, after checking its length and its values; of several outputs, one after the other.

    Softmax predicts the same where all classes are shifted alike: such a goal is taken with classes that add up to 0.
    """
    try:
        given = _real(goal)
    except (TypeError, ValueError, OverflowError) as error:
        raise GoalError(f"the goal must be a vector of numbers, got {type(goal).__name__}: {error}") from None
    vector = given.ravel()
    intercept, outputs = learner.intercept != "none", learner.outputs
    width = outputs * (features + intercept)
    if len(vector) != width or (outputs > 1 and given.ndim > 1 and len(given) != outputs):
        tail = " plus one for the intercept, last" if intercept else ""
        if outputs > 1:
            what = "class" if learner.loss.classifies else "target"
            raise GoalError(
                f"the goal has shape {given.shape}, expected ({outputs}, {features + intercept}): a row for each {what}, "
                f"in it one number for each of {features} columns{tail}"
            )
        raise GoalError(
            f"the goal has {len(vector)} entries, expected {width}: one for each of {features} columns{tail}"
        )
    usable = np.abs(vector) <= MOST
    if not usable.all():
        worst = int(np.argmin(usable))
        raise GoalError(f"the goal has a NaN, infinite or huge value at position {worst}: {vector[worst]}")
    return learner.centred(vector)


def _real(values: object) -> Array:
    array = np.asarray(values.toarray() if isinstance(values, sparse.spmatrix | sparse.sparray) else values)
    if array.dtype.kind in "cmM":
        raise TypeError(f"values of type {array.dtype} are no real numbers")
    return array.astype(np.float64)


def _from_model(model: object, learner: Learner, classes: Labels | None) -> Array:
    name, outputs = type(model).__name__, learner.outputs
    if not hasattr(model, "coef_"):
        raise GoalError(f"the goal {name} has no coef_: fit it first, or give a linear model")
    try:
        slope = _real(model.coef_)
        offset = _real(getattr(model, "intercept_", 0.0)).ravel()
    except (TypeError, ValueError, OverflowError) as error:
        raise GoalError(f"the goal {name} has coefficients that are no numbers: {error}") from None
    if slope.ndim > 2 or (slope.ndim == 2 and slope.shape[0] != outputs) or (slope.ndim < 2 and outputs > 1):
        rows = "one row of them is" if outputs == 1 else f"{outputs} rows of them are"
        raise GoalError(f"the goal {name} has coefficients of shape {slope.shape}; {rows} expected")
    theirs = getattr(model, "classes_", None)
    if classes is not None and theirs is not None and not np.array_equal(theirs, classes):
        raise GoalError(f"the goal {name} was fitted on labels {list(theirs)}, the rows have {list(classes)}")
    if learner.intercept != "none":
        if outputs > 1:
            return np.column_stack([slope, np.broadcast_to(offset, outputs)])
        return np.append(slope.ravel(), offset)
    if np.any(offset):
        raise GoalError(
            f"the goal {name} has an intercept of {offset[0]:g}, but the learner fits none: "
            "use fit_intercept=True in the learner or fit_intercept=False in the goal"
        )
    return slope if outputs > 1 else slope.ravel()

"""What a contestant is given, and what it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from superteach.learner import Learner
from superteach.optim.problem import Quadratic, Scaling, ridge_penalty
from superteach.types import Array
from superteach_lab.fit import fitted

Indices = npt.NDArray[np.int64]

ROWS = "all rows in one place"
GOAL = "the goal"
SUMS = "sums over the teachers"
ALONE = "a solver inside each teacher"


class Skipped(Exception):
    """A contestant that cannot run here; the message says why."""


@dataclass(frozen=True, eq=False)
class Task:
    """One pool and one goal, as copies that cannot be written to: X, y (labels are −1 and +1), owner of each row."""

    X: Array
    y: Array
    owner: Indices
    learner: Learner
    goal: Array | None
    """θ* in raw units, intercept last; None for whoever did not declare that it needs it."""
    seconds: float
    """What a choice may take; a contestant that goes on is stopped."""

    @property
    def rows(self) -> int:
        """N."""
        return len(self.y)

    @property
    def teachers(self) -> int:
        """K."""
        return int(self.owner.max()) + 1

    @property
    def design(self) -> Array:
        """The columns the learner sees: X, and the constant one where it has an intercept."""
        if not self.learner.column:
            return self.X
        return np.column_stack([self.X, np.full(self.rows, self.learner.column)])

    def penalty(self, size: int) -> Quadratic:
        """(Λ/2)‖θ‖² of a lesson of so many rows."""
        width = self.X.shape[1] + (self.learner.intercept != "none")
        return ridge_penalty(self.learner.penalty(size), width, self.learner.free_intercept)

    @property
    def aim(self) -> Array:
        """θ* on the design's columns."""
        assert self.goal is not None, "a contestant must declare that it needs the goal"
        return Scaling(self.learner.column).inside(self.goal)

    def pulls(self, model: Array) -> tuple[Array, Array]:
        """g_j = −ℓ'(x_j'θ) x_j and the curvatures ℓ''(x_j'θ) of all rows at a model on the design's columns."""
        design = self.design
        terms = self.learner.loss.terms(design @ model, self.y)
        return -terms.slope[:, None] * design, terms.curvature

    def fit(self, rows: Indices | None = None) -> Array:
        """The learner's model on some rows (default: all), on the design's columns."""
        some = slice(None) if rows is None else rows
        return fitted(self.design[some], self.y[some], self.learner)


@dataclass(frozen=True, eq=False)
class Proven:
    """A choice that comes with the direction of a proof that no lesson of its size teaches the goal exactly."""

    rows: Any
    direction: Any
    """One number per column of the design, and one for the count of rows (`superteach.lesson.Certificate`)."""


def never(task: Task, size: int) -> str | None:
    """Runs everywhere."""
    return None


@dataclass(frozen=True)
class Contestant:
    """A way to choose rows: its name, what it needs, and why it would not run."""

    name: str
    about: str
    needs: tuple[str, ...]
    choose: Callable[[Task, int, int], Any]
    """(task, size, seed) → row indices, or Proven; Skipped where that is not possible."""
    refuses: Callable[[Task, int], str | None] = never
    """Why it cannot run on this task at this size, before anything is tried; None where it can."""
    whole: bool = False
    """Always takes all rows, whatever size is asked for."""
    slow: bool = False
    """Takes as long as it is given; left out unless named."""

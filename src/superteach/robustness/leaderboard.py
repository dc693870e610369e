"""Bradley–Terry leaderboards: a logistic regression of votes on who took part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from superteach.exceptions import DataError, LearnerError, listed, suggestion
from superteach.losses.scalar import Logistic
from superteach.robustness.regression import Regression
from superteach.types import Array, Positions, Raw

RIDGE = 1.0
"""Penalty of the strengths, as LogisticRegression has it: who won every match gets a finite strength."""


@dataclass(frozen=True, eq=False)
class Votes:
    """Who won against whom; a strength for each name, σ(s_winner − s_loser) for each vote."""

    winner: Positions
    loser: Positions
    names: tuple[str, ...]
    regression: Regression

    @staticmethod
    def of(table: object, winner: object, loser: object, learner: object = None) -> Votes:
        """Read columns of a table, or two sequences of names."""
        won, lost = _names(table, winner, "winner"), _names(table, loser, "loser")
        if won.shape != lost.shape or won.ndim != 1:
            raise DataError(f"winner has shape {won.shape} and loser {lost.shape}; one name for each vote is needed")
        names, numbers = np.unique(np.concatenate([won, lost]), return_inverse=True)
        first, second = numbers[: len(won)], numbers[len(won) :]
        same = np.flatnonzero(first == second)
        if len(same):
            raise DataError(f"row {int(same[0])}: winner and loser are both {str(won[same[0]])!r}; leave such rows out")
        if len(names) < 2:
            raise DataError(f"{len(won)} votes hold {len(names)} names; a leaderboard needs two at least")
        ridge = RIDGE
        if learner is not None:
            from superteach.learner import Learner

            student = Learner.of(learner)
            if not isinstance(student.loss, Logistic) or student.column:
                raise LearnerError("a leaderboard takes LogisticRegression(fit_intercept=False) alone")
            ridge = student.penalty(len(won))
        # Each pair in one order: votes between two are two kinds of rows at most.
        low, high = np.minimum(first, second), np.maximum(first, second)
        rows = np.zeros((len(won), len(names)))
        places = np.arange(len(won))
        rows[places, low], rows[places, high] = 1.0, -1.0
        target = np.where(first == low, 1.0, -1.0)
        regression = Regression.of(rows, target, Logistic(), np.full(len(names), ridge), two_classes=False)
        return Votes(first, second, tuple(map(str, names)), regression)

    def fit(self) -> Array:
        """Fit the strengths to all votes."""
        return self.regression.fit(np.zeros(0, np.int64), np.zeros(self.regression.width))

    def order(self, model: Array) -> tuple[int, Sequence[int]]:
        """Return the first place, and the others by how near they are."""
        order = np.argsort(-(self.regression.basis @ model), kind="stable").tolist()
        return order[0], order[1:]

    def questions(self, model: Array, first: int, rivals: Sequence[int]) -> Iterator[tuple[int, Array]]:
        """Yield each rival with the direction of its distance from the first place."""
        for rival in rivals:
            yield rival, self.regression.basis[first] - self.regression.basis[rival]


def _names(table: object, given: object, role: str) -> Raw:
    """Take a column by its name, or names as they are."""
    if given is None:
        raise DataError(f"{role} is missing; name the columns of winner and loser")
    if isinstance(given, str):
        columns = list(getattr(table, "columns", []))
        if given not in columns:
            raise DataError(
                f"{role}={given!r} is no column; the table has {listed(columns)}{suggestion(given, columns)}"
            )
        given = table[given]  # type: ignore[index]
    values = np.asarray(given)
    if values.dtype.kind == "O":
        missing = [place for place, value in enumerate(values.ravel().tolist()) if value is None or value != value]
        if missing:
            raise DataError(f"{role}: row {missing[0]} holds no name; leave such rows out")
        values = values.astype(str)
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise DataError(f"{role}: row {int(np.argmax(np.isnan(values)))} holds no name; leave such rows out")
    return values

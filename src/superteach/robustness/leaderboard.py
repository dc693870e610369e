"""Bradley–Terry leaderboards: a logistic regression of votes on who took part."""

from __future__ import annotations

import numpy as np

from superteach.exceptions import DataError, LearnerError, listed, suggestion
from superteach.learner import Learner
from superteach.losses.scalar import Logistic
from superteach.robustness.regression import Regression
from superteach.types import Raw

RIDGE = 1.0
"""Penalty of the strengths, as LogisticRegression has it: who won every match gets a finite strength."""


def read_votes(table: object, winner: object, loser: object, learner: object = None) -> tuple[list[str], Regression]:
    """Read who won against whom from columns of a table or two sequences of names, as σ(s_winner − s_loser)."""
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
    return [str(name) for name in names], regression


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
    check_known(values, role, "name")
    return values.astype(str) if values.dtype.kind == "O" else values


def check_known(values: Raw, role: str, kind: str) -> None:
    """Refuse missing names of votes or of groups, by the row that has none."""
    missing = [place for place, value in enumerate(values.ravel().tolist()) if value is None or value != value]
    if missing:
        raise DataError(f"{role}: row {missing[0]} holds no {kind}; leave such rows out")

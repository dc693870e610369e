"""`drop`: the fewest rows without which a finding falls, between a proof and a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from superteach.errors import DataError, GoalError, LearnerError, SettingError, listed
from superteach.faces.tables import check_numbers, refuse_text
from superteach.mathematics.learner import Learner
from superteach.mathematics.problem import ridge_penalty
from superteach.teacher import dropping
from superteach.teacher.inputs import Part, make_teachers
from superteach.types import Array, Positions, is_number, is_whole

MOST_SHARE = 0.5
"""Share of the rows that a search may drop, where `most` is not given."""


@dataclass(frozen=True, eq=False, repr=False)
class Dropped:
    """How few rows carry a coefficient: at least `least` must go, and without `rows` it has passed the value."""

    rows: Positions | None
    """Rows without which the refitted coefficient has passed the value, ascending; None where none were found."""
    least: int | None
    """Fewer rows are proved not to be enough; None where there is no proof for this loss."""
    approximate: int | None
    """Rows that the influence approximation of econometrics says are enough; no refit behind it."""
    approximate_holds: bool | None
    """Whether a refit without the `approximate` rows agrees."""
    before: float
    after: float | None
    value: float
    total: int

    def __repr__(self) -> str:
        found = "none found" if self.rows is None else f"at most {len(self.rows)}"
        least = "no proof from below" if self.least is None else f"at least {self.least}"
        after = "" if self.after is None else f", {self.before:.4g} becomes {self.after:.4g}"
        return f"<Dropped: {least}, {found} of {self.total} rows{after}>"


def drop(
    X: object,
    y: object,
    learner: object = None,
    *,
    coefficient: object,
    value: float = 0.0,
    most: int | None = None,
) -> Dropped:
    """Find few rows without which `learner`, fitted on all others, has `coefficient` on the other side of `value`.

    `coefficient` is a column's name or number, or a vector a for a'θ (intercept last where the learner fits one). `most`
    limits the search (default: half of the rows).
    """
    if learner is None:
        from sklearn.linear_model import LogisticRegression

        learner = LogisticRegression()
    if hasattr(learner, "steps"):
        raise LearnerError(
            "drop takes a plain learner, not a Pipeline: transform the rows first (pipeline[:-1]), and give its last step"
        )
    student = Learner.of(learner)
    refuse_text(y, "y", "the target of each row")
    columns = list(getattr(X, "columns", []))
    if columns:
        check_numbers(X)
    features = np.asarray(X.toarray() if isinstance(X, sparse.spmatrix | sparse.sparray) else X)
    if features.ndim != 2:
        raise DataError(f"X has shape {features.shape}; rows × columns are needed")
    names = columns or list(range(features.shape[1]))
    if not (is_number(value) and np.isfinite(value)):
        raise SettingError(f"value={value!r} must be a finite number")
    limit = max(1, int(MOST_SHARE * len(features))) if most is None else most
    if not is_whole(limit) or not 1 <= limit < len(features):
        raise SettingError(
            f"most={most!r} must be a whole number from 1 to {len(features) - 1}, one less than the rows"
        )
    (teacher,), classes = make_teachers([Part("all rows", features, np.asarray(y))], names, student.loss)
    if np.asarray(y).ndim > 1 or (classes is not None and len(classes) > 2):
        many = (
            f"{np.asarray(y).shape[1]} targets"
            if classes is None
            else f"{len(classes)} classes, {listed(list(classes))}"
        )
        raise DataError(f"drop takes two classes or one target, y has {many}; ask about two of them at a time")
    rows = np.asarray(features, dtype=np.float64)
    if student.column:
        rows = np.column_stack([rows, np.full(len(rows), student.column)])
    penalty = ridge_penalty(student.penalty(len(rows)), rows.shape[1], student.free_intercept)
    target = np.asarray(teacher.target, dtype=np.float64)
    table = dropping.Table(rows, target, student.loss, penalty.diagonal, student.ridge_per_row)
    return _dropped(table, _direction(coefficient, names, student), float(value), limit)


def _dropped(table: dropping.Table, direction: Array, value: float, limit: int) -> Dropped:
    everybody = np.ones(len(table.target), dtype=bool)
    model = table.fit(everybody, np.zeros(table.rows.shape[1]))
    before = float(direction @ model)
    sign = 1.0 if before > value else -1.0
    along, goal, distance = sign * direction, sign * value, abs(before - value)

    def without(rows: Positions) -> Array:
        """Fit the learner on all other rows."""
        kept = everybody.copy()
        kept[rows] = False
        return table.fit(kept, model)

    plain = dropping.influences(table, everybody, model, along, exact=False)
    order = np.argsort(-plain)
    enough = np.flatnonzero(np.cumsum(np.maximum(plain[order], 0.0)) >= distance)
    approximate = int(enough[0]) + 1 if len(enough) else None
    holds = None
    if approximate is not None and approximate < len(plain):
        holds = bool(along @ without(order[:approximate]) <= goal)
    found = dropping.search(table, model, along, goal, limit)
    after = None if found is None else float(direction @ without(found))
    least = dropping.least_rows(table, model, along, distance, limit if found is None else len(found))
    return Dropped(found, least, approximate, holds, before, after, value, len(table.target))


def _direction(coefficient: object, names: Sequence[object], student: Learner) -> Array:
    width = len(names) + (student.intercept != "none")
    if isinstance(coefficient, np.ndarray | list | tuple):
        vector = np.asarray(coefficient, dtype=np.float64)
        if vector.shape != (width,) or not np.isfinite(vector).all() or not vector.any():
            raise GoalError(
                f"coefficient has shape {vector.shape}; a vector of {width} finite numbers is needed, not all 0"
            )
        return vector
    place = names.index(coefficient) if coefficient in names else -1
    if place < 0 and coefficient == "intercept" and student.column:
        return np.append(np.zeros(len(names)), student.column)
    if place < 0:
        raise GoalError(f"coefficient={coefficient!r} is no column; the rows have {', '.join(map(repr, names[:8]))}")
    direction = np.zeros(width)
    direction[place] = 1.0
    return direction

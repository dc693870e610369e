"""Goals in the columns behind the learner's transformers: models with transformers of their own, and goals by column.

A fitted pipeline is taken for the scores it gives these rows, β's + b with its own columns s. Where each s_j lies on a line
with one of our columns, o = a s + c, its coefficient is β_j/a_j. Else the scores themselves are looked for among the linear
functions of our columns; only an exact one is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from superteach.coordinator.problem import DEPENDENT, NEWTON_WIDTH
from superteach.exceptions import DataError, GoalError, listed, suggestion
from superteach.goals import FromData, Within, Without
from superteach.goals.base import INTERCEPT, find_column
from superteach.io.frames import columns_of, find_missing, name_row, take_rows
from superteach.pipelines.prepare import Preprocessing, apply, is_fitted, names_of, split
from superteach.types import Array, Foreign, Mask, Positions

AFFINE = 1e-6
"""Share of its range by which a column, or a score, may differ from what it is taken for: rounding of two ways to the same
scale is below 1e-9, and another knot or category is above 1e-2."""
VALUES = 2000
"""Values of a column that are tried, at most, to see what is made of it."""
_BLOCK = 20_000
"""Rows that are summed over at once."""
_CORRECTIONS = 3
"""Times that what is left of the scores is fitted again: normal equations alone lose half of all digits."""
_REMEDY = (
    "give the learner the goal's transformers as they are fitted, make_pipeline(FrozenEstimator(goal[:-1]), …), or give the "
    "rows that the goal was fitted on: goals.FromData(X, y) fits the learner on them"
)


def behind(prepared: Preprocessing, goal: object) -> object:
    """Read a goal in the columns behind the learner's transformers."""
    if isinstance(goal, FromData):
        return replace(goal, X=apply(prepared.transformer, goal.X, "goals.FromData"))
    if isinstance(goal, Without):
        return Without(*(made for column in goal.columns for made in _columns_from(prepared, column)))
    if isinstance(goal, Within):
        at_most, at_least = (
            {_column_of(prepared, name): bound for name, bound in side.items()}
            for side in (goal.at_most, goal.at_least)
        )
        equal = [[_column_of(prepared, name) for name in group] for group in goal.equal]
        near = None if goal.near is None else (behind(prepared, goal.near[0]), goal.near[1])
        return replace(goal, at_most=at_most, at_least=at_least, equal=equal, near=near)
    raw = not prepared.names_columns
    return translate(goal, prepared.features, prepared.columns, prepared.tables, prepared.names, raw)


def _column_of(prepared: Preprocessing, name: object) -> object:
    """Return the learner's own name for a column that a goal calls as the table does, without a transformer's prefix."""
    if name in prepared.columns or not isinstance(name, str) or name == INTERCEPT:
        return name
    alike = [column for column in prepared.columns if column.partition("__")[2] == name]
    if len(alike) == 1:
        return alike[0]
    table = _names(prepared.tables[0])
    if name in table:
        made = listed(_columns_from(prepared, name))
        raise GoalError(f"column {name!r} becomes {made} behind the learner's transformers; name one of these")
    names = list(dict.fromkeys([*table, *prepared.columns]))
    raise GoalError(f"the goal names column {name!r}, and there are {listed(names)}{suggestion(name, names)}")


def _columns_from(prepared: Preprocessing, name: object) -> list[str]:
    """Return the learner's columns that change with one column of the table while the others stay as they are."""
    first = prepared.tables[0]
    table = _names(first)
    if name not in table and isinstance(name, str):
        return [str(_column_of(prepared, name))]
    place = find_column(name, table, "the goal")
    changes = np.zeros(len(prepared.columns), dtype=bool)
    # Other columns as in a few rows: with one that is 0, a product with it would not be seen to change.
    for row in np.unique(np.linspace(0, first.shape[0] - 1, 5).astype(int)):
        before = _dense(apply(prepared.transformer, take_rows(first, np.array([row])), prepared.names[0]))
        for owned, owner in zip(prepared.tables, prepared.names, strict=True):
            some = _distinct(owned, place)
            probe = _with_column(take_rows(first, np.full(len(some), row)), place, take_rows(owned, some))
            after = _dense(apply(prepared.transformer, probe, owner))
            changes |= ~((after == before) | (np.isnan(after) & np.isnan(before))).all(axis=0)
    if not changes.any():
        raise GoalError(
            f"the goal names column {name!r}, and the learner's transformers make nothing of it; leave it out"
        )
    return [prepared.columns[place] for place in np.flatnonzero(changes)]


def _names(table: Foreign) -> list[object]:
    return list(table.columns) if hasattr(table, "columns") else list(range(table.shape[1]))


def _distinct(table: Foreign, place: int) -> Positions:
    """Return a row for each value of a column; of more than VALUES, some all over their range."""
    if sparse.issparse(table):
        values = _column(table, place)
    else:
        values = next(column for at, (_, column) in enumerate(columns_of(table)) if at == place)
    if values.dtype.kind in "biuf":
        rows = np.unique(values, return_index=True)[1]
    else:
        rows = np.array(list({str(value): row for row, value in enumerate(values.tolist())}.values()))
    return rows if len(rows) <= VALUES else rows[np.linspace(0, len(rows) - 1, VALUES).astype(int)]


def _with_column(table: Foreign, place: int, others: Foreign) -> Foreign:
    """Return a table with one column taken from another table of as many rows."""
    if hasattr(table, "iloc"):
        changed = table.copy()
        changed.isetitem(place, others.iloc[:, place].array)
        return changed
    if hasattr(table, "with_columns"):
        return table.with_columns(others[table.columns[place]])
    changed = table.toarray() if sparse.issparse(table) else np.array(table)
    changed[:, place] = _column(others, place) if sparse.issparse(others) else others[:, place]
    return changed


class _Model(NamedTuple):
    """Coefficients, one row for each output, and intercepts."""

    slope: Array
    offset: Array


def translate(
    goal: Foreign,
    features: Sequence[Foreign],
    columns: Sequence[object],
    tables: Sequence[Foreign],
    names: Sequence[str],
    raw: bool = False,
) -> object:
    """Read a fitted pipeline as its last model, with coefficients for our columns.

    `raw`: a model that knows names of columns was fitted on the table itself, for our transformers hand none on.
    """
    goal = getattr(goal, "estimator", goal) if isinstance(goal, FrozenEstimator) else goal
    goal = goal.model_ if isinstance(getattr(goal, "model_", None), Pipeline) else goal
    before, last = None, goal
    if isinstance(goal, Pipeline):
        if not is_fitted(goal):
            raise GoalError("the goal is a Pipeline that is not fitted; fit it first")
        before, _, last = split(goal)
        if not hasattr(last, "coef_"):
            raise GoalError(f"the goal's last step, {type(last).__name__}, has no coef_; a linear model is needed")
    own = list(getattr(last, "feature_names_in_", []))
    if before is not None:
        try:
            theirs = [apply(before, table, name) for table, name in zip(tables, names, strict=True)]
        except DataError as error:
            raise GoalError(f"the goal's Pipeline cannot score these rows: {error}; {_REMEDY}") from None
        own = names_of(before, theirs[0].shape[1])
    elif raw and own and hasattr(last, "coef_") and set(own) <= set(_names(tables[0])):
        theirs = [_numbers(table, own) for table in tables]
    else:
        return last
    inside, outside = _stacked(theirs), _stacked(features)
    slope = np.atleast_2d(np.asarray(last.coef_, dtype=np.float64))
    if slope.shape[-1] != inside.shape[1]:
        raise GoalError(f"the goal has {slope.shape[-1]} coefficients for {inside.shape[1]} columns; fit it again")
    model = _Model(slope, np.broadcast_to(np.asarray(last.intercept_, dtype=np.float64).ravel(), len(slope)))
    by_columns = _by_columns(model, inside, outside, own, columns)
    return _like(last, _by_scores(model, inside, outside, tables) if by_columns is None else by_columns)


def _like(last: Foreign, model: _Model) -> Foreign:
    """Return a fitted model of the same class with other coefficients."""
    made = copy(last)
    made.coef_ = model.slope.reshape((*np.shape(last.coef_)[:-1], -1))
    made.intercept_ = model.offset if np.ndim(last.intercept_) else float(model.offset[0])
    if hasattr(made, "feature_names_in_"):
        del made.feature_names_in_
    tiny = 1e-9 * (1.0 + np.abs(model.slope).sum())
    if not getattr(last, "fit_intercept", True) and np.abs(model.offset).max() <= tiny:
        made.intercept_ = last.intercept_
    return made


def _by_columns(
    model: _Model, inside: Foreign, outside: Foreign, theirs: Sequence[str], columns: Sequence[object]
) -> _Model | None:
    """Give each of our columns the coefficient of its namesake, where a line leads from one to the other; else None."""
    ours = [name if isinstance(name, str) else f"x{name}" for name in columns]
    if len(ours) != len(theirs) or set(ours) != set(theirs):
        return None
    order = [theirs.index(name) for name in ours]
    factor, shift = np.ones(len(order)), np.zeros(len(order))
    for place, other in enumerate(order):
        s, o = _column(inside, other), _column(outside, place)
        around = s - s.mean()
        spread = float(around @ around)
        if spread > 1e-24 * float(s @ s):
            factor[place] = float(around @ (o - o.mean())) / spread
        shift[place] = o.mean() - factor[place] * s.mean()
        away = np.abs(o - factor[place] * s - shift[place]).max()
        close = away <= AFFINE * max(float(np.ptp(o)), 1e-6 * float(np.abs(o).max()))  # not so where one is NaN
        if not close or factor[place] == 0.0:
            return None
        if abs(factor[place] - 1.0) < 1e-9 and abs(shift[place]) < 1e-9:
            factor[place], shift[place] = 1.0, 0.0
    slope = model.slope[:, order] / factor
    return _Model(slope, model.offset - slope @ shift)


def _by_scores(model: _Model, inside: Foreign, outside: Foreign, tables: Sequence[Foreign]) -> _Model:
    """Find the linear function of our columns that gives every row the goal's score, or say why there is none."""
    if outside.shape[1] > NEWTON_WIDTH:
        raise GoalError(
            f"the goal's Pipeline has other columns behind its transformers than the learner, whose {outside.shape[1]} are "
            f"too many to look for its scores among them (at most {NEWTON_WIDTH}); {_REMEDY}"
        )
    scores = np.asarray(inside @ model.slope.T) + model.offset
    scored = np.isfinite(scores).all(axis=1)
    worst = int(np.argmin(scored))
    if scored.all():
        fit, away = _linear(outside, scores)
        worst = int(np.argmax(away))
        if away[worst] <= 1.0:
            return fit
    missing = np.concatenate([_missing(table) for table in tables])
    complete = np.flatnonzero(~missing)
    if missing.any() and len(complete) and _linear(outside[complete], scores[complete])[1].max() <= 1.0:
        fault = f"fills missing values otherwise than the learner's does, in {int(missing.sum())} rows"
    else:
        fault = f"gives scores that are no linear function of the learner's columns (look at {_row(tables, worst)})"
    raise GoalError(f"the goal's Pipeline {fault}; {_REMEDY}")


def _linear(outside: Foreign, scores: Array) -> tuple[_Model, Array]:
    """Fit scores by a linear function of our columns; return it, and how far off each row is: above 1, too far.

    Of several the one with the shortest slope is taken: a penalised model has no part in a direction that no row has.
    """
    count, width = outside.shape
    rows = outside.tocsr() if sparse.issparse(outside) else outside
    mean, offset = np.asarray(rows.mean(axis=0), dtype=np.float64).ravel(), scores.mean(axis=0)
    blocks = [slice(start, start + _BLOCK) for start in range(0, count, _BLOCK)]
    gram = np.zeros((width, width))
    for block in blocks:
        some = _dense(rows[block]) - mean
        gram += some.T @ some
    unit = 1.0 / np.sqrt(np.where(np.diag(gram) > 0.0, np.diag(gram), 1.0))
    values, axes = np.linalg.eigh(gram * np.outer(unit, unit))
    axes, flat = axes * unit[:, None], values <= DEPENDENT * max(float(values[-1]), 1.0)
    inverse = (axes[:, ~flat] / values[~flat]) @ axes[:, ~flat].T
    idle = np.linalg.qr(axes[:, flat])[0]
    slope, left = np.zeros((width, scores.shape[1])), scores - offset
    for _ in range(1 + _CORRECTIONS):
        slope = slope + inverse @ sum((_dense(rows[block]) - mean).T @ left[block] for block in blocks)
        slope = slope - idle @ (idle.T @ slope)
        left = np.concatenate([scores[block] - offset - (_dense(rows[block]) - mean) @ slope for block in blocks])
    if count < width - int(flat.sum()) + 2:  # so few rows would have any scores
        left = np.full_like(left, np.inf)
    size = np.maximum(np.ptp(scores, axis=0), 1e-6 * np.abs(scores).max(axis=0))
    away = (np.abs(left) / (AFFINE * np.where(size > 0.0, size, 1.0))).max(axis=1)
    return _Model(slope.T, offset - mean @ slope), away


def _missing(table: Foreign) -> Mask:
    """Mark rows in which some value is missing."""
    missing = np.zeros(table.shape[0], dtype=bool)
    for _, values in columns_of(table):
        if values.dtype.kind in "fO":
            missing |= np.isnan(values) if values.dtype.kind == "f" else find_missing(values)
    return missing


def _row(tables: Sequence[Foreign], row: int) -> str:
    for table in tables:
        if row < table.shape[0]:
            return name_row(table, row)
        row -= table.shape[0]
    return f"row {row}"


def _numbers(table: Foreign, columns: list[str]) -> Array:
    """Return some columns of a table as numbers."""
    named = dict(columns_of(table))
    return np.column_stack([np.asarray(named[column], dtype=np.float64) for column in columns])


def _stacked(parts: Sequence[Foreign]) -> Foreign:
    return sparse.vstack(parts, format="csc") if sparse.issparse(parts[0]) else np.vstack(parts)


def _dense(matrix: Foreign) -> Array:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=np.float64)


def _column(matrix: Foreign, place: int) -> Array:
    return _dense(matrix[:, [place]]).ravel()

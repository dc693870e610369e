"""Goals as people write them down: coefficients by column, with an intercept and the label they speak for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeGuard, TypeVar

import numpy as np

from superteach.exceptions import GoalError, listed, shorten, suggestion
from superteach.io.labels import PositiveLabel
from superteach.types import Array, Foreign, Json, Labels, is_number

INTERCEPT = "intercept"
"""What a goal by column name calls the intercept."""
Value = TypeVar("Value")


def in_order(named: Mapping[Foreign, Value], columns: Sequence[Foreign], where: str) -> list[Value]:
    """Put values by column name in the order of `columns`; refuse other names."""
    missing = [column for column in columns if column not in named]
    extra = [name for name in named if name not in columns]
    if missing or extra:
        faults = [f"no coefficient for column {listed(missing)}"] * bool(missing)
        faults += [f"a coefficient for {listed(extra)}, which is no feature column"] * bool(extra)
        meant = suggestion(extra[0], missing or columns) if extra else ""
        raise GoalError(f"{where} has {' and '.join(faults)}; the columns are {listed(columns)}{meant}")
    return [named[column] for column in columns]


def goal_vector(
    stored: object, where: str, columns: Sequence[object], intercept: bool, classes: Labels | None = None
) -> Array:
    """Read θ* from the contents of a goal file; `where` is what errors call it."""
    if not isinstance(stored, dict):
        return _goal_numbers(stored, where, "the goal")
    stored = _with_coef(stored, columns)
    if "coef" not in stored:
        form = json.dumps({"coef": dict.fromkeys(map(str, columns[:2]), 1.0), INTERCEPT: 0.0})
        raise GoalError(
            f"{where} has no 'coef', and is no coefficient by column; it has {listed(list(stored)) or 'nothing'}. Write it "
            f"as {form}, with every column"
        )
    coef, theirs = stored["coef"], stored.get("columns")
    coef = list(coef) if isinstance(coef, tuple) else coef
    if isinstance(coef, list) and isinstance(theirs, list) and all(isinstance(column, str) for column in columns):
        if len(coef) != len(theirs):
            raise GoalError(f"{where} has {len(coef)} coefficients for {len(theirs)} columns")
        coef = dict(zip(map(str, theirs), coef, strict=True))
    if isinstance(coef, dict):
        if INTERCEPT in coef and INTERCEPT not in columns and stored.get(INTERCEPT) is None:
            stored = {**stored, INTERCEPT: coef[INTERCEPT]}
            coef = {name: value for name, value in coef.items() if name != INTERCEPT}
        coef = in_order(coef, columns, where)
    slope = _goal_numbers(coef, where, "coef")
    if len(slope) != len(columns):
        raise GoalError(f"{where} has {len(slope)} coefficients, expected {len(columns)}: one per feature column")
    theirs = stored.get("classes")
    if classes is not None and theirs is not None and not same_labels(theirs, classes):
        raise GoalError(f"{where} is for labels {theirs!r}, the rows have {np.asarray(classes).tolist()!r}")
    if intercept and stored.get("intercept") is None:
        raise GoalError(
            f"{where} has no 'intercept', but the learner fits one: add it, or fit none "
            "(fit_intercept=False, --no-intercept)"
        )
    offset = _goal_numbers([stored.get("intercept") or 0.0], where, "intercept")
    if not intercept and offset[0] != 0.0:
        raise GoalError(
            f"{where} has an intercept of {offset[0]:g}, the learner fits none: fit one (fit_intercept=True or --intercept)"
        )
    vector = np.append(slope, offset) if intercept else slope
    return -vector if _speaks_for_first(stored, where, classes) else vector


def _with_coef(stored: Json, columns: Sequence[object]) -> Json:
    """Read numbers by column, without "coef" around them, as if it were there."""
    if not stored or ("coef" in stored and "coef" not in columns) or not all(map(is_number, stored.values())):
        return stored
    own = {INTERCEPT: stored[INTERCEPT]} if INTERCEPT in stored and INTERCEPT not in columns else {}
    return {"coef": {name: value for name, value in stored.items() if name not in own}, **own}


def is_written(goal: object) -> TypeGuard[Mapping[str, object]]:
    """Tell what a goal file holds, {"coef": numbers, …}, from a goal by column names, one of which may be "coef"."""
    return isinstance(goal, Mapping) and isinstance(goal.get("coef"), Mapping | Sequence | np.ndarray)


def stated_positive(goal: object) -> object:
    """Return the label that a goal says its coefficients speak for; None: it does not say."""
    if not is_written(goal):
        return None
    classes = goal.get("classes")
    last = classes[1] if isinstance(classes, Sequence) and len(classes) == 2 else None
    return last if goal.get("positive") is None else goal["positive"]


def positive_label(goal: object, chosen: PositiveLabel, where: str = "the goal") -> PositiveLabel:
    """Return the label that was chosen as positive, or else the one that the goal states."""
    stated = stated_positive(goal)
    return chosen if chosen.label is not None or stated is None else PositiveLabel(stated, where, GoalError)


def _speaks_for_first(goal: Mapping[str, object], where: str, classes: Labels | None) -> bool:
    """Tell whether a goal names the first of the two classes as positive, so that its signs are to be turned."""
    stated = stated_positive(goal)
    if stated is None:
        return False
    order = PositiveLabel(stated, where, GoalError).last(classes)
    return bool(order is not None and classes is not None and order[1] != classes[1])


def same_labels(some: Labels, others: Labels) -> bool:
    """Tell whether labels are the same; two of them may be in either order."""
    first, second = (np.asarray(labels).tolist() for labels in (some, others))
    return first == second or (len(first) == 2 and first[::-1] == second)


def _goal_numbers(stored: object, where: str, what: str) -> Array:
    """Return a flat list or array of numbers as float64."""
    if isinstance(stored, list):
        for position, value in enumerate(stored):
            if not is_number(value):
                raise GoalError(
                    f"{where}: entry {position} of {what} is {shorten(repr(value), 40)}, a number is needed"
                )
        try:
            return np.array(stored, dtype=np.float64)
        except OverflowError:
            raise GoalError(f"{where}: {what} holds a number too large for float64") from None
    if isinstance(stored, np.ndarray) and stored.dtype.kind in "iuf" and stored.size == max(stored.shape, default=0):
        return stored.astype(np.float64).ravel()
    shape = (
        f"an array of {stored.dtype} and shape {stored.shape}"
        if isinstance(stored, np.ndarray)
        else type(stored).__name__
    )
    raise GoalError(f"{where}: {what} is {shape}, a list of numbers is needed")

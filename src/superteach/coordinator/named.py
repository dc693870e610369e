"""Learners and goals by the names and numbers that an order holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from superteach.coordinator.goals.base import in_order
from superteach.errors import GoalError, SettingError, listed, shorten
from superteach.mathematics.learner import Learner
from superteach.types import Array, Json, Labels

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

INVERSE = ("logistic", "svc")
"""Learners with a penalty that is written as C; the others have alpha."""


def build_learner(kind: str, C: float | None, alpha: float | None, intercept: bool) -> BaseEstimator | Learner:
    """Build the scikit-learn estimator behind a learner's name (Huber's loss has a fixed scale of our own)."""
    from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
    from sklearn.svm import LinearSVC

    from superteach.mathematics.losses import Huber

    if kind in INVERSE and alpha is not None:
        raise SettingError(f"--alpha={alpha:g} does not go with --learner {kind}; its penalty is --C (1/alpha)")
    if kind not in INVERSE and C is not None:
        raise SettingError(f"--C={C:g} does not go with --learner {kind}; its penalty is --alpha")
    penalty, given = ("C", C) if kind in INVERSE else ("alpha", alpha)
    strength = 1.0 if given is None else given
    estimators = {"logistic": LogisticRegression, "svc": LinearSVC, "ridge": Ridge, "poisson": PoissonRegressor}
    if kind == "huber":
        return Learner(Huber(), strength, "free" if intercept else "none")
    if kind not in estimators:
        raise SettingError(f"learner {kind!r} is not known; there are {', '.join((*estimators, 'huber'))}")
    return estimators[kind](**{penalty: strength, "fit_intercept": intercept})


def learner_settings(kind: str, estimator: object, student: Learner, intercept: bool) -> Json:
    """Describe the learner for model.json."""
    penalty = getattr(estimator, "C", None) or getattr(estimator, "alpha", student.ridge)
    return {"name": kind, "C" if kind in INVERSE else "alpha": penalty, "fit_intercept": intercept}


def goal_vector(
    stored: object, where: str, columns: Sequence[str], intercept: bool, classes: Labels | None = None
) -> Array:
    """Read θ* from the contents of a goal file; `where` is what errors call it."""
    if not isinstance(stored, dict):
        return _goal_numbers(stored, where, "the goal")
    if "coef" not in stored:
        raise GoalError(f"{where} has no 'coef'; it has {listed(list(stored)) or 'nothing'}")
    coef = stored["coef"]
    theirs = stored.get("columns")
    if isinstance(coef, list) and isinstance(theirs, list):
        if len(coef) != len(theirs):
            raise GoalError(f"{where} has {len(coef)} coefficients for {len(theirs)} columns")
        coef = dict(zip(map(str, theirs), coef, strict=True))
    if isinstance(coef, dict):
        coef = in_order(coef, columns, where)
    slope = _goal_numbers(coef, where, "coef")
    if len(slope) != len(columns):
        raise GoalError(f"{where} has {len(slope)} coefficients, expected {len(columns)}: one per feature column")
    if classes is not None and stored.get("classes") is not None and list(stored["classes"]) != list(classes):
        raise GoalError(f"{where} is for labels {stored['classes']!r}, the rows have {np.asarray(classes).tolist()!r}")
    if intercept and stored.get("intercept") is None:
        raise GoalError(f"{where} has no 'intercept', but the learner fits one: add it, or use --no-intercept")
    offset = _goal_numbers([stored.get("intercept") or 0.0], where, "intercept")
    if not intercept and offset[0] != 0.0:
        raise GoalError(f"{where} has an intercept of {offset[0]:g}, but the learner fits none; use --intercept")
    return np.append(slope, offset) if intercept else slope


def _goal_numbers(stored: object, where: str, what: str) -> Array:
    """Return a flat list or array of numbers as float64."""
    if isinstance(stored, list):
        for position, value in enumerate(stored):
            if isinstance(value, bool) or not isinstance(value, int | float):
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

"""Learners by the names that a command line and an order have for them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from superteach.exceptions import SettingError
from superteach.learner import Learner
from superteach.losses.scalar import LOSSES
from superteach.types import Json

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

INVERSE = ("logistic", "svc")
"""Learners with a penalty that is written as C; the others have alpha."""
NAMES = ("logistic", "svc", "ridge", "poisson", "huber")
_LOSS = {"svc": "squared_hinge", "ridge": "squared"}


def build_learner(kind: str, C: float | None, alpha: float | None, intercept: bool) -> BaseEstimator | Learner:
    """Build the scikit-learn estimator behind a learner's name (Huber's loss has a fixed scale of our own)."""
    penalty, strength = penalty_of(kind, C, alpha)
    if kind == "huber":
        return build_student(kind, C, alpha, intercept)
    from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
    from sklearn.svm import LinearSVC

    estimators = {"logistic": LogisticRegression, "svc": LinearSVC, "ridge": Ridge, "poisson": PoissonRegressor}
    return estimators[kind](**{penalty: strength, "fit_intercept": intercept})


def build_student(kind: str, C: float | None, alpha: float | None, intercept: bool) -> Learner:
    """Build what `Learner.of` makes of that estimator, without scikit-learn, whose import takes longer than a lesson."""
    penalty, strength = penalty_of(kind, C, alpha)
    column: Literal["none", "free", "penalised"] = "none" if not intercept else "penalised" if kind == "svc" else "free"
    ridge = 1.0 / strength if penalty == "C" else strength
    return Learner(LOSSES[_LOSS.get(kind, kind)](), ridge, column, ridge_per_row=kind == "poisson")


def penalty_of(kind: str, C: float | None, alpha: float | None) -> tuple[str, float]:
    """Return what a learner's penalty is called, and how large it is."""
    if kind not in NAMES:
        raise SettingError(f"learner {kind!r} is not known; there are {', '.join(NAMES)}")
    if kind in INVERSE and alpha is not None:
        raise SettingError(f"--alpha={alpha:g} does not go with --learner {kind}; its penalty is --C (1/alpha)")
    if kind not in INVERSE and C is not None:
        raise SettingError(f"--C={C:g} does not go with --learner {kind}; its penalty is --alpha")
    penalty, given = ("C", C) if kind in INVERSE else ("alpha", alpha)
    strength = 1.0 if given is None else given
    unpenalised = strength == math.inf and kind == "logistic"
    if not (0.0 < strength < math.inf or unpenalised):
        raise SettingError(f"--{penalty} {strength:g} must be a finite number above 0")
    return penalty, strength


def learner_settings(kind: str, C: float | None, alpha: float | None, intercept: bool) -> Json:
    """Describe the learner for model.json."""
    penalty, strength = penalty_of(kind, C, alpha)
    return {"name": kind, penalty: strength, "fit_intercept": intercept}

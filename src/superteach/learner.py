"""The learner: which of scikit-learn's estimators it is, and how it is fitted from sums.

Always θ_S = argmin_θ Σ_{j∈S} ℓ_j(x_j'θ) + (Λ/2)‖θ‖²; scikit-learn's constants map onto Λ as
`Learner.of` says, so that refitting the user's own estimator on the chosen rows gives the same model.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from superteach.exceptions import LearnerError, NotConverged, Setting, shorten
from superteach.losses.multioutput import EVERY_LOSS, SquaredLabel, SquaredTargets, spread
from superteach.losses.scalar import Huber, Logistic, Loss, Poisson, Squared, SquaredHinge
from superteach.optim.function import Function, Moments, Sums
from superteach.optim.lbfgs import LBFGS
from superteach.optim.newton import Newton, Solution
from superteach.optim.problem import MOST, ridge_penalty
from superteach.types import Array, Json, is_number

Intercept = Literal["none", "free", "penalised"]

GRADIENT_TOLERANCE = 1e-10
"""Size of the gradient that ends a fit, as a share of the two parts that cancel in it."""

MEDIANS = 30
"""Times that Huber's intercept is set to the best before a fit gives up; 6 is the most that was seen."""

SUPPORTED = (
    "LogisticRegression (l2), RidgeClassifier, LinearSVC (squared_hinge, l2), Ridge, LinearRegression, PoissonRegressor, "
    "or superteach.Learner(loss, ridge) for any loss in superteach.losses"
)

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


@dataclass(frozen=True)
class Learner:
    """A loss, a ridge Λ and an intercept: Σ ℓ_j(x_j'θ) + (Λ/2)‖θ‖²."""

    loss: Loss
    ridge: float = 1.0
    intercept: Intercept = "none"
    constant: float = 1.0
    """Value of the constant column that carries the intercept."""
    ridge_per_row: bool = False
    """Λ = ridge·|S|: the learner averages its losses instead of adding them."""
    weighted: bool = False
    """Whether rows count differently in the loss: their owners know how much."""

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss):
            raise LearnerError(f"a Learner takes a loss of superteach.losses, got {self.loss!r}")
        if self.weighted and self.ridge_per_row:
            raise LearnerError(
                "PoissonRegressor cannot be taught from weighted rows: it divides its loss by the weights of the chosen "
                "rows, which nobody knows before; leave sample_weight out, or use superteach.Learner(Poisson(), ridge)"
            )
        if self.weighted and self.loss.classifies and not self.ridge:
            raise LearnerError(
                "logistic regression without a penalty is taught from rows that count the same; leave sample_weight and "
                "class_weight out, or give the learner a finite C"
            )
        if self.intercept not in ("none", "free", "penalised"):
            raise LearnerError(f"intercept={self.intercept!r} must be 'none', 'free' or 'penalised'")
        if not (math.isfinite(self.constant) and self.constant > 0):
            raise LearnerError(f"the constant column must be a positive number, got {self.constant!r}")
        free = type(self.loss) in (Squared, SquaredTargets, Logistic) and not self.ridge_per_row
        if not (is_number(self.ridge) and 0 <= self.ridge < math.inf) or not (self.ridge or free):
            why = "" if self.ridge else ": without a penalty no unique model belongs to a lesson"
            raise LearnerError(f"the learner's ridge must be a finite number above 0, got {self.ridge!r}{why}")

    @property
    def column(self) -> float:
        """The constant column's value, 0 where there is none."""
        return 0.0 if self.intercept == "none" else self.constant

    @property
    def free_intercept(self) -> bool:
        """Whether the last coefficient is an intercept without penalty."""
        return self.intercept == "free"

    @property
    def outputs(self) -> int:
        """Models that are fitted over the same rows: one for each of many classes or several targets."""
        return self.loss.outputs

    def over(self, outputs: int) -> Learner:
        """Return what scikit-learn's estimator becomes for `outputs` classes (two are one output) or targets."""
        if outputs > 1 and self.loss.classifies and not self.ridge:
            raise LearnerError(
                f"logistic regression without a penalty is taught for two classes, and the labels have {outputs}: "
                "give a finite C, such as LogisticRegression(C=100)"
            )
        found = replace(self, loss=spread(self.loss, outputs))
        if found.loss.shifts and self.intercept == "penalised":
            raise LearnerError(
                f"LogisticRegression(solver='liblinear') knows two classes, and the labels have {outputs}: "
                "use another solver, such as the default 'lbfgs'"
            )
        return found

    def centred(self, model: Array) -> Array:
        """The same model with outputs that add up to 0 where a common shift changes no prediction (softmax)."""
        if not self.loss.shifts:
            return model
        rows = model.reshape(self.outputs, -1)
        return np.asarray((rows - rows.mean(axis=0)).reshape(model.shape))

    def shaped(self, model: Array) -> Array:
        """Coefficients as users see them: a vector, or one row for each output, intercepts last."""
        return model if self.outputs == 1 else model.reshape(self.outputs, -1)

    def penalty(self, rows: int) -> float:
        """Λ for a lesson of `rows` rows."""
        return self.ridge * rows if self.ridge_per_row else self.ridge

    def least_rows(self, width: int) -> tuple[int, str]:
        """Return the fewest rows that a model of `width` coefficients can belong to, and why."""
        if not self.ridge:
            own = width // self.outputs
            return own, f"a learner without a penalty needs as many rows as its {own} coefficients"
        if self.loss.classifies:
            classes = max(2, self.outputs)
            return classes, f"a classifier needs a row of each of its {classes} classes"
        return 1, "a lesson has at least one row"

    def refuses(self, rows: int, positive: int) -> str | None:
        """Say why no model belongs to `rows` rows, `positive` of them with a label or target above 0; None: one does."""
        if self.loss.classifies and self.outputs == 1 and positive in (0, rows):
            return f"{rows} sample(s) carry a single class, and a classifier needs two"
        if isinstance(self.loss, Poisson) and self.free_intercept and positive == 0:
            return f"{rows} sample(s) have targets of 0 alone, and Poisson's intercept has no finite value for them"
        return None

    def as_dict(self) -> Json:
        """Return values for JSON."""
        stored: Json = {"weighted": True} if self.weighted else {}
        return stored | {
            "loss": self.loss.settings(),
            "ridge": float(self.ridge),
            "ridge_per_row": self.ridge_per_row,
            "intercept": self.intercept,
            "constant": float(self.constant),
        }

    @classmethod
    def from_dict(cls, stored: Json) -> Learner:
        """The learner of which `as_dict` gave these values, or a LearnerError."""
        try:
            loss = dict(stored["loss"])
            return cls(**stored | {"loss": EVERY_LOSS[loss.pop("name")](**loss)})
        except (KeyError, TypeError, ValueError) as error:
            raise LearnerError(f"{stored!r} describes no learner: {error}") from None

    @staticmethod
    def of(estimator: BaseEstimator) -> Learner:
        """Read a scikit-learn estimator as a Learner, or say why it cannot be taught."""
        if isinstance(estimator, Learner):
            return estimator
        kind = type(estimator)
        taught = _TAUGHT.get(kind.__name__)
        ours = kind.__module__.split(".")[0] == "sklearn"
        if ours and kind.__name__ == "HuberRegressor":
            raise LearnerError(
                "HuberRegressor cannot be taught: it refits its scale on the lesson, so its objective is not a sum of "
                "losses of x'θ. Huber's loss with a fixed scale can: "
                "superteach.Learner(superteach.losses.Huber(delta), ridge)"
            )
        if taught is None or not ours:
            seen = f"{estimator.__name__} (a class, not an instance)" if isinstance(estimator, type) else kind.__name__
            seen = f"the text {shorten(estimator, 40)!r}" if isinstance(estimator, str) else seen
            raise LearnerError(f"{seen} cannot be taught; supported are {SUPPORTED}")
        found = _read(estimator, taught)
        try:
            estimator._validate_params()
        except ValueError as error:
            raise LearnerError(f"{kind.__name__} cannot be taught: {' '.join(str(error).split())}") from None
        return found


def _require(estimator: BaseEstimator, **allowed: tuple[object, ...]) -> None:
    for option, values in allowed.items():
        value = getattr(estimator, option, values[0])
        if not any(value is accepted or (type(value) is type(accepted) and value == accepted) for accepted in values):
            choices = " or ".join(repr(accepted) for accepted in values if accepted != "deprecated")
            raise LearnerError(
                f"{type(estimator).__name__}({option}={value!r}) cannot be taught: {option} must be {choices}. "
                f"Supported are {SUPPORTED}"
            )


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and bool(0 < value <= sys.float_info.max)


def _strength(estimator: BaseEstimator, option: Literal["C", "alpha"]) -> float:
    strength = getattr(estimator, option)
    kind = type(estimator).__name__
    wanted = None
    if kind == "LogisticRegression" and (estimator.penalty is None or (is_number(strength) and strength == math.inf)):
        if estimator.solver == "liblinear":
            raise LearnerError(
                "LogisticRegression(solver='liblinear') needs a penalty: give a finite C, or another solver"
            )
        return math.inf
    if is_number(strength) and strength == (math.inf if option == "C" else 0):
        wanted = "finite" if option == "C" else "above 0"
        wanted += ", because without a penalty no unique model belongs to a lesson"
        wanted += "; LinearRegression is taught where rows are enough" * (kind == "Ridge")
    elif not _is_positive(strength):
        wanted = "one number above 0"
    elif not 1.0 / MOST <= strength <= MOST:
        wanted = f"from {1.0 / MOST:g} to {MOST:g}"
    if wanted is not None:
        raise LearnerError(f"{kind}({option}={strength!r}) cannot be taught: {option} must be {wanted}")
    return float(strength)


def _penalised_column(estimator: BaseEstimator) -> tuple[Intercept, float]:
    """Read liblinear's intercept: a constant column of `intercept_scaling` that is penalised like the rest."""
    if not estimator.fit_intercept:
        return "none", 1.0
    scaling = estimator.intercept_scaling
    if not _is_positive(scaling) or scaling > MOST:
        raise LearnerError(
            f"{type(estimator).__name__}(intercept_scaling={scaling!r}) must be a positive number of at most {MOST:g}"
        )
    return "penalised", float(scaling)


class _Estimator(NamedTuple):
    """An estimator that can be taught: its loss, the option that holds its penalty, and what other options may be."""

    loss: Loss
    penalty: Literal["C", "alpha"] | None
    """C is 1/Λ, alpha is Λ; None: it has no penalty."""
    allowed: dict[str, tuple[object, ...]]


_TAUGHT = {
    "LogisticRegression": _Estimator(
        Logistic(), "C", {"class_weight": (None,), "penalty": ("l2", "deprecated", None), "l1_ratio": (None, 0, 0.0)}
    ),
    "Ridge": _Estimator(Squared(), "alpha", {"positive": (False,)}),
    "RidgeClassifier": _Estimator(SquaredLabel(), "alpha", {"positive": (False,), "class_weight": (None,)}),
    "LinearRegression": _Estimator(Squared(), None, {"positive": (False,)}),
    "LinearSVC": _Estimator(
        SquaredHinge(),
        "C",
        {"loss": ("squared_hinge",), "penalty": ("l2",), "class_weight": (None,), "multi_class": ("ovr",)},
    ),
    "PoissonRegressor": _Estimator(Poisson(), "alpha", {}),
}
"""scikit-learn's estimators by name."""


def _read(estimator: BaseEstimator, taught: _Estimator) -> Learner:
    _require(estimator, fit_intercept=(True, False, np.True_, np.False_))
    _require(estimator, **taught.allowed)
    strength = _strength(estimator, taught.penalty) if taught.penalty else 0.0
    ridge = 1.0 / strength if taught.penalty == "C" else strength
    liblinear = isinstance(taught.loss, Logistic) and estimator.solver == "liblinear"
    if liblinear or isinstance(taught.loss, SquaredHinge):
        return Learner(taught.loss, ridge, *_penalised_column(estimator))
    intercept: Intercept = "free" if estimator.fit_intercept else "none"
    return Learner(taught.loss, ridge, intercept, ridge_per_row=isinstance(taught.loss, Poisson))


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model on scaled columns, and why the fit ended."""

    model: Array
    steps: int
    reason: str


def fit(
    sums_of_rows: Sums,
    learner: Learner,
    count: int,
    solver: Newton | LBFGS,
    start: Array,
    row_square: float = 1.0,
    bends: Array | None = None,
    standardized: bool = False,
) -> Fit:
    """Fit the learner on `count` rows, from sums over them.

    `row_square` is the mean of ‖x_j‖²: the terms of the gradient add up to at most √(2 Σℓ · Σ‖x‖²) for a
    loss with curvature at most 1, and what lies many digits below that is rounding. `bends` is about what the
    losses of these rows bend along each coefficient, where the model is too wide for more. Errors do not advise to
    standardise columns that are `standardized`.
    """
    penalty = ridge_penalty(learner.penalty(count), len(start), learner.free_intercept, learner.outputs)
    function = Function(sums_of_rows, penalty)

    def terms(sums: Moments) -> float:
        return float(np.sqrt(2.0 * (abs(sums.value) + 1e-3 * count) * count * row_square))

    begun = not np.any(start)

    def stop(point: Array, sums: Moments, whole: Moments) -> str | None:
        nonlocal begun
        if not begun:  # a start that happens to be near enough is not yet this fit's own result
            begun = True
            return None
        return function.flat(GRADIENT_TOLERANCE, 1e-5 * terms(sums))(point, sums, whole)

    def again() -> Fit:
        beginning = np.zeros_like(start)
        return fit(sums_of_rows, learner, count, solver, beginning, row_square, bends, standardized)

    def minimise(point: Array) -> Solution:
        if isinstance(solver, LBFGS) and bends is not None:
            stiff = bends + penalty.diagonal
            return solver.minimise(function, point, stop, np.where(stiff > 0.0, stiff, 1.0))
        return solver.minimise(function, point, stop)

    try:
        if isinstance(learner.loss, Huber) and learner.free_intercept:
            solution = _by_medians(minimise, function, start, learner.loss.delta / learner.constant)
        else:
            solution = minimise(start)
    except np.linalg.LinAlgError:
        if np.any(start):
            return again()
        raise
    if not solution.converged:
        # float64 may end a fit before the tolerance does; what it reached must still be a fit.
        norm = np.linalg.norm(solution.sums.gradient + penalty.gradient(solution.point))
        # Without curvature the values of a line search tell steps apart to about the square root of that.
        reached = 1e-10 if isinstance(solver, Newton) else 1e-8
        if not norm <= reached * terms(solution.sums):
            if np.any(start):  # a start far out, such as the model of other rows, may lead nowhere
                return again()
            raise NotConverged(
                f"the learner's fit on {count} rows did not converge: {solution.reason}. Very large or badly "
                "scaled columns are the usual cause",
                *(() if standardized else ("; try ", Setting("standardize", True))),
            )
    # A model that errs on one row has a loss of log 2 there or more: with less in all, larger coefficients are better still.
    if learner.loss.classifies and not learner.ridge and solution.sums.value < math.log(2.0):
        raise NotConverged(
            f"logistic regression without a penalty has no finite model on {count} rows, because a plane separates their "
            "classes; give the learner a finite C, or choose more rows"
        )
    return Fit(learner.centred(solution.point), solution.steps, solution.reason)


def _by_medians(minimise: Callable[[Array], Solution], function: Function, start: Array, near: float) -> Solution:
    """Minimise Huber's loss; rows far from the model do not curve, and where none does no step moves the intercept.

    Then the intercept is set to where it is best by itself: to a median of what the model leaves.
    """
    solution = minimise(start if np.any(start) else _at_median(function, start, near))
    for _ in range(MEDIANS):
        if solution.converged:
            break
        solution = minimise(_at_median(function, solution.point, near))
    return solution


def _at_median(function: Function, start: Array, near: float) -> Array:
    """Move the intercept to where it is best by itself, give or take `near`, whatever the units of targets are."""
    along = np.zeros_like(start)
    along[-1] = 1.0
    wide = 2.0 ** np.arange(-20.0, 80.0)
    steps = np.concatenate([-wide[::-1], [0.0], wide])
    while True:
        best = int(np.argmin(function.values(start, along, steps)))
        low, high = steps[max(best - 1, 0)], steps[min(best + 1, len(steps) - 1)]
        if high - low <= max(near, 1e-12 * abs(high)):
            return np.asarray(start + steps[best] * along)
        steps = np.linspace(low, high, 65)

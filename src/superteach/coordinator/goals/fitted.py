"""Goals that are fits of the learner: on all teachers' rows, with noise; or on rows that the coordinator holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from superteach.coordinator.classroom import NEWTON_WIDTH, Classroom
from superteach.errors import GoalError, SettingError, TeachingError
from superteach.line.queries import AskMoments, AskValues, Moments, Query
from superteach.mathematics.learner import Learner, fit
from superteach.mathematics.losses import Loss, Poisson
from superteach.mathematics.problem import MOST
from superteach.mathematics.solvers import LBFGS, Newton
from superteach.types import Array, Labels, Raw, is_whole

_SET = "the reference set of goals.FromData"


@dataclass(frozen=True)
class PerturbedFit:
    """The paper's goal: θ* = θ_gt + τ, θ_gt fitted on all rows, τ Gaussian with ‖τ‖ = ‖θ_gt‖.

    With standardize=True the noise is drawn on the standardised columns, where one length fits all.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        if not is_whole(self.seed) or self.seed < 0:
            raise SettingError(f"PerturbedFit takes a seed that is an int of at least 0, got {self.seed!r}")

    def vector(self, classroom: Classroom) -> Array:
        """Fit on all rows from sums, then add noise of the same norm."""
        truth = classroom.fit_pool()
        noise = classroom.learner.centred(np.random.default_rng(self.seed).standard_normal(len(truth)))
        noise *= np.linalg.norm(truth) / np.linalg.norm(noise)
        return classroom.scaling.raw(truth + noise)


@dataclass(frozen=True, eq=False, repr=False)
class FromData:
    """θ* = argmin Σ_j ℓ_j(x_j'θ) + (Λ/2)‖θ‖² over a reference set (X, y) that no teacher sees.

    It is the model that the learner's own estimator would have after fit(X, y), in the set's raw units, with
    standardize=True as well. X may be dense, sparse or a data frame with the rows' columns; labels are the
    rows' own two values. Nothing of the set leaves the coordinator but θ* itself, which teachers are told.
    """

    X: object
    y: object

    def __repr__(self) -> str:
        """Show its size alone: whatever prints a model's settings must not print private rows."""
        rows = len(self.X) if isinstance(self.X, Sequence) else "?"
        shape = getattr(self.X, "shape", (rows, "?"))
        return f"FromData({' × '.join(map(str, shape))} numbers)"

    def check(self, learner: Learner, columns: Sequence[object], classes: Labels | None) -> None:
        """Look at columns, numbers and labels, before any teacher is asked for anything."""
        features, target = _usable(self.X, self.y, learner.loss)
        width = features.shape[1]
        if width != len(columns):
            raise GoalError(f"{_SET} has {width} columns, the rows have {len(columns)}; give it the same columns")
        for theirs, ours in zip(getattr(self.X, "columns", columns), columns, strict=True):
            if isinstance(theirs, str) and isinstance(ours, str) and theirs != ours:
                raise GoalError(
                    f"{_SET} has column {theirs!r} where the rows have {ours!r}; "
                    "give it the same columns in the same order"
                )
        if learner.loss.classifies and classes is not None:
            values = np.unique(target)
            if not np.array_equal(values, classes):
                raise GoalError(f"{_SET} has labels {values.tolist()}, the rows have {np.asarray(classes).tolist()}")
        encoded = _encoded(target, learner.loss)
        refusal = learner.refuses(len(encoded), int(np.count_nonzero(encoded > 0.0)))
        if refusal:
            raise GoalError(f"{_SET}: {refusal}")

    def vector(self, classroom: Classroom) -> Array:
        """Fit the learner on the reference set; return its model in raw units."""
        return self.without_rows(classroom.learner)

    def without_rows(self, learner: Learner) -> Array:
        """Do the same without a question to any teacher: such a goal may be taught under a promise."""
        features, target = _usable(self.X, self.y, learner.loss)
        rows = _Reference(features, _encoded(target, learner.loss), learner)
        solver = Newton() if rows.width <= NEWTON_WIDTH else LBFGS()
        count = len(target)
        inside = fit(rows, learner, count, "all", solver, np.zeros(rows.width), rows.squares / count).model
        return np.append(inside[:-1], inside[-1] * learner.column) if learner.column else inside


def _usable(X: object, y: object, loss: Loss) -> tuple[Raw | sparse.csr_matrix, Raw]:
    """Return rows as float64 (csr where sparse) and labels or targets, as scikit-learn's own estimators take them."""
    from sklearn.utils import check_array, check_consistent_length, column_or_1d

    try:
        features = check_array(X, accept_sparse="csr", dtype=np.float64, input_name="X")
        target = column_or_1d(y)
        check_consistent_length(features, target)
        if not loss.classifies:
            target = check_array(target, ensure_2d=False, dtype=np.float64, input_name="y")
        elif target.dtype.kind not in "biufUSO":
            raise TypeError(f"labels of type {target.dtype} are neither numbers nor strings")
        elif target.dtype.kind in "fO" and (target != target).any():
            raise ValueError("a label is NaN")
        else:
            values = np.unique(target)
            if len(values) != 2:
                shown = ", ".join(map(repr, values[:5].tolist())) + (", …" if len(values) > 5 else "")
                raise ValueError(f"a classifier needs labels of two classes, got {len(values)}: {shown}")
    except (TypeError, ValueError, OverflowError) as error:
        raise GoalError(f"{_SET} cannot be used: {error}") from None
    numbers = [features.data if sparse.issparse(features) else features]
    if not loss.classifies:
        numbers.append(target)
    if any(np.abs(part).max(initial=0.0) > MOST for part in numbers):
        raise GoalError(f"{_SET} has a number beyond {MOST:g}, too large to be squared; rescale the column")
    if isinstance(loss, Poisson) and target.min() < 0.0:
        raise GoalError(f"{_SET} has a negative target, {target.min():g}; Poisson regression needs counts")
    return features, target


def _encoded(target: Raw, loss: Loss) -> Array:
    """Return targets as they are, and labels as −1 and +1, sorted as scikit-learn sorts them."""
    return np.where(target == np.unique(target)[1], 1.0, -1.0) if loss.classifies else target


class _Reference:
    """The set as a federation of one that answers its holder: the same two questions a fit asks of teachers."""

    def __init__(self, features: Raw | sparse.csr_matrix, target: Array, learner: Learner) -> None:
        if learner.column:
            column = np.full((len(target), 1), learner.column)
            join = np.hstack if isinstance(features, np.ndarray) else sparse.hstack
            features = join([features, column])
        self._rows = features if isinstance(features, np.ndarray) else features.tocsr()
        self._target, self._loss = target, learner.loss
        self.width = self._rows.shape[1]
        numbers = self._rows if isinstance(self._rows, np.ndarray) else self._rows.data
        self.squares = float(np.square(numbers).sum())

    def sum(self, query: Query[object]) -> Any:
        """Return Σ ℓ_j with its derivatives, or its values along a line."""
        if isinstance(query, AskMoments):
            value, slope, curvature = self._loss.terms(self._rows @ query.point, self._target)
            # An infinite value (Poisson far out) tells the solver enough.
            with np.errstate(over="ignore", invalid="ignore"):
                gram = self._gram(curvature) if query.order == 2 else None
                return Moments(float(value.sum()), np.asarray(self._rows.T @ slope), gram)
        if isinstance(query, AskValues):
            at, along = self._rows @ query.point, self._rows @ query.direction
            return np.array([self._loss.value(at + step * along, self._target).sum() for step in query.steps])
        raise TeachingError(f"a fit on the reference set does not ask {query.name}")

    def _gram(self, weights: Array) -> Array:
        if isinstance(self._rows, np.ndarray):
            return np.asarray(self._rows.T @ (weights[:, None] * self._rows))
        return np.asarray((self._rows.T @ self._rows.multiply(weights[:, None]).tocsr()).toarray())

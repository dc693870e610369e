"""Goals that are fits of the learner: on all teachers' rows, with noise or without columns; or on the coordinator's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from scipy import sparse

from superteach.coordinator.problem import NEWTON_WIDTH, FederatedProblem
from superteach.exceptions import GoalError, Setting, SettingError, listed
from superteach.goals.base import OptionSource, find_column, same_labels
from superteach.io.frames import load
from superteach.learner import Learner, fit
from superteach.losses.scalar import Loss, Poisson
from superteach.optim import LBFGS, Newton
from superteach.optim.function import Moments, Sums
from superteach.optim.problem import MOST
from superteach.types import Array, Labels, Positions, Raw, is_whole

_SET = "the reference set of the goal"


@dataclass(frozen=True)
class PerturbedFit:
    """The paper's goal: θ* = θ_gt + τ, θ_gt fitted on all rows, τ Gaussian with ‖τ‖ = ‖θ_gt‖.

    With standardize=True the noise is drawn on the standardised columns, where one length fits all.
    """

    seed: int = 0
    option: ClassVar[str] = "perturbed"

    @classmethod
    def from_option(cls, text: str, source: OptionSource) -> Self:
        """Make it of --goal perturbed, with the seed of --goal-seed."""
        return cls(source.seed)

    def __post_init__(self) -> None:
        if not is_whole(self.seed) or self.seed < 0:
            raise SettingError(f"PerturbedFit takes a seed that is an int of at least 0, got {self.seed!r}")

    @property
    def in_words(self) -> str:
        """What reports call it."""
        return f"fit on all rows, perturbed (seed {self.seed})"

    def vector(self, problem: FederatedProblem) -> Array:
        """Fit on all rows from sums, then add noise of the same norm."""
        truth = problem.fit_pool()
        noise = problem.learner.centred(np.random.default_rng(self.seed).standard_normal(len(truth)))
        noise *= np.linalg.norm(truth) / np.linalg.norm(noise)
        return problem.scaling.raw(truth + noise)


@dataclass(frozen=True, init=False, repr=False)
class Without:
    """θ* = argmin Σ_j ℓ_j(x_j'θ) + (Λ/2)‖θ‖² over all teachers' rows, with the coefficients of some columns held at 0.

    It is the model of the learner's own estimator after a fit on all rows without these columns, which go by name or number.
    With transformers before the learner, a column of the table stands for every column that is made of it: all dummies of
    a category, and interactions. It takes as many sums as a fit on all rows.
    """

    columns: tuple[object, ...]
    option: ClassVar[str] = "without:COLUMN"

    @classmethod
    def from_option(cls, text: str, source: OptionSource) -> Self:
        """Make it of --goal without:COLUMN,…."""
        return cls(*(column.strip() for column in text.split(",")))

    def __init__(self, *columns: object) -> None:
        """Name or number one column or several."""
        if not columns:
            raise GoalError("goals.Without names no column; name one, or several")
        for one in columns:
            if isinstance(one, list | tuple | set):
                raise GoalError(f"goals.Without takes columns one by one, such as Without('age', 'sex'), got {one!r}")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "option", f"without:{','.join(map(str, columns))}")

    def __repr__(self) -> str:
        """Show it as it is written."""
        return f"Without({', '.join(map(repr, self.columns))})"

    @property
    def in_words(self) -> str:
        """What reports call it."""
        return f"without {', '.join(map(str, self.columns))}"

    def check(self, learner: Learner, columns: Sequence[object], classes: Labels | None) -> None:
        """Refuse columns that are not there, and a model without any."""
        if len(self._places(columns)) == len(columns):
            raise GoalError(Setting("goal", self), f" leaves no column of {listed(columns)}; keep one at least")

    def vector(self, problem: FederatedProblem) -> Array:
        """Fit the remaining coefficients from sums; return all of them in raw units."""
        learner, federation = problem.learner, problem.federation
        own = problem.width // learner.outputs
        lacking = self._places(federation.columns)
        kept = np.flatnonzero(np.tile(~np.isin(np.arange(own), lacking), learner.outputs))
        rest = _Coefficients(federation.over("loss", "all"), kept, problem.width)
        solver = LBFGS() if problem.wide else Newton()
        bends = problem.bends[kept] if problem.wide else None
        federation.stage = "goal"
        start = np.zeros(len(kept))
        standardized = problem.scaling.scale is not None
        model = fit(
            rest, learner, problem.rows, solver, start, problem.row_square, bends, standardized=standardized
        ).model
        return problem.scaling.raw(rest.whole(model))

    def _places(self, columns: Sequence[object]) -> list[int]:
        return sorted({find_column(name, columns, Setting("goal", self)) for name in self.columns})


class _Coefficients:
    """Sums that are asked for by some coefficients of a model, the others being 0."""

    def __init__(self, sums: Sums, kept: Positions, width: int) -> None:
        self._sums, self._kept, self._width = sums, kept, width

    def whole(self, some: Array) -> Array:
        """Put zeros where coefficients are held."""
        model = np.zeros(self._width)
        model[self._kept] = some
        return model

    def moments(self, point: Array, order: Literal[1, 2]) -> Moments:
        """Ask about the whole model; return what belongs to the coefficients that are free."""
        sums = self._sums.moments(self.whole(point), order)
        curvature = None if sums.curvature is None else sums.curvature[np.ix_(self._kept, self._kept)]
        return Moments(sums.value, sums.gradient[self._kept], curvature)

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        """Ask about the whole model."""
        return self._sums.values(self.whole(point), self.whole(direction), steps)


@dataclass(frozen=True, eq=False, repr=False)
class FromData:
    """θ* = argmin Σ_j ℓ_j(x_j'θ) + (Λ/2)‖θ‖² over a reference set (X, y) that no teacher sees.

    It is the model that the learner's own estimator would have after fit(X, y), in the set's raw units, with
    standardize=True as well. X may be dense, sparse or a data frame with the rows' columns; labels are the
    rows' own two values. Nothing of the set leaves the coordinator but θ* itself, which teachers are told. `name` is what
    reports call the set.
    """

    X: object
    y: object
    name: str = ""
    option: ClassVar[str] = "from-data:FILE"

    @classmethod
    def from_option(cls, text: str, source: OptionSource) -> Self:
        """Make it of --goal from-data:FILE."""
        return cls(*source.read(text), name=text)

    def __repr__(self) -> str:
        """Show its size alone: whatever prints a model's settings must not print private rows."""
        return f"FromData({self._size} numbers)"

    @property
    def _size(self) -> str:
        rows = len(self.X) if isinstance(self.X, Sequence) else "?"
        return " × ".join(map(str, getattr(self.X, "shape", (rows, "?"))))

    @property
    def in_words(self) -> str:
        """What reports call it."""
        return f"fit on {self.name or f'{self._size} numbers given'}"

    def check(self, learner: Learner, columns: Sequence[object], classes: Labels | None) -> None:
        """Look at columns, numbers and labels, before any teacher is asked for anything."""
        features, target = _usable(self.X, self.y, learner.loss)
        width = features.shape[1]
        if width != len(columns):
            raise GoalError(f"{_SET} has {width} columns, the rows have {len(columns)}; give it the same columns")
        for theirs, ours in zip(getattr(load(self.X), "columns", columns), columns, strict=True):
            if isinstance(theirs, str) and isinstance(ours, str) and theirs != ours:
                raise GoalError(
                    f"{_SET} has column {theirs!r} where the rows have {ours!r}; "
                    "give it the same columns in the same order"
                )
        if learner.loss.classifies and classes is not None:
            values = np.unique(target)
            if not same_labels(values, classes):
                raise GoalError(f"{_SET} has labels {values.tolist()}, the rows have {np.asarray(classes).tolist()}")
        encoded = _encoded(target, learner.loss, classes)
        refusal = learner.refuses(len(encoded), int(np.count_nonzero(encoded > 0.0)))
        if refusal:
            raise GoalError(f"{_SET}: {refusal}")

    def vector(self, problem: FederatedProblem) -> Array:
        """Fit the learner on the reference set; return its model in raw units."""
        return self.without_rows(problem.learner, problem.federation.classes)

    def without_rows(self, learner: Learner, classes: Labels | None) -> Array:
        """Do the same without a question to any teacher: such a goal may be taught in every privacy mode."""
        features, target = _usable(self.X, self.y, learner.loss)
        rows = _Reference(features, _encoded(target, learner.loss, classes), learner)
        solver = Newton() if rows.width <= NEWTON_WIDTH else LBFGS()
        count = len(target)
        inside = fit(rows, learner, count, solver, np.zeros(rows.width), rows.squares / count).model
        return np.append(inside[:-1], inside[-1] * learner.column) if learner.column else inside


def _usable(X: object, y: object, loss: Loss) -> tuple[Raw | sparse.csr_matrix, Raw]:
    """Return rows as float64 (csr where sparse) and labels or targets, as scikit-learn's own estimators take them."""
    from sklearn.utils import check_array, check_consistent_length, column_or_1d

    if y is None:
        raise GoalError(f"{_SET} has no targets, y is None; give goals.FromData(X, y)")
    try:
        features = check_array(load(X), accept_sparse="csr", dtype=np.float64, input_name="X")
        target = column_or_1d(load(y))
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


def _encoded(target: Raw, loss: Loss, classes: Labels | None) -> Array:
    """Return targets as they are, and labels as −1 and +1, the last class (None: the larger label) being positive."""
    if not loss.classifies:
        return target
    return np.where(target == (np.unique(target) if classes is None else classes)[1], 1.0, -1.0)


class _Reference:
    """Sums over the reference set, as a fit asks for them."""

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

    def moments(self, point: Array, order: Literal[1, 2]) -> Moments:
        """Σ ℓ_j with its derivatives."""
        value, slope, curvature = self._loss.terms(self._rows @ point, self._target)
        # An infinite value (Poisson far out) tells the solver enough.
        with np.errstate(over="ignore", invalid="ignore"):
            gram = self._gram(curvature) if order == 2 else None
            return Moments(float(value.sum()), np.asarray(self._rows.T @ slope), gram)

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        """Σ ℓ_j along a line."""
        at, along = self._rows @ point, self._rows @ direction
        return np.array([self._loss.value(at + step * along, self._target).sum() for step in steps])

    def _gram(self, weights: Array) -> Array:
        if isinstance(self._rows, np.ndarray):
            return np.asarray(self._rows.T @ (weights[:, None] * self._rows))
        return np.asarray((self._rows.T @ self._rows.multiply(weights[:, None]).tocsr()).toarray())

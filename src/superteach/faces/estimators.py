"""SuperTeacher: the scikit-learn face, for whoever holds all rows and simulates (or is) every teacher."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar, Unpack

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, log_softmax
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from superteach.errors import DataError, DataTypeError
from superteach.faces.oneprocess import OneProcess
from superteach.lesson import Entry
from superteach.mathematics.learner import Learner
from superteach.mathematics.losses import Logistic, Poisson, Squared
from superteach.settings import Given, Settings, check_whole
from superteach.teacher.inputs import Part, find_missing, split_by_owner
from superteach.types import Array, Raw

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from sklearn.utils import Tags

Teachable: TypeAlias = BaseEstimator | Learner | None
"""What can be a learner; None is LogisticRegression()."""
Rows = TypeVar("Rows")
Targets = TypeVar("Targets")

_validate = partial(validate_data, accept_sparse="csr", dtype=[np.float64, np.float32])


@contextmanager
def _our_errors() -> Iterator[None]:
    """Raise errors of scikit-learn's checks as ours."""
    try:
        yield
    except TypeError as error:
        raise DataTypeError(str(error)) from error
    except (ValueError, OverflowError) as error:
        raise DataError(str(error)) from error


def _tell(entry: Entry) -> None:
    risk = "" if entry.risk is None else f", risk {entry.risk:.3g}"
    print(
        f"superteach: round {entry.number}, {entry.stage}: {entry.query} ({entry.seconds:.2f} s{risk})", file=sys.stderr
    )


_DECIDES = available_if(lambda teacher: teacher._classifies())
_PROBABLE = available_if(lambda teacher: isinstance(_student(teacher.learner).loss, Logistic))


class SuperTeacher(BaseEstimator):  # type: ignore[misc]
    """Choose rows from which a learner, trained on nothing else, learns a given model.

    Parameters
    ----------
    learner : the scikit-learn estimator to be taught (default LogisticRegression()), or a superteach.Learner.
    goal : the model it should end up with: a vector of d numbers (intercept last where the learner fits
        one), a fitted scikit-learn model, or a goal of superteach.goals: PerturbedFit(seed),
        MaxAUC(), FromData(X, y), or one of your own.
    verbose : 1 prints every round to the standard error stream, with its stage and the risk where it is known.
    {settings}

    Attributes
    ----------
    sample_indices_ : the chosen rows, ascending.
    coef_, intercept_ : the taught model, shaped as the learner's own.
    lesson_ : the superteach.Lesson with risk, consistency, rounds, bytes, seconds, objective, gap, path, ledger.
    """

    def __init__(
        self, learner: Teachable = None, goal: object = None, *, verbose: int = 0, **settings: Unpack[Given]
    ) -> None:
        self.learner, self.goal, self.verbose = learner, goal, verbose
        values = {one.name: one.default for one in fields(Settings)}
        unknown = [name for name in settings if name not in values]
        if unknown:
            raise TypeError(f"SuperTeacher.__init__() got an unexpected keyword argument {unknown[0]!r}")
        for name, value in (values | dict(settings)).items():
            setattr(self, name, value)

    def fit(self, X: object, y: object, groups: object = None, costs: npt.ArrayLike | None = None) -> Self:
        """Teach from rows X with targets y; groups says which teacher owns each row (None: one teacher).

        `costs`, one number per row, make method="match" prefer cheap rows among equally good ones.
        """
        student = _student(self.learner)
        settings = Settings(**{one.name: getattr(self, one.name) for one in fields(Settings)})
        watch = _tell if check_whole(0)("verbose", self.verbose) else None
        X_checked, y_checked = self._checked(X, y)
        columns = list(getattr(self, "feature_names_in_", range(X_checked.shape[1])))
        owners, members = _split(groups, X_checked.shape[0])
        if costs is not None and np.shape(costs) != (X_checked.shape[0],):
            raise DataError(f"costs has shape {np.shape(costs)}, expected one for each of {X_checked.shape[0]} rows")
        parts = [
            Part(str(owner), X_checked, y_checked, rows, None if len(owners) == 1 else rows, costs)
            for owner, rows in zip(owners, members, strict=True)
        ]
        room = OneProcess(parts, columns, student)
        del parts
        taught = room.teach(self.goal, watch, settings)
        self.lesson_, classes = taught.lesson, taught.classes
        chosen = [rows[own] for rows, own in zip(members, taught.chosen, strict=True)]
        self.sample_indices_ = np.sort(np.concatenate(chosen))
        self.teachers_ = owners
        if classes is not None:
            self.classes_ = classes
        elif hasattr(self, "classes_"):
            del self.classes_  # left by an earlier fit with another learner
        coef, offset = self.lesson_.coef.copy(), self.lesson_.offset
        # In the shapes that the learner's own would have.
        self.coef_ = coef if classes is None or coef.ndim == 2 else coef[None, :]
        self.intercept_: Array | float = offset if classes is None else np.array(offset, ndmin=1)
        self.n_iter_ = max(1, len(self.lesson_.objective))
        return self

    def fit_resample(
        self, X: Rows, y: Targets, groups: object = None, costs: npt.ArrayLike | None = None
    ) -> tuple[Rows, Targets]:
        """Teach, and return the chosen rows and their targets, in the containers they came in."""
        self.fit(X, y, groups, costs)
        return _take(X, self.sample_indices_), _take(y, self.sample_indices_)

    def predict(self, X: object) -> Raw:
        """Predict labels, numbers or counts by the taught model."""
        scores = self._scores(X)
        if self._classifies():
            best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0.0).astype(int)
            return np.asarray(self.classes_[best])
        return np.exp(scores) if isinstance(_student(self.learner).loss, Poisson) else scores

    @_DECIDES  # type: ignore[untyped-decorator]
    def decision_function(self, X: object) -> Array:
        """Return x'θ + intercept; positive means the second class. Of more than two classes, one column for each."""
        return self._scores(X)

    @_PROBABLE  # type: ignore[untyped-decorator]
    def predict_proba(self, X: object) -> Array:
        """Return the probabilities of all classes (logistic learners)."""
        scores = self._scores(X)
        if scores.ndim == 2:
            return np.asarray(np.exp(log_softmax(scores, axis=1)))
        second = expit(scores)
        return np.column_stack([1.0 - second, second])

    @_PROBABLE  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: object) -> Array:
        """Return the logarithms of predict_proba."""
        scores = self._scores(X)
        if scores.ndim == 2:
            return np.asarray(log_softmax(scores, axis=1))
        return np.column_stack([log_expit(-scores), log_expit(scores)])

    def score(self, X: object, y: object) -> float:
        """Return the accuracy of a classifier, r² of a regression."""
        predicted = self.predict(X)
        with _our_errors():
            return float((accuracy_score if self._classifies() else r2_score)(y, predicted))

    def _classifies(self) -> bool:
        return _student(self.learner).loss.classifies

    def _checked(self, X: object, y: object) -> tuple[Raw | csr_matrix, Raw]:
        """Check shapes and types as scikit-learn does; missing values are looked for later, by teacher."""
        with _our_errors():
            if y is None:
                raise ValueError("SuperTeacher requires y to be passed, but the target y is None")
            features = _validate(self, X, ensure_all_finite=False)
            target = np.asarray(y)
            if not (target.ndim == 2 and target.shape[1] > 1 and type(_student(self.learner).loss) is Squared):
                target = column_or_1d(y, warn=True)
            check_consistent_length(features, target)
        return features, target

    def _scores(self, X: object) -> Array:
        check_is_fitted(self)
        with _our_errors():
            features = _validate(self, X, reset=False)
        return np.asarray(features @ self.lesson_.coef.T + self.lesson_.offset)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        if self._classifies():
            tags.estimator_type = "classifier"
            # The goal decides how well the model predicts, and a goal may be bad on purpose.
            tags.classifier_tags = ClassifierTags(multi_class=self.promise == "open", poor_score=True)
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags(poor_score=True)
            tags.target_tags.positive_only = isinstance(_student(self.learner).loss, Poisson)
        return tags


def _declare() -> None:
    """Give the class the signature and the description of its settings, as scikit-learn and `help` read them."""
    own = inspect.signature(SuperTeacher.__init__)
    kept = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    kept += [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
        for one in fields(Settings)
    ]
    SuperTeacher.__init__.__signature__ = own.replace(parameters=kept)  # type: ignore[attr-defined]
    told = (Settings.__doc__ or "").partition("\n\n")[2].strip()
    SuperTeacher.__doc__ = (SuperTeacher.__doc__ or "").replace("{settings}", told)


_declare()


def _student(learner: Teachable) -> Learner:
    if learner is None:
        from sklearn.linear_model import LogisticRegression

        learner = LogisticRegression()
    return Learner.of(learner)


def _split(groups: object, rows: int) -> tuple[Raw, list[npt.NDArray[np.int64]]]:
    """Return the owners, sorted, and the rows of each, ascending."""
    if groups is None:
        return np.array(["all rows"]), [np.arange(rows)]
    try:
        owner = np.asarray(groups)
    except ValueError as error:
        raise DataError(f"groups must name one owner for each row: {error}") from None
    if owner.shape != (rows,):
        raise DataError(f"groups has shape {owner.shape}, expected one owner for each of {rows} rows")
    missing = find_missing(owner) if owner.dtype.kind in "fcmMO" else None
    if missing is not None and missing.any():
        raise DataError(f"groups names no owner for row {int(np.argmax(missing))}; every row needs one")
    try:
        return split_by_owner(owner)
    except TypeError:
        raise DataTypeError("groups must be all numbers or all strings, some are mixed") from None


def _take(container: Rows, rows: npt.NDArray[np.int64]) -> Rows:
    """Take rows of an array, a sparse matrix, a data frame, a series, an Arrow table or a list."""
    if hasattr(container, "take") and hasattr(container, "schema") and not hasattr(container, "iloc"):
        with suppress(TypeError):
            taken: Rows = container.take(rows)
            return taken
    taken = _safe_indexing(container, rows)
    return taken

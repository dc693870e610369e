"""SuperTeacher: the scikit-learn estimator, for whoever holds all rows and simulates (or is) every teacher."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, log_softmax
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from superteach.coordinator import methods
from superteach.exceptions import DataError, DataTypeError, GoalError, LearnerError, SettingError
from superteach.goals import FromData
from superteach.goals.base import Named, in_words, positive_label, refuse_other_kind
from superteach.io.frames import (
    PositiveLabel,
    check_container,
    check_lengths,
    check_numbers,
    check_targets,
    find_missing,
    index_of,
    load,
    name_row,
    our_errors,
    refuse_text,
    take_rows,
    unboxed,
)
from superteach.io.validation import Part, per_row, row_weights, split_by_owner
from superteach.learner import Learner
from superteach.lesson import Entry, Taught
from superteach.local import EngineFactory, LocalTeachers, find_large, refuse_private
from superteach.losses.scalar import Logistic, Poisson, Squared
from superteach.optim import LBFGS, Block, Newton
from superteach.pipelines import goals as pipeline_goals
from superteach.pipelines import prepare as pipelines
from superteach.settings import Budget, Settings, check_whole
from superteach.types import Array, Foreign, Raw

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """What scikit-learn's own would add."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Leave a method as it is."""
        return method


if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from sklearn.utils import Tags

    from superteach.teacher.large import LargeArray, LargePool, ParquetTable

Teachable: TypeAlias = BaseEstimator | Learner | None
"""What can be a learner; None is LogisticRegression()."""
Rows = TypeVar("Rows")
Targets = TypeVar("Targets")

_validate = partial(validate_data, accept_sparse="csr", dtype=[np.float64, np.float32])


def _print_round(entry: Entry) -> None:
    facts = [f"{entry.seconds:.2f} s"] if np.isfinite(entry.seconds) else []
    facts += [] if entry.risk is None else [f"risk {entry.risk:.3g}"]
    shown = f" ({', '.join(facts)})" if facts else ""
    print(f"superteach: round {entry.number}, {entry.stage}: {entry.query}{shown}", file=sys.stderr)


class _Opened(NamedTuple):
    """Teachers of rows in memory, the goal in their columns, who they are, and the rows of each."""

    teachers: LocalTeachers
    goal: object
    owners: Raw
    members: list[npt.NDArray[np.integer]]
    preprocessing: pipelines.Preprocessing | None


_if_classifier = available_if(lambda teacher: teacher._classifies())
_if_logistic = available_if(lambda teacher: isinstance(_learner_of(teacher.estimator).loss, Logistic))


class SuperTeacher(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """Choose rows from which a learner, trained on nothing else, learns a given model.

    Parameters
    ----------
    estimator : the scikit-learn estimator to be taught (default LogisticRegression()), a Pipeline that ends in it, or a
        superteach.Learner.
    goal : the model it should end up with: a vector of d numbers (intercept last where the learner fits
        one), a dict or Series by column name (with the key 'intercept'), a fitted scikit-learn model or Pipeline, or a
        goal of superteach.goals: Without("sex"), FromData(X, y), Within(…), MaxAUC(), PerturbedFit(seed), or your own.
    budget : how many rows: an int (count), a float in (0, 1] (fraction), a range (low, high) of either,
        "best" (lowest risk on a path), or "smallest" (the smallest lesson that reaches risk_target).
    method : "match" (exact teaching), "dual" (the paper's), "random", or every teacher alone: "oblivious" (by exact
        teaching) or "oblivious-minlp" (by a mixed-integer programme, needs superteach-lab[minlp]).
    measure : the distance to make small where a goal cannot be taught exactly, and by which "best" compares sizes:
        "predictions" (root mean square difference of predictions over the pool) or "coefficients" (‖θ_S − θ*‖, the paper's).
    privacy : what leaves the owners of rows: "isolated" (every teacher meets its share of the goal alone, and an
        acknowledgement is all that leaves), "dp" (shares are moved by two noisy releases of each teacher), or "none" (the
        coordinator can read the rows). Noise comes from the system's randomness, never from random_state.
    epsilon, delta : the budget of privacy="dp", for adding or removing one row, of the whole lesson.
    positive : the label that the goal's coefficients speak for, and those of lesson_ (None: the one that the goal names,
        else the larger, classes_[1]). coef_ and model_ speak for classes_[1] in any case, as scikit-learn's own do.
    standardize : teach on standardised columns; goal and model stay in raw units.
    risk_target : the risk at which a lesson is good enough ("match" stops there; None: 1e-6 of the goal).
    rounding : how "match" turns fractions into rows: "together" (over all teachers; nearest to the goal), or "alone"
        (each teacher by itself once the relaxed problem is solved, as in a federation).
    restarts : searches of "match" with other random numbers, of which the best is kept; small lessons gain most.
    seconds : time after which "match" tries nothing more and returns the best lesson so far (None: no limit).
    solver : superteach.optim.Newton(), LBFGS() or Block(); None takes Newton, or LBFGS for very wide data.
    sparsity, goal_weight : the paper's λ_α and λ_θ; None takes 0.1 and 1000 (classification), 1 and 2000 (regression).
    solver_seconds : time limit of each teacher's solver ("oblivious-minlp").
    random_state : the same seed gives the same lesson.
    engine : where sums are computed: None (threads of this process), or superteach.Torch("cuda") for rows on a GPU.
    verbose : 1 prints every round to standard error, with its stage and, where it is known, the risk.

    Attributes
    ----------
    sample_indices_ : the chosen rows, ascending.
    coef_, intercept_ : the taught model, shaped as the learner's own; of a Pipeline, the numbers of its last step.
    model_ : the same as a fitted estimator of the learner's own class, or a fitted Pipeline (a Learner: None).
    transformer_ : the Pipeline's transformers as all teachers applied them (None: the learner is no Pipeline).
    lesson_ : the superteach.Lesson with risk, agreement, rounds, bytes, seconds, objective, gap, path, ledger. In the
        privacy modes "isolated" and "dp" it holds what may be shown outside: no model, no risk, nothing measured.
    measured_ : the same lesson with model and measurements, for whoever owns all rows; no privacy mode covers it.
    """

    def __init__(
        self,
        estimator: Teachable = None,
        goal: object = None,
        *,
        budget: Budget = "best",
        method: str = "match",
        measure: str = "predictions",
        privacy: str = "none",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        positive: object = None,
        standardize: bool = False,
        risk_target: float | None = None,
        rounding: str = "together",
        restarts: int = 1,
        seconds: float | None = None,
        solver: Newton | LBFGS | Block | None = None,
        sparsity: float | None = None,
        goal_weight: float | None = None,
        solver_seconds: float = 120.0,
        random_state: Any = 0,
        engine: EngineFactory | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.goal = goal
        self.budget = budget
        self.method = method
        self.measure = measure
        self.privacy = privacy
        self.epsilon = epsilon
        self.delta = delta
        self.positive = positive
        self.standardize = standardize
        self.risk_target = risk_target
        self.rounding = rounding
        self.restarts = restarts
        self.seconds = seconds
        self.solver = solver
        self.sparsity = sparsity
        self.goal_weight = goal_weight
        self.solver_seconds = solver_seconds
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    def __sklearn_clone__(self) -> Self:
        """Keep a fitted goal fitted: it says what is to be learned, and is nothing that `fit` makes."""
        copied: Self = super().__sklearn_clone__()
        copied.goal = deepcopy(self.goal)
        return copied

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: object,
        y: object,
        groups: object = None,
        costs: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Teach from rows X with targets y; groups says which teacher owns each row (None: one teacher).

        `costs`, one number per row, make method="match" prefer cheap rows among equally good ones. `sample_weight` is what
        the learner will be given for the chosen rows: a row of weight 2 counts twice in its loss, and once in the budget.
        X may be an array, a sparse matrix, or a table of pandas, polars (a LazyFrame is collected), pyarrow or Hugging
        Face's datasets. X may also be a folder of Parquet or a pyarrow Dataset, y (and costs) then name columns of it: such
        rows stay on disk, and so does a memory-mapped array that fills a quarter of the memory that is free. Callbacks of
        scikit-learn 1.9 or newer (set_callbacks) see every round as a task.
        """
        settings = Settings(**{one.name: getattr(self, one.name) for one in fields(Settings)})
        loud = bool(check_whole("verbose", self.verbose, least=0))
        _warn_of_epsilon(settings)
        refuse_other_kind(self.goal, _learner_of(self.estimator))
        # A task for scikit-learn's callbacks; how many rounds it has is not known before.
        task = self._init_callback_context(max_subtasks=None) if hasattr(self, "_skl_callbacks") else None
        if task is not None:
            task.call_on_fit_task_begin(estimator=self, X=X, y=y)

        def watch(entry: Entry) -> None:
            if loud:
                _print_round(entry)
            if task is not None:
                part = task.subcontext(task_name=entry.stage)
                part.call_on_fit_task_begin(estimator=self)
                part.call_on_fit_task_end(estimator=self)

        if (large := find_large(X, y, groups, costs)) is not None:
            result, preprocessing = self._teach_on_disk(large, sample_weight, settings, watch), None
        else:
            result, preprocessing = self._teach_in_memory(X, y, groups, costs, sample_weight, settings, watch)
        self._keep(result, preprocessing)
        if task is not None:
            task.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes={})
        return self

    def _teach_on_disk(
        self,
        table: ParquetTable | LargeArray,
        sample_weight: npt.ArrayLike | None,
        settings: Settings,
        watch: Callable[[Entry], None],
    ) -> Taught:
        refuse_private(settings)
        teachers, pool = self._open_table(table, sample_weight)
        result = teachers.teach(self.goal, settings, watch)
        self.sample_indices_, self.teachers_ = pool.numbers(result.chosen), np.array(result.lesson.teachers)
        return result

    def _open_table(
        self, table: ParquetTable | LargeArray, sample_weight: npt.ArrayLike | None
    ) -> tuple[LocalTeachers, LargePool]:
        """Make teachers of rows that stay on disk."""
        learner, (before, _, estimator) = _learner_of(self.estimator), pipelines.split(_or_default(self.estimator))
        if before is not None or sample_weight is not None or getattr(estimator, "class_weight", None) is not None:
            raise LearnerError("rows on disk are taught from as they are: no Pipeline, sample_weight or class_weight")
        pool = table.put_away(learner.loss, positive=positive_label(self.goal, PositiveLabel(self.positive)))
        # What scikit-learn's checks of later rows look at.
        self.n_features_in_ = len(pool.columns)
        if pool.table is not None:
            self.feature_names_in_ = np.array(pool.columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        columns = list(getattr(self, "feature_names_in_", range(self.n_features_in_)))
        return LocalTeachers(pool, columns, learner, self.engine), pool

    def _keep(self, result: Taught, preprocessing: pipelines.Preprocessing | None) -> None:
        """Set what scikit-learn's users look for after a fit."""
        assert result.measured is not None
        classes = result.classes
        measured = result.measured.with_model(pipelines.split(_or_default(self.estimator))[-1], classes)
        if preprocessing is not None and measured.model_ is not None:
            measured = replace(measured, model_=preprocessing.with_last(measured.model_))
        self.transformer_ = None if preprocessing is None else preprocessing.transformer
        self.measured_, self.model_ = measured, measured.model_
        self.lesson_ = measured if result.lesson.delivered else result.lesson
        if classes is not None:
            self.classes_ = np.sort(classes)
        elif hasattr(self, "classes_"):
            del self.classes_  # left by an earlier fit with another learner
        coef, offset = measured.coef.copy(), measured.offset
        if self._speaks_for_first():
            coef, offset = -coef, -offset
        # In the shapes that the learner's own would have.
        self.coef_ = coef if classes is None or coef.ndim == 2 else coef[None, :]
        self.intercept_: Array | float = offset if classes is None else np.array(offset, ndmin=1)
        self.n_iter_ = max(1, len(measured.objective))

    def _teach_in_memory(
        self,
        X: object,
        y: object,
        groups: object,
        costs: npt.ArrayLike | None,
        sample_weight: npt.ArrayLike | None,
        settings: Settings,
        watch: Callable[[Entry], None],
    ) -> tuple[Taught, pipelines.Preprocessing | None]:
        opened = self._open(X, y, groups, costs, sample_weight, settings.privacy == "none")
        result = opened.teachers.teach(opened.goal, settings, watch)
        chosen = [rows[own] for rows, own in zip(opened.members, result.chosen, strict=True)]
        self.sample_indices_, self.teachers_ = np.sort(np.concatenate(chosen)).astype(np.int64), opened.owners
        return result, opened.preprocessing

    def _open(
        self,
        X: object,
        y: object,
        groups: object = None,
        costs: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
        sums: bool = True,
    ) -> _Opened:
        """Make teachers of rows in memory; `sums` of them may settle what transformers must know."""
        learner = _learner_of(self.estimator)
        before, last, estimator = pipelines.split(_or_default(self.estimator))
        X, y = load(X), load(y)
        X_checked, y_checked = self._checked(X, y, before is not None)
        count = len(y_checked)
        if groups is None:
            _warn_of_groups()
        owners, members = _rows_by_owner(groups, count, X)
        names = [str(owner) for owner in owners]
        costs = per_row(costs, "costs", count)
        weights = row_weights(estimator, y_checked, per_row(sample_weight, "sample_weight", count))
        if weights is not None:
            learner = replace(learner, weighted=True)
        if isinstance(self.goal, FromData) and getattr(estimator, "class_weight", None) is not None:
            raise GoalError(
                "goals.FromData knows no class_weight; fit the learner on those rows, and give it as the goal"
            )
        # Copies of all owners' rows at once would cost as much memory as the data: each part takes its own, when it must.
        common = Part("", X_checked, y_checked, None, None, costs, weights, index_of(X))
        preprocessing = None
        if before is None:
            columns: list[Foreign] = list(getattr(self, "feature_names_in_", range(X_checked.shape[1])))
            parts = [
                replace(common, name=name, ids=rows, rows=None if len(names) == 1 else rows)
                for name, rows in zip(names, members, strict=True)
            ]
            goal = pipeline_goals.translate(self.goal, [X_checked], columns, [X], ["all rows"])
        else:
            tables = [X] if len(members) == 1 else [take_rows(X, rows) for rows in members]
            preprocessing = pipelines.Preprocessing(before, tables, names, last, sums)
            columns, goal = preprocessing.columns, pipeline_goals.behind(preprocessing, self.goal)
            parts = [
                common.with_own(name, rows, made)
                for name, rows, made in zip(names, members, preprocessing.features, strict=True)
            ]
        teachers = LocalTeachers(
            parts, columns, learner, self.engine, positive_label(self.goal, PositiveLabel(self.positive))
        )
        return _Opened(teachers, Named(goal, in_words(self.goal)), owners, members, preprocessing)

    def fit_resample(
        self,
        X: Rows,
        y: Targets,
        groups: object = None,
        costs: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> tuple[Rows, Targets]:
        """Teach, and return the chosen rows and their targets, in the containers they came in."""
        self.fit(X, y, groups, costs, sample_weight)
        if isinstance(y, str):
            raise DataError(
                "rows on disk are not brought back in a container; after fit, sample_indices_ says which they are"
            )
        return take_rows(X, self.sample_indices_), take_rows(y, self.sample_indices_)

    def predict(self, X: object) -> Raw:
        """Predict labels, numbers or counts by the taught model."""
        scores = self._scores(X)
        if self._classifies():
            best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0.0).astype(int)
            return np.asarray(self.classes_[best])
        return np.exp(scores) if isinstance(_learner_of(self.estimator).loss, Poisson) else scores

    @_if_classifier  # type: ignore[untyped-decorator]
    def decision_function(self, X: object) -> Array:
        """Return x'θ + intercept; positive means the second class. Of more than two classes, one column for each."""
        return self._scores(X)

    @_if_logistic  # type: ignore[untyped-decorator]
    def predict_proba(self, X: object) -> Array:
        """Return the probabilities of all classes (logistic learners)."""
        scores = self._scores(X)
        if scores.ndim == 2:
            return np.asarray(np.exp(log_softmax(scores, axis=1)))
        second = expit(scores)
        return np.column_stack([1.0 - second, second])

    @_if_logistic  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: object) -> Array:
        """Return the logarithms of predict_proba."""
        scores = self._scores(X)
        if scores.ndim == 2:
            return np.asarray(log_softmax(scores, axis=1))
        return np.column_stack([log_expit(-scores), log_expit(scores)])

    def score(self, X: object, y: object) -> float:
        """Return the accuracy of a classifier, r² of a regression."""
        predicted, y = self.predict(X), load(y)
        check_targets(y)
        with our_errors():
            return float((accuracy_score if self._classifies() else r2_score)(y, predicted))

    def _classifies(self) -> bool:
        return _learner_of(self.estimator).loss.classifies

    def _checked(self, X: object, y: object, raw: bool) -> tuple[Raw | csr_matrix, Raw]:
        """Check shapes and types as scikit-learn does; missing values are looked for later, by teacher.

        A `raw` table is for transformers: only its shape is looked at.
        """
        check_container(X)
        check_container(y, "y")
        check_targets(y)
        if raw:
            self._outline(X, True)
        else:
            check_numbers(X)
        with our_errors(X):
            features = X if raw else _validate(self, X, ensure_all_finite=False)
            if isinstance(y, list | tuple) and len({isinstance(one, str) for one in y}) > 1:
                y = np.array(y, dtype=object)  # else NumPy makes text of numbers beside text
            target = np.asarray(y)
            if target.ndim == 2 and target.shape[1] > 1:
                if type(_learner_of(self.estimator).loss) is not Squared:
                    raise DataError(
                        f"y should be a 1d array, got an array of shape {target.shape} instead: give one label for each "
                        "row, such as y.argmax(axis=1) where columns are classes; several targets go with Ridge alone"
                    )
            else:
                target = column_or_1d(y, warn=True)
            target = unboxed(target)
            check_lengths(features, target)
        return features, target

    def _outline(self, X: object, reset: bool) -> None:
        """Look at the shape and the names of a table that goes to transformers as it is."""
        shape: tuple[int, ...] = getattr(X, "shape", ())
        if len(shape) != 2 or hasattr(X, "column_names"):
            raise DataTypeError(
                f"X is a {type(X).__name__}{f' of shape {shape}' if shape else ''}; a Pipeline takes rows × columns as an "
                "array, a sparse matrix, or a data frame of pandas or polars"
            )
        if not shape[0] or not shape[1]:
            raise DataError(f"X has {shape[0]} rows and {shape[1]} columns; at least one of each is needed")
        with our_errors():
            validate_data(self, X, reset=reset, skip_check_array=True)

    def _scores(self, X: object) -> Array:
        check_is_fitted(self)
        X = load(X)
        check_container(X)
        if self.transformer_ is not None:
            self._outline(X, False)
            features = pipelines.apply(self.transformer_, X, "all rows")
        else:
            check_numbers(X)
            with our_errors(X):
                features = _validate(self, X, reset=False)
        scores = np.asarray(features @ self.measured_.coef.T + self.measured_.offset)
        return -scores if self._speaks_for_first() else scores

    def _speaks_for_first(self) -> bool:
        """Tell whether the lesson's coefficients speak for classes_[0]: scikit-learn's speak for classes_[1]."""
        return self.measured_.positive is not None and bool(self.measured_.positive == self.classes_[0])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        if self._classifies():
            tags.estimator_type = "classifier"
            # The goal decides how well the model predicts, and a goal may be bad on purpose.
            tags.classifier_tags = ClassifierTags(multi_class=False, poor_score=True)
            with suppress(SettingError):
                tags.classifier_tags.multi_class = self.privacy != "dp" and bool(methods.find(self.method).broad)
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags(poor_score=True)
            tags.target_tags.positive_only = isinstance(_learner_of(self.estimator).loss, Poisson)
        return tags


def _or_default(learner: Teachable) -> BaseEstimator | Learner:
    if learner is None:
        from sklearn.linear_model import LogisticRegression

        learner = LogisticRegression()
    return learner


def _learner_of(learner: Teachable) -> Learner:
    """Return the learner at the end of a pipeline; owners of rows take class_weight as weights."""
    estimator = pipelines.split(_or_default(learner))[-1]
    if getattr(estimator, "class_weight", None) is not None:
        estimator = copy(estimator)
        estimator.class_weight = None
    return Learner.of(estimator)


def _warn_of_epsilon(settings: Settings) -> None:
    """Say where ε is given and nothing keeps it."""
    given = {one.name: getattr(settings, one.name) for one in fields(Settings) if one.name in ("epsilon", "delta")}
    if settings.privacy != "dp" and given != {name: getattr(Settings, name) for name in given}:
        shown = " and ".join(f"{name}={value:g}" for name, value in given.items())
        warnings.warn(
            f"{shown} have no effect with privacy={settings.privacy!r}: give privacy='dp'",
            UserWarning,
            stacklevel=3,
        )


def _warn_of_groups() -> None:
    """Say where a search or a cross-validation was given groups and keeps them to itself."""
    frame = inspect.currentframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("sklearn.model_selection"):
            given = frame.f_locals.get("groups"), dict(frame.f_locals.get("params") or {}).get("groups")
            if any(groups is not None for groups in given):
                warnings.warn(
                    f"{frame.f_code.co_name} was given groups and tells them to its splitter alone: there is one teacher. "
                    "To teach from several: sklearn.set_config(enable_metadata_routing=True) and "
                    "SuperTeacher(…).set_fit_request(groups=True)",
                    UserWarning,
                    stacklevel=3,
                )
                return
        frame = frame.f_back


def _rows_by_owner(groups: object, rows: int, table: object) -> tuple[Raw, list[npt.NDArray[np.integer]]]:
    """Return the owners, sorted, and the rows of each, ascending."""
    if groups is None:
        return np.array(["all rows"]), [np.arange(rows)]
    refuse_text(groups, "groups", "the owner of each row")
    try:
        owner = np.asarray(groups)
    except ValueError as error:
        raise DataError(f"groups must name one owner for each row: {error}") from None
    if owner.shape != (rows,):
        raise DataError(f"groups has shape {owner.shape}, expected one owner for each of {rows} rows")
    missing = find_missing(owner) if owner.dtype.kind in "fcmMO" else None
    if missing is not None and missing.any():
        raise DataError(f"groups names no owner for {name_row(table, int(np.argmax(missing)))}; every row needs one")
    try:
        owners, members = split_by_owner(owner)
        # Four bytes a row are enough for most, and are kept throughout the lesson.
        small = np.uint32 if rows < 1 << 32 else np.int64
        return owners, [some.astype(small) for some in members]
    except TypeError:
        raise DataTypeError("groups must be all numbers or all strings, some are mixed") from None

"""Pipelines: transformers that all teachers apply to their own rows, and the estimator taught behind them.

What a transformer must know of all rows is settled once, before the lesson: a StandardScaler and the means of a
SimpleImputer from each teacher's counts, means and variances, the categories of a OneHotEncoder from a declared list or from
what the teachers found. Any other transformer is public: it comes fitted, and is applied row by row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import check_is_fitted

from superteach.exceptions import DataError, DataTypeError, InputError, LearnerError, listed, reason_of, shorten
from superteach.io.frames import columns_of, find_missing, name_row, take_rows
from superteach.types import Foreign, Raw


def split(learner: BaseEstimator) -> tuple[Pipeline | None, str, BaseEstimator]:
    """Return a pipeline's transformers (None: there are none), and the name and the estimator at its end."""
    if not isinstance(learner, Pipeline):
        return None, "", learner
    if not learner.steps:
        raise LearnerError("the Pipeline has no steps; its last one is the estimator to be taught")
    last = learner.steps[-1][1]
    if last is None or isinstance(last, str):
        raise LearnerError(f"the Pipeline ends in {last!r}; its last step is the estimator to be taught")
    before = Pipeline(learner.steps[:-1]) if len(learner.steps) > 1 else None
    return before, learner.steps[-1][0], last


class Preprocessing:
    """Transformers as all teachers apply them, and each teacher's rows behind them."""

    def __init__(
        self, before: Pipeline, tables: Sequence[Foreign], names: Sequence[str], last: str, open_: bool
    ) -> None:
        self.tables, self.names, self._last, self._open = tables, names, last, open_
        self.transformer: Pipeline = self._settle(before, list(tables), "the Pipeline")
        self.features = [apply(self.transformer, table, name) for table, name in zip(tables, names, strict=True)]
        self.columns = names_of(self.transformer, self.features[0].shape[1])
        if not self.columns:
            raise LearnerError("the Pipeline drops every column; keep one at least")

    @property
    def names_columns(self) -> bool:
        """Whether the transformers hand frames on, so that a model behind them knows the names of its columns."""
        return hasattr(self.transformer.transform(take_rows(self.tables[0], np.arange(1))), "columns")

    def with_last(self, model: BaseEstimator) -> Pipeline:
        """Return the transformers with the fitted `model` behind them."""
        if not self.names_columns:
            del model.feature_names_in_  # it is handed arrays, whose columns have no names
        return Pipeline([*self.transformer.steps, (self._last, model)])

    def _settle(self, transformer: BaseEstimator, tables: list[Foreign], where: str) -> BaseEstimator:
        """Fit a transformer for all teachers at once, from what each of them may say of its rows; keep a fitted one."""
        if isinstance(transformer, Pipeline):
            return self._pipeline(transformer, tables, where)
        if isinstance(transformer, ColumnTransformer) and not is_fitted(transformer):
            return self._by_column(transformer, tables, where)
        if is_fitted(transformer) or not get_tags(transformer).requires_fit:
            return transformer
        rule = _RULES.get(type(transformer))
        if rule is None:
            raise LearnerError(
                f"{where}: {type(transformer).__name__} is not fitted, and what it learns cannot be had from sums over "
                "teachers: fit it first, on public rows (FrozenEstimator keeps it fitted where it is cloned). "
                "StandardScaler, OneHotEncoder and SimpleImputer need no fit"
            )
        if not self._open:
            raise LearnerError(
                f"{where}: {type(transformer).__name__} is not fitted, and this privacy mode releases no sums for it: "
                "fit it first, on public rows"
            )
        with _named(f"{where}: {type(transformer).__name__}", tables):
            return rule(transformer, tables)

    def _pipeline(self, pipeline: Pipeline, tables: list[Foreign], where: str) -> Pipeline:
        steps = []
        for place, (name, step) in enumerate(pipeline.steps):
            if step is None or step == "passthrough":
                steps.append((name, "passthrough"))
                continue
            if not hasattr(step, "transform"):
                raise LearnerError(f"{where}: step {name!r}, {type(step).__name__}, has no transform; leave it out")
            fitted = self._settle(step, tables, f"step {name!r}")
            steps.append((name, fitted))
            if place < len(pipeline.steps) - 1:
                tables = [_transform(fitted, table, owner) for table, owner in zip(tables, self.names, strict=True)]
        return Pipeline(steps)

    def _by_column(self, whole: ColumnTransformer, tables: list[Foreign], where: str) -> ColumnTransformer:
        """Settle each part on its columns; the parts are frozen while scikit-learn puts them together."""
        settled: dict[str, BaseEstimator] = {}
        with _named(where, tables):
            outline = clone(whole).set_params(
                transformers=[(name, "passthrough", columns) for name, _, columns in whole.transformers]
            )
            outline.fit(tables[0])
        chosen = {name: columns for name, _, columns in outline.transformers_}
        frozen = []
        for name, part, columns in whole.transformers:
            if not isinstance(part, str) and part is not None:
                some = [_safe_indexing(table, chosen.get(name, columns), axis=1) for table in tables]
                if some[0].shape[1]:
                    settled[name] = self._settle(part, some, f"transformer {name!r}")
                    part = FrozenEstimator(settled[name])
            frozen.append((name, part, columns))
        if not isinstance(whole.remainder, str):
            raise LearnerError(f"{where}: remainder={type(whole.remainder).__name__} must be 'drop' or 'passthrough'")
        fitted = clone(whole).set_params(transformers=frozen)
        with _named(where):
            fitted.fit(tables[0])
        fitted.transformers = whole.transformers
        fitted.transformers_ = [
            (name, settled.get(name, part), columns) for name, part, columns in fitted.transformers_
        ]
        return fitted


def names_of(transformer: BaseEstimator, width: int) -> list[str]:
    """Name the columns that a transformer makes; x0, x1, … where it has none for them."""
    with suppress(Exception):  # whatever a transformer of somebody else raises, names are a courtesy
        names = [str(name) for name in transformer.get_feature_names_out()]
        if len(names) == width:
            return names
    return [f"x{place}" for place in range(width)]


def _scaler(scaler: StandardScaler, tables: list[Foreign]) -> StandardScaler:
    """Find means and deviations of all rows, from every teacher's counts, means and variances."""
    fitted = clone(scaler)
    for table in tables:
        fitted.partial_fit(table)
    return fitted


def _encoder(encoder: OneHotEncoder, tables: list[Foreign]) -> OneHotEncoder:
    """Categories as declared, or all that some teacher has."""
    fitted = clone(encoder)
    if encoder.min_frequency is not None or encoder.max_categories is not None:
        raise LearnerError(
            "a OneHotEncoder with min_frequency or max_categories counts the rows of all teachers: fit it first"
        )
    theirs = [OneHotEncoder().fit(table).categories_ for table in tables]
    columns = [np.concatenate(some) for some in zip(*theirs, strict=True)]
    if not isinstance(encoder.categories, str):
        names = list(getattr(tables[0], "columns", range(len(columns))))
        for name, seen, declared in zip(names, columns, encoder.categories, strict=False):
            strange = [value for value in seen.tolist() if value not in list(declared)]
            if strange and encoder.handle_unknown == "error":
                raise DataError(
                    f"column {name!r} holds {strange[0]!r}, which is not among its declared categories "
                    f"{listed(list(declared))}: add it, or use handle_unknown='ignore'"
                )
        columns = [np.asarray(list(d), dtype=seen.dtype) for seen, d in zip(columns, encoder.categories, strict=True)]
    longest = max(map(len, columns))
    return fitted.fit(_like(tables[0], [np.resize(column, longest) for column in columns]))


def _imputer(imputer: SimpleImputer, tables: list[Foreign]) -> SimpleImputer:
    """Find what to fill in: means from sums, the most frequent value from counts, or a constant."""
    fitted = clone(imputer)
    if imputer.strategy == "constant":
        return fitted.fit(tables[0])
    if imputer.strategy == "mean" and isinstance(imputer.missing_values, float) and np.isnan(imputer.missing_values):
        means = _scaler(StandardScaler(with_std=False), tables).mean_
        lacking = np.flatnonzero(np.isnan(means))
        if len(lacking):
            name = list(getattr(tables[0], "columns", range(len(means))))[int(lacking[0])]
            raise DataError(f"column {name!r} holds no value at all, so it has no mean; drop it")
        return fitted.fit(_like(tables[0], [np.array([mean]) for mean in means]))
    if imputer.strategy == "most_frequent":
        counts: list[Counter[Foreign]] = [Counter() for _ in range(tables[0].shape[1])]
        for table in tables:
            for count, (_, column) in zip(counts, columns_of(table), strict=True):
                missing = np.isnan(column) if column.dtype.kind == "f" else find_missing(column)
                values, number = np.unique(column[~missing], return_counts=True)
                count.update(dict(zip(values.tolist(), number.tolist(), strict=True)))
        # The smallest of the most frequent ones, as scikit-learn has it.
        usual = [min(value for value in count if count[value] == max(count.values())) for count in counts if count]
        if len(usual) == len(counts):
            kinds = [object if isinstance(value, str) else None for value in usual]
            return fitted.fit(_like(tables[0], [np.array([v], dtype=k) for v, k in zip(usual, kinds, strict=True)]))
        raise DataError("a column holds no value at all, so none is the most frequent; drop it")
    raise LearnerError(
        f"SimpleImputer(strategy={imputer.strategy!r}) cannot be had from sums over teachers: use 'mean', "
        "'most_frequent' or 'constant' with missing_values=nan, or fit it first, on public rows"
    )


_RULES: dict[type, Callable[[BaseEstimator, list[Foreign]], BaseEstimator]] = {
    StandardScaler: _scaler,
    OneHotEncoder: _encoder,
    SimpleImputer: _imputer,
}


def is_fitted(transformer: BaseEstimator) -> bool:
    """Tell whether a transformer or a model has been fitted."""
    try:
        check_is_fitted(transformer)
    except (NotFittedError, TypeError):
        return False
    return True


def _like(table: Foreign, columns: list[Raw]) -> Foreign:
    """Make a table of `columns`, of the same kind and with the same names as `table`."""
    if hasattr(table, "columns"):
        return type(table)(dict(zip(table.columns, columns, strict=True)))
    return np.column_stack(columns)


@contextmanager
def _named(where: str, tables: Sequence[Foreign] = ()) -> Iterator[None]:
    """Name the step in errors of scikit-learn, and what in the rows they are about."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # scikit-learn raises nearly anything for columns that are not there
        said = reason_of(error).rstrip(".")
        raise DataError(f"{where} does not suit these rows: {said}{_what(said, tables)}") from None


def _what(said: str, tables: Sequence[Foreign]) -> str:
    """Column, value and remedy for what scikit-learn leaves open."""
    if not tables:
        return ""
    if not hasattr(tables[0], "columns"):
        return "; give the rows as a DataFrame" if "dataframe" in said.lower() else ""
    if "columns of the dataframe" in said:
        return (
            f"; the rows have {listed(list(tables[0].columns))}: rename them, or name others in the ColumnTransformer"
        )
    for table in tables:
        for name, values in columns_of(table):
            if values.dtype.kind == "f" and np.isinf(values).any():
                row = name_row(table, int(np.flatnonzero(np.isinf(values))[0]))
                return f"; column {name!r} holds infinity in {row}: drop such rows"
            text = next((value for value in values if _is_text(value)), None) if "convert" in said else None
            if text is not None:
                return (
                    f"; column {name!r} holds text such as {text!r}: encode it (OneHotEncoder), leave it out, or make it "
                    "missing (pandas.to_numeric with errors='coerce')"
                )
    return ""


def _is_text(value: object) -> bool:
    """Tell text from numbers that are written as text."""
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def apply(transformer: BaseEstimator, table: Foreign, name: str) -> Foreign:
    """Return one teacher's rows behind a pipeline, as a matrix of numbers."""
    made = _transform(transformer, table, name)
    if sparse.issparse(made):
        return made.tocsr()
    try:
        matrix = np.asarray(made)
        matrix = matrix if matrix.dtype.kind in "biuf" else matrix.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataTypeError(
            f"teacher {name!r}: the last transformer of the Pipeline leaves something that is no number "
            f"({shorten(str(error), 80)}); encode text with a OneHotEncoder, or drop the column"
        ) from None
    if matrix.ndim != 2:
        raise DataError(
            f"teacher {name!r}: the Pipeline makes an array of shape {matrix.shape}; rows × columns are needed"
        )
    return matrix


def _transform(transformer: BaseEstimator, table: Foreign, name: str) -> Foreign:
    """Return one teacher's rows behind a transformer."""
    with _named(f"teacher {name!r}: {type(transformer).__name__}", [table]):
        return transformer.transform(table)

"""Tables and labels as users hand them in: arrays, sparse matrices, lists of rows, data frames; and the positive label."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy import sparse

from superteach.exceptions import (
    DataError,
    DataTypeError,
    InputError,
    SettingError,
    counted,
    listed,
    reason_of,
    shorten,
    suggestion,
)
from superteach.types import Foreign, Labels, Mask, Raw

Rows = TypeVar("Rows")
_REMEDY = {
    "text": "encode it (a OneHotEncoder in a Pipeline), or drop it",
    "times": "turn it into numbers, such as days since the first one, or drop it",
}


@contextmanager
def our_errors(table: object = None) -> Iterator[None]:
    """Raise errors of scikit-learn's checks as ours, and name the column at fault where one holds no numbers."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        if isinstance(table, list | tuple):
            with suppress(TypeError, ValueError):
                table = np.array(table, dtype=object)
        check_numbers(table)
        # What scikit-learn says, in one line, without the numbers it shows and the pages it names.
        text = str(error)
        if "NaN" in text or text.startswith("Complex data"):
            text = text.splitlines()[0] + " Drop or fill such rows first" * ("NaN" in text)
        text = re.sub(r"array=[\s\S]*?\]\.\s", " ", text)
        kind = DataTypeError if isinstance(error, TypeError) else DataError
        raise kind(shorten(" ".join(text.split()), 400)) from error


def load(table: Foreign) -> Foreign:
    """Bring rows into memory that a polars LazyFrame or a Hugging Face Dataset holds back; return others as they are."""
    if _is_lazy(table):
        try:
            return table.collect()
        except Exception as error:  # a plan of polars fails as it likes: at a column, a type, a file
            said = reason_of(error).partition(" Resolved plan")[0]
            raise DataError(f"the {type(table).__name__} cannot be collected: {said}") from error
    return table.to_pandas() if _is_dataset(table) else table


def _is_lazy(table: object) -> bool:
    return hasattr(table, "collect") and hasattr(table, "lazy") and not hasattr(table, "shape")


def _is_dataset(table: object) -> bool:
    return type(table).__module__.startswith("datasets.") and hasattr(table, "to_pandas") and hasattr(table, "select")


def check_container(table: Foreign, what: str = "X") -> None:
    """Refuse tables without rows at hand, and such with two columns of one name."""
    kind = type(table).__name__
    if hasattr(table, "compute") and hasattr(table, "dask"):
        raise DataTypeError(f"{what} is a {kind} of dask, which holds no rows yet; call its compute() first")
    if type(table).__module__.startswith("datasets."):
        if isinstance(table, dict):
            splits = listed(list(table))
            raise DataTypeError(
                f"{what} is a {kind} with the splits {splits}; give one of them, such as {what}[{next(iter(table))!r}]"
            )
        if "Iterable" in kind:
            raise DataTypeError(
                f"{what} is a {kind}, which streams its rows; give a Dataset, loaded with streaming=False"
            )
    if what == "X":
        _check_table(table)
    if getattr(getattr(table, "dtype", None), "names", None):
        raise DataTypeError(f"{what} is a structured array; give rows × columns, such as pandas.DataFrame({what})")
    if isinstance(table, np.ma.MaskedArray) and (hidden := int(np.ma.getmaskarray(table).sum())):
        raise DataError(
            f"{what} has {counted(hidden, 'masked values')}, which would be used; fill them, or drop their rows"
        )
    names = getattr(table, "columns", None) if hasattr(table, "shape") else None
    if names is None or (hasattr(table, "schema") and not isinstance(names[0] if len(names) else "", str)):
        return
    seen = list(names)
    if not seen:
        raise DataError(f"{what} has 0 feature(s) (shape={getattr(table, 'shape', ())}); at least one column is needed")
    twice = next((name for name in seen if isinstance(name, str) and seen.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{what} has {seen.count(twice)} columns named {twice!r}; give every column a name of its own")


def _check_table(table: Foreign) -> None:
    """Refuse what has no rows and columns: readers, groups, expressions, one column alone, rows and targets in one."""
    kind = type(table)
    arrays = hasattr(kind, "shape") or hasattr(table, "__array__") or hasattr(table, "__dataframe__")
    if not (arrays or isinstance(table, list | tuple | int | float)):
        raise DataTypeError(f"X is a {kind.__name__}; give rows × columns, as an array or a data frame")
    if kind.__name__ == "Series":
        raise DataTypeError("X is a Series, one column of a table; give rows × columns, such as X.to_frame()")
    if isinstance(table, tuple) and len(table) == 2 and getattr(table[0], "ndim", 0) == 2:
        raise DataTypeError("X is a pair of a table and something else; give rows and targets apart, as fit(X, y)")
    if getattr(getattr(table, "columns", None), "nlevels", 1) > 1:
        raise DataError(
            f"X has column names of {table.columns.nlevels} levels; join them first: "
            "X.columns = ['_'.join(map(str, name)) for name in X.columns]"
        )


def check_targets(y: object) -> None:
    """Refuse a target that is no sequence of values."""
    if y is None:
        raise DataError("SuperTeacher requires y to be passed, but the target y is None; give one value for each row")
    refuse_text(y, "y", "the target of each row")
    if isinstance(y, dict | set) or not (hasattr(y, "__len__") or hasattr(y, "__array__")):
        raise DataTypeError(
            f"y is a {type(y).__name__}; give the label or target of each row, as a list, an array or a Series"
        )


def check_lengths(features: Foreign, targets: Raw) -> None:
    """Refuse a table and targets of different lengths."""
    rows, columns = features.shape
    if rows != len(targets):
        hint = "; X looks transposed: give X.T" if columns == len(targets) else "; give one for each row"
        raise DataError(f"X has {rows} rows and y has {len(targets)} values, inconsistent numbers of samples{hint}")


def refuse_text(values: object, name: str, needed: str) -> None:
    """Refuse the name of a column where its values are needed."""
    if isinstance(values, str):
        shown = f"{name}=X[{values!r}]"
        raise DataTypeError(
            f"{name}={values!r} is a text; give {needed}, such as {shown}, and leave that column out of X where it is no "
            "feature"
        )


def check_numbers(table: object) -> None:
    """Refuse text, times and other things in a table by the name of their column, with an example."""
    for name, values in columns_of(table):
        if values.dtype.kind in "biufc":
            continue
        if values.dtype.kind in "mM":
            raise DataTypeError(f"column {name!r} holds times ({values.dtype}); numbers are needed: {_REMEDY['times']}")
        with suppress(TypeError, ValueError, OverflowError):
            values.astype(np.float64)
            continue
        arrays = np.array([isinstance(value, np.ndarray) for value in values])
        for row in np.flatnonzero(~find_missing(values) | arrays):
            try:
                float(values[row])
            except (TypeError, ValueError, OverflowError) as error:
                value = values[row : row + 1].tolist()[0]
                kind = type(value).__name__
                what = "text" if isinstance(value, str) else f"a value of type {kind} ({error})"
                remedy = _REMEDY["times" if "date" in kind or "Time" in kind else "text"]
                if isinstance(value, str) and re.fullmatch(r"[\s+-]*\d[\d.,\s]*[%€$£]?\s*", value):
                    remedy = "it looks like a number in another notation: convert it first (1,5 to 1.5, 5% to 0.05)"
                shown, place = shorten(repr(value), 40), name_row(table, int(row))
                raise DataTypeError(
                    f"column {name!r} holds {what}, such as {shown} in {place}; numbers are needed: {remedy}"
                ) from None


def unboxed(values: Raw) -> Raw:
    """Return truth values and numbers that came as objects as what they are."""
    if values.dtype != object:
        return values
    with suppress(TypeError, ValueError, OverflowError):
        plain = np.array(values.tolist())
        if plain.dtype.kind in "biuf" and plain.shape == values.shape:
            return plain
    return values


def find_missing(values: Raw) -> Mask:
    """Mark entries that are None, NaN, NaT, pandas.NA, or nothing that can be compared with itself."""
    return np.array([_is_missing(value) for value in values.ravel()], dtype=bool).reshape(values.shape)


def _is_missing(value: object) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return True


def name_row(table: object, row: int) -> str:
    """Call a row what its owner calls it."""
    index = index_of(table)
    return f"row {shorten(repr(row if index is None else index[row : row + 1].tolist()[0]), 40)}"


def index_of(table: object) -> Raw | None:
    """Return the labels of a data frame's rows, where they are not their numbers."""
    index = getattr(table, "index", None)
    if index is None or callable(index) or not hasattr(table, "iloc"):
        return None
    labels = np.asarray(index)
    plain = labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(len(labels)))
    return None if plain or labels.ndim != 1 else labels


def take_rows(table: Rows, rows: Raw) -> Rows:
    """Take rows of an array, a sparse matrix, a data frame, a series, an Arrow table or a list."""
    if _is_lazy(table):
        lazy: Rows = take_rows(load(table), rows).lazy()
        return lazy
    if _is_dataset(table):
        selected: Rows = table.select(rows)  # type: ignore[attr-defined]
        return selected
    if hasattr(table, "take") and hasattr(table, "schema") and not hasattr(table, "iloc"):
        with suppress(TypeError):
            taken: Rows = table.take(rows)
            return taken
    if sparse.issparse(table) and not hasattr(table, "indptr"):
        return table.tocsr()[rows].asformat(table.format)  # type: ignore[no-any-return,attr-defined]
    from sklearn.utils import _safe_indexing  # takes a second to load, which the command line does not spend

    taken = _safe_indexing(table, rows)
    return taken


def columns_of(table: Foreign) -> Iterator[tuple[Foreign, Raw]]:
    """Yield each column with its name, or its number where it has none."""
    if isinstance(table, np.ndarray):
        yield from enumerate(table.T) if table.ndim == 2 else ()
    elif hasattr(table, "columns") and hasattr(table, "iloc"):
        yield from ((name, np.asarray(table.iloc[:, place])) for place, name in enumerate(table.columns))
    elif hasattr(table, "get_columns"):
        yield from ((column.name, np.asarray(column)) for column in table.get_columns())
    elif hasattr(table, "column_names"):
        yield from ((name, np.asarray(table.column(name))) for name in table.column_names)


@dataclass(frozen=True)
class PositiveLabel:
    """The label that somebody has named as positive; None: the larger one is, as in scikit-learn."""

    label: object = None
    source: str = "positive="
    """Where it was named, for errors."""
    error: type[InputError] = SettingError

    def last(self, classes: Labels | None) -> Raw | None:
        """Return the classes with the positive one last; None stands for a target without classes."""
        if self.label is None:
            return None if classes is None else np.asarray(classes)
        says = f"{self.source} names {self.label!r} as the positive label"
        if classes is None:
            raise self.error(f"{says}, and the learner predicts numbers; leave it out")
        values = np.asarray(classes)
        if len(values) != 2:
            raise self.error(f"{says}, which takes two labels, and the rows have {len(values)}; leave it out")
        place = find_label(self.label, values)
        if place is None:
            raise self.error(f"{says}, and the rows have {values.tolist()}{suggestion(self.label, values.tolist())}")
        return values if place == 1 else values[::-1]


DEFAULT = PositiveLabel()


def refuse_mixed(labels: Mapping[str, Sequence[object]]) -> None:
    """Refuse labels, by owner, of which some are numbers and some text: the number 0 is another label than the text "0"."""
    seen: dict[str, str] = {}
    for owner, values in labels.items():
        for kind, text in (("numbers", False), ("text", True)):
            if own := [shorten(repr(value), 40) for value in values if isinstance(value, str) == text]:
                seen.setdefault(kind, f"{owner} has {', '.join(own[:3])}{', …' * (len(own) > 3)} ({kind})")
    if len(seen) > 1:
        raise DataTypeError(
            f"labels are of two types: {', '.join(seen.values())}; write all of them as numbers, such as y.astype(int), or "
            "all as text, such as y.astype(str)"
        )


def find_label(given: object, classes: Labels) -> int | None:
    """Return the place of the class that `given` names, as a value or as a command line writes it; None: it is none."""
    values: list[object] = np.asarray(classes).tolist()
    if given in values:
        return values.index(given)
    if isinstance(given, str):
        texts = [str(value) for value in values]
        if given in texts:
            return texts.index(given)
        with suppress(ValueError):
            return values.index(float(given))
    return None

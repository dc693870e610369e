"""Values of a table's columns as NumPy has them, or an error that names teacher, column and row."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa
from pyarrow import types

from superteach.exceptions import DataError, DataTypeError, shorten
from superteach.io.files import NUMBER, TableFile
from superteach.types import Positions, Raw

_WITH_COMMA = re.compile(r"\s*[-+]?\d+(,\d+)+(\.\d*)?\s*")
_LOOKED_AT = 10_000
"""Cells of a column of text that are looked at, to say what is wrong with it."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Values of one file, checked; errors name the teacher, the column and the row."""

    source: TableFile
    names: list[str]
    """Teachers with rows in the file."""
    members: list[Positions]
    """Rows of each."""
    first: int = 0
    """The row of the file that these values begin with."""

    def numbers(self, column: pa.ChunkedArray, name: str) -> Raw:
        """Return a column of finite numbers, decimals as float64."""
        self._check_nulls(column, name)
        values = values_of(column.cast("float64") if types.is_decimal(column.type) else column)
        if values.dtype.kind == "f":
            # One sum finds out whether anything is wrong; only then is the place looked for.
            with np.errstate(over="ignore", invalid="ignore"):
                whole = np.isfinite(values.sum(dtype=np.float64))
            if not whole and not (finite := np.isfinite(values)).all():
                row = int(np.argmin(finite))
                self._refuse(name, row, "NaN" if np.isnan(values[row]) else "infinite")
        return values

    def target(self, column: pa.ChunkedArray, name: str, numeric: bool) -> Raw:
        """Return labels or targets; `numeric` refuses text."""
        column = plain(column)
        if is_number(column.type):
            return self.numbers(column, name)
        self._check_nulls(column, name)
        if numeric or not is_text(column.type):
            needed = "labels are numbers, text or true/false"
            if numeric:
                needed = "a regression needs numbers, a classifier such as logistic takes text"
            raise DataTypeError(f"{self.source.called}: target column {name!r} has type {_type_of(column)}; {needed}")
        return values_of(column)

    def _check_nulls(self, column: pa.ChunkedArray, name: str) -> None:
        if column.null_count:
            self._refuse(name, first_null(column), "missing")

    def _refuse(self, column: str, row: int, what: str) -> NoReturn:
        if self.source.ends:
            row += self.first
            group = bisect.bisect_right(self.source.ends, row)
            place = f"{self.source.called}, column {column!r}, row {row} (row group {group})"
        else:
            teacher = next(name for name, rows in zip(self.names, self.members, strict=True) if row in rows)
            place = (
                f"teacher {teacher!r}, column {column!r}, row {row}{self.source.line(row)} of {str(self.source.path)!r}"
            )
        raise DataError(f"{place}: the value is {what}; drop or fill such rows first")


def first_null(column: pa.ChunkedArray) -> int:
    """Find the first row without a value."""
    return int(np.argmax(values_of(column.is_null())))


def values_of(column: pa.ChunkedArray) -> Raw:
    """Return a column as NumPy has it. Arrow's own to_numpy imports pandas where it is installed: 45 MB for nothing."""
    kind = column.type
    if column.null_count == 0 and is_text(kind):
        return np.array(column.to_pylist(), dtype=object)
    if column.null_count or not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
        return np.asarray(column.to_numpy())
    numbers = column.cast("uint8") if types.is_boolean(kind) else column
    values = np.from_dlpack(numbers.chunk(0) if numbers.num_chunks == 1 else numbers.combine_chunks())
    return values.astype(np.bool_) if types.is_boolean(kind) else values


def matrix_type(source: TableFile, table: pa.Table, columns: Sequence[str]) -> type[np.float32 | np.float64]:
    """Return float32 where every column is, else float64; refuse a column that holds no numbers."""
    kinds = [table.column(column).type for column in columns]
    for column, kind in zip(columns, kinds, strict=True):
        if types.is_null(kind):
            raise DataError(f"{source.called}: column {column!r} holds no value at all; fill it or leave it out")
        if not is_number(kind):
            values = table.column(column)
            _refuse_cell(source, values, column)
            advice = "encode it as numbers" if is_text(plain(values).type) else "turn it into numbers"
            raise DataTypeError(
                f"{source.called}: column {column!r} has type {_type_of(values)}; "
                f"features are numbers: {advice}, or list the feature columns without it"
            )
    return np.float32 if all(types.is_float32(kind) for kind in kinds) else np.float64


def _refuse_cell(source: TableFile, column: pa.ChunkedArray, name: str) -> None:
    """Name the cell at fault where most of a column of text are numbers, or would be with points for commas."""
    if types.is_dictionary(column.type) or not is_text(column.type):
        return
    cells = [str(value) for value in column[:_LOOKED_AT].to_pylist() if value is not None]
    wrong = [place for place, cell in enumerate(cells) if not NUMBER.fullmatch(cell)]
    if not wrong or column[:_LOOKED_AT].null_count:
        return
    cell, place = shorten(cells[wrong[0]], 40), wrong[0]
    where = f"{source.called}, column {name!r}, row {place}{source.line(place)}"
    if all(_WITH_COMMA.fullmatch(cells[one]) for one in wrong):
        raise DataTypeError(f"{where}: {cell!r} has a comma; write numbers with a point, and nothing between thousands")
    if 10 * len(wrong) <= len(cells):
        raise DataTypeError(
            f"{where}: {cell!r} is no number, as most of the column are; correct it, or drop or fill such rows first"
        )


def is_number(kind: pa.DataType) -> bool:
    """Tell types that hold numbers, truth values among them."""
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def is_text(kind: pa.DataType) -> bool:
    """Tell types that hold text."""
    return any(test(kind) for test in (types.is_string, types.is_large_string, types.is_string_view))


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a dictionary column as its values."""
    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column


def _type_of(column: pa.ChunkedArray) -> str:
    """Name the type of a column, and show its first text that is no number."""
    values = plain(column)
    name = f"category of {values.type}" if types.is_dictionary(column.type) else str(column.type)
    if not is_text(values.type):
        return name
    for value in values.drop_null()[:_LOOKED_AT]:
        text = value.as_py()
        try:
            float(text)
        except ValueError:
            return f"{name} (such as {shorten(text, 40)!r})"
    return name

"""Rows from files: CSV and Parquet become parts, or an error that names the teacher and the column.

Every teacher's rows keep the numbers they have in the file they came from, so that a chosen row can be found again.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
from pyarrow import types

from superteach.exceptions import DataError, DataTypeError, SettingError, listed, shorten, suggestion
from superteach.io.files import NUMBER, TableFile, open_file, open_files, refuse_numbers
from superteach.io.formats.csv import separator_advice
from superteach.io.validation import Part, split_by_owner
from superteach.types import Positions, Raw

_WITH_COMMA = re.compile(r"\s*[-+]?\d+(,\d+)+(\.\d*)?\s*")
_LOOKED_AT = 10_000
"""Cells of a column of text that are looked at, to say what is wrong with it."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Parts of all teachers, the names of their columns, and where every row came from."""

    parts: tuple[Part, ...]
    columns: tuple[str, ...]
    files: tuple[Path, ...]
    """Each teacher's file."""
    row_numbers: tuple[Positions, ...]
    """For each teacher, the 0-based row in its file of every position in its part."""


def read_pool(
    paths: Sequence[str | Path],
    target: str,
    owner: str | None = None,
    features: Sequence[str] | None = None,
    numeric_target: bool = False,
    costs: str | None = None,
    encoding: str = "utf-8",
) -> Pool:
    """Read one file per teacher, or one file whose `owner` column names the teacher of every row.

    `costs` names a column with what choosing each row costs; `encoding` says how CSV is written.
    """
    sources = open_files(paths, owner, encoding)
    columns = feature_columns(sources, target, owner, costs, features)
    asked = columns if costs is None else (*columns, costs)
    parts: list[Part] = []
    numbers: list[Positions] = []
    files: list[Path] = []
    for source in sources:
        before = sum(map(len, numbers))
        for part, rows in _parts(source, asked, target, owner, numeric_target):
            parts.append(replace(part, ids=rows + before))
            numbers.append(rows)
            files.append(source.path)
    if costs is not None:
        parts = [replace(part, features=part.features[:, :-1], costs=part.features[:, -1]) for part in parts]
    return Pool(tuple(parts), columns, tuple(files), tuple(numbers))


def read_columns(name: str, path: Path, column: str | None = None, encoding: str = "utf-8") -> dict[str, Raw]:
    """Read every column of a teacher's file as it is there, or the one named `column`."""
    source = open_file(name, path, encoding)
    if column is not None and column not in source.columns:
        raise DataError(f"{source.called} has no column {column!r}; it has {listed(list(source.columns))}")
    table = source.read(source.columns if column is None else [column])
    return {name: values_of(table.column(name)) for name in table.column_names}


def feature_columns(
    sources: list[TableFile], target: str, owner: str | None, costs: str | None, features: Sequence[str] | None
) -> tuple[str, ...]:
    """Settle the feature columns, in the first file's order unless they are listed, and check every file has them."""
    roles: dict[str, str] = {}
    for role, column in (("target", target), ("owner", owner), ("costs", costs)):
        if column in roles:
            raise SettingError(f"column {column!r} is both the {roles[column]} and the {role}; name two columns")
        if column is not None:
            roles[column] = role
    special = list(roles)
    for source in sources:
        for column, role in roles.items():
            _require(source, column, role)
    if features is not None:
        _check_listed(sources, features, roles)
        return tuple(features)
    first = sources[0]
    columns = tuple(column for column in first.columns if column not in special)
    if not columns:
        raise DataError(f"{first.called} has no column besides {listed(special)}; features are needed")
    unnamed = [source for source in sources if any(not column.strip() for column in source.columns)]
    if unnamed:
        raise DataError(
            f"{unnamed[0].called} has a column without a name, often a saved index; "
            "write the file without its index, or list the feature columns"
        )
    for source in sources[1:]:
        theirs = [column for column in source.columns if column not in special]
        missing = [column for column in columns if column not in theirs]
        extra = [column for column in theirs if column not in columns]
        if missing or extra:
            faults = [f"lacks {listed(missing)}"] * bool(missing) + [f"adds {listed(extra)}"] * bool(extra)
            theirs_of = first.called if first.name is None else f"teacher {first.name!r}"
            raise DataError(
                f"{source.called} has other columns than {theirs_of}: it {' and '.join(faults)}; "
                "give all teachers the same columns, or list the feature columns they share"
            )
    return columns


def _check_listed(sources: list[TableFile], features: Sequence[str], roles: dict[str, str]) -> None:
    if not features:
        raise SettingError("the list of feature columns is empty; name at least one, or leave the list out")
    for column in features:
        if column in roles:
            raise SettingError(f"column {column!r} is the {roles[column]}, not a feature")
        if list(features).count(column) > 1:
            raise SettingError(f"column {column!r} is listed twice among the features")
        for source in sources:
            _require(source, column, "feature")


def _require(source: TableFile, column: str, role: str) -> None:
    if column in source.columns:
        return
    refuse_numbers(source.called, source.columns)
    hint = f"it has {listed(source.columns)}"
    if advice := separator_advice(source.columns):
        hint = advice
    elif meant := suggestion(column, source.columns):
        hint = f"{meant.removeprefix('; ')} Its columns are {listed(source.columns)}"
    raise DataError(f"{source.called} has no {role} column {column!r}; {hint}")


def _parts(
    source: TableFile, columns: tuple[str, ...], target: str, owner: str | None, numeric_target: bool
) -> Iterator[tuple[Part, Positions]]:
    """Yield the part of each teacher in a file, and the rows of the file that it has."""
    table = source.read([*columns, target] if owner is None else [*columns, target, owner])
    if table.num_rows == 0:
        advice = "; leave it out or give it some" if owner is None else ""
        raise DataError(f"{source.called} has column names but no rows{advice}")
    number = np.arange(table.num_rows)
    names, members = [str(source.name)], [number]
    if owner is not None:
        values, members = split_by_owner(_owners(source, table.column(owner), owner))
        names = [str(value) for value in values.tolist()]
    cells = Cells(source, names, members)
    labels = cells.target(table.column(target), target, numeric_target)
    kind = matrix_type(source, table, columns)
    matrices = [np.empty((len(columns), len(rows)), kind) for rows in members]
    for place, column in enumerate(columns):
        values = cells.numbers(table.column(column), column)
        for matrix, rows in zip(matrices, members, strict=True):
            matrix[place] = values if owner is None else values[rows]
    for name, matrix, rows in zip(names, matrices, members, strict=True):
        # Teachers hold their rows column by column: handed over transposed, nothing is copied again.
        yield Part(name, matrix.T, labels if owner is None else labels[rows]), rows


def _owners(source: TableFile, column: pa.ChunkedArray, name: str) -> Raw:
    """Return the owner of every row."""
    column = plain(column)
    if column.null_count:
        raise DataError(
            f"{source.called}, owner column {name!r}, row {first_null(column)}: no owner is named; every row needs one"
        )
    if not (is_text(column.type) or types.is_integer(column.type) or types.is_boolean(column.type)):
        raise DataTypeError(
            f"{source.called}: owner column {name!r} has type {column.type}; name owners by text or whole numbers"
        )
    return values_of(column)


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

"""Rows from files: CSV and Parquet become parts, or an error that names the teacher and the column.

Every teacher's rows keep the numbers they have in the file they came from, so that a chosen row can be found again.
"""

from __future__ import annotations

import bisect
import codecs
import csv as plain_csv
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, TextIO

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet, types

from superteach.exceptions import (
    DataError,
    DataTypeError,
    SettingError,
    counted,
    listed,
    reason_of,
    shorten,
    suggestion,
)
from superteach.io.validation import Part, split_by_owner
from superteach.types import Positions, Raw

SUFFIXES = (".csv", ".parquet")
_SAVED_INDEX = re.compile(r"__index_level_\d+__")
_CSV = csv.ParseOptions(newlines_in_values=True)
_LOOKED_AT = 10_000
"""Rows of a column of text that are looked at, to say what is wrong with it."""
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_COMMA = re.compile(r"\s*[-+]?\d+(,\d+)+(\.\d*)?\s*")


@dataclass(frozen=True, eq=False)
class Pool:
    """Parts of all teachers, the names of their columns, and where every row came from."""

    parts: tuple[Part, ...]
    columns: tuple[str, ...]
    files: tuple[Path, ...]
    """Each teacher's file."""
    row_numbers: tuple[Positions, ...]
    """For each teacher, the 0-based row in its file of every position in its part."""


@dataclass(frozen=True, eq=False)
class FileSource:
    """One file: its teacher's name (None where a column names the owners) and the names of its columns."""

    name: str | None
    path: Path
    columns: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    """The row behind the last one of every row group, where the file is read by them."""
    encoding: str = "utf-8"
    """How the text of a CSV file is written."""

    @property
    def called(self) -> str:
        """What errors call it."""
        return f"file {str(self.path)!r}" if self.name is None else f"teacher {self.name!r} (file {str(self.path)!r})"

    @contextmanager
    def reading(self, where: str = "") -> Iterator[None]:
        """Turn whatever a parser raises into a DataError that names the teacher and its file."""
        try:
            yield
        except DataError:
            raise
        except UnicodeDecodeError:
            self.refuse_encoding()
        except Exception as error:  # a damaged file makes parsers raise nearly anything
            self._check_cells()
            kind = self.path.suffix[1:].lower()
            told = f"{self.called}, {where}," if where else self.called
            raise DataError(f"{told} cannot be read as {kind}: {reason_of(error)}") from None

    def opened(self) -> pa.OSFile:
        """Open as Arrow's own: its threads let go of a Python file's bytes late, and abort where Python has ended."""
        return pa.OSFile(str(self.path))

    def names(self) -> list[str]:
        """Name all columns, from the head of the file."""
        with self.reading(), self.opened() as file:
            if self.path.stat().st_size == 0:
                raise DataError(f"{self.called} is empty; it needs a line of column names and rows below it")
            if is_parquet(self.path):
                return [str(column) for column in parquet.read_schema(file).names]
            if self.encoding == "utf-8" and b"\0" in file.read(4096):
                raise DataError(f"{self.called} holds no text but bytes; write it as CSV in UTF-8, or as Parquet")
            file.seek(0)
            with csv.open_csv(file, csv.ReadOptions(encoding=self.encoding), _CSV) as stored:
                return [str(column) for column in stored.schema.names]

    def line(self, row: int) -> str:
        """Say on which line of a CSV file a row stands, for an editor."""
        if is_parquet(self.path):
            return ""
        with self._text() as file:
            lines = plain_csv.reader(file)
            whole = (line for line in lines if line)  # Arrow leaves out empty lines too
            next(itertools.islice(whole, row + 1, None), None)
            return f" (line {lines.line_num})"

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read the named columns."""
        with self.reading(), self.opened() as file:
            if is_parquet(self.path):
                # Not parquet.read_table: that one reads owner=3/rows.parquet as a column "owner" of its own.
                with parquet.ParquetFile(file) as stored:
                    return stored.read(columns=list(columns))
            convert = csv.ConvertOptions(include_columns=list(columns), strings_can_be_null=True)
            table = csv.read_csv(file, csv.ReadOptions(encoding=self.encoding), _CSV, convert)
            if any(types.is_binary(column.type) for column in table.schema):
                self.refuse_encoding()
            return table

    def _text(self) -> TextIO:
        return self.path.open(encoding=self.encoding, errors="replace", newline="")

    def _check_cells(self) -> None:
        """Name the first line of a CSV file that has more or fewer cells than the first one."""
        if is_parquet(self.path):
            return
        with suppress(OSError, UnicodeError, plain_csv.Error), self._text() as file:
            lines = plain_csv.reader(file)
            whole = (line for line in lines if line)
            names = next(whole, [])
            empty = True
            for cells in whole:
                empty = False
                if len(cells) != len(names):
                    mark = _separator(names)
                    fault = "complete the line, or put text with commas in double quotes"
                    if mark:
                        fault = f"it seems to separate columns by {mark!r}; use commas, and points in numbers"
                    raise DataError(
                        f"{self.called}, line {lines.line_num} has {counted(len(cells), 'cells')}, the line of column names "
                        f"{len(names)}: {fault}"
                    )
            if empty:
                raise DataError(
                    f"{self.called} has {'column names but ' * bool(names)}no rows; leave it out or give it some"
                )

    def refuse_encoding(self) -> NoReturn:
        """Name the first line that is not written as it should be."""
        place = ""
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode(self.encoding)
                except UnicodeDecodeError as error:
                    begin = max(line.rfind(b",", 0, error.start), line.rfind(b"\n", 0, error.start)) + 1
                    cell = line[begin:].split(b",")[0].strip().decode("ascii", "backslashreplace")
                    place = f": line {number} holds '{shorten(cell, 40)}'"
                    break
        raise DataError(
            f"{self.called} is not written in {self.encoding.upper()}{place}; convert it to UTF-8, or name its encoding "
            "(superteach teach --encoding latin-1)"
        )


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
    try:
        "".encode(encoding)
        encoding = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise SettingError(f"encoding {encoding!r} is not known; there are utf-8, latin-1, cp1252 and others") from None
    places = [Path(path) for path in paths]
    check_places(places, owner)
    names = [None] if owner is not None else _names(places)
    sources = [open_source(name, place, encoding) for name, place in zip(names, places, strict=True)]
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


def read_columns(name: str, path: Path, column: str | None = None) -> dict[str, Raw]:
    """Read every column of a teacher's file as it is there, or the one named `column`."""
    source = open_source(name, path)
    if column is not None and column not in source.columns:
        raise DataError(f"{source.called} has no column {column!r}; it has {listed(list(source.columns))}")
    table = source.read(source.columns if column is None else [column])
    return {name: values_of(table.column(name)) for name in table.column_names}


def check_places(places: list[Path], owner: str | None) -> None:
    """Refuse a path that is no CSV or Parquet file, does not exist, or is given twice."""
    if not places:
        raise DataError("no file is given; name one CSV or Parquet file per teacher, or one with an owner column")
    if owner is not None and len(places) > 1:
        raise SettingError(
            f"an owner column ({owner!r}) goes with one file that holds all rows, got {len(places)} files; "
            "drop the owner column to make every file a teacher of its own"
        )
    seen: set[Path] = set()
    for place in places:
        try:
            exists, folder, real = place.exists(), place.is_dir(), place.resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(f"file {str(place)!r} cannot be reached: {error}") from None
        if not exists:
            raise DataError(f"file {str(place)!r} does not exist; check the path")
        if folder:
            raise DataError(f"{str(place)!r} is a directory; name the CSV or Parquet files in it")
        if place.suffix.lower() not in SUFFIXES:
            raise DataError(
                f"file {str(place)!r} ends in {place.suffix!r}; {' and '.join(SUFFIXES)} are read: save it as one of these"
            )
        if real in seen:
            raise DataError(f"file {str(place)!r} is given twice; every teacher needs a file of its own")
        seen.add(real)


def _names(places: list[Path]) -> list[str | None]:
    """Name teachers by file stems, or as much of the paths as tells all of them apart."""
    names: list[str | None] = [place.stem for place in places]
    if len(set(names)) == len(names):
        return names
    parts = [place.resolve().parts for place in places]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names


def open_source(name: str | None, path: Path, encoding: str = "utf-8") -> FileSource:
    """Look at a file's column names, before any of its rows."""
    source = FileSource(name, path, encoding=encoding)
    columns = source.names()
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        _check_names(source.called, columns)
        raise DataError(
            f"{source.called} has {columns.count(twice[0])} columns named {twice[0]!r}; give every column a name of its own"
        )
    return replace(source, columns=tuple(column for column in columns if not _SAVED_INDEX.fullmatch(column)))


def is_parquet(path: Path) -> bool:
    """Tell whether a file is Parquet, by its suffix."""
    return path.suffix.lower() == ".parquet"


def feature_columns(
    sources: list[FileSource], target: str, owner: str | None, costs: str | None, features: Sequence[str] | None
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
        _checklisted(sources, features, roles)
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


def _checklisted(sources: list[FileSource], features: Sequence[str], roles: dict[str, str]) -> None:
    if not features:
        raise SettingError("the list of feature columns is empty; name at least one, or leave the list out")
    for column in features:
        if column in roles:
            raise SettingError(f"column {column!r} is the {roles[column]}, not a feature")
        if list(features).count(column) > 1:
            raise SettingError(f"column {column!r} is listed twice among the features")
        for source in sources:
            _require(source, column, "feature")


def _separator(columns: Sequence[str]) -> str | None:
    """Find what stands between names that were read as one; None where commas separate them."""
    mark = re.search(r"[;\t|]", columns[0]) if len(columns) == 1 else None
    return mark.group() if mark else None


def _check_names(called: str, columns: Sequence[str]) -> None:
    """Refuse a first line of numbers."""
    if all(_NUMBER.fullmatch(column) for column in columns):
        raise DataError(f"{called} begins with numbers, {listed(columns)}; write a line of column names above its rows")


def _require(source: FileSource, column: str, role: str) -> None:
    if column in source.columns:
        return
    _check_names(source.called, source.columns)
    hint = f"it has {listed(source.columns)}"
    if mark := _separator(source.columns):
        hint = f"it seems to separate columns by {mark!r}, commas are needed"
    elif meant := suggestion(column, source.columns):
        hint = f"{meant.removeprefix('; ')} Its columns are {listed(source.columns)}"
    raise DataError(f"{source.called} has no {role} column {column!r}; {hint}")


def _parts(
    source: FileSource, columns: tuple[str, ...], target: str, owner: str | None, numeric_target: bool
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


def _owners(source: FileSource, column: pa.ChunkedArray, name: str) -> Raw:
    """Return the owner of every row."""
    column = _plain(column)
    if column.null_count:
        raise DataError(
            f"{source.called}, owner column {name!r}, row {_first_null(column)}: no owner is named; every row needs one"
        )
    if not (_is_text(column.type) or types.is_integer(column.type) or types.is_boolean(column.type)):
        raise DataTypeError(
            f"{source.called}: owner column {name!r} has type {column.type}; name owners by text or whole numbers"
        )
    return values_of(column)


@dataclass(frozen=True, eq=False)
class Cells:
    """Values of one file, checked; errors name the teacher, the column and the row."""

    source: FileSource
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
        column = _plain(column)
        if _is_number(column.type):
            return self.numbers(column, name)
        self._check_nulls(column, name)
        if numeric or not _is_text(column.type):
            needed = "labels are numbers, text or true/false"
            if numeric:
                needed = "a regression needs numbers, a classifier such as logistic takes text"
            raise DataTypeError(f"{self.source.called}: target column {name!r} has type {_type_of(column)}; {needed}")
        return values_of(column)

    def _check_nulls(self, column: pa.ChunkedArray, name: str) -> None:
        if column.null_count:
            self._refuse(name, _first_null(column), "missing")

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


def _first_null(column: pa.ChunkedArray) -> int:
    return int(np.argmax(values_of(column.is_null())))


def values_of(column: pa.ChunkedArray) -> Raw:
    """Return a column as NumPy has it. Arrow's own to_numpy imports pandas where it is installed: 45 MB for nothing."""
    kind = column.type
    if column.null_count == 0 and _is_text(kind):
        return np.array(column.to_pylist(), dtype=object)
    if column.null_count or not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
        return np.asarray(column.to_numpy())
    numbers = column.cast("uint8") if types.is_boolean(kind) else column
    values = np.from_dlpack(numbers.chunk(0) if numbers.num_chunks == 1 else numbers.combine_chunks())
    return values.astype(np.bool_) if types.is_boolean(kind) else values


def matrix_type(source: FileSource, table: pa.Table, columns: Sequence[str]) -> type[np.float32 | np.float64]:
    """Return float32 where every column is, else float64; refuse a column that holds no numbers."""
    kinds = [table.column(column).type for column in columns]
    for column, kind in zip(columns, kinds, strict=True):
        if types.is_null(kind):
            raise DataError(f"{source.called}: column {column!r} holds no value at all; fill it or leave it out")
        if not _is_number(kind):
            values = table.column(column)
            _refuse_cell(source, values, column)
            advice = "encode it as numbers" if _is_text(_plain(values).type) else "turn it into numbers"
            raise DataTypeError(
                f"{source.called}: column {column!r} has type {_type_of(values)}; "
                f"features are numbers: {advice}, or list the feature columns without it"
            )
    return np.float32 if all(types.is_float32(kind) for kind in kinds) else np.float64


def _refuse_cell(source: FileSource, column: pa.ChunkedArray, name: str) -> None:
    """Name the cell at fault where most of a column of text are numbers, or would be with points for commas."""
    if types.is_dictionary(column.type) or not _is_text(column.type):
        return
    cells = [str(value) for value in column[:_LOOKED_AT].to_pylist() if value is not None]
    wrong = [place for place, cell in enumerate(cells) if not _NUMBER.fullmatch(cell)]
    if not wrong or column[:_LOOKED_AT].null_count:
        return
    cell, place = shorten(cells[wrong[0]], 40), wrong[0]
    where = f"{source.called}, column {name!r}, row {place}{source.line(place)}"
    if all(_COMMA.fullmatch(cells[one]) for one in wrong):
        raise DataTypeError(f"{where}: {cell!r} has a comma; write numbers with a point, and nothing between thousands")
    if 10 * len(wrong) <= len(cells):
        raise DataTypeError(
            f"{where}: {cell!r} is no number, as most of the column are; correct it, or drop or fill such rows first"
        )


def _is_number(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (types.is_string, types.is_large_string, types.is_string_view))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a dictionary column as its values."""
    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column


def _type_of(column: pa.ChunkedArray) -> str:
    """Name the type of a column, and show its first text that is no number."""
    values = _plain(column)
    name = f"category of {values.type}" if types.is_dictionary(column.type) else str(column.type)
    if not _is_text(values.type):
        return name
    for value in values.drop_null()[:10_000]:
        text = value.as_py()
        try:
            float(text)
        except ValueError:
            return f"{name} (such as {shorten(text, 40)!r})"
    return name

"""Rows from files: CSV and Parquet become parts, or an error that names the teacher and the column.

Every teacher's rows keep the numbers they have in the file they came from, so that a chosen row can be found again.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from superteach.errors import DataError, DataTypeError, SettingError, listed, shorten
from superteach.teacher.inputs import Part
from superteach.types import Raw

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.csv import ParseOptions

SUFFIXES = (".csv", ".parquet")
_SAVED_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True, eq=False)
class Pool:
    """Parts of all teachers, the names of their columns, and where every row came from."""

    parts: tuple[Part, ...]
    columns: tuple[str, ...]
    files: tuple[Path, ...]
    """Each teacher's file."""
    row_numbers: tuple[npt.NDArray[np.int64], ...]
    """For each teacher, the 0-based row in its file of every position in its part."""


@dataclass(frozen=True, eq=False)
class _Source:
    """One file: its teacher's name (None where a column names the owners) and the names of its columns."""

    name: str | None
    path: Path
    columns: tuple[str, ...] = ()

    @property
    def called(self) -> str:
        """What errors call it."""
        return f"file {str(self.path)!r}" if self.name is None else f"teacher {self.name!r} (file {str(self.path)!r})"

    def read(self, columns: Sequence[str]) -> pa.Table:
        """The named columns as an Arrow table."""
        with _Reading(self):
            return _read_parquet(self.path, columns) if _is_parquet(self.path) else _read_csv(self.path, columns)


def read_pool(
    paths: Sequence[str | Path],
    target: str,
    owner: str | None = None,
    features: Sequence[str] | None = None,
    numeric_target: bool = False,
    costs: str | None = None,
) -> Pool:
    """Read one file per teacher, or one file whose `owner` column names the teacher of every row.

    `costs` names a column with what choosing each row costs.
    """
    places = [Path(path) for path in paths]
    _check_places(places, owner)
    names = [None] if owner is not None else _names(places)
    sources = [_open(name, place) for name, place in zip(names, places, strict=True)]
    columns = _feature_columns(sources, target, owner, costs, features)
    asked = columns if costs is None else (*columns, costs)
    if owner is None:
        pool = _one_each(sources, asked, target, numeric_target)
    else:
        pool = _split_by_owner(sources[0], asked, target, owner, numeric_target)
    if costs is None:
        return pool
    parts = [replace(part, features=part.features[:, :-1], costs=part.features[:, -1]) for part in pool.parts]
    return replace(pool, parts=tuple(parts), columns=columns)


def _check_places(places: list[Path], owner: str | None) -> None:
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
            raise DataError(f"file {str(place)!r} ends in {place.suffix!r}; {' and '.join(SUFFIXES)} are read")
        if real in seen:
            raise DataError(f"file {str(place)!r} is given twice; every teacher needs a file of its own")
        seen.add(real)


def _names(places: list[Path]) -> list[str | None]:
    """File stems, or as much of the paths as tells all of them apart."""
    names: list[str | None] = [place.stem for place in places]
    if len(set(names)) == len(names):
        return names
    parts = [place.resolve().parts for place in places]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names


class _Reading:
    """Turns whatever a parser raises into a DataError that names the teacher and its file."""

    def __init__(self, source: _Source) -> None:
        self._source = source

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # A damaged file makes parsers raise nearly anything; only what stops a program passes through.
        if not isinstance(error, Exception) or isinstance(error, DataError):
            return
        source = self._source
        if isinstance(error, OSError) and error.strerror:
            text = error.strerror
        else:
            text = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{source.called} cannot be read as {source.path.suffix[1:].lower()}: {shorten(text)}"
        ) from None


def _open(name: str | None, path: Path) -> _Source:
    """Look at a file's column names, before any of its rows."""
    source = _Source(name, path)
    with _Reading(source):
        if path.stat().st_size == 0:
            raise DataError(f"{source.called} is empty; it needs a line of column names and rows below it")
        columns = _parquet_columns(path) if _is_parquet(path) else _csv_columns(path)
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        raise DataError(
            f"{source.called} has {columns.count(twice[0])} columns named {twice[0]!r}; give every column a name of its own"
        )
    return _Source(name, path, tuple(column for column in columns if not _SAVED_INDEX.fullmatch(column)))


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _parquet_columns(path: Path) -> list[str]:
    from pyarrow import parquet

    with path.open("rb") as file:
        return [str(column) for column in parquet.read_schema(file).names]


def _read_parquet(path: Path, columns: Sequence[str]) -> pa.Table:
    from pyarrow import parquet

    # Not parquet.read_table: that one reads owner=3/rows.parquet as a column "owner" of its own.
    with path.open("rb") as file, parquet.ParquetFile(file) as stored:
        return stored.read(columns=list(columns))


def _csv_columns(path: Path) -> list[str]:
    from pyarrow import csv

    with path.open("rb") as file, csv.open_csv(file, parse_options=_csv_layout()) as stored:
        return [str(column) for column in stored.schema.names]


def _read_csv(path: Path, columns: Sequence[str]) -> pa.Table:
    from pyarrow import csv

    convert = csv.ConvertOptions(include_columns=list(columns), strings_can_be_null=True)
    with path.open("rb") as file:
        return csv.read_csv(file, parse_options=_csv_layout(), convert_options=convert)


def _csv_layout() -> ParseOptions:
    from pyarrow import csv

    return csv.ParseOptions(newlines_in_values=True)


def _feature_columns(
    sources: list[_Source], target: str, owner: str | None, costs: str | None, features: Sequence[str] | None
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
            raise DataError(
                f"{source.called} has other columns than teacher {first.name!r}: it {' and '.join(faults)}; "
                "give all teachers the same columns, or list the feature columns they share"
            )
    return columns


def _checklisted(sources: list[_Source], features: Sequence[str], roles: dict[str, str]) -> None:
    if not features:
        raise SettingError("the list of feature columns is empty; name at least one, or leave the list out")
    for column in features:
        if column in roles:
            raise SettingError(f"column {column!r} is the {roles[column]}, not a feature")
        if list(features).count(column) > 1:
            raise SettingError(f"column {column!r} is listed twice among the features")
        for source in sources:
            _require(source, column, "feature")


def _require(source: _Source, column: str, role: str) -> None:
    if column in source.columns:
        return
    hint = f"it has {listed(source.columns)}"
    if nearest := difflib.get_close_matches(column, source.columns, n=1):
        hint = f"did you mean {nearest[0]!r}? Its columns are {listed(source.columns)}"
    elif len(source.columns) == 1 and (mark := re.search(r"[;\t|]", source.columns[0])):
        hint = f"it seems to separate columns by {mark.group()!r}, commas are needed"
    raise DataError(f"{source.called} has no {role} column {column!r}; {hint}")


def _one_each(sources: list[_Source], columns: tuple[str, ...], target: str, numeric_target: bool) -> Pool:
    parts, numbers, before = [], [], 0
    for source in sources:
        table = source.read([*columns, target])
        rows = table.num_rows
        if rows == 0:
            raise DataError(f"{source.called} has column names but no rows; leave it out or give it some")
        number = np.arange(rows, dtype=np.int64)
        labels = _target_values(source, table.column(target), target, numeric_target)
        matrix = np.empty((len(columns), rows), _matrix_type(source, table, columns))
        for line, column in zip(matrix, columns, strict=True):
            _check_nulls(source, table.column(column), column)
            start = 0
            for chunk in _numeric(table.column(column)).chunks:
                line[start : start + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
                start += len(chunk)
            _check_finite(source, line, column)
        # Teachers hold their rows column by column: handed over transposed, nothing is copied again.
        parts.append(Part(str(source.name), matrix.T, labels, number + before))
        numbers.append(number)
        before += rows
    return Pool(tuple(parts), columns, tuple(source.path for source in sources), tuple(numbers))


def _split_by_owner(source: _Source, columns: tuple[str, ...], target: str, owner: str, numeric_target: bool) -> Pool:
    table = source.read([*columns, target, owner])
    if table.num_rows == 0:
        raise DataError(f"{source.called} has column names but no rows")
    owners, members = _members(source, table.column(owner), owner)
    who = np.empty(table.num_rows, dtype=np.int64)
    for position, rows in enumerate(members):
        who[rows] = position
    names = [str(value) for value in owners]
    labels = _target_values(source, table.column(target), target, numeric_target, (names, who))
    kind = _matrix_type(source, table, columns)
    matrices = [np.empty((len(columns), len(rows)), kind) for rows in members]
    for line, column in enumerate(columns):
        _check_nulls(source, table.column(column), column, (names, who))
        values = _numeric(table.column(column)).to_numpy()
        _check_finite(source, values, column, (names, who))
        for matrix, rows in zip(matrices, members, strict=True):
            matrix[line] = values[rows]
    parts = tuple(
        Part(name, matrix.T, labels[rows], rows) for name, matrix, rows in zip(names, matrices, members, strict=True)
    )
    return Pool(parts, columns, (source.path,) * len(parts), tuple(members))


def _members(source: _Source, column: pa.ChunkedArray, owner: str) -> tuple[list[object], list[npt.NDArray[np.int64]]]:
    """The owners, sorted, and each one's rows, ascending."""
    from pyarrow import types

    column = _plain(column)
    if column.null_count:
        raise DataError(
            f"{source.called}, owner column {owner!r}, row {_first_null(column)}: no owner is named; every row needs one"
        )
    if not _is_text(column.type) and not types.is_integer(column.type) and not types.is_boolean(column.type):
        raise DataTypeError(
            f"{source.called}: owner column {owner!r} has type {column.type}; name owners by text or whole numbers"
        )
    values, codes = np.unique(column.to_numpy(), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    return values.tolist(), np.split(order, np.cumsum(np.bincount(codes))[:-1])


Ownership = tuple[list[str], npt.NDArray[np.int64]]
"""Teachers' names, and the position of every row's teacher among them."""


def _place(source: _Source, column: str, row: int, ownership: Ownership | None) -> str:
    name = source.name if ownership is None else ownership[0][ownership[1][row]]
    return f"teacher {name!r}, column {column!r}, row {row} of {str(source.path)!r}"


def _check_nulls(source: _Source, column: pa.ChunkedArray, name: str, ownership: Ownership | None = None) -> None:
    if column.null_count:
        place = _place(source, name, _first_null(column), ownership)
        raise DataError(f"{place}: the value is missing; drop or fill such rows first")


def _check_finite(source: _Source, values: Raw, name: str, ownership: Ownership | None = None) -> None:
    if values.dtype.kind != "f":
        return
    # One sum finds out whether anything is wrong; only then is the place looked for.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    finite = np.isfinite(values)
    if not finite.all():
        row = int(np.argmin(finite))
        what = "NaN" if np.isnan(values[row]) else "infinite"
        raise DataError(f"{_place(source, name, row, ownership)}: the value is {what}; drop or fill such rows first")


def _first_null(column: pa.ChunkedArray) -> int:
    return int(np.argmax(column.is_null().to_numpy()))


def _matrix_type(source: _Source, table: pa.Table, columns: Sequence[str]) -> type[np.float32 | np.float64]:
    """Float32 where every column is, else float64; a column that holds no numbers is refused."""
    from pyarrow import types

    kinds = [table.column(column).type for column in columns]
    for column, kind in zip(columns, kinds, strict=True):
        if types.is_null(kind):
            raise DataError(f"{source.called}: column {column!r} holds no value at all; fill it or leave it out")
        if not _is_number(kind):
            advice = "encode it as numbers" if _is_text(_plain_type(kind)) else "turn it into numbers"
            shown = _example(table.column(column))
            raise DataTypeError(
                f"{source.called}: column {column!r} has type {_type_name(kind)}{shown}; "
                f"features are numbers: {advice}, or list the feature columns without it"
            )
    return np.float32 if all(types.is_float32(kind) for kind in kinds) else np.float64


def _target_values(
    source: _Source, column: pa.ChunkedArray, name: str, numeric: bool, ownership: Ownership | None = None
) -> Raw:
    column = _plain(column)
    _check_nulls(source, column, name, ownership)
    if _is_number(column.type):
        values: Raw = _numeric(column).to_numpy()
        _check_finite(source, values, name, ownership)
        return values
    if numeric or not _is_text(column.type):
        needed = "a regression needs numbers" if numeric else "labels are numbers, text or true/false"
        raise DataTypeError(
            f"{source.called}: target column {name!r} has type {_type_name(column.type)}{_example(column)}; {needed}"
        )
    return np.asarray(column.to_numpy(), dtype=object)


def _is_number(kind: pa.DataType) -> bool:
    from pyarrow import types

    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    return any(test(kind) for test in (types.is_string, types.is_large_string, types.is_string_view))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A dictionary column as its values."""
    from pyarrow import types

    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column


def _numeric(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals as float64; every other number as it is."""
    from pyarrow import types

    return column.cast("float64") if types.is_decimal(column.type) else column


def _type_name(kind: pa.DataType) -> str:
    from pyarrow import types

    return f"category of {kind.value_type}" if types.is_dictionary(kind) else str(kind)


def _example(column: pa.ChunkedArray) -> str:
    """The first value that is no number, to show where the trouble sits."""
    if not _is_text(_plain_type(column.type)):
        return ""
    values = _plain(column).drop_null()
    for row in range(min(len(values), 10_000)):
        text = values[row].as_py()
        try:
            float(text)
        except ValueError:
            return f" (such as {shorten(text, 40)!r})"
    return ""

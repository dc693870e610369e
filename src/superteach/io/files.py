"""Files with rows: which can be read, what their teachers are called, and what errors call them."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from superteach.exceptions import DataError, SettingError, listed, reason_of
from superteach.io.formats import Format, FormatError, format_of, formats
from superteach.io.formats.csv import refuse_encoding

_SAVED_INDEX = re.compile(r"__index_level_\d+__")
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
"""A number as CSV writes it."""


@dataclass(frozen=True, eq=False)
class TableFile:
    """One file: its teacher's name (None where a column names the owners) and the names of its columns."""

    name: str | None
    path: Path
    format: Format
    columns: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    """The row behind the last one of every row group, where the file is read by them."""
    encoding: str = "utf-8"
    """How a file of text is written."""

    @property
    def called(self) -> str:
        """What errors call it."""
        return f"file {str(self.path)!r}" if self.name is None else f"teacher {self.name!r} (file {str(self.path)!r})"

    @contextmanager
    def reading(self, where: str = "") -> Iterator[None]:
        """Turn whatever a parser raises into a DataError that names the teacher and its file."""
        try:
            try:
                yield
            except (DataError, FormatError):
                raise
            except UnicodeDecodeError:
                refuse_encoding(self.path, self.encoding)
            except Exception as error:  # a damaged file makes parsers raise nearly anything
                self.format.check(self.path, self.encoding)
                place, kind = f"{self.called}, {where}," if where else self.called, self.format.suffix[1:]
                raise DataError(f"{place} cannot be read as {kind}: {reason_of(error)}") from None
        except FormatError as error:
            raise DataError(f"{self.called} {error}") from None

    def line(self, row: int) -> str:
        """Say where a row stands, for an editor."""
        return self.format.line(self.path, row, self.encoding)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read the named columns."""
        with self.reading():
            return self.format.read(self.path, columns, self.encoding)


def open_files(paths: Sequence[str | Path], owner: str | None = None, encoding: str = "utf-8") -> list[TableFile]:
    """Look at the column names of all files, before any of their rows; teachers are called by file names."""
    try:
        "".encode(encoding)
        encoding = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise SettingError(f"encoding {encoding!r} is not known; there are utf-8, latin-1, cp1252 and others") from None
    places = [Path(path) for path in paths]
    check_places(places, owner)
    names = [None] if owner is not None else _names(places)
    return [open_file(name, place, encoding) for name, place in zip(names, places, strict=True)]


def open_file(name: str | None, path: Path, encoding: str = "utf-8") -> TableFile:
    """Look at a file's column names, before any of its rows."""
    reader = format_of(path)
    if reader is None:
        raise DataError(
            f"file {str(path)!r} ends in {path.suffix!r}; {' and '.join(formats())} are read: save it as one of these"
        )
    source = TableFile(name, path, reader, encoding=encoding)
    with source.reading():
        if path.stat().st_size == 0:
            raise FormatError("is empty; it needs a line of column names and rows below it")
        columns = reader.columns(path, encoding)
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        refuse_numbers(source.called, columns)
        raise DataError(
            f"{source.called} has {columns.count(twice[0])} columns named {twice[0]!r}; give every column a name of its own"
        )
    return replace(source, columns=tuple(column for column in columns if not _SAVED_INDEX.fullmatch(column)))


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


def refuse_numbers(called: str, columns: Sequence[str]) -> None:
    """Refuse a first line of numbers."""
    if all(NUMBER.fullmatch(column) for column in columns):
        raise DataError(f"{called} begins with numbers, {listed(columns)}; write a line of column names above its rows")

"""CSV: a line of column names, commas, and points in numbers."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.csv
from pyarrow import types

from superteach.exceptions import counted, shorten
from superteach.io.formats import Format, FormatError

_PARSE = pa.csv.ParseOptions(newlines_in_values=True)


class Csv(Format):
    """Text, of which Arrow guesses the types."""

    suffix = ".csv"

    def columns(self, path: Path, encoding: str) -> list[str]:
        """Read the first line."""
        with pa.OSFile(str(path)) as file:
            if encoding == "utf-8" and b"\0" in file.read(4096):
                raise FormatError("holds no text but bytes; write it as CSV in UTF-8, or as Parquet")
            file.seek(0)
            with pa.csv.open_csv(file, pa.csv.ReadOptions(encoding=encoding), _PARSE) as stored:
                return [str(column) for column in stored.schema.names]

    def read(self, path: Path, columns: Sequence[str], encoding: str) -> pa.Table:
        """Read columns; an empty cell is a missing value."""
        convert = pa.csv.ConvertOptions(include_columns=list(columns), strings_can_be_null=True)
        with pa.OSFile(
            str(path)
        ) as file:  # Arrow's threads let go of a Python file late, and abort where Python has ended
            table = pa.csv.read_csv(file, pa.csv.ReadOptions(encoding=encoding), _PARSE, convert)
        if any(types.is_binary(column.type) for column in table.schema):
            refuse_encoding(path, encoding)
        return table

    def line(self, path: Path, row: int, encoding: str) -> str:
        """Name the line; a cell may hold line breaks."""
        with _lines(path, encoding) as (lines, filled):
            next(itertools.islice(filled, row + 1, None), None)
            return f" (line {lines.line_num})"

    def check(self, path: Path, encoding: str) -> None:
        """Name the first line that has more or fewer cells than the first one."""
        with suppress(OSError, UnicodeError, csv.Error), _lines(path, encoding) as (lines, filled):
            names, cells = next(filled, []), None
            for cells in filled:
                if len(cells) != len(names):
                    raise FormatError(
                        f"has {counted(len(cells), 'cells')} in line {lines.line_num} but {len(names)} column names: "
                        + (separator_advice(names) or "complete the line, or put text with commas in double quotes")
                    )
            if cells is None:
                raise FormatError(f"has {'column names but ' * bool(names)}no rows; leave it out or give it some")


FORMAT = Csv()


@contextmanager
def _lines(path: Path, encoding: str) -> Iterator[tuple[Any, Iterator[list[str]]]]:
    """Yield the lines, and those of them that are not empty: Arrow leaves the others out too."""
    with path.open(encoding=encoding, errors="replace", newline="") as file:
        lines = csv.reader(file)
        yield lines, (line for line in lines if line)


def separator_advice(columns: Sequence[str]) -> str:
    """Say what to do where all names were read as one; nothing where commas separate them."""
    mark = re.search(r"[;\t|]", columns[0]) if len(columns) == 1 else None
    return f"it seems to separate columns by {mark.group()!r}; use commas, and points in numbers" if mark else ""


def refuse_encoding(path: Path, encoding: str) -> NoReturn:
    """Name the first line that is not written as it should be."""
    place = ""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as error:
                begin = max(line.rfind(b",", 0, error.start), line.rfind(b"\n", 0, error.start)) + 1
                cell = line[begin:].split(b",")[0].strip().decode("ascii", "backslashreplace")
                place = f": line {number} holds '{shorten(cell, 40)}'"
                break
    raise FormatError(
        f"is not written in {encoding.upper()}{place}; convert it to UTF-8, or name its encoding "
        "(superteach teach --encoding latin-1)"
    )

"""A site's table: rows that its policy lets take part, and what is written of the rows that a lesson chose.

People with several rows: the owner names the column that says whose row it is, and how many rows of one person take part at
most. Rows beyond that stay out of lessons, in silence. What leaves changes with a whole person by at most that many times
what one row changes, so the table pays that many times the μ.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path

import numpy as np
import numpy.typing as npt

from superteach.exceptions import QueryRefused, SettingError, listed
from superteach.io.atomic import write_bytes
from superteach.io.tables import Pool, read_columns, read_pool
from superteach.io.validation import Part, check_finite, take_numbers
from superteach.losses.scalar import Squared
from superteach.privacy.policy import Label, Policy
from superteach.types import Mask, Positions, Raw


@dataclass(frozen=True, eq=False)
class SiteTable:
    """One site's rows in memory, and the file they came from."""

    name: str
    pool: Pool
    target: str

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.pool.parts[0].count

    def labels(self) -> list[Label] | None:
        """Return the two label values, where the target has no more than two; None: it is a number."""
        values = self.pool.parts[0].take_target()
        different = np.unique(values)
        if len(different) > 2 and different.dtype.kind in "OUS":
            raise SettingError(f"target {self.target!r} has {len(different)} different texts; a classification has two")
        return different.tolist() if len(different) == 2 else None

    def check(self, policy: Policy) -> None:
        """Refuse rows that contradict what their owner declares, before anything is said or spent."""
        declared = policy.declared
        if declared is None:
            raise SettingError(
                "the policy declares nothing of the rows: add the table [declared] (superteach site new)"
            )
        for what, here, stated in (
            ("columns", set(self.pool.columns), set(declared.columns)),
            ("target", {self.target}, {declared.target}),
        ):
            if here != stated:
                raise SettingError(
                    f"the policy declares other {what} than the file has ({listed(sorted(here ^ stated))}): mend "
                    "[declared], or the file"
                )
        part = self.pool.parts[0]
        if declared.labels is not None:
            values = np.unique(part.take_target())
            odd_labels = [value for value in values.tolist() if value not in declared.labels]
            if odd_labels:
                raise SettingError(
                    f"the file has the label {odd_labels[0]!r}, and the policy declares {list(declared.labels)}: mend "
                    "declared.labels, or the file"
                )
        else:
            take_numbers(part, Squared())
        check_finite(part, self.pool.columns, self.pool.parts)

    def bounded(self, policy: Policy) -> SiteTable:
        """Leave out, in silence, rows of one person beyond those that the policy lets take part."""
        if policy.identity is None:
            return self
        numbers = self.pool.row_numbers[0]
        people = read_columns(self.name, self.pool.files[0], policy.identity)[policy.identity][numbers]
        kept = np.flatnonzero(first_rows_of_each(people, policy.rows_per_person))
        part = self.pool.parts[0]
        target, features = np.asarray(part.take_target())[kept], part.take_features()[kept]
        few = replace(part, features=features, target=target, ids=None, rows=None)
        return replace(self, pool=replace(self.pool, parts=(few,), row_numbers=(numbers[kept],)))

    def part(self, columns: Sequence[str], first_id: int) -> Part:
        """Return the rows with a lesson's columns in its order, and ids no other site has."""
        missing = [column for column in columns if column not in self.pool.columns]
        if missing or not columns:
            raise QueryRefused(f"it does not offer the column {missing[0]!r}" if missing else "there are no columns")
        part = self.pool.parts[0]
        features = part.features
        if tuple(columns) != self.pool.columns:
            # Column by column, as teachers keep their rows, so that nothing is copied twice.
            features = features.T[[self.pool.columns.index(column) for column in columns]].T
        ids = np.arange(first_id, first_id + self.count, dtype=np.int64)
        return replace(part, name=self.name, features=features, ids=ids)

    def write_chosen(self, lesson: str, chosen: Positions, policy: Policy, note: str = "") -> Path | None:
        """Write the chosen rows, or their numbers, as the policy says; the file appears whole or not at all.

        A note goes beside it: how the choice came out is for the owner alone.
        """
        if policy.write == "nothing":
            return None
        if policy.folder.is_symlink():
            raise SettingError(
                f"{str(policy.folder)!r} is a symbolic link, which could lead anywhere: make it a folder"
            )
        numbers = np.sort(self.pool.row_numbers[0][chosen])
        policy.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if policy.write == "numbers":
            path = policy.folder / f"{lesson}.csv"
            content = ("row\n" + "".join(f"{number}\n" for number in numbers.tolist())).encode()
        else:
            path = policy.folder / f"{lesson}{self.pool.files[0].suffix.lower()}"
            content = _rows(self.pool.files[0], numbers)
        write_bytes(path, content, private=True)
        if note:
            write_bytes(path.with_suffix(".txt"), f"{note}\n".encode(), private=True)
        return path


def read_table(name: str, data: str | Path, target: str, features: Sequence[str] | None = None) -> SiteTable:
    """Read and check a site's file."""
    pool = read_pool([data], target, None, features)
    return SiteTable(name, replace(pool, parts=(replace(pool.parts[0], name=name),)), target)


def canonical(cell: object) -> str:
    """Write one cell such that the same value has the same text whatever type, spelling or column around it."""
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", errors="backslashreplace")
    if isinstance(cell, Real | np.bool_):
        number = float(cell) + 0.0
        if math.isnan(number):
            return ""
        return f"{int(number)}" if math.isfinite(number) and number == int(number) else f"{number!r}"
    text = "" if cell is None or str(cell) in ("NaT", "<NA>", "None", "nan") else str(cell)
    text = unicodedata.normalize("NFKC", text).strip().casefold()
    try:
        return canonical(float(text)) if text and text not in ("inf", "nan", "infinity") else text
    except ValueError:
        return text


def first_rows_of_each(people: Raw, most: int) -> Mask:
    """Mark the first `most` rows of each person; rows without a person count as one person's."""
    cells, place = np.unique(np.asarray(people, dtype=object).astype(str), return_inverse=True)
    names = np.unique([canonical(cell) for cell in cells], return_inverse=True)[1][place]
    order = np.argsort(names, kind="stable")
    first = np.flatnonzero(np.diff(names[order], prepend=-1))
    rank = np.arange(len(names)) - np.repeat(first, np.diff(np.append(first, len(names))))
    kept = np.zeros(len(names), dtype=np.bool_)
    kept[order] = rank < most
    return kept


def _rows(source: Path, numbers: npt.NDArray[np.int64]) -> bytes:
    """Copy these rows of a file, in the file's own format, every column of them."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    # Not pa.array, which imports pandas where it is installed.
    sink = pa.BufferOutputStream()
    where = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
    if source.suffix.lower() == ".parquet":
        parquet.write_table(parquet.ParquetFile(source).read().take(where), sink)
        return bytes(sink.getvalue())
    layout = csv.ParseOptions(newlines_in_values=True)
    with csv.open_csv(source, parse_options=layout) as stored:
        names = stored.schema.names
    # As text, so that every value stays written as it was.
    kinds = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    table = csv.read_csv(source, parse_options=layout, convert_options=kinds)
    csv.write_csv(table.take(where), sink, csv.WriteOptions(quoting_style="needed"))
    return bytes(sink.getvalue())

"""What a teacher holds: the file it joined with, what it tells of it, and what it writes of a lesson."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from superteach.errors import QueryRefused
from superteach.files import Pool, read_pool
from superteach.inputs import Part, find_classes
from superteach.privacy.policy import Policy


@dataclass(frozen=True, eq=False)
class Holding:
    """One teacher's rows as they lie in memory, and where they came from."""

    name: str
    pool: Pool
    target: str

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.pool.parts[0].count

    def schema(self, classifies: bool) -> dict[str, Any]:
        """Names and kinds of the columns, the label values of a classification, a hash of it all, the count."""
        part = self.pool.parts[0]
        labels: list[Any] | None = None
        if classifies:
            labels = _labels(part)
        kind = "text" if part.take_target().dtype.kind in "OUS" else "number"
        shape = {"columns": sorted(self.pool.columns), "target": self.target, "target_kind": kind}
        return {
            **shape,
            "columns": list(self.pool.columns),
            "labels": labels,
            "rows": self.count,
            "hash": hashlib.sha256(json.dumps(shape).encode()).hexdigest(),
        }

    def part(self, columns: Sequence[str], first_id: int) -> Part:
        """The rows with the agreed columns in the agreed order, and ids no other teacher has."""
        missing = [column for column in columns if column not in self.pool.columns]
        if missing or not columns:
            raise QueryRefused(
                f"this teacher does not offer the column {missing[0]!r}" if missing else "no columns"
            )
        part = self.pool.parts[0]
        features = part.features
        if tuple(columns) != self.pool.columns:
            # Column by column, as teachers keep their rows, so that nothing is copied twice.
            features = features.T[[self.pool.columns.index(column) for column in columns]].T
        ids = np.arange(first_id, first_id + self.count, dtype=np.int64)
        return replace(part, name=self.name, features=features, ids=ids)

    def write_chosen(self, lesson: str, chosen: npt.NDArray[np.int64], policy: Policy) -> Path | None:
        """Write the chosen rows, or their numbers, as the policy says; the file appears whole or not at all."""
        if policy.write == "nothing":
            return None
        numbers = np.sort(self.pool.row_numbers[0][chosen])
        stem = re.sub(r"[^\w.-]+", "_", lesson).strip("._") or "lesson"
        policy.folder.mkdir(parents=True, exist_ok=True)
        if policy.write == "numbers":
            text = "row\n" + "".join(f"{number}\n" for number in numbers.tolist())
            return _write(policy.folder / f"{stem}.csv", text.encode())
        return _write(
            policy.folder / f"{stem}{self.pool.files[0].suffix.lower()}", _rows(self.pool.files[0], numbers)
        )


def open_holding(name: str, data: str | Path, target: str, features: Sequence[str] | None = None) -> Holding:
    """Read and check a teacher's file."""
    pool = read_pool([data], target, None, features)
    return Holding(name, replace(pool, parts=(replace(pool.parts[0], name=name),)), target)


def _labels(part: Part) -> list[Any]:
    """The label values here, one or two; their order is the coordinator's to settle."""
    values = part.take_target()
    different = np.unique(values)
    if len(different) > 2:
        raise QueryRefused(f"its target has {len(different)} different values; a classification has two")
    if len(different) == 2:
        find_classes([part])
    return [value.item() if isinstance(value, np.generic) else value for value in different]


def _rows(source: Path, numbers: npt.NDArray[np.int64]) -> bytes:
    """These rows of a file, in the file's own format, every column of them."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    sink, where = pa.BufferOutputStream(), pa.array(numbers)
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


def _write(path: Path, data: bytes) -> Path:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path

"""What a teacher holds: the file it joined with, what it tells of it, and what it writes of a lesson."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from superteach.errors import QueryRefused, SettingError, listed
from superteach.mathematics.losses import Squared
from superteach.privacy.policy import DECLARE, Label, Policy, schema_of
from superteach.processes.disk import write_bytes
from superteach.teacher.files import Pool, read_columns, read_pool
from superteach.teacher.inputs import Part, check_finite, find_classes, take_numbers
from superteach.types import Json, Positions, Raw

_BLOCK_ROWS = 1 << 14
SECRET_BYTES = 32


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

    def schema(self, classifies: bool) -> Json:
        """List names and kinds of the columns, the label values of a classification, a hash of it all, the count."""
        part = self.pool.parts[0]
        text = part.take_target().dtype.kind in "OUS"
        return schema_of(self.pool.columns, self.target, text, _labels(part) if classifies else None, self.count)

    def check(self, policy: Policy) -> None:
        """Refuse rows that contradict what their owner declares, before anything is told or spent."""
        declared = policy.declared
        if declared is None:
            if policy.promise != "open":
                raise SettingError(
                    f"the policy accepts promise {policy.promise!r} and declares nothing of the rows: add the table "
                    f"[declared], drafted by  {DECLARE}"
                )
            return
        columns = "columns", sorted(self.pool.columns), sorted(declared.columns)
        for what, here, told in (columns, ("target", [self.target], [declared.target])):
            if here != told:
                odd = sorted(set(here) ^ set(told))
                raise SettingError(
                    f"the policy declares other {what} than the file has ({listed(odd)}): mend [declared], or offer what "
                    "it says with --features and --target"
                )
        if declared.labels is not None:
            values = np.unique(self.pool.parts[0].take_target())
            odd_labels = [value for value in values.tolist() if value not in declared.labels]
            if odd_labels:
                raise SettingError(
                    f"the file has the label {odd_labels[0]!r}, and the policy declares {list(declared.labels)}: mend "
                    "declared.labels, or the file"
                )
        else:
            take_numbers(self.pool.parts[0], Squared())
        # Here, not when a lesson begins: who asks would learn of it.
        check_finite(self.pool.parts[0], self.pool.columns, self.pool.parts)

    def records(self, identity: str | None) -> dict[str, Raw]:
        """Return each row as the owner's table has it, by column, or the one column that names it: for the ledger's keys."""
        columns = read_columns(self.name, self.pool.files[0], identity)
        return {name: columns[name][self.pool.row_numbers[0]] for name in sorted(columns)}

    def seal(self, secret: bytes) -> str:
        """HMAC-SHA256 over columns, rows, targets and costs: who lacks the secret can compare two, and guess no row."""
        part = self.pool.parts[0]
        code = hmac.new(secret, digestmod=hashlib.sha256)
        code.update(json.dumps([list(self.pool.columns), self.target, self.count]).encode())
        held: list[Any] = [part.take_features(), part.take_target()]
        costs = part.take_costs()
        for values in held if costs is None else [*held, costs]:
            for first in range(0, self.count, _BLOCK_ROWS):
                for array in _arrays(values[first : first + _BLOCK_ROWS]):
                    code.update(f"{array.dtype.str}{array.shape}".encode())
                    code.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return code.hexdigest()

    def part(self, columns: Sequence[str], first_id: int) -> Part:
        """Return the rows with the agreed columns in the agreed order, and ids no other teacher has."""
        missing = [column for column in columns if column not in self.pool.columns]
        if missing or not columns:
            raise QueryRefused(f"this teacher does not offer the column {missing[0]!r}" if missing else "no columns")
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
        numbers = np.sort(self.pool.row_numbers[0][chosen])
        stem = re.sub(r"[^\w.-]+", "_", lesson).strip("._") or "lesson"
        policy.folder.mkdir(parents=True, exist_ok=True)
        if policy.write == "numbers":
            path = policy.folder / f"{stem}.csv"
            content = ("row\n" + "".join(f"{number}\n" for number in numbers.tolist())).encode()
        else:
            path = policy.folder / f"{stem}{self.pool.files[0].suffix.lower()}"
            content = _rows(self.pool.files[0], numbers)
        write_bytes(path, content, private=True)
        if note:
            write_bytes(path.with_suffix(".txt"), f"{note}\n".encode(), private=True)
        return path


def open_holding(name: str, data: str | Path, target: str, features: Sequence[str] | None = None) -> Holding:
    """Read and check a teacher's file."""
    pool = read_pool([data], target, None, features)
    return Holding(name, replace(pool, parts=(replace(pool.parts[0], name=name),)), target)


def own_secret(path: Path) -> bytes:
    """Read this teacher's own secret, made when it is first asked for; it never leaves its folder."""
    if not path.exists():
        mine = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            write_bytes(mine, secrets.token_bytes(SECRET_BYTES), private=True)
            with contextlib.suppress(FileExistsError):  # another lesson's process was first
                os.link(mine, path)
        finally:
            mine.unlink(missing_ok=True)
    secret = path.read_bytes()
    if len(secret) != SECRET_BYTES:
        raise SettingError(
            f"{str(path)!r} has {len(secret)} bytes, {SECRET_BYTES} are right; remove it, and a new one is made "
            "(unfinished lessons cannot be resumed then)"
        )
    return secret


def _arrays(values: Any) -> tuple[Raw, ...]:
    """Return the plain arrays that some rows are made of; texts as NumPy writes them, all of one width."""
    if sparse.issparse(values):
        values = values.tocsr()
        values.sort_indices()
        return values.indptr, values.indices, values.data
    values = np.asarray(values)
    return (values.astype(np.str_) if values.dtype == object else values,)


def _labels(part: Part) -> list[Label]:
    """Return the label values here, one or two; their order is the coordinator's to settle."""
    values = part.take_target()
    different = np.unique(values)
    if len(different) > 2:
        raise QueryRefused(f"its target has {len(different)} different values; a classification has two")
    if len(different) == 2:
        find_classes([part], most=2)
    return [value.item() if isinstance(value, np.generic) else value for value in different]


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

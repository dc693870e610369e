"""Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from superteach.io.formats import Format


class Parquet(Format):
    """Columns with types of their own."""

    suffix = ".parquet"

    def columns(self, path: Path, encoding: str) -> list[str]:
        """Name the columns of the schema."""
        with pa.OSFile(str(path)) as file:
            return [str(column) for column in parquet.read_schema(file).names]

    def read(self, path: Path, columns: Sequence[str], encoding: str) -> pa.Table:
        """Read columns; not by parquet.read_table, which reads owner=3/rows.parquet as a column "owner" of its own."""
        with pa.OSFile(str(path)) as file, parquet.ParquetFile(file) as stored:
            return stored.read(columns=list(columns))


FORMAT = Parquet()


def is_parquet(path: Path) -> bool:
    """Tell whether a file is Parquet, by its suffix."""
    return path.suffix.lower() == FORMAT.suffix

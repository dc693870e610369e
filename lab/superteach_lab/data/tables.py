"""CSV and Parquet files as blocks of Arrow columns, and a uniform sample of more rows than memory holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from superteach.exceptions import DataError

BLOCK_BYTES = 1 << 22
"""How much of a CSV file becomes one block. Arrow reads about 32 of them ahead of whoever uses them."""
Rows32 = npt.NDArray[np.float32]


def blocks(
    path: Path, columns: Sequence[str], header: bool = True, text: Sequence[str] = (), missing: Sequence[str] = ()
) -> Iterator[Any]:
    """The named columns as Arrow record batches, one block of the file at a time: numbers, but for `text`."""
    with _reading(path):
        if path.suffix.lower() == ".parquet":
            yield from _parquet_blocks(path, columns)
        else:
            yield from _csv_blocks(path, columns, header, text, missing)


def read_columns(
    path: Path, columns: Sequence[str], header: bool = True, text: Sequence[str] = (), missing: Sequence[str] = ()
) -> dict[str, npt.NDArray[Any]]:
    """All blocks of a file as NumPy arrays by name; a missing number is NaN, a missing text the empty string."""
    found = [as_arrays(block, text) for block in blocks(path, columns, header, text, missing)]
    if not found or not sum(len(block[columns[0]]) for block in found):
        raise DataError(f"file {str(path)!r} has no rows")
    return {name: np.concatenate([block[name] for block in found]) for name in columns}


def read_adult(path: Path, names: Sequence[str], text: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Adult's own form: no header, a blank behind every comma, ? for what is missing, a remark above the test rows."""
    import io

    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    rows = [line.replace(", ", ",").removesuffix(".") for line in lines if line.strip() and not line.startswith("|")]
    if not rows:
        raise DataError(f"file {str(path)!r} has no rows")
    import pyarrow as pa
    from pyarrow import csv

    columns = [*names, "income"]
    kinds = {name: pa.string() if name in (*text, "income") else pa.float64() for name in columns}
    convert = csv.ConvertOptions(column_types=kinds, null_values=["?"], strings_can_be_null=True)
    with _reading(path):
        table = csv.read_csv(
            io.BytesIO("\n".join(rows).encode()), csv.ReadOptions(column_names=columns), convert_options=convert
        )
    return as_arrays(table, (*text, "income"))


def as_arrays(block: Any, text: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """One record batch as NumPy arrays by name."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = {}
    for name, column in zip(block.schema.names, block.columns, strict=True):
        if name in text:
            plain = pc.fill_null(column.cast(pa.string()), "")
            arrays[name] = np.asarray(plain.to_pylist(), dtype=np.str_)
        else:
            arrays[name] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return arrays


def _parquet_blocks(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        _check_columns(path, columns, file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=1 << 16, columns=list(columns)):
            yield batch.select(list(columns))


def _csv_blocks(
    path: Path, columns: Sequence[str], header: bool, text: Sequence[str], missing: Sequence[str]
) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    if path.stat().st_size == 0:
        raise DataError(f"file {str(path)!r} is empty")
    if header:
        _check_columns(path, columns, _header(path))
    read = csv.ReadOptions(column_names=None if header else list(columns), block_size=BLOCK_BYTES)
    convert = csv.ConvertOptions(
        column_types={name: pa.string() if name in text else pa.float64() for name in columns},
        null_values=["", *missing],
        strings_can_be_null=True,
        include_columns=list(columns),
    )
    with pa.OSFile(str(path)) as file:
        stream = pa.CompressedInputStream(file, "gzip") if path.suffix.lower() == ".gz" else file
        with csv.open_csv(stream, read_options=read, convert_options=convert) as reader:
            yield from reader


def _header(path: Path) -> list[str]:
    import csv
    import gzip

    opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        return [name.strip() for name in next(csv.reader(file), [])]


def _check_columns(path: Path, wanted: Sequence[str], found: Sequence[str]) -> None:
    lacking = [name for name in wanted if name not in found]
    if lacking:
        shown = ", ".join(found[:6]) + (", …" if len(found) > 6 else "")
        raise DataError(
            f"file {str(path)!r} has no column {lacking[0]!r}"
            + (f" (and {len(lacking) - 1} more are lacking)" if len(lacking) > 1 else "")
            + f"; its columns are {shown}: it is another file, or an edited one"
        )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn whatever Arrow and gzip say about a damaged file into one error that names it."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(
            f"file {str(path)!r} cannot be read ({first}); it is damaged, cut short or of another form: fetch it again"
        ) from error


class Sample:
    """A uniform sample without replacement of rows that pass by once, in memory of a few times its size.

    Every row draws a uniform key, and the rows with the smallest keys stay: each set of `size` rows is as
    likely as any other. The keys follow the order of rows, so the blocks they come in make no difference.
    """

    def __init__(self, size: int | None, seed: int) -> None:
        self._size = size
        self._random = np.random.default_rng(seed)
        self._rows: list[Rows32] = []
        self._keys: list[npt.NDArray[np.float64]] = []
        self._numbers: list[npt.NDArray[np.int64]] = []
        self._held = 0
        self._bound = np.inf
        """A row with a larger key than this cannot be in the sample."""
        self.seen = 0

    def add(self, block: Rows32) -> None:
        """Let a block of rows pass by."""
        numbers = np.arange(self.seen, self.seen + len(block))
        self.seen += len(block)
        keys = self._random.random(len(block))
        hopeful = keys < self._bound
        self._rows.append(block[hopeful])
        self._keys.append(keys[hopeful])
        self._numbers.append(numbers[hopeful])
        self._held += int(hopeful.sum())
        # Sorting out costs a pass over the sample, so it waits until an eighth too many are there.
        if self._size is not None and self._held > self._size + max(self._size // 8, 1000):
            self._settle(self._size)

    def _settle(self, size: int) -> None:
        """Keep the rows with the smallest keys."""
        keys = np.concatenate(self._keys)
        kept = np.argpartition(keys, size - 1)[:size] if len(keys) > size else np.arange(len(keys))
        self._rows = [np.concatenate(self._rows)[kept]]
        self._keys, self._numbers = [keys[kept]], [np.concatenate(self._numbers)[kept]]
        self._held = len(kept)
        if len(kept) == size:
            self._bound = float(self._keys[0].max())

    def rows(self) -> Rows32:
        """The sample, in the order of the file."""
        if self._size is not None:
            self._settle(self._size)
        return np.concatenate(self._rows)[np.argsort(np.concatenate(self._numbers))]

"""What a teacher's process carries: no library that nothing needs, twenty of them share a machine."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from superteach.io.tables import read_pool, values_of

COLUMNS = {
    "float64": pa.array([1.5, -0.0, float("nan"), float("inf")]),
    "float32": pa.array([1.5, 2.0, 3.0, 4.0], pa.float32()),
    "float16": pa.array(np.array([1.5, 2.0, 3.0, 4.0], np.float16)),
    "int8": pa.array([1, -2, 3, 4], pa.int8()),
    "uint64": pa.array([1, 2, 3, 2**64 - 1], pa.uint64()),
    "bool": pa.array([True, False, False, True]),
    "text": pa.array(["a", "ü", "", "b"]),
    "large text": pa.array(["a", "ü", "", "b"], pa.large_string()),
    "gaps": pa.array([1, None, 3, 4]),
    "text with gaps": pa.array(["a", None, "", "b"]),
    "dates": pa.array([1, 2, 3, 4], pa.timestamp("s")),
    "decimals": pa.array([Decimal("1.5"), Decimal("2.5"), Decimal("3.5"), Decimal("4.5")]),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("chunks", [1, 2, "sliced", "empty", "none"])
def test_columns_are_what_arrow_makes_of_them(name, chunks):
    """Oracle: Arrow's own conversion, by way of pandas."""
    values = COLUMNS[name]
    pieces = {
        1: [values],
        2: [values[:1], values[1:]],
        "sliced": [values[2:]],
        "empty": [values[:0]],
        "none": [],
    }[chunks]
    column = pa.chunked_array(pieces, values.type)
    expected, got = np.asarray(column.to_numpy()), values_of(column)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    assert list(map(type, got.tolist())) == list(map(type, expected.tolist()))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_arrow_reads_files_of_its_own(ending, tmp_path, monkeypatch):
    """It drops bytes of a Python file in a thread; one that does so while Python ends aborts the process, rarely."""
    path = tmp_path / f"rows.{ending}"
    table = pa.table({"x": [0.5, 1.5], "y": [0, 1]})
    (csv.write_csv if ending == "csv" else parquet.write_table)(table, path)
    given = []
    for module, name in ((csv, "read_csv"), (csv, "open_csv"), (parquet, "ParquetFile"), (parquet, "read_schema")):
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda file, *more, real=real, **named: given.append(file) or real(file, *more, **named)
        )
    read_pool([path], "y")
    assert given
    assert all(isinstance(file, pa.NativeFile) for file in given)

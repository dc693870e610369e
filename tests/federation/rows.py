"""What the three teachers of these tests hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

TEACHERS = ("north", "south", "west")
WIDTH, ROWS = 4, 150


@dataclass(frozen=True)
class Data:
    """What each teacher holds."""

    X: dict[str, np.ndarray]
    y: dict[str, np.ndarray]
    files: dict[str, Path]


def make_data(folder: Path, seed: int = 5) -> Data:
    """Rows of three teachers, in one Parquet file each."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(WIDTH)
    X, y, files = {}, {}, {}
    for name in TEACHERS:
        X[name] = rng.standard_normal((ROWS, WIDTH))
        y[name] = (X[name] @ truth + rng.standard_normal(ROWS) > 0).astype(np.int64)
        files[name] = folder / f"{name}.parquet"
        columns = {f"x{column}": X[name][:, column] for column in range(WIDTH)}
        parquet.write_table(pa.table({**columns, "ill": y[name]}), files[name])
    return Data(X, y, files)

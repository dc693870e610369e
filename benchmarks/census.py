"""The ACS income data as the files of ten states, each a teacher of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from benchmarks.town import Town
from superteach_lab.data import load_acs_income

SMALL = ("WY", "AK", "VT", "ND", "DE", "SD", "MT", "RI", "ME", "NH")
LARGE = ("TX", "NY", "PA", "IL", "OH", "NC", "GA", "MI", "NJ", "VA")
COLUMNS = ("age", "schooling", "hours", "married", "female", "white")
TARGET = "income"
"""Above 50,000 dollars or not."""


def write_states(folder: Path, states: Sequence[str], most: int | None = None) -> dict[str, Path]:
    """One Parquet file for each state, of its first rows or of all."""
    found = load_acs_income(states=list(states), categories="one-hot")
    files = {}
    for state in states:
        rows = np.flatnonzero(found.groups == state)[:most]
        columns = {name: found.data[rows, place] for place, name in enumerate(COLUMNS)}
        files[state] = folder / f"{state}.parquet"
        parquet.write_table(pa.table({**columns, TARGET: found.target[rows]}), files[state])
    return files


def join_states(town: Town, files: dict[str, Path], seconds: float = 300.0) -> None:
    """Start a teacher for each state."""
    for state, file in files.items():
        town.join(state, "--data", str(file), "--target", TARGET)
    town.wait_joined(list(files), seconds)

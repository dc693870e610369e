"""How large it can be: one part for each case, each runnable by its name; ratios are measured in one run.

python -m benchmarks scale                        # every case
python -m benchmarks scale in-process sparse      # some of them
python -m benchmarks scale --make 100000000 big   # a folder of Parquet, to try things on
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from benchmarks.table import Measurements, show

Case = Callable[[Path], Iterator[Measurements]]
"""Takes a folder for what it makes, and yields tables."""

FILES = 8
"""Files of a folder that `make` writes."""
GROUP = 1 << 20
"""Rows of a row group: what pyarrow writes where nobody says otherwise."""


def make(rows: int, folder: Path, width: int = 10, files: int = FILES) -> Path:
    """Write rows as a folder of Parquet: four Gaussian clusters in float32 columns x0, x1, … and labels y of one byte."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [*(f"x{place}" for place in range(width)), "y"]
    schema = pa.schema([(name, pa.int8() if name == "y" else pa.float32()) for name in names])
    centres = np.random.default_rng(0).normal(scale=0.5, size=(4, width)).astype(np.float32)
    for number, part in enumerate(np.array_split(np.arange(0, rows, GROUP), min(files, -(-rows // GROUP)))):
        with parquet.ParquetWriter(folder / f"part-{number}.parquet", schema, compression="snappy") as writer:
            for first in part.tolist():
                count = min(GROUP, rows - first)
                draw = np.random.default_rng([1, first])
                cluster = draw.integers(0, 4, count)
                X = draw.standard_normal((width, count), dtype=np.float32) + centres[cluster].T
                y = (cluster % 2).astype(np.int8)
                writer.write_table(pa.table([*X, y], schema=schema), row_group_size=GROUP)
    return folder


CASES: dict[str, Case] = {}
"""Every case by its name; a case is added by a line here."""


def main(given: Sequence[str]) -> None:
    """Run the cases named, or all, or make a folder of rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description="How large it can be.")
    parser.add_argument("names", nargs="*", metavar="case", help=f"any of {', '.join(CASES)} (default: all)")
    parser.add_argument("--make", nargs=2, metavar=("ROWS", "FOLDER"), help="write so many rows as a folder of Parquet")
    parser.add_argument("--width", type=int, default=10, help="columns of the rows that are made (default 10)")
    parser.add_argument("--folder", type=Path, default=Path("scale-output"), help="where cases put what they make")
    arguments = parser.parse_args(given)
    unknown = [name for name in arguments.names if name not in CASES]
    if unknown:
        parser.error(f"no case named {unknown[0]!r}; there are {', '.join(CASES)}")
    if arguments.make:
        made = make(int(arguments.make[0]), Path(arguments.make[1]), arguments.width)
        print(f"{sum(path.stat().st_size for path in made.iterdir()) / 1e9:.2f} GB in {made}")
        return
    for name in arguments.names or CASES:
        for table in CASES[name](arguments.folder):
            show(table)

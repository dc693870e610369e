"""Import time of superteach against scikit-learn's linear models, each in a fresh process."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.table import Measurements


def run(quick: bool) -> Iterator[Measurements]:
    """Yield the table of this benchmark."""
    modules = ("superteach", "sklearn.linear_model")
    times: dict[str, list[float]] = {module: [] for module in modules}
    for _ in range(5 if quick else 11):
        for module in modules:
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
            times[module].append(time.perf_counter() - started)
    ours, theirs = (statistics.median(times[module]) for module in modules)
    yield Measurements(
        "Import in a fresh process",
        ("superteach s", "sklearn.linear_model s", "ratio"),
        [(ours, theirs, ours / theirs)],
    )

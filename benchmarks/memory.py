"""Peak memory of SuperTeacher.fit beyond the caller's own arrays, as a multiple of the data."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

from benchmarks.table import Measurements


def measure(rows: int, features: int, teachers: int, method: str) -> float:
    """Fit in a fresh process and compare its peak with what it held before."""
    from sklearn.linear_model import LogisticRegression

    from benchmarks import pools
    from superteach import SuperTeacher
    from superteach.goals import PerturbedFit

    learner = LogisticRegression(fit_intercept=False)
    small = SuperTeacher(learner, goal=PerturbedFit(0), budget=0.04, method=method)
    small.fit(*pools.classification(2_000, features, teachers))  # imports and thread stacks are not data
    X, y, owner = pools.classification(rows, features, teachers)
    held = _resident()
    _reset_peak()
    small.fit(X, y, groups=owner)
    return float((peak() - held) / X.nbytes)


def _status(field: str) -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def _resident() -> int:
    return _status("VmRSS")


def peak() -> int:
    """Bytes that this process has held at most."""
    return _status("VmHWM")


def _reset_peak() -> None:
    with open("/proc/self/clear_refs", "w", encoding="ascii") as control:
        control.write("5")


def run(quick: bool) -> Iterator[Measurements]:
    """Yield the table of this benchmark (Linux only: it reads the kernel's own peak)."""
    table = Measurements(
        "Peak memory of SuperTeacher.fit beyond the caller's arrays",
        ("N", "d", "K", "dual × data", "match × data"),
    )
    for rows, features, teachers in [(500_000, 10, 10), (500_000, 28, 10)] + ([] if quick else [(5_000_000, 10, 10)]):
        peaks = []
        for method in ("dual", "match"):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                peaks.append(pool.apply(measure, (rows, features, teachers, method)))
        table.rows.append((rows, features, teachers, *peaks))
    yield table

"""How large it can be: one part for each case, each runnable by its name; ratios are measured in one run.

python -m benchmarks scale                        # every case
python -m benchmarks scale in-process sparse      # some of them
python -m benchmarks scale --make 100000000 big   # a folder of Parquet, to try things on
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from benchmarks import memory, pools, scale_spark
from benchmarks.table import Measurements, seconds, show
from superteach import SuperTeacher, teach
from superteach.coordinator import metrics
from superteach.coordinator.methods.match import Matcher

Case = Callable[[Path], Iterator[Measurements]]
"""Takes a folder for what it makes, and yields tables."""

FILES = 8
"""Files of a folder that `make` writes."""
LARGEST = int(os.environ.get("SCALE_ROWS", "100000000"))
"""Rows of the largest table; SCALE_ROWS in the environment makes it smaller for a try."""
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


def plain_pass(folder: Path, width: int = 10) -> tuple[float, float]:
    """Seconds, and processor seconds, of reading a folder once and one dot product a row; a thread for each core."""
    point = np.linspace(-1.0, 1.0, width)

    def read(place: tuple[Path, int]) -> float:
        with parquet.ParquetFile(place[0]) as stored:
            table = stored.read_row_group(place[1], [f"x{column}" for column in range(width)], use_threads=False)
        total = np.zeros(table.num_rows)
        for weight, column in zip(point, table.columns, strict=True):
            total += weight * column.to_numpy()
        return float(total.sum())

    started, worked = time.perf_counter(), time.process_time()
    groups = [
        (path, group) for path in sorted(folder.iterdir()) for group in range(parquet.ParquetFile(path).num_row_groups)
    ]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        sum(pool.map(read, groups))
    return time.perf_counter() - started, time.process_time() - worked


def _taught(folder: Path, out: Path, budget: str) -> tuple[float, float, float, float, float]:
    """Teach from a folder by the command line, in this fresh process: seconds, processor's, peak bytes, both risks."""
    from typer.testing import CliRunner

    from superteach.cli import app, teach  # noqa: F401

    given = ["--target", "y", "--learner", "logistic", "--goal", "perturbed", "--no-intercept", "--budget", budget]
    started, worked = time.perf_counter(), time.process_time()
    result = CliRunner().invoke(app, ["teach", str(folder), *given, "--out", str(out), "--overwrite"])
    took, work = time.perf_counter() - started, time.process_time() - worked
    if result.exit_code:
        raise RuntimeError(result.output)
    lesson = json.loads((out / "lesson.json").read_text(encoding="utf-8"))
    return took, work, float(memory.peak()), lesson["pool_risk"], lesson["risk"]


def out_of_core(folder: Path, budget: str = "0.01") -> Iterator[Measurements]:
    """A whole command, from Parquet to the chosen rows on disk, beside one plain pass over the same files."""
    table = Measurements(
        f"Out of core, d = 10, {float(budget):.2g} of the rows: read, taught, written, beside a plain pass (CPU: processor)",
        (
            "rows", "plain, s", "CPU", "all, s", "CPU", "all / plain", "CPU / CPU", "ns a row", "CPU ns a row", "peak, GB",
            "risk of all", "risk",
        ),
    )  # fmt: skip
    for rows in (1_000_000, LARGEST):
        place = folder / f"rows-{rows}"
        if not place.exists():
            make(rows, place)
        plain, plain_work = map(statistics.median, zip(*(plain_pass(place) for _ in range(3)), strict=True))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            took, work, peak, full, risk = pool.apply(_taught, (place, folder / "lesson", budget))
        table.rows.append(
            (
                rows, plain, plain_work, took, work, took / plain, work / plain_work, 1e9 * took / rows, 1e9 * work / rows,
                peak / 1e9, full, risk,
            )
        )  # fmt: skip
    yield table


def in_process(folder: Path) -> Iterator[Measurements]:
    """5M × 10 rows of 10 teachers in one process: time beside one fit of scikit-learn, and peak memory."""
    rows = 5_000_000
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        fit, fit_work, lesson, work = pool.apply(_in_process_times, (rows,))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        peak = pool.apply(memory.measure, (rows, 10, 10, "match"))
    table = Measurements(
        "In process, match, 4 % of the rows (CPU: processor)",
        ("rows", "d", "fit, s", "CPU", "lesson, s", "CPU", "lesson / fit", "CPU / CPU", "peak × data"),
    )
    table.rows.append((rows, 10, fit, fit_work, lesson, work, lesson / fit, work / fit_work, peak))
    yield table


def _in_process_times(rows: int) -> tuple[float, float, float, float]:
    X, y, owner = pools.classification(rows)
    learner = LogisticRegression(C=1.0 / (pools.RIDGE_PER_ROW * rows), fit_intercept=False, solver="newton-cholesky")
    goal = learner.fit(X, y).coef_[0] * 1.5
    worked = time.process_time()
    fit = seconds(lambda: learner.fit(X, y), 3)
    fit_work = (time.process_time() - worked) / 3
    federation = pools.federation(X, y, owner)
    worked = time.process_time()
    lesson = seconds(lambda: teach(federation, learner, goal, budget=0.04), 1)
    return fit, fit_work, lesson, time.process_time() - worked


def text(rows: int, width: int, each: int = 50, seed: int = 0) -> tuple[Any, Any]:
    """Rows like TF-IDF of short texts: `each` words by Zipf's law, rows of length 1, labels by a noisy linear rule."""
    draw = np.random.default_rng(seed)
    chance = np.cumsum(1.0 / np.arange(1, width + 1))
    words = np.searchsorted(chance / chance[-1], draw.random(rows * each)).astype(np.int32)
    weights = np.log(width / (1.0 + words)) + 1.0
    X = sparse.csr_matrix((weights, words, np.arange(0, rows * each + 1, each)), shape=(rows, width))
    X.sum_duplicates()
    normalize(X, copy=False)
    signal = X @ draw.standard_normal(width)
    return X, (signal + draw.logistic(scale=float(signal.std()), size=rows) > 0.0).astype(int)


def sparse_text(
    folder: Path, rows: int = 1_000_000, width: int = 100_000, tolerances: Sequence[float] = (1e-4,)
) -> Iterator[Measurements]:
    """Wide sparse rows: prices by L-BFGS, rounding row by row; goals by fits that stop sooner or later.

    Fractions are what prices make of the lesson before whole rows are chosen. A proof that the goal is out of reach speaks
    of fractions too: none can be found where these come near it.
    """
    X, y = text(rows, width)
    table = Measurements(
        f"Sparse, {rows:,} × {width:,}, 50 entries a row, 5 % of the rows; processor seconds",
        (
            "tol", "lbfgs fit, s", "its steps", "lesson, s", "lesson / fit", "rounds", "risk of all", "of fractions", "risk",
            "proof's margin", "no risk below", "peak, GB",
        ),
    )  # fmt: skip
    for tolerance in tolerances:
        learner = LogisticRegression(fit_intercept=False, max_iter=1000, tol=tolerance)
        worked = time.process_time()
        learner.fit(X, y)
        fit = time.process_time() - worked
        found = list[tuple[float, float, int]]()
        with mock.patch.object(Matcher, "_round", _looked_at(Matcher._round, found)):
            worked = time.process_time()
            lesson = SuperTeacher(learner, learner.coef_[0] * 0.9, budget=0.05).fit(X, y).lesson_
            took = time.process_time() - worked - sum(work for _, work, _ in found)
        rounds = lesson.rounds - sum(one[2] for one in found)
        margin = "none" if lesson.certificate is None else lesson.certificate.margin
        table.rows.append(
            (
                tolerance, fit, int(learner.n_iter_[0]), took, took / fit, rounds, lesson.pool_risk, found[-1][0],
                lesson.risk, margin, lesson.lower_bound, memory.peak() / 1e9,
            )
        )  # fmt: skip
    yield table


def _looked_at(round_them: Callable[..., Any], found: list[tuple[float, float, int]]) -> Callable[..., Any]:
    """Note the risk of fractions before they are rounded, and the processor time and rounds that it takes to find it."""

    def looking(self: Matcher, relaxed: Any, size: int, seed: int, again: bool) -> Any:
        worked, asked = time.process_time(), len(self._problem.federation.ledger)
        risk = metrics.risk(self._problem.fit_likely(size, self._goal), self._goal)
        found.append((risk, time.process_time() - worked, len(self._problem.federation.ledger) - asked))
        return round_them(self, relaxed, size, seed, again)

    return looking


def sparse_small(folder: Path) -> Iterator[Measurements]:
    """The same at a hundredth of the entries: a goal out of reach, and one that fractions come near."""
    yield from sparse_text(folder, 100_000, 10_000, (1e-4, 1e-3))


CASES: dict[str, Case] = {
    "in-process": in_process,
    "out-of-core": out_of_core,
    "sparse": sparse_text,
    "sparse-small": sparse_small,
    "spark": scale_spark.run,
}
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

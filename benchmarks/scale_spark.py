"""Spark against one process: the same lesson over a local cluster of two workers, round by round.

python -m benchmarks.scale_spark               # 10,000,000 × 28: superteach[spark], Java, 5 GB of memory
python -m benchmarks.scale_spark 1000000       # as many rows
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression

from benchmarks.table import Measurements, show
from superteach import Federation, InProcess, Learner, Lesson, spark
from superteach.coordinator.teaching import teach
from superteach.teacher.files import read_pool
from superteach.teacher.inputs import make_teachers
from superteach.types import Array

ROWS, WIDTH, PARTS = 10_000_000, 28, 8
BUDGET = 10_000
MASTER = "local-cluster[2,1,1024]"
"""Two workers of one core each, in processes of their own."""
FIXED, TIMES = 0.25, 1.5
"""Asked: a round takes at most this many seconds more than this many passes in one process."""


def run(folder: Path, rows: int = ROWS) -> Iterator[Measurements]:
    """Teach in one process and over Spark, from the same files."""
    place, goal = _make(folder, rows), np.random.default_rng(7).normal(size=WIDTH) / WIDTH**0.5
    learner = LogisticRegression(C=1.0, fit_intercept=False)
    alone, reading = _in_process(place, learner, goal)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = spark.session(MASTER)
    session.conf.set("spark.sql.files.minPartitionNum", str(PARTS))
    started = time.perf_counter()
    lesson, chosen = spark.teach(session.read.parquet(str(place)), learner, goal, target="y", budget=BUDGET)
    whole = time.perf_counter() - started
    picked = chosen.count()
    session.stop()

    passes = Measurements(
        f"{rows:,} × {WIDTH} float32, seconds by question (median)",
        ("question", "asked", "in process", "Spark", f"over {TIMES} passes", f"asked ≤ {FIXED}"),
    )
    for query in dict.fromkeys(entry.query for entry in lesson.ledger):
        own, far = (
            statistics.median(entry.seconds for entry in one.ledger if entry.query == query) for one in (alone, lesson)
        )
        times = sum(entry.query == query for entry in lesson.ledger)
        over = far - TIMES * own
        passes.rows.append((query, times, own, far, over, "yes" if over <= FIXED else "no"))
    yield passes
    total = Measurements(
        "whole lessons", ("", "rows chosen", "rounds", "risk", "rounds, s", "with reading and chosen rows, s")
    )
    total.rows.append(("in process", alone.size, alone.rounds, alone.risk, alone.seconds, alone.seconds + reading))
    total.rows.append(("Spark", picked, lesson.rounds, lesson.risk, lesson.seconds, whole))
    total.rows.append(("times", "", "", "", lesson.seconds / alone.seconds, whole / (alone.seconds + reading)))
    yield total


def _make(folder: Path, rows: int) -> Path:
    """Write rows as a folder of Parquet files, unless it is there: float32 columns and labels of one byte."""
    place = folder / f"spark-{rows}"
    if place.exists():
        return place
    place.mkdir(parents=True)
    weights = np.random.default_rng(0).normal(size=WIDTH).astype(np.float32)
    for part, some in enumerate(np.array_split(np.arange(rows), PARTS)):
        draw = np.random.default_rng([1, part])
        X = draw.standard_normal((WIDTH, len(some)), dtype=np.float32)
        y = (weights @ X + 3.0 * draw.standard_normal(len(some), dtype=np.float32) > 0.0).astype(np.int8)
        columns = {f"x{k}": X[k] for k in range(WIDTH)}
        parquet.write_table(pa.table({**columns, "y": y}), place / f"{part}.parquet")
    return place


def _in_process(place: Path, learner: LogisticRegression, goal: Array) -> tuple[Lesson, float]:
    started = time.perf_counter()
    pool = read_pool(sorted(place.glob("*.parquet")), "y")
    student = Learner.of(learner)
    teachers, classes = make_teachers(pool.parts, pool.columns, student.loss)
    reading = time.perf_counter() - started
    engine = InProcess(teachers)
    lesson = teach(Federation(engine), student, goal, classes=classes, budget=BUDGET, rounding="alone")
    engine.close()
    return lesson, reading


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="superteach-spark-") as home:
        for table in run(Path(home), *map(int, sys.argv[1:])):
            show(table)

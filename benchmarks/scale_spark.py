"""Spark against one process and against rows on disk: the same lesson over a local cluster of two workers.

python -m benchmarks.scale_spark               # 10,000,000 × 28: superteach[spark], Java, 5 GB of memory
python -m benchmarks.scale_spark 1000000       # as many rows
python -m benchmarks.scale_spark 1000000 kill  # a worker is killed in mid-lesson, beside a lesson where none is
python -m benchmarks.scale_spark 200000 work   # processor time of each question, which a busy machine leaves alone
"""

from __future__ import annotations

import json
import logging
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from benchmarks.table import Measurements, show
from superteach import Federation, Learner, Lesson, Threads, spark
from superteach.cli import app
from superteach.cli import teach as _teach  # noqa: F401
from superteach.coordinator.teach import teach
from superteach.io.tables import read_pool
from superteach.io.validation import make_teachers
from superteach.lesson import Entry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, WIDTH, PARTS = 10_000_000, 28, 8
BUDGET = 10_000
MASTER = "local-cluster[2,1,1024]"
"""Two workers of one core each, in processes of their own."""
FIXED, TIMES, WHOLE = 0.25, 1.5, 4.0
"""Asked: a round takes at most this many seconds more than this many passes in one process, and a lesson at most this many
times as long as out of core."""
GOAL = np.random.default_rng(7).normal(size=WIDTH) / WIDTH**0.5
LEARNER = LogisticRegression(C=1.0, fit_intercept=False)
Watch = Callable[[Entry], None]


def run(folder: Path, rows: int = ROWS) -> Iterator[Measurements]:
    """Teach in one process, out of core and over Spark, from the same files."""
    place = _make(folder, rows)
    alone, reading = _in_process(place)
    disk, outside = _out_of_core(place, folder)
    session = _session()
    lesson, whole, picked, _ = _on_spark(session, place)
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
        f"whole lessons (asked: Spark ≤ {WHOLE:g} times out of core)",
        ("", "rows chosen", "rounds", "risk", "rounds, s", "with reading and chosen rows, s"),
    )
    total.rows.append(("in process", alone.size, alone.rounds, alone.risk, alone.seconds, alone.seconds + reading))
    total.rows.append(("out of core", disk["size"], disk["rounds"], disk["risk"], disk["seconds"], outside))
    total.rows.append(("Spark", picked, lesson.rounds, lesson.risk, lesson.seconds, whole))
    total.rows.append(("Spark / out of core", "", "", "", lesson.seconds / disk["seconds"], whole / outside))
    yield total


def run_killed(folder: Path, rows: int) -> Iterator[Measurements]:
    """Teach twice over Spark, the second time with a Python worker killed once prices are known."""
    place, session, killed = _make(folder, rows), _session(), list[int]()

    def kill(entry: Entry) -> None:
        if entry.query == "Thin" and not killed:
            killed.append(session.range(2).mapInArrow(_process, "worker long").first()[0])
            os.kill(killed[0], signal.SIGKILL)

    table = Measurements(
        f"{rows:,} × {WIDTH} float32, a worker killed (asked: the same lesson, at most one pass more)",
        ("", "rounds", "risk", "rounds, s", "all, s", "partitions", "read again", "the same model"),
    )
    calm = None
    for name, watch in (("nobody killed", None), ("a worker killed", kill)):
        lesson, whole, _, again = _on_spark(session, place, watch)
        same = calm is None or lesson.model.tobytes() == calm.model.tobytes()
        calm = calm or lesson
        found = (name, lesson.rounds, lesson.risk, lesson.seconds, whole, len(lesson.teachers), again)
        table.rows.append((*found, "yes" if same else "no"))
    session.stop()
    yield table


def run_worked(folder: Path, rows: int) -> Iterator[Measurements]:
    """Teach twice over Spark, and count what Java and the Python workers do for each question."""
    place, session, load = _make(folder, rows), _session(), spark.SparkJobs.load
    for lesson in ("first", "second"):
        table = Measurements(
            f"{rows:,} × {WIDTH} float32, {lesson} lesson: processor seconds by question (median)",
            ("question", "asked", "Java", "Python workers", "all"),
        )
        found, before = dict[str, list[tuple[float, float]]](), list[tuple[float, float]]()

        def note(entry: Entry, found: Any = found, before: Any = before) -> None:
            now = _worked()
            if before:  # what comes before the first question is reading
                spent = now[0] - before[-1][0], now[1] - before[-1][1]
                found.setdefault(entry.query, []).append(spent)
            before.append(now)

        def loaded(self: Any, task: Any, before: Any = before) -> Any:
            told = load(self, task)
            before.append(_worked())
            return told

        with mock.patch.object(spark.SparkJobs, "load", loaded):
            _on_spark(session, place, note)
        for query, spent in found.items():
            java, python = (statistics.median(one[k] for one in spent) for k in (0, 1))
            table.rows.append((query, len(spent), java, python, java + python))
        yield table
    session.stop()


def _worked() -> tuple[float, float]:
    """Processor seconds of all processes below this one by now: of Java, and of all others."""
    parents, seconds, java = dict[int, int](), dict[int, float](), dict[int, bool]()
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, told = place.read_text().partition("(")[2].rpartition(") ")
        except OSError:  # it has ended
            continue
        number, values = int(place.parent.name), told.split()
        parents[number], java[number] = int(values[1]), name == "java"
        seconds[number] = (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")

    def below(one: int) -> bool:
        while one in parents and one != os.getpid():
            one = parents[one]
        return one == os.getpid()

    ours = [one for one in parents if one != os.getpid() and below(one)]
    return sum(seconds[one] for one in ours if java[one]), sum(seconds[one] for one in ours if not java[one])


def _session() -> SparkSession:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = spark.session(MASTER)
    session.sparkContext.setLogLevel("OFF")
    session.conf.set("spark.sql.files.minPartitionNum", str(PARTS))
    return session


class _Again(logging.Handler):
    """Counts partitions that the engine says are read again."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        if "are lost and read again" in record.msg:
            self.count += int(record.getMessage().split()[0])


def _on_spark(session: SparkSession, place: Path, watch: Watch | None = None) -> tuple[Lesson, float, int, int]:
    """The lesson, its seconds with reading and the chosen rows, how many these are, and partitions read again."""
    again, log = _Again(), logging.getLogger("superteach.engines.spark")
    log.addHandler(again)
    started = time.perf_counter()
    table = session.read.parquet(str(place))
    lesson, chosen = spark.teach(table, LEARNER, GOAL, target="y", budget=BUDGET, watch=watch)
    whole = time.perf_counter() - started
    log.removeHandler(again)
    return lesson, whole, chosen.count(), again.count


def _process(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"worker": [os.getpid()]})


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


def _in_process(place: Path) -> tuple[Lesson, float]:
    started = time.perf_counter()
    pool = read_pool(sorted(place.glob("*.parquet")), "y")
    student = Learner.of(LEARNER)
    teachers, classes = make_teachers(pool.parts, pool.columns, student.loss)
    reading = time.perf_counter() - started
    engine = Threads(teachers)
    lesson = teach(Federation(engine), student, GOAL, classes=classes, budget=BUDGET, rounding="alone")
    engine.close()
    return lesson, reading


def _out_of_core(place: Path, folder: Path) -> tuple[dict[str, float], float]:
    """`superteach teach folder/` with rows on disk: its lesson.json, and its seconds without imports."""
    goal, out = folder / "goal.json", folder / "lesson"
    goal.write_text(json.dumps(GOAL.tolist()), encoding="utf-8")
    command = f"teach {place} --target y --learner logistic --no-intercept --goal {goal} --budget {BUDGET} --out {out}"
    started = time.perf_counter()
    result = CliRunner().invoke(app, [*command.split(), "--overwrite"])
    took = time.perf_counter() - started
    if result.exit_code:
        raise RuntimeError(result.output)
    return json.loads((out / "lesson.json").read_text(encoding="utf-8")), took


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="superteach-spark-") as home:
        how = {"kill": run_killed, "work": run_worked}.get(sys.argv[-1], run)
        for table in how(Path(home), *map(int, sys.argv[1:2])):
            show(table)

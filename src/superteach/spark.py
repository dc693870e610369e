"""superteach on Spark: every partition of a table is a teacher that rounds alone, or holds the teachers of some owners.

lesson, chosen = superteach.spark.teach(df, learner, goal, target="ill", budget=0.01)
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Unpack

import numpy as np
import pyarrow as pa

from superteach import errors
from superteach.coordinator.federation import Federation
from superteach.coordinator.teaching import teach as _teach
from superteach.engines.spark import Jobs, Spark
from superteach.errors import DataError, DataTypeError, MissingExtra, SettingError, TeachingError, listed, shorten
from superteach.lesson import Entry, Lesson, Taught
from superteach.line import wire
from superteach.line.partitions import Layout, Member, Task, Told
from superteach.mathematics.learner import Learner
from superteach.settings import Given, Settings
from superteach.teacher import resident
from superteach.teacher.inputs import Part, find_classes
from superteach.types import Positions, Raw

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_VISITED = 1 << 10
"""Rows of the table whose tasks visit workers; Spark cuts it into as many tasks as the cluster has cores."""
_SPREAD = 4
"""Partitions for each core where rows are sent to their owners: a few, so that owners of unequal size even out."""
_TOLD = "partition int, worker string, place int, reply binary"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "decimal")
_VECTOR = "vector"


def session(master: str) -> SparkSession:
    """Start Spark, or join one: `local[2]`, `spark://host:7077`, or `sc://host:15002` for Spark Connect."""
    builder = _pyspark("sql").SparkSession.builder.appName("superteach")
    if master.startswith("sc://"):
        return builder.remote(master).getOrCreate()
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise TeachingError(
            "Spark needs a Java virtual machine of version 17 or newer; there is no `java` on the PATH and no JAVA_HOME. "
            "On Debian: apt-get install openjdk-17-jre-headless"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        return builder.master(master).config("spark.ui.showConsoleProgress", "false").getOrCreate()
    except Exception as error:  # py4j and Java raise nearly anything
        raise TeachingError(f"Spark cannot be started at {master!r}: {shorten(str(error))}") from None


def teach(
    df: DataFrame,
    learner: object,
    goal: object,
    *,
    target: str,
    owner: str | None = None,
    features: Sequence[str] | None = None,
    costs: str | None = None,
    worker_bytes: int | None = None,
    watch: Callable[[Entry], None] | None = None,
    **settings: Unpack[Given],
) -> tuple[Lesson, DataFrame]:
    """Teach from a DataFrame; return the lesson and the chosen rows, with all their columns.

    Without `owner` every partition is a teacher; with it every owner is, and its rows are sent to one partition. Features
    are numbers or vectors of Spark ML. `worker_bytes` bounds the memory for rows in each Python worker.
    """
    given: Given = {"rounding": "alone", **settings}
    told = Settings(**given)
    found = teach_table(df, learner, lambda *_: goal, told, target, owner, features, costs, worker_bytes, watch)
    return found.taught.lesson, found.chosen


@dataclass(frozen=True, eq=False)
class TaughtTable:
    """A lesson from a table: the chosen rows, the names of the learner's columns, and the roster of teachers."""

    taught: Taught
    chosen: DataFrame
    columns: list[str]
    roster: tuple[Member, ...]


def teach_table(
    df: DataFrame,
    learner: object,
    goal: Callable[[list[str], Raw | None], object],
    settings: Settings,
    target: str,
    owner: str | None = None,
    features: Sequence[str] | None = None,
    costs: str | None = None,
    worker_bytes: int | None = None,
    watch: Callable[[Entry], None] | None = None,
) -> TaughtTable:
    """Do the same with a goal that is made once the columns and both label values are known."""
    student = Learner.of(learner)
    layout = Layout(_features(df, features, target, owner, costs), target, owner, costs, student.loss.settings())
    frame, held = _settled(df, layout)
    jobs = SparkJobs(df.sparkSession, frame, layout)
    try:
        engine, classes, columns = open_table(jobs, Task(uuid.uuid4().hex, layout, worker_bytes), student)
        try:
            wanted, federation = goal(columns, classes), Federation(engine, watch)
            lesson = _teach(federation, student, wanted, settings, classes=classes, columns=columns)
            rows = engine.chosen()
        finally:
            engine.close()
        picks: dict[int, list[Positions]] = {}
        for member, some in zip(engine.roster, rows, strict=True):
            picks.setdefault(member.partition, []).append(some)
        chosen = jobs.take(engine.digests, {part: np.sort(np.concatenate(some)) for part, some in picks.items()})
    finally:
        if held:
            frame.unpersist()
    return TaughtTable(Taught(lesson, classes, rows), chosen, columns, engine.roster)


def open_table(jobs: Jobs, task: Task, student: Learner) -> tuple[Spark, Raw | None, list[str]]:
    """Have all partitions read; settle the roster, the label values and the columns."""
    found = [(one, wire.read_reply(one.reply).facts) for one in sorted(jobs.load(task))]
    for _, facts in found:
        if "error" in facts:
            raise getattr(errors, facts["kind"])(facts["error"])
    if not found:
        raise DataError("the table has no rows")
    if task.layout.owner is not None:
        found.sort(key=lambda one: one[1]["order"])
    widths = found[0][1]["widths"]
    for one, facts in found:
        if facts["widths"] != widths:
            raise DataError(
                f"partition {one.partition} has vectors of {facts['widths']} numbers, partition {found[0][0].partition} of "
                f"{widths}; all rows need vectors of one length"
            )
    classes = None
    if student.loss.classifies:
        classes = find_classes(
            [Part(facts["name"], np.empty((0, 0)), np.array(facts["labels"])) for _, facts in found], most=2
        )
    roster = [Member(one.partition, one.place, facts["name"], facts["rows"]) for one, facts in found]
    homes = {one.partition: (one.worker, facts["digest"]) for one, facts in found}
    columns = task.layout.columns(widths)
    told = None if classes is None else tuple(classes.tolist())
    return Spark(jobs, replace(task, classes=told), roster, homes, len(columns)), classes, columns


def _features(
    df: DataFrame, features: Sequence[str] | None, target: str, owner: str | None, costs: str | None
) -> tuple[str, ...]:
    """Settle which columns are features, and see before any row is read that each can be one."""
    kinds = {field.name: field.dataType for field in df.schema.fields}
    if len(kinds) != len(df.columns):
        raise DataError(f"the table has two columns of one name: {listed(df.columns)}; rename one")
    roles = {"target": target, "owner": owner, "costs": costs}
    for role, name in roles.items():
        if name is not None and name not in kinds:
            raise DataError(f"the table has no {role} column {name!r}; it has {listed(df.columns)}")
    taken = [name for name in roles.values() if name is not None]
    if len(set(taken)) != len(taken):
        raise SettingError(f"target, owner and costs are three columns, got {listed(taken)}")
    chosen = [name for name in df.columns if name not in taken] if features is None else list(features)
    if not chosen or len(set(chosen)) != len(chosen) or set(chosen) & set(taken):
        raise SettingError(f"features are columns beside {listed(taken)}, each named once; got {listed(chosen)}")
    for name in chosen:
        if name not in kinds:
            raise DataError(f"the table has no feature column {name!r}; it has {listed(df.columns)}")
        kind = kinds[name].simpleString()
        if kind.partition("(")[0] not in _NUMBERS and kinds[name].typeName() != _VECTOR and kind != _VECTOR:
            raise DataTypeError(
                f"column {name!r} has type {kind}; features are numbers or vectors of Spark ML: turn it into numbers, or "
                "list the feature columns without it"
            )
    if owner is not None and kinds[owner].simpleString() not in ("string", "boolean", *_NUMBERS[:4]):
        raise DataTypeError(
            f"owner column {owner!r} has type {kinds[owner].simpleString()}; name owners by text or whole numbers"
        )
    return tuple(chosen)


def _settled(df: DataFrame, layout: Layout) -> tuple[DataFrame, bool]:
    """The table with partitions that come out the same whenever they are read, and whether Spark keeps a copy for that.

    Rows that Spark has sent around stand in the order in which they came, so they are put in one of their own.
    """
    functions = _pyspark("sql.functions")
    with contextlib.redirect_stdout(io.StringIO()) as plan:
        df.explain()
    if layout.owner is None and "Exchange" not in plan.getvalue():
        return df, False
    if layout.owner is not None:
        cores = df.sparkSession.range(_VISITED).select(functions.spark_partition_id()).distinct().count()
        df = df.repartition(_SPREAD * cores, _column(layout.owner))
    df = df.sortWithinPartitions(functions.xxhash64(*map(_column, layout.needed)))
    return df.persist(_pyspark("storagelevel").StorageLevel.DISK_ONLY), True


class SparkJobs:
    """Tasks as Spark jobs over Arrow batches, which classic sessions and Spark Connect both have."""

    def __init__(self, spark: SparkSession, frame: DataFrame, layout: Layout) -> None:
        self._frame, self._rows = frame, frame.select(*map(_column, layout.needed))
        self._layout = layout
        self._everywhere = spark.range(_VISITED)

    def visit(self, task: Task) -> list[Told]:
        """Run a task in every Python worker."""
        return self._run(self._everywhere, partial(_visit, task))

    def load(self, task: Task) -> list[Told]:
        """Run a task for partitions, with their rows."""
        rows = self._rows
        if task.homes:
            # The others are not sent to Python; Spark reads them all the same.
            rows = rows.filter(_pyspark("sql.functions").spark_partition_id().isin(list(task.homes)))
        return self._run(rows, partial(_load, task))

    def take(self, digests: dict[int, int], picks: dict[int, Positions]) -> DataFrame:
        """The rows at some positions of each partition, computed once and kept by Spark."""
        work = partial(_take, self._layout, digests, picks)
        with _told_of("fetch the chosen rows"):
            found = self._frame.mapInArrow(work, self._frame.schema).persist()
            found.count()
        return found

    def _run(
        self, frame: DataFrame, work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    ) -> list[Told]:
        with _told_of("ask the partitions"):
            return [Told(row[0], row[1], row[2], bytes(row[3])) for row in frame.mapInArrow(work, _TOLD).collect()]


@contextmanager
def _told_of(what: str) -> Iterator[None]:
    """Say in one sentence why a job failed, and nothing of pandas, which is not used."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
            yield
    except errors.SuperteachError:
        raise
    except Exception as error:  # py4j, Java and gRPC raise nearly anything
        told = [line.strip() for line in str(error).splitlines() if line.strip()]
        why = next((line for line in told if "No module named" in line or "Error:" in line), told[0] if told else "")
        advice = "; superteach must be installed for the Python of every worker" if "No module named" in why else ""
        raise TeachingError(f"Spark could not {what}: {shorten(why)}{advice}") from error


def _visit(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    _drain(batches)
    yield from _packed(resident.HERE.visit(task))


def _load(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from _packed(resident.HERE.load(task, _pyspark("taskcontext").TaskContext.get().partitionId(), batches))


def _take(
    layout: Layout, digests: dict[int, int], picks: dict[int, Positions], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    partition, found = _pyspark("taskcontext").TaskContext.get().partitionId(), list(batches)
    if partition not in digests:
        return
    table = pa.Table.from_batches(found)
    if resident.read_partition(table, layout, partition).digest != digests[partition]:
        raise DataError(resident.CHANGED.format(partition=partition))
    yield from table.take(picks[partition]).to_batches()


def _drain(batches: Iterable[pa.RecordBatch]) -> None:
    """Take all that Spark sends: a worker that leaves some unread is not used again."""
    for _ in batches:
        pass


def _packed(told: Iterable[Told]) -> Iterator[pa.RecordBatch]:
    kinds = (pa.int32(), pa.string(), pa.int32(), pa.binary())
    names = Told._fields
    for one in told:
        yield pa.RecordBatch.from_arrays(
            [pa.array([value], kind) for value, kind in zip(one, kinds, strict=True)], names
        )


def _column(name: str) -> Column:
    return _pyspark("sql.functions").col("`" + name.replace("`", "``") + "`")


def _pyspark(part: str) -> ModuleType:
    """A module of pyspark, or an error with the command that installs it."""
    try:
        return import_module(f"pyspark.{part}")
    except ImportError:
        raise MissingExtra("pyspark", "spark", "superteach on Spark") from None

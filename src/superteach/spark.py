"""superteach on Spark: every partition of a table is a teacher that rounds alone, or holds the teachers of some owners.

lesson, chosen = superteach.spark.teach(df, learner, goal, target="ill", budget=0.01)
"""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import os
import re
import shutil
import sys
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Unpack

import numpy as np
import pyarrow as pa

from superteach import exceptions
from superteach.coordinator.federation import Federation
from superteach.coordinator.teach import teach as _teach
from superteach.engines.spark import Jobs, Spark
from superteach.engines.threads import shares_of
from superteach.exceptions import DataError, DataTypeError, MissingExtra, SettingError, TeachingError, listed, shorten
from superteach.goals.base import positive_label
from superteach.io.frames import DEFAULT, PositiveLabel
from superteach.io.validation import Part, find_classes
from superteach.learner import Learner
from superteach.lesson import Entry, Lesson, Taught
from superteach.protocol import wire
from superteach.protocol.partitions import Layout, Member, PartitionReply, Piece, Task
from superteach.settings import Settings, SettingsDict
from superteach.teacher import resident
from superteach.types import Positions, Raw

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_VISITED = 1 << 10
"""Rows of the table whose tasks visit workers; Spark cuts it into as many tasks as the cluster has cores."""
_SPREAD = 4
"""Partitions for each core where rows are sent to their owners: a few, so that owners of unequal size even out."""
_REPLIES = "partition int, worker string, place int, reply binary"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "decimal")
_VECTOR = "vector"
_STORED = {"tinyint": "int8", "smallint": "int16", "int": "int32", "bigint": "int64"}
_STORED |= {"float": "float", "double": "double", "boolean": "bool", "string": "string"}
"""What Arrow calls columns of a Parquet file that are the same whoever reads them, by Spark's name."""
_PLAIN = re.compile(
    r"== Physical Plan ==\s+(\*\(1\) )?(ColumnarToRow\s+\+- )?FileScan parquet "
    r"(?=[^\n]*Location: InMemoryFileIndex)(?=[^\n]*PartitionFilters: \[\])[^\n]*\s*"
)
"""The plan of a table that is some Parquet files and nothing else: no catalogue, no filter, no column made of others."""
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java on this machine compiles once, and lightly: workers have the cores that its compilers would take. The first lesson of
10⁷ × 28 rows on two cores took 53.5 s in place of 80.8 s, its rounds 19.6 s in place of 23.7 s."""
_SOCKETS = "spark.python.unix.domain.socket.enabled"
"""Whether Java and Python talk through sockets of the file system: over TCP each task waits 40 ms for an acknowledgement
that Linux holds back. Of 48 empty jobs on two busy cores the quickest took 0.054 s in place of 0.094 s."""
_ADVICE = {
    "No module named": "superteach must be installed for the Python of every worker",
    "reading file": "write the table anew, every column with one type in all files, and leave it alone during the lesson",
}
"""What to do about an error, by words in it."""
_log = logging.getLogger(__name__)


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
    if master.startswith("local"):
        builder = builder.config(_SOCKETS, "true")
        for who in ("driver", "executor"):
            builder = builder.config(f"spark.{who}.defaultJavaOptions", _JAVA)
    try:
        with _quiet():
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
    positive: object = None,
    **settings: Unpack[SettingsDict],
) -> tuple[Lesson, DataFrame]:
    """Teach from a DataFrame; return the lesson and the chosen rows, with all their columns.

    Without `owner` every partition is a teacher; with it every owner is, and its rows are sent to one partition. Features
    are numbers or vectors of Spark ML. `worker_bytes` bounds the memory for rows in each Python worker. `positive` is the
    label that coefficients speak for (None: the one that the goal names, else the larger).
    """
    given: SettingsDict = {"rounding": "alone", **settings}
    checked = Settings(**given)
    chosen = positive_label(goal, PositiveLabel(positive))
    found = teach_table(
        df, learner, lambda *_: goal, checked, target, owner, features, costs, worker_bytes, watch, chosen
    )
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
    positive: PositiveLabel = DEFAULT,
) -> TaughtTable:
    """Do the same with a goal that is made once the columns and both label values are known."""
    student = Learner.of(learner)
    layout = Layout(_features(df, features, target, owner, costs), target, owner, costs, student.loss.settings())
    frame, held = _settled(df, layout)
    jobs = SparkJobs(df.sparkSession, frame, layout)
    try:
        engine, classes, columns = open_table(jobs, Task(uuid.uuid4().hex, layout, worker_bytes), student, positive)
        try:
            wanted, federation = goal(columns, classes), Federation(engine, watch)
            lesson = _teach(federation, student, wanted, settings, classes=classes, columns=columns)
            rows, marks = engine.chosen()
        finally:
            engine.close()
        picks: dict[int, list[Positions]] = {}
        for member, some in zip(engine.roster, rows, strict=True):
            picks.setdefault(member.partition, []).append(some)
        chosen = jobs.take(marks, classes, {part: np.concatenate(some) for part, some in picks.items()})
    finally:
        if held:
            frame.unpersist()
    return TaughtTable(Taught(lesson, classes, rows), chosen, columns, engine.roster)


def open_table(
    jobs: Jobs, task: Task, student: Learner, positive: PositiveLabel = DEFAULT
) -> tuple[Spark, Raw | None, list[str]]:
    """Have all partitions read; settle the roster, the label values and the columns."""
    found = [(one, wire.read_reply(one.reply).facts) for one in sorted(jobs.load(task))]
    for _, facts in found:
        if "error" in facts:
            raise getattr(exceptions, facts["kind"])(facts["error"])
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
        labels = [Part(facts["name"], np.empty((0, 0)), np.array(facts["labels"])) for _, facts in found]
        classes = find_classes(labels, most=2)
    classes = positive.last(classes)
    roster = [Member(one.partition, one.place, facts["name"], facts["rows"]) for one, facts in found]
    homes = {one.partition: (one.worker, facts["digest"]) for one, facts in found}
    columns = task.layout.columns(widths)
    task = replace(task, classes=None if classes is None else tuple(classes.tolist()))
    return Spark(jobs, task, roster, homes, len(columns)), classes, columns


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
    if layout.owner is None and "Exchange" not in _plan(df):
        return df, False
    if layout.owner is not None:
        df = df.repartition(_SPREAD * _cores(df.sparkSession), _column(layout.owner))
    df = df.sortWithinPartitions(_pyspark("sql.functions").xxhash64(*map(_column, layout.needed)))
    return df.persist(_pyspark("storagelevel").StorageLevel.DISK_ONLY), True


def _plan(df: DataFrame) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as plan:
        df.explain()
    return plan.getvalue()


def _cores(spark: SparkSession) -> int:
    return len(set(spark.range(_VISITED).select(_pyspark("sql.functions").spark_partition_id()).collect()))


def _find_pieces(df: DataFrame, layout: Layout) -> dict[int, list[Piece]]:
    """Which rows of which files each partition is, as Spark's own scan tells; nothing where workers cannot read them alike.

    Rows that follow each other in a file and in a partition have one difference of both numbers.
    """
    kinds, functions = {df.schema[name].dataType.simpleString() for name in layout.needed}, _pyspark("sql.functions")
    by_number = df.sparkSession.conf.get("spark.sql.parquet.fieldId.read.enabled", "false") == "true"
    if kinds - set(_STORED) or by_number or not _PLAIN.fullmatch(_plan(df)):
        return {}
    found = dict[int, list[Piece]]()
    try:
        file = df.metadataColumn("_metadata")
        part, path, row = functions.spark_partition_id(), file["file_path"], file["row_index"]
        scan = df.select(part, path, functions.monotonically_increasing_id() - row, row).toDF(
            "part", "path", "by", "row"
        )
        ends = functions.min("row"), functions.max("row"), functions.count("row")
        runs = scan.groupBy("part", "path", "by").agg(*ends).collect()
    except Exception as error:  # py4j, Java and gRPC raise nearly anything
        _log.info("rows are read by Spark: %s", shorten(str(error)))
        return {}
    for number, place, _, first, last, count in sorted(runs, key=lambda one: one[2] + one[3]):
        if last - first + 1 != count or not place.startswith("file:/") or set(place) & set("%="):
            return {}
        found.setdefault(number, []).append(Piece("/" + place.removeprefix("file:").lstrip("/"), first, count))
    return found


class SparkJobs:
    """Tasks as Spark jobs over Arrow batches, which classic sessions and Spark Connect both have."""

    def __init__(self, spark: SparkSession, frame: DataFrame, layout: Layout) -> None:
        self._frame, self._rows = frame, frame.select(*map(_column, layout.needed))
        self._layout, self._spark = layout, spark
        self._everywhere = spark.range(_VISITED)
        """The table of every job that Spark hands no rows: Java compiles what reads it once, in the first of them."""
        self.pieces = _find_pieces(frame, layout)
        """What workers read from files by themselves, by partition; nothing where Spark hands rows over."""

    def visit(self, task: Task) -> list[PartitionReply]:
        """Run a task in every Python worker."""
        return self._run(self._everywhere, partial(_visit, task))

    def load(self, task: Task) -> list[PartitionReply]:
        """Run a task for partitions, with their rows: each worker reads as many from files, or what Spark hands over."""
        rows = self._rows
        if wanted := [(part, some) for part, some in self.pieces.items() if not task.homes or part in task.homes]:
            shares = shares_of([sum(piece.rows for piece in some) for _, some in wanted], _cores(self._spark))
            kinds = {one.name: _STORED[one.dataType.simpleString()] for one in rows.schema.fields}
            work = partial(_load_pieces, task, kinds, [[wanted[place] for place in one] for one in shares])
            replies = self._run(self._everywhere, work)
            unread = [one for one in replies if one.partition < 0]
            if not unread:
                return replies
            _log.info("rows are read by Spark: %s", unread[0].reply.decode())
            self.pieces = {}
        if task.homes:
            # The others are not sent to Python; Spark reads them all the same.
            rows = rows.filter(_pyspark("sql.functions").spark_partition_id().isin(list(task.homes)))
        return self._run(rows, partial(_load, task))

    def take(self, marks: dict[int, int], classes: Raw | None, picks: dict[int, Positions]) -> DataFrame:
        """The rows at some positions of each partition, computed once and kept by Spark."""
        functions, number = _pyspark("sql.functions"), uuid.uuid4().hex
        # As Spark numbers rows: the partition in the upper 31 bits, the place in it in the lower 33.
        places = pa.table({number: np.concatenate([(part << 33) + some for part, some in picks.items()])})
        work = partial(_take, self._layout, None if classes is None else classes.tolist(), marks)
        with _errors_of("fetch the chosen rows"):
            rows = self._frame.withColumn(number, functions.monotonically_increasing_id())
            rows = rows.join(functions.broadcast(self._spark.createDataFrame(places)), number, "leftsemi").drop(number)
            found = rows.mapInArrow(work, self._frame.schema).persist()
            came = found.count()
        if came != places.num_rows:
            raise DataError(
                f"{came} of the {places.num_rows} chosen rows came from the table: it has changed while the lesson was "
                "taught. Teach from a table that stays, such as one written to Parquet"
            )
        return found

    def _run(
        self, frame: DataFrame, work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    ) -> list[PartitionReply]:
        with _errors_of("ask the partitions"):
            return [
                PartitionReply(row[0], row[1], row[2], bytes(row[3]))
                for row in frame.mapInArrow(work, _REPLIES).collect()
            ]


@contextmanager
def _quiet() -> Iterator[None]:
    """Say nothing of pandas, which is not used."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


@contextmanager
def _errors_of(what: str) -> Iterator[None]:
    """Say in one sentence why a job failed."""
    try:
        with _quiet():
            yield
    except exceptions.SuperteachError:
        raise
    except Exception as error:  # py4j, Java and gRPC raise nearly anything
        raise TeachingError(f"Spark could not {what}: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """What Python in a worker said, or else Spark behind the name of its error, or else the first line; and what to do."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own = [line for line in lines if "No module named" in line or "Error:" in line]
    named = [line.partition("] ")[2] for line in lines if re.search(r"\[[A-Z][A-Z_.]+\] ", line)]
    why = re.sub(r"\s*SQLSTATE: \w+$", "", [*own, *named, *lines, type(error).__name__][0])
    advice = next((what for words, what in _ADVICE.items() if words in why), "")
    return "; ".join(filter(None, (shorten(why).rstrip("."), advice)))


@cache
def _settle() -> None:
    """Have Python's collector leave alone what is loaded by now, once in each worker.

    Spark has it search everything after each task, and the worker takes no other meanwhile: some 0.05 s for modules that
    stay. Rows come later and can go.
    """
    gc.freeze()


def _visit(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    _settle()
    _drain(batches)
    yield from _packed(resident.HERE.visit(task))


def _load(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    _settle()
    yield from _packed(resident.HERE.load(task, _pyspark("taskcontext").TaskContext.get().partitionId(), batches))


def _load_pieces(
    task: Task, kinds: dict[str, str], shares: list[list[tuple[int, list[Piece]]]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    _settle()
    _drain(batches)
    for partition, pieces in shares[_pyspark("taskcontext").TaskContext.get().partitionId()]:
        try:
            rows = resident.read_pieces(pieces, kinds)
            yield from _packed(resident.HERE.load(task, partition, rows, pieces))
        except (OSError, pa.ArrowException) as error:
            yield from _packed([PartitionReply(-1, "", 0, str(error).encode())])
            return


def _take(
    layout: Layout, classes: list[object] | None, marks: dict[int, int], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    partition, found = _pyspark("taskcontext").TaskContext.get().partitionId(), list(batches)
    if sum(one.num_rows for one in found):
        resident.check_taken(pa.Table.from_batches(found), layout, classes, partition, marks.get(partition, 0))
    elif marks.get(partition):
        raise DataError(resident.CHANGED.format(partition=partition))
    yield from found


def _drain(batches: Iterable[pa.RecordBatch]) -> None:
    """Take all that Spark sends: a worker that leaves some unread is not used again."""
    for _ in batches:
        pass


def _packed(replies: Iterable[PartitionReply]) -> Iterator[pa.RecordBatch]:
    kinds = (pa.int32(), pa.string(), pa.int32(), pa.binary())
    names = PartitionReply._fields
    for one in replies:
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

"""Lessons on a standalone Spark: the same as in one process, also where workers and executors are killed."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression

import superteach as st
from superteach import spark
from superteach.exceptions import DataError, DataTypeError, SettingError, TeachingError
from superteach.learner import Learner
from superteach.losses import Logistic
from superteach.protocol import wire
from superteach.protocol.partitions import Layout, Task
from tests.protocol.test_queries import asked_of, replies_to, talk_on

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

NAMES = ["x0", "x1", "x2"]
GOAL = np.array([0.6, -0.4, 0.2])
LEARNER = LogisticRegression(fit_intercept=False)
ROWS = 2000


@pytest.fixture(scope="module")
def table(pool, tmp_path_factory):
    """A folder of Parquet files: rows with a number, an owner and a text that no learner reads."""
    X, y = pool("logistic", ROWS, 3, 1)
    place = tmp_path_factory.mktemp("table")
    columns = {name: X[:, k] for k, name in enumerate(NAMES)}
    whole = pa.table({"id": np.arange(ROWS), **columns, "ill": y, "town": [f"town {k % 5}" for k in range(ROWS)]})
    for part in range(4):
        parquet.write_table(whole.slice(part * ROWS // 4, ROWS // 4), place / f"{part}.parquet")
    return place


@pytest.fixture(scope="module")
def frame(session, table):
    return session.read.parquet(str(table))


def ids_by_partition(frame):
    """The numbers of the rows of each partition, in their order there."""
    from pyspark.sql import functions

    rows = frame.select(functions.spark_partition_id().alias("part"), "id").collect()
    return [[row.id for row in rows if row.part == part] for part in sorted({row.part for row in rows})]


@pytest.fixture(scope="module")
def parts(frame, table):
    """The same partitions as arrays."""
    whole = parquet.read_table(table)
    X, y = np.column_stack([whole[name] for name in NAMES]), whole["ill"].to_numpy()
    order = np.argsort(whole["id"].to_numpy())
    ids = ids_by_partition(frame)
    assert sorted(one for some in ids for one in some) == list(range(ROWS))
    return [(X[order][some], y[order][some], np.array(some)) for some in ids]


@pytest.fixture(scope="module")
def oracle(parts):
    """The lesson of teachers in this process, and the numbers of its rows."""
    first = np.cumsum([0, *(len(y) for _, y, _ in parts)])
    teachers = [st.Teacher(f"t{k}", X, y, first[k] + np.arange(len(y))) for k, (X, y, _) in enumerate(parts)]
    engine = st.Threads(teachers, threads=1)
    lesson = st.teach(st.Federation(engine), LEARNER, GOAL, budget=40, rounding="alone")
    states = zip(parts, engine.states(), strict=True)
    return lesson, sorted(np.concatenate([ids[state.chosen] for (_, _, ids), state in states]).tolist())


def taught(frame, watch=None):
    return spark.teach(frame, LEARNER, GOAL, target="ill", features=NAMES, budget=40, watch=watch)


def check(lesson, chosen, oracle):
    """Equal to the last bit, and the rows whole."""
    expected, rows = oracle
    assert lesson.model.tobytes() == expected.model.tobytes()
    assert (lesson.risk, lesson.size, lesson.agreement) == (expected.risk, expected.size, expected.agreement)
    assert sorted(row.id for row in chosen.collect()) == rows
    assert chosen.columns == ["id", *NAMES, "ill", "town"]


def read_again(caplog):
    """How many partitions were read a second time, by question."""
    found = [re.match(r"(\d+) of (\d+) partitions are lost", one.getMessage()) for one in caplog.records]
    return [(int(one[1]), int(one[2])) for one in found if one]


def test_the_same_lesson_as_in_one_process(frame, oracle, caplog):
    """Rows are read once: no question finds a partition gone."""
    caplog.set_level(logging.WARNING, "superteach")
    check(*taught(frame), oracle)
    assert read_again(caplog) == []


@pytest.mark.parametrize("who", ["worker", "executor"])
def test_a_killed_process_changes_nothing(who, frame, oracle, processes, caplog):
    """Its partitions are read again, once, by another."""
    caplog.set_level(logging.WARNING, "superteach")
    killed = []

    def kill(entry):
        if entry.query == "Thin" and not killed:
            ids = processes()
            assert len(ids) == 2
            killed.append(ids[0][0 if who == "worker" else 1])
            os.kill(killed[0], signal.SIGKILL)

    check(*taught(frame, kill), oracle)
    assert killed
    again = read_again(caplog)
    assert len(again) == 1, "one question found partitions gone"
    assert 1 <= again[0][0] <= again[0][1], "less than one pass over the rows, or one"


def test_every_query_has_the_same_sum_over_spark(session, frame, parts):
    """A whole talk: equal bits all the way."""
    student = Learner(Logistic())
    layout = Layout(tuple(NAMES), "ill", None, None, student.loss.settings())
    engine, *_ = spark.open_table(spark.SparkJobs(session, frame, layout), Task("talk", layout, None), student)
    first = np.cumsum([0, *(len(y) for _, y, _ in parts)])
    teachers = [st.Teacher(f"t{k}", X, y, first[k] + np.arange(len(y))) for k, (X, y, _) in enumerate(parts)]
    local = st.Threads(teachers, threads=1)
    for number, query in enumerate(talk_on(Logistic()), 1):
        asked = asked_of(local, query)
        there, here = (replies_to(one, asked, number).tobytes() for one in (engine, local))
        assert there == here, asked.name
    engine.close()


def loaded(session, frame, features=NAMES):
    """Digests of all partitions as workers read them, and whether from files."""
    layout = Layout(tuple(features), "ill", None, None, Logistic().settings())
    jobs = spark.SparkJobs(session, frame, layout)
    told = jobs.load(Task("look", layout, None))
    return {one.partition: wire.read_reply(one.reply).facts for one in told}, bool(jobs.pieces)


@pytest.mark.parametrize("bytes_each", [1 << 27, 12_000], ids=["files", "pieces of files"])
def test_workers_read_files_as_spark_does(session, table, bytes_each, tmp_path):
    """Rows and their order, partition by partition, where a partition is some files or some row groups of one."""
    for path in table.iterdir():
        parquet.write_table(parquet.read_table(path), tmp_path / path.name, row_group_size=70)
    session.conf.set("spark.sql.files.maxPartitionBytes", str(bytes_each))
    session.conf.set("spark.sql.files.openCostInBytes", "100")
    try:
        frame = session.read.parquet(str(tmp_path))
        own, direct = loaded(session, frame)
        handed, other = loaded(session, frame.filter("id >= 0"))
    finally:
        session.conf.unset("spark.sql.files.maxPartitionBytes")
        session.conf.unset("spark.sql.files.openCostInBytes")
    assert (direct, other) == (True, False)
    assert own == handed
    assert len({facts["digest"] for facts in own.values()}) == len(own) >= 2
    assert sum(facts["rows"] for facts in own.values()) == ROWS


def test_what_spark_makes_of_files_is_read_by_spark(session, frame, table, tmp_path):
    """Computed columns, columns from the names of folders, types that Spark has not, spaces in names."""
    from pyspark.sql import functions

    assert loaded(session, frame.select(*NAMES, "ill"))[1]
    assert not loaded(session, frame.withColumn("x0", functions.col("x0") + 1.0))[1]
    assert not loaded(session, frame.limit(50))[1]
    frame.withColumn("x9", (functions.col("id") % 2)).write.partitionBy("x9").parquet(str(tmp_path / "folders"))
    assert not loaded(session, session.read.parquet(str(tmp_path / "folders")), [*NAMES, "x9"])[1]
    whole = parquet.read_table(table)
    (tmp_path / "a b").mkdir()
    parquet.write_table(whole, tmp_path / "a b" / "rows.parquet")
    spaced, direct = loaded(session, session.read.parquet(str(tmp_path / "a b")))
    assert not direct
    labels = pa.array(np.arange(ROWS) % 2, pa.uint8())
    small = whole.set_column(whole.schema.get_field_index("ill"), "ill", labels)
    parquet.write_table(small, tmp_path / "small.parquet")
    found, direct = loaded(session, session.read.parquet(str(tmp_path / "small.parquet")))
    assert not direct, "Spark has no such type, and makes another of it"
    assert sum(facts["rows"] for facts in found.values()) == sum(facts["rows"] for facts in spaced.values()) == ROWS


def test_rows_that_change_before_they_are_fetched_are_noticed(session, table, tmp_path):
    """The same bytes in another order: chosen rows would be others."""

    def write(place, rows):
        parquet.write_table(rows, place, compression="none", use_dictionary=False, write_statistics=False)

    whole = parquet.read_table(table)
    write(tmp_path / "rows.parquet", whole)
    changed = []

    def change(entry):
        if entry.stage == "metrics" and not changed:
            changed.append(1)
            write(tmp_path / "rows.parquet", whole.take(np.arange(ROWS)[::-1]))

    with pytest.raises(TeachingError, match=r"partition 0 has other rows|other rows, or the same in another order"):
        taught(session.read.parquet(str(tmp_path)), change)
    assert changed


def test_owners_are_teachers_and_vectors_are_features(session, frame):
    """The lesson does not depend on how rows were spread before; sparse vectors teach what dense ones do."""
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.linalg import Vectors

    vectors = VectorAssembler(inputCols=NAMES, outputCol="v").transform(frame).select("id", "v", "ill", "town")
    lessons, rows = [], []
    for one in (vectors, vectors.repartition(3)):
        lesson, chosen = spark.teach(one, LEARNER, GOAL, target="ill", owner="town", features=["v"], budget=40)
        assert lesson.teachers == tuple(f"town {k}" for k in range(5))
        lessons.append(lesson.model.tobytes())
        rows.append(sorted(row.id for row in chosen.collect()))
    assert lessons[0] == lessons[1]
    assert rows[0] == rows[1]
    assert lesson.risk < 0.1 * lesson.pool_risk

    kept = [(Vectors.sparse(3, [0, 2], [float(k % 3), 1.0]), float(k % 2)) for k in range(40)]
    thin = session.createDataFrame(kept, ["v", "ill"])
    lesson, chosen = spark.teach(thin, LEARNER, np.array([0.1, 0.0, 0.0]), target="ill", budget=10)
    assert lesson.model.shape == (3,)
    assert chosen.count() == 10


def test_bad_tables_are_refused(session, frame):
    """Before anything is taught, in words that name column and row."""
    from pyspark.sql import functions

    def refused(kind, said, df=frame, **more):
        with pytest.raises(kind, match=said):
            spark.teach(df, LEARNER, GOAL, **{"target": "ill", "features": NAMES, **more})

    refused(DataError, "no target column 'il'; it has 'id'", target="il")
    refused(DataTypeError, "column 'town' has type string; features are numbers", features=None)
    refused(DataError, "no feature column 'x9'", features=["x9"])
    refused(SettingError, "privacy='dp'", privacy="dp", epsilon=1.0, budget=40)
    gap = functions.when(functions.col("id") == 7, None).otherwise(functions.col("x1"))
    refused(DataError, r"partition \d, column 'x1', row 7: the value is missing", frame.withColumn("x1", gap))
    hole = functions.when(functions.col("id") == 7, float("nan")).otherwise(functions.col("x1"))
    refused(DataError, r"column 'x1', row 7: Input contains NaN", frame.withColumn("x1", hole))


def test_the_command_with_one_core(table, oracle, tmp_path, settings):
    """`superteach teach --spark` in a process of its own: another number of executors, the same lesson."""
    (tmp_path / "goal.json").write_text(json.dumps(GOAL.tolist()), encoding="utf-8")
    options = (
        f"--target ill --features {','.join(NAMES)} --learner logistic --no-intercept --goal goal.json --budget 40"
    )
    command = [sys.executable, "-m", "superteach", "teach", "--spark", "local[1]", str(table), *options.split()]
    run = subprocess.run([*command, "--out", "out"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    stored = json.loads((tmp_path / "out/lesson.json").read_text())
    assert stored["risk"] == oracle[0].risk
    assert sorted(parquet.read_table(tmp_path / "out/chosen/rows.parquet")["id"].to_pylist()) == oracle[1]
    assert sum(entry["rows"] for entry in stored["files"]) == oracle[0].size
    assert (tmp_path / "out/report.html").exists()


CONNECTED = """
import json, sys
import numpy as np
from pyspark.sql import SparkSession
from sklearn.linear_model import LogisticRegression
from superteach import spark

session = SparkSession.builder.remote("local[2]").getOrCreate()
frame, names = session.read.parquet(sys.argv[1]), ["x0", "x1", "x2"]
found = []
for owner in (None, "town"):
    given = {"target": "ill", "features": names, "budget": 40, "owner": owner}
    lesson, chosen = spark.teach(frame, LogisticRegression(fit_intercept=False), np.array([0.6, -0.4, 0.2]), **given)
    found.append([lesson.model.tolist(), sorted(row.id for row in chosen.collect()), list(lesson.teachers)])
print(json.dumps(found))
session.stop()
"""


@pytest.mark.skipif(find_spec("grpc") is None, reason="Spark Connect is missing: pip install 'pyspark[connect]'")
def test_the_same_lesson_through_spark_connect(table, oracle, tmp_path, settings):
    """A server of its own on loopback, which this process starts and ends: no other interface may be listened on."""
    place = tmp_path / "conf"
    place.mkdir()
    lines = (settings / "spark-defaults.conf").read_text(encoding="utf-8")
    (place / "spark-defaults.conf").write_text(
        f"{lines}spark.connect.grpc.binding.address 127.0.0.1\n", encoding="utf-8"
    )
    run = subprocess.run(
        [sys.executable, "-c", CONNECTED, str(table)],
        cwd=tmp_path,
        env={**os.environ, "SPARK_CONF_DIR": str(place)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    alone, owned = json.loads(run.stdout.splitlines()[-1])
    assert alone[:2] == [oracle[0].model.tolist(), oracle[1]]
    assert owned[2] == [f"town {k}" for k in range(5)]
    assert abs(len(owned[1]) - 40) <= 5  # every owner rounds its own part of the count


def test_without_java_the_error_names_it(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(TeachingError, match="needs a Java virtual machine of version 17 or newer; there is no `java`"):
        spark.session("local[1]")

"""The engine for partitions without Spark: workers that come and go, as an orderly cluster never would have them."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression, Ridge

import superteach as st
from superteach.coordinator.teach import teach
from superteach.exceptions import DataError, MissingExtra, QueryRefused, TeachingError
from superteach.goals import PerturbedFit
from superteach.io.frames import PositiveLabel
from superteach.learner import Learner
from superteach.losses import LOSSES, Logistic
from superteach.protocol import wire
from superteach.protocol.partitions import Layout, Piece, Task
from superteach.protocol.queries import Census, Keep, Prepare
from superteach.spark import open_table, reason_of, session
from superteach.teacher.resident import Residence, check_taken, read_pieces
from tests.protocol.test_queries import asked_of, replies_to, talk_on

WIDTH = 3
NAMES = tuple(f"x{place}" for place in range(WIDTH))


class Town:
    """Workers that hold partitions; some are lost, some are not visited, and a partition is read by whoever is drawn."""

    def __init__(self, tables, workers=3, seed=0, lost=0.0, passed_by=0.0):
        self.tables, self.draw = tables, np.random.default_rng(seed)
        self.workers = [Residence() for _ in range(workers)]
        self.lost, self.passed_by = lost, passed_by
        self.reads, self.visits = 0, 0

    def visit(self, task):
        self.visits += 1
        for place in range(len(self.workers)):
            if self.draw.random() < self.lost:
                self.workers[place] = Residence()
        some = [one for one in self.workers if self.draw.random() >= self.passed_by]
        for worker in [*some, *some[:1]]:  # and one of them twice
            yield from list(worker.visit(task))

    def load(self, task):
        for partition, table in enumerate(self.tables):
            wanted = not task.homes or partition in task.homes
            self.reads += wanted
            worker = self.workers[self.draw.integers(len(self.workers))]
            # Partitions that are not wanted come without rows, to a worker that may hold them.
            yield from list(worker.load(task, partition, table.to_batches(max_chunksize=7) if wanted else []))


def tables_of(X, y, parts=4, **more):
    """The same rows as partitions of a table, one of them empty."""
    whole = pa.table({**{name: X[:, place] for place, name in enumerate(NAMES)}, "y": y, **more})
    cuts = [0, *(int(cut) for cut in np.linspace(0, len(y), parts + 1)[1:])]
    found = [whole.slice(start, stop - start) for start, stop in itertools.pairwise(cuts)]
    return [*found[:1], whole.slice(0, 0), *found[1:]], list(itertools.pairwise(cuts))


def opened(town, student, owner=None, most=None, costs=None):
    layout = Layout(NAMES, "y", owner, costs, student.loss.settings())
    return open_table(town, Task("lesson", layout, most), student)[0]


def in_process(X, y, parts):
    return st.Threads([st.Teacher(f"t{a}", X[a:b], y[a:b], np.arange(a, b)) for a, b in parts])


@pytest.mark.long(every=5)
@pytest.mark.parametrize("kind", sorted(LOSSES))
def test_every_query_has_the_same_sum_in_partitions(kind, pool):
    """Equal bits, also where workers are lost before questions, and some are passed by."""
    X, y = pool(kind, 120, WIDTH, 0)
    tables, parts = tables_of(X, y, 3)
    local = in_process(X, y, parts)
    towns = [Town(tables), Town(tables, seed=1, lost=0.05, passed_by=0.05)]
    engines = [opened(town, Learner(LOSSES[kind]())) for town in towns]
    for number, query in enumerate(talk_on(LOSSES[kind]()), 1):
        asked = asked_of(local, query)
        expected = replies_to(local, asked, number).tobytes()
        for engine in engines:
            assert replies_to(engine, asked, number).tobytes() == expected, asked.name
    assert towns[0].reads == len(tables)
    assert towns[1].reads > 2 * len(tables)


@pytest.mark.parametrize("how", [{"method": "match", "rounding": "alone"}, {"method": "dual"}], ids=str)
def test_the_same_lesson_in_partitions(how, pool):
    """Model, risk and chosen rows, whatever becomes of the workers."""
    X, y = pool("logistic", 200, WIDTH, 1)
    tables, parts = tables_of(X, y)
    local, student = in_process(X, y, parts), Learner(Logistic())
    expected = teach(st.Federation(local), student, PerturbedFit(3), budget=30, **how)
    rows = [np.sort(state.chosen).tolist() for state in local.states()]
    for town in (Town(tables, workers=1), Town(tables, seed=2, lost=0.1, passed_by=0.1)):
        engine = opened(town, student)
        found = teach(st.Federation(engine), student, PerturbedFit(3), budget=30, **how)
        assert found.model.tobytes() == expected.model.tobytes()
        assert (found.risk, found.size, found.path) == (expected.risk, expected.size, expected.path)
        assert [np.sort(chosen).tolist() for chosen in engine.chosen()[0]] == rows
        assert found.teachers == ("partition 0", "partition 2", "partition 3", "partition 4")


def test_an_undisturbed_lesson_reads_rows_once_and_a_lost_worker_costs_its_own(pool, monkeypatch):
    """Counted: partitions read, and answers of teachers. What is lost is read once and hears what it must remember."""
    X, y = pool("logistic", 240, WIDTH, 1)
    tables, parts = tables_of(X, y)
    student, goal = Learner(Logistic()), PerturbedFit(3)
    answers, answer = [], st.Teacher.answer
    monkeypatch.setattr(st.Teacher, "answer", lambda self, *given: (answers.append(given[0]), answer(self, *given))[1])
    town = Town(tables)
    calm = teach(st.Federation(opened(town, student)), student, goal, budget=30, rounding="alone")
    assert town.reads == len(tables)
    assert town.visits == calm.rounds
    assert len(answers) == calm.rounds * len(parts)

    answers.clear()
    town = Town(tables)
    engine = opened(town, student)
    kept = []

    def lose(entry):
        if entry.number <= calm.rounds // 2 and answers[-1].changes:
            kept.append(entry.query)
        if entry.number == calm.rounds // 2:
            town.workers[0] = Residence()

    other = teach(st.Federation(engine, lose), student, goal, budget=30, rounding="alone")
    assert other.model.tobytes() == calm.model.tobytes()
    assert 0 < engine.loads < len(parts)
    assert town.reads == len(tables) + engine.loads, "less than one pass"
    assert town.visits == calm.rounds + 1
    assert 1 <= len(kept) <= 4, kept
    assert len(answers) == calm.rounds * len(parts) + engine.loads * len(kept)


def test_owners_are_teachers_wherever_their_rows_are(pool):
    """Two cuts of one table into partitions that hold whole owners: one lesson, that of SuperTeacher on groups."""
    X, y = pool("logistic", 240, WIDTH, 1)
    owner = np.sort(np.arange(240) % 12)
    learner, goal = LogisticRegression(fit_intercept=False), np.array([0.5, -0.5, 0.2])
    expected = st.SuperTeacher(learner, goal, budget=30, rounding="alone").fit(X, y, groups=owner).lesson_
    whole = pa.table({**{name: X[:, k] for k, name in enumerate(NAMES)}, "y": y, "who": owner})
    for tables in ([whole], [whole.filter((owner % 3) == k) for k in range(3)]):
        town = Town(tables)
        student = Learner.of(learner)
        engine = opened(town, student, owner="who")
        found = teach(st.Federation(engine), student, goal, budget=30, rounding="alone")
        assert found.teachers == tuple(str(name) for name in range(12))
        assert found.model.tobytes() == expected.model.tobytes()


def test_little_memory_means_reading_again(pool):
    """A bound below one partition: every question reads all of them, and the lesson is the same."""
    X, y = pool("squared", 100, WIDTH, 1)
    tables, _ = tables_of(X, y)
    student = Learner.of(Ridge())
    rooms = [Town(tables, workers=1), Town(tables, workers=1)]
    lessons = [
        teach(st.Federation(opened(town, student, most=most)), student, PerturbedFit(0), budget=20, rounding="alone")
        for town, most in zip(rooms, (None, 1), strict=True)
    ]
    assert lessons[0].model.tobytes() == lessons[1].model.tobytes()
    assert rooms[0].reads == len(tables)
    assert rooms[1].reads > lessons[1].rounds


def test_a_question_that_is_refused_leaves_nothing_behind(pool):
    """The next question meets partitions as they were before."""
    X, y = pool("logistic", 60, WIDTH, 1)
    tables, parts = tables_of(X, y)
    engine, local = opened(Town(tables), Learner(Logistic())), in_process(X, y, parts)
    with pytest.raises(QueryRefused, match="teacher partition 0 refuses Keep: this query needs ranks"):
        engine.sum(Keep(bytes(16)), 1)
    for one in (engine, local):
        one.sum(Prepare(Logistic(), 0.0), 1)
    assert engine.sum(Census(), 2).tobytes() == local.sum(Census(), 2).tobytes()


def test_rows_that_change_are_noticed(pool):
    """Another order is a change too."""
    X, y = pool("logistic", 60, WIDTH, 1)
    tables, _ = tables_of(X, y)
    for changed in (tables[2].take(np.arange(tables[2].num_rows)[::-1]), tables[2].slice(1)):
        town = Town(list(tables))
        engine = opened(town, Learner(Logistic()))
        engine.sum(Prepare(Logistic(), 0.0), 1)
        town.workers, town.tables[2] = [Residence()], changed
        with pytest.raises(TeachingError, match="partition 2 has other rows, or the same in another order"):
            engine.sum(Census(), 2)
    town = Town(list(tables))
    engine = opened(town, Learner(Logistic()))
    town.workers, town.tables[2] = [Residence()], tables[1]
    with pytest.raises(TeachingError, match=r"did not answer: the table has other partitions than before"):
        engine.sum(Census(), 1)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("x1", np.nan, "teacher 'partition 2', column 'x1', row 4: Input contains NaN"),
        ("x1", None, "partition 2, column 'x1', row 4: the value is missing"),
        ("y", None, "partition 2, column 'y', row 4: the value is missing"),
        ("y", 0.5, "teacher 'partition 2' has continuous labels such as 0.5"),
        ("y", 3.0, "the labels have 3 classes"),
        ("y", np.nan, "partition 2, column 'y', row 4: the label is nan; drop or fill such rows first"),
    ],
)
def test_bad_rows_are_named_before_the_first_question(column, value, said, pool):
    X, y = pool("logistic", 60, WIDTH, 1)
    tables, _ = tables_of(X, y)
    values = tables[2][column].to_pylist()
    values[4] = value
    place = tables[2].schema.get_field_index(column)
    tables[2] = tables[2].set_column(place, column, pa.array(values, pa.float64()))
    with pytest.raises(DataError, match=said):
        opened(Town(tables), Learner(Logistic()))


@pytest.mark.parametrize("kind", ["text", "true or false", "numbers"])
def test_labels_of_any_kind_have_one_sign_in_all_partitions(kind, pool):
    """Also in partitions where one of both is missing: the sums are those of ±1 in one process."""
    X, y = pool("logistic", 120, WIDTH, 1)
    y = np.sort(y)
    labels = {"text": np.where(y > 0, "yes", "no"), "true or false": y > 0, "numbers": np.where(y > 0, 7.0, -3.0)}[kind]
    tables, parts = tables_of(X, labels)
    assert {len(np.unique(y[a:b])) for a, b in parts} == {1, 2}
    engine, local = opened(Town(tables), Learner(Logistic())), in_process(X, y, parts)
    assert engine.sum(Census(), 1).tobytes() == local.sum(Census(), 1).tobytes()
    found, expected = (
        teach(st.Federation(one), Learner(Logistic()), PerturbedFit(3), budget=20, rounding="alone")
        for one in (engine, local)
    )
    assert found.model.tobytes() == expected.model.tobytes()


def test_chosen_rows_with_another_label_are_refused(pool):
    X, y = pool("logistic", 60, WIDTH, 1)
    layout = Layout(NAMES, "y", None, None, Logistic().settings())
    table = tables_of(X, np.where(y > 0, 1.0, 5.0), 1)[0][0]
    with pytest.raises(DataError, match=r"label 5\.0 is none of '0\.0', '1\.0', on which all partitions agreed"):
        check_taken(table, layout, (0.0, 1.0), 0, 0)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("x1", None, "partition 3, column 'x1', row 24 (row group 2) of '{}': the value is missing; drop or fill"),
        ("x1", np.nan, "teacher 'partition 3', column 'x1', row 24 (row group 2) of '{}': Input contains NaN"),
        ("y", np.nan, "partition 3, column 'y', row 24 (row group 2) of '{}': the label is nan; drop or fill"),
        ("x2", "gone", "file '{}' has no column 'x2', which other files of the table have; write all files"),
    ],
)
def test_rows_of_files_are_named_by_file_and_row_group(column, value, said, pool, tmp_path):
    """A partition of the second half of one file and the first of another, where the fault is."""
    X, y = pool("logistic", 40, WIDTH, 1)
    whole = tables_of(X, y, 1)[0][0]
    parquet.write_table(whole, tmp_path / "a.parquet", row_group_size=10)
    if value == "gone":
        bad = whole.drop_columns([column])
    else:
        values = whole[column].to_pylist()
        values[24] = value
        bad = whole.set_column(whole.schema.get_field_index(column), column, pa.array(values, pa.float64()))
    parquet.write_table(bad, path := tmp_path / "b.parquet", row_group_size=10)
    pieces = [Piece(str(tmp_path / "a.parquet"), 20, 20), Piece(str(path), 0, 30)]
    layout = Layout(NAMES, "y", None, None, Logistic().settings())
    rows = read_pieces(pieces, {one.name: str(one.type) for one in whole.schema})
    told = list(Residence().load(Task("lesson", layout, None), 3, rows, pieces))
    facts = wire.read_reply(told[0].reply).facts
    assert facts["kind"] == "DataError"
    assert facts["error"].startswith(said.format(path))


def test_an_empty_table_is_refused(pool):
    X, y = pool("logistic", 60, WIDTH, 1)
    tables, _ = tables_of(X, y)
    with pytest.raises(DataError, match="the table has no rows"):
        opened(Town([tables[1]]), Learner(Logistic()))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "An error occurred while calling o7.count.\n: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] "
            "Encountered error while reading file file:///a/0.parquet.  SQLSTATE: KD001\n\tat java.lang.Thread.run",
            "Encountered error while reading file file:///a/0.parquet; write the table anew",
        ),
        (
            "a\nModuleNotFoundError: No module named 'superteach'\nb",
            "ModuleNotFoundError: No module named 'superteach'; supe",
        ),
        (
            "superteach.exceptions.DataError: partition 0 has other rows",
            "superteach.exceptions.DataError: partition 0 has other rows",
        ),
        ("", "RuntimeError"),
    ],
)
def test_errors_of_spark_are_told_by_their_reason(said, told):
    assert reason_of(RuntimeError(said)).startswith(told)


def test_without_pyspark_the_error_says_what_to_install(monkeypatch):
    for name in ("pyspark", "pyspark.sql"):  # the second where other tests have loaded it
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        MissingExtra, match=r"needs pyspark, which is not installed: run  pip install 'superteach\[spark\]'"
    ):
        session("local[1]")


@pytest.mark.parametrize("order", ["as they come", "sorted"])
def test_the_smaller_label_may_be_the_positive_one(pool, order):
    """Partitions with both labels, and with one of them alone."""
    X, y = pool("logistic", 120, WIDTH, 3)
    if order == "sorted":
        X, y = X[np.argsort(y, kind="stable")], np.sort(y)
    tables, parts = tables_of(X, y)
    student, goal = Learner(Logistic()), np.ones(WIDTH)
    layout = Layout(NAMES, "y", None, None, student.loss.settings())
    engine, classes, _ = open_table(Town(tables), Task("lesson", layout, None), student, PositiveLabel(-1))
    np.testing.assert_array_equal(classes, [1.0, -1.0])
    expected = teach(st.Federation(in_process(X, -y, parts)), student, goal, budget=30, method="dual")
    found = teach(st.Federation(engine), student, goal, budget=30, method="dual", classes=classes)
    np.testing.assert_array_equal(found.model, expected.model)
    assert found.positive == -1.0

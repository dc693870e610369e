"""Rows that stay on disk, by the command line and by SuperTeacher: the lesson of rows in memory, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from superteach import SuperTeacher
from superteach.datasets import make_classification_pool
from superteach.exceptions import DataError, DataTypeError, SettingError
from superteach.goals import PerturbedFit
from superteach.losses import Logistic
from superteach.teacher import large
from tests.end_to_end.orders import assert_refused, command, run
from tests.end_to_end.terminal import Terminal

USUAL = ["--target", "y", "--learner", "logistic", "--goal", "perturbed", "--no-intercept", "--budget", "60"]
ROWS, SPLITS = 3000, (700, 1000, 2200)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """A pool of 3,000 rows has six parts."""
    monkeypatch.setattr(large, "PART", 500)
    monkeypatch.setattr(large, "_LEAST_PART", 500)
    monkeypatch.setattr(large, "_BATCH", 170)


def rows_of(kind: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = make_classification_pool(ROWS, 4, 3, random_state=1)
    return X.astype(kind), y


def write(folder: Path, change=lambda number, columns: columns, kind: type = np.float32) -> Path:
    """Four files with row groups of 250, a column that nobody asks for, and files of Spark's that hold no rows."""
    X, y = rows_of(kind)
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(np.split(np.arange(ROWS), SPLITS)):
        columns = {**{f"x{k}": X[rows, k] for k in range(4)}, "note": ["-"] * len(rows), "y": y[rows]}
        table = pa.table(change(number, columns))
        pyarrow.parquet.write_table(table, folder / f"part-{number}.parquet", row_group_size=250)
    (folder / "_SUCCESS").write_text("")
    (folder / "_metadata.parquet").write_text("no rows")
    return folder


def groups_of(counts) -> np.ndarray:
    return np.repeat(np.arange(len(counts)), counts)


FEATURES = ["--features", "x0,x1,x2,x3"]


def test_the_command_gives_the_lesson_of_rows_in_memory(tmp_path):
    """Model, chosen rows and mask, against SuperTeacher on the same parts; other columns are not read."""
    folder = write(tmp_path / "big")
    result = run("teach", folder, *USUAL, *FEATURES, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "Rows stayed on disk" in result.stdout
    stored = json.loads((tmp_path / "out" / "lesson.json").read_text())
    counts = [entry["held"] for entry in stored["files"]]
    assert len(counts) == 6
    assert min(counts) >= 250
    X, y = rows_of()
    model = SuperTeacher(LogisticRegression(fit_intercept=False), PerturbedFit(0), budget=60, rounding="alone")
    model.fit(X, y, groups=groups_of(counts))
    assert stored["model"]["coef"] == model.coef_[0].tolist()
    chosen = pyarrow.parquet.read_table(tmp_path / "out" / "chosen.parquet")
    ends = dict(zip([str(folder / f"part-{k}.parquet") for k in range(4)], (0, *SPLITS), strict=True))
    where = [ends[file] + row for file, row in zip(chosen["file"].to_pylist(), chosen["row"].to_pylist(), strict=True)]
    np.testing.assert_array_equal(where, model.sample_indices_)
    np.testing.assert_array_equal(chosen["x2"].to_numpy(), X[where, 2])
    masks = [pyarrow.parquet.read_table(tmp_path / "out" / entry["mask"])["chosen"] for entry in stored["tables"]]
    np.testing.assert_array_equal(np.flatnonzero(np.concatenate([one.to_numpy() for one in masks])), where)
    assert sorted(os.listdir(folder)) == ["_SUCCESS", "_metadata.parquet", *(f"part-{k}.parquet" for k in range(4))]
    assert sorted(os.listdir(tmp_path)) == ["big", "out"]
    again = run("teach", folder, *USUAL, *FEATURES, "--out", tmp_path / "out", "--overwrite")
    assert again.exit_code == 0, again.output


@pytest.mark.long(every=3)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_estimator_on_files_datasets_and_mapped_arrays(kind, tmp_path, monkeypatch):
    folder = write(tmp_path / "big", lambda number, columns: {k: v for k, v in columns.items() if k != "note"}, kind)
    X, y = rows_of(kind)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "F.npy", np.asfortranarray(X))
    monkeypatch.setattr(large, "LARGE", 0.0)

    def model():
        return SuperTeacher(LogisticRegression(), PerturbedFit(0), budget=60, rounding="alone")

    one = model().fit(str(folder), "y")
    dataset = pyarrow.dataset.dataset([str(path) for path in sorted(folder.glob("part-*"))])
    other = model().fit(dataset, "y")
    mapped = [model().fit(np.load(tmp_path / name, mmap_mode="r"), y) for name in ("X.npy", "F.npy")]
    parts = large.ParquetTable(sorted(folder.glob("part*")), "y").put_away(Logistic()).counts
    for found in (one, other, *mapped):
        near = model().fit(X, y, groups=groups_of([500] * 6 if found in mapped else parts))
        assert found.coef_.tobytes() == near.coef_.tobytes()
        np.testing.assert_array_equal(found.sample_indices_, near.sample_indices_)
        assert found.sample_indices_.dtype == np.int64
        assert found.predict(X[:3]).shape == (3,)
    assert one.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    with pytest.raises(DataError, match="sample_indices_"):
        model().fit_resample(dataset, "y")


def test_a_mapped_array_that_is_small_is_taught_from_in_memory(tmp_path):
    X, y = rows_of()
    np.save(tmp_path / "X.npy", X)
    taught = SuperTeacher(Ridge(), np.ones(5), budget=50).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    assert taught.teachers_.tolist() == ["all rows"]


def test_costs_and_numbers_as_targets(tmp_path):
    folder = write(tmp_path / "big")
    order = ["--target", "x3", "--learner", "ridge", "--goal", "perturbed", "--budget", "60", "--costs", "y"]
    result = run("teach", folder, *order, "--features", "x0,x1", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["cost"] is not None


def nan_in(number, columns):
    if number == 2:
        columns["x1"] = columns["x1"].copy()
        columns["x1"][901] = np.nan
    return columns


def fewer(number, columns):
    return {name: one for name, one in columns.items() if number != 3 or name != "x2"}


def text(number, columns):
    return columns if number != 1 else {**columns, "x1": ["much"] * len(columns["y"])}


def three(number, columns):
    return {**columns, "y": np.where(np.arange(len(columns["y"])) == 5, 7, columns["y"])} if number == 3 else columns


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (nan_in, ("part-2.parquet", "column 'x1'", "row 901 (row group 3)", "NaN")),
        (fewer, ("part-3.parquet", "has no feature column 'x2'")),
        (text, ("part-1.parquet", "column 'x1' has type string (such as 'much')")),
        (three, ("3 classes (0, 1, 7)",)),
    ],
)
def test_bad_rows_are_named_with_their_place(change, words, tmp_path):
    folder = write(tmp_path / "big", change)
    assert_refused(run("teach", folder, *USUAL, *FEATURES, "--out", tmp_path / "out"), *words)
    assert os.listdir(tmp_path) == ["big"]


def test_what_cannot_be_on_disk_is_refused(tmp_path):
    folder = write(tmp_path / "big")
    out = ["--out", tmp_path / "out"]
    (tmp_path / "none").mkdir()
    assert_refused(run("teach", tmp_path / "none", *USUAL, *out), "holds no Parquet file")
    assert_refused(run("teach", folder, *USUAL, *out, "--owner", "note"), "--owner 'note'", "one owner")
    assert_refused(
        run("teach", folder, *USUAL, *FEATURES, *out, "--privacy", "isolated", "--budget", "50"), "isolated", "on disk"
    )
    assert_refused(run("teach", folder, *USUAL, *FEATURES, *out, "--resume"), "no unfinished lesson")
    assert_refused(run("teach", folder, *USUAL, *FEATURES, *out, "--cache", tmp_path / "nowhere"), "nowhere", "--cache")
    (tmp_path / "rows.csv").write_text("x,y\n1,0\n")
    assert_refused(run("teach", tmp_path / "rows.csv", *USUAL, *out, "--out-of-core"), "rows.csv", "Parquet alone")
    with pytest.raises(DataTypeError, match="name of the target column"):
        SuperTeacher().fit(str(folder), np.zeros(3))
    with pytest.raises(DataError, match="groups must be None"):
        SuperTeacher().fit(str(folder), "y", groups=np.zeros(3))


def test_a_disk_without_room_is_named_before_anything_is_written(tmp_path, monkeypatch):
    folder = write(tmp_path / "big")
    monkeypatch.setattr(large.shutil, "disk_usage", lambda place: type("Usage", (), {"free": 1000})())
    with pytest.raises(SettingError, match=r"needs [0-9.,]+ MB, and .* has 0\.0 MB left; name another folder"):
        large.ParquetTable(large.parquet_files(folder), "y", ["x0"]).put_away(Logistic())


@pytest.mark.parametrize("what", ["vanishes", "changes"])
@pytest.mark.parametrize("when", ["before it is read", "before its chosen rows are"])
def test_a_file_that_is_not_what_it_was(what, when, tmp_path, monkeypatch):
    folder = write(tmp_path / "big")
    last = folder / "part-3.parquet"

    def disturb():
        if what == "vanishes":
            last.unlink(missing_ok=True)
        else:
            os.utime(last, (1, 1))

    spot = "find_classes" if when == "before it is read" else "put_away"
    honest = getattr(large.ParquetTable, spot)

    def meanwhile(self, *given):
        found = honest(self, *given)
        disturb()
        return found

    monkeypatch.setattr(large.ParquetTable, spot, meanwhile)
    result = run("teach", folder, *USUAL, *FEATURES, "--out", tmp_path / "out")
    seen = "is gone" if what == "vanishes" else "has changed"
    assert_refused(result, "part-3.parquet", seen, "row groups")
    assert not (tmp_path / "out").exists()


def test_the_rule_by_size(tmp_path, monkeypatch):
    """Parquet files go to disk when they are large for the memory that is free, or when told."""
    folder = write(tmp_path / "big")
    files = [folder / f"part-{k}.parquet" for k in range(4)]
    order = [*USUAL, *FEATURES, "--json", "--overwrite", "--out", tmp_path / "out"]
    teachers = {}
    told = [("small", 1.0, []), ("large", 0.0, []), ("told", 1.0, ["--out-of-core"]), ("not", 0.0, ["--in-memory"])]
    for name, share, flag in told:
        monkeypatch.setattr(large, "LARGE", share)
        teachers[name] = json.loads(run("teach", *files, *order, *flag).stdout)["teachers"]
    assert teachers["small"] == teachers["not"] == [f"part-{k}" for k in range(4)]
    assert teachers["large"] == teachers["told"]
    assert len(teachers["told"]) == 6


SLOWLY = (
    "import sys, time\nfrom superteach.teacher import large, paged\nlarge.PART = large._LEAST_PART = 500\n"
    "answer = paged.Paged.answer\n"
    "def slowly(self, *given):\n    time.sleep(0.02)\n    return answer(self, *given)\n"
    "paged.Paged.answer = slowly\nfrom superteach.cli import main\nmain()"
)


@pytest.mark.slow
def test_a_lesson_that_was_interrupted_goes_on(tmp_path):
    """Ctrl-C in mid-lesson leaves a journal alone; --resume ends in the lesson of an undisturbed run."""
    folder = write(tmp_path / "big")
    order = ["teach", folder, *USUAL, *FEATURES, "--out", tmp_path / "out"]
    journal = tmp_path / ".out.unfinished"
    process = subprocess.Popen(
        [*command()[:1], "-c", SLOWLY, *map(str, order)], stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    end = time.monotonic() + 120
    while time.monotonic() < end and not (journal.exists() and len(journal.read_bytes().splitlines()) > 12):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "repeat the command with --resume" in told
    assert sorted(os.listdir(tmp_path)) == [".out.unfinished", "big"]
    kept = len(journal.read_bytes().splitlines()) - 1
    assert_refused(run(*order, "--resume", "--seed", "5"), "another one")
    resumed = run(*order, "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert kept >= 12
    assert not journal.exists()
    whole = run(*order[:-1], tmp_path / "whole")
    assert whole.exit_code == 0
    one, other = (json.loads((tmp_path / name / "lesson.json").read_text()) for name in ("out", "whole"))
    assert one["model"] == other["model"]
    assert (tmp_path / "out" / "chosen.parquet").read_bytes() == (tmp_path / "whole" / "chosen.parquet").read_bytes()


@pytest.mark.slow
def test_a_result_that_finds_no_room_is_not_half_written(tmp_path):
    """A limit on file sizes stands in for a full disk while chosen rows are written."""
    folder = write(tmp_path / "big")
    script = (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "import importlib\nfrom superteach.cli import main\n"
        "module = importlib.import_module('superteach.cli.teach')\nhonest = module.write_large\n"
        "def full(*given, **named):\n    resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))\n"
        "    return honest(*given, **named)\nmodule.write_large = full\nmain()"
    )
    order = ["teach", folder, *USUAL, *FEATURES, "--out", tmp_path / "out"]
    told = subprocess.run(
        [*command()[:1], "-c", script, *map(str, order)], capture_output=True, text=True, cwd=tmp_path
    )
    assert told.returncode == 1, told.stderr
    assert "the chosen rows cannot be written" in told.stderr
    assert len(told.stderr.splitlines()) == 1
    assert sorted(os.listdir(tmp_path)) == [".out.unfinished", "big"]


@pytest.mark.slow
def test_progress_on_a_terminal_and_none_in_a_pipe(tmp_path):
    folder = write(tmp_path / "big")
    order = ["teach", folder, *USUAL, *FEATURES, "--out", "out"]
    with Terminal([*command()[:1], "-c", SLOWLY, *map(str, order)], tmp_path) as person:
        person.until("rows/s")
        assert person.status() == 0, person.text
    assert "left of this pass" in person.text
    quiet = subprocess.run(command(*order, "--overwrite"), capture_output=True, text=True, cwd=tmp_path)
    assert quiet.returncode == 0
    assert quiet.stderr == ""

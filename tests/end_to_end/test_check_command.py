"""`superteach check`: sound lessons pass, and whatever is forged in one is found, or was never vouched for."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from superteach import checker, verify
from superteach.cli import app

COLUMNS = ["age", "dose <mg>", "marker"]


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def rows_of(kind: str, seed: int = 0) -> pd.DataFrame:
    """150 rows of two owners, with a target of the kind that a learner takes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((150, 3)) * [1.0, 20.0, 0.5] + [0.0, 100.0, 0.0]
    score = (X - [0.0, 100.0, 0.0]) @ [1.0, 0.03, -1.0] + rng.standard_normal(150)
    targets = {
        "labels": np.where(score > 0.0, "yes", "no"),
        "three": np.array(["a", "b", "c"])[np.digitize(score, [-0.7, 0.7])],
        "numbers": score,
        "counts": rng.poisson(np.exp(0.3 * score)),
        "dummies": (score > 0.0).astype(int),
    }
    table = pd.DataFrame(X, columns=COLUMNS)
    if kind == "dummies":  # they add up to the intercept
        table = table.assign(red=np.arange(150) % 3 == 0, blue=np.arange(150) % 3 == 1, green=np.arange(150) % 3 == 2)
        table = table.astype(float)
    return table.assign(
        y=targets[kind], owner=np.where(np.arange(150) < 90, "north", "south"), price=np.arange(150) % 7
    )


FAR = "far.json"
"""A goal that few rows cannot teach, in raw units."""
ORDERS = [
    ("logistic", "labels", FAR, ["--C", "0.1"]),
    ("logistic", "labels", FAR, ["--no-intercept", "--measure", "coefficients"]),
    ("logistic", "labels", FAR, ["--standardize", "--positive", "no", "--measure", "coefficients"]),
    # Goals of several classes come from no file: one perturbed by its own length is out of reach of so few rows.
    ("logistic", "three", "perturbed", ["--standardize", "--C", "0.01"]),
    ("ridge", "numbers", FAR, ["--standardize"]),
    ("ridge", "numbers", FAR, ["--no-intercept"]),
    ("svc", "labels", FAR, ["--standardize"]),
    ("poisson", "counts", FAR, ["--standardize", "--alpha", "5"]),
    ("huber", "numbers", FAR, ["--standardize"]),
    ("svc", "three", "perturbed", ["--no-intercept"]),
    ("logistic", "labels", "without:age,marker", ["--standardize"]),
    ("logistic", "labels", "from-data:other.csv", []),
    ("logistic", "labels", "model.json", ["--positive", "no"]),
    ("logistic", "labels", "numbers.npy", ["--no-intercept"]),
    ("logistic", "labels", "max-auc", ["--standardize"]),
    ("logistic", "dummies", "shifted.json", []),
    ("logistic", "dummies", "without:red", ["--costs", "price"]),
    ("ridge", "numbers", "perturbed", ["--method", "dual", "--goal-seed", "3"]),
    ("ridge", "numbers", "without:age", []),
    ("ridge", "numbers", "from-data:other.csv", ["--standardize"]),
]


def goal_files(folder: Path, kind: str, intercept: bool) -> None:
    """Every file that an order names as its goal."""
    coef = np.array([4.0, -0.2, 5.0]) * (0.3 if kind == "counts" else 1.0)
    far: dict[str, Any] = {"columns": COLUMNS, "coef": coef.tolist()}
    if intercept:
        far["intercept"] = float(-coef @ [0.0, 100.0, 0.0])
    if kind == "labels":
        far["classes"] = ["no", "yes"]
    model = {"coef": {"marker": -1.0, "age": 0.5, "dose <mg>": 0.01}, "intercept": -0.8, "positive": "yes"}
    shifted = {
        "columns": [*COLUMNS, "red", "blue", "green"],
        "coef": [0.9, 0.02, -0.7, 5.0, 5.1, 4.9],
        "intercept": -7.0,
    }
    for name, stored in {
        FAR: far,
        "model.json": {**model, "learner": {"name": "logistic"}},
        "shifted.json": shifted,
    }.items():
        (folder / name).write_text(json.dumps(stored))
    np.save(folder / "numbers.npy", [0.5, 0.004, -0.5])
    rows_of(kind, seed=1).to_csv(folder / "other.csv", index=False)


def taught(folder: Path, learner: str, kind: str, goal: str, more: list[str]) -> Path:
    """A lesson of 20 rows, in `out` beside its tables."""
    rows_of(kind).to_csv(folder / "pool.csv", index=False)
    goal_files(folder, kind, "--no-intercept" not in more)
    name, colon, rest = goal.partition(":")
    asked = (
        goal if name in ("perturbed", "without", "max-auc") else f"{name}:{folder / rest}" if colon else folder / goal
    )
    order = ["teach", folder / "pool.csv", "--target", "y", "--owner", "owner", "--learner", learner, "--goal", asked]
    result = run(
        *order, "--features", ",".join(rows_of(kind).columns[:-3]), "--budget", "20", "--out", folder / "out", *more
    )
    assert result.exit_code == 0, result.output
    return folder / "out"


@pytest.fixture(scope="module")
def lesson_of(tmp_path_factory) -> Callable[..., Path]:
    """Every sound lesson, taught once."""
    known: dict[str, Path] = {}

    def lesson(order: Any) -> Path:
        if str(order) not in known:
            known[str(order)] = taught(tmp_path_factory.mktemp("sound"), *order)
        return known[str(order)]

    return lesson


def name_of(value: Any) -> str:
    return " ".join([*value[:3], *value[3]]) if isinstance(value, tuple) else getattr(value, "__name__", str(value))


@pytest.mark.long(every=4)
@pytest.mark.parametrize("order", ORDERS, ids=name_of)
def test_sound_lessons_pass(order, lesson_of):
    """Every learner and every goal of the command line: all statements hold, and proofs where goals are out of reach."""
    out = lesson_of(order)
    stored = json.loads((out / "lesson.json").read_text())
    result = run("check", out)
    assert result.exit_code == 0, result.output
    assert "FAILS" not in result.output
    if order[2] == FAR or order[1] == "three":
        assert stored["certificate"] is not None
        assert stored["lower_bound"] > 0.0
        confirmed = float(re.search(r"confirmed to ([\d.e+-]+)\)", result.output)[1])
        assert confirmed >= 0.9 * stored["lower_bound"] * (1.0 - 1e-3)
    page = (out / "check.html").read_text()
    assert page.count(">holds<") == result.output.count("holds:")
    assert "not checked: the goal" not in result.output
    assert (stored["unseen_directions"] > 0) == (order[1] == "dummies")


def change(out: Path, name: str, forge: Callable[[Any], None]) -> None:
    """Forge one file of JSON."""
    stored = json.loads((out / name).read_text())
    forge(stored)
    (out / name).write_text(json.dumps(stored))


def in_model(**entries: Callable[[Any], Any]) -> Callable[[Path], None]:
    return lambda out: change(
        out, "model.json", lambda stored: stored.update({k: f(stored[k]) for k, f in entries.items()})
    )


def in_lesson(**entries: Callable[[Any], Any]) -> Callable[[Path], None]:
    return lambda out: change(
        out, "lesson.json", lambda stored: stored.update({k: f(stored[k]) for k, f in entries.items()})
    )


def other_row(out: Path) -> None:
    """Swap one chosen row for another one of the same owner."""
    place = next(one for one in sorted((out / "chosen").iterdir()) if one.read_text().count("\n") > 1)
    numbers = place.read_text().split()[1:]
    own = range(90) if "north" in place.name else range(90, 150)
    numbers[0] = str(next(row for row in own if str(row) not in numbers))
    place.write_text("row\n" + "\n".join(numbers) + "\n")


def first_of(value: Any) -> Any:
    """Move the first number of a list, or of its first list."""
    return [first_of(value[0]), *value[1:]] if isinstance(value, list) else value * 1.001 + 1e-3


NINE = {
    "a coefficient of model.json": (in_model(coef=first_of), "coef"),
    "columns reversed": (in_model(columns=lambda value: value[::-1]), "columns"),
    "no model.json": (lambda out: (out / "model.json").unlink(), "model.json"),
    "the positive label flipped": (in_model(positive=lambda value: "no" if value == "yes" else "yes"), "positive"),
    "agreement": (in_lesson(agreement=lambda value: value + 0.01 * (1 - 2 * (value > 0.5))), "stated agreement"),
    "agreement of all rows": (in_lesson(pool_agreement=lambda value: value - 0.01), "stated pool agreement"),
    "a tenth of the risk": (in_lesson(risk=lambda value: value / 10.0), "stated risk"),
    "a bound without its certificate": (
        in_lesson(certificate=lambda _: None, lower_bound=lambda _: 0.3),
        "lower bound",
    ),
    "a chosen row swapped": (other_row, "own fit on the chosen rows"),
}
MORE = {
    "both positive labels flipped": (
        lambda out: [
            each(positive=lambda value: "no" if value == "yes" else "yes")(out) for each in (in_model, in_lesson)
        ],
        "positive label",
    ),
    "another C": (in_model(learner=lambda value: {**value, "C": 3.0}), "learner"),
    "a bound raised": (in_lesson(lower_bound=lambda value: 3.0 * value), "comes nearer than"),
    "the direction of a proof": (
        in_lesson(certificate=lambda one: one | {"direction": [-1.0, *one["direction"][1:]]}),
        "exactly",
    ),
    "the margin of a proof": (in_lesson(certificate=lambda one: one | {"margin": 2.0 * one["margin"]}), "exactly"),
    "the number of rows": (in_lesson(size=lambda value: value + 1), "rows are there"),
    "an owner's rows": (in_lesson(files=lambda all: [all[0] | {"held": 80}, all[1] | {"held": 70}]), "rows are there"),
    "owners exchanged": (in_lesson(teachers=lambda value: value[::-1]), "rows are there"),
    "the goal's name": (in_lesson(goal_in_words=lambda _: "without sex"), "the goal is"),
    "the goal": (in_lesson(goal=first_of), "the goal is"),
    "lesson and goal alike": (
        in_lesson(goal=first_of, model=lambda one: one | {"coef": first_of(one["coef"])}),
        "own fit",
    ),
}


def test_entries_that_no_model_has_are_named(lesson_of, tmp_path):
    """What is written into model.json beside a lesson's entries is not taken for checked."""
    out = copied(lesson_of(ORDERS[0]), tmp_path)
    in_model(learner=lambda value: value | {"weights": 2})(out)
    change(out, "model.json", lambda stored: stored.update(scale=2.0))
    named = [one.what for one in verify.check(out) if one.word == "not checked"]
    assert "model.json: learner.weights, scale" in named


def test_directions_that_no_row_sees_cannot_be_hidden(lesson_of, tmp_path):
    """A goal that was moved was moved along some."""
    order = next(one for one in ORDERS if one[2] == "shifted.json")
    out = copied(lesson_of(order), tmp_path)
    in_lesson(unseen_directions=lambda value: 0 * value)(out)
    assert_found(out, "unseen directions", tmp_path)


@pytest.mark.parametrize("far", [0.0, 1e6])
def test_a_huber_fit_ends_however_far_its_targets_are_from_0(far, tmp_path):
    """Rounding errors of large targets once kept its weights changing for good."""
    g = np.random.default_rng(0)
    X = g.standard_normal((300, 2))
    y = X @ [1.0, -0.5] + 0.5 * g.standard_t(2, 300) + far
    pd.DataFrame(X, columns=["a", "b"]).assign(y=y).to_csv(tmp_path / "pool.csv", index=False)
    (tmp_path / "goal.json").write_text(json.dumps({"a": 1.2, "b": -0.4, "intercept": far + 0.1}))
    order = ["teach", tmp_path / "pool.csv", "--target", "y", "--learner", "huber", "--goal", tmp_path / "goal.json"]
    result = run(*order, "--budget", "30", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    result = run("check", tmp_path / "out")
    assert result.exit_code == 0, result.output


def test_a_list_without_rows_is_read_in_silence(lesson_of, tmp_path, recwarn):
    """An owner of whom nothing was chosen has a list that holds a header alone."""
    out = copied(lesson_of(ORDERS[0]), tmp_path)
    next((out / "chosen").iterdir()).write_text("row\n")
    verify.check(out)
    assert not recwarn.list


def copied(out: Path, folder: Path) -> Path:
    return Path(shutil.copytree(out, folder / "out"))


def assert_found(out: Path, words: str, folder: Path) -> None:
    """Exit status, screen and page all say that it fails, and name the statement."""
    result = run("check", out, "--page", folder / "page.html")
    assert result.exit_code == 1, result.output
    failed = [line for line in result.output.splitlines() if line.startswith("FAILS: ")]
    assert any(words in line for line in failed[:-1]), failed
    assert re.fullmatch(
        rf"FAILS: the lesson \({len(failed) - 1} of \d+ statements that were checked fail\)", failed[-1]
    )
    assert 'class="fails">FAILS<' in (folder / "page.html").read_text()


@pytest.mark.long(every=10)
@pytest.mark.parametrize("forgery", NINE)
@pytest.mark.parametrize("order", ORDERS, ids=name_of)
def test_nine_forgeries_are_found_in_every_lesson(order, forgery, lesson_of, tmp_path):
    """Of nine, nine: for all learners and goals."""
    if "positive" in forgery and order[1] != "labels":
        pytest.skip("there is no positive label that is text")
    out = copied(lesson_of(order), tmp_path)
    forge, words = NINE[forgery]
    forge(out)
    assert_found(out, words, tmp_path)


@pytest.mark.parametrize("forgery", MORE)
def test_other_forgeries_are_found(forgery, lesson_of, tmp_path):
    """Whatever else a lesson states, by one example each."""
    out = copied(lesson_of(ORDERS[0]), tmp_path)
    forge, words = MORE[forgery]
    forge(out)
    assert_found(out, words, tmp_path)


def leaves(stored: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All numbers, words, truth values and nulls of an object of JSON."""
    inner = stored.items() if isinstance(stored, dict) else enumerate(stored) if isinstance(stored, list) else None
    if inner is None:
        yield path
    for key, value in inner or ():
        yield from leaves(value, (*path, key))


def forged(stored: Any, path: tuple[Any, ...]) -> Any:
    """The same object with another value in one place."""
    if not path:
        if isinstance(stored, str) or stored is None:
            return f"{stored}x"
        return not stored if isinstance(stored, bool) else type(stored)(stored * 1.5 + 1)
    changed = stored.copy()
    changed[path[0]] = forged(stored[path[0]], path[1:])
    return changed


@pytest.mark.long(every=4)
@pytest.mark.parametrize("order", [ORDERS[0], ORDERS[3], ORDERS[4], ORDERS[16]], ids=name_of)
def test_every_entry_is_checked_or_named(order, lesson_of, tmp_path):
    """Each number and word of lesson.json and model.json: a forged one fails, or its entry is named as not checked."""
    out = copied(lesson_of(order), tmp_path)
    files = {name: json.loads((out / name).read_text()) for name in ("lesson.json", "model.json")}
    unchecked = [one.what for one in verify.check(out) if one.word == "not checked"]
    entries = next(one for one in unchecked if one.startswith("lesson.json: "))[len("lesson.json: ") :].split(", ")
    missed, tried = [], 0
    for name, stored in files.items():
        for path in leaves(stored):
            if name == "lesson.json" and {path[0], ".".join(map(str, path[:2]))} & set(entries):
                continue
            (out / name).write_text(json.dumps(forged(stored, path)))
            try:
                found = verify.check(out)
                more = {one.what for one in found if one.word == "not checked"} - set(unchecked)
                missed += [] if found[-1].word == "FAILS" or more else [(name, path)]
            except verify.CannotCheck:
                pass
            tried += 1
        (out / name).write_text(json.dumps(stored))
    assert tried > 50
    assert missed == []


def test_without_its_tables_a_lesson_is_checked_in_part(lesson_of, tmp_path, monkeypatch):
    """What needs rows is named as not checked, entry by entry; what does not is looked at all the same."""
    out = copied(lesson_of(ORDERS[0]), tmp_path)
    change(out, "lesson.json", lambda stored: [one.update(file="gone.csv") for one in stored["files"]])
    result = run("check", out)
    assert result.exit_code == 0, result.output
    named = next(line for line in result.output.splitlines() if line.startswith("not checked: lesson.json: "))
    assert {"agreement", "pool_agreement", "certificate", "lower_bound", "goal", "model", "size"} <= set(
        re.findall(r"\w+", named)
    )
    assert "not checked: all that needs rows (there is no 'gone.csv'" in result.output
    in_model(coef=first_of)(out)
    assert_found(out, "coef", tmp_path)


def test_tables_that_are_named_are_read_wherever_they_lie(lesson_of, tmp_path):
    """A lesson of other places: the receiver's own tables and goal file, by their names."""
    lesson = lesson_of(ORDERS[11])
    out = copied(lesson, tmp_path)
    change(out, "lesson.json", lambda stored: [one.update(file="/gone/pool.csv") for one in stored["files"]])
    result = run("check", out, "--rows", lesson.parent / "pool.csv")
    assert result.exit_code == 0, result.output
    (tmp_path / "mine").mkdir()
    rows_of("labels", seed=2).to_csv(tmp_path / "mine" / "other.csv", index=False)
    result = run("check", out, "--rows", lesson.parent / "pool.csv", "--rows", tmp_path / "mine" / "other.csv")
    assert result.exit_code == 1
    assert "FAILS: the goal is 'fit on " in result.output


def test_a_report_says_when_by_what_and_of_which_bytes(lesson_of, tmp_path):
    """Date, versions and the digest of every file, on screen and page; the verdict has a colour on a terminal alone."""
    out = copied(lesson_of(ORDERS[0]), tmp_path)
    result = run("check", out)
    page = (out / "check.html").read_text()
    read = [out / "lesson.json", out / "model.json", *sorted((out / "chosen").iterdir()), Path(verify.__file__)]
    for text in (result.output, page):
        assert re.search(r"out.*\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, by scikit-learn \d.*NumPy \d.*superteach \d", text)
        for place in [*read, Path(checker.__file__)]:
            assert hashlib.sha256(place.read_bytes()).hexdigest() in text
    assert f"not checked: {out / 'report.html'} (" in result.output
    assert "\033" not in result.output


def test_two_files_alone_check_a_lesson(lesson_of, tmp_path):
    """verify.py and checker.py in a folder of their own, in an interpreter that cannot find superteach."""
    lesson = lesson_of(ORDERS[0])
    out = copied(lesson, tmp_path)
    for module in (verify, checker):
        shutil.copy(module.__file__, tmp_path)
    # An environment with superteach installed finds it through a hook or a path: both are taken away.
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['superteach'] = None\n")

    def alone() -> subprocess.CompletedProcess[str]:
        order = [sys.executable, "verify.py", "out", str(lesson.parent / "pool.csv"), str(lesson.parent / FAR)]
        return subprocess.run(order, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)

    sound = alone()
    assert sound.returncode == 0, sound.stdout + sound.stderr
    assert sound.stdout.splitlines()[-1].startswith("holds: the lesson (0 of ")
    in_lesson(agreement=lambda value: value - 0.01)(out)
    assert alone().returncode == 1
    (out / "lesson.json").unlink()
    broken = alone()
    assert (broken.returncode, broken.stderr.count("\n")) == (2, 1)
    assert "lesson.json" in broken.stderr


def test_verify_imports_nothing_that_makes_lessons():
    """Of superteach, `verify` brings in `checker` alone."""
    order = "import sys, superteach.verify; print(*sorted(m for m in sys.modules if m.startswith('superteach')))"
    seen = subprocess.run([sys.executable, "-c", order], capture_output=True, text=True, check=True).stdout.split()
    assert seen == ["superteach", "superteach.checker", "superteach.verify"]


def test_a_page_states_no_more_than_was_confirmed(lesson_of, tmp_path):
    """A bound that is a little too high: what holds is the bound that the checker comes to, not the one stated."""
    out = copied(lesson_of(ORDERS[0]), tmp_path)
    sound = json.loads((out / "lesson.json").read_text())["lower_bound"]
    in_lesson(lower_bound=lambda value: 1.05 * value)(out)
    result = run("check", out)
    held = [line for line in result.output.splitlines() if line.startswith("holds: no such lesson")]
    assert all(float(re.search(r"nearer than ([\d.e+-]+)", line)[1]) <= 1.001 * sound for line in held)
    assert held or result.exit_code == 1


def test_other_rows_are_refused_with_a_sentence(lesson_of, tmp_path):
    """Another name, a column less, too few rows, a foreign label, a missing number, a folder without a lesson."""
    lesson = lesson_of(ORDERS[0])
    table = pd.read_csv(lesson.parent / "pool.csv")
    other = tmp_path / "pool.csv"
    cases = {
        "has no column 'marker'": table.drop(columns="marker"),
        "rows; give the file": table.iloc[:30],
        "the target holds 'maybe'": table.assign(y=["maybe", *table.y[1:]]),
        "lacks a number in column 'age'": table.assign(age=[np.nan, *table.age[1:]]),
    }
    for words, rows in cases.items():
        rows.to_csv(other, index=False)
        result = run("check", lesson, "--rows", other, "--page", tmp_path / "page.html")
        assert (result.exit_code, words in result.output) == (2, True), result.output
    change(
        copied(lesson, tmp_path), "lesson.json", lambda stored: [one.update(file="gone.csv") for one in stored["files"]]
    )
    result = run("check", tmp_path / "out", "--rows", other)
    assert (result.exit_code, "gone.csv" in result.output) == (2, True)
    for folder, rows in ((tmp_path, ()), (lesson, ("--rows", tmp_path / "nothing" / "pool.csv"))):
        assert run("check", folder, *rows).exit_code == 2


def test_a_terminal_shows_failure_in_another_colour():
    """Colours are beside words, never in their place."""
    lines = [verify.Finding(word, "it", "so").line(True) for word in ("holds", "FAILS", "not checked")]
    assert len({re.findall("\033.*?m", line)[0] for line in lines}) == 3
    assert [re.sub("\033.*?m", "", line) for line in lines] == [
        "holds: it (so)",
        "FAILS: it (so)",
        "not checked: it (so)",
    ]


def test_files_in_another_encoding_are_read_as_they_were_taught(tmp_path):
    """Labels of Latin-1 are known again, and the positive one is said."""
    table = rows_of("labels").replace({"y": {"yes": "já", "no": "não"}})
    table.to_csv(tmp_path / "pool.csv", index=False, encoding="latin-1")
    order = ["teach", tmp_path / "pool.csv", "--target", "y", "--owner", "owner", "--learner", "logistic"]
    order += ["--goal", "perturbed", "--budget", "20", "--encoding", "latin-1", "--out", tmp_path / "out"]
    assert run(*order).exit_code == 0
    result = run("check", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "the positive label is the last one (não)" in result.output
    assert "não" in (tmp_path / "out" / "check.html").read_text()

"""`superteach check`: sound lessons pass, and whatever is changed in one is noticed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from superteach.cli import app
from superteach.cli.check import Finding


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
    }
    table = pd.DataFrame(X, columns=["age", "dose <mg>", "marker"])
    return table.assign(y=targets[kind], owner=np.where(np.arange(150) < 90, "north", "south"))


ORDERS = [
    ("logistic", "labels", ["--C", "0.1"]),
    ("logistic", "labels", ["--no-intercept", "--measure", "coefficients"]),
    ("logistic", "labels", ["--standardize", "--positive", "no", "--measure", "coefficients"]),
    ("logistic", "three", ["--standardize", "--C", "0.01"]),
    ("ridge", "numbers", ["--standardize"]),
    ("ridge", "numbers", ["--no-intercept"]),
    ("svc", "labels", ["--standardize"]),
    ("poisson", "counts", ["--standardize", "--alpha", "5"]),
    ("huber", "numbers", ["--standardize"]),
]


def far_goal(folder: Path, kind: str, intercept: bool) -> Path:
    """A goal that few rows cannot teach, in raw units."""
    coef = np.array([4.0, -0.2, 5.0]) * (0.3 if kind == "counts" else 1.0)
    stored: dict[str, Any] = {"columns": ["age", "dose <mg>", "marker"], "coef": coef.tolist()}
    if intercept:
        stored["intercept"] = float(-coef @ [0.0, 100.0, 0.0])
    if kind == "labels":
        stored["classes"] = ["no", "yes"]
    place = folder / "goal.json"
    place.write_text(json.dumps(stored))
    return place


def taught(folder: Path, learner: str, kind: str, more: list[str]) -> Path:
    """A lesson of 20 rows for a goal out of reach."""
    rows_of(kind).to_csv(folder / "pool.csv", index=False)
    # Goals of several classes come from no file: one perturbed by its own length is out of reach of so few rows.
    goal = "perturbed" if kind == "three" else far_goal(folder, kind, "--no-intercept" not in more)
    order = ["teach", folder / "pool.csv", "--target", "y", "--owner", "owner", "--learner", learner, "--goal", goal]
    result = run(*order, "--budget", "20", "--out", folder / "out", *more)
    assert result.exit_code == 0, result.output
    return folder / "out"


@pytest.mark.parametrize(
    ("learner", "kind", "more"), ORDERS, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_sound_lessons_pass(learner, kind, more, tmp_path):
    """Every learner that the command line teaches: all statements hold, a proof among them."""
    out = taught(tmp_path, learner, kind, more)
    stored = json.loads((out / "lesson.json").read_text())
    result = run("check", out)
    assert result.exit_code == 0, result.output
    assert "FAIL" not in result.output
    assert stored["certificate"] is not None
    assert stored["lower_bound"] > 0.0
    confirmed = float(re.search(r"confirmed to ([\d.e+-]+)\)", result.output)[1])
    assert confirmed >= 0.9 * stored["lower_bound"] * (1.0 - 1e-3)
    assert ("scikit-learn has no such learner" in result.output) == (learner == "huber")
    page = (out / "check.html").read_text()
    assert page.count(">holds<") == result.output.count("holds:")


@pytest.fixture(scope="module")
def lesson(tmp_path_factory) -> Path:
    """One sound lesson, to be copied and changed."""
    return taught(tmp_path_factory.mktemp("sound"), "logistic", "labels", ["--standardize"])


def changed_model(stored: dict[str, Any]) -> None:
    stored["model"]["coef"][0] += 1e-3


def changed_bound(stored: dict[str, Any]) -> None:
    stored["lower_bound"] = 0.5 * (stored["lower_bound"] + 3.0 * stored["prediction_distance"])


def changed_direction(stored: dict[str, Any]) -> None:
    stored["certificate"]["direction"][0] *= -1.0
    stored["certificate"]["direction"][1] *= -1.0


def changed_size(stored: dict[str, Any]) -> None:
    stored["size"] += 1


def changed_risk(stored: dict[str, Any]) -> None:
    stored["risk"] *= 0.9


CHANGES = {
    changed_model: "gives the model",
    changed_bound: "comes nearer than",
    changed_direction: "teach the goal exactly",
    changed_size: "rows are there",
    changed_risk: "stated risk",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_is_changed_in_a_lesson_is_noticed(change, lesson, tmp_path):
    """A model, a bound, a direction, a size or a risk that is not the lesson's own."""
    out = tmp_path / "out"
    shutil.copytree(lesson, out)
    stored = json.loads((out / "lesson.json").read_text())
    change(stored)
    (out / "lesson.json").write_text(json.dumps(stored))
    result = run("check", out, "--rows", lesson.parent / "pool.csv", "--page", tmp_path / "page.html")
    assert result.exit_code == 1, result.output
    failed = [line for line in result.output.splitlines() if line.startswith("FAILS")]
    assert any(CHANGES[change] in line for line in failed), failed
    assert "FAILS" in (tmp_path / "page.html").read_text()
    assert not (out / "check.html").exists()


def test_a_page_states_no_more_than_was_confirmed(lesson, tmp_path):
    """A bound that is a little too high: what holds is the bound that the checker comes to, not the one stated."""
    out = tmp_path / "out"
    shutil.copytree(lesson, out)
    stored = json.loads((out / "lesson.json").read_text())
    sound, stored["lower_bound"] = stored["lower_bound"], 1.05 * stored["lower_bound"]
    (out / "lesson.json").write_text(json.dumps(stored))
    result = run("check", out, "--rows", lesson.parent / "pool.csv")
    held = [line for line in result.output.splitlines() if line.startswith("holds: no such lesson")]
    assert all(float(re.search(r"nearer than ([\d.e+-]+)", line)[1]) <= 1.001 * sound for line in held)
    assert held or result.exit_code == 1


def test_another_chosen_row_is_noticed(lesson, tmp_path):
    """One number of a chosen row changed: the fit gives another model."""
    out = tmp_path / "out"
    shutil.copytree(lesson, out)
    place = next(one for one in sorted((out / "chosen").iterdir()) if one.read_text().count("\n") > 1)
    numbers = place.read_text().split()[1:]
    taken = set(map(int, numbers))
    numbers[0] = str(next(row for row in range(90 if "north" in place.name else 150) if row not in taken))
    place.write_text("row\n" + "\n".join(numbers) + "\n")
    result = run("check", out)
    assert result.exit_code == 1
    assert re.search(r"FAILS: scikit-learn's own fit", result.output)


def test_other_rows_are_refused_with_a_sentence(lesson, tmp_path):
    """Another name, a column less, too few rows, a foreign label, a missing number, a folder without a lesson."""
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
    other.rename(tmp_path / "else.csv")
    result = run("check", lesson, "--rows", tmp_path / "else.csv")
    assert result.exit_code == 2
    assert "pool.csv" in result.output
    assert run("check", tmp_path).exit_code == 2
    assert run("check", lesson, "--rows", tmp_path / "nothing" / "pool.csv").exit_code == 2


def test_verdicts_have_one_word():
    """What could not be looked at neither holds nor fails."""
    assert [Finding("", holds, "").word for holds in (True, False, None)] == ["holds", "FAILS", "not checked"]


def test_files_in_another_encoding_are_read_as_they_were_taught(tmp_path):
    """Labels of Latin-1 are known again, and the positive one is said."""
    table = rows_of("labels").replace({"y": {"yes": "já", "no": "não"}})
    table.to_csv(tmp_path / "pool.csv", index=False, encoding="latin-1")
    order = ["teach", tmp_path / "pool.csv", "--target", "y", "--owner", "owner", "--learner", "logistic"]
    order += ["--goal", "perturbed", "--budget", "20", "--encoding", "latin-1", "--out", tmp_path / "out"]
    assert run(*order).exit_code == 0
    result = run("check", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "The positive label is 'não'" in result.output
    assert "positive label" in (tmp_path / "out" / "check.html").read_text()

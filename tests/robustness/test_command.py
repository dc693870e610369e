"""`superteach drop`: a table in, an answer, a folder with the report; wrong options end with one sentence and status 2."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from typer.testing import CliRunner

from superteach import drop
from superteach.cli import app


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((150, 2)), columns=["age", "dose"])
    frame["price"] = 0.5 * frame.age + frame.dose + rng.standard_normal(150)
    frame["sold"] = np.where(frame.price > 0.0, "yes", "no")
    frame["town"] = rng.choice(["A", "B", "C", "D"], 150)
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path, pd.read_csv(path)


def run(*words):
    return CliRunner().invoke(app, ["drop", *map(str, words)])


def test_the_folder_holds_report_figure_and_rows(table, tmp_path):
    path, frame = table
    out = tmp_path / "out"
    words = (path, "--target", "price", "--features", "age,dose", "--coefficient", "age", "--out", out)
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    expected = drop(frame[["age", "dose"]], frame.price, LinearRegression(), coefficient="age")
    stored = json.loads((out / "drop.json").read_text())
    assert stored["found"] == len(expected.rows)
    assert stored["proved"] == expected.least
    assert pd.read_csv(out / "rows.csv").row.tolist() == stored["rows"] == expected.rows.tolist()
    assert len(stored["path"]) == stored["found"]
    page = (out / "report.html").read_text()
    assert "How few rows carry a finding" in page
    assert "<svg" in page
    assert (out / "figures" / "path.png").read_bytes().startswith(b"\x89PNG")
    assert run(*words).exit_code == 2
    assert run(*words, "--overwrite").exit_code == 0


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("--past", "0.05"), {"value": 0.05}),
        (("--learner", "ridge", "--alpha", "2"), {}),
        (("--significance", "0.2"), {"significance": 0.2}),
        (
            ("--significance", "0.2", "--standard-errors", "clustered", "--groups", "town"),
            {"significance": 0.2, "standard_errors": "clustered", "groups": "town"},
        ),
    ],
)
def test_options_mean_what_python_means(table, words, given):
    from sklearn.linear_model import Ridge

    path, frame = table
    result = run(path, "--target", "price", "--features", "age,dose", "--coefficient", "age", "--json", *words)
    assert result.exit_code == 0, result.output
    if "groups" in given:
        given = given | {"groups": frame[given["groups"]]}
    learner = Ridge(2.0) if "ridge" in words else LinearRegression()
    expected = drop(frame[["age", "dose"]], frame.price, learner, coefficient="age", **given)
    assert json.loads(result.stdout)["rows"] == expected.rows.tolist()


def test_two_classes_are_taken_for_labels(table):
    path, frame = table
    result = run(path, "--target", "sold", "--features", "age,dose", "--coefficient", "age", "--json")
    expected = drop(frame[["age", "dose"]], frame.sold, LogisticRegression(), coefficient="age")
    assert json.loads(result.stdout)["rows"] == expected.rows.tolist()


def test_groups_are_no_feature(table, tmp_path):
    """Without a list of features every column is one, but for target and groups; a number of a town is no measurement."""
    _, frame = table
    numbered = frame[["age", "price"]].assign(town=frame.town.map(ord))
    numbered.to_csv(tmp_path / "numbered.csv", index=False)
    words = ("--target", "price", "--coefficient", "age", "--significance", "0.2", "--standard-errors", "clustered")
    result = run(tmp_path / "numbered.csv", *words, "--groups", "town")
    assert result.exit_code == 0, result.output
    assert "there is no proof for this question" in result.stdout
    given = {"significance": 0.2, "standard_errors": "clustered", "groups": frame.town}
    expected = drop(numbered[["age"]], frame.price, LinearRegression(), coefficient="age", **given)
    assert expected.sentence() in result.stdout


def test_votes(tmp_path):
    rng = np.random.default_rng(0)
    names = np.array(["Ann", "Ben", "Cem"])
    pairs = np.array([rng.permutation(3)[:2] for _ in range(90)])
    path = tmp_path / "votes.csv"
    pd.DataFrame(names[pairs], columns=["won", "lost"]).to_csv(path, index=False)
    result = run(path, "--winner", "won", "--loser", "lost")
    assert result.exit_code == 0, result.output
    assert "takes the first place from" in result.stdout


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ((), ("--target", "--coefficient")),
        (("--target", "price"), ("--coefficient",)),
        (("--target", "price", "--coefficient", "age", "--past", "1", "--significance", "0.1"), ("--past",)),
        (("--target", "price", "--coefficient", "age", "--features", "age", "--groups", "town"), ("significance",)),
        (("--target", "price", "--coefficient", "age", "--learner", "linear", "--alpha", "1"), ("--alpha",)),
        (("--target", "price", "--coefficient", "age", "--C", "1"), ("--C",)),
        (("--target", "price", "--coefficient", "ag", "--features", "age,dose"), ("--coefficient ag", "'age'")),
        (("--target", "price", "--coefficient", "age", "--learner", "tree"), ("tree",)),
        (
            ("--target", "price", "--coefficient", "age", "--features", "age,dose", "--significance", "2"),
            ("--significance 2",),
        ),
        (("--target", "cost", "--coefficient", "age"), ("'cost'",)),
        (("--winner", "town"), ("--loser",)),
        (("--winner", "town", "--loser", "town"), ("row 0",)),
        (("--winner", "town", "--loser", "city"), ("'city'",)),
        (("--winner", "town", "--loser", "sold", "--target", "price"), ("--target",)),
    ],
)
def test_wrong_options(table, words, fields):
    result = run(table[0], *words)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert all(field in result.stderr for field in fields), result.stderr


def test_a_file_that_is_not_there(tmp_path):
    result = run(tmp_path / "none.csv", "--target", "y", "--coefficient", "x")
    assert result.exit_code == 2
    assert "none.csv" in result.stderr


def test_the_positive_label_is_said(table, tmp_path):
    path, _ = table
    words = (path, "--target", "sold", "--features", "age,dose", "--coefficient", "age", "--seconds", "0")
    result = run(*words, "--out", tmp_path / "out")
    assert "positive label" in result.stdout
    assert "yes" in result.stdout
    assert json.loads((tmp_path / "out" / "drop.json").read_text())["positive"] == "yes"
    assert "positive label" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("target", ["price", "sold"])
def test_no_intercept_holds_for_the_default_learner(table, target):
    path, frame = table
    words = (path, "--target", target, "--features", "age,dose", "--coefficient", "age", "--seconds", "0", "--json")
    result = run(*words, "--no-intercept")
    kind = LogisticRegression if target == "sold" else LinearRegression
    learner = kind(fit_intercept=False)
    expected = drop(frame[["age", "dose"]], frame[target], learner, coefficient="age", seconds=0.0)
    assert json.loads(result.stdout)["before"] == pytest.approx(expected.before, rel=1e-9)


def test_the_encoding_holds_for_every_column(table, tmp_path):
    _, frame = table
    path = tmp_path / "latin.csv"
    frame.replace({"sold": {"yes": "já", "no": "não"}}).to_csv(path, index=False, encoding="latin-1")
    words = (path, "--target", "sold", "--features", "age,dose", "--coefficient", "age", "--seconds", "0")
    result = run(*words, "--encoding", "latin-1")
    assert result.exit_code == 0, result.output
    assert "não" in result.stdout


def test_groups_of_text_are_no_feature(table):
    """Clusters by a column of text, without a list of features."""
    path, frame = table
    words = (path, "--target", "price", "--coefficient", "age", "--groups", "town", "--significance", "0.2")
    place = path.parent / "numbers.csv"
    frame.drop(columns="sold").to_csv(place, index=False)
    result = run(place, *words[1:], "--standard-errors", "clustered", "--json", "--seconds", "0")
    assert result.exit_code == 0, result.output
    expected = drop(
        frame[["age", "dose"]], frame.price, LinearRegression(), coefficient="age", significance=0.2,
        standard_errors="clustered", groups=frame.town, seconds=0.0,
    )  # fmt: skip
    assert json.loads(result.stdout)["rows"] == expected.rows.tolist()

"""Every goal says what it is called, and lesson, file, page, notebook and screen all say the same."""

from __future__ import annotations

import json
from html import escape

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from typer.testing import CliRunner

from superteach import Lesson, SuperTeacher
from superteach.cli import app
from superteach.goals import FromData, MaxAUC, PerturbedFit, Within, Without
from superteach.goals.base import in_words


def table_of(rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 3))
    y = np.where(X @ [1.0, -1.0, 0.5] + rng.standard_normal(rows) > 0.0, "yes", "no")
    return pd.DataFrame(X, columns=["age", "sex", "income"]).assign(y=y)


TABLE = table_of()
X, Y = TABLE.drop(columns="y"), TABLE.y
FITTED = LogisticRegression().fit(X, Y)
BY_NAME = {"age": 1.0, "sex": -1.0, "income": 0.5, "intercept": 0.0}


class Mine:
    """A goal of somebody else's, without words."""

    def vector(self, problem):
        return np.array([1.0, -1.0, 0.5, 0.0])


CASES = [
    (Without("sex"), "without sex"),
    (Without("sex", 2), "without sex, 2"),
    (PerturbedFit(3), "fit on all rows, perturbed (seed 3)"),
    (MaxAUC(), "largest AUC"),
    (MaxAUC(0.5), "largest AUC, ridge 0.5"),
    (FromData(X, Y), "fit on 120 × 3 numbers given"),
    (FromData(X, Y, name="other.csv"), "fit on other.csv"),
    (Within(at_least={"income": 0}), "within: income at least 0"),
    (
        Within(at_most={"age": 2.5}, equal=[["sex", "income"]], near=([1.0, -1.0, 0.5, 0.0], 3.0)),
        "within: age at most 2.5; sex = income; predictions at most 3 from those of a model given",
    ),
    (Mine(), "a goal of class Mine"),
    (FITTED, "model given (LogisticRegression)"),
    (make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y), "model given (LogisticRegression)"),
    ([1.0, -1.0, 0.5, 0.0], "coefficients given"),
    (np.array([1.0, -1.0, 0.5, 0.0]), "coefficients given"),
    (pd.Series([1.0, -1.0, 0.5, 0.0]), "coefficients given"),
    (BY_NAME, "coefficients given by column"),
    (pd.Series(BY_NAME), "coefficients given by column"),
]


@pytest.mark.parametrize(("goal", "words"), CASES, ids=[words for _, words in CASES])
def test_a_lesson_says_what_was_asked_for(goal, words, tmp_path):
    """The same words in the lesson, its file, its line, its page and in a notebook."""
    lesson = SuperTeacher(LogisticRegression(), goal, budget=40).fit(X, Y, groups=np.arange(120) % 2).lesson_
    assert in_words(goal) == lesson.goal_in_words == words
    lesson.save(tmp_path)
    lesson.report(tmp_path)
    assert json.loads((tmp_path / "lesson.json").read_text())["goal_in_words"] == words
    assert Lesson.load(tmp_path).goal_in_words == words
    assert f"goal '{words[:60]}" in repr(lesson)
    assert f"<strong>{escape(words)}</strong>" in (tmp_path / "report.html").read_text()
    assert escape(words) in lesson._repr_html_()


def test_a_goal_behind_transformers_keeps_the_words_of_the_table():
    """`without` names the column of the table, not its dummies."""
    table = X.assign(sex=np.where(X.sex > 0.0, "f", "m"))
    learner = make_pipeline(OneHotEncoder(sparse_output=False), LogisticRegression())
    teacher = SuperTeacher(learner, Without("sex"), budget=40).fit(
        table[["sex", "age"]].round(0), Y, groups=np.arange(120) % 2
    )
    assert teacher.lesson_.goal_in_words == "without sex"


@pytest.mark.parametrize("privacy", ["none", "isolated"])
@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ("without:sex,age", "without sex, age"),
        ("perturbed", "fit on all rows, perturbed (seed 0)"),
        ("max-auc", "largest AUC"),
        ("from-data:pool.csv", "fit on pool.csv"),
        ("goal.json", "coefficients of goal.json"),
        ("first/model.json", "model of first/model.json (logistic)"),
        ("goal.npy", "coefficients of goal.npy"),
    ],
)
def test_the_command_line_says_it_too(goal, words, privacy, tmp_path, monkeypatch):
    """From a name, from rows, from files; on the screen and in the folder."""
    if privacy == "isolated" and goal in ("without:sex,age", "perturbed", "max-auc"):
        pytest.skip("private modes take no goal that is fitted on the owners' rows")
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("pool.csv", index=False)
    (tmp_path / "first").mkdir()
    model = {"columns": ["age", "sex", "income"], "coef": [1.0, -1.0, 0.5], "intercept": 0.0}
    (tmp_path / "first" / "model.json").write_text(json.dumps(model | {"learner": {"name": "logistic", "C": 1.0}}))
    (tmp_path / "goal.json").write_text(json.dumps(model))
    np.save("goal.npy", [1.0, -1.0, 0.5, 0.0])
    order = ["teach", "pool.csv", "--target", "y", "--learner", "logistic", "--budget", "40", "--out", "out"]
    result = CliRunner().invoke(app, [*order, "--goal", goal, "--privacy", privacy])
    assert result.exit_code == 0, result.output
    assert f"Goal: {words}." in result.output
    assert json.loads((tmp_path / "out" / "lesson.json").read_text())["goal_in_words"] == words
    assert f"<strong>{words}</strong>" in (tmp_path / "out" / "report.html").read_text()

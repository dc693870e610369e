"""The command line from the outside: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import chdir
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from superteach import Federation, Lesson, SuperTeacher, Threads, teach
from superteach.datasets import make_classification_pool, make_regression_pool
from superteach.goals import MaxAUC, PerturbedFit
from superteach.io.validation import Part, make_teachers
from superteach.local import draw_rows
from superteach.losses import Logistic
from tests.end_to_end.orders import (
    COLUMNS,
    OWNERS,
    USUAL,
    assert_refused,
    contents,
    files_of,
    run,
    without_times,
)


def test_files_owner_column_and_direct_call_give_one_lesson(pool: Path, tmp_path: Path) -> None:
    by_file = run("teach", *files_of(pool), *USUAL, "--budget", "0.1", "--out", tmp_path / "files", "--json")
    order = ["--owner", "site", *USUAL, "--budget", "60", "--out", tmp_path / "owner", "--json"]
    by_owner = run("teach", pool / "pool.parquet", *order)
    assert by_file.exit_code == by_owner.exit_code == 0, by_file.output + by_owner.output
    first, second = json.loads(by_file.stdout), json.loads(by_owner.stdout)
    assert by_file.stderr == ""

    table = pyarrow.parquet.read_table(pool / "pool.parquet").to_pandas()
    parts = [
        Part(name, own[COLUMNS].to_numpy(), own["label"].to_numpy(), own.index.to_numpy())
        for name, own in table.groupby("site")
    ]
    teachers, _ = make_teachers(parts, COLUMNS, Logistic())
    engine = Threads(teachers)
    learner = LogisticRegression(fit_intercept=False)
    direct = teach(Federation(engine), learner, PerturbedFit(0), budget=60)
    for stored in (first, second):
        np.testing.assert_allclose(stored["model"]["coef"], direct.coef, rtol=0, atol=1e-12)
        assert stored["size"] == direct.size == 60
        assert stored["risk"] == pytest.approx(direct.risk)
        assert stored["teachers"] == OWNERS
    own = [np.loadtxt(tmp_path / "files" / "chosen" / f"{name}.csv", dtype=int, skiprows=1, ndmin=1) for name in OWNERS]
    for rows, state in zip(own, engine.states(), strict=True):
        np.testing.assert_array_equal(rows, np.sort(state.chosen))
    shared = [
        np.loadtxt(tmp_path / "owner" / "chosen" / f"{name}.csv", dtype=int, skiprows=1, ndmin=1) for name in OWNERS
    ]
    for name, rows, in_pool in zip(OWNERS, own, shared, strict=True):
        here = pyarrow.csv.read_csv(pool / f"{name}.csv").to_pandas()
        np.testing.assert_array_equal(here[COLUMNS].to_numpy()[rows], table[COLUMNS].to_numpy()[in_pool])


@pytest.mark.long(every=4)
@pytest.mark.parametrize("standardize", [False, True])
def test_refitting_on_the_chosen_rows_gives_the_written_model(pool: Path, tmp_path: Path, standardize: bool) -> None:
    out = tmp_path / "out"
    arguments = [*USUAL[:-1], "--C", "0.5", "--out", out] + ["--standardize"] * standardize
    result = run("teach", *files_of(pool), *arguments)
    assert result.exit_code == 0, result.output
    model = json.loads((out / "model.json").read_text())
    assert model["columns"] == COLUMNS
    assert model["classes"] == [0, 1]
    assert model["learner"] == {"name": "logistic", "C": 0.5, "fit_intercept": True}
    lesson = json.loads((out / "lesson.json").read_text())
    X, y = [], []
    for entry in lesson["files"]:
        table = pyarrow.csv.read_csv(entry["file"]).to_pandas()
        rows = np.loadtxt(out / entry["chosen"], dtype=int, skiprows=1, ndmin=1)
        assert len(rows) == entry["rows"]
        X.append(table[COLUMNS].to_numpy()[rows])
        y.append(table["label"].to_numpy()[rows])
    everything = pyarrow.parquet.read_table(pool / "pool.parquet").to_pandas()[COLUMNS].to_numpy()
    centre, scale = (everything.mean(axis=0), everything.std(axis=0)) if standardize else (0.0, 1.0)
    refit = LogisticRegression(C=0.5, tol=1e-12, max_iter=10_000).fit(
        (np.concatenate(X) - centre) / scale, np.concatenate(y)
    )
    coef = refit.coef_[0] / scale
    np.testing.assert_allclose(model["coef"], coef, atol=1e-6)
    assert model["intercept"] == pytest.approx(refit.intercept_[0] - np.sum(coef * centre), abs=1e-6)


def test_result_is_shown_written_and_loadable(pool: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    result = run("teach", *files_of(pool), *USUAL, "--budget", "30", "--out", out)
    assert result.exit_code == 0, result.output
    assert "Trained on 30 of 600 rows (5 %)" in result.stdout
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    assert sorted(os.listdir(out)) == ["chosen", "lesson.json", "model.json", "report.html"]
    assert sorted(os.listdir(out / "chosen")) == [f"{name}.csv" for name in OWNERS]
    assert os.listdir(tmp_path / "deep") == ["out"]
    assert Lesson.load(out / "lesson.json").size == 30


def test_random_rows_are_drawn_twenty_times_beside_the_lesson(pool: Path, tmp_path: Path) -> None:
    """Over the rows of all files in their order, as scikit-learn fits them; not in a private mode."""
    order = ["teach", *files_of(pool), "--target", "label", "--learner", "logistic", "--no-intercept", "--budget", "30"]
    (tmp_path / "goal.json").write_text(json.dumps(goal := [1.0] * len(COLUMNS)))
    shown = run(*order, "--goal", tmp_path / "goal.json", "--out", tmp_path / "out")
    assert shown.exit_code == 0, shown.output
    drawn = json.loads((tmp_path / "out" / "lesson.json").read_text())["random_rows"]
    rows = np.concatenate([np.loadtxt(file, delimiter=",", skiprows=1) for file in files_of(pool)])
    fits = (rows[draw_rows(600, 30, 0, number)] for number in range(20))
    own = LogisticRegression(fit_intercept=False, tol=1e-10)
    risks = [np.linalg.norm(own.fit(some[:, :-1], some[:, -1]).coef_[0] - goal) for some in fits]
    np.testing.assert_allclose(drawn["risk"], risks, rtol=1e-5)
    mean, least, most = (f"{100 * one(drawn['agreement']):.1f}" for one in (np.mean, min, max))
    assert f"random rows   mean {mean} %  {least} to {most} % in 20 draws" in shown.stdout
    assert "in 20 draws" in (tmp_path / "out" / "report.html").read_text()
    order += ["--goal", tmp_path / "goal.json", "--out", tmp_path / "private"]
    shown = run(*order, "--privacy", "isolated", "--measured")
    assert shown.exit_code == 0, shown.output
    assert "random rows" not in shown.stdout
    for name in ("lesson.json", "measured.json"):
        assert json.loads((tmp_path / "private" / name).read_text())["random_rows"] is None


def test_a_written_model_is_a_goal(pool: Path, tmp_path: Path) -> None:
    assert run("teach", *files_of(pool), *USUAL, "--out", tmp_path / "first").exit_code == 0
    goal = tmp_path / "first" / "model.json"
    arguments = ["--target", "label", "--learner", "logistic", "--no-intercept", "--goal", goal]
    again = run("teach", *files_of(pool), *arguments, "--out", tmp_path / "second", "--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["goal"] == json.loads(goal.read_text())["coef"]
    ridge = [*files_of(pool), "--target", "label", "--learner", "ridge", "--no-intercept", "--goal", "perturbed"]
    assert run("teach", *ridge, "--out", tmp_path / "ridge").exit_code == 0
    assert_refused(
        run("teach", *files_of(pool), *arguments[:-1], tmp_path / "ridge" / "model.json", "--out", tmp_path / "third"),
        "is a regression", "decides at a score of 0",
    )  # fmt: skip


@pytest.fixture
def clinics(tmp_path: Path) -> list[str]:
    """Two files with labels in words: scikit-learn's positive label is 'control'."""
    X, y, _ = make_classification_pool(400, 3, 2, 0)
    words = np.where(y > 0, "case", "control")
    for name, part in (("north", slice(200)), ("south", slice(200, None))):
        columns = {column: X[part, place] for place, column in enumerate(("age", "dose", "marker"))}
        pyarrow.csv.write_csv(pyarrow.table({**columns, "ill": words[part]}), tmp_path / f"{name}.csv")
    return [str(tmp_path / f"{name}.csv") for name in ("north", "south")]


def test_the_positive_label_is_chosen_and_said(clinics: list[str], tmp_path: Path) -> None:
    """By --positive or by the goal file; where neither names one a line says which was taken."""
    coef = {"age": 1.0, "dose": -1.0, "marker": 0.5}
    for name, more in (("plain", {}), ("named", {"positive": "case"})):
        (tmp_path / f"{name}.json").write_text(json.dumps({"coef": coef, "intercept": 0.2, **more}))
    usual = ["teach", *clinics, "--target", "ill", "--learner", "logistic", "--budget", "40", "--overwrite"]
    taught = {}
    for case, order in {
        "default": ["--goal", tmp_path / "plain.json"],
        "chosen": ["--goal", tmp_path / "plain.json", "--positive", "case"],
        "named": ["--goal", tmp_path / "named.json"],
        "both": ["--goal", tmp_path / "named.json", "--positive", "control"],
    }.items():
        result = run(*usual, *order, "--out", tmp_path / "out")
        assert result.exit_code == 0, result.output
        taught[case] = json.loads((tmp_path / "out" / "lesson.json").read_text())
        label = "case" if case in ("chosen", "named") else "control"
        assert (
            taught[case]["positive"] == json.loads((tmp_path / "out" / "model.json").read_text())["positive"] == label
        )
        assert re.search(rf"positive label\s+{label}\b", result.stdout)
        assert ("does not name its positive label: 'control' was taken" in result.stdout) == (case == "default")
        assert f"<strong>{label}</strong>" in (tmp_path / "out" / "report.html").read_text()
    wanted = [1.0, -1.0, 0.5, 0.2]
    assert taught["default"]["goal"] == taught["chosen"]["goal"] == taught["named"]["goal"] == wanted
    assert taught["both"]["goal"] == [-number for number in wanted]
    np.testing.assert_allclose(taught["chosen"]["pool_model"], np.negative(taught["default"]["pool_model"]), atol=1e-8)
    assert taught["both"]["risk"] == pytest.approx(taught["named"]["risk"], rel=1e-6)
    rehearsed = run(*usual, "--goal", tmp_path / "named.json", "--out", tmp_path / "dry", "--dry-run", "--json")
    assert json.loads(rehearsed.stdout)["positive"] == "case"
    wrong = ["--goal", tmp_path / "plain.json", "--positive", "cas", "--out", tmp_path / "wrong"]
    assert_refused(run(*usual, *wrong), "--positive", "did you mean 'case'")


def test_a_goal_without_a_column(clinics: list[str], tmp_path: Path) -> None:
    """It is scikit-learn's fit on the files without that column."""
    usual = ["teach", *clinics, "--target", "ill", "--learner", "logistic", "--budget", "40", "--json"]
    result = run(*usual, "--goal", "without:dose,marker", "--out", tmp_path / "out")
    table = pyarrow.concat_tables([pyarrow.csv.read_csv(name) for name in clinics]).to_pandas()
    fitted = LogisticRegression(tol=1e-12, max_iter=10_000).fit(table[["age"]], table["ill"])
    expected = [fitted.coef_[0, 0], 0.0, 0.0, fitted.intercept_[0]]
    np.testing.assert_allclose(json.loads(result.stdout)["goal"], expected, atol=1e-6)
    assert run(*usual, "--goal", "without:dose", "--dry-run", "--out", tmp_path / "dry").exit_code == 0
    assert_refused(run(*usual, "--goal", "without:dosis", "--out", tmp_path / "no"), "did you mean 'dose'")


def test_a_goal_that_orders_and_a_goal_from_rows_of_ones_own(pool: Path, tmp_path: Path) -> None:
    """max-auc needs no file; from-data finds its columns by name, whatever their order."""
    table = pyarrow.csv.read_csv(pool / "east.csv")
    reference = tmp_path / "reference.csv"
    pyarrow.csv.write_csv(table.select(["label", *reversed(COLUMNS)]), reference)
    goals = {}
    for name in ("max-auc", f"from-data:{reference}"):
        order = ["--target", "label", "--learner", "logistic", "--goal", name, "--budget", "60", "--json"]
        result = run("teach", *files_of(pool), *order, "--overwrite", "--out", tmp_path / "out")
        assert result.exit_code == 0, result.output
        goals[name.split(":")[0]] = json.loads(result.stdout)["goal"]
    frame = pyarrow.parquet.read_table(pool / "pool.parquet").to_pandas()
    X, y = frame[COLUMNS].to_numpy(), np.where(frame["label"] > 0, 1.0, -1.0)
    direct = SuperTeacher(LogisticRegression(), MaxAUC(), budget=60).fit(X, y).lesson_
    np.testing.assert_allclose(goals["max-auc"], direct.goal, atol=1e-9)
    own = table.to_pandas()
    wanted = LogisticRegression(tol=1e-12, max_iter=10_000).fit(own[COLUMNS].to_numpy(), own["label"])
    np.testing.assert_allclose(goals["from-data"], np.append(wanted.coef_, wanted.intercept_), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("from-data:", ["does not exist"]),
        ("from-data:gone.csv", ["gone.csv", "does not exist"]),
        ("from-data:few.csv", ["few.csv", "x3"]),
        ("max-AUC", ["not known", "max-auc"]),
    ],
)
def test_reference_files_that_do_not_fit(pool: Path, tmp_path: Path, name: str, words: list[str]) -> None:
    order = ["--target", "label", "--learner", "logistic", "--goal", name, "--out", "out"]
    with chdir(tmp_path):
        pyarrow.csv.write_csv(pyarrow.csv.read_csv(pool / "east.csv").drop_columns("x3"), "few.csv")
        assert_refused(run("teach", *files_of(pool), *order), *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.long(every=6)
@pytest.mark.parametrize("learner", ["logistic", "svc", "ridge", "poisson", "huber"])
def test_every_learner_is_taught(pool: Path, tmp_path: Path, learner: str) -> None:
    arguments = ["--target", "label", "--learner", learner, "--goal", "perturbed", "--standardize"]
    result = run("teach", *files_of(pool), *arguments, "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    classes = json.loads((tmp_path / "out" / "model.json").read_text())["classes"]
    assert classes == ([0, 1] if learner in ("logistic", "svc") else None)


def test_solvers(pool: Path, tmp_path: Path) -> None:
    sizes = {}
    for options in (
        *(["--solver", s] for s in ("newton", "lbfgs", "block")),
        ["--solver", "block", "--staleness", "2"],
    ):
        out = tmp_path / options[-1]
        result = run(
            "teach",
            *files_of(pool),
            *USUAL,
            "--budget",
            "50",
            "--method",
            "dual",
            *options,
            "--out",
            out,
            "--json",
        )
        assert result.exit_code == 0, result.output
        sizes[options[-1]] = json.loads(result.stdout)["risk"]
    assert sizes["newton"] == pytest.approx(sizes["lbfgs"], rel=1e-6)


@pytest.mark.long(every=7)
@pytest.mark.parametrize(
    ("budget", "rounding"),
    [("40", "together"), ("0.05:0.1", "together"), ("smallest", "together"), ("40", "alone")],
)
def test_match_ends_nearer_than_the_papers_method_and_says_so(
    pool: Path, tmp_path: Path, budget: str, rounding: str
) -> None:
    order = ["teach", *files_of(pool), *USUAL, "--budget", budget, "--risk-target", "0.05", "--out"]
    result = run(*order, tmp_path / "match", "--method", "match", "--rounding", rounding)
    assert result.exit_code == 0, result.output
    lesson = Lesson.load(tmp_path / "match" / "lesson.json")
    assert f"{lesson.verdict}." in result.stdout
    assert lesson.settings["rounding"] == rounding
    assert lesson.risk <= 0.06
    other = run(*order[:-3], "--method", "dual", "--budget", "40", "--out", tmp_path / "dual", "--json")
    assert json.loads(other.stdout)["risk"] > lesson.risk


def test_text_labels_and_names_that_need_care(tmp_path: Path) -> None:
    X, y, owner = make_classification_pool(200, 2, 2, random_state=0)
    names = np.array(["../a/b", "../A/b"])[owner]
    table = pa.table({"x, 1": X[:, 0], "x 2": X[:, 1], "y": np.array(["nein", "ja"])[y], "who": names})
    pyarrow.parquet.write_table(table, tmp_path / "pool.parquet")
    arguments = ["--target", "y", "--owner", "who", "--learner", "svc", "--goal", "perturbed"]
    result = run("teach", tmp_path / "pool.parquet", *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "out" / "model.json").read_text())["classes"] == ["ja", "nein"]
    assert sorted(os.listdir(tmp_path / "out" / "chosen")) == ["A_b.csv", "a_b-2.csv"]


def test_same_seed_gives_identical_files_but_for_times(pool: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        order = ["teach", *files_of(pool), *USUAL, "--method", "random", "--seed", "5"]
        assert run(*order, "--out", tmp_path / name).exit_code == 0
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert {name: without_times(text) for name, text in one.items()} == {
        name: without_times(text) for name, text in two.items()
    }


BAD_ORDERS: dict[str, tuple[list[str], list[str]]] = {
    "target missing": (["--target", "labell"], ["teacher 'east'", "'labell'", "did you mean 'label'"]),
    "owner missing": (["--owner", "site"], ["owner column ('site')"]),
    "feature missing": (["--features", "x0,x9"], ["teacher 'east'", "'x9'"]),
    "budget text": (["--budget", "many"], ["--budget many is not known"]),
    "budget mixed": (["--budget", "0.1:20"], ["two counts or two fractions"]),
    "budget of three": (["--budget", "1:2:3"], ["--budget 1:2:3 is not known", "50:200"]),
    "budget without target": (["--budget", "smallest"], ["--risk-target"]),
    "target out of reach": (["--budget", "smallest", "--risk-target", "0"], ["no lesson", "nearest"]),
    "target negative": (["--risk-target", "-1"], ["--risk-target -1"]),
    "no time": (["--seconds", "-1"], ["--seconds"]),
    "budget zero": (["--budget", "0"], ["--budget 0"]),
    "budget fraction": (["--budget", "1.5"], ["1.5"]),
    "budget nan": (["--budget", "nan"], ["nan"]),
    "budget too many": (["--budget", "601"], ["601", "600"]),
    "alpha for logistic": (["--alpha", "1"], ["--alpha", "--C"]),
    "C for ridge": (["--learner", "ridge", "--C", "1"], ["--C", "--alpha"]),
    "C zero": (["--C", "0"], ["C"]),
    "C nan": (["--C", "nan"], ["C"]),
    "learner unknown": (["--learner", "forest"], ["forest"]),
    "method unknown": (["--method", "magic"], ["magic"]),
    "seed negative": (["--seed", "-1"], ["--seed"]),
    "sparsity negative": (["--sparsity", "-1"], ["sparsity"]),
    "goal unknown": (["--goal", "best"], ["'best'"]),
    "goal missing": (["--goal", "nowhere.json"], ["nowhere.json"]),
    "staleness without block": (
        ["--method", "dual", "--staleness", "2"],
        ["--staleness 2", "--solver block"],
    ),
    "staleness below 0": (["--solver", "block", "--staleness", "-1"], ["staleness"]),
    "block with intercept": (["--method", "dual", "--solver", "block", "--intercept"], ["intercept"]),
    "option unknown": (["--colour", "red"], ["--colour"]),
}


@pytest.mark.parametrize("case", BAD_ORDERS)
def test_bad_orders_end_with_two_and_write_nothing(pool: Path, tmp_path: Path, case: str) -> None:
    options, words = BAD_ORDERS[case]
    assert_refused(run("teach", *files_of(pool), *USUAL, *options, "--out", tmp_path / "out"), *words)
    assert os.listdir(tmp_path) == []


BAD_FILES: dict[str, tuple[str, list[str]]] = {
    "empty": ("", ["teacher 'west'", "empty"]),
    "no rows": ("x0,x1,x2,x3,label\n", ["teacher 'west'", "no rows"]),
    "column missing": ("x0,x1,x2,label\n1,2,3,0\n", ["teacher 'west'", "lacks 'x3'"]),
    "column extra": ("x0,x1,x2,x3,x4,label\n1,2,3,4,5,0\n", ["teacher 'west'", "adds 'x4'"]),
    "text column": ("x0,x1,x2,x3,label\n1,2,high,4,0\n", ["teacher 'west'", "'x2'", "'high'"]),
    "hole": ("x0,x1,x2,x3,label\n1,2,3,4,0\n1,2,,4,0\n", ["teacher 'west'", "'x2'", "row 1"]),
    "infinite": ("x0,x1,x2,x3,label\n1,2,3,inf,0\n", ["teacher 'west'", "'x3'", "row 0"]),
    "label missing": ("x0,x1,x2,x3,label\n1,2,3,4,\n2,3,4,5,1\n", ["teacher 'west'", "'label'", "row 0"]),
    "continuous label": ("x0,x1,x2,x3,label\n1,2,3,4,0.5\n", ["teacher 'west'", "0.5"]),
    "text label": ("x0,x1,x2,x3,label\n1,2,3,4,yes\n", ["text"]),
    "twice": ("x0,x1,x2,x3,x3,label\n1,2,3,4,5,0\n", ["teacher 'west'", "'x3'"]),
    "ragged": ("x0,x1,x2,x3,label\n1,2,3,4,0\n1,2\n", ["teacher 'west'", "line 3", "2 cells"]),
}


@pytest.mark.long(every=6)
@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_end_with_two_and_write_nothing(pool: Path, tmp_path: Path, case: str) -> None:
    text, words = BAD_FILES[case]
    bad = tmp_path / "west.csv"
    bad.write_text(text, encoding="utf-8")
    assert_refused(run("teach", *files_of(pool), bad, *USUAL, "--out", tmp_path / "out"), *words)
    assert os.listdir(tmp_path) == ["west.csv"]


BAD_GOALS = {
    "[1, 2, 3]": ["3 entries", "4"],
    '{"coef": {"x0": 1, "x1": 1, "x2": 1}}': ["'x3'"],
    '{"coef": {"x0": 1, "x1": 1, "x2": 1, "x3": 1, "age": 1}}': ["'age'"],
    '{"coef": [1, 1, 1, 1], "intercept": 2}': ["intercept of 2"],
    "[1, 2, 3, NaN]": ["NaN"],
    "[1, 2, 3": ["goal.json"],
}


@pytest.mark.parametrize("text", BAD_GOALS)
def test_bad_goals_end_with_two(pool: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "goal.json").write_text(text, encoding="utf-8")
    order = ["teach", *files_of(pool), *USUAL, "--goal", tmp_path / "goal.json", "--out", tmp_path / "out"]
    assert_refused(run(*order), *BAD_GOALS[text])
    assert os.listdir(tmp_path) == ["goal.json"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200), suffix=st.sampled_from([".csv", ".parquet", ".json", ".npy"]))
def test_random_bytes_never_give_a_traceback(pool: Path, tmp_path: Path, content: bytes, suffix: str) -> None:
    noise = tmp_path / f"noise{suffix}"
    noise.write_bytes(content)
    order: list[str | Path] = ["teach", *files_of(pool), *USUAL, "--out", tmp_path / "out"]
    order += ["--goal", noise] if suffix in (".json", ".npy") else [noise]
    assert_refused(run(*order))


@pytest.mark.slow
def test_demo_shows_five_lessons_and_writes_a_figure(tmp_path: Path) -> None:
    for _ in range(2):
        result = run("demo", "--rows", "600", "--teachers", "3", "--out", tmp_path / "out")
        assert result.exit_code == 0, result.output
    for words in (
        "full pool",
        "paper's method",
        "random, same size",
        "match, same size",
        "in 20 draws), as many that match chose",
        "match, 4 %",
        "agreement",
        "Trained on",
    ):
        assert words in result.stdout
    assert "\x1b" not in result.stdout
    assert (tmp_path / "out" / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert Lesson.load(tmp_path / "out" / "lesson.json").pool_rows == 600


def test_figures_in_both_formats_without_global_state(tmp_path: Path) -> None:
    """The same lesson gives the same file."""
    from sklearn.linear_model import Ridge

    from superteach import SuperTeacher
    from superteach.report.plots import coefficients_plot, save_plots

    X, y, owner = make_regression_pool(300, 3, 2, random_state=0)
    lesson = SuperTeacher(Ridge(fit_intercept=False), PerturbedFit(0), budget=20).fit(X, y, owner).lesson_
    for name in ("a.svg", "b.svg", "c.png"):
        save_plots([coefficients_plot(lesson, ["one", "two", "three"])], tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules


@pytest.mark.parametrize("group", ["lessons", "federation", "site"])
def test_a_group_without_a_command_shows_its_help(group: str) -> None:
    result = run(group)
    assert result.exit_code == 2
    assert result.stderr == ""
    assert re.match(rf"Usage: \w+ {group} ", result.stdout)
    assert "\n\nCommands:\n" in result.stdout


def test_lines_in_a_pipe_end_with_their_last_word(pool: Path, tmp_path: Path) -> None:
    result = run("teach", *files_of(pool), *USUAL, "--budget", "40", "--out", tmp_path / "out")
    assert [line for line in result.stdout.splitlines() if line != line.rstrip()] == []


def test_a_private_lesson_names_no_model_and_is_replaced_with_its_measurements(pool: Path, tmp_path: Path) -> None:
    (tmp_path / "goal.json").write_text("[1.0, -1.0, 0.5, 0.2]")
    order = ["teach", *files_of(pool), *USUAL, "--goal", tmp_path / "goal.json", "--budget", "40"]
    order += ["--privacy", "isolated", "--measured", "--out", tmp_path / "out"]
    for more in ([], ["--overwrite"]):
        result = run(*order, *more)
        assert result.exit_code == 0, result.output
        assert "\nChosen rows, ledger and a report to read" in result.stdout
    written = set(os.listdir(tmp_path / "out"))
    assert written == {"chosen", "lesson.json", "measured.json", "report.html"}


@pytest.mark.parametrize("rows", [57, 837])
@pytest.mark.parametrize("privacy", ["isolated", "dp"])
def test_a_row_more_changes_nothing_of_a_private_lesson_but_which_rows_are_chosen(
    privacy: str, rows: int, tmp_path: Path
) -> None:
    """lesson.json, report, terminal and repr: sizes are declared, and nothing is counted, timed or measured."""
    X, y, _ = make_classification_pool(rows + 1, 3, 1, random_state=0)
    seen = []
    for count in (rows, rows + 1):
        folder = tmp_path / str(count)
        folder.mkdir()
        with chdir(folder):
            Path("goal.json").write_text("[0.5, -0.3, 0.2]")
            table = dict(zip("abc", X[:count].T, strict=True)) | {"label": y[:count]}
            pyarrow.csv.write_csv(pa.table(table), "north.csv")
            order = ["teach", "north.csv", *USUAL, "--goal", "goal.json", "--budget", "0.3", "--privacy", privacy]
            result = run(*order, "--out", "out")
            assert result.exit_code == 0, result.output
            found, lesson = contents(Path("out")), Lesson.load("out")
        assert set(found) == {"lesson.json", "report.html", "chosen/north.csv"}
        assert len(found.pop("chosen/north.csv").split()) == 1 + lesson.size
        seen.append((result.output, found, repr(lesson), lesson._repr_html_()))
    assert seen[0] == seen[1]

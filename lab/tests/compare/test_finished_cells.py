"""Finished cells of `superteach compare` are known by what was compared: contents, not names of files."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression

from superteach.cli import app
from superteach_lab.digest import digest_of

GOAL = [0.5, -0.25, 0.1]


def rows(seed: int = 0):
    draw = np.random.default_rng(seed)
    X = draw.standard_normal((60, 2)).round(3)
    return X, (X[:, 0] + draw.standard_normal(60) > 0.0).astype(int)


def write_table(path, X, y):
    lines = [f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True)]
    path.write_text("\n".join(["u,v,ill", *lines]) + "\n")


@pytest.fixture
def bench(tmp_path, capsys):
    """A table, a goal, and the command over them: what it prints, and how many cells its folder keeps."""
    write_table(tmp_path / "rows.csv", *rows())
    (tmp_path / "goal.json").write_text(json.dumps(GOAL))

    def run(*more, file="rows.csv", goal="goal.json", out="out"):
        order = ["compare", str(tmp_path / file), "--target", "ill", "--goal", str(tmp_path / goal), "--seeds", "1"]
        order += ["--methods", "full pool", "--sizes", "20", "--out", str(tmp_path / out), "--json", *more]
        with pytest.raises(SystemExit) as ended:
            app(order, prog_name="superteach")
        captured = capsys.readouterr()
        assert ended.value.code == 0, captured.err
        (line,) = json.loads(captured.out)["lines"]
        return line["risk"][1], len((tmp_path / out / "cells.jsonl").read_text().splitlines()) - 1

    run.folder = tmp_path
    return run


def risk_of(X, y, goal, C=1.0):
    """‖θ − θ*‖ of scikit-learn's fit on all rows."""
    fitted = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, y)
    return np.linalg.norm(np.append(fitted.coef_[0], fitted.intercept_) - goal)


def test_another_goal_in_the_same_file_is_scored_anew(bench):
    assert bench() == (pytest.approx(risk_of(*rows(), GOAL), rel=1e-5), 1)
    other = [2.0, 1.0, -1.0]
    (bench.folder / "goal.json").write_text(json.dumps(other))
    assert bench() == (pytest.approx(risk_of(*rows(), other), rel=1e-5), 2)
    (bench.folder / "goal.json").write_text(json.dumps(GOAL))  # what was known is still there
    assert bench() == (pytest.approx(risk_of(*rows(), GOAL), rel=1e-5), 2)


def test_other_rows_in_the_same_file_are_scored_anew(bench):
    assert bench()[1] == 1
    X, y = rows()
    X[7, 1] += 5.0
    write_table(bench.folder / "rows.csv", X, y)
    assert bench() == (pytest.approx(risk_of(X, y, GOAL), rel=1e-5), 2)


def test_other_rows_of_a_reference_file_are_scored_anew(bench):
    (bench.folder / "mine.csv").write_text((bench.folder / "rows.csv").read_text())
    goal = f"from-data:{bench.folder / 'mine.csv'}"
    order = "--goal", goal
    assert bench(*order) == (pytest.approx(0.0, abs=1e-5), 1)  # the last --goal counts
    X, y = rows(3)
    write_table(bench.folder / "mine.csv", X, y)
    fitted = LogisticRegression(tol=1e-10, max_iter=10_000).fit(X, y)
    wanted = np.append(fitted.coef_[0], fitted.intercept_)
    assert bench(*order) == (pytest.approx(risk_of(*rows(), wanted), rel=1e-4), 2)


@pytest.mark.parametrize(
    "option", [("--C", "0.1"), ("--no-intercept",), ("--standardize",), ("--time-limit", "60"), ("--learner", "svc")]
)
def test_another_option_is_scored_anew(option, bench):
    bench()
    if option == ("--no-intercept",):
        (bench.folder / "goal.json").write_text(json.dumps(GOAL[:2]))
    risk, kept = bench(*option)
    assert kept == 2
    assert (risk, 1) == bench(*option, out="fresh")
    if option[0] == "--C":
        assert risk == pytest.approx(risk_of(*rows(), GOAL, 0.1), rel=1e-5)


def test_a_goal_speaks_for_the_label_it_names(bench):
    """The same goal about label 0 is another goal, whether its file or the option names that label."""
    assert bench() == (pytest.approx(risk_of(*rows(), GOAL), rel=1e-5), 1)
    about_zero = pytest.approx(risk_of(*rows(), -np.array(GOAL)), rel=1e-5)
    assert bench("--positive", "0") == (about_zero, 2)
    named = {"coef": GOAL[:2], "intercept": GOAL[2], "positive": 0}
    (bench.folder / "goal.json").write_text(json.dumps(named))
    assert bench() == (about_zero, 2)
    write_table(bench.folder / "reference.csv", *rows(1))
    reference = "--goal", f"from-data:{bench.folder / 'reference.csv'}"
    assert bench(*reference, "--positive", "0")[0] == pytest.approx(bench(*reference)[0], rel=1e-6)


def test_the_same_contents_under_other_names_are_not_scored_again(bench):
    first = bench()
    assert bench() == first
    shutil.copy(bench.folder / "rows.csv", bench.folder / "copy.csv")
    (bench.folder / "wanted.json").write_text(json.dumps({"coef": {"v": GOAL[1], "u": GOAL[0]}, "intercept": GOAL[2]}))
    assert bench(file="copy.csv", goal="wanted.json") == first
    X, y = rows()
    parquet.write_table(pa.table({"u": X[:, 0], "v": X[:, 1], "ill": y}), bench.folder / "rows.parquet")
    assert bench(file="rows.parquet") == first


def test_digests_tell_contents_apart():
    """Neither how values are grouped nor what they are made of is lost."""
    some = [
        [1, 2], [[1], 2], [1, [2]], ["1", 2], [12], [], [[]], {"a": 1}, ["a", 1], None, "", True, 1.5, 1,
        np.arange(4.0), np.arange(4.0).reshape(2, 2), np.array([0.0, 1.0, 2.0, 3.5]),
    ]  # fmt: skip
    assert len({digest_of(one) for one in some}) == len(some)
    assert digest_of(np.arange(3, dtype=np.int8)) == digest_of(np.arange(3.0))
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    with pytest.raises(TypeError, match="object"):
        digest_of(object())

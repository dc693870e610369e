"""`superteach teach --dry-run` against the lessons that it foretells."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.end_to_end.orders import USUAL, assert_refused, files_of, run

GOAL = ["--target", "label", "--learner", "logistic", "--no-intercept", "--goal"]


@pytest.fixture
def goal(tmp_path: Path) -> Path:
    (tmp_path / "goal.json").write_text("[1.0, -1.0, 0.5, 0.2]")
    return tmp_path / "goal.json"


@pytest.mark.long(every=4)
@pytest.mark.parametrize(
    ("options", "within"),
    [
        (["--budget", "40"], 0.4),
        (["--budget", "best", "--method", "dual"], 0.4),
        (["--budget", "0.1", "--rounding", "alone"], 0.4),
        (["--budget", "40", "--privacy", "isolated"], 0.0),
        (["--budget", "60", "--privacy", "dp"], 0.0),
    ],
)
def test_it_foretells_rounds_bytes_and_queries(
    pool: Path, tmp_path: Path, goal: Path, options: list[str], within: float
) -> None:
    order = ["teach", *files_of(pool), *GOAL, goal, *options, "--out", tmp_path / "out", "--json"]
    before = run(*order, "--dry-run")
    assert before.exit_code == 0, before.output
    assert os.listdir(tmp_path) == ["goal.json"]
    told, taught = json.loads(before.stdout), json.loads(run(*order).stdout)
    for name in ("rounds", "bytes"):
        assert abs(told[name] - taught[name]) <= within * taught[name], name
    asked = {entry["query"] for entry in taught["ledger"]}
    foretold = {one["query"] for one in told["leaves"]}
    assert len(asked & foretold) >= 0.7 * len(asked | foretold)
    if within == 0.0:
        assert asked == foretold
    assert told["privacy"] == taught["privacy"]
    assert sum(one["rounds"] for one in told["leaves"]) == told["rounds"]


def test_it_says_that_a_goal_out_of_reach_takes_more(pool: Path, tmp_path: Path, goal: Path) -> None:
    order = ["teach", *files_of(pool), *GOAL, goal, "--budget", "40", "--out", tmp_path / "out", "--dry-run"]
    assert "more where rows do not reach the goal" in run(*order).stdout
    assert "do not reach" not in run(*order, "--method", "random").stdout


def test_it_says_what_will_leave(pool: Path, tmp_path: Path, goal: Path) -> None:
    order = ["teach", *files_of(pool), *GOAL, goal, "--budget", "40", "--out", tmp_path / "out", "--dry-run"]
    for privacy, words in (("isolated", "nothing that depends on rows goes out"), ("none", "can read the rows")):
        told = run(*order, "--privacy", privacy)
        assert told.exit_code == 0, told.output
        for part in ("3 teachers, 600 rows, 4 columns", words, "rounds", "seconds", "What leaves each teacher:"):
            assert part in told.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--budget", "700"], "--budget 700 rows is more than the 600 rows"),
        (["--goal", "gone.json"], "does not exist"),
        (["--privacy", "isolated", "--budget", "40"], "--goal perturbed is fitted"),
        (["--target", "nothing"], "no target column"),
    ],
)
def test_it_refuses_what_the_lesson_would(pool: Path, tmp_path: Path, options: list[str], words: str) -> None:
    assert_refused(run("teach", *files_of(pool), *USUAL, *options, "--dry-run", "--out", tmp_path / "out"), words)
    (tmp_path / "short.json").write_text("[1, 2]")
    order = ["teach", *files_of(pool), *GOAL, tmp_path / "short.json", "--dry-run", "--out", tmp_path / "out"]
    assert_refused(run(*order), "has 2 entries, expected 4")

"""`superteach teach --dry-run` against the lessons that it foretells."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from superteach.errors import SettingError
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
        (["--budget", "40", "--promise", "closed"], 0.0),
        (["--budget", "60", "--promise", "epsilon"], 0.0),
        (["--budget", "40", "--promise", "masked"], 0.4),
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
    assert told["promise"] == taught["promise"]
    assert sum(one["rounds"] for one in told["leaves"]) == told["rounds"]


def test_it_says_that_a_goal_out_of_reach_takes_more(pool: Path, tmp_path: Path, goal: Path) -> None:
    order = ["teach", *files_of(pool), *GOAL, goal, "--budget", "40", "--out", tmp_path / "out", "--dry-run"]
    assert "more where rows do not reach the goal" in run(*order).stdout
    assert "do not reach" not in run(*order, "--method", "random").stdout


def test_it_says_what_will_leave(pool: Path, tmp_path: Path, goal: Path) -> None:
    order = ["teach", *files_of(pool), *GOAL, goal, "--budget", "40", "--out", tmp_path / "out", "--dry-run"]
    for promise, words in (("closed", "nothing computed from rows went out"), ("open", "can read your rows")):
        told = run(*order, "--promise", promise)
        assert told.exit_code == 0, told.output
        for part in ("3 teachers, 600 rows, 4 columns", words, "rounds", "seconds", "What leaves each teacher:"):
            assert part in told.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--budget", "700"], "--budget 700 rows is more than the 600 rows"),
        (["--goal", "gone.json"], "does not exist"),
        (["--promise", "closed", "--budget", "40"], "--goal perturbed is fitted"),
        (["--target", "nothing"], "no target column"),
    ],
)
def test_it_refuses_what_the_lesson_would(pool: Path, tmp_path: Path, options: list[str], words: str) -> None:
    assert_refused(run("teach", *files_of(pool), *USUAL, *options, "--dry-run", "--out", tmp_path / "out"), words)
    (tmp_path / "short.json").write_text("[1, 2]")
    order = ["teach", *files_of(pool), *GOAL, tmp_path / "short.json", "--dry-run", "--out", tmp_path / "out"]
    assert_refused(run(*order), "has 2 entries, expected 4")


def test_over_a_federation_it_signs_in_and_asks_no_teacher(
    tmp_path: Path, goal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dp_accounting", reason="the default promise of a federation needs superteach[private]")
    from superteach.organisations.nvflare import session

    class Desk:
        """Knows who has joined; whatever else it is asked for is one question too many."""

        def __enter__(self) -> Desk:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def standing(self, most: int) -> SimpleNamespace:
            return SimpleNamespace(
                connected=("a", "b", "c"), silent=(), project=SimpleNamespace(teachers=("a", "b", "c"))
            )

    monkeypatch.setattr(session, "sign_in", lambda home: Desk())
    order = [
        "teach",
        "--federation",
        tmp_path,
        "--learner",
        "logistic",
        "--no-intercept",
        "--budget",
        "60",
        "--dry-run",
    ]
    told = run(*order, "--goal", goal, "--out", tmp_path / "out", "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert (found["promise"], found["teachers"], found["columns"], found["rows"]) == (
        "epsilon",
        ["a", "b", "c"],
        4,
        None,
    )
    assert found["seconds"] > 0.1 * found["rounds"]
    unknown = ["--goal", "perturbed", "--promise", "open", "--out", tmp_path / "out"]
    assert_refused(run(*order, *unknown), "give --features, or a goal file")
    assert run(*order, *unknown, "--features", "x,y,z").exit_code == 0
    assert os.listdir(tmp_path) == ["goal.json"]


def test_columns_of_a_federation_come_from_goal_or_features() -> None:
    width = import_module("superteach.cli.federated")._width
    assert width({"coef": {"a": 1, "b": 2}}, None, True) == 2
    assert width([1.0, 2.0, 3.0], None, True) == 2
    assert width(None, ["a"], True) == 1
    with pytest.raises(SettingError, match="give --features"):
        width("max-auc", None, True)

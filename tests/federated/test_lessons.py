"""Lessons over documents are those of one process, in every mode."""

from __future__ import annotations

import json

import numpy as np
import pytest

from superteach.federated.runner import Runner
from superteach.privacy.accounting import Mode
from superteach.privacy.ledger import Ledger
from superteach.protocol.wire import query_from_json
from tests.federated.conftest import SITES


def in_one_process(town, privacy: str, budget: int = 90) -> dict:
    """The same lesson from the same files, taught by one process."""
    out = town.folder / f"one-{privacy}"
    files = [town.files[name] for name in SITES]
    options = ("--target", "ill", "--learner", "logistic", "--goal", town.folder / "goal.json", "--budget", budget)
    assert town.call("teach", *files, *options, "--rounding", "alone", "--privacy", privacy, "--out", out) == 0
    return json.loads((out / "lesson.json").read_text())


def rows_of_one(town, privacy: str, name: str) -> list[int]:
    return [int(line) for line in (town.folder / f"one-{privacy}" / "chosen" / f"{name}.csv").read_text().split()[1:]]


def test_sums_give_the_lesson_of_one_process_to_the_last_bit(town):
    town.accept("none")
    assert town.teach("out", "--privacy", "none") == 0
    found, one = town.lesson("out"), in_one_process(town, "none")
    assert found["model"] == one["model"]
    assert [entry["query"] for entry in found["ledger"]] == [entry["query"] for entry in one["ledger"]]
    assert [entry["rows"] for entry in found["files"]] == [entry["rows"] for entry in one["files"]]
    town.step_all()
    for name in SITES:
        assert town.chosen(name) == [rows_of_one(town, "none", name)]


def test_sites_that_start_anew_on_the_way_give_the_same_lesson(town, monkeypatch):
    town.accept("none")
    assert town.teach("out", "--privacy", "none") == 0
    plain, steps = town.step, [0]

    def forgetful(name):
        steps[0] += 1
        if steps[0] % 20 == 0:
            town.restart(name)
        plain(name)

    monkeypatch.setattr(town, "step", forgetful)
    assert town.teach("again", "--privacy", "none") == 0
    assert town.lesson("again")["model"] == town.lesson("out")["model"]


def test_isolated_takes_one_question_and_chooses_the_rows_of_one_process(town, monkeypatch):
    monkeypatch.setattr(Runner, "secret", lambda self, lesson: 0)  # as in one process, whose owner has all rows
    assert town.teach("out") == 0
    in_one_process(town, "isolated")
    town.step_all()
    lesson = town.lesson("out")
    assert lesson["rounds"] == 1
    assert sum(entry["rows"] for entry in lesson["files"]) == 90
    for name in SITES:
        assert town.chosen(name) == [rows_of_one(town, "isolated", name)]
    files = list((town.place / "lessons").rglob("*.json"))
    assert len(files) == 5  # an order, three replies, a receipt
    replies = [json.loads(path.read_text())["body"] for path in files if "reply" in path.name]
    assert all(reply["numbers"] == [] and reply["reason"] == "" for reply in replies)


def test_dp_is_paid_once_by_everybody_and_its_parts_add_up(town):
    town.accept("dp")
    assert town.teach("out", "--privacy", "dp", "--epsilon", 0.5) == 0
    lesson = town.lesson("out")
    assert lesson["guarantee"]["epsilon"] == 0.5
    assert sum(entry["rows"] for entry in lesson["files"]) == 90
    assert all(entry["paid"] == {"epsilon": 0.5, "delta": 1e-6} for entry in lesson["files"])
    for name in SITES:
        ledger = Ledger(town.site(name) / "ledger", 1.0, 1e-6)
        assert [entry["lesson"] for entry in ledger.entries()] == [lesson["lesson"]]
        assert ledger.left < 1.0


@pytest.mark.parametrize("privacy", ["isolated", "dp"])
def test_nothing_that_leaves_depends_on_rows_but_what_dp_covers(town, privacy):
    town.accept(privacy) if privacy != "isolated" else None
    assert town.teach("out", "--privacy", privacy) == 0
    asked = {}
    for path in (town.place / "lessons").rglob("*.json"):
        body = json.loads(path.read_text())["body"]
        if "query" in body:
            asked[body["number"]] = query_from_json(body["query"])
    for path in (town.place / "lessons").rglob("*reply*.json"):
        reply = json.loads(path.read_text())["body"]
        assert set(reply) == {"site", "number", "status", "numbers", "reason", "paid"}
        if reply["numbers"]:
            assert privacy == "dp"
            steps = np.array(reply["numbers"]) / Mode("dp").grid(asked[reply["number"]].release).step
            assert np.array_equal(steps, np.round(steps))

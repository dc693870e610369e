"""The logger `superteach`: what a lesson says of itself while it runs."""

from __future__ import annotations

import logging

import pytest

from superteach import teach
from superteach.learner import Learner
from superteach.losses import Logistic


@pytest.mark.parametrize("privacy", ["none", "isolated"])
def test_a_lesson_is_logged_round_by_round(federation_of, pool, caplog, privacy) -> None:
    X, y = pool("logistic", 200, 3, 0)
    with caplog.at_level(logging.DEBUG, logger="superteach"):
        lesson = teach(federation_of(X, y, 2), Learner(Logistic()), [1.0, 0.0, -1.0], budget=20, privacy=privacy)
    first, *rounds, last = caplog.records
    assert (first.levelname, last.levelname) == ("INFO", "INFO")
    assert first.getMessage() == f"a lesson over 2 teachers begins: method match, privacy {privacy}, budget 20"
    assert last.getMessage().endswith(lesson.verdict)
    assert {record.levelname for record in rounds} == {"DEBUG"}
    said = [record.getMessage() for record in rounds]
    asked = [f"round {entry.number}, {entry.stage}: {entry.query}" for entry in lesson.ledger]
    if privacy == "none":
        assert said == asked
    else:  # each teacher also asks itself, on its own machine
        assert [words for words in said if words in asked] == asked


def test_nothing_is_said_unless_asked_for(federation_of, pool, capfd) -> None:
    X, y = pool("logistic", 200, 3, 0)
    teach(federation_of(X, y, 2), Learner(Logistic()), [1.0, 0.0, -1.0], budget=20)
    assert capfd.readouterr() == ("", "")

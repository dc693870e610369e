"""The command line on a terminal: colours, a line that moves while it works, the same words and ends as in a pipe."""

from __future__ import annotations

import json
from pathlib import Path

from tests.end_to_end.orders import USUAL, command, files_of
from tests.end_to_end.terminal import Terminal


def test_a_lesson_on_a_terminal(pool: Path, tmp_path: Path) -> None:
    with Terminal(command("teach", *files_of(pool), *USUAL, "--budget", "30", "--out", "out"), tmp_path) as person:
        assert person.status() == 0, person.text
    assert "\x1b[" in person.raw
    assert "Trained on 30 of 600 rows (5 %)" in person.text
    assert "Traceback" not in person.text
    assert json.loads((tmp_path / "out" / "lesson.json").read_text())["size"] == 30


def test_an_error_on_a_terminal_is_its_last_line(tmp_path: Path) -> None:
    with Terminal(command("teach", "nowhere.csv", *USUAL, "--out", "out"), tmp_path) as person:
        assert person.status() == 2
    assert person.text.splitlines()[-1] == "error: file 'nowhere.csv' does not exist; check the path"
    assert "Traceback" not in person.text


def test_help_on_a_terminal(tmp_path: Path) -> None:
    with Terminal(command("demo", "--help"), tmp_path) as person:
        assert person.status() == 0, person.text
    for words in ("Usage:", "--rows", "--teachers", "--out"):
        assert words in person.text


def test_the_demo_on_a_terminal(tmp_path: Path) -> None:
    order = command("demo", "--rows", "300", "--teachers", "2", "--out", "out")
    with Terminal(order, tmp_path) as person:
        assert person.status() == 0, person.text
    for words in ("stage", "rounds", "full pool", "Trained on", "Written to out"):
        assert words in person.text
    assert "Traceback" not in person.text

"""The command line on a terminal: colours, a line that moves while it works, the same words and ends as in a pipe."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.orders import USUAL, command, files_of
from tests.end_to_end.terminal import Terminal


@pytest.mark.slow
def test_a_lesson_on_a_terminal(pool: Path, tmp_path: Path) -> None:
    with Terminal(command("teach", *files_of(pool), *USUAL, "--budget", "30", "--out", "out"), tmp_path) as person:
        assert person.status() == 0, person.text
    assert "\x1b[" in person.raw
    assert "Trained on 30 of 600 rows (5 %)" in person.text
    assert "Traceback" not in person.text
    assert json.loads((tmp_path / "out" / "lesson.json").read_text())["size"] == 30


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_demo_on_a_terminal(tmp_path: Path) -> None:
    order = command("demo", "--rows", "300", "--teachers", "2", "--out", "out")
    with Terminal(order, tmp_path) as person:
        assert person.status() == 0, person.text
    for words in ("rounds", "full pool", "Trained on", "Written to out"):
        assert words in person.text
    # Sentences are broken between words, not by the terminal within one.
    assert max(map(len, person.text.splitlines())) <= 100
    assert "of the goal's predictions" in " ".join(person.text.split())
    assert "Traceback" not in person.text


ORDERS: dict[str, list[str]] = {
    "match": ["teach", "{files}", "--budget", "0.05"],
    "the paper's method": ["teach", "{files}", "--method", "dual", "--budget", "40"],
    "isolated": ["teach", "{files}", "--privacy", "isolated", "--budget", "40", "--goal", "goal.json"],
    "a rehearsal": ["teach", "{files}", "--budget", "40", "--dry-run"],
    "JSON": ["teach", "{files}", "--budget", "40", "--json"],
    "a wrong setting": ["teach", "{files}", "--budget", "5000"],
    "an unknown option": ["teach", "{files}", "--colour", "red"],
    "an unknown command": ["learn"],
    "a report of nothing": ["report", "nowhere"],
    "the version": ["--version"],
    "rivals": ["compare", "--methods", "list"],
}


@pytest.mark.long(every=30)
@pytest.mark.parametrize("case", ORDERS)
def test_on_a_terminal_everything_ends_as_in_a_pipe(pool: Path, tmp_path: Path, case: str) -> None:
    """The same status, the same plain sentences, the same files; a terminal only adds colours and a moving line."""
    words = [word for one in ORDERS[case] for word in (files_of(pool) if one == "{files}" else [one])]
    if words[0] == "teach":
        words = [*words[: 1 + len(files_of(pool))], *USUAL, *words[1 + len(files_of(pool)) :], "--out", "out"]
    for place in ("pipe", "screen"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "goal.json").write_text("[1.0, -1.0, 0.5, 0.2]")
    piped = subprocess.run(command(*words), cwd=tmp_path / "pipe", capture_output=True, text=True, check=False)
    with Terminal(command(*words), tmp_path / "screen") as person:
        assert person.status() == piped.returncode, person.text
    assert "Traceback" not in person.text + piped.stderr
    written = [
        sorted(str(file.relative_to(tmp_path / place)) for file in (tmp_path / place).rglob("*"))
        for place in ("pipe", "screen")
    ]
    assert written[0] == written[1]
    for line in (piped.stdout + piped.stderr).splitlines():
        if "  " not in line.strip() and '"seconds"' not in line:
            assert _words(line) in _words(person.text)


def _words(text: str) -> str:
    """Leave numbers out, for under dp no two lessons are alike, and ends of lines, where a terminal has its own."""
    return " ".join(re.sub(r"[\d.,]+(e-\d+)?", "", text).split())

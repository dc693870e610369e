"""Sentences on a terminal are broken between words; in a pipe they stay whole."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest

from superteach.cli.lines import fit
from tests.end_to_end.orders import USUAL, command
from tests.end_to_end.terminal import Terminal


class Screen(io.StringIO):
    """A terminal that has a width by its environment alone."""

    def isatty(self) -> bool:
        return True


def test_lines_are_broken_between_words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "44")
    path = "/a-place/whose-name-is-longer/than-any-terminal/is-wide/rows.csv"
    text = f"error: file {path!r} does not exist; check the path, which may be relative to another folder"
    lines = fit(text, Screen()).splitlines()
    assert " ".join(lines) == text
    assert any(path in line for line in lines)
    assert all(len(line) <= 44 for line in lines if path not in line)
    assert fit("word " * 12, Screen(), indent=3).splitlines()[1].startswith("   word")
    assert fit(text, io.StringIO()) == text


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(
    "order",
    [
        ["teach", "a-file-that-is-not-there.csv", *USUAL, "--out", "out", "--method", "dual", "--budget", "smallest"],
        ["teach", "a.csv", *USUAL, "--out", "out", "--colour", "red"],
        ["demo", "--out", "taken"],
        ["report", "a-folder-that-nobody-ever-wrote-anything-into/and-that-is-not-there"],
        ["federation", "add", "a-folder-that-is-not-there-either", "north"],
    ],
    ids=lambda order: order[0],
)
def test_errors_of_every_command_fit_a_terminal_and_are_one_line_in_a_pipe(
    columns: int, order: list[str], tmp_path: Path
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("mine")
    piped = subprocess.run(command(*order), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert piped.returncode in (1, 2), piped.stderr  # 1: NVFlare is not installed
    assert piped.stderr.count("\n") == 1
    with Terminal(command(*order), tmp_path, columns=columns) as person:
        assert person.status() == piped.returncode
    shown = person.text.splitlines()
    assert person.text.split() == piped.stderr.split()
    assert all(len(line) <= columns or " " not in line for line in shown)


def test_errors_have_the_width_of_their_own_terminal(tmp_path: Path) -> None:
    """Also where the output goes elsewhere."""
    order = " ".join(command("report", "nowhere", "|", "cat"))
    with Terminal(["sh", "-c", order], tmp_path, columns=60) as person:
        person.status()
    lines = person.text.splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 60

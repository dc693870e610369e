"""`superteach demo --out` deletes nothing that somebody else put there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from superteach.cli.folder import new_folder
from tests.end_to_end.orders import assert_refused, contents, run

SMALL = ["demo", "--rows", "100", "--teachers", "2"]


@pytest.mark.parametrize(
    "present",
    [
        {"thesis.txt": "mine"},
        {"lesson.json": "{}", "model.json": "{}", "report.html": "<p>", "chosen/north.csv": "row\n1\n"},
        {"lesson.json": '{"size": 3}'},
        {"lesson.json": "no JSON"},
        {"lesson.json": "[]"},
        {"figure.png": "my own picture"},
        {"lesson.json": '{"command": "superteach demo"}', "notes.md": "mine"},
    ],
    ids=lambda present: "+".join(present),
)
def test_what_others_wrote_stays(present: dict[str, str], tmp_path: Path) -> None:
    """A lesson of `teach` among it: the remedy is another folder."""
    place = tmp_path / "out"
    for name, text in present.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    before = contents(place)
    assert_refused(run(*SMALL, "--out", place), str(place), "--out")
    assert contents(place) == before


def test_a_demonstration_takes_an_empty_folder_and_replaces_its_own(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()
    for seed in ("0", "1"):
        assert run(*SMALL, "--seed", seed, "--out", place).exit_code == 0
    assert sorted(path.name for path in place.iterdir()) == ["figure.png", "lesson.json"]
    stored = json.loads((place / "lesson.json").read_text())
    assert (stored["command"], stored["settings"]["random_state"]) == ("superteach demo", 1)
    assert run("report", place).exit_code == 0
    assert_refused(run(*SMALL, "--out", place), "figures")  # a report is no demonstration
    assert (place / "report.html").exists()


def test_a_file_that_comes_while_a_folder_is_made_stays(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()
    (place / "lesson.json").write_text("old")
    with new_folder(place) as folder:
        (folder / "lesson.json").write_text("new")
        (place / "notes.md").write_text("mine")
        (place / "more").mkdir()
        (place / "more" / "rows.csv").write_text("mine too")
    assert contents(place) == {"lesson.json": "new", "notes.md": "mine", "more/rows.csv": "mine too"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]

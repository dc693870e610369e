"""`superteach report`: the page of a lesson that `superteach teach` wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from superteach.cli import screen
from superteach.exceptions import InputError, SettingError, counted
from superteach.lesson import Lesson
from superteach.report import Page, page_of
from superteach.types import Json


def run(folder: Path, against: Sequence[Path], title: str) -> None:
    """Read the lessons, write report.html and the figures beside the first."""
    stored, lesson = read_lesson(folder)
    others = [read_lesson(place)[1] for place in against]
    page = page_of_stored(stored, lesson, title=title, against=others)
    try:
        page.write(folder / "report.html")
        files = page.write_figures(folder / "figures")
    except OSError as error:
        raise SettingError(
            f"{str(folder)!r} cannot be written: {error.strerror or error}; copy the folder to a place of your own"
        ) from None
    screen.say(f"Written: {folder / 'report.html'} and {counted(len(files), 'figures')} in {folder / 'figures'}.")


def read_lesson(folder: Path) -> tuple[Json, Lesson]:
    """Read lesson.json of a folder: as it is stored, and as a lesson."""
    place = folder / "lesson.json"
    if not place.is_file():
        seen = "there is no such folder" if not folder.exists() else "it has no lesson.json"
        seen = "it is a file" if folder.is_file() else seen
        raise SettingError(f"{str(folder)!r} holds no lesson: {seen}; name a folder that superteach teach wrote")
    try:
        return json.loads(place.read_text(encoding="utf-8")), Lesson.load(place)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"cannot be read as a lesson ({type(error).__name__}: {error})"
        raise SettingError(f"{str(place)!r} {why}; teach it again with this version") from None


def page_of_stored(
    stored: Json, lesson: Lesson, title: str = "Lesson report", against: Sequence[Lesson] | None = None
) -> Page:
    """Make the page of a lesson with what the command line knows beside it: names of columns, counts by teacher."""
    files = stored.get("files") or []
    try:
        return page_of(
            lesson,
            title=title,
            against=against,
            columns=stored.get("columns"),
            target=stored.get("target"),
            contributions={entry["teacher"]: entry["rows"] for entry in files if "rows" in entry} or None,
            held={entry["teacher"]: entry["held"] for entry in files if "held" in entry} or None,
        )
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise SettingError(f"lesson.json has entries that fit no lesson ({why}); teach it again") from None

"""`superteach check`: what `superteach.verify` finds in a lesson's folder, on the screen and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from superteach import verify
from superteach.cli.lines import say
from superteach.exceptions import SettingError, reason_of
from superteach.packages import VERSION
from superteach.report.page import Page


def run(folder: Path, files: Sequence[Path], page: Path | None) -> bool:
    """Look at everything, write a page, say what was seen; whether all of it holds."""
    try:
        report = verify.check(folder, files)
    except verify.CannotCheck as error:
        raise SettingError(str(error)) from None
    place = folder / "check.html" if page is None else page
    write_page(place, report)
    for line in report.lines():
        say(line, 2)
    say(f"Written: {place}.")
    return report.failed == 0


def write_page(place: Path, report: verify.Report) -> None:
    """Write what was seen as one page."""
    page = Page(
        "Check of a lesson",
        f"{report.made} This is superteach {VERSION}.",
        "Arrow read the tables, scikit-learn fitted the models, superteach.checker (NumPy alone) looked at the proof.",
    )
    word, _, rest = report.verdict.partition(":")
    page.answer(_marked(word) + rest)
    found = [[one.what, _marked(one.word), one.seen] for one in report.findings]
    page.section("What was checked").table(["statement", "verdict", "seen"], found)
    page.section("What was read").table(["file", "SHA-256"], [list(one) for one in report.files.items()])
    try:
        page.write(place)
    except OSError as error:
        raise SettingError(f"{str(place)!r} cannot be written: {reason_of(error)}; name another with --page") from None


def _marked(word: str) -> Markup:
    """Write a verdict's word in its colour."""
    return Markup('<span class="{}">{}</span>').format(word.lower().replace(" ", "-"), word)

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
        found = verify.check(folder, files)
    except verify.CannotCheck as error:
        raise SettingError(str(error)) from None
    found[0] = found[0]._replace(seen=f"{found[0].seen}, superteach {VERSION}")
    place = folder / "check.html" if page is None else page
    write_page(place, found)
    for one in found:
        say(one.line(verify.shows_colours()), 2)
    say(f"Written: {place}.")
    return found[-1].word == "holds"


def write_page(place: Path, found: Sequence[verify.Finding]) -> None:
    """Write what was seen as one page."""
    page = Page(
        "Check of a lesson",
        f"{found[0].what}, {found[0].seen}",
        "Arrow read the tables, scikit-learn fitted the models, superteach.checker (NumPy alone) looked at the proof.",
    )
    page.answer(_marked(found[-1].word) + f": {found[-1].seen}.")
    statements = [[one.what, _marked(one.word), one.seen] for one in found[1:-1] if one.word != "read"]
    page.section("What was checked").table(["statement", "verdict", "seen"], statements)
    page.section("What was read").table(
        ["file", "digest"], [[one.what, one.seen] for one in found if one.word == "read"]
    )
    try:
        page.write(place)
    except OSError as error:
        raise SettingError(f"{str(place)!r} cannot be written: {reason_of(error)}; name another with --page") from None


def _marked(word: str) -> Markup:
    """Write a verdict's word in its colour."""
    return Markup('<span class="{}">{}</span>').format(word.lower().replace(" ", "-"), word)

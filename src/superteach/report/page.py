"""Pages, that of a lesson among them: a template filled with text, tables and figures, in one HTML file that needs no other.

    page = Page("Two methods", lede="Ten trials each.")
    section = page.section("Risk")
    section.prose("Every method is scored by the same code.")
    section.table(["method", "risk"], [["match", 0.0008], ["dual", 0.21]])
    section.figure(Plot("risk", "Risk by size", lambda axes: axes.plot([20, 40], [0.21, 0.0008])), "Means of ten trials.")
    page.write("report.html")
    page.write_figures("figures")

Jinja escapes all text; numbers are shown short and kept exactly in <data value="…">.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from superteach.exceptions import SettingError, counted, shorten
from superteach.io.atomic import write_text
from superteach.privacy import PRIVACY
from superteach.report import plots, words
from superteach.report.plots import DARK, LIGHT, Plot
from superteach.report.words import clean, decimals, percent_of, percent_text, short, size_text, unlike
from superteach.types import Foreign, is_number

if TYPE_CHECKING:
    from superteach.lesson import Lesson


@dataclass
class Section:
    """One heading and what stands under it; every call appends, in order."""

    heading: str
    anchor: str
    page: Page
    parts: list[tuple[str, object, object]] = field(default_factory=list)
    """Kind, content and caption, for the template to write."""

    def prose(self, *words: object) -> None:
        """Add a paragraph; pieces of Markup (strong, code, number) may stand between plain text."""
        self.parts.append(("prose", words, ""))

    def note(self, *words: object) -> None:
        """Add a paragraph in small grey type."""
        self.parts.append(("note", words, ""))

    def items(self, lines: Sequence[object]) -> None:
        """Add a list with bullets."""
        self.parts.append(("items", list(lines), ""))

    def code(self, text: str) -> None:
        """Add lines to be typed."""
        self.parts.append(("code", text, ""))

    def table(
        self, headings: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "", folded: str = ""
    ) -> None:
        """Add a table; its first column names the rows. `folded`: words that hide it until a reader opens it."""
        self.parts.append(("table", (headings, rows, caption, folded), ""))

    def figure(self, plot: Plot, caption: object = "") -> None:
        """Add a figure."""
        self.parts.append(("figure", self.page.add(plot), caption))

    def image(self, source: str, caption: str) -> None:
        """Add a picture that is there already, as a data: address."""
        self.parts.append(("image", source, caption))


@dataclass
class Page:
    """One self-contained HTML file: no script, no network, light and dark, on screens and on paper."""

    title: str
    lede: object = ""
    foot: object = ""
    template: str = "page.html.j2"
    context: dict[str, object] = field(default_factory=dict)
    """What the template needs beside the page."""
    answers: list[object] = field(default_factory=list)
    tiles: list[tuple[object, object, object]] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)

    def answer(self, *paragraphs: object) -> None:
        """Put what the reader came for at the top."""
        self.answers += paragraphs

    def facts(self, facts: Sequence[tuple[object, object, object]]) -> None:
        """Add the few numbers that matter: a name, the number, and a word about it each."""
        self.tiles += facts

    def section(self, heading: str) -> Section:
        """Begin a new section at the end of the page."""
        anchor = _unique(heading, "section", [section.anchor for section in self.sections])
        self.sections.append(Section(heading, anchor, self))
        return self.sections[-1]

    def add(self, plot: Plot) -> Plot:
        """Keep a figure, under a name that no other figure of the page has."""
        self.plots.append(replace(plot, name=_unique(plot.name, "figure", [other.name for other in self.plots])))
        return self.plots[-1]

    def html(self) -> str:
        """Return the whole file."""
        return render(self.template, page=self, light=LIGHT, dark=DARK, style=_style(), **self.context)

    def write(self, path: str | Path) -> None:
        """Write the file; it appears whole or not at all."""
        write_text(Path(path), self.html())

    def write_figures(self, folder: str | Path) -> list[Path]:
        """Write every figure as SVG and PNG; return the files, in the page's order."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        written = []
        for plot in self.plots:
            both = [place / f"{plot.name}.{kind}" for kind in ("svg", "png")]
            plot.write(*both)
            written += both
        return written


def render(template: str, **context: object) -> str:
    """Fill a template of this package."""
    return clean(_environment().get_template(template).render(context))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("superteach.report", ""),
        extensions=["jinja2.ext.do"],
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    written = (agreement, code, name, number, percent, setting, size, spread)
    for write in (*written, counted, cell, kinds):
        environment.filters[write.__name__] = write
    return environment


def cell(value: object) -> object:
    """Write a cell of a table: numbers short, with the exact one behind."""
    return number(value) if value is None or is_number(value) else value


def kinds(rows: Sequence[Sequence[object]]) -> list[str]:
    """Tell of each column of a table how it is set: as numbers, as long texts, or as words; the first has names."""
    columns = list(zip(*rows, strict=True))[1:]
    return ["text", *(_kind([value for value in column if value not in (None, "–")]) for column in columns)]


def _kind(cells: Sequence[object]) -> str:
    if cells and all(is_number(one) or (isinstance(one, Markup) and one.startswith("<data ")) for one in cells):
        return "n"
    return "wide" if any(isinstance(one, str) and len(Markup(one).striptags()) > 40 for one in cells) else "text"


@cache
def _style() -> Markup:
    """Return the page's rules; the colours of light and dark are variables."""
    light, dark = ("".join(f"--{name}:{value};" for name, value in colours.items()) for colours in (LIGHT, DARK))
    rules = files("superteach.report").joinpath("page.css").read_text(encoding="utf-8")
    # Paper is white whatever the screen is.
    themes = f":root{{color-scheme:light dark;{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return Markup(themes + rules.partition("*/")[2].replace("\n", ""))


def _unique(words: str, default: str, taken: Sequence[str]) -> str:
    """Make a name of letters, digits and hyphens that is not `taken` yet."""
    return unlike(re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or default, taken)


# Text as HTML ----------------------------------------------------------------------------------------------------------


def strong(text: object) -> Markup:
    """Stress a phrase."""
    return Markup("<strong>{}</strong>").format(text)


def code(text: object) -> Markup:
    """Write what is to be typed, or stands in a file."""
    return Markup("<code>{}</code>").format(text)


def name(text: object) -> Markup:
    """Write a name that somebody else chose: it cannot turn the direction of the text around it."""
    return Markup("<bdi>{}</bdi>").format(text)


def _data(text: str, value: float | int) -> Markup:
    return Markup('<data value="{}">{}</data>').format(repr(value), text)


def number(value: float | int | None, digits: int = 4) -> Markup:
    """Write a number to read, with the exact one behind it: <data value="0.12345678">0.1235</data>."""
    if value is None or not math.isfinite(value):
        return Markup("–")
    exact: float = value.item() if isinstance(value, np.generic) else value
    return _data(short(exact, digits), exact)


def percent(share: float, digits: int = 3) -> Markup:
    """Write a share as a percentage, with the exact share behind it."""
    return _data(percent_text(share, digits), float(share))


def agreement(share: float, classifies: bool) -> Markup:
    """Write how much of the goal's predictions a model shares: 100 % of labels, or r² of 1, mean all."""
    if not math.isfinite(share):
        return Markup("–")
    text = percent_of(share) if classifies else decimals(share)
    return _data(text.replace(" ", "\u202f").replace("-", "\u2212"), float(share))


def spread(values: Sequence[float], write: str, *how: object) -> Markup:
    """Write the mean of some draws by another filter, and their range behind it."""
    mean, least, most = (_environment().filters[write](one, *how) for one in (fmean(values), min(values), max(values)))
    return Markup("{} ({} to {})").format(mean, least.striptags(), most.striptags())


def size(count: int) -> Markup:
    """Write a count of bytes, with the exact count behind it."""
    return _data(size_text(count).replace(" ", "\u202f"), int(count))


def setting(value: object) -> object:
    """Write the value of a setting."""
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " to ".join(short(end, 6) for end in value)
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 10_000_000):  # longer ones are seeds
        return number(value, 6)
    return str(value)


# The page of a lesson --------------------------------------------------------------------------------------------------


def page_of(
    lesson: Lesson,
    *,
    title: str = "Lesson report",
    against: Foreign = None,
    columns: Sequence[str] | None = None,
    target: str | None = None,
    contributions: Mapping[str, int] | None = None,
    held: Mapping[str, int] | None = None,
) -> Page:
    """Everything a colleague needs to judge a lesson, and to repeat it.

    `against` sets other lessons beside it: one, several, or by name. `contributions`, chosen rows by teacher, and `held`,
    rows by teacher, are shown where the caller has them: the lesson itself has only sums.
    """
    names = _columns(lesson, columns)
    chosen = _counts(lesson, contributions, "contributions")
    owned = _counts(lesson, held, "held")
    lessons = _beside(lesson, against)
    about = f"Predicting {target}. " if target else ""
    made = lesson.versions.get("superteach", "")
    page = Page(
        title,
        f"{about}Rows chosen from private data, so that a learner trained on them alone learns a given model.",
        f"Made by superteach {made}. This file is complete: it loads nothing and runs nothing.",
        "lesson.html.j2",
    )
    spread = lesson.spread_of_coefficients
    drawn: dict[str, plots.Plot | None] = {}
    if lesson.delivered:
        drawn = {
            "sizes": plots.sizes_plot(lessons),
            "objective": plots.objective_plot(lessons),
            "approach": plots.approach_plot(lessons),
            "coefficients": plots.coefficients_plot(lesson, names),
            "standardised": plots.coefficients_plot(lesson, names, spread) if np.isfinite(spread).any() else None,
        }
    drawn["teachers"] = None if chosen is None else plots.teachers_plot(lesson.teachers, chosen, owned)
    page.context = {
        "lesson": lesson,
        "lessons": lessons,
        "names": names,
        "chosen": chosen,
        "held": owned,
        "spread": spread,
        "shown": plots.farthest(lesson) if lesson.delivered else [],
        "plots": {key: page.add(plot) for key, plot in drawn.items() if plot is not None},
        "words": words,
        "privacy_means": PRIVACY.get(lesson.privacy, ""),
    }
    return page


def notebook_html(lesson: Lesson) -> str:
    """Write what a notebook shows of a lesson: its verdict, and its model beside the others."""
    return render("notebook.html.j2", lesson=lesson)


def _columns(lesson: Lesson, columns: Sequence[str] | None) -> list[str]:
    width = lesson.coef.shape[-1]
    if isinstance(columns, str):
        raise SettingError(f"columns={columns!r} is a text; give a list with a name for each of {width} columns")
    named = [f"x{place}" for place in range(1, width + 1)] if columns is None else [str(one) for one in columns]
    if len(named) != width:
        raise SettingError(f"columns names {counted(len(named), 'columns')}, the lesson has {width}; name each of them")
    return words.coefficients(lesson, named)


def _counts(lesson: Lesson, counts: Mapping[str, int] | None, what: str) -> list[int] | None:
    if counts is None:
        return None
    missing = [teacher for teacher in lesson.teachers if teacher not in counts]
    if missing or len(counts) != len(set(lesson.teachers)):
        seen = f"has nothing for {missing[0]!r}" if missing else f"names {counted(len(counts), 'teachers')}"
        raise SettingError(f"{what} {seen}; give one count for each of {counted(len(lesson.teachers), 'teachers')}")
    listed = [int(counts[teacher]) for teacher in lesson.teachers]
    whole = {"contributions": lesson.size, "held": lesson.pool_rows}[what]
    if sum(listed) != whole:
        raise SettingError(
            f"{what} add up to {counted(sum(listed), 'rows')}, the lesson has {whole}; give this lesson's counts"
        )
    return listed


def _beside(lesson: Lesson, against: Foreign) -> dict[str, Lesson]:
    """Name the lesson, then the lessons it is set against, each by words of its own."""
    alone = isinstance(against, type(lesson) | str) or not isinstance(against, Iterable)
    several = [] if against is None else [against] if alone else against
    pairs = several.items() if isinstance(several, Mapping) else [(None, other) for other in several]
    named = {lesson.words.label: lesson}
    for label, other in pairs:
        if not isinstance(other, type(lesson)):
            seen = shorten(repr(against), 60)
            raise SettingError(f"against={seen} must be a Lesson, a list of them, or a dict by name")
        named[unlike(other.words.label if label is None else str(label), named, "{}, {}")] = other
    return named

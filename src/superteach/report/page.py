"""Pages: a template filled with sections, tables and figures, in one HTML file that needs nothing else.

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

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from superteach.exceptions import counted
from superteach.io.atomic import write_text
from superteach.report import markup
from superteach.report.plots import DARK, LIGHT, Plot
from superteach.types import is_number


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
    return markup.clean(_environment().get_template(template).render(context))


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
    written = (markup.agreement, markup.code, markup.name, markup.number, markup.percent, markup.setting, markup.size)
    for write in (*written, counted, cell, kinds):
        environment.filters[write.__name__] = write
    return environment


def cell(value: object) -> object:
    """Write a cell of a table: numbers short, with the exact one behind."""
    return markup.number(value) if value is None or is_number(value) else value


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
    return markup.unlike(re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or default, taken)

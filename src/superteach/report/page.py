"""A page of sections: headings, prose, tables and figures, in one file that needs nothing else.

    page = Page("Table of the logistic scenario", lede="Ten trials, K = 5.")
    section = page.section("Risk along the size of the lesson")
    section.prose("Every method is scored by the same code.")
    section.figure(Chart(...), "Mean of ten trials; the band spans them.")
    section.table(["method", "risk"], [["match", 0.0008], ["dual", 0.21]])
    page.write("report.html")
    page.write_figures("figures")

Text is escaped everywhere; numbers are shown short and kept exactly in <data value="…">.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from superteach.io.atomic import write_text
from superteach.report.charts import Drawing
from superteach.report.markup import Markup, escape, join, number, tag, unlike
from superteach.report.style import DARK, LIGHT, page_style
from superteach.report.svg import NARROW, WIDE, svg_of
from superteach.types import is_number

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Nothing may be fetched and nothing may run, whatever a name in the page tries."""


@dataclass
class Section:
    """One heading and what stands under it; every call appends, in order."""

    heading: str
    parts: list[Markup] = field(default_factory=list)
    figures: list[tuple[str, Drawing]] = field(default_factory=list)
    """Drawings, each with the words that its file is named after."""

    def prose(self, *words: object) -> None:
        """Add a paragraph; pieces of Markup (strong, code, number) may stand between plain text."""
        self.parts.append(tag("p", *words))

    def note(self, *words: object) -> None:
        """Add a paragraph in small grey type."""
        self.parts.append(tag("p", *words, class_="note"))

    def items(self, lines: Sequence[object]) -> None:
        """Add a list with bullets."""
        self.parts.append(tag("ul", *(tag("li", line) for line in lines)))

    def code(self, text: str) -> None:
        """Add lines to be typed."""
        self.parts.append(tag("pre", tag("code", text)))

    def table(
        self, headings: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "", folded: str = ""
    ) -> None:
        """Add a table; its first column names the rows. `folded`: words that hide it until a reader opens it."""
        label = caption or folded or self.heading
        content = tag("div", _table(headings, rows), class_="scroll", tabindex="0", role="region", aria_label=label)
        if caption:  # outside: it must not scroll away with a wide table
            content = join([tag("p", caption, class_="note"), content])
        self.parts.append(tag("details", tag("summary", folded), content) if folded else content)

    def figure(self, drawing: Drawing, caption: object = "", name: str = "") -> None:
        """Add a chart, once for wide and once for narrow screens; `name` is the name of its file."""
        text = tag("figcaption", tag("strong", drawing.title), *([Markup("<br>"), caption] if caption else []))
        self.parts.append(tag("figure", text, svg_of(drawing, WIDE), svg_of(drawing, NARROW)))
        self.figures.append((name or drawing.title, drawing))


@dataclass
class Page:
    """One self-contained HTML file: no script, no network, light and dark, on screens and on paper."""

    title: str
    lede: str = ""
    foot: object = ""
    sections: list[Section] = field(default_factory=list)
    _head: list[Markup] = field(default_factory=list)

    def answer(self, *paragraphs: object) -> None:
        """Put what the reader came for at the top."""
        self._head.append(tag("div", *(tag("p", words) for words in paragraphs), class_="answer"))

    def facts(self, facts: Sequence[tuple[object, object, object]]) -> None:
        """Add the few numbers that matter: a name, the number, and a word about it each."""
        cells = (tag("div", tag("dt", a), tag("dd", b), tag("dd", c)) for a, b, c in facts)
        self._head.append(tag("dl", *cells, class_="facts"))

    def section(self, heading: str) -> Section:
        """Begin a new section at the end of the page."""
        self.sections.append(Section(heading))
        return self.sections[-1]

    def html(self) -> str:
        """Return the whole file."""
        head = [
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            tag("meta", name="color-scheme", content="light dark"),
            *(
                tag("meta", name="theme-color", content=colours["paper"], media=f"(prefers-color-scheme: {mode})")
                for mode, colours in (("light", LIGHT), ("dark", DARK))
            ),
            tag("meta", name="generator", content="superteach"),
            tag("title", self.title),
            tag("style", page_style()),
        ]
        body = [tag("h1", self.title), *([tag("p", self.lede, class_="lede")] if self.lede else []), *self._head]
        taken: set[str] = set()
        for section in self.sections:
            anchor = _unique(section.heading, "section", taken)
            body.append(tag("section", tag("h2", section.heading, id=anchor), *section.parts))
        if self.foot:
            body.append(tag("footer", self.foot))
        main = tag("body", tag("main", join(body, "\n")))
        return f"<!DOCTYPE html>\n{tag('html', tag('head', *head), main, lang='en')}\n"

    def write(self, path: str | Path) -> None:
        """Write the file; it appears whole or not at all."""
        write_text(Path(path), self.html())

    def write_figures(self, folder: str | Path, png: bool = True) -> list[Path]:
        """Write every figure as SVG and (with the extra `plot`) as PNG; return the files, in the page's order."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        written = []
        taken: set[str] = set()
        for words, drawing in (figure for section in self.sections for figure in section.figures):
            stem = _unique(words, "figure", taken)
            written.append(place / f"{stem}.svg")
            write_text(written[-1], svg_of(drawing, alone=True) + "\n")
            if png:
                from superteach.report.png import write_figure

                written.append(place / f"{stem}.png")
                write_figure(written[-1], drawing)
        return written


def _table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> Markup:
    kinds = [_kind([row[place] for row in rows if row[place] is not None]) for place in range(len(headings))]
    kinds[:1] = ["text"]  # names, even where they are numbers
    head = (
        tag("th", words, scope="col", class_="n" if kind == "n" else None)
        for words, kind in zip(headings, kinds, strict=True)
    )
    body = []
    for first, *rest in rows:
        cells = (tag("td", _cell(cell), class_=kind) for cell, kind in zip(rest, kinds[1:], strict=True))
        body.append(tag("tr", tag("th", _cell(first), scope="row"), *cells))
    return tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body))


def _kind(cells: Sequence[object]) -> str:
    """Tell how a column of cells is set: as numbers, as long texts, or as words."""
    if cells and all(map(_shows_number, cells)):
        return "n"
    long = any(isinstance(cell, str) and not _shows_number(cell) and len(cell) > 40 for cell in cells)
    return "wide" if long else "text"


def _shows_number(cell: object) -> bool:
    return cell.startswith("<data ") if isinstance(cell, Markup) else is_number(cell)


def _cell(cell: object) -> Markup:
    if cell is None:
        return Markup("–")
    return number(cell) if is_number(cell) else escape(cell)


def _unique(words: str, default: str, taken: set[str]) -> str:
    """Make a name of letters, digits and hyphens that is not `taken` yet, and take it."""
    stem = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or default
    name = unlike(stem, taken)
    taken.add(name)
    return name

"""Charts as SVG that takes its colours from the page: the same drawing is right in light and in dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from superteach.report.charts import Axis, Bars, Chart, Drawing, Pairs, Ruler, Series
from superteach.report.markup import Markup, join, short, tag
from superteach.report.style import MARKERS, drawing_style

WIDE, NARROW = 760, 360
"""Widths a chart is laid out for, so that its words keep their size on a phone."""
MOST_MARKERS = 60
"""Points of a series up to which each has a marker; markers of more would hide the line."""


@dataclass(frozen=True)
class _Paper:
    """A sheet of one width: type size, and how wide words come out on it."""

    width: float
    type: float = 13.0

    def words(self, text: str, share: float = 1.0) -> float:
        """Estimate the width of a text, on the generous side."""
        return 0.56 * share * self.type * len(text)

    def cut(self, text: str, room: float) -> str:
        """Cut a text to fit into `room`, with an ellipsis where it was longer."""
        most = max(3, int(room / (0.56 * self.type)))
        return text if len(text) <= most else text[: most - 1] + "…"

    def text(self, x: float, y: float, words: str, anchor: str = "start", class_: str | None = None) -> Markup:
        """Write words at a place."""
        end = None if anchor == "start" else anchor
        return tag("text", words, x=_f(x), y=_f(y), text_anchor=end, class_=class_)


def svg_of(drawing: Drawing, width: int = WIDE, alone: bool = False) -> Markup:
    """Draw one svg element; where it stands `alone` it carries its title, its colours and its namespace."""
    paper = _Paper(float(width), 13.0 if width >= WIDE else 12.0)
    top = 30.0 if alone else 6.0
    if isinstance(drawing, Chart):
        body, height = _chart(drawing, paper, top)
    elif isinstance(drawing, Pairs):
        body, height = _pairs(drawing, paper, top)
    else:
        body, height = _bars(drawing, paper, top)
    facts = {"role": "img", "aria_label": drawing.title, "font_size": _f(paper.type)}
    box = f"0 0 {width} {_f(height)}"
    if not alone:
        return tag("svg", body, viewBox=box, class_="wide" if width >= WIDE else "narrow", **facts)
    size = {"width": width, "height": _f(height)}
    extra = [
        tag("style", drawing_style()),
        tag("rect", **size, style="fill:var(--paper)"),
        tag("text", drawing.title, x=8, y=20, style="font-weight:600;font-size:15px"),
    ]
    return tag("svg", *extra, body, xmlns="http://www.w3.org/2000/svg", viewBox=box, **size, **facts)


def _chart(chart: Chart, paper: _Paper, top: float) -> tuple[Markup, float]:
    numbers = colours_of(chart.series)
    keys = [
        (series.name, numbers[series.name], "dashed" if series.dashed else "plain" if series.joined else "dot")
        for series in chart.series
    ] + [(level.name, 0, "level") for level in chart.levels]
    legend, top = _legend(keys, paper, top)
    top += 1.9 * paper.type  # the words of the vertical axis stand above it
    height = top + (0.42 if paper.width >= WIDE else 0.66) * paper.width
    bottom = height - 3.4 * paper.type

    xs, ys = chart.reach()
    y = chart.y.scale(ys, bottom, top)
    rungs = y.ticks(6)
    left = 10.0 + max((paper.words(words) for _, words in rungs), default=20.0)
    right = paper.width - 14.0
    x = chart.x.scale(xs, left, right, 0.03)

    parts = [legend, paper.text(2.0, top - 0.75 * paper.type, chart.y.label, class_="tick")]
    parts += _grid(x, y, paper, rungs)
    parts.append(paper.text((left + right) / 2, height - 4.0, chart.x.label, "middle", "tick"))
    for level in chart.levels:
        place = y.at(level.value)
        parts.append(_line(left, right, place, place, "level"))
    taken: list[tuple[float, float]] = []
    for series in reversed(chart.series):  # the first lies on top
        drawn, points = _series(series, numbers[series.name], x, y, chart)
        parts.append(drawn)
        taken += _along(points) if series.joined else points
    for mark in reversed(chart.marks):
        at = (x.at(mark.x), y.at(mark.y))
        parts.append(_mark(mark.text, numbers[mark.series], at, paper, (left, top, right, bottom), taken))
    return join(parts), height


def colours_of(series: Sequence[Series]) -> dict[str, int]:
    """Number every series from 1 to 6, for its colour and its marker."""
    return {
        one.name: ((place if one.colour is None else one.colour) - 1) % len(MARKERS) + 1
        for place, one in enumerate(series, 1)
    }


def _legend(keys: list[tuple[str, int, str]], paper: _Paper, top: float) -> tuple[Markup, float]:
    """Draw names with a sample of their line, wrapped to the width; return them and where they end."""
    parts, x, y = [], 4.0, top + paper.type
    for words, number, kind in keys:
        words = paper.cut(words, paper.width - 50.0)
        need = 34.0 + paper.words(words) + 14.0
        if x > 4.0 and x + need > paper.width:
            x, y = 4.0, y + 1.55 * paper.type
        middle = y - 0.35 * paper.type
        sample: list[Markup] = []
        if kind != "dot":
            style = {"level": "level", "dashed": "line dashed", "plain": "line"}[kind]
            sample.append(_line(x, x + 26, middle, middle, style))
        if kind in ("plain", "dot"):
            sample.append(_shape(x + 13, middle, 4.2, MARKERS[number - 1]))
        parts.append(tag("g", *sample, paper.text(x + 33, y, words), class_=f"s{number}" if number else None))
        x += need
    return join(parts), y + 0.4 * paper.type


def _grid(x: Ruler, y: Ruler, paper: _Paper, rungs: list[tuple[float, str]]) -> list[Markup]:
    parts = []
    for value, words in rungs:
        parts.append(_line(x.start, x.end, y.at(value), y.at(value), "grid"))
        parts.append(paper.text(x.start - 6.0, y.at(value) + 0.35 * paper.type, words, "end", "tick"))
    free = x.start - 20.0
    for value, words in x.ticks(9 if paper.width >= WIDE else 6):
        place, half = x.at(value), paper.words(words) / 2
        parts.append(_line(place, place, y.start, y.start + 4, "axis"))
        if place - half < free or place + half > paper.width:
            continue  # no room for its words beside its neighbour's
        free = place + half + 6.0
        parts.append(paper.text(place, y.start + 1.4 * paper.type, words, "middle", "tick"))
    parts.append(_line(x.start, x.end, y.start, y.start, "axis"))
    return parts


def _series(series: Series, number: int, x: Ruler, y: Ruler, chart: Chart) -> tuple[Markup, list[tuple[float, float]]]:
    values = [
        (place, (x.at(a), y.at(b)))
        for place, (a, b) in enumerate(zip(series.x, series.y, strict=True))
        if math.isfinite(a) and math.isfinite(b)
    ]
    points = [point for _, point in values]
    parts = []
    if series.low is not None and series.high is not None:
        edge = [(x.at(a), y.at(b)) for a, b in zip(series.x, series.high, strict=True)]
        edge += [(x.at(a), y.at(b)) for a, b in reversed(list(zip(series.x, series.low, strict=True)))]
        parts.append(tag("path", d=_path(edge) + "Z", class_="band"))
    if series.joined and len(points) > 1:
        parts.append(tag("path", d=_path(points), class_="line dashed" if series.dashed else "line"))
    if series.marked and len(points) <= MOST_MARKERS:
        for place, point in values:
            where = f"{short(float(series.y[place]))} at {short(series.x[place])} ({chart.x.label})"
            note = series.notes[place] if series.notes else f"{series.name}: {where}"
            parts.append(tag("g", tag("title", note), _shape(*point, 4.2, MARKERS[number - 1])))
    return tag("g", *parts, class_=f"s{number}"), points


def _mark(
    words: str,
    number: int,
    at: tuple[float, float],
    paper: _Paper,
    frame: tuple[float, float, float, float],
    taken: list[tuple[float, float]],
) -> Markup:
    """Draw a ring, and words on the side of it where they hide least."""
    width, height = paper.words(words, 1.05), 1.2 * paper.type
    left, top, right, bottom = frame
    tried: list[tuple[float, float, float]] = []
    for far, across, above in product((13.0, 24.0, 40.0), (0.0, -width, -width / 2), (True, False)):
        x = at[0] + across + (far * 0.6 if across == 0.0 else -far * 0.6 if across == -width else 0.0)
        y = at[1] + (-far if above else far + height * 0.75)
        box = (x - 2, y - height, x + width + 2, y + 4)
        cost = far / 40.0 + sum(box[0] <= a <= box[2] and box[1] <= b <= box[3] for a, b in taken)
        cost += 100.0 * (box[0] < left or box[2] > right + 10 or box[1] < top - 8 or box[3] > bottom)
        tried.append((cost, x, y))
    _, x, y = min(tried, key=lambda spot: spot[0])
    # The next words stay clear of these.
    taken += [(x + step * width / 12, y - up) for step in range(13) for up in (1.0, 0.8 * height)]
    taken += [(at[0] + a, at[1] + b) for a in (-8.0, 0.0, 8.0) for b in (-8.0, 0.0, 8.0)]
    text = paper.text(x, y, words, class_="mark back") if words else ""
    return tag("g", _circle(*at, 8.5, "halo"), _circle(*at, 8.5, "ring"), text, class_=f"s{number}")


def _pairs(pairs: Pairs, paper: _Paper, top: float) -> tuple[Markup, float]:
    key = top + paper.type
    middle, second = key - 0.35 * paper.type, 24.0 + paper.words(pairs.first_name) + 18.0
    parts = [_circle(11.0, middle, 6.2, "open s2"), paper.text(24.0, key, pairs.first_name)]
    parts += [_circle(second, middle, 3.6, "dot s1"), paper.text(second + 12.0, key, pairs.second_name)]
    top = key + 0.6 * paper.type
    room = min(max((paper.words(name) for name in pairs.names), default=0.0), 0.34 * paper.width)
    left, right = room + 12.0, paper.width - 16.0
    step = 1.75 * paper.type
    bottom = top + step * (len(pairs.names) + 0.4)
    height = bottom + 3.4 * paper.type
    x = Axis(pairs.label).scale([*pairs.first, *pairs.second, 0.0], left, right, 0.04)
    for value, words in x.ticks(8 if paper.width >= WIDE else 4):
        parts.append(_line(x.at(value), x.at(value), top, bottom, "axis" if value == 0.0 else "grid"))
        parts.append(paper.text(x.at(value), bottom + 1.3 * paper.type, words, "middle", "tick"))
    for row, (name, first, second) in enumerate(zip(pairs.names, pairs.first, pairs.second, strict=True)):
        y = top + step * (row + 0.75)
        one, other = x.at(first), x.at(second)
        note = f"{name}: {pairs.first_name} {short(float(first))}, {pairs.second_name} {short(float(second))}"
        parts += [
            paper.text(left - 8.0, y + 0.35 * paper.type, paper.cut(name, room + 1.0), "end"),
            tag(
                "g",
                tag("title", note),
                _line(one, other, y, y, "link"),
                _circle(one, y, 6.2, "open s2"),
                _circle(other, y, 3.6, "dot s1"),
            ),
        ]
    parts.append(paper.text((left + right) / 2, height - 4.0, pairs.label, "middle", "tick"))
    return join(parts), height


def _bars(bars: Bars, paper: _Paper, top: float) -> tuple[Markup, float]:
    room = min(max((paper.words(name) for name in bars.names), default=0.0), 0.34 * paper.width)
    left = room + 12.0
    right = paper.width - 12.0 - max((paper.words(words) for words in bars.texts), default=0.0)
    step = 1.9 * paper.type
    longest = max([*bars.values, 0.0]) or 1.0
    parts = []
    for row, (name, value, words) in enumerate(zip(bars.names, bars.values, bars.texts, strict=True)):
        y = top + step * row
        length = max(right - left, 20.0) * value / longest
        bar = {"x": _f(left), "y": _f(y + 3), "width": _f(length), "height": _f(step - 7)}
        parts += [
            paper.text(left - 8.0, y + 1.2 * paper.type, paper.cut(name, room + 1.0), "end"),
            tag("g", tag("title", f"{name}: {words}"), tag("rect", **bar, rx="2", class_="bar s1")),
            paper.text(left + length + 7.0, y + 1.2 * paper.type, words),
        ]
    height = top + step * len(bars.names) + 2.0 * paper.type
    parts.append(paper.text(left, height - 6.0, bars.label, class_="tick"))
    return join(parts), height


def _shape(x: float, y: float, r: float, marker: str) -> Markup:
    if marker == "o":
        return _circle(x, y, r, "dot")
    corners: list[tuple[float, float]] = {
        "s": [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
        "D": [(0.0, -1.35), (1.35, 0.0), (0.0, 1.35), (-1.35, 0.0)],
        "^": [(0.0, -1.3), (1.25, 1.0), (-1.25, 1.0)],
        "v": [(0.0, 1.3), (1.25, -1.0), (-1.25, -1.0)],
        "P": [
            (-0.45, -1.2), (0.45, -1.2), (0.45, -0.45), (1.2, -0.45), (1.2, 0.45), (0.45, 0.45),
            (0.45, 1.2), (-0.45, 1.2), (-0.45, 0.45), (-1.2, 0.45), (-1.2, -0.45), (-0.45, -0.45),
        ],
    }[marker]  # fmt: skip
    return tag("path", d=_path([(x + r * a, y + r * b) for a, b in corners]) + "Z", class_="dot")


def _line(x1: float, x2: float, y1: float, y2: float, class_: str) -> Markup:
    return tag("line", x1=_f(x1), x2=_f(x2), y1=_f(y1), y2=_f(y2), class_=class_)


def _circle(x: float, y: float, r: float, class_: str) -> Markup:
    return tag("circle", cx=_f(x), cy=_f(y), r=_f(r), class_=class_)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_f(x)} {_f(y)}" for x, y in points)


def _along(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return points every few steps along a line, to see what words would hide."""
    found = list(points)
    for (a, b), (c, d) in pairwise(points):
        pieces = max(1, int(math.hypot(c - a, d - b) / 8.0))
        found += [(a + (c - a) * k / pieces, b + (d - b) * k / pieces) for k in range(1, pieces)]
    return found


def _f(value: float) -> str:
    """Write a coordinate: a tenth of a unit is finer than any screen."""
    return f"{value:.1f}".removesuffix(".0")

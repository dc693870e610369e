"""Charts as plain data: what is drawn, in which units, where on an axis, and nothing of how."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from superteach.report.markup import percent_text, power, short


@dataclass(frozen=True)
class Axis:
    """One axis: its words, and how its numbers are spaced and written."""

    label: str
    log: bool = False
    form: Literal["number", "percent", "integer"] = "number"
    least: float = 1e-16
    """A logarithmic axis shows nothing below; a value of 0 is drawn there."""
    also: tuple[float, ...] = ()
    """Values the axis reaches whether or not anything is drawn there."""

    def scale(self, values: Sequence[float], start: float, end: float, room: float = 0.06) -> Ruler:
        """Return a ruler that holds every finite value, with a share `room` left at both ends."""
        finite = [value for value in (*values, *self.also) if math.isfinite(value)] or [1.0]
        if not self.log:
            low, high = min(finite), max(finite)
            spread = high - low
            pad = room * spread if spread > 1e-12 * max(abs(low), abs(high), 1e-300) else max(abs(high), 1.0) * 0.5
            return Ruler(self, low - pad, high + pad, start, end)
        low, high = max(min(finite), self.least), max(max(finite), self.least)
        decades = max(math.log10(high / low), 1e-9)
        pad = 10 ** (room * decades) if decades > 0.05 else 2.0
        return Ruler(self, low / pad, high * pad, start, end)


@dataclass(frozen=True)
class Ruler:
    """Maps [low, high] of an axis onto [start, end] of the paper."""

    axis: Axis
    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the place where a value is drawn."""
        place = (self._inner(value) - self._inner(self.low)) / (self._inner(self.high) - self._inner(self.low))
        return self.start + place * (self.end - self.start)

    def _inner(self, value: float) -> float:
        return math.log10(max(value, self.axis.least)) if self.axis.log else value

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return round values within the range, about `most` of them, with their words."""
        places = self._decades(most) if self.axis.log else self._even(most)
        return [(place, self._words(place)) for place in places]

    def _even(self, most: int) -> list[float]:
        """Return multiples of a step that is 1, 2 or 5 times a power of ten."""
        least = (self.high - self.low) / max(most, 1)
        base = 10.0 ** math.floor(math.log10(least))
        step = next(factor * base for factor in (1.0, 2.0, 5.0, 10.0) if factor * base >= least * (1.0 - 1e-9))
        step = max(1.0, step) if self.axis.form == "integer" else step
        first = math.ceil(self.low / step - 1e-9)
        return [index * step for index in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def _decades(self, most: int) -> list[float]:
        """Return powers of ten, thinned where there are many, with 2 and 5 between them where there are few."""
        exponents = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
            found = [factor * 10.0**exponent for exponent in exponents for factor in factors]
            found = [place for place in found if self.low <= place <= self.high]
            if 2 <= len(found) <= most:
                return found
        if len(found) < 2:  # within one step of a decade even steps are as good
            return self._even(most)
        stride = math.ceil(len(found) / most)
        return [10.0**e for e in exponents if e % stride == 0 and self.low <= 10.0**e <= self.high]

    def _words(self, value: float) -> str:
        if self.axis.form == "percent":
            return percent_text(value)
        if self.axis.form == "integer":
            return short(round(value))
        if self.axis.log and not 1e-4 <= abs(value) < 1e6:
            return power(value, 2)
        return short(0.0 if abs(value) < 1e-12 * (self.high - self.low) else value, 6)


@dataclass(frozen=True)
class Series:
    """A named run of points, connected unless `joined` is False, with a band where `low` and `high` are given."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    joined: bool = True
    dashed: bool = False
    marked: bool = True
    """Whether each point has a marker."""
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    notes: Sequence[str] | None = None
    """What to say when a pointer rests on a point; the point's numbers otherwise."""
    colour: int | None = None
    """1 to 6, for one look of the same thing in several charts (default: by its place among the series)."""


@dataclass(frozen=True)
class Level:
    """A horizontal line at one value, with its name."""

    name: str
    value: float


@dataclass(frozen=True)
class Mark:
    """A ring around one point of a series, with a few words beside it where there are any."""

    series: str
    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Chart:
    """Points and lines over two axes."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    levels: Sequence[Level] = ()
    marks: Sequence[Mark] = ()

    def reach(self) -> tuple[list[float], list[float]]:
        """Return all values that the axes have to hold, x and y."""
        xs = [value for series in self.series for value in series.x]
        ys = [value for one in self.series for value in (*one.y, *(one.low or ()), *(one.high or ()))]
        return xs, ys + [level.value for level in self.levels]


@dataclass(frozen=True)
class Pairs:
    """Two numbers for each name on one shared axis, a line between them: a goal and what came of it."""

    title: str
    label: str
    names: Sequence[str]
    first: Sequence[float]
    second: Sequence[float]
    first_name: str
    second_name: str


@dataclass(frozen=True)
class Bars:
    """One bar for each name, with a few words at its end."""

    title: str
    label: str
    names: Sequence[str]
    values: Sequence[float]
    texts: Sequence[str]
    """What is written at the end of each bar."""


Drawing = Chart | Pairs | Bars

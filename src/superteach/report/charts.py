"""Charts as plain data: what is drawn, in which units, and nothing of how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


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

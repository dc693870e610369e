"""What a target of `superteach reproduce` is: a list of steps, and what to say of their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from superteach_lab.records import Record, Records

DrawFigure = Callable[[Any], None]
"""Draws on an empty matplotlib figure."""


@dataclass(frozen=True)
class Scale:
    """How much is done: pools, trials, and the sizes of the smaller experiments."""

    name: str
    rows: tuple[int, ...]
    trials: int
    problems: int = 10_000
    """Random problems on which Theorem 1 is tried."""
    quiet_rows: tuple[int, ...] = (5_000, 10_000)
    """Sizes of the pools with targets without noise."""
    curve_rows: int = 100_000
    """Rows of the synthetic pools in figures."""
    left_out: tuple[str, ...] = ()
    """Pools of figures that are not drawn."""

    @property
    def quick(self) -> bool:
        """Whether this is the run of minutes."""
        return self.name == "quick"

    def settings(self) -> Record:
        """What makes two runs the same."""
        return {"scale": self.name, "rows": list(self.rows), "trials": self.trials}


QUICK = Scale(
    "quick",
    (5_000, 10_000, 50_000),
    3,
    problems=3_000,
    quiet_rows=(5_000,),
    curve_rows=10_000,
    left_out=("higgs", "acs_income", "acs_income, by state"),
)
FULL = Scale("full", (5_000, 10_000, 50_000, 100_000, 500_000), 10)


def nothing(records: Records) -> Record:
    """What most work needs of earlier cells."""
    return {}


@dataclass(frozen=True)
class Step:
    """One cell: its name, about how many seconds it takes on one core, and the work, which another process may do."""

    cell: Record
    weight: float
    work: Callable[..., Record]
    """Called with what `given` says, by name."""
    given: Callable[[Records], Record | None] = nothing
    """What the work needs of earlier cells; None: they are not all there yet."""
    pool: str = ""
    """Work on one pool is best done in one place, which keeps it."""


@dataclass(frozen=True)
class Findings:
    """What a target found: a sentence or two first, tables, figures by name, and the numbers behind them."""

    verdict: Sequence[str]
    numbers: Record
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[Any]]]] = ()
    """(caption, headings, lines)."""
    figures: dict[str, tuple[str, tuple[float, float], DrawFigure]] = field(default_factory=dict)
    """Name → (caption, size in inches, drawing)."""


@dataclass(frozen=True)
class Target:
    """One thing to reproduce."""

    name: str
    title: str
    about: str
    steps: Callable[[Scale], list[Step]]
    findings: Callable[[Records, Scale], Findings]


def span(values: Sequence[float], digits: int = 2) -> str:
    """From the least to the largest, or the one number they all show as."""
    low, high = (shown(float(end), digits) for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def shown(value: Any, digits: int = 3) -> str:
    """A number as a table has it."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if value != 0.0 and abs(value) < 1e-3:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}" if "e" in text and abs(value) >= 1.0 else text

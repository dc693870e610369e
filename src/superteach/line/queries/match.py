"""What exact teaching asks: pulls, prices, rounding; and every teacher alone.

Under `Settle`, `Gather` and `Show` single rows can be read from replies: they are for one owner, or one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from superteach.line.queries.common import Query, Sized, read_upper, upper_triangle
from superteach.mathematics.rounding import BINS, Order, Report
from superteach.types import Array

OCTAVES = 96
"""Classes of length in a reply to `Balance`: class k holds lengths from 2^(k − 72) on, class 0 all shorter ones."""
SHORTEST = -72


def lowest_octave(counts: npt.NDArray[np.int64]) -> int:
    """Octave below which rows are idle: 40 octaves under the strongest, where double precision ends."""
    present = np.flatnonzero(counts[1:]) + 1
    return int(max(1, present[-1] - 40)) if len(present) else OCTAVES


def strong_octave(counts: npt.NDArray[np.int64]) -> int:
    """Octave from which on rows are strong: the tenth of the rows that pull most lies in it and above."""
    above = np.cumsum(counts[::-1])[::-1]
    return int(np.flatnonzero(above >= 0.1 * counts.sum())[-1])


@dataclass(frozen=True, eq=False)
class Balance(Query):
    """Take each row's pull g_j at a model, and count rows by the octave of ‖M g_j‖."""

    model: Array
    metric: Array
    """M: a matrix, or the diagonal of one."""
    exposure: ClassVar[str] = "counts of rows by the strength of their pull, in octaves"

    @property
    def reply_length(self) -> int:
        return OCTAVES

    def read(self, total: Array) -> npt.NDArray[np.int64]:
        return np.rint(total).astype(np.int64)


class Drawn(NamedTuple):
    """Rows that take part in the prices, and Σ max(0, −z_j) over their log-odds z_j."""

    rows: int
    slack: float


@dataclass(frozen=True, eq=False)
class Draw(Query):
    """Give rows log-odds by the octave of their pull, and draw by lot which of them take part in the prices.

    A row of probability p stays with probability p/least, and then has `least`; rows of p ≥ least all stay.
    """

    odds: Array
    """Log-odds by octave."""
    least: float
    seed: int
    exposure: ClassVar[str] = "a count of rows drawn by lot, and one sum of their log-odds"

    @property
    def reply_length(self) -> int:
        return 2

    def read(self, total: Array) -> Drawn:
        return Drawn(round(total[0]), float(total[1]))


@dataclass(frozen=True, eq=False)
class Price(Query):
    """Take these prices: row j is in the lesson to the fraction b_j = σ(z_j + u'(g_j, 1))."""

    point: Array
    exposure: ClassVar[str] = "one sum of fractions"

    @property
    def reply_length(self) -> int:
        return 1

    def read(self, total: Array) -> float:
        return float(total[0])


class Rounding(Query):
    """Base of queries that round together: all answer the sums of `rounding.Report`."""

    exposure: ClassVar[str] = (
        "sums over rows in play: one per column, one per pair of columns, two by class of strength; of few rows, rows"
    )

    @property
    def width(self) -> int:
        raise NotImplementedError

    @property
    def reply_length(self) -> int:
        return self.width + self.width * (self.width + 1) // 2 + 2 * BINS

    def read(self, total: Array) -> Report:
        width, pairs = self.width, self.width * (self.width + 1) // 2
        curvature = read_upper(total[width : width + pairs], width)
        rest = total[width + pairs :]
        return Report(total[:width], curvature, rest[:BINS], rest[BINS:])


def pack_report(report: Report) -> Array:
    """The numbers of a report, as a reply has them."""
    upper = upper_triangle(len(report.total))
    return np.concatenate([report.total, report.curvature[upper], report.freedom, report.rows])


@dataclass(frozen=True, eq=False)
class Play(Rounding):
    """Begin to round together: bring rows into play by their fractions, as (M g_j, 1)."""

    metric: Array
    longest: float
    """Length that classes of a report are counted from."""
    idle: int
    """Rows of lower octaves stay out: they pull at nothing, and fill the lesson up at the end."""
    counted: bool
    """Whether rows are counted, as the last unknown."""
    thin: float
    """Fractions nearer than this to 0 or 1 are settled or moved there by lot."""
    seed: int

    @property
    def width(self) -> int:
        return len(self.metric) + 1


@dataclass(frozen=True, eq=False)
class Settle(Rounding):
    """Tilt free rows and settle the longest of them: see `rounding.Order`."""

    tilt: Array
    cut: int
    root: Array
    residual: Array
    take_back: bool
    seed: int

    @property
    def width(self) -> int:
        return len(self.tilt)

    @property
    def order(self) -> Order:
        """As rounding takes it."""
        return Order(self.tilt, self.cut, self.root, self.residual, take_back=self.take_back)


@dataclass(frozen=True, eq=False)
class Tally(Query):
    """How many of your rows are free, settled in the lesson, or idle? Every teacher answers in its own three places."""

    teachers: int
    exposure: ClassVar[str] = "three counts of rows"

    @property
    def reply_length(self) -> int:
        return 3 * self.teachers

    def read(self, total: Array) -> npt.NDArray[np.int64]:
        return np.rint(total).astype(np.int64).reshape(self.teachers, 3)


@dataclass(frozen=True, eq=False)
class Gather(Query):
    """Show what is left in play, row by row: its (M g_j, 1) and its fraction, in slots by teacher."""

    counts: tuple[int, ...]
    """Slots of each teacher of the roster."""
    width: int
    exposure: ClassVar[str] = "pulls of single rows: the rows themselves, to whoever knows the goal"

    @property
    def reply_length(self) -> int:
        return sum(self.counts) * (self.width + 1)

    def read(self, total: Array) -> Array:
        return total.reshape(-1, self.width + 1)


@dataclass(frozen=True, eq=False)
class Assign(Sized):
    """End the rounding: these of the rows gathered are in the lesson, and so many idle ones of each teacher."""

    counts: tuple[int, ...]
    taken: tuple[bool, ...]
    idle: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RoundAlone(Sized):
    """Round your own rows to your own fractional sum, by yourself."""

    metric: Array
    seed: int


@dataclass(frozen=True, eq=False)
class Count(Query):
    """How many rows do you have? Every teacher answers in its own place."""

    teachers: int
    exposure: ClassVar[str] = "a count of rows"

    @property
    def reply_length(self) -> int:
        return self.teachers

    def read(self, total: Array) -> npt.NDArray[np.int64]:
        return np.rint(total).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Show(Query):
    """Show all your rows, targets and whether they are chosen, in slots by teacher: for small pools."""

    counts: tuple[int, ...]
    width: int
    exposure: ClassVar[str] = "every row and target"

    @property
    def reply_length(self) -> int:
        return sum(self.counts) * (self.width + 2)

    def read(self, total: Array) -> Array:
        return total.reshape(-1, self.width + 2)


@dataclass(frozen=True, eq=False)
class Take(Sized):
    """Choose just these of your rows, in the slots of `Show`."""

    counts: tuple[int, ...]
    taken: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class Bound(Query):
    """Σ_j max(0, u'(g_j, 1) + ρ c |u'x_j| ‖R x_j‖) for several ρ: how far a proof reaches beyond the goal itself."""

    direction: Array
    measure: Array
    """R: ‖R x_j‖ is how much a row's prediction changes at most where the model moves by 1."""
    radii: Array
    exposure: ClassVar[str] = "one sum over all rows per radius"

    @property
    def reply_length(self) -> int:
        return len(self.radii)


@dataclass(frozen=True, eq=False)
class ChosenCost(Query):
    """What do the chosen rows cost their owners, all together?"""

    exposure: ClassVar[str] = "one sum of costs over the chosen rows, and whether any teacher has costs"

    @property
    def reply_length(self) -> int:
        return 2

    def read(self, total: Array) -> float | None:
        return float(total[0]) if total[1] else None


class Solo(NamedTuple):
    """Rows chosen, those of them with a positive label, teachers whose search ended, teachers who drew at random."""

    rows: int
    positive: int
    ended: int
    drawn: int


@dataclass(frozen=True, eq=False)
class Alone(Query):
    """Choose as many rows as you have chosen now, by yourself, for a learner with its K-th part of the penalty.

    Where a teacher finds nothing it keeps the rows it has.
    """

    goal: Array
    ridge: float
    ridge_per_row: bool
    free_intercept: bool
    inside: Literal["match", "minlp"]
    formulation: str
    """Of the programme, for "minlp"."""
    seconds: float
    """After which a programme's solver is ended."""
    seed: int
    exposure: ClassVar[str] = (
        "two counts of chosen rows, and whether the teacher's search ended or found nothing"
    )

    @property
    def reply_length(self) -> int:
        return 4

    def read(self, total: Array) -> Solo:
        return Solo(*(round(number) for number in total.tolist()))

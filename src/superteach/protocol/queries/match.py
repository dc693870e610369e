"""What exact teaching asks: pulls, prices, rounding; and every teacher alone.

Under `Settle`, `Gather` and `Show` single rows can be read from replies: they are for one owner, or one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from superteach.protocol.queries.common import (
    ENTANGLED,
    Counts,
    Number,
    Numbers,
    Query,
    Sensitivity,
    Sized,
    read_upper,
    upper_triangle,
)
from superteach.protocol.queries.common import OCTAVES as OCTAVES
from superteach.types import Array

__all__ = [
    "Alone", "Assign", "Balance", "ChosenCost", "Count", "Draw", "Drawn", "Envelope", "Gather", "Play", "Price",
    "RoundAlone", "Settle", "Show", "Solo", "Take", "Tally",
]  # fmt: skip

SHORTEST = -72
"""Exponent of 2 from which class 1 of `OCTAVES` holds lengths."""
BINS, PER_OCTAVE = 320, 8
"""Classes of length in a `Report`: 40 octaves below the longest row, in eighths."""


def lowest_octave(counts: npt.NDArray[np.int64]) -> int:
    """Return the octave below which rows are idle: 40 octaves under the strongest, where double precision ends."""
    present = np.flatnonzero(counts[1:]) + 1
    return int(max(1, present[-1] - 40)) if len(present) else OCTAVES


def strong_octave(counts: npt.NDArray[np.int64]) -> int:
    """Return the octave from which on rows are strong: the tenth of the rows that pull most lies in it and above."""
    above = np.cumsum(counts[::-1])[::-1]
    return int(np.flatnonzero(above >= 0.1 * counts.sum())[-1])


class Balance(Counts):
    """Take each row's pull g_j at a model, and count rows by the octave of ‖M g_j‖."""

    model: Array
    metric: Array
    """M: a matrix, or the diagonal of one."""
    broadcast = "a model, a d × d matrix or its diagonal"
    reply = "one count per octave"
    exposure = "how many rows pull how strongly, in 96 octaves"
    changes = ("balance", "drawing", "fractions", "play")
    length = (OCTAVES,)


class Drawn(NamedTuple):
    """Rows that take part in the prices, and Σ max(0, −z_j) over their log-odds z_j."""

    rows: int
    slack: float


class Draw(Query[Drawn]):
    """Give rows log-odds by the octave of their pull, and draw by lot which of them take part in the prices.

    A row of probability p stays with probability p/least, and then has `least`; rows of p ≥ least all stay.
    """

    odds: Array
    """Log-odds by octave."""
    least: float
    seed: int
    broadcast = "log-odds by octave, a least probability, a seed"
    reply = "1 count, 1 sum"
    exposure = "how many rows were drawn by lot for the prices, and a sum over their log-odds"
    changes = ("drawing", "fractions", "play")
    sensitivity = Sensitivity(None, "log-odds are not capped")
    length = (2,)

    def read(self, total: Array) -> Drawn:
        return Drawn(round(total[0]), float(total[1]))


class Price(Number):
    """Take these prices: row j is in the lesson to the fraction b_j = σ(z_j + u'(g_j, 1))."""

    point: Array
    broadcast = "d + 1 prices"
    exposure = "the sum of the fractions of the rows drawn"
    over = "drawn"
    changes = ("fractions", "play")
    sensitivity = Sensitivity(1.0, "a fraction is at most 1")
    priced = ("point",)


class Report(NamedTuple):
    """Sums over rows in play: what the lesson adds up to, and what its free rows can absorb, in all and by length."""

    total: Array
    """Σ a_j over settled rows plus Σ b_j a_j over free ones."""
    curvature: Array
    """C = Σ b_j(1 − b_j) a_j a_j' over free rows."""
    freedom: Array
    """Σ b_j(1 − b_j) by class of length, longest first."""
    rows: Array
    """Free rows by class."""

    def pack(self) -> Array:
        """Write its numbers as a reply has them."""
        upper = upper_triangle(len(self.total))
        return np.concatenate([self.total, self.curvature[upper], self.freedom, self.rows])


@dataclass(frozen=True, eq=False)
class Instruction:
    """Tilt all free rows, then settle the free rows of the longest classes."""

    tilt: Array
    cut: int
    """Last class to settle; −1 settles none."""
    root: Array
    """L with L L' = C⁻¹: the metric in which a row is settled to the side that leaves less."""
    residual: Array
    """What the tilt is expected to leave, shared out to every owner."""
    spare: int = 0
    """This many of the weakest rows stay free whatever the cut says (for one owner)."""
    take_back: bool = False
    """Whether to forget the last order first."""


class Rounding(Query[Report]):
    """Base of queries that round together: teachers answer with the sums of a `Report`."""

    reply = "1 + d + (d+1)(d+2)/2 sums, 2 sums per class"
    over = "in play"
    shows_rows = True
    sensitivity = ENTANGLED

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
    broadcast = "a matrix, a length, a seed"
    exposure = "sums over rows in play, in all and by class of strength; over few, the rows"
    changes = ("play", "idle")

    @property
    def width(self) -> int:
        return len(self.metric) + 1


class Settle(Rounding):
    """Tilt free rows and settle the longest of them: see `Instruction`."""

    tilt: Array
    cut: int
    root: Array
    residual: Array
    take_back: bool
    seed: int
    broadcast = "a tilt, a class, a matrix, a residual, a seed"
    exposure = "the same after rows were settled: what differs from before is what was settled"
    changes = ("play",)

    @property
    def width(self) -> int:
        return len(self.tilt)

    @property
    def order(self) -> Instruction:
        """As rounding takes it."""
        return Instruction(self.tilt, self.cut, self.root, self.residual, take_back=self.take_back)


class Tally(Counts):
    """How many of your rows are free, settled in the lesson, or idle? Every teacher answers in its own three places."""

    teachers: int
    broadcast = "how many teachers there are"
    reply = "3 counts per teacher"
    exposure = "each teacher's rows that are free, settled in the lesson, or idle"
    over = "in play"
    length = ("teachers", "teachers", "teachers")

    def read(self, total: Array) -> npt.NDArray[np.int64]:
        return super().read(total).reshape(self.teachers, 3)


class Gather(Numbers):
    """Show what is left in play, row by row: its (M g_j, 1) and its fraction, in slots by teacher."""

    counts: tuple[int, ...]
    """Slots of each teacher of the roster."""
    width: int
    broadcast = "how many slots each teacher has"
    reply = "2 + d numbers per row"
    exposure = "pull and fraction of every row in play: the row, to whoever knows the goal"
    over = "in play"
    shows_rows = True
    priced = ("width",)

    @property
    def reply_length(self) -> int:
        return sum(self.counts) * (self.width + 1)

    def read(self, total: Array) -> Array:
        return total.reshape(-1, self.width + 1)


class _Named(Sized):
    """A query that names the rows to choose, in slots by teacher."""

    counts: tuple[int, ...]
    taken: tuple[bool, ...]
    exposure = "chosen rows, positive ones; the coordinator says which rows are chosen"
    shows_rows = True
    sensitivity = ENTANGLED


class Assign(_Named):
    """End the rounding: choose the rows gathered that `taken` marks, and `idle` idle rows of each teacher."""

    idle: tuple[int, ...]
    broadcast = "which of the rows gathered are in the lesson"
    changes = ("chosen", "play")


class RoundAlone(Sized):
    """Round your own rows to your own fractional sum, by yourself."""

    metric: Array
    seed: int
    broadcast = "a d × d matrix or its diagonal, a seed"
    changes = ("chosen", "play")
    sensitivity = ENTANGLED


class Count(Counts):
    """How many rows do you have? Every teacher answers in its own place."""

    teachers: int
    broadcast = "how many teachers there are"
    reply = "one count per teacher"
    exposure = "each teacher's number of rows"
    length = ("teachers",)


class Show(Numbers):
    """Show all your rows, targets and whether they are chosen, in slots by teacher: for small pools."""

    counts: tuple[int, ...]
    width: int
    weighted: bool = False
    """Whether weights of rows come last."""
    broadcast = "how many slots each teacher has"
    reply = "2 + d numbers per row"
    exposure = "every row, its target, and whether it is chosen"
    shows_rows = True

    @property
    def columns(self) -> int:
        """How many numbers each row shows."""
        return self.width + 2 + self.weighted

    @property
    def reply_length(self) -> int:
        return sum(self.counts) * self.columns

    def read(self, total: Array) -> Array:
        return total.reshape(-1, self.columns)


class Take(_Named):
    """Choose just the rows that `taken` marks, in the slots of `Show`."""

    broadcast = "which rows to choose"


class Envelope(Numbers):
    """Bound what all rows reach along a direction (v, c) at any model within a radius of θ°, for several radii.

    Σ_j max(0, v'g_j(θ) + c) ≤ height + tilt'(θ − θ°). For each radius: the height, rounded upwards, how many rows reach
    anything, the tilt, and a subgradient in v (see `selection.majorant`).
    """

    direction: Array
    model: Array
    """θ°."""
    reach: Array
    """R for one output: predictors of a row x_j move by at most ‖R x_j‖ times the distance between θ and θ°."""
    radii: Array
    broadcast = "a direction, a model, a d × d matrix or its diagonal, some radii"
    reply = "2 + 2d sums per radius"
    exposure = "how much all rows pull along the direction, at any model within a radius"
    priced = ("direction",)

    @property
    def reply_length(self) -> int:
        return len(self.radii) * 2 * (1 + len(self.model))

    def read(self, total: Array) -> Array:
        return total.reshape(len(self.radii), -1)


class ChosenCost(Query[float | None]):
    """What do the chosen rows cost their owners, all together?"""

    broadcast = "nothing"
    reply = "1 sum, 1 count"
    exposure = "the chosen rows' costs together; whether any teacher has costs"
    over = "chosen"
    sensitivity = Sensitivity(None, "costs are not capped")
    length = (2,)

    def read(self, total: Array) -> float | None:
        return float(total[0]) if total[1] else None


class Solo(NamedTuple):
    """Counts: rows chosen, chosen rows with a positive label, teachers that ended their search, teachers that drew."""

    rows: int
    positive: int
    ended: int
    drawn: int


class Alone(Query[Solo]):
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
    broadcast = "goal, penalty, how to choose, a time limit"
    reply = "4 counts"
    exposure = "chosen rows, positive ones; whether its own search ended or found nothing"
    over = "chosen"
    changes = ("chosen",)
    sensitivity = ENTANGLED
    length = (4,)

    def read(self, total: Array) -> Solo:
        return Solo(*(round(number) for number in total.tolist()))

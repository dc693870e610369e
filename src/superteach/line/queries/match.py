"""What exact teaching asks: pulls, prices, rounding; and every teacher alone.

Under `Settle`, `Gather` and `Show` single rows can be read from replies: they are for one owner, or one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from superteach.line.queries.common import (
    ENTANGLED,
    TOTALS,
    Counts,
    Number,
    Numbers,
    Over,
    Query,
    Sensitivity,
    Sized,
    read_upper,
    upper_triangle,
)
from superteach.types import Array

__all__ = [
    "Alone", "Assign", "Balance", "Bound", "ChosenCost", "Count", "Draw", "Drawn", "Envelope", "Gather", "Play", "Price",
    "RoundAlone", "Settle", "Show", "Solo", "Take", "Tally",
]  # fmt: skip

OCTAVES = 96
"""Classes of length in a reply to `Balance`: class k holds lengths from 2^(k − 72) on, class 0 all shorter ones."""
SHORTEST = -72
BINS, PER_OCTAVE = 320, 8
"""Classes of length in a `Report`: 40 octaves below the longest row, in eighths."""


def lowest_octave(counts: npt.NDArray[np.int64]) -> int:
    """Octave below which rows are idle: 40 octaves under the strongest, where double precision ends."""
    present = np.flatnonzero(counts[1:]) + 1
    return int(max(1, present[-1] - 40)) if len(present) else OCTAVES


def strong_octave(counts: npt.NDArray[np.int64]) -> int:
    """Octave from which on rows are strong: the tenth of the rows that pull most lies in it and above."""
    above = np.cumsum(counts[::-1])[::-1]
    return int(np.flatnonzero(above >= 0.1 * counts.sum())[-1])


class Balance(Counts):
    """Take each row's pull g_j at a model, and count rows by the octave of ‖M g_j‖."""

    model: Array
    metric: Array
    """M: a matrix, or the diagonal of one."""
    promises: ClassVar[tuple[str, ...]] = TOTALS
    broadcast: ClassVar[str] = "a model, a d × d matrix or its diagonal"
    reply: ClassVar[str] = "one count per octave"
    exposure: ClassVar[str] = "how many rows pull how strongly, in 96 octaves"
    changes: ClassVar[tuple[str, ...]] = ("balance", "drawing", "fractions", "play")
    length: ClassVar[int] = OCTAVES


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
    promises: ClassVar[tuple[str, ...]] = TOTALS
    broadcast: ClassVar[str] = "log-odds by octave, a least probability, a seed"
    reply: ClassVar[str] = "1 count, 1 sum"
    exposure: ClassVar[str] = "how many rows were drawn by lot for the prices, and a sum over their log-odds"
    changes: ClassVar[tuple[str, ...]] = ("drawing", "fractions", "play")
    sensitivity: ClassVar[Sensitivity] = Sensitivity(None, "log-odds are not capped")
    length: ClassVar[int] = 2

    def misfit(self, columns: int, width: int, teachers: int) -> str | None:
        if self.odds.shape != (OCTAVES,):
            return f"odds has shape {self.odds.shape}, {(OCTAVES,)} is right"
        return super().misfit(columns, width, teachers)

    def read(self, total: Array) -> Drawn:
        return Drawn(round(total[0]), float(total[1]))


class Price(Number):
    """Take these prices: row j is in the lesson to the fraction b_j = σ(z_j + u'(g_j, 1))."""

    point: Array
    promises: ClassVar[tuple[str, ...]] = TOTALS
    broadcast: ClassVar[str] = "d + 1 prices"
    exposure: ClassVar[str] = "the sum of the fractions of the rows drawn"
    over: ClassVar[Over] = "drawn"
    changes: ClassVar[tuple[str, ...]] = ("fractions", "play")
    sensitivity: ClassVar[Sensitivity] = Sensitivity(1.0, "a fraction is at most 1")

    @property
    def priced(self) -> tuple[str, ...]:
        return ("point",)


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
        """Its numbers, as a reply has them."""
        upper = upper_triangle(len(self.total))
        return np.concatenate([self.total, self.curvature[upper], self.freedom, self.rows])


@dataclass(frozen=True, eq=False)
class Instruction:
    """Tilt all free rows, then settle those of the longest classes."""

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

    reply: ClassVar[str] = "1 + d + (d+1)(d+2)/2 sums, 2 sums per class"
    over: ClassVar[Over] = "in play"
    shows_rows: ClassVar[bool] = True
    sensitivity: ClassVar[Sensitivity] = ENTANGLED

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
    broadcast: ClassVar[str] = "a matrix, a length, a seed"
    exposure: ClassVar[str] = "sums over rows in play, in all and by class of strength; over few, the rows"
    changes: ClassVar[tuple[str, ...]] = ("play", "idle")

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
    broadcast: ClassVar[str] = "a tilt, a class, a matrix, a residual, a seed"
    exposure: ClassVar[str] = "the same after rows were settled: what differs from before is what was settled"
    changes: ClassVar[tuple[str, ...]] = ("play",)

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
    broadcast: ClassVar[str] = "how many teachers there are"
    reply: ClassVar[str] = "3 counts per teacher"
    exposure: ClassVar[str] = "each teacher's rows that are free, settled in the lesson, or idle"
    over: ClassVar[Over] = "in play"

    @property
    def reply_length(self) -> int:
        return 3 * self.teachers

    def read(self, total: Array) -> npt.NDArray[np.int64]:
        return super().read(total).reshape(self.teachers, 3)


class Gather(Numbers):
    """Show what is left in play, row by row: its (M g_j, 1) and its fraction, in slots by teacher."""

    counts: tuple[int, ...]
    """Slots of each teacher of the roster."""
    width: int
    broadcast: ClassVar[str] = "how many slots each teacher has"
    reply: ClassVar[str] = "2 + d numbers per row"
    exposure: ClassVar[str] = "pull and fraction of every row in play: the row, to whoever knows the goal"
    over: ClassVar[Over] = "in play"
    shows_rows: ClassVar[bool] = True

    @property
    def reply_length(self) -> int:
        return sum(self.counts) * (self.width + 1)

    @property
    def priced(self) -> tuple[str, ...]:
        return ("width",)

    def read(self, total: Array) -> Array:
        return total.reshape(-1, self.width + 1)


class Assign(Sized):
    """End the rounding: choose the rows gathered that `taken` marks, and `idle` idle rows of each teacher."""

    counts: tuple[int, ...]
    taken: tuple[bool, ...]
    idle: tuple[int, ...]
    broadcast: ClassVar[str] = "which of the rows gathered are in the lesson"
    exposure: ClassVar[str] = "chosen rows, positive ones; the coordinator says which rows are chosen"
    shows_rows: ClassVar[bool] = True
    changes: ClassVar[tuple[str, ...]] = ("chosen", "play")
    sensitivity: ClassVar[Sensitivity] = ENTANGLED


class RoundAlone(Sized):
    """Round your own rows to your own fractional sum, by yourself."""

    metric: Array
    seed: int
    broadcast: ClassVar[str] = "a d × d matrix or its diagonal, a seed"
    changes: ClassVar[tuple[str, ...]] = ("chosen", "play")
    sensitivity: ClassVar[Sensitivity] = ENTANGLED


class Count(Counts):
    """How many rows do you have? Every teacher answers in its own place."""

    teachers: int
    broadcast: ClassVar[str] = "how many teachers there are"
    reply: ClassVar[str] = "one count per teacher"
    exposure: ClassVar[str] = "each teacher's number of rows"

    @property
    def reply_length(self) -> int:
        return self.teachers


class Show(Numbers):
    """Show all your rows, targets and whether they are chosen, in slots by teacher: for small pools."""

    counts: tuple[int, ...]
    width: int
    weighted: bool = False
    """Whether weights of rows come last."""
    broadcast: ClassVar[str] = "how many slots each teacher has"
    reply: ClassVar[str] = "2 + d numbers per row"
    exposure: ClassVar[str] = "every row, its target, and whether it is chosen"
    shows_rows: ClassVar[bool] = True

    @property
    def columns(self) -> int:
        """How many numbers each row shows."""
        return self.width + 2 + self.weighted

    @property
    def reply_length(self) -> int:
        return sum(self.counts) * self.columns

    def read(self, total: Array) -> Array:
        return total.reshape(-1, self.columns)


class Take(Sized):
    """Choose just these of your rows, in the slots of `Show`."""

    counts: tuple[int, ...]
    taken: tuple[bool, ...]
    broadcast: ClassVar[str] = "which rows to choose"
    exposure: ClassVar[str] = Assign.exposure
    shows_rows: ClassVar[bool] = True
    sensitivity: ClassVar[Sensitivity] = ENTANGLED


class Bound(Numbers):
    """Σ_j max(0, u'(g_j, 1) + ρ c |u'x_j| ‖R x_j‖) for several ρ: how far a proof reaches beyond the goal itself."""

    direction: Array
    measure: Array
    """R: ‖R x_j‖ is how much a row's prediction changes at most where the model moves by 1."""
    radii: Array
    promises: ClassVar[tuple[str, ...]] = TOTALS
    broadcast: ClassVar[str] = "a direction, a d × d matrix or its diagonal, some radii"
    reply: ClassVar[str] = "one sum per radius"
    exposure: ClassVar[str] = "how much all rows pull along the direction, within a radius of the goal"

    @property
    def reply_length(self) -> int:
        return len(self.radii)

    @property
    def priced(self) -> tuple[str, ...]:
        return ("direction",)


class Envelope(Numbers):
    """A, ΣB_j x_j: no model θ within a radius of θ° lets rows reach more along u than A + Σ B_j x_j'(θ − θ°)."""

    direction: Array
    model: Array
    """θ°."""
    measure: Array
    """R: |x_j'(θ − θ°)| is at most ‖R x_j‖ times the distance between the two."""
    radius: float
    promises: ClassVar[tuple[str, ...]] = TOTALS
    broadcast: ClassVar[str] = "a direction, a model, a d × d matrix, a radius"
    reply: ClassVar[str] = "1 + d sums"
    exposure: ClassVar[str] = "how much all rows pull along the direction, at any model within the radius"

    @property
    def reply_length(self) -> int:
        return 1 + len(self.model)

    @property
    def priced(self) -> tuple[str, ...]:
        return ("direction",)


class ChosenCost(Query[float | None]):
    """What do the chosen rows cost their owners, all together?"""

    broadcast: ClassVar[str] = "nothing"
    reply: ClassVar[str] = "1 sum, 1 count"
    exposure: ClassVar[str] = "the chosen rows' costs together; whether any teacher has costs"
    over: ClassVar[Over] = "chosen"
    sensitivity: ClassVar[Sensitivity] = Sensitivity(None, "costs are not capped")
    length: ClassVar[int] = 2

    def read(self, total: Array) -> float | None:
        return float(total[0]) if total[1] else None


class Solo(NamedTuple):
    """Rows chosen, those of them with a positive label, teachers whose search ended, teachers who drew at random."""

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
    broadcast: ClassVar[str] = "goal, penalty, how to choose, a time limit"
    reply: ClassVar[str] = "4 counts"
    exposure: ClassVar[str] = "chosen rows, positive ones; whether its own search ended or found nothing"
    over: ClassVar[Over] = "chosen"
    changes: ClassVar[tuple[str, ...]] = ("chosen",)
    sensitivity: ClassVar[Sensitivity] = ENTANGLED
    length: ClassVar[int] = 4

    def read(self, total: Array) -> Solo:
        return Solo(*(round(number) for number in total.tolist()))

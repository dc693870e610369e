"""What all queries have in common, and those that every method asks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from superteach.mathematics.losses import Loss
from superteach.types import Array

RowFunction = Literal["loss", "dual", "square", "positive", "relax", "reach"]
"""What each row adds at t = x_j'p: its loss, its h* (see losses), or ½t² (whose curvature is the Gram matrix);
"positive" is the same ½t² where the label is positive, else 0.
The last two look at t = u'(g_j, 1), with g_j the row's pull (see methods.match): "relax" adds
log(1 + exp(z_j + t)) with z_j the row's log-odds, "reach" adds max(0, t)."""
RowSet = Literal["all", "chosen", "drawn", "priced"]
"""Which rows are summed: all, those of the lesson, those drawn to take part in the prices ("relax" alone is summed over
them), or the same weighted by their fractions b_j at the present prices."""

HISTOGRAM_BINS = 256


class Query:
    """Base of every query; `read` turns the summed reply into what the caller wants."""

    exposure: ClassVar[str]

    @property
    def name(self) -> str:
        """Name in the ledger."""
        return type(self).__name__

    @property
    def reply_length(self) -> int:
        """How many numbers each teacher answers with."""
        raise NotImplementedError

    def read(self, total: Array) -> Any:
        """The summed reply in the form the coordinator works with."""
        return total

    @property
    def nbytes(self) -> int:
        """Bytes of numbers in the broadcast."""
        return sum(map(_payload, vars(self).values()))


def _payload(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, tuple):
        return sum(_payload(item) for item in value)
    if isinstance(value, Loss):
        return 8
    return len(value) if isinstance(value, str) else 8


@lru_cache(maxsize=64)
def upper_triangle(width: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Where the numbers of a symmetric matrix lie that travel: row by row, from the diagonal on."""
    return np.triu_indices(width)


def read_upper(numbers: Array, width: int) -> Array:
    """The symmetric matrix of which these are the upper triangle."""
    matrix = np.zeros((width, width))
    matrix[upper_triangle(width)] = numbers
    matrix.T[upper_triangle(width)] = numbers
    return matrix


class Size(NamedTuple):
    """How many rows, and how many of them carry a positive label or target."""

    rows: int
    positive: int


class Sized(Query):
    """A query that is answered with two counts."""

    exposure: ClassVar[str] = "two counts: chosen rows, and those of them with a positive label"

    @property
    def reply_length(self) -> int:
        return 2

    def read(self, total: Array) -> Size:
        return Size(round(total[0]), round(total[1]))


@dataclass(frozen=True, eq=False)
class Census(Sized):
    """How many rows are there (or chosen), and how many with a positive label or target?"""

    rows: Literal["all", "chosen"] = "all"
    exposure: ClassVar[str] = "two counts"


@dataclass(frozen=True, eq=False)
class ColumnSums(Query):
    """Σ_j (x_j − centre)^power, column by column: means first, then spreads around them."""

    centre: Array
    power: Literal[1, 2]
    exposure: ClassVar[str] = "one sum over all rows per column"

    @property
    def reply_length(self) -> int:
        return len(self.centre)


@dataclass(frozen=True, eq=False)
class Prepare(Query):
    """Use this loss, this constant column (0: none) and this scaling from now on; start afresh."""

    loss: Loss
    constant: float
    centre: Array | None = None
    scale: Array | None = None
    exposure: ClassVar[str] = "one sum of squares over all rows and columns"

    @property
    def reply_length(self) -> int:
        return 1

    def read(self, total: Array) -> float:
        return float(total[0])


class Moments(NamedTuple):
    """Σ_j f_j(x_j'p), its gradient and (order 2) its curvature."""

    value: float
    gradient: Array
    curvature: Array | None


@dataclass(frozen=True, eq=False)
class AskMoments(Query):
    """Σ_j f_j(x_j'p) with gradient Σ f_j' x_j and, for order 2, curvature Σ f_j'' x_j x_j'."""

    function: RowFunction
    rows: RowSet
    point: Array
    order: Literal[1, 2]
    exposure: ClassVar[str] = "one sum, one sum per column and (order 2) one per pair of columns"

    @property
    def name(self) -> str:
        return f"{self.function} moments"

    @property
    def reply_length(self) -> int:
        width = len(self.point)
        return 1 + width + (width * (width + 1) // 2 if self.order == 2 else 0)

    def read(self, total: Array) -> Moments:
        width = len(self.point)
        curvature = read_upper(total[1 + width :], width) if self.order == 2 else None
        return Moments(float(total[0]), total[1 : 1 + width], curvature)


@dataclass(frozen=True, eq=False)
class AskValues(Query):
    """Σ_j f_j(x_j'(p + s·direction)) for a whole batch of step lengths s: a line search in one round."""

    function: RowFunction
    rows: RowSet
    point: Array
    direction: Array
    steps: Array
    exposure: ClassVar[str] = "one sum per step length"

    @property
    def name(self) -> str:
        return f"{self.function} values"

    @property
    def reply_length(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, eq=False)
class RankRows(Query):
    """Sort your rows by |α(p)|, by the |α| that Algorithm 1 left (ties: at p), by a random number each, or such that the
    best n are n/K of every teacher's rows, drawn at random ("even").
    """

    by: Literal["dual", "block", "random", "even"]
    point: Array | None = None
    seed: int = 0
    exposure: ClassVar[str] = "a count of rows"

    @property
    def reply_length(self) -> int:
        return 1


@dataclass(frozen=True, eq=False)
class CountRanks(Query):
    """For each prefix of a rank, how many rows continue it with each of the 256 next bytes?

    A rank has sixteen bytes: eight of the score, best first, then eight that break ties.
    """

    prefixes: tuple[bytes, ...]
    exposure: ClassVar[str] = "counts of rows by score"

    @property
    def reply_length(self) -> int:
        return HISTOGRAM_BINS * len(self.prefixes)

    @property
    def nbytes(self) -> int:
        return sum(1 + len(prefix) for prefix in self.prefixes)

    def read(self, total: Array) -> npt.NDArray[np.int64]:
        return np.rint(total).astype(np.int64).reshape(len(self.prefixes), HISTOGRAM_BINS)


@dataclass(frozen=True, eq=False)
class Keep(Sized):
    """Choose the rows whose rank is at most this one; the mask stays with its owner."""

    last: bytes

    @property
    def nbytes(self) -> int:
        return len(self.last)


@dataclass(frozen=True, eq=False)
class Recall(Sized):
    """Remember the present choice as the best so far, of a search or of a walk over sizes; or go back to it."""

    of: Literal["search", "walk"]
    remember: bool


class Comparison(NamedTuple):
    """How two models agree on the rows: labels in common, or the sums of an r²."""

    rows: int
    same_label: int
    error: float
    total: float
    spread: float


@dataclass(frozen=True, eq=False)
class Compare(Query):
    """How do a model and the goal agree on all rows? `centre` is the mean prediction, once known."""

    model: Array
    goal: Array
    centre: float = 0.0
    exposure: ClassVar[str] = "two counts and three sums over all rows"

    @property
    def reply_length(self) -> int:
        return 5

    def read(self, total: Array) -> Comparison:
        return Comparison(round(total[0]), round(total[1]), *map(float, total[2:]))

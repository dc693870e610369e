"""What the promises ask: sums over capped rows, each with the most that one row can change, and a choice that says nothing.

A row takes part with e_j = k_j (W g_j/C, s), k_j = min(1, 1/‖(W g_j/C, s)‖): its pull g_j in units W, capped at length 1
together with the number s that counts it. At prices u it is in the lesson to the fraction b_j = β k_j σ(base + u'e_j), so it
adds β σ(base + u'e_j) e_j to the lesson, at most β in length, whatever the row holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from superteach.line.queries.common import EVERYTHING, Announced, Numbers, Sensitivity, upper_triangle
from superteach.line.queries.match import Alone
from superteach.types import Array

__all__ = [
    "Begin", "Bend", "Cap", "Choose", "ChooseAlone", "CountAbove", "DualCap", "DualPull", "KeepAbove", "KeepQuietly",
    "Lengths", "Private", "Pull", "PullChange", "Release", "RowSquares", "Sketch", "Widths",
]  # fmt: skip

BINS = 64
"""Octaves of a length: bin k holds lengths from 2^(k − 31) on, bin 0 all shorter ones, the last all longer ones."""
FIRST = -31
COUNT = 0.3
"""s, the number that counts a row beside its pull of length up to 1; 0.2 and 0.5 end up to a tenth farther away."""


SIDES = 32
"""Cells of a cosine: half octaves of its size from 2^−8 on, 16 for each sign."""


class Release(NamedTuple):
    """Some numbers of a reply: how far one row more or less can move them, and their share of the lesson's budget."""

    numbers: int
    sensitivity: float
    """In Euclidean length."""
    share: float


@dataclass(frozen=True, eq=False)
class Cap:
    """How rows are capped and how likely they are to be chosen before prices."""

    weights: Array
    """W, one weight per coefficient."""
    length: float
    """C, the length of a pull that is capped."""
    base: float
    """Log-odds of a row at prices 0."""
    scale: float
    """β, the fraction of a row that is not capped and surely chosen."""


def bins_of(lengths: Array) -> npt.NDArray[np.intp]:
    """Octaves of lengths."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.floor(np.log2(lengths)) - FIRST + 1, 0, BINS - 1), dtype=np.intp)


def sides_of(cosines: Array) -> npt.NDArray[np.intp]:
    """Cells of cosines, from −1 to 1."""
    with np.errstate(divide="ignore"):
        size = np.clip(np.floor(2.0 * np.log2(np.abs(cosines))) + SIDES // 2, 0, SIDES // 2 - 1)
    return np.asarray(SIDES // 2 + np.where(cosines > 0.0, size, -1 - size), dtype=np.intp)


def pack_symmetric(matrix: Array) -> Array:
    """The numbers of a symmetric matrix, the vector as long as the matrix in Frobenius norm."""
    packed: Array = (matrix * np.sqrt(2.0))[upper_triangle(len(matrix))]
    packed[_diagonal(len(matrix))] = np.diag(matrix)
    return packed


def read_symmetric(numbers: Array, width: int) -> Array:
    """The matrix again."""
    matrix = np.zeros((width, width))
    matrix[upper_triangle(width)] = numbers / np.sqrt(2.0)
    matrix += matrix.T
    np.fill_diagonal(matrix, numbers[_diagonal(width)])
    return matrix


def _diagonal(width: int) -> npt.NDArray[np.bool_]:
    rows, columns = upper_triangle(width)
    return np.asarray(rows == columns)


CAPPED = Sensitivity(1.0, "rows are capped")


class Private(Numbers):
    """A query that every promise but "closed" lets pass: its numbers have a known sensitivity."""

    sensitivity = CAPPED
    promises: ClassVar[tuple[str, ...]] = ("epsilon", "masked", "open")

    @property
    def releases(self) -> tuple[Release, ...]:
        """The reply, part by part; without any, nothing is said."""
        return ()

    @property
    def reply_length(self) -> int:
        return sum(part.numbers for part in self.releases)


class Silent(Private):
    """A query that is answered with nothing."""

    reply = "nothing"
    exposure = "nothing"
    sensitivity = Sensitivity(0.0, "nothing is said")
    promises = ("closed", "epsilon", "masked", "open")


class Begin(Silent):
    """Begin a lesson under a promise: the learner's loss and the value of its constant column."""

    loss: Announced
    constant: float
    broadcast = "the loss by name, the constant column"
    changes = EVERYTHING


class Widths(Private):
    """Count rows by the octave of |x_ji|, column by column: the units of columns."""

    width: int
    share: float
    broadcast = "nothing"
    reply = "64 counts per column"
    exposure = "how large the values of each column are, in octaves"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (Release(BINS * self.width, float(np.sqrt(self.width)), self.share),)


class Sketch(Private):
    """Take pulls at the goal; count them by length and cosine with the goal, add up directions, squares and curvatures."""

    model: Array
    weights: Array
    most: float
    """The most curvature that a row counts with, in units W."""
    shares: tuple[float, float, float, float, float]
    """Of counts, counts by cosine, sums, squares and curvatures."""
    broadcast = "the goal, a weight per coefficient"
    reply = "64 counts, 64 × 32 counts, 64 d sums, d(d + 1)/2 sums, 64 sums"
    exposure = "lengths and directions in which rows pull, by octave"
    changes = ("pulls",)

    @property
    def releases(self) -> tuple[Release, ...]:
        width = len(self.model)
        sizes = BINS, BINS * SIDES, BINS * width, width * (width + 1) // 2, BINS
        return tuple(Release(size, 1.0, share) for size, share in zip(sizes, self.shares, strict=True))


class Pull(Private):
    """Σ σ(base + u'e_j) e_j at prices u, and where asked how that bends, Σ σ' e_j e_j'."""

    point: Array
    cap: Cap
    share: float
    bend_share: float = 0.0
    broadcast = "d + 1 prices, caps"
    reply = "d + 1 sums, some (d + 1)(d + 2)/2 more"
    exposure = "what the lesson would add up to at these prices"

    @property
    def releases(self) -> tuple[Release, ...]:
        width = len(self.point)
        most = 1.0 / (1.0 + np.exp(-self.cap.base - float(np.linalg.norm(self.point))))
        found = (Release(width, float(most), self.share),)
        return (*found, Release(width * (width + 1) // 2, 0.25, self.bend_share)) if self.bend_share else found


class PullChange(Private):
    """How the same sum changes from prices u to prices v: the nearer they are, the less one row matters."""

    before: Array
    after: Array
    cap: Cap
    share: float
    broadcast = "d + 1 prices twice, caps"
    reply = "d + 1 sums"
    exposure = "what a change of prices changes"

    @property
    def releases(self) -> tuple[Release, ...]:
        moved = float(np.linalg.norm(self.after - self.before))
        return (Release(len(self.after), float(np.tanh(moved / 4.0)), self.share),)


class Bend(Private):
    """The learner's curvature on the lesson in units W, of each row at most `most`: it turns noise into a stated risk."""

    point: Array
    cap: Cap
    most: float
    share: float
    broadcast = "d + 1 prices, caps"
    reply = "d(d + 1)/2 sums"
    sensitivity = Sensitivity(1.0, "in units of the cap that it names")
    exposure = "how strongly a lesson at these prices holds its model"

    @property
    def releases(self) -> tuple[Release, ...]:
        width = len(self.cap.weights)
        return (Release(width * (width + 1) // 2, self.most, self.share),)


class Choose(Silent):
    """Choose rows by these prices: each teacher rounds its own fractions and says nothing."""

    model: Array
    """The goal, at which the learner's curvature is taken."""
    point: Array
    cap: Cap | None
    """None: prices of `Price`, which teachers have taken already."""
    penalty: Array
    """The learner's own pull per unit of each coefficient."""
    broadcast = "d + 1 prices, caps"
    changes = ("chosen",)


class ChooseAlone(Silent):
    """Choose rows for the goal without prices: each teacher as if it were the only one."""

    sizes: tuple[int, ...]
    """Rows that each teacher shall choose; it carries as large a part of the learner's penalty."""
    alone: Alone
    broadcast = "the goal, a number of rows for each teacher"
    changes = ("chosen", "note")


class KeepQuietly(Silent):
    """Choose all rows that rank at or above this one, and say nothing."""

    last: bytes
    broadcast = "a rank"
    changes = ("chosen",)


@dataclass(frozen=True, eq=False)
class DualCap:
    """How the paper's method is capped: units of columns, a longest row in them, and its adaptive thresholds."""

    weights: Array
    """W, one weight per coefficient."""
    length: float
    """Length of α_j x_j in units W at which it is capped."""
    direction: Array
    """Λ(X'X)⁺θ*, from noisy squares: row j has the threshold sparsity/|x_j'direction|."""
    sparsity: float


class Lengths(Private):
    """Count rows by the octave of the length of their pull at a model, in units W."""

    model: Array
    weights: Array
    share: float
    broadcast = "the goal, a weight per coefficient"
    reply = "64 counts"
    exposure = "how strongly rows pull, in octaves"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (Release(BINS, 1.0, self.share),)


class RowSquares(Private):
    """Σ x_j x_j' in units W, of rows capped at a length: the Gram matrix of the paper's adaptive weights."""

    weights: Array
    row: float
    share: float
    broadcast = "a weight per coefficient, a length"
    reply = "d(d + 1)/2 sums"
    sensitivity = Sensitivity(1.0, "in units of the squared length that it names")
    exposure = "products of columns"

    @property
    def releases(self) -> tuple[Release, ...]:
        width = len(self.weights)
        return (Release(width * (width + 1) // 2, self.row**2, self.share),)


class DualPull(Private):
    """Σ α_j(p) x_j at a point of the paper's dual, each row's part capped, and how many rows bend it."""

    point: Array
    cap: DualCap
    share: float
    bend_share: float
    broadcast = "a point, caps"
    reply = "d + 1 sums"
    sensitivity = Sensitivity(1.0, "in units of the length that it names")
    exposure = "the gradient of the paper's problem, and one number of its curvature"

    @property
    def releases(self) -> tuple[Release, ...]:
        return Release(len(self.point), self.cap.length, self.share), Release(1, 1.0, self.bend_share)


class CountAbove(Private):
    """How many rows have at least this score |α_j(p)|, by distance from where a row is switched on?"""

    point: Array
    cap: DualCap
    least: float
    share: float
    broadcast = "a point, caps, a score"
    reply = "1 count"
    exposure = "how many rows score as much"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (Release(1, 1.0, self.share),)


class KeepAbove(Silent):
    """Choose all rows with at least this score, and say nothing."""

    point: Array
    cap: DualCap
    least: float
    broadcast = "a point, caps, a score"
    changes = ("chosen",)

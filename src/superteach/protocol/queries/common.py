"""What a query is, and the queries that every method asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar, dataclass_transform

import numpy as np
import numpy.typing as npt

from superteach.optim.function import Blocks, Moments
from superteach.selection.relaxation import BINS
from superteach.types import Array, Mask

__all__ = [
    "EVERYTHING", "HISTOGRAM_BINS", "Announced", "AskMoments", "AskValues", "Blocks", "Census", "ColumnSums",
    "Compare", "Comparison", "CountRanks", "Keep", "Moments", "Prepare", "Query", "RankRows", "Recall",
    "RowFunction", "RowSet", "Size", "Sized", "upper_triangle",
]  # fmt: skip

RowFunction = Literal["loss", "dual", "square", "positive", "relax"]
"""What each row adds at t = x_j'p: its loss, its h* (see losses), or ½t² (whose curvature is the Gram matrix);
"positive" is the same ½t² where the label is positive, else 0.
"relax" looks at t = u'(g_j, 1), with g_j the row's gradient (see `selection.relaxation`), and adds log(1 + exp(z_j + t))
with z_j the row's log-odds."""
RowSet = Literal["all", "chosen", "sampled", "likely"]
"""Which rows are summed: all rows, the chosen ones, those sampled for the relaxed problem (for
"relax" alone), or these weighted by their inclusion probabilities b_j."""
Over = Literal[RowSet, "as asked"]
EVERYTHING = ("everything",)
"""What `Prepare` changes: a teacher forgets all it remembered."""
HISTOGRAM_BINS = 256
SHAPES = {
    "centre": "x", "scale": "x", "model": "d", "goal": "d", "point": "d", "direction": "d", "metric": "m", "measure": "m",
    "dual": "p", "width": "d", "odds": "o", "shares": "k", "reach": "r", "models": "n",
}  # fmt: skip
"""Shapes of fields by their names: x raw columns, d coefficients, p = d + 1 dual variables, m d or d × d (or fewer rows), r
the same for the coefficients of one output, o bins of length, k teachers × d, n models × d."""

Read = TypeVar("Read", covariant=True)


class Sensitivity(NamedTuple):
    """How much one row more or less changes any one number of a reply, while what is remembered of other rows stays."""

    bound: float | None
    """None: no bound is known."""
    why: str


COUNTED = Sensitivity(1.0, "a row counts once")
UNCAPPED = Sensitivity(None, "rows are not capped")
ENTANGLED = Sensitivity(None, "one row changes what becomes of others")


@dataclass_transform(eq_default=False, frozen_default=True)
class Query(Generic[Read]):
    """Base of every query: its facts, the length of its reply, and what the sum of all replies says (`Read`)."""

    broadcast: ClassVar[str]
    """What is sent to teachers, in the words of docs/explanation/privacy.md."""
    reply: ClassVar[str]
    """What each teacher answers with, in the same words."""
    exposure: ClassVar[str]
    """What the reply shows of a teacher's rows, in one sentence for docs, report and policy."""
    over: ClassVar[Over] = "all"
    """Rows that the reply runs over; "as asked": those that the field `rows` names."""
    shows_rows: ClassVar[bool] = False
    """Whether single rows can be read from question or reply as they are."""
    changes: ClassVar[tuple[str, ...]] = ()
    """Fields of a teacher's `State` that the query sets; a query that changes nothing need not be asked again."""
    sensitivity: ClassVar[Sensitivity] = UNCAPPED
    privacy: ClassVar[tuple[str, ...]] = ("none",)
    """Privacy modes in which the query is answered at all."""
    silent: ClassVar[bool] = False
    """Whether the reply depends on no row."""
    length: ClassVar[tuple[int | str, ...]] = (1,)
    """Parts of the reply's length: numbers, and names of fields, each as long as the field is (a count: its value)."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, eq=False)(cls)

    @property
    def name(self) -> str:
        """Name in the ledger."""
        return type(self).__name__

    @property
    def reply_length(self) -> int:
        """How many numbers each teacher answers with."""
        parts = [getattr(self, part) if isinstance(part, str) else part for part in self.length]
        return sum(part if isinstance(part, int) else len(part) for part in parts)

    @property
    def behind(self) -> tuple[RowSet, ...]:
        """Sets of rows that this reply runs over."""
        return (vars(self)["rows"] if self.over == "as asked" else self.over,)

    listed: ClassVar[tuple[str, ...]] = ()
    """Fields that are lists of any length, whatever others of their name are."""

    lifted: ClassVar[tuple[str, ...]] = ()
    """Fields that are as long as dual variables, where others of their names are as long as models."""
    varies: ClassVar[bool] = False
    """Whether the length of a reply depends on the rows; such a query is gathered, not summed."""

    def keeps(self, privacy: str) -> bool:
        """Tell whether the query is answered in a privacy mode."""
        return privacy in self.privacy

    def read(self, total: Array) -> Read:
        """Return the summed reply in the form the coordinator works with."""
        raise NotImplementedError

    def fits(self, reply: Array) -> bool:
        """Tell whether a reply is as long as declared."""
        return reply.shape == (self.reply_length,)

    def wrong(self, reply: Array) -> Mask:
        """Mark numbers that no honest reply has."""
        return ~np.isfinite(reply)

    @property
    def nbytes(self) -> int:
        """Bytes of numbers in the broadcast."""
        return sum(map(_payload, vars(self).values()))

    def misfit(self, columns: int, width: int, teachers: int) -> str | None:
        """Name a field that does not fit a lesson of `columns` columns, `width` coefficients and `teachers` teachers."""
        sizes: dict[str, list[tuple[int, ...]]] = {
            "x": [(columns,)],
            "d": [(width,)],
            "p": [(width + 1,)],
            "m": [(width,), (width, width)],
            "r": [shape for own in (columns, columns + 1) if width % own == 0 for shape in ((own,), (own, own))],
            "o": [(BINS,)],
            "k": [(teachers, width)],
            "n": [(len(value), width) for name, value in vars(self).items() if name == "models"],
        }
        for name, value in vars(self).items():
            shape = "p" if name in self.lifted else "" if name in self.listed else SHAPES.get(name, "")
            wanted = sizes.get(shape, [])
            if isinstance(value, tuple) and (name in ("counts", "idle") or (value and name in ("beta", "taken"))):
                wanted = [(teachers,)]
            if shape == "m" and isinstance(value, np.ndarray) and value.ndim == 2 and value.shape[1:] == (width,):
                wanted = [value.shape] if len(value) <= width else wanted  # fewer rows where some directions are flat
            if isinstance(value, np.ndarray):
                # What no table names, steps and radii, is a list of any length.
                if value.shape not in wanted and (wanted or value.ndim != 1):
                    return f"{name} has shape {value.shape}, {wanted[0] if wanted else 'one axis'} is right"
                if not np.isfinite(value).all():
                    return f"{name} holds {value[~np.isfinite(value)][0]}, and numbers are finite"
            elif wanted and type(value) in (int, tuple):
                size = value if isinstance(value, int) else len(value)
                if (size,) not in wanted:
                    return f"{name} is for {size}, {wanted[0][0]} is right"
        return None


def _payload(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, tuple):
        return sum(map(_payload, value))
    return len(value) if isinstance(value, str) else 8


@lru_cache(maxsize=64)
def upper_triangle(width: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the indices of the numbers of a symmetric matrix that travel: row by row, from the diagonal on."""
    return np.triu_indices(width)


def read_upper(numbers: Array, width: int) -> Array:
    """Build the symmetric matrix with this upper triangle."""
    matrix = np.zeros((width, width))
    matrix[upper_triangle(width)] = numbers
    matrix.T[upper_triangle(width)] = numbers
    return matrix


class Number(Query[float]):
    """A query that is answered with one sum."""

    reply = "1 sum"

    def read(self, total: Array) -> float:
        return float(total[0])


class Numbers(Query[Array]):
    """A query whose sums are read as they are."""

    def read(self, total: Array) -> Array:
        return total


class Counts(Query[npt.NDArray[np.int64]]):
    """A query that is answered with counts."""

    sensitivity = COUNTED

    def read(self, total: Array) -> npt.NDArray[np.int64]:
        return np.rint(total).astype(np.int64)


class Size(NamedTuple):
    """How many rows, how many of them carry a positive label or target; if asked: how many of each class, their costs."""

    rows: int
    positive: int
    classes: tuple[int, ...] = ()
    cost: float = 0.0


class Sized(Query[Size]):
    """A query that is answered with two counts, and (but for `Census`) chooses rows."""

    reply = "2 counts"
    exposure = "chosen rows; those of them with a positive label or target"
    over: ClassVar[Over] = "chosen"
    changes: ClassVar[tuple[str, ...]] = ("chosen",)
    sensitivity = COUNTED
    length: ClassVar[tuple[int | str, ...]] = (2,)

    def read(self, total: Array) -> Size:
        rows, positive, *classes = (round(number) for number in total.tolist())
        return Size(rows, positive, tuple(classes))


class Census(Sized):
    """How many rows are there (or chosen), and how many with a positive label or target; of many classes, in each; what do
    they cost their owners?
    """

    rows: Literal["all", "chosen"] = "all"
    classes: int = 0
    costs: bool = False
    broadcast = "which rows, how many classes there are, whether costs are asked for"
    reply = "2 counts, 1 count per class, 1 sum for costs"
    exposure = "rows; rows with a positive label or target; rows of each class; what they cost together"
    over = "as asked"
    changes = ()
    sensitivity = Sensitivity(None, "a row counts once, but costs are not capped")
    length = (2, "classes", "costs")

    def read(self, total: Array) -> Size:
        size = super().read(total[: 2 + self.classes])
        return size._replace(cost=float(total[-1])) if self.costs else size


class ColumnSums(Numbers):
    """Σ_j (x_j − centre)^power, column by column: means first, then spreads around them."""

    centre: Array
    power: Literal[1, 2]
    broadcast = "a centre per column, a power"
    reply = "d sums"
    exposure = "the sum (then the squared spread) of each column"
    length = ("centre",)


class Announced(Protocol):
    """A loss as it is announced: by name and parameters. Teachers build it."""

    def settings(self) -> Mapping[str, object]:
        """Return its `name` and its parameters."""


class Prepared(NamedTuple):
    """How many rows there are, Σ‖x_j‖² over scaled columns, and whether any teacher has costs."""

    size: Size
    squares: float
    costs: bool


class Prepare(Query[Prepared]):
    """Use this loss, this constant column (0: none) and this scaling from now on; start afresh."""

    loss: Announced
    constant: float
    centre: Array | None = None
    scale: Array | None = None
    broadcast = "loss, constant column, scaling"
    reply = "3 counts, 1 sum"
    exposure = (
        "rows; rows with a positive label; the sum of squares over all scaled numbers; how many owners have costs"
    )
    changes = EVERYTHING
    length = (4,)

    def read(self, total: Array) -> Prepared:
        return Prepared(Size(round(total[0]), round(total[1])), float(total[2]), total[3] > 0.0)


class _Asked(Query[Read]):
    """What `AskMoments` and `AskValues` share: a function of each row, summed over some rows at a point."""

    function: RowFunction
    rows: RowSet
    point: Array
    over = "as asked"

    @property
    def lifted(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("point", "direction") if self.function == "relax" else ()

    def wrong(self, reply: Array) -> Mask:
        """Let overflows pass: a solver looks at them. A NaN comes from an infinity, and never alone."""
        return ~np.isfinite(reply) & ~np.isinf(reply).any()


class AskMoments(_Asked[Moments]):
    """Σ_j f_j(x_j'p) with gradient Σ f_j' x_j and, for order 2, curvature Σ f_j'' x_j x_j'."""

    order: Literal[1, 2]
    outputs: int = 1
    """Above 1: curvature of each of these outputs by itself, a guide for steps at a fraction of the whole one's price."""
    rough: bool = False
    """Such a guide too: curvature of "relax" over a sample of the rows, the likelier the more they weigh."""
    broadcast = "a point p, which rows, which function"
    reply = "1 + d sums, and d(d+1)/2 more for order 2"
    exposure = "a sum over rows, one per column and (order 2) one per pair of columns"

    @property
    def name(self) -> str:
        return f"{self.function} moments"

    @property
    def reply_length(self) -> int:
        width = len(self.point)
        if self.order == 2 and self.outputs > 1:
            own = width // self.outputs
            return 1 + width + self.outputs * own * (own + 1) // 2 + width % self.outputs
        return 1 + width + (width * (width + 1) // 2 if self.order == 2 else 0)

    def read(self, total: Array) -> Moments:
        width = len(self.point)
        if self.order == 2 and self.outputs > 1:
            own = width // self.outputs
            last = total[len(total) - width % self.outputs :]
            parts = total[1 + width : len(total) - len(last)].reshape(self.outputs, -1)
            blocks = Blocks(np.stack([read_upper(part, own) for part in parts]), last)
            return Moments(float(total[0]), total[1 : 1 + width], None, blocks)
        curvature = read_upper(total[1 + width :], width) if self.order == 2 else None
        return Moments(float(total[0]), total[1 : 1 + width], curvature)


class AskValues(_Asked[Array]):
    """Σ_j f_j(x_j'(p + s·direction)) for a whole batch of step lengths s: a line search in one round."""

    direction: Array
    steps: Array
    broadcast = "a point, a direction, some step lengths"
    reply = "one sum per step"
    exposure = "the first sum of AskMoments at other points, one per step length"
    length = ("steps",)

    @property
    def name(self) -> str:
        return f"{self.function} values"

    def read(self, total: Array) -> Array:
        return total


class RankRows(Numbers):
    """Sort your rows by |α(p)|, by the |α| that Algorithm 1 left (ties: at p), by a random number each, or such that the
    best n are n/K of every teacher's rows, drawn at random ("even").
    """

    by: Literal["dual", "block", "random", "even"]
    point: Array | None = None
    seed: int = 0
    broadcast = "a point or a seed"
    reply = "1 count"
    exposure = "rows"
    changes = ("ranking",)
    sensitivity = COUNTED


class CountRanks(Counts):
    """For each prefix of a rank, how many rows continue it with each of the 256 next bytes?

    A rank has sixteen bytes: eight of the score, best first, then eight that break ties.
    """

    prefixes: tuple[bytes, ...]
    broadcast = "some prefixes of a score"
    reply = "256 counts per prefix"
    exposure = "how many rows have which scores"

    @property
    def reply_length(self) -> int:
        return HISTOGRAM_BINS * len(self.prefixes)

    @property
    def nbytes(self) -> int:
        return sum(1 + len(prefix) for prefix in self.prefixes)

    def read(self, total: Array) -> npt.NDArray[np.int64]:
        return super().read(total).reshape(len(self.prefixes), HISTOGRAM_BINS)


class Keep(Sized):
    """Choose the rows whose rank is at most this one; the mask stays with its owner."""

    last: bytes
    broadcast = "a threshold"

    @property
    def nbytes(self) -> int:
        return len(self.last)


class Recall(Sized):
    """Remember the present choice as the best so far, of a search, a walk over sizes or a set of goals; or go back to it."""

    of: Literal["rounding", "search", "walk", "goal"]
    remember: bool
    broadcast = "yes or no: remember this choice, or go back to the one remembered"
    changes = ("chosen", "best")


class Comparison(NamedTuple):
    """How models agree with a goal on the rows: labels in common, and the sums of an r²."""

    rows: int
    same_label: Array
    """One count per model."""
    error: Array
    """Σ‖Θx − Θ*x‖², one number per model."""
    total: Array
    """Σ of the goal's predictions, one per output."""
    spread: float
    """Σ‖Θ*x − centre‖²."""


class Compare(Query[Comparison]):
    """How do models and the goal agree on all rows? `centre` is the mean prediction of each output, once known."""

    models: Array
    """One per line."""
    goal: Array
    centre: Array
    listed = ("centre",)
    broadcast = "some models and a goal"
    reply = "2 sums, 2 sums per model, 1 sum per output"
    exposure = "how often and how far models differ on the rows"
    length = (2, "models", "models", "centre")

    def read(self, total: Array) -> Comparison:
        count = len(self.models)
        same, error, rest = np.split(total[1:-1], [count, 2 * count])
        return Comparison(round(total[0]), same, error, rest, float(total[-1]))

"""What methods ask that choose rows by the goal: exact teaching, and every teacher alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from superteach.queries.common import AskMoments, Moments, Query, Sized

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Balance(Query):
    """Get ready to balance the goal: take each row's pull g_j on it and its cost c_j."""

    goal: Array
    metric: Array
    """Leverages are x'Mx with this matrix; rows with more of it steady the learner and cost less."""
    fine: float
    """Share of rows, those with the weakest pull, that is set aside for fine adjustments."""
    temperature: float
    seed: int
    least: int = 1
    """A turn will change at least so many rows; who has fewer takes part by its owner's leave only."""
    exposure: ClassVar[str] = "one sum of costs, which are drawn at random or set by the owner"

    @property
    def reply_length(self) -> int:
        return 1

    def read(self, total: Array) -> float:
        return float(total[0])


class ChosenMoments(Query):
    """Base of queries that change choices: all answer "loss moments" of the chosen rows at the goal, with curvature."""

    goal: Array
    exposure: ClassVar[str] = (
        "one sum, one per column, one per pair, over the chosen rows; see the page on refine"
    )

    @property
    def reply_length(self) -> int:
        return self._moments.reply_length

    def read(self, total: Array) -> Moments:
        return self._moments.read(total)

    @property
    def _moments(self) -> AskMoments:
        return AskMoments("loss", "chosen", self.goal, 2)


@dataclass(frozen=True, eq=False)
class Refine(ChosenMoments):
    """The teacher whose turn it is changes its choice to shrink the residual."""

    position: int
    goal: Array
    residual: Array
    metric: Array
    """Turns a row's pull into the shift of the model that choosing it causes."""
    least: int
    """A turn changes at least so many rows, or none."""
    seed: int
    turn: int
    brief: bool = False
    """Whether a step of all teachers together will do the rest, so that a shorter search is enough."""


@dataclass(frozen=True, eq=False)
class Propose(Query):
    """What would some small changes of your choice do? Each teacher fills the slots that it owns.

    A slot holds Σ g_j over the rows that would enter less those that would leave, and how many more would enter. A
    change flips one row, and then any of them can be made; or `least` rows and more, and then one of them can.
    """

    goal: Array
    metric: Array
    """Turns a row's pull into the shift of the model that choosing it causes."""
    least: int
    each: int
    """Changes that every teacher looks for. Who has told of some single rows goes on to others."""
    owners: tuple[int, ...]
    """Whose slot it is, and which of its changes goes there."""
    numbers: tuple[int, ...]
    reach: float = 0.0
    """Rows that would enter are drawn from those that shift the model by no more than this; by 0, the weakest are taken."""
    seed: int = 0
    exposure: ClassVar[str] = "one sum per column and a count, for each change; see the page on refine"

    @property
    def reply_length(self) -> int:
        return len(self.owners) * (len(self.goal) + 1)

    def read(self, total: Array) -> Array:
        return total.reshape(len(self.owners), -1)


@dataclass(frozen=True, eq=False)
class Accept(ChosenMoments):
    """Make these of your proposed changes, and none of the others."""

    goal: Array
    owners: tuple[int, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Approach(Sized):
    """The teacher whose turn it is changes its choice to bring the taught model nearer to the goal.

    A turn that made things worse is taken back by the next query, with keep=False; position −1 is nobody.
    """

    position: int
    keep: bool
    model: Array
    inverse: Array
    goal: Array
    measure: Array
    grow: int
    """By how many rows the lesson may grow in this turn; `shrink` likewise."""
    shrink: int
    least: int
    bold: bool = False
    """Whether to exchange many rows at once, first of all."""


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
    tolerance: float
    """Risk at which "match" is content."""
    seed: int
    exposure: ClassVar[str] = (
        "two counts of chosen rows, and whether the teacher's search ended or found nothing"
    )

    @property
    def reply_length(self) -> int:
        return 4

    def read(self, total: Array) -> Solo:
        return Solo(*(round(number) for number in total.tolist()))

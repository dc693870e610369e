"""What a method is: what it needs, how it is described, and how it chooses rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from superteach.exceptions import BudgetError, Setting, SettingError, counted
from superteach.lesson import Certificate, Words
from superteach.protocol.queries import Recall

if TYPE_CHECKING:
    from superteach.coordinator.federation import Federation
    from superteach.coordinator.problem import FederatedProblem
    from superteach.learner import Learner
    from superteach.protocol.queries import Size
    from superteach.settings import Settings
    from superteach.types import Array


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a choice of rows came about and ended, whichever method made it."""

    reason: str
    """Why it ended, as a clause."""
    converged: bool = True
    """Whether it ended by itself rather than at a limit."""
    objective: Array = field(default_factory=lambda: np.empty(0))
    """What the method lowers, after every step; empty where there is nothing of the kind."""
    gap: Array = field(default_factory=lambda: np.empty(0))
    """How far at most each objective lies above the optimum; empty where no optimum is bounded."""
    certificate: Certificate | None = None
    lower_bound: float = 0.0
    """A risk that no lesson can go below, where one is proved."""


class Chooser(Protocol):
    """Leaves every teacher with its part of a lesson; `coordinator.path` walks with it over lesson sizes."""

    @property
    def outcome(self) -> Outcome:
        """How the present choice came about."""

    @property
    def near(self) -> Array | None:
        """A model near which the taught one is expected, from where a fit is short; None: the pool's."""

    def announce(self, sizes: list[int]) -> list[int]:
        """Hear which sizes are allowed, and return the ones worth a look."""

    def choose(self, size: int) -> Size:
        """Choose `size` rows; return how many there are, and how many of them are positive."""

    def remember(self) -> None:
        """Note that the choice just made is the best of the walk."""

    def go_back(self) -> None:
        """Return to the choice remembered."""


class Search:
    """What every chooser that searches anew for each size has in common: it can go back to its best choice."""

    def __init__(self, problem: FederatedProblem, goal: Array, settings: Settings) -> None:
        self._problem, self._goal, self._seed = problem, goal, settings.random_state
        self._best = self.outcome = Outcome("nothing was searched yet", False)

    @property
    def near(self) -> Array | None:
        """Where the taught model is expected: at the goal, unless it is proved to be out of reach."""
        return self._goal if self.outcome.certificate is None and self.outcome.converged else None

    def announce(self, sizes: list[int]) -> list[int]:
        """Look at every size: each is a search of its own."""
        return sizes

    def remember(self) -> None:
        """Note that the choice just made is the best of a walk."""
        self._problem.federation.sum(Recall("walk", True))
        self._best = self.outcome

    def go_back(self) -> None:
        """Return to the best of a walk."""
        self._problem.federation.sum(Recall("walk", False))
        self.outcome = self._best


PATH_FRACTIONS = (
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06, 0.07, 0.08,
    0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0,
)  # fmt: skip
"""Shares of the pool that budget="best" looks at, where another size costs little: dense where the paper's risks have
their dip."""
FEW = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""Shares of the pool that budget="best" looks at, where each costs a whole search."""


def lesson_sizes(
    budget: float | str | tuple[float, float], rows: int, width: int, fractions: tuple[float, ...] = PATH_FRACTIONS
) -> list[int]:
    """List the lesson sizes to look at, ascending: one for a count or a fraction, several for a range or "best"."""
    if budget == "smallest":
        return []
    if isinstance(budget, str):
        least = min(width + 1, rows)
        return sorted({min(rows, max(least, round(fraction * rows))) for fraction in fractions})
    if isinstance(budget, tuple | list):
        low, high = (lesson_sizes(end, rows, width)[0] for end in budget)
        return sorted({round(size) for size in np.geomspace(low, high, min(5, high - low + 1))})
    if isinstance(budget, int):
        if budget > rows:
            raise BudgetError(
                Setting("budget", budget),
                f" rows is more than the {counted(rows, 'rows')} all teachers have together",
            )
        return [int(budget)]
    return [max(1, round(float(budget) * rows))]


def check_least(sizes: list[int], budget: object, rows: int, width: int, learner: Learner) -> None:
    """Refuse, before any row is chosen, sizes to which no model belongs."""
    least, why = learner.least_rows(width)
    if sizes and max(sizes) < least:
        raise BudgetError(
            Setting("budget", budget),
            f" is {max(sizes):,} of {counted(rows, 'rows')}, and {why}: give at least {least}",
            *(("; ", Setting("budget", 1.0), " is all of them") if budget == 1 else ()),
        )


class Method:
    """A way to choose rows: what it needs, how it speaks of itself, and the chooser it starts.

    Nothing outside `coordinator.methods` asks which method it has before it: a difference between methods is an
    attribute here, or a method to override.
    """

    name: ClassVar[str]
    words: ClassVar[Words]
    uses: ClassVar[tuple[str, ...]] = ()
    """Settings that it looks at and not every method does."""
    solvers: ClassVar[tuple[str, ...]] = ("Newton", "LBFGS")
    """Solvers it works with, by class; all methods fit the learner by one of the first two."""
    fractions: ClassVar[tuple[float, ...]] = FEW
    """Shares of the pool that budget="best" looks at."""

    broad: ClassVar[bool] = False
    """Whether it teaches learners of several outputs, and learners without a penalty."""

    shares: ClassVar[bool] = False
    """Whether a teacher can meet a share of the goal by it alone, as private modes ask."""

    def check(self, settings: Settings, learner: Learner, federation: Federation) -> None:
        """Refuse, before the first query, what this method cannot do."""
        if not learner.ridge or learner.outputs > 1:
            what = f"{learner.outputs} classes or targets" if learner.outputs > 1 else "a learner without a penalty"
            if not self.broad:
                binary = ". Only binary classification is supported by it, or one target" * (learner.outputs > 1)
                raise SettingError(
                    Setting("method", self.name), f" does not teach {what}; use ", Setting("method", "match"), binary
                )
        kind = type(settings.solver).__name__
        if settings.solver is not None and kind not in self.solvers:
            raise SettingError(
                Setting("solver", settings.solver),
                " does not go with ",
                Setting("method", self.name),
                f", which works with {' and '.join(self.solvers)}",
            )

    def sizes(self, settings: Settings, problem: FederatedProblem) -> list[int]:
        """List the lesson sizes that the budget allows, ascending."""
        return lesson_sizes(settings.budget, problem.rows, problem.width, self.fractions)

    def start(self, problem: FederatedProblem, goal: Array, settings: Settings) -> Chooser:
        """Begin to choose rows for `goal`, which is given on the scaled columns."""
        raise NotImplementedError

    def tell(self, settings: Settings) -> Words:
        """Describe a lesson taught with `settings`."""
        return self.words

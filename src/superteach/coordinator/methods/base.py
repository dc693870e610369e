"""What a method is: needs, words, and a chooser of rows that ends with an outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from superteach.exceptions import Setting, SettingError
from superteach.lesson import Words

if TYPE_CHECKING:
    from superteach.coordinator.federation import Federation
    from superteach.coordinator.methods.outcome import Outcome
    from superteach.coordinator.problem import FederatedProblem
    from superteach.learner import Learner
    from superteach.protocol.queries import Size
    from superteach.settings import Settings
    from superteach.types import Array

PATH_FRACTIONS = (
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06, 0.07, 0.08,
    0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0,
)  # fmt: skip
"""Shares of the pool that budget="best" looks at, where another size costs little: dense where the paper's risks have
their dip."""
FEW = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""Shares of the pool that budget="best" looks at, where each costs a whole search."""


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

    def sizes(self, settings: Settings, room: FederatedProblem) -> list[int]:
        """List the lesson sizes that the budget allows, ascending."""
        from superteach.coordinator import selection

        return selection.counts_of(settings.budget, room.rows, room.width, self.fractions)

    def start(self, room: FederatedProblem, goal: Array, settings: Settings) -> Chooser:
        """Begin to choose rows for `goal`, which is given on the scaled columns."""
        raise NotImplementedError

    def tell(self, settings: Settings) -> Words:
        """Describe a lesson taught with `settings`."""
        return self.words

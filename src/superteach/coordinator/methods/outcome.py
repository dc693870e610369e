"""What methods share: how a choice of rows ends, and going back to the best of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from superteach.coordinator.problem import FederatedProblem
from superteach.lesson import Certificate
from superteach.protocol.queries import Recall
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
    optimal: bool = False
    """Whether it is proved that no lesson of the sizes allowed has a lower risk."""


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

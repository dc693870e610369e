"""What every chooser that searches anew for each size has in common."""

from __future__ import annotations

from superteach.coordinator.classroom import Classroom
from superteach.coordinator.methods.outcome import Outcome
from superteach.line.queries import Recall
from superteach.settings import Settings
from superteach.types import Array


class Search:
    """What every chooser that searches anew for each size has in common: it can go back to its best choice."""

    def __init__(self, room: Classroom, goal: Array, settings: Settings) -> None:
        self._room, self._goal, self._seed = room, goal, settings.random_state
        self._best = self.outcome = Outcome("nothing was searched yet", False)

    @property
    def near(self) -> Array | None:
        """Where the taught model is expected: at the goal, unless it is proved to be out of reach."""
        return self._goal if self.outcome.certificate is None and self.outcome.converged else None

    def announce(self, sizes: list[int]) -> list[int]:
        """Every size is a search of its own."""
        return sizes

    def remember(self) -> None:
        """The choice just made is the best of a walk."""
        self._room.federation.sum(Recall("walk", True))
        self._best = self.outcome

    def go_back(self) -> None:
        """Return to the best of a walk."""
        self._room.federation.sum(Recall("walk", False))
        self.outcome = self._best

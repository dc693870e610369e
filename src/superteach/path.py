"""Walking over lesson sizes: every method is scored by the same refit and the same risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from superteach import metrics, selection
from superteach.classroom import Classroom
from superteach.errors import BudgetError
from superteach.federation import Federation
from superteach.lesson import PathPoint
from superteach.queries import Keep, Size

Array = npt.NDArray[np.float64]

MATCH_FRACTIONS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""Sizes that "match" looks at for budget="best": each costs it a whole search."""


class Chooser(Protocol):
    """Leaves every teacher with its part of a lesson."""

    def announce(self, sizes: list[int]) -> None:
        """Told which sizes will be asked for."""

    def choose(self, size: int) -> Size:
        """Choose so many rows; how many there are, and how many of them are positive."""


class Ranked:
    """Rows already sorted by every teacher: the best n of all, found from counts."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self._last: dict[int, bytes] = {}

    def announce(self, sizes: list[int]) -> None:
        """Find the last rank of every size at once."""
        self._federation.stage = "selection"
        missing = [size for size in sizes if size not in self._last]
        self._last.update(zip(missing, selection.last_ranks(self._federation, missing), strict=True))

    def choose(self, size: int) -> Size:
        """Keep the rows up to that rank."""
        self.announce([size])
        kept: Size = self._federation.sum(Keep(self._last[size]))
        return kept


@dataclass(frozen=True, eq=False)
class Walk:
    """Where a walk ended, and every point it looked at, by size."""

    model: Array
    size: int
    points: tuple[PathPoint, ...]


def fractions(method: str) -> tuple[float, ...]:
    """Where budget="best" looks."""
    return MATCH_FRACTIONS if method == "match" else selection.PATH_FRACTIONS


def lowest(room: Classroom, chooser: Chooser, sizes: list[int], raw_goal: Array) -> Walk:
    """Refit at every size, from the model before it, and end on the size with the lowest risk."""
    chooser.announce(sizes)
    points: list[PathPoint] = []
    model: Array | None = None
    best: tuple[float, Array, int, int] | None = None
    refusal: str | None = None
    # From the whole pool downwards: the pool's model is known, and neighbours start next to each other.
    for size in reversed(sizes):
        room.federation.stage = "path"
        kept = chooser.choose(size)
        refusal = room.learner.refuses(kept.rows, kept.positive)
        if refusal:  # scikit-learn's own learners refuse such rows too
            continue
        room.federation.stage = "path"
        model = room.fit_chosen(kept.rows, model)
        risk = metrics.risk(room.scaling.raw(model), raw_goal)
        points.append(PathPoint(kept.rows, kept.rows / room.rows, risk))
        if best is None or risk <= best[0]:
            best = (risk, model, size, kept.rows)
    if best is None:
        raise BudgetError(f"budget={sizes[0]}: the chosen {refusal}; raise the budget, or use budget='best'")
    if len(sizes) > 1:
        chooser.choose(best[2])
    return Walk(best[1], best[3], tuple(sorted(points, key=lambda point: point.size)))


def smallest(room: Classroom, chooser: Chooser, raw_goal: Array, target: float) -> Walk:
    """The smallest lesson found that reaches the target: doubled until it does, then halved in between."""
    points: dict[int, PathPoint] = {}
    models: dict[int, Array] = {}

    def reaches(size: int) -> bool:
        try:
            walk = lowest(room, chooser, [size], raw_goal)
        except BudgetError:
            return False
        points[size], models[size] = walk.points[0], walk.model
        return walk.points[0].risk <= target

    low, high = 0, min(room.width + 1, room.rows)
    while not reaches(high):
        if high == room.rows:
            nearest = min(points.values(), key=lambda point: point.risk)
            raise BudgetError(
                f"no lesson reaches risk_target={target:g}; the nearest of {len(points)} sizes tried has "
                f"{nearest.size} rows and a risk of {nearest.risk:.4g}"
            )
        low, high = high, min(2 * high, room.rows)
    while high - low > max(1, high // 20):
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    chooser.announce([high])
    chooser.choose(high)
    return Walk(models[high], high, tuple(points[size] for size in sorted(points)))

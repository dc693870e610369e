"""Walking over lesson sizes: every method is scored by the same refit and the same risk."""

from __future__ import annotations

from dataclasses import dataclass

from superteach.coordinator import metrics, selection
from superteach.coordinator.federation import Federation
from superteach.coordinator.methods.base import Chooser
from superteach.coordinator.methods.outcome import Outcome
from superteach.coordinator.problem import FederatedProblem
from superteach.exceptions import BudgetError, Setting
from superteach.lesson import PathPoint
from superteach.protocol.queries import Keep, Size
from superteach.types import Array


class Ranked:
    """Rows already sorted by every teacher: the best n of all, found from counts."""

    near: Array | None = None

    def __init__(self, federation: Federation, outcome: Outcome) -> None:
        self._federation, self.outcome = federation, outcome
        self._last: dict[int, bytes] = {}
        self._size = self._best = 0

    def announce(self, sizes: list[int]) -> list[int]:
        """Find the last rank of every size at once."""
        self._federation.stage = "selection"
        missing = [size for size in sizes if size not in self._last]
        self._last.update(zip(missing, selection.last_ranks(self._federation, missing), strict=True))
        return sizes

    def choose(self, size: int) -> Size:
        """Keep the rows up to that rank."""
        self.announce([size])
        self._size = size
        kept: Size = self._federation.sum(Keep(self._last[size]))
        return kept

    def remember(self) -> None:
        """Note the size, which is enough to find the choice again."""
        self._best = self._size

    def go_back(self) -> None:
        """Choose the size remembered again."""
        if self._size != self._best:
            self.choose(self._best)


@dataclass(frozen=True, eq=False)
class Walk:
    """Where a walk ended, and every point it looked at, by size."""

    model: Array
    point: PathPoint
    points: tuple[PathPoint, ...]


Taught = tuple[Array, PathPoint]
"""What the learner makes of one choice: its model, and the point of the walk."""


def _teach(room: FederatedProblem, chooser: Chooser, size: int, start: Array | None, raw_goal: Array) -> Taught | str:
    """Choose `size` rows and fit the learner on them, or say why scikit-learn's own would refuse them."""
    room.federation.stage = "path"
    kept = chooser.choose(size)
    refusal = room.refuses(kept)
    if refusal:
        return refusal
    room.federation.stage = "path"
    model = room.fit_chosen(kept.rows, chooser.near if start is None else start)
    risk = metrics.risk(room.scaling.raw(model), raw_goal)
    away = room.distance(model, room.scaling.inside(raw_goal))
    room.federation.note(away)
    return model, PathPoint(kept.rows, kept.rows / room.rows, risk, away)


def lowest(room: FederatedProblem, chooser: Chooser, sizes: list[int], raw_goal: Array) -> Walk:
    """Refit at every size, from the model before it, and end on the size that comes nearest to the goal."""
    sizes = chooser.announce(sizes)
    points: list[PathPoint] = []
    last: Array | None = None
    best: Taught | None = None
    refusal = ""
    # From the whole pool downwards: the pool's model is known, and neighbours start next to each other.
    for size in reversed(sizes):
        if room.late and best is not None:
            break
        taught = _teach(room, chooser, size, last if chooser.near is None else None, raw_goal)
        if isinstance(taught, str):
            refusal = taught
            continue
        last, point = taught
        points.append(point)
        if best is None or point.distance <= best[1].distance:
            best = taught
            if len(sizes) > 1:
                chooser.remember()
    if best is None:
        raise BudgetError(
            Setting("budget", sizes[0]),
            f": the chosen {refusal}; look whether the goal predicts the same for all rows (its intercept?), raise the "
            "budget, use ",
            Setting("budget", "best"),
            *((", or try ", Setting("standardize", True)) if room.scaling.scale is None else ()),
        )
    if len(sizes) > 1:
        chooser.go_back()
    return Walk(*best, tuple(sorted(points, key=lambda point: point.size)))


def smallest(room: FederatedProblem, chooser: Chooser, raw_goal: Array, target: float) -> Walk:
    """Find the smallest lesson that reaches the target: double the size until one does, then halve in between."""
    points: dict[int, PathPoint] = {}
    best: Taught | None = None

    def reaches(size: int) -> bool:
        nonlocal best
        chooser.announce([size])
        taught = _teach(room, chooser, size, None, raw_goal)
        if isinstance(taught, str):
            return False
        points[size] = taught[1]
        if points[size].risk > target:
            return False
        best = taught
        chooser.remember()
        return True

    low, high = 0, min(room.width + 1, room.rows)
    while not reaches(high):
        if high == room.rows or (room.late and points):
            tried = f"{len(points)} sizes tried"
            if points:
                nearest = min(points.values(), key=lambda point: point.risk)
                tried = f"the nearest of {tried} has {nearest.size} rows and a risk of {nearest.risk:.4g}"
            raise BudgetError("no lesson reaches ", Setting("risk_target", target), f"; {tried}")
        low, high = high, min(2 * high, room.rows)
    while high - low > max(1, high // 50) and not room.late:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    chooser.go_back()
    assert best is not None
    return Walk(*best, tuple(points[size] for size in sorted(points)))

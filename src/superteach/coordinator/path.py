"""Walks over lesson sizes: rows ranked up to a size, and every size scored by the same refit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from superteach.coordinator import metrics
from superteach.coordinator.federation import Federation
from superteach.coordinator.methods.base import Chooser, Outcome
from superteach.coordinator.problem import FederatedProblem
from superteach.exceptions import BudgetError, Setting, TeachingError
from superteach.lesson import PathPoint
from superteach.protocol.queries import HISTOGRAM_BINS, CountRanks, Keep, Size
from superteach.types import Array

_RANK_BYTES = 16


def last_ranks(federation: Federation, counts: list[int]) -> list[bytes]:
    """Find, for every n in `counts`, the rank up to which exactly n of all teachers' rows lie.

    One byte of the rank per round, for all counts at once; a search ends early where a byte's
    boundary happens to fall on its count.
    """
    found: dict[int, bytes] = {}
    open_: dict[int, tuple[bytes, int]] = dict.fromkeys(counts, (b"", 0))
    while open_:
        prefixes = tuple(sorted({prefix for prefix, _ in open_.values()}))
        histograms = dict(zip(prefixes, federation.sum(CountRanks(prefixes)), strict=True))
        for count, (prefix, before) in list(open_.items()):
            reached = before + np.cumsum(histograms[prefix])
            byte = int(np.searchsorted(reached, count))
            if byte == HISTOGRAM_BINS:
                raise TeachingError(f"only {reached[-1]} rows are ranked, {count} were asked for")
            prefix += bytes([byte])
            if reached[byte] == count:
                found[count] = prefix + b"\xff" * (_RANK_BYTES - len(prefix))
                del open_[count]
            elif len(prefix) == _RANK_BYTES:
                raise TeachingError("two rows share one id, so ties between them cannot be broken")
            else:
                open_[count] = (prefix, int(reached[byte - 1]) if byte else before)
    return [found[count] for count in counts]


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
        self._last.update(zip(missing, last_ranks(self._federation, missing), strict=True))
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


def _teach(
    problem: FederatedProblem, chooser: Chooser, size: int, start: Array | None, raw_goal: Array
) -> Taught | str:
    """Choose `size` rows and fit the learner on them, or say why scikit-learn's own would refuse them."""
    problem.federation.stage = "path"
    kept = chooser.choose(size)
    refusal = problem.refuses(kept)
    if refusal:
        return refusal
    problem.federation.stage = "path"
    model = problem.fit_chosen(kept.rows, chooser.near if start is None else start)
    risk = metrics.risk(problem.scaling.raw(model), raw_goal)
    away = problem.distance(model, problem.scaling.inside(raw_goal))
    problem.federation.note(away)
    return model, PathPoint(kept.rows, kept.rows / problem.rows, risk, away)


def lowest(problem: FederatedProblem, chooser: Chooser, sizes: list[int], raw_goal: Array) -> Walk:
    """Refit at every size, from the model before it, and end on the size that comes nearest to the goal."""
    sizes = chooser.announce(sizes)
    points: list[PathPoint] = []
    last: Array | None = None
    best: Taught | None = None
    refusal = ""
    # From the whole pool downwards: the pool's model is known, and neighbours start next to each other.
    for size in reversed(sizes):
        if problem.late and best is not None:
            break
        taught = _teach(problem, chooser, size, last if chooser.near is None else None, raw_goal)
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
            *((", or try ", Setting("standardize", True)) if problem.scaling.scale is None else ()),
        )
    if len(sizes) > 1:
        chooser.go_back()
    return Walk(*best, tuple(sorted(points, key=lambda point: point.size)))


def smallest(problem: FederatedProblem, chooser: Chooser, raw_goal: Array, target: float) -> Walk:
    """Find the smallest lesson that reaches the target: double the size until one does, then halve in between."""
    points: dict[int, PathPoint] = {}
    best: Taught | None = None

    def reaches(size: int) -> bool:
        nonlocal best
        chooser.announce([size])
        taught = _teach(problem, chooser, size, None, raw_goal)
        if isinstance(taught, str):
            return False
        points[size] = taught[1]
        if points[size].risk > target:
            return False
        best = taught
        chooser.remember()
        return True

    low, high = 0, min(problem.width + 1, problem.rows)
    while not reaches(high):
        if high == problem.rows or (problem.late and points):
            tried = f"{len(points)} sizes tried"
            if points:
                nearest = min(points.values(), key=lambda point: point.risk)
                tried = f"the nearest of {tried} has {nearest.size} rows and a risk of {nearest.risk:.4g}"
            raise BudgetError("no lesson reaches ", Setting("risk_target", target), f"; {tried}")
        low, high = high, min(2 * high, problem.rows)
    while high - low > max(1, high // 50) and not problem.late:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    chooser.go_back()
    assert best is not None
    return Walk(*best, tuple(points[size] for size in sorted(points)))

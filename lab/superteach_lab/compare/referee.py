"""The referee: it alone holds the data, checks every choice, refits the learner and measures.

Contestants work in processes of their own on copies (child.py); all they hand back is row indices.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from superteach.coordinator import metrics
from superteach.coordinator.federation import Federation
from superteach.coordinator.problem import FederatedProblem, setup
from superteach.engines.threads import Threads
from superteach.goals import check_goal
from superteach.learner import Learner
from superteach.teacher import Teacher
from superteach.types import Array
from superteach_lab.compare import child
from superteach_lab.compare.task import GOAL, Contestant, Indices, Task

OK, SKIPPED, FAILED = "ok", "skipped", "failed"


@dataclass(frozen=True)
class Score:
    """What a choice is worth: risk ‖θ_S − θ*‖, how predictions agree, |S|/N, and the time the choice took."""

    status: str
    reason: str = ""
    size: int | None = None
    share: float | None = None
    risk: float | None = None
    consistency: float | None = None
    seconds: float | None = None
    cpu: float | None = None
    distance: float | None = None
    """Root mean square of x'(θ_S − θ*) over the pool: the same whatever units columns have."""
    spread: float | None = None
    """Root mean square of the goal's own predictions around their mean, to set the distance beside."""
    out_of_reach: bool = False
    """Whether the contestant proved that no lesson of this size teaches the goal exactly."""

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


class Referee:
    """One pool, one learner, one goal: every contestant is measured here."""

    def __init__(
        self,
        X: Any,
        y: Any,
        owner: Any,
        learner: Any,
        goal: Any,
        seconds: float = 120.0,
        grace: float = 15.0,
        processor: float | None = None,
        standardize: bool = False,
    ) -> None:
        """Take copies of the rows (labels −1 and +1 for classifiers), deal them to teachers, settle the goal.

        A choice is told that it has `seconds`; it is stopped `grace` seconds later, or as soon as it has used `processor`
        seconds of processor time. With `standardize` it is given standardised columns; risk stays in raw units.
        """
        self._learner = Learner.of(learner)
        X, y = np.array(X, dtype=np.float64, order="C"), np.array(y, dtype=np.float64)
        self._rows, self._grace, self._processor = len(y), grace, processor
        self._federation = _federation(X, y, np.asarray(owner))
        self._room = setup(self._federation, self._learner, None, standardize)
        wanted = check_goal(goal, X.shape[1], self._learner)
        self._raw_goal = wanted if isinstance(wanted, np.ndarray) else wanted.vector(self._room)
        self._units = replace(self._room.scaling, constant=float(self._learner.column > 0.0))
        self._goal = self._units.inside(self._raw_goal)
        if standardize:
            X = (X if self._units.centre is None else X - self._units.centre) / self._units.scale
            self._federation = _federation(X, y, np.asarray(owner))
            self._room = setup(self._federation, self._learner, None, standardize=False)
        self._task = Task(X, y, np.array(owner, dtype=np.int64), self._learner, self._goal, seconds)

    @property
    def rows(self) -> int:
        """N."""
        return self._rows

    @property
    def goal(self) -> Array:
        """θ* on the columns that contestants see, a copy."""
        return self._goal.copy()

    def task(self, contestant: Contestant) -> Task:
        """What a contestant may see: copies, and the goal only where it says that it needs it."""
        return child.locked(self._task if GOAL in contestant.needs else replace(self._task, goal=None))

    def judge(self, contestant: Contestant, size: int, seed: int) -> Score:
        """Let a contestant choose `size` rows, check them, refit, measure."""
        return self.measure(self.choose(contestant, size, seed), self._asked(contestant, size))

    def choose(self, contestant: Contestant, size: int, seed: int) -> child.Choice:
        """Let a contestant choose, and look at nothing yet; who did not see the goal chose for every goal."""
        size, task = self._asked(contestant, size), self.task(contestant)
        refusal = contestant.refuses(task, size)
        if refusal is not None:
            return child.Choice("skipped", refusal)
        return child.choose(contestant, task, size, seed, self._grace, self._processor)

    def measure(self, choice: child.Choice, size: int) -> Score:
        """Check a choice of `size` rows, refit, measure; a proof counts only where it holds."""
        if choice.status != "chosen":
            status = SKIPPED if choice.status == "skipped" else FAILED
            return Score(status, choice.reason, seconds=choice.seconds, cpu=choice.cpu)
        fault = self.fault(choice.rows, size)
        if fault is not None:
            return Score(FAILED, fault, seconds=choice.seconds, cpu=choice.cpu)
        score = self.score(np.asarray(choice.rows, dtype=np.int64))
        proved = self.proves(choice.direction, size)
        return replace(score, seconds=choice.seconds, cpu=choice.cpu, out_of_reach=proved)

    def proves(self, direction: Any, size: int) -> bool:
        """Whether u'(Λθ*, n) > Σ_j max(0, u'(g_j, 1)): then no n rows, not even fractions of rows, add up to (Λθ*, n)."""
        aim = self._task.aim
        if not isinstance(direction, np.ndarray) or direction.shape != (len(aim) + 1,):
            return False
        if not (direction.dtype.kind in "iuf" and np.isfinite(direction).all()):
            return False
        pulls, _ = self._task.pulls(aim)
        most = np.maximum(pulls @ direction[:-1] + direction[-1], 0.0).sum()
        needed = float(direction @ np.append(self._task.penalty(size).gradient(aim), size))
        return bool(needed - most > 1e-9 * (abs(needed) + most))

    def _asked(self, contestant: Contestant, size: int) -> int:
        return self._rows if contestant.whole else size

    def fault(self, rows: Any, size: int) -> str | None:
        """What is wrong with a choice, if anything: `size` distinct rows of the pool are right."""
        if not isinstance(rows, np.ndarray):
            return f"returned {rows if isinstance(rows, str) else type(rows).__name__}, not row indices"
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            return f"returned {rows.dtype} of shape {rows.shape}, not a list of row indices"
        if len(rows) != size:
            return f"returned {len(rows)} rows, {size} were asked for"
        if len(rows) and (rows.min() < 0 or rows.max() >= self._rows):
            return f"returned row {int(rows.max() if rows.max() >= self._rows else rows.min())} of {self._rows}"
        if len(np.unique(rows)) != len(rows):
            return f"returned {len(rows) - len(np.unique(rows))} rows twice"
        return None

    def score(self, rows: Indices) -> Score:
        """Refit the learner on these rows alone, and measure."""
        rows = np.sort(rows)
        X, y = self._task.X[rows], self._task.y[rows]
        refusal = self._learner.refuses(len(rows), int(np.count_nonzero(y > 0.0)))
        share = len(rows) / self._rows
        if refusal is not None:
            return Score(FAILED, refusal, len(rows), share)
        lesson: FederatedProblem = setup(_federation(X, y, np.zeros(len(rows))), self._learner, None, standardize=False)
        model = lesson.fit_pool()
        agreement = metrics.likeness(
            self._federation, model, self._room.scaling.inside(self._goal), self._learner.loss.classifies
        )
        risk = metrics.risk(self._units.raw(self._room.scaling.raw(model)), self._raw_goal)
        return Score(
            OK, "", len(rows), share, risk, agreement.agreement, distance=agreement.distance, spread=agreement.spread
        )


def _federation(X: Array, y: Array, owner: npt.NDArray[Any]) -> Federation:
    members = [np.flatnonzero(owner == name) for name in np.unique(owner)]
    return Federation(Threads([Teacher(str(i), X[own], y[own], own) for i, own in enumerate(members)]))

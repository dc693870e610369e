"""Refine: exchange rows, one teacher after another and then all together, until little of the residual is left.

The residual e = H⁻¹(Σ_{j∈S} g_j − Λθ*) is what lies between the taught model and the goal, to first order. A lesson of
few rows has few ways to make up for it: there teachers take turns twice from the same start, of which the better is
kept, and tell of more rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from superteach.federation import Federation
from superteach.lesson import Certificate
from superteach.methods import combine
from superteach.problem import Quadratic, Scaling
from superteach.queries import Accept, AskMoments, Moments, Recall, Refine

Array = npt.NDArray[np.float64]

FEW_TURNS, MOST_TURNS, MANY_TURNS = 5, 10, 200
FEW_COLUMNS = 12
"""With more columns a residual is not made up for by a few rows: turns have the more work, and there are more."""
LONE_TURNS = 18
"""Turns where no step of all together follows, or where it has less to do."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What match did: predicted risk after rounding and after every turn, and why it stopped."""

    risks: Array
    converged: bool
    reason: str
    certificate: Certificate | None = None
    lower_bound: float = 0.0


@dataclass(frozen=True, eq=False)
class Stand:
    """Where a choice stands: what turns pulls into shifts, the residual, how it came about and why turns ended."""

    metric: Array
    residual: Array
    risks: tuple[float, ...]
    ended: bool = False
    reason: str = ""

    @property
    def risk(self) -> float:
        """The predicted risk."""
        return self.risks[-1]


@dataclass(frozen=True, eq=False)
class Refiner:
    """Turns, and a step of all together."""

    federation: Federation
    scaling: Scaling
    goal: Array
    penalty: Quadratic
    seed: int
    least: int
    """A turn changes at least so many rows, or none."""
    tolerance: float
    patience: int
    """Turns in a row without gain after which the turns end."""
    together: bool
    """Whether a step of all teachers together follows the turns."""
    small: bool
    """Whether the lesson has few rows."""
    taught: Callable[[], bool]
    """Whether the learner accepts the present choice; what all together changed is taken back where it does not."""

    def run(self) -> Outcome:
        """Bring the model as close to the goal as the rows allow."""
        stand = self._stand(self.federation.sum(AskMoments("loss", "chosen", self.goal, 2)))
        stand = self._turns(stand) if not self._twice else self._better_of_two(stand)
        if self.together and stand.risk > self.tolerance:
            stand = self._few_rows(stand) if self.small else self._all_together(stand)
        if stand.risk <= self.tolerance:
            said = f"the predicted risk {stand.risk:.2g} is at most {self.tolerance:.2g}"
            return Outcome(np.array(stand.risks), True, said)
        return Outcome(np.array(stand.risks), stand.ended, stand.reason)

    def _stand(self, sums: Moments, before: Stand | None = None) -> Stand:
        assert sums.curvature is not None
        inverse = np.linalg.pinv(sums.curvature + np.diag(self.penalty.diagonal), hermitian=True)
        metric = np.column_stack([self.scaling.raw(column) for column in inverse.T])
        residual = -metric @ (sums.gradient + self.penalty.gradient(self.goal))
        risk = float(np.linalg.norm(residual))
        self.federation.note(risk)
        if before is None:
            return Stand(metric, residual, (risk,))
        return replace(before, metric=metric, residual=residual, risks=(*before.risks, risk))

    @property
    def _twice(self) -> bool:
        """Whether turns are taken twice; with many teachers the turns are many already."""
        return self.together and self.small and self.federation.teachers <= MOST_TURNS

    def _better_of_two(self, start: Stand) -> Stand:
        """Turns from the same start with one and with another teacher first; the best of the three choices is kept."""
        if start.risk <= self.tolerance:
            return start
        self.federation.sum(Recall("round", True))
        first = self._turns(start)
        if first.risk <= self.tolerance:
            return first
        self.federation.sum(Recall("turns", True))
        self.federation.sum(Recall("round", False))
        second = self._turns(start, 1)
        if second.risk < min(first.risk, start.risk):
            return second
        # Turns go by first order, and where H changes much they can lead away.
        nearer = first.risk < start.risk
        self.federation.sum(Recall("turns" if nearer else "round", False))
        return (
            first
            if nearer
            else replace(first, metric=start.metric, residual=start.residual, risks=start.risks)
        )

    def _turns(self, stand: Stand, time: int = 0) -> Stand:
        """Teachers take turns until so many in a row bring nothing, or the residual is small enough."""
        teachers, idle = self.federation.teachers, 0
        # With many teachers each has few rows to exchange, so all of them are needed, twice.
        brief = self.together and len(self.goal) <= FEW_COLUMNS
        few = MOST_TURNS if brief or self.patience < teachers else LONE_TURNS
        if self._twice:
            few = max(FEW_TURNS, teachers)
        turns = few if teachers <= few else min(2 * teachers, MANY_TURNS)
        said = 2 * turns if self._twice else turns
        stand = replace(stand, ended=False, reason=f"the limit of {said} turns was reached")
        for turn in range(turns):
            if stand.risk <= self.tolerance:
                break
            position = (turn + time * (teachers // 2)) % teachers
            query = Refine(
                position,
                self.goal,
                stand.residual,
                stand.metric,
                self.least,
                self.seed,
                turn + time * turns,
                brief,
            )
            before, stand = stand, self._stand(self.federation.sum(query), stand)
            idle = idle + 1 if stand.risk >= 0.999 * before.risk else 0
            if idle >= self.patience and turn + 1 >= teachers:
                last = "no teacher" if self.patience == teachers else f"none of the last {idle} teachers"
                return replace(stand, ended=True, reason=f"{last} could bring the model closer to the goal")
        return stand

    def _all_together(self, stand: Stand) -> Stand:
        """The changes of all teachers that cancel best, made at once."""
        offers = combine.gather(self.federation, self.goal, stand.metric, self.least).seen(stand.metric)
        made = offers.best(stand.residual)
        if not len(made):
            return stand
        after = self._stand(self.federation.sum(Accept(self.goal, *offers.those(made))), stand)
        # Where H changes much the prediction can be wrong.
        if after.risk > stand.risk or not self.taught():
            return self._stand(self.federation.sum(Accept(self.goal, (), ())), after)
        return after

    def _few_rows(self, stand: Stand) -> Stand:
        """Changes told of a few times, as long as the residual is then, and made time and again as H changes."""
        start, pulls, made = stand, None, np.zeros(0, dtype=bool)
        draw = np.random.default_rng(self.seed)
        for before in range(combine.GATHERINGS):
            more = combine.gather(
                self.federation, self.goal, stand.metric, self.least, before, stand.residual, self.seed
            )
            if not len(more.owners):
                break
            pulls = more if pulls is None else pulls.beside(more)
            made = np.append(made, np.zeros(len(more.owners), dtype=bool))
            for _ in range(combine.TIMES if stand.risk > self.tolerance else 0):
                found = pulls.seen(stand.metric).some(stand.residual, made, draw)
                if np.array_equal(found, made):
                    continue
                after = self._stand(self.federation.sum(Accept(self.goal, *pulls.those(found))), stand)
                if after.risk < stand.risk:
                    stand, made = after, found
                else:
                    self.federation.sum(Accept(self.goal, *pulls.those(made)))
        if made.any() and not self.taught():
            return self._stand(self.federation.sum(Accept(self.goal, (), ())), start)
        return stand

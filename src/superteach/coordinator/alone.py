"""A teacher alone: the coordinator's own code, run by one teacher on itself, without a word to anybody else."""

from __future__ import annotations

from typing import NamedTuple

from superteach.coordinator.federation import Federation
from superteach.coordinator.methods import match
from superteach.coordinator.problem import FederatedProblem
from superteach.exceptions import TeachingError
from superteach.learner import Intercept, Learner
from superteach.losses.scalar import Loss
from superteach.optim import Newton
from superteach.optim.problem import Scaling
from superteach.protocol.messages import Answers, Turn
from superteach.protocol.queries import Alone, Census, Prepare, Query, Size
from superteach.settings import Settings
from superteach.types import Array, Positions


class Itself:
    """An engine with one teacher on its roster."""

    def __init__(self, teacher: Answers) -> None:
        self._teacher, self.state = teacher, teacher.start()
        self.names, self.features = (teacher.name,), int(teacher.rows.features)

    def sum(self, query: Query[object], number: int) -> Array:
        """Return the teacher's own reply."""
        self.state, sealed = self._teacher.answer(query, self.state, Turn(number, 0, 1))
        return sealed.values


class Choice(NamedTuple):
    """What a teacher chose by itself: rows (None where it found none), and whether its search came to its end."""

    rows: Positions | None
    ended: bool


class _OneOfMany(match.Matcher):
    """What one teacher's rows leave of the gradient adds to what others leave, so that is what counts, not its own model."""

    by_true_risk = False


def by_match(teacher: Answers, loss: Loss, scaling: Scaling, size: int, query: Alone) -> Choice:
    """Teach exactly within one teacher: run methods.match on a federation of one."""
    engine = Itself(teacher)
    federation = Federation(engine)
    kind: Intercept = "none" if not scaling.constant else "free" if query.free_intercept else "penalised"
    weighted = getattr(teacher, "weights", None) is not None
    learner = Learner(loss, query.ridge, kind, scaling.constant or 1.0, query.ridge_per_row, weighted)
    try:
        count: Size = federation.sum(Census())
        squares = federation.sum(Prepare(loss, scaling.constant, scaling.centre, scaling.scale))
        if learner.free_intercept and learner.refuses(count.rows, count.positive):
            return Choice(None, False)
        room = FederatedProblem(federation, learner, scaling, count.rows, Newton(), squares / count.rows)
        matcher = _OneOfMany(room, query.goal, Settings(random_state=query.seed))
        matcher.choose(size)
    except TeachingError:  # a fit on its rows alone may not exist, though one on all teachers' rows does
        return Choice(None, False)
    return Choice(engine.state.chosen, matcher.outcome.converged)

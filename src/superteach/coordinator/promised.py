"""Lessons under a promise: the script that every teacher follows, and what can be said of a lesson that nobody looked at.

No sum over chosen rows is asked for. Each function here is a fixed programme over `federation.sum`: in one process it runs
once for all teachers; across organisations every teacher runs it by itself, in step, and the coordinator only adds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from superteach.coordinator import methods, selection
from superteach.coordinator.classroom import NEWTON_WIDTH, enter
from superteach.coordinator.federation import Federation
from superteach.coordinator.goals import Goal, check_vector
from superteach.coordinator.methods.outcome import Outcome
from superteach.engines.base import Engine
from superteach.errors import BudgetError, GoalError, SettingError
from superteach.line.queries import Alone, Begin, ChooseAlone
from superteach.mathematics.learner import Learner
from superteach.mathematics.problem import Scaling
from superteach.privacy.terms import PromiseTerms
from superteach.settings import Settings
from superteach.types import Array, Json, Labels


def check(settings: Settings, terms: PromiseTerms, rows: int, width: int) -> int:
    """Return the size of a lesson that a promise can be kept for, or raise before anything is asked or spent."""
    method = methods.find(settings.method)
    if settings.promise not in method.promises:
        kept = ", ".join(method.promises)
        raise SettingError(
            f"promise={settings.promise!r} does not go with method={method.name!r}, which keeps {kept}: {method.unpromised}"
        )
    if settings.standardize and settings.promise != "masked":
        raise SettingError(
            f"standardize=True needs sums over rows, and promise={settings.promise!r} releases none of them: scale columns "
            "by means and deviations that are public, before teaching"
        )
    if settings.promise == "epsilon":
        if settings.delta >= 1.0 / max(rows, 1):
            raise SettingError(
                f"delta={settings.delta:g} is not below one over the {rows} rows ({1.0 / rows:.2g}): it would let a row be "
                "shown outright"
            )
        if width > NEWTON_WIDTH:
            raise SettingError(f"promise='epsilon' works for up to {NEWTON_WIDTH} columns, there are {width}")
        _ = terms.mu  # raises where no noise keeps such an ε and δ, or the package that counts them is missing
    size = selection.counts_of(settings.budget, rows, width)[0]
    if size > 0.9 * rows and settings.promise == "epsilon":
        raise BudgetError(
            f"budget={settings.budget!r} leaves no choice: under a promise choose at most 0.9 of the rows"
        )
    return size


ROWS_PER_COEFFICIENT = 200
"""Rows for each coefficient, times ε, from which on noise leaves a lesson nearer to the goal than all rows are: of 191
lessons (3 and 10 columns, 442 to 5,000 rows, ε of 1 and 4) the 17 that ended farther had fewer than 180."""


def doubt(settings: Settings, rows: int, width: int) -> str | None:
    """Say, from public numbers alone, that noise may outweigh a lesson; None: it should not."""
    enough = ROWS_PER_COEFFICIENT * width / settings.epsilon
    if settings.promise != "epsilon" or rows >= enough:
        return None
    return (
        f"promise='epsilon' over {rows:,} rows with epsilon={settings.epsilon:g} and {width} coefficients: noise may leave "
        f"the learner farther from the goal than all rows would; give about {enough:,.0f} rows, or a larger epsilon="
    )


@dataclass(frozen=True, eq=False)
class Script:
    """All that a lesson under a promise follows from but totals: the same here and at every teacher."""

    learner: Learner
    goal: Array
    """In raw units."""
    rows: tuple[int, ...]
    """Those that each teacher has declared."""
    settings: Settings
    terms: PromiseTerms
    size: int
    """Rows to choose, about."""

    @classmethod
    def of(cls, learner: Learner, goal: Array, rows: tuple[int, ...], settings: Settings) -> Script:
        """Check what is asked for, before anything is asked or spent."""
        told = settings
        terms = PromiseTerms(told.promise, len(rows), told.epsilon, told.delta, told.colluders, told.masks)
        return cls(learner, goal, rows, settings, terms, check(settings, terms, sum(rows), len(goal)))

    @classmethod
    def read(cls, told: Json, goal: Array) -> Script:
        """Read the script that a coordinator told of, as a teacher understands it."""
        try:
            learner = Learner.from_dict(told["learner"])
            settings = Settings(**told["settings"]).for_learner(learner)
            rows = tuple(map(int, told["rows"]))
        except (KeyError, TypeError) as error:
            raise SettingError(f"a script has a learner, settings and rows; this one does not: {error}") from None
        if settings.promise == "open" or not rows or min(rows) < 1:
            raise SettingError(f"promise={settings.promise!r} over rows {rows!r} has no script")
        return cls.of(learner, goal, rows, settings)

    def told(self) -> Json:
        """Tell all but the goal, for JSON."""
        return {"learner": self.learner.as_dict(), "settings": self.settings.as_dict(), "rows": list(self.rows)}

    def run(self, federation: Federation) -> Outcome:
        """Choose about `size` rows for the goal."""
        learner, settings = self.learner, self.settings
        method = methods.find(settings.method)
        if settings.promise == "masked":
            room = enter(federation, learner, settings.solver, settings.standardize)
            return method.choose_masked(room, room.scaling.inside(self.goal), self.size, settings)
        federation.stage = "set-up"
        federation.sum(Begin(learner.loss, learner.column))
        if settings.promise == "epsilon":
            return method.choose_noisy(federation, self)
        federation.stage = "alone"
        edges = np.round(np.cumsum((0, *self.rows)) * (self.size / sum(self.rows))).astype(int)
        alone = Alone(self.inside, learner.ridge, learner.ridge_per_row, learner.free_intercept, "match", "", 0.0, 0)
        federation.sum(ChooseAlone(tuple(int(share) for share in np.diff(edges)), alone))
        return Outcome("every teacher chose alone and said nothing")

    def follow(self, engine: Engine) -> None:
        """Run it at a teacher, over an engine that knows what the others say from totals alone."""
        self.run(Federation(engine))

    @property
    def scaling(self) -> Scaling:
        """Columns as they are, beside the learner's constant one."""
        return Scaling(self.learner.column)

    @property
    def inside(self) -> Array:
        """The goal on these columns."""
        return self.scaling.inside(self.goal)


def public_goal(
    wanted: Array | Goal, learner: Learner, features: int, promise: str, classes: Labels | None = None
) -> Array:
    """Return a goal that no teacher was asked about; refuse one fitted on the pool, which would have to be paid for."""
    if isinstance(wanted, np.ndarray):
        return wanted
    if not hasattr(wanted, "without_rows"):
        raise GoalError(
            f"goal={wanted!r} is fitted on the teachers' rows, and promise={promise!r} releases no such fit: give its "
            "numbers, a model fitted elsewhere, or goals.FromData with rows of your own"
        )
    return check_vector(wanted.without_rows(learner, classes), features, learner)

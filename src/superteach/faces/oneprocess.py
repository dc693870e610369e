"""Teachers in this process: what the scikit-learn class and the commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from superteach.coordinator import metrics
from superteach.coordinator.classroom import enter
from superteach.coordinator.federation import Federation
from superteach.coordinator.teaching import teach
from superteach.engines.inprocess import InProcess
from superteach.errors import BudgetError
from superteach.lesson import Entry, Lesson, PathPoint, Taught
from superteach.line.queries import Take
from superteach.mathematics.learner import Learner
from superteach.settings import Given, Settings
from superteach.teacher.inputs import Part, make_teachers
from superteach.types import Positions


class OneProcess:
    """Teachers made from parts, ready to be taught from as often as wanted."""

    def __init__(self, parts: Sequence[Part], columns: Sequence[str], learner: Any) -> None:
        self.learner = Learner.of(learner)
        self.columns = columns
        self._teachers, self.classes = make_teachers(parts, columns, self.learner.loss)
        outputs = parts[0].targets if self.classes is None else len(self.classes)
        self.learner = self.learner.over(1 if self.classes is not None and outputs == 2 else outputs)

    def teach(
        self,
        goal: Any,
        watch: Callable[[Entry], None] | None = None,
        settings: Settings | None = None,
        **given: Unpack[Given],
    ) -> Taught:
        """One lesson, with a ledger of its own."""
        engine = InProcess(self._teachers)
        try:
            told = settings or Settings(**given)
            federation = Federation(engine, watch)
            lesson = teach(federation, self.learner, goal, told, classes=self.classes, columns=self.columns)
        finally:
            engine.close()
        chosen = tuple(state.chosen for state in engine.states())
        if not lesson.delivered:
            lesson = self._delivered(lesson, told, chosen)
        return Taught(lesson, self.classes, chosen)

    def _delivered(self, lesson: Lesson, settings: Settings, chosen: tuple[Positions, ...]) -> Lesson:
        """Fit the learner on the chosen rows and measure: for whoever owns all rows, outside of what was promised."""
        counts = tuple(teacher.rows.count for teacher in self._teachers)
        taken = np.zeros(sum(counts), dtype=bool)
        for first, some in zip(np.cumsum((0, *counts)), chosen, strict=False):
            taken[first + some] = True
        engine = InProcess(self._teachers)
        try:
            federation = Federation(engine)
            room = enter(federation, self.learner, settings.solver, settings.standardize)
            kept = federation.sum(Take(counts, tuple(map(bool, taken))))
            refusal = self.learner.refuses(*kept)
            if refusal:
                raise BudgetError(f"budget={settings.budget!r}: the chosen {refusal}; raise the budget")
            goal = room.scaling.inside(lesson.goal)
            model = room.fit_chosen(kept.rows, goal)
            found = metrics.likeness(federation, model, goal, self.learner.loss.classifies)
            raw, pool = room.scaling.raw(model), room.scaling.raw(room.fit_pool())
        finally:
            engine.close()
        risk = metrics.risk(raw, lesson.goal)
        return replace(
            lesson,
            model=raw,
            size=kept.rows,
            risk=risk,
            consistency=found.consistency,
            prediction_distance=found.distance,
            prediction_spread=found.spread,
            pool_risk=metrics.risk(pool, lesson.goal),
            path=(PathPoint(kept.rows, kept.rows / lesson.rows, risk),),
            delivered=True,
        )

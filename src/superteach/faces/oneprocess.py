"""Teachers in this process: what the scikit-learn class and the commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from superteach.coordinator.federation import Federation
from superteach.coordinator.teaching import teach
from superteach.engines.inprocess import InProcess
from superteach.lesson import Entry, Taught
from superteach.mathematics.learner import Learner
from superteach.settings import Given, Settings
from superteach.teacher.inputs import Part, make_teachers


class OneProcess:
    """Teachers made from parts, ready to be taught from as often as wanted."""

    def __init__(self, parts: Sequence[Part], columns: Sequence[str], learner: Any) -> None:
        self.learner = Learner.of(learner)
        self.columns = columns
        self._teachers, self.classes = make_teachers(parts, columns, self.learner.loss)

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
        return Taught(lesson, self.classes, tuple(state.chosen for state in engine.states()))

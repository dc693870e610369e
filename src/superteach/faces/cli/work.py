"""What the commands share: teach in this process, write which rows were chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from superteach.coordinator.federation import Federation
from superteach.coordinator.teaching import teach
from superteach.engines.inprocess import InProcess
from superteach.faces.cli.folder import file_names
from superteach.lesson import Entry, Taught
from superteach.mathematics.learner import Learner
from superteach.settings import Given, Settings
from superteach.teacher.inputs import Part, make_teachers


class Classroom:
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


def write_chosen(
    folder: Path, taught: Taught, row_numbers: Sequence[npt.NDArray[np.int64]], sources: Sequence[str]
) -> list[dict[str, Any]]:
    """chosen/<teacher>.csv: the chosen rows by their numbers in the teacher's own file."""
    (folder / "chosen").mkdir()
    names = file_names(taught.lesson.teachers)
    stored = []
    for teacher, name, source, numbers, chosen in zip(
        taught.lesson.teachers, names, sources, row_numbers, taught.chosen, strict=True
    ):
        rows = np.sort(numbers[chosen])
        lines = "".join(f"{row}\n" for row in rows.tolist())
        (folder / "chosen" / name).write_text("row\n" + lines, encoding="utf-8", newline="\n")
        stored.append(
            {
                "teacher": teacher,
                "file": source,
                "chosen": f"chosen/{name}",
                "rows": len(rows),
                "held": len(numbers),
            }
        )
    return stored

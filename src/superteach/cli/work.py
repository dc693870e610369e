"""What the commands share: build a learner, teach it, write the folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from superteach import solvers
from superteach.cli.folder import file_names
from superteach.engines.inprocess import InProcess
from superteach.errors import BudgetError, SettingError
from superteach.federation import Entry, Federation
from superteach.inputs import Part, make_teachers
from superteach.learner import Learner
from superteach.lesson import Lesson, to_json
from superteach.teaching import teach

SOLVERS = {"newton": solvers.Newton, "lbfgs": solvers.LBFGS}
INVERSE = ("logistic", "svc")
"""Learners whose penalty is written as C; the others have alpha."""


@dataclass(frozen=True, eq=False)
class Taught:
    """A lesson, the labels' two values, and which rows of each part were chosen."""

    lesson: Lesson
    classes: npt.NDArray[Any] | None
    chosen: tuple[npt.NDArray[np.int64], ...]


class Classroom:
    """Teachers made from parts, ready to be taught from as often as wanted."""

    def __init__(self, parts: Sequence[Part], columns: Sequence[str], learner: Any) -> None:
        self.learner = Learner.of(learner)
        self.columns = columns
        self._teachers, self.classes = make_teachers(parts, columns, self.learner.loss)

    def teach(self, goal: Any, watch: Callable[[Entry], None] | None = None, **settings: Any) -> Taught:
        """One lesson, with a ledger of its own."""
        engine = InProcess(self._teachers)
        try:
            lesson = teach(
                Federation(engine, watch),
                self.learner,
                goal,
                classes=self.classes,
                columns=self.columns,
                **settings,
            )
        finally:
            engine.close()
        return Taught(lesson, self.classes, tuple(state.chosen for state in engine.states()))


def build_learner(kind: str, C: float | None, alpha: float | None, intercept: bool) -> Any:
    """The scikit-learn estimator behind a learner's name (Huber's loss has a fixed scale of our own)."""
    from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
    from sklearn.svm import LinearSVC

    from superteach.losses import Huber

    if kind in INVERSE and alpha is not None:
        raise SettingError(
            f"--alpha={alpha:g} does not go with --learner {kind}; its penalty is --C (1/alpha)"
        )
    if kind not in INVERSE and C is not None:
        raise SettingError(f"--C={C:g} does not go with --learner {kind}; its penalty is --alpha")
    strength = C if kind in INVERSE else alpha
    strength = 1.0 if strength is None else strength
    if kind == "logistic":
        return LogisticRegression(C=strength, fit_intercept=intercept)
    if kind == "svc":
        return LinearSVC(C=strength, fit_intercept=intercept)
    if kind == "ridge":
        return Ridge(alpha=strength, fit_intercept=intercept)
    if kind == "poisson":
        return PoissonRegressor(alpha=strength, fit_intercept=intercept)
    return Learner(Huber(), strength, "free" if intercept else "none")


def build_solver(name: str | None, staleness: int) -> solvers.Newton | solvers.LBFGS | solvers.Block | None:
    """The solver behind a name, None for the usual one."""
    if staleness and name != "block":
        raise SettingError(f"--staleness {staleness} goes with --solver block, got {name or 'no --solver'}")
    if name is None:
        return None
    return solvers.Block(staleness=staleness) if name == "block" else SOLVERS[name]()


def learner_settings(kind: str, estimator: Any, student: Learner, intercept: bool) -> dict[str, Any]:
    """What model.json says of the learner."""
    penalty = getattr(estimator, "C", None) or getattr(estimator, "alpha", student.ridge)
    return {"name": kind, "C" if kind in INVERSE else "alpha": penalty, "fit_intercept": intercept}


def read_budget(text: str) -> int | float | str | tuple[int | float, int | float]:
    """A count ("200"), a fraction ("0.04"), a range of either ("50:200"), "best" or "smallest"."""
    if text in ("best", "smallest"):
        return text
    ends = [_number(end) for end in text.split(":")]
    if len(ends) == 1 and ends[0] is not None:
        return ends[0]
    if len(ends) == 2 and ends[0] is not None and ends[1] is not None:
        return ends[0], ends[1]
    raise BudgetError(
        f"--budget {text!r} is not known: give a count (200), a fraction (0.04), a range (50:200 or 0.01:0.05), "
        "best, or smallest with --risk-target"
    )


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None


def write_model(folder: Path, taught: Taught, columns: Sequence[str], learner: dict[str, Any]) -> None:
    """model.json: enough to predict, and a goal file in its own right."""
    lesson = taught.lesson
    stored = {
        "columns": list(columns),
        "coef": lesson.coef.tolist(),
        "intercept": lesson.offset,
        "classes": None if taught.classes is None else taught.classes.tolist(),
        "learner": learner,
    }
    write_json(folder / "model.json", stored)


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


def write_json(path: Path, stored: dict[str, Any]) -> None:
    """A JSON file any reader accepts: what is not finite becomes null."""
    path.write_text(to_json(stored), encoding="utf-8", newline="\n")

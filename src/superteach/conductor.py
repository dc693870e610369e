"""One lesson over teachers behind a line, from settings that are data alone to files that hold no row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from superteach.agreement import agree, finish
from superteach.cli import work
from superteach.cli.goal import goal_vector
from superteach.engines.remote import SECONDS, Line
from superteach.federation import Entry, Federation
from superteach.goals import MaxAUC, PerturbedFit
from superteach.learner import Learner
from superteach.lesson import Lesson
from superteach.teaching import teach

ARRIVAL = 120.0


@dataclass(frozen=True)
class Order:
    """What a coordinator asks for: numbers and names that fit into JSON."""

    teachers: list[str]
    learner: str
    goal: Any
    """Contents of a goal file, or None for the fit on all rows plus noise."""
    goal_name: str = "the goal"
    goal_seed: int = 0
    C: float | None = None
    alpha: float | None = None
    intercept: bool = True
    features: list[str] | None = None
    budget: str = "best"
    method: str = "match"
    risk_target: float | None = None
    least_change: int = 10
    restarts: int = 1
    solver_seconds: float = 120.0
    solver: str | None = None
    staleness: int = 0
    sparsity: float | None = None
    goal_weight: float | None = None
    standardize: bool = False
    seed: int = 0
    seconds: float = SECONDS
    """How long a teacher may take over one answer."""
    arrival: float = ARRIVAL
    """How long the teachers' processes for this lesson may take to start."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def conduct(
    line: Line, lesson: str, order: Order, folder: Path, watch: Callable[[Entry], None] | None = None
) -> Lesson:
    """Agree, teach, let every teacher write its own rows, and write model.json and lesson.json here."""
    estimator = work.build_learner(order.learner, order.C, order.alpha, order.intercept)
    student = Learner.of(estimator)
    agreed = agree(line, lesson, order.teachers, student, order.features, order.seconds)
    goal: Any = PerturbedFit(order.goal_seed)
    if order.goal == "max-auc":
        goal = MaxAUC()
    elif order.goal is not None:
        goal = goal_vector(order.goal, order.goal_name, agreed.columns, order.intercept, agreed.classes)
    result = teach(
        Federation(agreed.engine(line, order.seconds), watch),
        student,
        goal,
        budget=work.read_budget(order.budget),
        method=order.method,
        risk_target=order.risk_target,
        least_change=order.least_change,
        restarts=order.restarts,
        solver_seconds=order.solver_seconds,
        sparsity=order.sparsity,
        goal_weight=order.goal_weight,
        solver=work.build_solver(order.solver, order.staleness),
        standardize=order.standardize,
        random_state=order.seed,
        classes=agreed.classes,
    )
    chosen = finish(line, agreed, order.seconds)
    named = work.learner_settings(order.learner, estimator, student, order.intercept)
    work.write_model(folder, work.Taught(result, agreed.classes, ()), agreed.columns, named)
    stored = result.as_dict() | {
        "verdict": result.verdict,
        "columns": list(agreed.columns),
        "target": agreed.target,
        "lesson": lesson,
        "files": [
            {"teacher": name, "rows": chosen[name], "held": held}
            for name, held in zip(agreed.names, agreed.rows, strict=True)
        ],
    }
    work.write_json(folder / "lesson.json", stored)
    return result

"""`superteach teach`: from files to a folder."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from superteach import solvers
from superteach.cli import screen, work
from superteach.cli.folder import check_folder, new_folder
from superteach.cli.goal import check_goal_name, make_goal
from superteach.cli.report import page_of_stored
from superteach.errors import SettingError
from superteach.files import read_pool
from superteach.learner import Learner
from superteach.lesson import to_json
from superteach.selection import check_budget

_SOLVERS = {"newton": solvers.Newton, "lbfgs": solvers.LBFGS, "block": solvers.Block}


@dataclass(frozen=True)
class Order:
    """Everything the command line asks for."""

    files: list[str]
    target: str
    owner: str | None
    features: str | None
    learner: str
    C: float | None
    alpha: float | None
    intercept: bool
    goal: str
    goal_seed: int
    budget: str
    method: str
    risk_target: float | None
    least_change: int
    restarts: int
    allow_few_rows: bool
    costs: str | None
    solver_seconds: float
    solver: str | None
    sparsity: float | None
    goal_weight: float | None
    standardize: bool
    seed: int
    out: Path
    overwrite: bool
    as_json: bool


def run(order: Order) -> None:
    """Check everything, teach, write the folder, show the result."""
    place = check_folder(order.out, order.overwrite)
    estimator = work.build_learner(order.learner, order.C, order.alpha, order.intercept)
    student = Learner.of(estimator)
    budget = work.read_budget(order.budget)
    check_budget(budget)
    if budget == "smallest" and order.risk_target is None:
        raise SettingError("--budget smallest needs --risk-target, the distance that is small enough")
    check_goal_name(order.goal)
    features = None if order.features is None else [name.strip() for name in order.features.split(",")]

    with screen.progress() as watch:
        pool = read_pool(
            order.files, order.target, order.owner, features, not student.loss.classifies, order.costs
        )
        room = work.Classroom(pool.parts, pool.columns, student, order.allow_few_rows)
        numeric = not student.loss.classifies
        goal = make_goal(
            order.goal, order.goal_seed, pool, order.target, numeric, order.intercept, room.classes
        )
        taught = room.teach(
            goal,
            watch,
            budget=budget,
            method=order.method,
            risk_target=order.risk_target,
            least_change=order.least_change,
            restarts=order.restarts,
            solver_seconds=order.solver_seconds,
            sparsity=order.sparsity,
            goal_weight=order.goal_weight,
            solver=None if order.solver is None else _SOLVERS[order.solver](),
            standardize=order.standardize,
            random_state=order.seed,
        )

    sources = [str(path) for path in pool.files]
    lesson = taught.lesson
    penalty = getattr(estimator, "C", None) or getattr(estimator, "alpha", student.ridge)
    named = {
        "name": order.learner,
        "C" if order.learner in work.INVERSE else "alpha": penalty,
        "fit_intercept": order.intercept,
    }
    stored = lesson.as_dict() | {
        "verdict": lesson.verdict,
        "columns": list(pool.columns),
        "target": order.target,
    }
    with new_folder(place) as folder:
        work.write_model(folder, taught, pool.columns, named)
        stored["files"] = work.write_chosen(folder, taught, pool.row_numbers, sources)
        work.write_json(folder / "lesson.json", stored)
        page_of_stored(stored, lesson).write(folder / "report.html")

    if order.as_json:
        sys.stdout.write(to_json(stored | {"out": str(order.out)}))
        return
    screen.result(lesson, [len(rows) for rows in taught.chosen])
    screen.say(screen.sentence(lesson))
    screen.say(f"Model, chosen rows, ledger and a report to read (report.html) are in {order.out}.")

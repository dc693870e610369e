"""`superteach teach`: from files to a folder."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from superteach.coordinator import named
from superteach.coordinator.selection import check_budget
from superteach.errors import SettingError
from superteach.faces.cli import screen, work
from superteach.faces.cli.folder import check_folder, new_folder
from superteach.faces.cli.goal import FROM_DATA, check_goal_name, load_goal, make_goal
from superteach.faces.cli.report import page_of_stored
from superteach.lesson import Entry, Lesson, to_json, write_json, write_model
from superteach.mathematics.learner import Learner
from superteach.processes.patience import persevere
from superteach.report.words import interruption
from superteach.teacher.files import read_pool


@dataclass(frozen=True)
class Order:
    """Everything the command line asks for."""

    files: list[str]
    federation: Path | None
    teachers: str | None
    on_loss: str
    least_teachers: int | None
    wait: float | None
    answer_seconds: float | None
    resume: bool
    target: str | None
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
    rounding: str | None
    seconds: float | None
    restarts: int
    costs: str | None
    solver_seconds: float
    solver: str | None
    staleness: int
    sparsity: float | None
    goal_weight: float | None
    standardize: bool
    seed: int
    out: Path
    overwrite: bool
    as_json: bool


_SHARED = (
    "learner", "goal_seed", "C", "alpha", "intercept", "budget", "method", "risk_target", "solver", "staleness",
    "sparsity", "goal_weight", "standardize", "seed", "restarts", "solver_seconds", "on_loss",
)  # fmt: skip
"""Settings of the command that are handed on as they are."""
_LOSSES = {"least_teachers": "least_teachers", "wait": "wait", "answer_seconds": "seconds"}
"""Settings of a federation alone, and what a lesson calls them: handed on where they are given."""


def run(order: Order) -> None:
    """Check everything, teach, write the folder, show the result."""
    place = check_folder(order.out, order.overwrite)
    estimator = named.build_learner(order.learner, order.C, order.alpha, order.intercept)
    student = Learner.of(estimator)
    budget = named.read_budget(order.budget)
    check_budget(budget)
    if budget == "smallest" and order.risk_target is None:
        raise SettingError("--budget smallest needs --risk-target, the distance that is small enough")
    check_goal_name(order.goal)
    solver = named.build_solver(order.solver, order.staleness)
    features = None if order.features is None else [name.strip() for name in order.features.split(",")]
    if order.federation is not None:
        teach_federation(order, order.federation, place, features)
        return
    if not order.files or order.target is None:
        raise SettingError("name the teachers' files and the --target column, or a --federation")
    if order.resume or order.on_loss != "abort":
        raise SettingError("--resume and --on-loss go with --federation; files are not lost on the way")
    for name in _LOSSES:
        if getattr(order, name) is not None:
            raise SettingError(
                f"--{name.replace('_', '-')} goes with --federation; files are not lost on the way"
            )
    if order.teachers is not None:
        raise SettingError("--teachers goes with --federation; with files every file is a teacher")

    with screen.progress() as watch:
        pool = read_pool(
            order.files, order.target, order.owner, features, not student.loss.classifies, order.costs
        )
        room = work.Classroom(pool.parts, pool.columns, student)
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
            rounding=order.rounding or "together",
            seconds=order.seconds,
            restarts=order.restarts,
            solver_seconds=order.solver_seconds,
            sparsity=order.sparsity,
            goal_weight=order.goal_weight,
            solver=solver,
            standardize=order.standardize,
            random_state=order.seed,
        )

    sources = [str(path) for path in pool.files]
    lesson = taught.lesson
    described = named.learner_settings(order.learner, estimator, student, order.intercept)
    stored = lesson.as_dict() | {
        "verdict": lesson.verdict,
        "columns": list(pool.columns),
        "target": order.target,
    }
    with new_folder(place) as folder:
        write_model(folder, taught, pool.columns, described)
        stored["files"] = work.write_chosen(folder, taught, pool.row_numbers, sources)
        write_json(folder / "lesson.json", stored)
        page_of_stored(stored, lesson).write(folder / "report.html")

    if order.as_json:
        sys.stdout.write(to_json(stored | {"out": str(order.out)}))
        return
    screen.result(lesson, [len(rows) for rows in taught.chosen])
    screen.say(screen.sentence(lesson))
    screen.say(f"Model, chosen rows, ledger and a report to read (report.html) are in {order.out}.")


def teach_federation(order: Order, home: Path, place: Path, features: list[str] | None) -> None:
    """The same over teachers who have joined: the lesson runs beside the server, the result is fetched."""
    from superteach.organisations.conductor import Order as Settings
    from superteach.organisations.nvflare.session import roster, sign_in

    if order.files or order.target is not None or order.owner is not None:
        raise SettingError(
            "--federation takes no files, no --target and no --owner: teachers joined with their own"
        )
    if order.costs is not None:
        raise SettingError("--costs is for files; in a federation costs are a teacher's to decide")
    wanted = None if order.teachers is None else [name.strip() for name in order.teachers.split(",")]
    if order.goal.startswith(FROM_DATA):
        raise SettingError(
            "--goal from-data: is for files; fit the reference rows first and give the model as .json"
        )
    described: dict[str, Any] = {"perturbed": None, "max-auc": "max-auc"}
    goal = described[order.goal] if order.goal in described else load_goal(order.goal)
    with screen.progress() as watch, sign_in(home) as desk:
        settings = Settings(
            teachers=roster(desk.standing(most=0), wanted),
            goal=goal.tolist() if isinstance(goal, np.ndarray) else goal,
            goal_name=f"goal file {order.goal!r}",
            features=features,
            rounding=order.rounding or "alone",
            lesson_seconds=order.seconds,
            **{name: getattr(order, name) for name in _SHARED},
            **{told: given for name, told in _LOSSES.items() if (given := getattr(order, name)) is not None},
        )

        def follow(told: dict[str, Any]) -> None:
            if watch is not None:
                watch(Entry(told["rounds"], told["stage"], "", 0, 0, 0.0))

        with tempfile.TemporaryDirectory(prefix="superteach-") as folder:

            def attempt(resume: bool) -> Path:
                name = desk.submit(replace(settings, resume=resume))
                return desk.fetch(name, desk.follow(name, follow), Path(folder))

            if order.on_loss == "wait":
                found = persevere(attempt, desk.comes_back, settings.wait, order.resume)
            else:
                found = attempt(order.resume)
            stored = json.loads((found / "lesson.json").read_text(encoding="utf-8"))
            lesson = Lesson.load(found / "lesson.json")
            with new_folder(place) as result:
                for written in ("lesson.json", "model.json"):
                    shutil.copyfile(found / written, result / written)
                page_of_stored(stored, lesson).write(result / "report.html")
    if order.as_json:
        sys.stdout.write(to_json(stored | {"out": str(order.out)}))
        return
    screen.result(lesson, [entry["rows"] for entry in stored["files"]])
    for facts in lesson.interruptions:
        screen.say(interruption(facts))
    for entry in stored["files"]:
        if "fault" in entry:
            screen.say(f"Teacher {entry['teacher']} has no file of this lesson: {entry['fault']}.")
    screen.say(screen.sentence(lesson))
    screen.say(
        f"Model, ledger and a report to read (report.html) are in {order.out}; every teacher has its own rows."
    )

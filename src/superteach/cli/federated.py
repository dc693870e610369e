"""`superteach teach --federation`: the lesson runs beside the server, and its result is fetched.

Little is imported before teachers are looked for: whoever is missing is named seconds earlier, on a busy machine ten.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from superteach.cli import screen
from superteach.cli.folder import new_folder
from superteach.cli.goal import FROM_DATA, check_goal_name, is_file, load_goal, positive_unsaid
from superteach.cli.lines import warn
from superteach.cli.report import page_of_stored, read_lesson
from superteach.cli.request import LOSSES, Request, listed_in
from superteach.errors import SettingError
from superteach.lesson import Entry, Lesson, to_json
from superteach.processes.patience import LEAST, WAIT, persevere
from superteach.report.words import interruption
from superteach.settings import Settings
from superteach.words import PROMISES

if TYPE_CHECKING:
    from superteach.mathematics.learner import Learner
    from superteach.organisations.conductor import Order
    from superteach.types import Json

ROUND = 0.1
"""Seconds of a round over NVFlare on one machine (docs/federation.md: 12 in 1.3); networks add their own."""


def run(request: Request, place: Path) -> None:
    """Check what can be checked here, see who is there, teach, write the folder, show the result."""
    from superteach.organisations.nvflare.session import roster, sign_in

    settings = request.made(rounding="alone", promise="epsilon")
    check_goal_name(request.goal)
    if request.files or request.target is not None or request.owner is not None or request.encoding != "utf-8":
        raise SettingError(
            "--federation takes no files, no --target, no --owner and no --encoding: teachers joined with their own"
        )
    if request.costs is not None:
        raise SettingError("--costs is for files; in a federation costs are a teacher's to decide")
    if request.goal.startswith(FROM_DATA):
        raise SettingError("--goal from-data: is for files; fit the reference rows first and give the model as .json")
    goal = load_goal(request.goal) if is_file(request.goal) else None if request.goal == "perturbed" else request.goal
    least = LEAST if request.least_teachers is None else request.least_teachers
    wait = WAIT if request.wait is None else request.wait
    assert request.federation is not None
    with screen.progress() as (watch, _), sign_in(request.federation) as desk:
        teachers = roster(desk, listed_in(request.teachers), request.on_loss, least, wait, warn)
        order = _order(request, settings, teachers, goal)
        student = order.student  # refuses a wrong penalty, before anybody is asked anything
        if request.dry_run:
            _rehearse(request, order, student, goal)
            return

        def follow(told: Json) -> None:
            if watch is not None:
                watch(Entry(told["rounds"], told["stage"], "", 0, 0, 0.0))

        with tempfile.TemporaryDirectory(prefix="superteach-") as folder:

            def attempt(resume: bool) -> Path:
                name = desk.submit(replace(order, resume=resume))
                return desk.fetch(name, desk.follow(name, follow, warn), Path(folder))

            if request.on_loss == "wait":
                found = persevere(attempt, desk.comes_back, order.wait, request.resume)
            else:
                found = attempt(request.resume)
            stored, lesson = read_lesson(found)
            with new_folder(place) as result:
                for written in ("lesson.json", *(["model.json"] if lesson.delivered else [])):
                    shutil.copyfile(found / written, result / written)
                page_of_stored(stored, lesson).write(result / "report.html")
    _show(request, stored, lesson)


def _order(request: Request, settings: Settings, teachers: list[str], goal: object) -> Order:
    """Write the lesson down."""
    from superteach.organisations.conductor import Order

    return Order(
        teachers=teachers,
        goal=goal.tolist() if isinstance(goal, np.ndarray) else goal,
        goal_name=f"goal file {request.goal!r}",
        features=listed_in(request.features),
        settings=settings,
        learner=request.learner,
        goal_seed=request.goal_seed,
        C=request.C,
        alpha=request.alpha,
        intercept=request.intercept,
        positive=request.positive,
        on_loss=request.on_loss,
        **{told: given for name, told in LOSSES.items() if (given := getattr(request, name)) is not None},
    )


def _rehearse(request: Request, order: Order, student: Learner, goal: object) -> None:
    """Say what the lesson will take; teachers are known, their rows are not."""
    from superteach.cli import rehearsal
    from superteach.coordinator.named import fitted_goal

    width = _width(goal, order.features, order.intercept)
    wanted = goal if is_file(request.goal) else fitted_goal(request.goal, order.goal_seed)
    told = rehearsal.rehearse(order.teachers, width, None, student, wanted, order.settings, ROUND)
    rehearsal.say(told, request.as_json)


def _show(request: Request, stored: Json, lesson: Lesson) -> None:
    """Show the result."""
    if request.as_json:
        sys.stdout.write(to_json(stored | {"out": str(request.out)}))
        return
    if lesson.promise == "open":
        screen.result(lesson, [entry["rows"] for entry in stored["files"]])
    elif lesson.positive is not None:
        screen.say(f"Scores above 0 mean {lesson.positive!r}, the positive label.")
    if unsaid := positive_unsaid(request.goal, request.positive, lesson.positive):
        screen.say(unsaid)
    for facts in lesson.interruptions:
        screen.say(interruption(facts))
    for entry in stored["files"]:
        if "fault" in entry:
            screen.say(f"Teacher {entry['teacher']} has no file of this lesson: {entry['fault']}.")
    left = ", ".join(f"{name} {one:.3g}" for name, one in stored.get("left", {}).items())
    screen.say(f"Promise {lesson.promise}: {PROMISES[lesson.promise]}" + (f" ε left: {left}." if left else ""))
    screen.say(screen.sentence(lesson) if lesson.promise == "open" else _quietly(lesson))
    what = "Model, ledger" if lesson.delivered else "Ledger"
    screen.say(f"{what} and a report to read (report.html) are in {request.out}; every teacher has its own rows.")


def _quietly(lesson: Lesson) -> str:
    """Say what is known of a lesson that nobody looked at."""
    risk = "no risk can be stated"
    if lesson.stated_risk is not None:
        risk = f"with 95 % its risk is below {lesson.stated_risk:.3g}"
    fitted = "There is no model.json: under a promise the learner is not fitted here."
    if lesson.delivered:
        far = f"{lesson.risk:.4g} away from the goal"
        fitted = f"The learner, fitted on them, ends {far}; that fit is outside of the promise."
    return (
        f"Teachers chose about {lesson.size:,} of {lesson.pool_rows:,} declared rows in {lesson.rounds} rounds, "
        f"{lesson.seconds:.1f} seconds; {risk}. {fitted}"
    )


def _width(goal: object, features: list[str] | None, intercept: bool) -> int:
    """Count the columns of a federation from what the coordinator has at hand."""
    if features is not None:
        return len(features)
    if isinstance(goal, dict) and isinstance(goal.get("coef"), list | dict):
        return len(goal["coef"])
    if isinstance(goal, list | np.ndarray):
        return len(goal) - intercept
    raise SettingError(
        "--dry-run asks no teacher how many columns there are: give --features, or a goal file with a number for each"
    )

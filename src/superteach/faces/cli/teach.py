"""`superteach teach`: from files to a folder."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from superteach.coordinator import named
from superteach.coordinator.goals import CheckedGoal, Goal, MaxAUC, PerturbedFit, check_goal
from superteach.errors import SettingError
from superteach.faces.cli import rehearsal, screen
from superteach.faces.cli.folder import check_folder, claim, new_folder, write_chosen
from superteach.faces.cli.goal import FROM_DATA, check_goal_name, load_goal, make_goal
from superteach.faces.cli.large import find_table, unfinished, write_large
from superteach.faces.cli.report import page_of_stored
from superteach.faces.cli.request import Request
from superteach.faces.oneprocess import OneProcess, check_open
from superteach.lesson import Entry, Lesson, Taught, to_json, write_json, write_model
from superteach.mathematics.learner import Learner
from superteach.processes.patience import persevere
from superteach.report.markup import size_text
from superteach.report.words import interruption
from superteach.settings import Settings
from superteach.teacher.files import read_pool
from superteach.types import Array, Json, Raw
from superteach.words import PROMISES

ROUND = 0.1
"""Seconds of a round over NVFlare on one machine (docs/federation.md: 12 in 1.3); networks add their own."""
_LOSSES = {"least_teachers": "least_teachers", "wait": "wait", "answer_seconds": "seconds"}
"""Settings of a federation alone, and what a lesson calls them: handed on where they are given."""


def run(request: Request) -> None:
    """Check everything, teach, write the folder, show the result."""
    place = check_folder(request.out, request.overwrite)
    with claim(request.out, place):
        _run(request, place)


def _run(request: Request, place: Path) -> None:
    estimator = named.build_learner(request.learner, request.C, request.alpha, request.intercept)
    student = Learner.of(estimator)
    settings = request.made(**({} if request.federation is None else {"rounding": "alone", "promise": "epsilon"}))
    check_goal_name(request.goal)
    features = None if request.features is None else [name.strip() for name in request.features.split(",")]
    if request.spark is not None:
        from superteach.faces.cli.spark import teach_spark

        teach_spark(request, place, estimator, features)
        return
    if request.federation is not None:
        teach_federation(request, settings, request.federation, place, features)
        return
    if not request.files or request.target is None:
        raise SettingError("name the teachers' files and the --target column, or a --federation")
    numeric = not student.loss.classifies
    table = find_table(request, features, numeric)
    if request.on_loss != "abort" or (request.resume and table is None):
        raise SettingError("--resume and --on-loss go with --federation; files are not lost on the way")
    for name in _LOSSES:
        if getattr(request, name) is not None:
            raise SettingError(f"--{name.replace('_', '-')} goes with --federation; files are not lost on the way")
    if request.teachers is not None:
        raise SettingError("--teachers goes with --federation; with files every file is a teacher")

    target = request.target
    described = named.learner_settings(request.learner, estimator, student, request.intercept)

    def goal_of(columns: tuple[str, ...], classes: Raw | None) -> Array | Goal:
        return make_goal(request.goal, request.goal_seed, columns, target, numeric, request.intercept, classes)

    def write(taught: Taught, columns: tuple[str, ...], rows: Callable[[Path], Json]) -> Json:
        lesson = taught.lesson
        stored = lesson.as_dict() | {"verdict": lesson.verdict, "columns": list(columns), "target": target}
        with new_folder(place) as folder:
            write_model(folder, taught, columns, described)
            stored |= rows(folder)
            write_json(folder / "lesson.json", stored)
            page_of_stored(stored, lesson).write(folder / "report.html")
        return stored

    def rehearse(names: list[str], columns: tuple[str, ...], rows: int, classes: Raw | None) -> None:
        goal = goal_of(columns, classes)
        wanted = check_goal(goal, len(columns), student, classes, columns)
        if isinstance(wanted, CheckedGoal):
            wanted.check(student, columns, classes)
        shape = rehearsal.Shape(names, len(columns), rows)
        rehearsal.say(rehearsal.rehearse(shape, student, goal, settings), request.as_json)

    if table is not None:
        settings = request.made(rounding="alone")
        check_open(settings)
        if request.dry_run:
            rehearse(["rows on disk"], table.columns, table.rows, None)
            return
        with screen.passes(table.rows) as (watch, told):
            large = table.put_away(student.loss, request.cache, told)
            room = OneProcess(large, large.columns, student)
            goal = goal_of(large.columns, room.classes)
            with unfinished(request, settings, large, student, place) as journal:
                taught = room.teach(goal, watch, settings, journal)
                stored = write(taught, large.columns, partial(write_large, taught=taught, pool=large))
    else:
        with screen.progress() as watch:
            pool = read_pool(request.files, target, request.owner, features, numeric, request.costs)
            room = OneProcess(pool.parts, pool.columns, student)
            if not request.dry_run:
                taught = room.teach(goal_of(pool.columns, room.classes), watch, settings)
        if request.dry_run:
            names = [part.name for part in pool.parts]
            rehearse(names, pool.columns, sum(part.count for part in pool.parts), room.classes)
            return
        stored = write(taught, pool.columns, lambda folder: {"files": write_chosen(folder, taught, pool)})

    lesson = taught.lesson
    if request.as_json:
        sys.stdout.write(to_json(stored | {"out": str(request.out)}))
        return
    screen.result(lesson, [len(rows) for rows in taught.chosen])
    screen.say(screen.sentence(lesson))
    screen.say(f"Model, chosen rows, ledger and a report to read (report.html) are in {request.out}.")
    if table is not None:
        kind, size = table.kind.__name__, size_text(large.store.size)
        screen.say(f"Rows stayed on disk; their copy ({size}, {kind}) in {large.store.folder} is removed.")


def _aloud(text: str) -> None:
    """Say at once what the person at the terminal waits for."""
    sys.stderr.write(f"{text}\n")


def _quietly(lesson: Lesson) -> str:
    """Say what is known of a lesson that nobody looked at."""
    risk = (
        "no risk can be stated"
        if lesson.stated_risk is None
        else f"with 95 % its risk is below {lesson.stated_risk:.3g}"
    )
    return (
        f"Teachers chose about {lesson.size:,} of {lesson.rows:,} declared rows in {lesson.rounds} rounds, "
        f"{lesson.seconds:.1f} seconds; {risk}. "
        + (
            f"The learner, fitted on them, ends {lesson.risk:.4g} away from the goal; that fit is outside of the promise."
            if lesson.delivered
            else "There is no model.json: under a promise the learner is not fitted here."
        )
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


def teach_federation(request: Request, settings: Settings, home: Path, place: Path, features: list[str] | None) -> None:
    """Do the same over teachers who have joined: run the lesson beside the server, fetch the result."""
    from superteach.organisations.conductor import Order
    from superteach.organisations.nvflare.session import roster, sign_in

    if request.files or request.target is not None or request.owner is not None:
        raise SettingError("--federation takes no files, no --target and no --owner: teachers joined with their own")
    if request.costs is not None:
        raise SettingError("--costs is for files; in a federation costs are a teacher's to decide")
    wanted = None if request.teachers is None else [name.strip() for name in request.teachers.split(",")]
    if request.goal.startswith(FROM_DATA):
        raise SettingError("--goal from-data: is for files; fit the reference rows first and give the model as .json")
    described = {"perturbed": None, "max-auc": "max-auc"}
    goal = described[request.goal] if request.goal in described else load_goal(request.goal)
    with screen.progress() as watch, sign_in(home) as desk:
        least = Order.least_teachers if request.least_teachers is None else request.least_teachers
        wait = Order.wait if request.wait is None else request.wait
        submitted = Order(
            teachers=roster(desk, wanted, request.on_loss, least, wait, _aloud),
            goal=goal.tolist() if isinstance(goal, np.ndarray) else goal,
            goal_name=f"goal file {request.goal!r}",
            features=features,
            settings=settings,
            learner=request.learner,
            goal_seed=request.goal_seed,
            C=request.C,
            alpha=request.alpha,
            intercept=request.intercept,
            on_loss=request.on_loss,
            **{told: given for name, told in _LOSSES.items() if (given := getattr(request, name)) is not None},
        )

        if request.dry_run:
            held = 1000 * len(submitted.teachers)
            if isinstance(settings.budget, int):
                held = max(held, 25 * settings.budget)
            shape = rehearsal.Shape(submitted.teachers, _width(goal, features, request.intercept), held, known=False)
            fitted = {None: PerturbedFit(request.goal_seed), "max-auc": MaxAUC()}
            asked = fitted[submitted.goal] if submitted.goal in (None, "max-auc") else goal
            rehearsal.say(rehearsal.rehearse(shape, submitted.student, asked, settings, ROUND), request.as_json)
            return

        def follow(told: Json) -> None:
            if watch is not None:
                watch(Entry(told["rounds"], told["stage"], "", 0, 0, 0.0))

        with tempfile.TemporaryDirectory(prefix="superteach-") as folder:

            def attempt(resume: bool) -> Path:
                name = desk.submit(replace(submitted, resume=resume))
                return desk.fetch(name, desk.follow(name, follow, _aloud), Path(folder))

            if request.on_loss == "wait":
                found = persevere(attempt, desk.comes_back, submitted.wait, request.resume)
            else:
                found = attempt(request.resume)
            stored = json.loads((found / "lesson.json").read_text(encoding="utf-8"))
            lesson = Lesson.load(found / "lesson.json")
            with new_folder(place) as result:
                for written in ("lesson.json", *(["model.json"] if lesson.delivered else [])):
                    shutil.copyfile(found / written, result / written)
                page_of_stored(stored, lesson).write(result / "report.html")
    if request.as_json:
        sys.stdout.write(to_json(stored | {"out": str(request.out)}))
        return
    if lesson.promise == "open":
        screen.result(lesson, [entry["rows"] for entry in stored["files"]])
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

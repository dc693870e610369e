"""`superteach teach`: from files to a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from superteach.cli import rehearsal, screen
from superteach.cli.folder import new_folder, write_chosen
from superteach.cli.goal import check_goal_name, find_positive, make_goal, positive_unsaid
from superteach.cli.large import find_table, lesson_journal, write_large
from superteach.cli.report import page_of_stored
from superteach.cli.request import Request, listed_in
from superteach.coordinator import named
from superteach.exceptions import SettingError
from superteach.goals import CheckedGoal, Goal, check_goal
from superteach.io.tables import read_pool
from superteach.learner import Learner
from superteach.lesson import Taught, to_json, write_lesson, write_measured
from superteach.local import LocalTeachers, refuse_private
from superteach.report.markup import size_text
from superteach.types import Array, Json, Label, Raw


def run(request: Request, place: Path) -> None:
    """Check everything, teach, write the folder, show the result."""
    estimator = named.build_learner(request.learner, request.C, request.alpha, request.intercept)
    student = Learner.of(estimator)
    settings = request.check_settings()
    check_goal_name(request.goal)
    if request.goal_seed and request.goal != "perturbed":
        raise SettingError(f"--goal-seed {request.goal_seed} goes with --goal perturbed, got --goal {request.goal}")
    positive = find_positive(request.goal, request.positive)
    features = listed_in(request.features)
    numeric = not student.loss.classifies

    def goal_of(columns: Sequence[str], classes: Raw | None) -> Array | Goal:
        return make_goal(
            request.goal,
            request.goal_seed,
            columns,
            str(request.target),
            numeric,
            request.intercept,
            classes,
            request.encoding,
        )

    def write(taught: Taught, columns: Sequence[str], rows: Callable[[Path], Json]) -> Json:
        described = named.learner_settings(request.learner, request.C, request.alpha, request.intercept)
        with new_folder(place) as folder:
            stored = write_lesson(folder, taught, columns, str(request.target), described, rows(folder))
            page_of_stored(stored, taught.lesson).write(folder / "report.html")
            if request.measured and taught.measured is not None:
                write_measured(folder, taught.measured, columns)
        return stored

    def say_unsaid(label: Label | None) -> None:
        text = positive_unsaid(request.goal, request.positive, label)
        if text and not request.as_json:
            screen.say(text)

    def show(stored: Json, taught: Taught, *where: str) -> None:
        if request.as_json:
            sys.stdout.write(to_json(stored | {"out": str(request.out)}))
            return
        screen.result(taught.lesson, [len(rows) for rows in taught.chosen])
        say_unsaid(taught.lesson.positive)
        for text in (screen.sentence(taught.lesson), *where):
            screen.say(text)
        if request.measured and taught.measured is not None:
            screen.say(
                f"Measured from all rows, in measured.json, covered by no privacy mode: {taught.measured.verdict}."
            )

    def rehearse(names: list[str], columns: tuple[str, ...], rows: int, classes: Raw | None) -> None:
        goal = goal_of(columns, classes)
        wanted = check_goal(goal, len(columns), student, classes, columns)
        if isinstance(wanted, CheckedGoal):
            wanted.check(student, columns, classes)
        label = None if classes is None else classes.tolist()[1]
        rehearsed = rehearsal.rehearse(names, len(columns), rows, student, goal, settings, positive=label)
        rehearsal.show(rehearsed, request.as_json)
        say_unsaid(label)

    if request.spark is not None:
        from superteach.cli.spark import teach_spark

        from_table, rows = teach_spark(request, student, goal_of, features, positive)
        stored = write(from_table.taught, from_table.columns, rows)
        where_it_is = f"Model, chosen rows (chosen/rows.parquet), ledger and report.html are in {request.out}."
        show(stored, from_table.taught, where_it_is)
        return
    if not request.files or request.target is None:
        raise SettingError("name the teachers' files and the --target column, or a --box")
    table = find_table(request, features, numeric)
    if request.resume and table is None:
        raise SettingError("--resume goes with rows on disk; with files in memory repeat the command without it")
    if request.cache is not None and table is None:
        raise SettingError(
            "--cache goes with rows on disk; these are read into memory (--out-of-core leaves them there)"
        )
    for given, option in (
        (request.teachers, "--teachers"),
        (request.wait, "--wait"),
        (request.no_wait or None, "--no-wait"),
    ):
        if given is not None:
            raise SettingError(f"{option} goes with --box; files are not lost on the way, and every file is a teacher")

    where_it_is = f"Model, chosen rows, ledger and a report to read (report.html) are in {request.out}."
    if table is not None:
        settings = request.check_settings(rounding="alone")
        refuse_private(settings)
        if request.dry_run:
            rehearse(["rows on disk"], table.columns, table.rows, None)
            return
        with screen.progress(rows=table.rows) as (watch, done):
            large = table.put_away(student.loss, request.cache, done, positive)
            teachers = LocalTeachers(large, large.columns, student)
            goal = goal_of(large.columns, teachers.classes)
            with lesson_journal(request, settings, large, student, place) as journal:
                taught = teachers.teach(goal, settings, watch, journal)
                stored = write(taught, large.columns, partial(write_large, taught=taught, pool=large))
        kind, size = table.kind.__name__, size_text(large.store.size)
        copied = f"Rows stayed on disk; their copy ({size}, {kind}) in {large.store.folder} is removed."
        show(stored, taught, where_it_is, copied)
        return
    with screen.progress() as (watch, _):
        pool = read_pool(
            request.files, request.target, request.owner, features, numeric, request.costs, request.encoding
        )
        teachers = LocalTeachers(pool.parts, pool.columns, student, positive=positive)
        if not request.dry_run:
            taught = teachers.teach(goal_of(pool.columns, teachers.classes), settings, watch, measure=request.measured)
    if request.dry_run:
        names = [part.name for part in pool.parts]
        rehearse(names, pool.columns, sum(part.count for part in pool.parts), teachers.classes)
        return
    show(write(taught, pool.columns, partial(write_chosen, taught=taught, pool=pool)), taught, where_it_is)

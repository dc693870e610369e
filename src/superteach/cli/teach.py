"""`superteach teach`: from files to a folder; from rows that stay on disk, or that Spark reads; and the rehearsal of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pyarrow import parquet

from superteach.cli import screen
from superteach.cli.folder import new_folder, page_of_stored, write_chosen, write_large
from superteach.cli.goal import called, check_goal_name, find_positive, is_file, load_goal, make_goal, positive_unsaid
from superteach.cli.request import Request, listed_in
from superteach.coordinator import named
from superteach.coordinator.federation import Federation
from superteach.coordinator.methods.base import lesson_sizes
from superteach.coordinator.teach import teach
from superteach.engines.checkpoint import ANEW, Journal
from superteach.engines.threads import Threads
from superteach.exceptions import DataError, SettingError, counted
from superteach.goals import CheckedGoal, MaxAUC, PerturbedFit, Without, check_goal
from superteach.io.formats.parquet import is_parquet
from superteach.io.frames import PositiveLabel
from superteach.io.tables import read_pool
from superteach.io.validation import Part, make_teachers
from superteach.learner import Learner
from superteach.lesson import Entry, Taught, to_json, write_lesson, write_measured
from superteach.local import LocalTeachers, refuse_private
from superteach.packages import versions
from superteach.privacy import PRIVACY
from superteach.report.words import exposure, size_text
from superteach.settings import Budget, Settings
from superteach.teacher.large import LargePool, ParquetTable, is_large, parquet_files
from superteach.types import Json, Label, Raw

if TYPE_CHECKING:
    from superteach.spark import TaughtTable

MOST = 5000
"""Rows that a rehearsal invents at most, so that it takes seconds; not measured how rounds depend on their number."""


def run(request: Request, place: Path) -> None:
    """Check everything, teach, write the folder, show the result."""
    student = named.build_student(request.learner, request.C, request.alpha, request.intercept)
    settings = request.check_settings()
    check_goal_name(request.goal)
    if request.goal_seed and request.goal != "perturbed":
        raise SettingError(f"--goal-seed {request.goal_seed} goes with --goal perturbed, got --goal {request.goal}")
    positive = find_positive(request.goal, request.positive)
    features = listed_in(request.features)
    numeric = not student.loss.classifies

    def goal_of(columns: Sequence[str], classes: Raw | None) -> object:
        made = make_goal(
            request.goal,
            request.goal_seed,
            columns,
            str(request.target),
            numeric,
            request.intercept,
            classes,
            request.encoding,
        )
        return called(made, request.goal, load_goal(request.goal) if is_file(request.goal) else None)

    def write(taught: Taught, columns: Sequence[str], rows: Callable[[Path], Json]) -> Json:
        described = named.learner_settings(request.learner, request.C, request.alpha, request.intercept)
        with new_folder(place) as folder:
            asked = {name: getattr(request, name) for name in ("goal", "goal_seed", "owner", "costs")}
            more = {"asked": {name: value for name, value in asked.items() if value}, **rows(folder)}
            stored = write_lesson(folder, taught, columns, str(request.target), described, more)
            page_of_stored(stored, taught.lesson).write(folder / "report.html")
            if request.measured and taught.measured is not None:
                write_measured(folder, taught.measured, columns)
        return stored

    def say_unsaid(label: Label | None) -> None:
        text = positive_unsaid(request.goal, request.positive, label)
        if text and not request.as_json:
            screen.say(text)

    def show(stored: Json, taught: Taught, copied: str = "") -> None:
        if request.as_json:
            sys.stdout.write(to_json(stored | {"out": str(request.out)}))
            return
        screen.result(taught.lesson, [len(rows) for rows in taught.chosen])
        say_unsaid(taught.lesson.positive)
        screen.say(screen.sentence(taught.lesson))
        what = "Model, chosen rows" if taught.lesson.delivered else "Chosen rows"
        screen.say(f"{what}, ledger and a report to read (report.html) are in {request.out}.")
        if copied:
            screen.say(copied)
        if request.measured and taught.measured is not None:
            screen.say(
                f"Measured from all rows, in measured.json, covered by no privacy mode: {taught.measured.verdict}."
            )

    def dry_run(names: list[str], columns: tuple[str, ...], rows: int, classes: Raw | None) -> None:
        goal = goal_of(columns, classes)
        wanted = check_goal(goal, len(columns), student, classes, columns)
        if isinstance(wanted, CheckedGoal):
            wanted.check(student, columns, classes)
        label = None if classes is None else classes.tolist()[1]
        show_rehearsal(rehearse(names, len(columns), rows, student, goal, settings, positive=label), request.as_json)
        say_unsaid(label)

    if request.spark is not None:
        from_table, rows = teach_spark(request, student, goal_of, features, positive)
        stored = write(from_table.taught, from_table.columns, rows)
        show(stored, from_table.taught)
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

    if table is not None:
        settings = request.check_settings(rounding="alone")
        refuse_private(settings)
        if request.dry_run:
            dry_run(["rows on disk"], table.columns, table.rows, None)
            return
        with screen.progress(rows=table.rows) as (watch, done):
            large = table.put_away(student.loss, request.cache, done, positive)
            teachers = LocalTeachers(large, large.columns, student)
            goal = goal_of(large.columns, teachers.classes)
            with lesson_journal(request, settings, large, student, place) as journal:
                taught = compared(teachers, teachers.teach(goal, settings, watch, journal), watch)
                stored = write(taught, large.columns, partial(write_large, taught=taught, pool=large))
        kind, size = table.kind.__name__, size_text(large.store.size)
        copied = f"Rows stayed on disk; their copy ({size}, {kind}) in {large.store.folder} is removed."
        show(stored, taught, copied)
        return
    with screen.progress() as (watch, _):
        pool = read_pool(
            request.files, request.target, request.owner, features, numeric, request.costs, request.encoding
        )
        teachers = LocalTeachers(pool.parts, pool.columns, student, positive=positive)
        if not request.dry_run:
            taught = teachers.teach(goal_of(pool.columns, teachers.classes), settings, watch, measure=request.measured)
            taught = compared(teachers, taught, watch)
    if request.dry_run:
        names = [part.name for part in pool.parts]
        dry_run(names, pool.columns, sum(part.count for part in pool.parts), teachers.classes)
        return
    chosen = partial(write_chosen, taught=taught, pool=pool, encoding=request.encoding)
    show(write(taught, pool.columns, chosen), taught)


def compared(teachers: LocalTeachers, taught: Taught, watch: Callable[[Entry], None] | None) -> Taught:
    """Set the lesson beside random rows; not in private modes, where a draw would leave its owner."""
    if taught.lesson.privacy != "none":
        return taught
    return replace(
        taught, lesson=replace(taught.lesson, random_rows=teachers.compare_with_random(taught.lesson, watch=watch))
    )


def find_table(request: Request, features: list[str] | None, numeric: bool) -> ParquetTable | None:
    """Find the table that is to stay on disk: a folder, what --out-of-core says, or Parquet too large for this memory."""
    named = [Path(name) for name in request.files or []]
    folders = [path for path in named if path.is_dir()]
    if request.out_of_core is False and not folders:
        return None
    wanted = bool(folders) or request.out_of_core is True
    plain = all(is_parquet(path) and path.is_file() for path in named if path not in folders)
    if not wanted and (request.owner is not None or not named or not plain):
        return None
    if request.owner is not None:
        raise SettingError(f"--owner {request.owner!r} goes with rows in memory; on disk all rows are one owner's")
    places = [path for name in named for path in (parquet_files(name) if name in folders else [name])]
    table = ParquetTable(places, str(request.target), features, request.costs, numeric)
    return table if wanted or is_large(table.numbers) else None


@contextmanager
def lesson_journal(
    request: Request, settings: Settings, pool: LargePool, learner: Learner, place: Path
) -> Iterator[Journal]:
    """Keep the journal of a lesson beside its result; remove it when the lesson is done, else leave it to --resume."""
    path = place.parent / f".{place.name[:50]}.unfinished"
    asked = {
        "files": pool.table.marks if pool.table else [],
        "parts": pool.counts,
        "columns": pool.columns,
        "target": request.target,
        "costs": request.costs,
        "learner": learner.as_dict(),
        "goal": [request.goal, request.goal_seed],
        "classes": None if pool.classes is None else pool.classes.tolist(),
        "settings": settings.as_dict(),
        "versions": versions(),
    }
    made = [parent for parent in place.parents if not parent.exists()]
    if request.resume and not path.exists():
        raise SettingError(f"there is no unfinished lesson for --out {str(request.out)!r}; repeat without --resume")
    if not request.resume:
        path.unlink(missing_ok=True)
    try:
        journal = Journal(path, asked)
    except SettingError as error:
        raise SettingError(
            f"the unfinished lesson is another one (files, settings or versions differ); {ANEW}"
        ) from error
    try:
        yield journal
    except BaseException as error:
        if not journal.last:
            journal.remove()
        elif isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(
                f"round {journal.last} is kept; repeat the command with --resume to go on"
            ) from None
        raise
    else:
        journal.remove()
    finally:
        for parent in made:
            if not path.exists() and parent.exists() and not any(parent.iterdir()):
                parent.rmdir()


def teach_spark(
    request: Request,
    student: Learner,
    goal: Callable[[list[str], Raw | None], object],
    features: list[str] | None,
    positive: PositiveLabel,
) -> tuple[TaughtTable, Callable[[Path], Json]]:
    """Teach and fetch the chosen rows; return the lesson, and what writes these rows into a folder."""
    from superteach import spark

    if request.box is not None or request.resume or request.dry_run:
        raise SettingError("--spark goes with none of --box, --resume and --dry-run: lost workers are replaced")
    if not request.files or len(request.files) != 1 or request.target is None:
        raise SettingError("--spark takes one Parquet table (a file or a folder) and its --target column")
    table, settings = request.files[0], request.check_settings(rounding="alone")
    with screen.progress() as (watch, _):
        session = spark.session(request.spark or "")
        try:
            rows = session.read.parquet(table)
        except Exception as error:  # py4j and Java raise nearly anything
            why = spark.reason_of(error)
            raise DataError(
                f"{table!r} cannot be read as Parquet: {why}; name a Parquet file or a folder of such"
            ) from None
        from_table = spark.teach_table(
            rows,
            student,
            goal,
            settings,
            request.target,
            request.owner,
            features,
            request.costs,
            watch=watch,
            positive=positive,
        )
        chosen = from_table.chosen.toArrow()
        session.stop()

    def write(folder: Path) -> Json:
        (folder / "chosen").mkdir()
        parquet.write_table(chosen, folder / "chosen" / "rows.parquet")
        parts = [
            {"teacher": member.name, "rows": len(some), "held": member.rows}
            for member, some in zip(from_table.roster, from_table.taught.chosen, strict=True)
        ]
        return {"table": table, "files": parts}

    return from_table, write


def rehearse(
    teachers: Sequence[str],
    columns: int,
    rows: int | None,
    learner: Learner,
    goal: object,
    settings: Settings,
    round_seconds: float = 0.0,
    positive: Label | None = None,
) -> Json:
    """Teach the lesson on invented rows; return what it took: rounds, bytes, seconds and queries.

    `rows` counts the rows of all teachers together; None: nobody has said, and a thousand each are assumed.
    """
    if rows is None:
        held = max(1000 * len(teachers), 25 * settings.budget if isinstance(settings.budget, int) else 0)
    else:
        held = rows
        lesson_sizes(settings.budget, rows, columns)  # refuses what all rows are too few for
    invented = min(held, max(MOST, 20 * len(teachers), 10 * columns))
    if isinstance(goal, Without):
        goal = Without(0)  # as many sums as for any other column
    elif not isinstance(goal, PerturbedFit | MaxAUC):  # they are fitted on rows; for any other goal a vector serves
        goal = np.random.default_rng(1).standard_normal(columns + (learner.intercept != "none"))
        goal /= np.linalg.norm(goal)
    scaled = replace(settings, budget=_scaled(settings.budget, invented / held))
    started = time.perf_counter()
    lesson = teach(_federation(teachers, columns, invented, learner), learner, goal, scaled)
    seconds = time.perf_counter() - started
    clock = "where a round takes 0.1; starting the teachers' processes comes on top"
    groups: dict[str, list[Entry]] = {}
    for entry in lesson.ledger:
        groups.setdefault(entry.query, []).append(entry)
    return {
        "teachers": list(teachers),
        "columns": columns,
        "rows": rows,
        "positive": positive,
        "privacy": settings.privacy,
        "searches": lesson.words.exact and settings.privacy == "none",
        "rounds": lesson.rounds,
        "bytes": lesson.bytes,
        "seconds": seconds * held / invented + round_seconds * lesson.rounds,
        "clock": clock if round_seconds else "on this machine",
        "leaves": [
            {
                "query": query,
                "rounds": len(entries),
                "bytes": sum(entry.bytes_in for entry in entries) // len(teachers),
                "shows": exposure(query),
            }
            for query, entries in groups.items()
        ],
    }


def show_rehearsal(facts: Json, as_json: bool) -> None:
    """Show a rehearsal."""
    if as_json:
        sys.stdout.write(to_json(facts))
        return
    teachers, privacy = len(facts["teachers"]), facts["privacy"]
    rows = "an unknown number of rows" if facts["rows"] is None else counted(facts["rows"], "rows")
    screen.say(
        f"A rehearsal on invented rows: {counted(teachers, 'teachers')}, {rows}, {counted(facts['columns'], 'columns')}. "
        "Nobody was asked anything, and nothing was written."
    )
    each = size_text(sum(one["bytes"] for one in facts["leaves"]))
    more = "more where rows do not reach the goal" if facts["searches"] else ""
    positive = facts["positive"]
    screen.facts(
        [
            *([] if positive is None else [screen.positive_fact(positive)]),
            ("privacy", privacy, PRIVACY[privacy]),
            ("rounds", f"about {facts['rounds']:,}", more),
            ("bytes", f"about {size_text(facts['bytes'])}", f"both ways, over all teachers; {each} leave each"),
            ("seconds", f"about {facts['seconds']:.2g}", facts["clock"]),
        ]
    )
    screen.say("What leaves each teacher:")
    screen.facts(
        [
            (one["query"], f"{one['rounds']} × {size_text(one['bytes'] // one['rounds'])}", one["shows"])
            for one in facts["leaves"]
        ]
    )


def _federation(teachers: Sequence[str], columns: int, rows: int, learner: Learner) -> Federation:
    """Invent rows, and targets that suit the loss, and deal them out to the teachers."""
    draw = np.random.default_rng(0)
    X = draw.standard_normal((rows, columns))
    signal = X @ draw.standard_normal(columns) / np.sqrt(columns) + draw.standard_normal(rows)
    y = np.where(signal > 0.0, 1.0, -1.0) if learner.loss.classifies else signal
    if learner.loss.name == "poisson":
        y = np.round(np.exp(np.clip(signal, -2.0, 2.0)))
    members = np.array_split(np.arange(rows), len(teachers))
    parts = [Part(name, X[own], y[own], own) for name, own in zip(teachers, members, strict=True)]
    return Federation(Threads(make_teachers(parts, list(map(str, range(columns))), learner.loss)[0]))


def _scaled(budget: Budget, share: float) -> Budget:
    """Scale a budget that counts rows to the number of invented rows."""
    if isinstance(budget, tuple):
        return _scaled(budget[0], share), _scaled(budget[1], share)
    return max(1, round(budget * share)) if isinstance(budget, int) else budget

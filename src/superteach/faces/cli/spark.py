"""`superteach teach --spark`: from a Parquet table that Spark reads to a folder."""

from __future__ import annotations

import sys
from pathlib import Path

from pyarrow import parquet

from superteach import spark
from superteach.coordinator import named
from superteach.errors import DataError, SettingError, shorten
from superteach.faces.cli import screen
from superteach.faces.cli.folder import new_folder
from superteach.faces.cli.goal import make_goal
from superteach.faces.cli.report import page_of_stored
from superteach.faces.cli.request import Request
from superteach.lesson import to_json, write_json, write_model
from superteach.mathematics.learner import Learner
from superteach.types import Raw


def teach_spark(request: Request, place: Path, estimator: object, features: list[str] | None) -> None:
    """Teach, fetch the chosen rows, write the folder, show the result."""
    if request.federation is not None or request.resume or request.dry_run or request.on_loss != "abort":
        raise SettingError(
            "--spark goes with none of --federation, --resume, --dry-run and --on-loss: lost workers are replaced"
        )
    if not request.files or len(request.files) != 1 or request.target is None:
        raise SettingError("--spark takes one Parquet table (a file or a folder) and its --target column")
    master, table, target = request.spark or "", request.files[0], request.target
    student = Learner.of(estimator)
    settings, numeric = request.made(rounding="alone"), not student.loss.classifies
    with screen.progress() as watch:
        session = spark.session(master)
        try:
            rows = session.read.parquet(table)
        except Exception as error:  # py4j and Java raise nearly anything
            raise DataError(f"table {table!r} cannot be read as Parquet: {shorten(str(error))}") from None

        def goal(columns: list[str], classes: Raw | None) -> object:
            return make_goal(request.goal, request.goal_seed, columns, target, numeric, request.intercept, classes)

        found = spark.teach_table(
            rows, student, goal, settings, target, request.owner, features, request.costs, watch=watch
        )
        chosen = found.chosen.toArrow()
        session.stop()

    taught, lesson = found.taught, found.taught.lesson
    described = named.learner_settings(request.learner, estimator, student, request.intercept)
    stored = lesson.as_dict() | {"verdict": lesson.verdict, "columns": found.columns, "target": target, "table": table}
    counts = [len(some) for some in taught.chosen]
    stored["files"] = [
        {"teacher": member.name, "rows": count, "held": member.rows}
        for member, count in zip(found.roster, counts, strict=True)
    ]
    with new_folder(place) as folder:
        write_model(folder, taught, found.columns, described)
        (folder / "chosen").mkdir()
        parquet.write_table(chosen, folder / "chosen" / "rows.parquet")
        write_json(folder / "lesson.json", stored)
        page_of_stored(stored, lesson).write(folder / "report.html")
    if request.as_json:
        sys.stdout.write(to_json(stored | {"out": str(request.out)}))
        return
    screen.result(lesson, counts)
    screen.say(screen.sentence(lesson))
    screen.say(f"Model, chosen rows (chosen/rows.parquet), ledger and report.html are in {request.out}.")

"""`superteach teach --spark`: from a Parquet table that Spark reads to a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyarrow import parquet

from superteach import spark
from superteach.cli import screen
from superteach.cli.request import Request
from superteach.exceptions import DataError, SettingError
from superteach.io.frames import PositiveLabel
from superteach.learner import Learner
from superteach.types import Json, Raw


def teach_spark(
    request: Request,
    student: Learner,
    goal: Callable[[list[str], Raw | None], object],
    features: list[str] | None,
    positive: PositiveLabel,
) -> tuple[spark.TaughtTable, Callable[[Path], Json]]:
    """Teach and fetch the chosen rows; return the lesson, and what writes these rows into a folder."""
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

"""Lessons in MLflow (extra `mlflow`): settings as parameters, figures as metrics, the report as an artefact."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from superteach.exceptions import DataError, MissingExtra, SettingError
from superteach.io.frames import load, take_rows
from superteach.lesson import Lesson
from superteach.report.words import by_dots
from superteach.types import Foreign

METRICS = (
    *("size", "pool_rows", "fraction", "risk", "pool_risk", "ratio", "agreement", "prediction_distance", "lower_bound"),
    *("stated_risk", "cost", "rounds", "bytes", "seconds"),
)
"""Metrics of a lesson, by its attributes; what a privacy mode leaves unknown is left out."""


def log_lesson(
    lesson: Lesson, pool: Foreign = None, rows: npt.ArrayLike | None = None, *, folder: str = "superteach"
) -> None:
    """Log a lesson to the active run of MLflow, or to a new one.

    Its settings become parameters, its figures metrics, report.html and lesson.json artefacts in `folder`. `pool`, the table
    of all rows, becomes the run's input "pool", and `rows`, the numbers of the chosen ones such as sample_indices_, its
    input "lesson". MLflow keeps columns, sizes and a digest of both and no row; but whoever has a table can tell by the
    digest whether it is this one.
    """
    try:
        import mlflow
    except ImportError:
        raise MissingExtra("mlflow", "mlflow", "logging a lesson with MLflow") from None

    if not isinstance(lesson, Lesson):
        raise DataError(f"log_lesson takes a lesson, such as teacher.lesson_, got a {type(lesson).__name__}")
    if rows is not None and pool is None:
        raise SettingError("rows are numbers of rows of a table; give it as pool")
    inputs = {} if pool is None else {"pool": pool}
    if rows is not None:
        inputs["lesson"] = take_rows(pool, np.asarray(rows))
    values = {name: getattr(lesson, name) for name in METRICS}
    mlflow.log_params({**by_dots(lesson.settings), "teachers": len(lesson.teachers)})
    for name, table in inputs.items():
        mlflow.log_input(_described(table, name), context=name)
    mlflow.log_metrics(
        {name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}
    )
    for point in lesson.path:
        if math.isfinite(point.risk):
            mlflow.log_metric("risk_by_size", point.risk, step=point.size)
    mlflow.set_tags({"superteach.verdict": lesson.verdict, "superteach.privacy": lesson.privacy})
    if lesson.positive is not None:
        mlflow.set_tag("superteach.positive", lesson.positive)
    with tempfile.TemporaryDirectory(prefix="superteach-") as place:
        lesson.save(Path(place) / "lesson.json")
        lesson.report(Path(place) / "report.html")
        mlflow.log_artifacts(place, folder)


def _described(table: Foreign, name: str) -> Foreign:
    """Describe a table as MLflow does, by way of a data frame of pandas."""
    try:
        import pandas as pd
        from mlflow.data.pandas_dataset import from_pandas
    except ImportError:
        raise MissingExtra("pandas", "mlflow", "logging rows with MLflow") from None

    table = load(table)
    frame = table.to_pandas() if hasattr(table, "to_pandas") else pd.DataFrame(table)
    return from_pandas(frame.rename(columns=str), name=name)

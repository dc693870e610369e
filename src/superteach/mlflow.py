"""Lessons in MLflow (extra `mlflow`): settings as parameters, figures as metrics, the report as an artefact."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from superteach.exceptions import MissingExtra
from superteach.report.words import by_dots

if TYPE_CHECKING:
    from superteach.lesson import Lesson

FIGURES = (
    *(
        "size",
        "pool_rows",
        "fraction",
        "risk",
        "pool_risk",
        "ratio",
        "agreement",
        "prediction_distance",
        "lower_bound",
    ),
    *("stated_risk", "cost", "rounds", "bytes", "seconds"),
)
"""Metrics of a lesson, by its attributes; what a privacy mode leaves unknown is left out."""


def log_lesson(lesson: Lesson, *, folder: str = "superteach") -> None:
    """Log a lesson to the active run of MLflow, or to a new one.

    `folder` is where report.html and lesson.json lie among the artefacts. No row is in any of it.
    """
    try:
        import mlflow
    except ImportError:
        raise MissingExtra("mlflow", "mlflow", "logging a lesson with MLflow") from None

    values = {name: getattr(lesson, name) for name in FIGURES}
    mlflow.log_params({**by_dots(lesson.settings), "teachers": len(lesson.teachers)})
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

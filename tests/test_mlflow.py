"""A lesson in MLflow, read back with MLflow's own client from a store of files."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
from sklearn.linear_model import LogisticRegression

from superteach import Lesson, SuperTeacher
from superteach.datasets import make_classification_pool
from superteach.exceptions import MissingExtra, SettingError
from superteach.mlflow import log_lesson


@pytest.mark.long(every=3)
@pytest.mark.parametrize("privacy", ["none", "isolated"])
def test_a_logged_lesson_reads_back(privacy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("GIT_PYTHON_REFRESH", "quiet")
    X, y, owner = make_classification_pool(200, 3, 2)
    teacher = SuperTeacher(LogisticRegression(fit_intercept=False), [1.0, -1.0, 0.5], budget=30, privacy=privacy)
    teacher.fit(X, y, groups=owner)
    lesson = teacher.lesson_
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    with mlflow.start_run() as run:
        log_lesson(lesson, X, teacher.sample_indices_)
    client = mlflow.MlflowClient()
    stored = client.get_run(run.info.run_id)
    assert stored.data.params["method"] == "match"
    assert stored.data.params["learner.loss.name"] == "logistic"
    assert stored.data.params["teachers"] == "2"
    for name in ("size", "risk", "pool_risk", "rounds", "bytes"):
        value = getattr(lesson, name)
        unknown = math.isnan(value)  # a private lesson measures nothing
        assert stored.data.metrics.get(name) == (None if unknown else value)
    assert ("risk" in stored.data.metrics) == (privacy == "none")
    walk = client.get_metric_history(run.info.run_id, "risk_by_size")
    assert [(point.step, point.value) for point in walk] == [(point.size, point.risk) for point in lesson.path]
    assert stored.data.tags["superteach.privacy"] == privacy
    inputs = {one.dataset.name: json.loads(one.dataset.profile)["num_rows"] for one in stored.inputs.dataset_inputs}
    assert inputs == {"pool": len(X), "lesson": lesson.size}
    names = {Path(one.path).name for one in client.list_artifacts(run.info.run_id, "superteach")}
    assert names == {"lesson.json", "report.html"}
    fetched = client.download_artifacts(run.info.run_id, "superteach/lesson.json", str(tmp_path))
    assert repr(Lesson.load(fetched)) == repr(lesson)


def test_without_mlflow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'superteach\[mlflow\]'"):
        log_lesson(Lesson.__new__(Lesson))


def test_rows_need_their_table() -> None:
    with pytest.raises(SettingError, match="give it as pool"):
        log_lesson(Lesson.__new__(Lesson), rows=[0, 1])

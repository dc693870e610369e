"""A lesson in MLflow, read back with MLflow's own client from a store of files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sklearn.linear_model import LogisticRegression

from superteach import Lesson, SuperTeacher
from superteach.datasets import make_classification_pool
from superteach.exceptions import MissingExtra
from superteach.mlflow import log_lesson


@pytest.mark.long(every=3)
@pytest.mark.parametrize("privacy", ["none", "isolated"])
def test_a_logged_lesson_reads_back(privacy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("GIT_PYTHON_REFRESH", "quiet")
    X, y, owner = make_classification_pool(200, 3, 2)
    teacher = SuperTeacher(LogisticRegression(fit_intercept=False), [1.0, -1.0, 0.5], budget=30, privacy=privacy)
    lesson = teacher.fit(X, y, groups=owner).lesson_
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    with mlflow.start_run() as run:
        log_lesson(lesson)
    client = mlflow.MlflowClient()
    stored = client.get_run(run.info.run_id)
    assert stored.data.params["method"] == "match"
    assert stored.data.params["learner.loss.name"] == "logistic"
    assert stored.data.params["teachers"] == "2"
    for name in ("size", "risk", "pool_risk", "rounds", "bytes"):
        assert stored.data.metrics[name] == getattr(lesson, name)
    walk = client.get_metric_history(run.info.run_id, "risk_by_size")
    assert [(point.step, point.value) for point in walk] == [(point.size, point.risk) for point in lesson.path]
    assert stored.data.tags["superteach.privacy"] == privacy
    names = {Path(one.path).name for one in client.list_artifacts(run.info.run_id, "superteach")}
    assert names == {"lesson.json", "report.html"}
    fetched = client.download_artifacts(run.info.run_id, "superteach/lesson.json", str(tmp_path))
    assert Lesson.load(fetched).risk == lesson.risk


def test_without_mlflow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'superteach\[mlflow\]'"):
        log_lesson(Lesson.__new__(Lesson))

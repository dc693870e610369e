"""scikit-learn's callbacks (1.9 or newer) see the rounds of a lesson and the fitted estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from superteach import SuperTeacher
from superteach.datasets import make_classification_pool
from superteach.exceptions import BudgetError

callback = pytest.importorskip("sklearn.callback")
X, Y, OWNER = make_classification_pool(200, 3, 2)


class Recorder:
    """Writes down which tasks begin and end."""

    def __init__(self):
        self.seen = []

    def setup(self, estimator, context):
        self.seen.append("setup")

    def teardown(self, estimator, context):
        self.seen.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.seen.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context):
        self.seen.append(f"end {context.task_name}")


def test_every_round_is_a_task():
    recorder = Recorder()
    teacher = SuperTeacher(goal=[1.0, -1.0, 0.5, 0.0], budget=30).set_callbacks(recorder).fit(X, Y, groups=OWNER)
    seen = recorder.seen
    assert seen[:2] == ["setup", "begin fit"]
    assert seen[-2:] == ["end fit", "teardown"]
    rounds = [name.removeprefix("end ") for name in seen[2:-2] if name.startswith("end ")]
    assert rounds == [entry.stage for entry in teacher.lesson_.ledger]


def test_a_lesson_that_fails_is_torn_down():
    recorder = Recorder()
    with pytest.raises(BudgetError):
        SuperTeacher(goal=[1.0, -1.0, 0.5, 0.0], budget=999).set_callbacks(recorder).fit(X, Y)
    assert recorder.seen[-1] == "teardown"


def test_scikit_learns_own_callbacks_work(capsys):
    monitor = callback.ScoringMonitor(scoring="accuracy")
    teacher = SuperTeacher(goal=[1.0, -1.0, 0.5, 0.0], budget=30).set_callbacks(callback.ProgressBar(), monitor)
    fitted = clone(teacher).fit(X, Y)
    scores = [log["accuracy"] for log in monitor.get_logs().data]
    assert scores == [pytest.approx(np.mean(fitted.predict(X) == Y))]
    assert "SuperTeacher" in capsys.readouterr().out

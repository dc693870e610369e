"""Asynchronous rounds over real processes: the certified optimum, and both sides know who was asked alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import superteach as st
from superteach.coordinator.teaching import teach
from superteach.goals import PerturbedFit
from superteach.mathematics.learner import Learner
from tests.federation.rows import ROWS

ASKED = ("north", "south")


def test_asynchronous_rounds_end_at_the_certified_optimum(town, data, tmp_path):
    """Newton in one process finds the same objective and the same lesson."""
    run = town.run(
        *("teach", "--federation", str(town.folder), "--teachers", ",".join(ASKED), "--learner", "logistic"),
        *(
            "--C",
            "0.05",
            "--no-intercept",
            "--goal",
            "perturbed",
            "--promise",
            "open",
            "--goal-weight",
            "1",
            "--budget",
            "60",
        ),
        *("--method", "dual", "--solver", "block", "--staleness", "3", "--out", str(tmp_path / "lesson")),
        "--json",
    )
    assert run.returncode == 0, run.stderr
    stored = json.loads(run.stdout)
    assert stored["converged"], stored["reason"]
    teachers = [
        st.Teacher(
            name,
            data.X[name],
            np.where(data.y[name] == 1, 1.0, -1.0),
            np.arange(place * ROWS, (place + 1) * ROWS),
        )
        for place, name in enumerate(ASKED)
    ]
    engine = st.InProcess(teachers)
    learner = Learner.of(LogisticRegression(C=0.05, fit_intercept=False))
    best = teach(st.Federation(engine), learner, PerturbedFit(0), method="dual", budget=60, goal_weight=1.0)
    assert stored["gap"][-1] <= 1e-10 * abs(stored["objective"][-1])
    assert stored["objective"][-1] == pytest.approx(best.objective[-1], rel=1e-9)
    there = st.Lesson.load(tmp_path / "lesson" / "lesson.json")
    np.testing.assert_allclose(there.model, best.model, rtol=1e-9)
    for name, state in zip(ASKED, engine.states(), strict=True):
        assert {"teacher": name, "rows": len(state.chosen), "held": ROWS} in stored["files"]
        mine = [entry for entry in stored["ledger"] if entry["teacher"] in (name, None)]
        logged = [entry for entry in town.audit(name) if entry.get("lesson") == stored["lesson"]]
        assert [entry["query"] for entry in mine] == [entry["query"] for entry in logged if entry["kind"] == "ask"]
        assert any(entry["teacher"] == name for entry in mine)
    numbers = (town.kit("north") / "chosen" / f"{stored['lesson']}.csv").read_text().split()[1:]
    assert [int(number) for number in numbers] == np.sort(engine.states()[0].chosen).tolist()

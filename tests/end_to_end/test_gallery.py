"""The gallery's examples run, draw, and say what scikit-learn finds on the rows they chose."""

from __future__ import annotations

import ast
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
DATA = Path(os.environ.get("SUPERTEACH_DATA") or ROOT.parent / "shared" / "data")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run one example in a folder of its own; return its names afterwards."""

    def run_example(name: str, *arguments: str) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", [name, str(tmp_path), *arguments])
        names = runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        drawn = (tmp_path / f"{name}.png").read_bytes()
        assert drawn.startswith(b"\x89PNG")
        assert len(drawn) > 10_000  # more than empty axes
        return names

    return run_example


@pytest.mark.long(every=2)
def test_first_lesson(run):
    found = run("first_lesson")
    rows = found["chosen"]
    learner = LogisticRegression(tol=1e-10, max_iter=1000).fit(found["X"][rows], found["y"][rows])
    refit = np.append(learner.coef_, learner.intercept_)
    assert len(rows) == 60
    assert np.linalg.norm(refit - found["goal"]) < 0.01 * np.linalg.norm(found["goal"])


def test_your_own_goal(run):
    found = run("your_own_goal")
    rows, sex = found["rows"], found["sex"]
    refit = Ridge(alpha=1.0).fit(found["X"][rows], found["y"][rows]).coef_
    assert found["everything"][sex] < -5.0
    assert abs(refit[sex]) < 0.2
    others = np.arange(len(refit)) != sex
    np.testing.assert_allclose(refit[others], found["everything"][others], atol=0.2)


@pytest.mark.slow
def test_unreachable_goal(run):
    found = run("unreachable_goal")
    assert 0 < len(found["proved"]) < len(found["lessons"])
    sign = np.where(found["y"] == 1, 1.0, -1.0)
    for length, lesson in found["proved"].items():
        pulls = (expit(-sign * (found["X"] @ lesson.goal)) * sign)[:, None] * found["X"]
        along = np.column_stack([pulls, np.ones(len(sign))]) @ lesson.certificate.direction
        assert found["there"][length] == pytest.approx(np.maximum(along, 0.0).sum(), rel=1e-9, abs=1e-9)
        assert found["needed"][length] > found["there"][length]
    reached = [lesson.risk for length, lesson in found["lessons"].items() if length not in found["proved"]]
    assert max(reached) < 0.02


@pytest.mark.slow
def test_unequal_teachers(run):
    found = run("unequal_teachers")
    rows, goal = found["together"].sample_indices_, found["goal"]
    learner = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=1000)
    refit = learner.fit(found["X"][rows], found["y"][rows]).coef_[0]
    assert np.linalg.norm(refit - goal) < 0.01
    for number, risk in found["alone"].items():
        # Columns an owner has not measured keep a coefficient of 0, so it cannot do better than this.
        assert risk >= np.linalg.norm(goal[~found["measured"][number]]) * (1.0 - 1e-9)
    assert found["given"].sum() == 200


def test_census_by_state(run, monkeypatch):
    if not (DATA / "acs_income_2018.parquet").is_file():
        pytest.skip(f"acs_income_2018.parquet is not in {DATA}; set SUPERTEACH_DATA to the folder that holds it")
    monkeypatch.setenv("SUPERTEACH_DATA", str(DATA))
    found = run("census_by_state", "VT", "WY", "AK", "ND")
    rows = np.flatnonzero(found["away"])[found["teacher"].sample_indices_]
    assert set(found["data"].groups[rows]) <= {"WY", "AK", "ND"}
    learner = LogisticRegression(C=0.1, tol=1e-10, max_iter=1000).fit(found["X"][rows], found["data"].target[rows])
    assert np.linalg.norm(learner.coef_ - found["goal"].coef_) < 0.1 * found["lesson"].pool_risk


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_examples_are_short_explained_and_shown(example):
    text = example.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert f"python examples/{example.name}" in (ast.get_docstring(ast.parse(text)) or "")
    page = (ROOT / "docs" / "generated" / "gallery.md").read_text(encoding="utf-8")
    assert f"(../../examples/{example.name})" in page
    assert f"(images/gallery/{example.stem}.png)" in page


def test_there_are_six():
    assert len(EXAMPLES) == 6

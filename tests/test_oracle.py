from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from benchmarks.oracle.judge import EXACT, Judge
from benchmarks.oracle.pools import Task
from benchmarks.oracle.run import compare, main, read

LEARNERS = [LogisticRegression(), Ridge(), PoissonRegressor(alpha=1e-3)]


def task(learner, kinds=2):
    """Dummies beside an intercept, and the learner's own fit as goal."""
    draw = np.random.default_rng(0)
    X = np.column_stack([draw.standard_normal((200, 2)), np.eye(3)[draw.integers(0, 3, 200)]])
    y = draw.integers(0, kinds, 200)
    exact = clone(learner).set_params(**EXACT[type(learner)])
    return Task(X, y, None, learner, exact.fit(X, y), {})


@pytest.mark.parametrize(("learner", "kinds"), [*((learner, 2) for learner in LEARNERS), (LogisticRegression(), 3)])
def test_a_goal_moves_along_directions_that_no_row_sees_to_where_fits_end(learner, kinds):
    given = task(learner, kinds)
    fit = Judge(given).goal
    given.goal.coef_[..., 2:] += 0.7  # all dummies up and the intercept down: the same scores
    given.goal.intercept_ -= 0.7
    if kinds == 3:
        given.goal.coef_ += 0.3  # all classes alike: the same probabilities
    judge = Judge(given)
    np.testing.assert_allclose(judge.goal, fit, atol=1e-7)
    whole = judge.measure(list(range(200)))
    assert whole["risk"] < 1e-6
    assert whole["predictions"] < 1e-6


def test_a_goal_that_rows_see_stays():
    given = task(Ridge())
    given.goal.coef_[0] += 0.5
    measured = Judge(given).measure(list(range(200)))
    assert measured["risk"] == pytest.approx(0.5, rel=1e-6)
    assert measured["predictions"] == pytest.approx(0.5 * np.sqrt(np.mean(given.X[:, 0] ** 2)), rel=1e-6)


def test_rows_of_one_class_are_a_failure():
    given = task(LogisticRegression())
    assert Judge(given).measure(list(np.flatnonzero(given.y == 1)))["error"] == "the chosen rows lack a class"


def lesson(pool, seed, risk, **more):
    known = {"n": 9, "predictions": 10 * risk, "agreement": 1.0, "bound": 0.0, "rounds": 3, "seconds": 2.0, "fit": 1.0}
    return {
        "pool": pool,
        "seed": seed,
        "risk": risk,
        **known,
        "memory": 5.0,
        "measure": "predictions",
        "proved": False,
        **more,
    }


def test_pools_are_compared_by_seed():
    here = [lesson("a", 1, 4.0), lesson("a", 2, 0.5), lesson("b", 1, 3.0, fit=4.0), lesson("c", 1, 2.0, bound=21.0)]
    there = [lesson("a", 1, 1.0), lesson("a", 2, 0.5), lesson("b", 1, 1.5), lesson("b", 2, 1.0)]
    there.append({"pool": "c", "seed": 1, "error": "over 60 s"})
    table, text = compare(here, there, beside=False)
    assert table.ratio[:2].tolist() == pytest.approx([2.0, 2.0])
    assert table.worst[:2].tolist() == pytest.approx([4.0, 2.0])
    assert table.slower[:2].tolist() == pytest.approx([1.0, 0.25])
    assert [note.strip() for note in table.note] == ["", "worse", "1 failed there"]
    assert "of which 1 refuted" in text
    proved = compare([lesson("a", 1, 4.0, predictions=3.0)], [lesson("a", 1, 1.0, proved=True)], beside=True)[0]
    assert proved.ratio["a ~"] == pytest.approx(0.3)


@pytest.mark.slow
def test_figures_are_kept_and_compared(tmp_path, capsys):
    file = tmp_path / "here.jsonl"
    main(["--pools", "ma16x2", "--seeds", "2", "--out", str(file)])
    first = file.read_text("utf-8")
    head, lessons = read(file)
    assert {"commit", "source", "python", "numpy", "scipy", "scikit-learn"} == set(head)
    assert [one["risk"] < 0.01 for one in lessons.values()] == [True, True]
    main(["--pools", "ma16x2", "--seeds", "2", "--out", str(file)])  # nothing is left to teach
    assert file.read_text("utf-8") == first
    capsys.readouterr()
    main(["--pools", "ma16x2", "--against", str(file)])
    assert "distance 1," in capsys.readouterr().out

"""Every teacher alone: even shares, nothing but counts, and with one teacher the method itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

import superteach as st
from superteach.coordinator.path import last_ranks
from superteach.datasets import make_classification_pool, make_regression_pool
from superteach.exceptions import LearnerError, MissingExtra, SettingError
from superteach.goals import PerturbedFit
from superteach.losses import Logistic, Squared
from superteach.protocol.queries import Keep, Prepare, RankRows
from superteach_lab import minlp

GOAL = PerturbedFit(3)


def shares(owned: list[int], size: int) -> list[int]:
    """One row after another to each teacher in turn, as long as it has some left."""
    given = [0] * len(owned)
    while sum(given) < size:
        for teacher, most in enumerate(owned):
            if given[teacher] < most and sum(given) < size:
                given[teacher] += 1
    return given


@pytest.mark.parametrize(
    ("owned", "size"),
    [([50, 50, 50], 31), ([3, 50, 10, 40], 60), ([1, 1, 90], 30), ([5, 5], 10), ([40] * 7, 3), ([9], 4)],
)
def test_shares_are_even_and_add_up(owned, size, pool):
    """Who runs out leaves its part to the others; nobody learns how many rows anybody has."""
    X, y = pool("squared", sum(owned), 2, 0)
    parts = np.split(np.arange(sum(owned)), np.cumsum(owned)[:-1])
    teachers = [st.Teacher(f"t{i}", X[part], y[part], part) for i, part in enumerate(parts)]
    engine = st.Threads(teachers)
    federation = st.Federation(engine)
    federation.sum(Prepare(st.losses.Squared(), 0.0))
    federation.sum(RankRows("even", seed=5))
    assert federation.sum(Keep(last_ranks(federation, [size])[0])).rows == size
    assert [len(state.chosen) for state in engine.states()] == shares(owned, size)


@pytest.mark.parametrize("learner", [LogisticRegression(), Ridge(), PoissonRegressor()], ids=repr)
@pytest.mark.parametrize("standardize", [False, True])
def test_one_teacher_alone_teaches_exactly(learner, standardize, pool):
    """K = 1: nearly as near as match, which exchanges rows in the end, and far below random rows."""
    kind = {"LogisticRegression": "logistic", "Ridge": "squared"}.get(type(learner).__name__, "poisson")
    X, y = pool(kind, 300, 3, 1)
    settings = {"budget": 30, "standardize": standardize, "random_state": 2}
    alone, exact, drawn = (
        st.SuperTeacher(learner, GOAL, method=method, **settings).fit(X, y).lesson_
        for method in ("oblivious", "match", "random")
    )
    assert alone.prediction_distance < 0.05 * drawn.prediction_distance or exact.certificate is not None
    assert alone.prediction_distance < 30.0 * exact.prediction_distance
    assert alone.reason == "1 of 1 teachers ended their own search" or not exact.converged


@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_one_teacher_with_a_solver_is_central(kind):
    """K = 1: oblivious-minlp chooses the rows that central teaching chooses."""
    make = make_classification_pool if kind == "logistic" else make_regression_pool
    X, y, _ = make(12, 2, 1, random_state=5)
    learner = LogisticRegression(fit_intercept=False) if kind == "logistic" else Ridge(fit_intercept=False)
    alone = st.SuperTeacher(learner, GOAL, budget=4, method="oblivious-minlp", random_state=4).fit(X, y)
    loss, target = (Logistic(), np.where(y == 1, 1.0, -1.0)) if kind == "logistic" else (Squared(), y)
    found = minlp.solve(X, target, loss, 1.0, alone.lesson_.goal, 4, seed=4)
    assert found.status == "finished, no proof"
    np.testing.assert_array_equal(alone.sample_indices_, found.rows)
    assert alone.lesson_.risk == pytest.approx(found.risk, rel=1e-6)


@pytest.mark.parametrize(("method", "size"), [("oblivious", 23), ("oblivious-minlp", 8)])
def test_as_many_rows_as_asked_evenly_and_again(method, size):
    """Distinct rows, the asked number, shares that differ by one at most; the same seed gives the same rows."""
    X, y, owner = make_classification_pool(30 if method == "oblivious-minlp" else 300, 2, 3, random_state=7)
    fits = [
        st.SuperTeacher(LogisticRegression(fit_intercept=False), GOAL, budget=size, method=method, random_state=1).fit(
            X, y, groups=owner
        )
        for _ in range(2)
    ]
    rows = fits[0].sample_indices_
    np.testing.assert_array_equal(rows, fits[1].sample_indices_)
    assert len(np.unique(rows)) == len(rows) == size
    counts = np.bincount(owner[rows], minlength=3)
    assert counts.max() - counts.min() <= 1
    model = LogisticRegression(fit_intercept=False, tol=1e-12).fit(X[rows], y[rows])
    np.testing.assert_allclose(fits[0].coef_, model.coef_, rtol=1e-5)


def test_only_counts_leave():
    """Once the learner is announced and fitted on the pool, every reply of the choice is counts."""
    X, y, owner = make_classification_pool(300, 3, 3, random_state=8)
    lesson = st.SuperTeacher(LogisticRegression(), GOAL, budget=30, method="oblivious").fit(X, y, owner).lesson_
    asked = {entry.query for entry in lesson.ledger if entry.stage in ("shares", "alone")}
    assert asked == {"RankRows", "CountRanks", "Keep", "Alone"}
    assert sum(entry.query == "Alone" for entry in lesson.ledger) == 1


def test_a_teacher_that_finds_nothing_draws():
    """No point within the limit: the teacher's even share of random rows stays, and the lesson says so."""
    X, y, owner = make_regression_pool(900, 10, 2, random_state=9)
    lesson = (
        st.SuperTeacher(Ridge(fit_intercept=False), GOAL, budget=31, method="oblivious-minlp", solver_seconds=0.2)
        .fit(X, y, groups=owner)
        .lesson_
    )
    assert lesson.reason == "0 of 2 teachers ended their own search, 2 found nothing and drew rows at random"
    assert lesson.size == 31
    assert not lesson.converged


def test_what_oblivious_refuses(monkeypatch):
    """Losses no programme is written for, limits that are none, and a missing extra."""
    X, y, owner = make_classification_pool(60, 2, 3, random_state=7)
    with pytest.raises(LearnerError, match="not for poisson"):
        st.SuperTeacher(PoissonRegressor(), GOAL, budget=9, method="oblivious-minlp").fit(X, y, owner)
    with pytest.raises(SettingError, match="solver_seconds"):
        st.SuperTeacher(LogisticRegression(), GOAL, method="oblivious-minlp", solver_seconds=0).fit(X, y)
    monkeypatch.setattr("superteach_lab.minlp.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"superteach-lab\[minlp\]"):
        st.SuperTeacher(LogisticRegression(), GOAL, budget=9, method="oblivious-minlp").fit(X, y, owner)


def test_the_command_line_knows_it(tmp_path, capsys):
    """`superteach teach --method oblivious` writes a lesson that names the method and its reason."""
    import json

    from superteach.cli import app

    X, y, owner = make_classification_pool(120, 2, 2, random_state=3)
    lines = [f"{a},{b},{label},site{own}" for (a, b), label, own in zip(X, y, owner, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,y,site", *lines]) + "\n", encoding="utf-8")
    order = ["teach", str(tmp_path / "rows.csv"), "--target", "y", "--owner", "site", "--learner", "logistic"]
    order += ["--goal", "perturbed", "--budget", "20", "--method", "oblivious", "--solver-seconds", "5"]
    app([*order, "--out", str(tmp_path / "lesson")], standalone_mode=False)
    stored = json.loads((tmp_path / "lesson" / "lesson.json").read_text(encoding="utf-8"))
    assert stored["settings"]["method"] == "oblivious"
    assert stored["reason"] == "2 of 2 teachers ended their own search"
    assert [part["rows"] for part in stored["files"]] == [10, 10]

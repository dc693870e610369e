"""Lessons from small pools: against scikit-learn's fits of all subsets (the search itself: tests/selection)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC

import superteach as st
from superteach.goals import PerturbedFit
from superteach_lab.experiments import exhaustive

SHARP = {"tol": 1e-12, "max_iter": 100_000}
LEARNERS = {
    "logistic": (LogisticRegression(C=2.0, solver="newton-cholesky", **SHARP), "logistic"),
    "ridge": (Ridge(alpha=0.7, solver="cholesky"), "squared"),
    "support vectors": (LinearSVC(C=0.5, dual=False, **SHARP), "squared_hinge"),
    "Poisson": (PoissonRegressor(alpha=0.05, solver="newton-cholesky", **SHARP), "poisson"),
}


@pytest.mark.long(every=4)
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_lesson_from_ten_rows_is_the_best_of_all(name, K, pool):
    """With scikit-learn's own fits of every subset of four, for every kind of learner, standardised or not."""
    learner, kind = LEARNERS[name]
    X, y = pool(kind, 10, 2, 6)
    teacher = st.SuperTeacher(learner, PerturbedFit(1), budget=4, measure="coefficients").fit(
        X, y, groups=np.arange(10) % K
    )
    lowest = np.inf
    for rows in map(list, combinations(range(10), 4)):
        if kind in ("logistic", "squared_hinge") and len(set(y[rows])) < 2:
            continue
        learner.fit(X[rows], y[rows])
        model = np.append(np.ravel(learner.coef_), learner.intercept_)
        lowest = min(lowest, float(np.linalg.norm(model - teacher.lesson_.goal)))
    assert teacher.lesson_.size == len(teacher.sample_indices_) == 4
    assert teacher.lesson_.risk == pytest.approx(lowest, rel=1e-4, abs=1e-7)


def test_rows_are_not_looked_at_where_teachers_round_alone(pool):
    """However few there are, nobody is asked to show them."""
    X, y = pool("logistic", 60, 2, 3)
    for rounding, shown in (("together", True), ("alone", False)):
        teacher = st.SuperTeacher(LEARNERS["logistic"][0], PerturbedFit(1), budget=20, rounding=rounding)
        lesson = teacher.fit(X, y, groups=np.arange(60) % 2).lesson_
        assert any(entry.query == "Show" for entry in lesson.ledger) == shown


def test_three_rows_of_sixty_come_as_near_as_any_three_do():
    """Against fits of all 34,220 lessons; the weakest rows, of which none is chosen at first, are tried by themselves."""
    draw = np.random.default_rng(0)
    X = draw.standard_normal((60, 2))
    y = X @ [1.0, 2.0] + 0.3 * draw.standard_normal(60)
    goal = Ridge(fit_intercept=False).fit(X, y).coef_
    teacher = st.SuperTeacher(Ridge(fit_intercept=False), goal, budget=3).fit(X, y)
    chosen = np.isin(np.arange(60), teacher.sample_indices_)[None].astype(float)
    models = exhaustive.models("ridge", X, y, 1.0, np.concatenate([chosen, exhaustive.masks(60, 3)]))
    apart = np.linalg.norm((models - goal) @ X.T, axis=1)
    assert chosen.sum() == 3
    assert apart[0] <= 2.0 * apart.min()


def test_a_lesson_of_any_size_does_not_keep_all_rows():
    """As many rows as columns (Ma et al. 2018, ridge): the median lesson has less than half of the risk of all rows."""
    ratios = []
    for seed in range(5):
        draw = np.random.default_rng(seed)
        X, goal = draw.standard_normal((32, 32)), np.full(32, 32**-0.5)
        y = X @ goal + np.sqrt(0.1) * draw.standard_normal(32)
        teacher = st.SuperTeacher(
            Ridge(alpha=0.05, fit_intercept=False), goal, budget="best", measure="coefficients"
        ).fit(X, y)
        rows = teacher.sample_indices_
        taught, full = (
            Ridge(alpha=0.05, fit_intercept=False).fit(X[some], y[some]).coef_ for some in (rows, slice(None))
        )
        ratios.append(np.linalg.norm(taught - goal) / np.linalg.norm(full - goal))
    assert np.median(ratios) < 0.45


def test_one_class_is_not_chosen_where_two_can_be():
    """A goal that one class alone would teach best: the lesson has both."""
    draw = np.random.default_rng(0)
    X = draw.standard_normal((30, 5)) + 1.0
    y = np.where(np.arange(30) < 27, 1.0, -1.0)
    goal = np.full(5, 0.4)
    teacher = st.SuperTeacher(LogisticRegression(fit_intercept=False), goal, budget=4).fit(X, y)
    assert set(y[teacher.sample_indices_]) == {-1.0, 1.0}


@pytest.mark.parametrize("way", [{"rounding": "alone"}, {"privacy": "isolated"}], ids=["alone", "isolated"])
def test_a_handful_of_rows_from_each_owner_add_up(way, pool):
    """Thirty owners choose three of thirty rows each, fewer than there are columns: far nearer than rows drawn at random."""
    learner, ratios = LogisticRegression(fit_intercept=False, **SHARP), []
    for seed in range(4):
        X, y = pool("logistic", 900, 5, seed)
        truth = learner.fit(X, y).coef_[0]
        noise = np.random.default_rng(100 + seed).standard_normal(5)
        goal = truth + 0.5 * noise * np.linalg.norm(truth) / np.linalg.norm(noise)
        far = []
        for settings in (way, {"method": "random"}):
            teacher = st.SuperTeacher(learner, goal, budget=90, random_state=seed, **settings)
            rows = teacher.fit(X, y, groups=np.arange(900) % 30).sample_indices_
            assert abs(len(rows) - 90) <= 10
            far.append(np.linalg.norm(learner.fit(X[rows], y[rows]).coef_[0] - goal))
        ratios.append(far[0] / far[1])
    assert np.median(ratios) < 0.3

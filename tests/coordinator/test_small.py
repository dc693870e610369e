"""Small pools in one place: every subset against textbook fits of all of them, exchanges against the true risk."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC

import superteach as st
from superteach.coordinator.methods.small import SmallPool, every_subset, exchange
from superteach.goals import PerturbedFit
from superteach.losses import Logistic, Squared
from superteach.mathematics.learner import Learner
from superteach_lab.experiments import exhaustive

SHARP = {"tol": 1e-12, "max_iter": 100_000}
LEARNERS = {
    "logistic": (LogisticRegression(C=2.0, solver="newton-cholesky", **SHARP), "logistic"),
    "ridge": (Ridge(alpha=0.7, solver="cholesky"), "squared"),
    "support vectors": (LinearSVC(C=0.5, dual=False, **SHARP), "squared_hinge"),
    "Poisson": (PoissonRegressor(alpha=0.05, solver="newton-cholesky", **SHARP), "poisson"),
}


def small_pool(kind: str, rows: int, width: int, seed: int, pool, far: float = 1.0) -> SmallPool:
    """Rows without an intercept, and a goal in any direction."""
    X, y = pool("squared" if kind == "ridge" else "logistic", rows, width, seed)
    loss = Squared() if kind == "ridge" else Logistic()
    goal = far * np.random.default_rng(seed).standard_normal(width)
    return SmallPool(X, y, Learner(loss, 0.5), goal, np.eye(width))


def risks_of(kind: str, pool: SmallPool, masks: np.ndarray) -> np.ndarray:
    """By textbook formulas; infinite where a classifier would see one class."""
    found = exhaustive.risks(kind, pool.design, pool.target, 0.5, pool.goal, masks.astype(float))
    if kind == "logistic":
        positive = masks @ (pool.target > 0.0)
        found[(positive == 0) | (positive == masks.sum(axis=1))] = np.inf
    return found


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
@pytest.mark.parametrize("bounds", [(1, 12), (4, 4), (3, 6)])
@pytest.mark.parametrize("far", [0.3, 1.0, 5.0])
def test_of_all_subsets_the_best_is_found(kind, bounds, far, pool):
    """Twelve rows, any sizes, goals within reach and far out of it: bounds that skip subsets skip no winner."""
    for seed in range(3):
        small = small_pool(kind, 12, 2, seed, pool, far)
        every = exhaustive.masks(12, None).astype(bool)
        every = every[(every.sum(axis=1) >= bounds[0]) & (every.sum(axis=1) <= bounds[1])]
        found = every_subset(small, *bounds)
        assert bounds[0] <= found.sum() <= bounds[1]
        lowest = risks_of(kind, small, every).min()
        assert risks_of(kind, small, found[None])[0] == pytest.approx(lowest, rel=1e-6, abs=1e-10)


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_risks_are_those_of_textbook_fits(kind, pool):
    """All lessons at once, from the goal on, and those that a learner refuses."""
    small = small_pool(kind, 9, 3, 1, pool)
    masks = exhaustive.masks(9, None).astype(bool)
    risks, models = small.risks(masks)
    expected = risks_of(kind, small, masks)
    np.testing.assert_array_equal(np.isinf(risks), np.isinf(expected))
    taught = np.isfinite(risks)
    np.testing.assert_allclose(risks[taught], expected[taught], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(models[taught] - small.goal, axis=1), risks[taught], rtol=1e-9)


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_exchanges_only_lower_the_true_risk(kind, pool):
    """From any lesson: never farther, within its bounds, mostly much nearer; and no single exchange tried on is left."""
    gains = []
    for seed in range(5):
        small = small_pool(kind, 60, 3, seed, pool)
        start = np.random.default_rng(seed).permutation(60) < 15
        end = exchange(small, start, 15, 15)
        assert end.sum() == 15
        before, after = risks_of(kind, small, np.stack([start, end]))
        assert after <= before
        gains.append(after / before)
        free = exchange(small, start, 10, 20)
        assert 10 <= free.sum() <= 20
        assert risks_of(kind, small, free[None])[0] <= before
    assert np.median(gains) < 0.1


def test_a_lesson_of_one_class_is_made_acceptable(pool):
    """A classifier's lesson gets a row of the other class, and goes on from there."""
    small = small_pool("logistic", 40, 2, 3, pool)
    start = np.zeros(40, dtype=bool)
    start[np.flatnonzero(small.target > 0.0)[:6]] = True
    end = exchange(small, start, 6, 6)
    assert end.sum() == 6
    assert 0 < np.count_nonzero(small.target[end] > 0.0) < 6
    assert np.isfinite(risks_of("logistic", small, end[None])[0])


@pytest.mark.long(every=4)
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_lesson_from_ten_rows_is_the_best_of_all(name, K, pool):
    """With scikit-learn's own fits of every subset of four, for every kind of learner, standardised or not."""
    learner, kind = LEARNERS[name]
    X, y = pool(kind, 10, 2, 6)
    teacher = st.SuperTeacher(learner, PerturbedFit(1), budget=4).fit(X, y, groups=np.arange(10) % K)
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

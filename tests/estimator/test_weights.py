"""Weights of rows: scikit-learn's own fits with sample_weight and class_weight are the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from superteach import Learner, SuperTeacher
from superteach.exceptions import LearnerError
from superteach.losses import LOSSES, Poisson
from superteach.losses.scalar import Weighted
from tests.oracles import TIGHT

LEARNERS = {
    "logistic": LogisticRegression(C=0.5, **TIGHT),
    "logistic classes": LogisticRegression(class_weight={1: 3.0}, **TIGHT),
    "logistic liblinear": LogisticRegression(solver="liblinear", class_weight={-1: 0.5, 1: 2.0}, **TIGHT),
    "squared": Ridge(alpha=3.0, **TIGHT),
    "squared_hinge": LinearSVC(C=0.3, dual=False, class_weight={1: 2.0}, **TIGHT),
}
ROWS = 240


def flat(model) -> np.ndarray:
    return np.append(model.coef_, model.intercept_)


@pytest.fixture
def task(pool):
    """`task(name)` gives rows, targets, weights between 0.2 and 5, an estimator and a goal."""

    def make(name: str, rows: int = ROWS):
        X, y = pool(name.split()[0], rows, 4, 3)
        weights = np.exp(np.random.default_rng(5).uniform(-1.6, 1.6, rows))
        return X, y, weights, LEARNERS[name], 0.4 * np.random.default_rng(4).standard_normal(5)

    return make


@pytest.mark.long(every=10)
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("method", ["dual", "match", "random", "oblivious"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_weighted_refit_is_the_taught_model(name, form, method, weighted, task):
    """Of the chosen rows with their weights; and so is the model of all rows."""
    X, y, weights, estimator, goal = task(name)
    given = {"sample_weight": weights} if weighted else {}
    budget = 220 if method == "dual" else 80  # its best rows carry one class
    teacher = SuperTeacher(estimator, goal, budget=budget, method=method).fit(form(X), y, np.arange(ROWS) % 3, **given)
    rows = teacher.sample_indices_
    refit = clone(estimator).fit(X[rows], y[rows], **{key: value[rows] for key, value in given.items()})
    np.testing.assert_allclose(teacher.lesson_.model, flat(refit), rtol=1e-5, atol=1e-6)
    whole = clone(estimator).fit(X, y, **given)
    np.testing.assert_allclose(teacher.lesson_.pool_model, flat(whole), rtol=1e-5, atol=1e-6)
    assert type(teacher.model_) is type(estimator)
    assert teacher.model_.get_params() == estimator.get_params()


@pytest.mark.parametrize("rows", [ROWS, 1500])
@pytest.mark.parametrize("standardize", [False, True])
def test_match_teaches_the_goal_with_weights(rows, standardize, task):
    """Pulls are weighted, so prices and roundings balance the weighted loss, in small pools and in large ones."""
    X, y, weights, estimator, goal = task("logistic classes", rows)
    teacher = SuperTeacher(estimator, goal, budget=100, standardize=standardize)
    lesson = teacher.fit(X, y, np.arange(rows) % 4, sample_weight=weights).lesson_
    assert lesson.risk < 0.05 * lesson.pool_risk
    assert lesson.settings["learner"]["weighted"]
    if rows == ROWS:  # the search of small pools sees the weights too
        even = SuperTeacher(clone(estimator).set_params(class_weight=None), goal, budget=100).fit(X, y).sample_indices_
        assert not np.array_equal(even, teacher.sample_indices_)


def test_equal_weights_change_the_penalty_alone(task):
    """A weight of 2 for all rows is half the penalty: the same α/2 solve the paper's problem, so the same rows."""
    X, y, _, _, goal = task("logistic")
    given = {"goal": goal, "budget": 60, "method": "dual"}
    heavy = SuperTeacher(LogisticRegression(C=0.5), sparsity=0.1, goal_weight=1000.0, **given)
    heavy.fit(X, y, sample_weight=np.full(ROWS, 2.0))
    plain = SuperTeacher(LogisticRegression(C=1.0), sparsity=0.05, goal_weight=500.0, **given).fit(X, y)
    np.testing.assert_allclose(heavy.lesson_.model, plain.lesson_.model, atol=1e-8)
    np.testing.assert_array_equal(heavy.sample_indices_, plain.sample_indices_)


@pytest.mark.parametrize("name", sorted(set(LOSSES)))
def test_a_weighted_loss_is_the_loss_times_its_weight(name):
    """Value, slopes by differences, and the conjugate by a search over η."""
    loss, random = LOSSES[name](), np.random.default_rng(0)
    weights = random.uniform(0.3, 3.0, 6)
    y = np.where(random.random(6) < 0.5, -1.0, 1.0) if loss.classifies else random.poisson(3.0, 6) + 0.5
    heavy, eta, step = Weighted(loss, weights), random.standard_normal(6), 1e-5
    np.testing.assert_allclose(heavy.value(eta, y), weights * loss.value(eta, y))
    slope = (heavy.value(eta + step, y) - heavy.value(eta - step, y)) / (2 * step)
    np.testing.assert_allclose(heavy.gradient(eta, y), slope, atol=1e-6)
    grid = np.linspace(-30.0, 30.0, 200_001)[:, None]
    alpha = -heavy.gradient(eta, y)
    found = (-alpha * grid - heavy.value(grid, y)).max(axis=0)
    np.testing.assert_allclose(heavy.conjugate(alpha, y), found, atol=1e-6)
    low, high = heavy.domain(y)
    assert np.all((alpha >= low - 1e-12) & (alpha <= high + 1e-12))
    threshold = np.full(6, 0.1)
    best = heavy.best_dual(eta, y, threshold)
    tried = np.clip(best + np.linspace(-0.05, 0.05, 11)[:, None], low, high)
    value = eta * tried - heavy.penalised_conjugate(tried, y, threshold)
    assert np.all(value <= (eta * best - heavy.penalised_conjugate(best, y, threshold)) + 1e-12)


def test_weights_that_change_the_penalty_are_refused():
    """PoissonRegressor divides by the weights of the chosen rows; a Learner with a ridge of its own does not."""
    with pytest.raises(LearnerError, match="PoissonRegressor"):
        Learner(Poisson(), ridge_per_row=True, weighted=True)
    X = np.random.default_rng(0).standard_normal((60, 2))
    y = np.random.default_rng(1).poisson(np.exp(0.3 * X[:, 0]))
    teacher = SuperTeacher(Learner(Poisson(), 2.0), [0.2, 0.1], budget=30)
    assert np.isfinite(teacher.fit(X, y, sample_weight=np.linspace(0.5, 2.0, 60)).lesson_.risk)
    assert teacher.model_ is None

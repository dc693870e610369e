"""What a lesson says of itself, by hand and by scikit-learn: quality, the taught model, exact teaching and its limits."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC

from superteach import SuperTeacher
from superteach.datasets import make_classification_pool, make_regression_pool
from superteach.goals import MaxAUC
from tests.oracles import TIGHT, accuracy

LEARNERS = {
    "logistic": LogisticRegression(C=0.5, solver="newton-cholesky", **TIGHT),
    "ridge": Ridge(alpha=2.0, solver="cholesky"),
    "squared hinge": LinearSVC(C=0.5, dual=False, **TIGHT),
    "poisson": PoissonRegressor(alpha=0.01, solver="newton-cholesky", **TIGHT),
}
each_learner = pytest.mark.parametrize("name", LEARNERS)


def drawn(name, rows, seed, width=4):
    """Rows of five owners, and targets that a model explains in part."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, width))
    signal = X @ np.linspace(-0.6, 0.6, width) + 0.3
    noise = generator.standard_normal(rows)
    if name == "poisson":
        return X, generator.poisson(np.exp(signal)).astype(float), np.arange(rows) % 5
    return X, signal + noise if name == "ridge" else (signal + noise > 0.0).astype(int), np.arange(rows) % 5


def flat(model):
    return np.append(model.coef_, model.intercept_)


@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_risk_consistency_fraction_and_time(kind):
    """R* = ‖θ_S − θ*‖, ρ_lr the share of equal labels, ρ_rr = r² with θ* as the truth, |S|/N, and κ by the clock."""
    classifies = kind == "logistic"
    X, y, owner = (make_classification_pool if classifies else make_regression_pool)(1000)
    learner = LogisticRegression(fit_intercept=False, **TIGHT) if classifies else Ridge(fit_intercept=False)
    goal = 2.0 * np.random.default_rng(0).standard_normal(10)
    before = time.perf_counter()
    teacher = SuperTeacher(learner, goal, budget=0.1, method="dual", measure="coefficients").fit(X, y, groups=owner)
    took = time.perf_counter() - before
    chosen, lesson = teacher.sample_indices_, teacher.lesson_
    theta = clone(learner).fit(X[chosen], y[chosen]).coef_.ravel()
    assert lesson.risk == pytest.approx(np.sqrt(np.sum((theta - goal) ** 2)), rel=accuracy(learner))
    wanted, taught = X @ goal, X @ theta
    if classifies:
        consistency = np.sum((wanted > 0) == (taught > 0)) / len(y)
    else:
        consistency = 1.0 - np.sum((wanted - taught) ** 2) / np.sum((wanted - wanted.mean()) ** 2)
    assert lesson.agreement == pytest.approx(consistency, rel=accuracy(learner))
    assert lesson.fraction == len(set(chosen)) / len(y) == 0.1
    assert took / 100 < lesson.seconds < took


@each_learner
def test_the_federated_fit_is_scikit_learns(name):
    """θ_S from the sums of five owners is scikit-learn's fit on the chosen rows of all of them put together."""
    X, y, owner = drawn(name, 400, 0)
    teacher = SuperTeacher(LEARNERS[name], np.zeros(5), budget=90, method="random").fit(X, y, groups=owner)
    chosen = teacher.sample_indices_
    assert set(owner[chosen]) == set(range(5))
    own = clone(LEARNERS[name]).fit(X[chosen], y[chosen])
    np.testing.assert_allclose(flat(teacher), flat(own), atol=accuracy(LEARNERS[name]))


@each_learner
def test_a_goal_in_reach_is_taught(name):
    """scikit-learn's own estimator, trained to the end on the chosen rows alone, ends at θ* within the risk printed."""
    X, y, owner = drawn(name, 1000, 1)
    pool = flat(clone(LEARNERS[name]).fit(X, y))
    goal = pool + 0.5 * np.linalg.norm(pool) * np.array([0.5, -0.5, 0.5, 0.5, 0.0])
    teacher = SuperTeacher(LEARNERS[name], goal, budget=200).fit(X, y, groups=owner)
    chosen, lesson = teacher.sample_indices_, teacher.lesson_
    assert len(set(chosen)) == 200
    risk = np.linalg.norm(flat(clone(LEARNERS[name]).fit(X[chosen], y[chosen])) - goal)
    assert risk == pytest.approx(lesson.risk, abs=accuracy(LEARNERS[name]))
    assert lesson.risk < 0.01 * np.linalg.norm(pool - goal)
    assert lesson.certificate is None


def pulls(kind, X, y, goal):
    """g_j = −ℓ'_j(x_j'θ*) x_j; θ_S = θ* exactly where those of S add up to Λθ*."""
    scores = X @ goal
    return X * (y * expit(-y * scores) if kind == "logistic" else y - scores)[:, None]


@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_a_certificate_is_given_exactly_where_a_linear_programme_has_no_solution(kind):
    """Fractional rows 0 ≤ b ≤ 1, Σ b = n, miss Λθ* by what the programme finds; the certificate's u proves a miss.

    min Σ|Σ_j b_j g_j − Λθ*| over these b is max v'Λθ* + nc − Σ_j max(0, v'g_j + c) over |v_k| ≤ 1 and c.
    """
    rows, width, size, ridge, verdicts = 300, 4, 60, 1.0, set()
    owner, count = np.arange(rows) % 5, np.ones((rows, 1))
    for seed in (1, 2):
        generator = np.random.default_rng(seed)
        X, direction = generator.standard_normal((rows, width)), generator.standard_normal(width)
        y = X @ [0.6, -0.2, 0.2, 0.6] + generator.standard_normal(rows)
        learner = Ridge(ridge, fit_intercept=False)
        if kind == "logistic":
            y, learner = np.where(y > 0.0, 1.0, -1.0), LogisticRegression(C=1.0 / ridge, fit_intercept=False)
        for length in (0.6, 1.0, 3.0):
            goal = length * direction
            proof = SuperTeacher(learner, goal, budget=size).fit(X, y, groups=owner).lesson_.certificate
            g, wanted = np.hstack([pulls(kind, X, y, goal), count]), np.append(ridge * goal, size)
            missed = np.eye(width + 1, width)
            programme = linprog(
                np.repeat([0.0, 1.0], [rows, 2 * width]),
                A_eq=np.hstack([g.T, missed, -missed]),
                b_eq=wanted,
                bounds=[(0, 1)] * rows + [(0, None)] * 2 * width,
            )
            assert (proof is None) == (programme.fun < 1e-6)
            verdicts.add(proof is None)
            if proof is not None:
                u = proof.direction / np.abs(proof.direction[:-1]).max()
                miss = u @ wanted - np.maximum(g @ u, 0.0).sum()
                assert 0.0 < miss < programme.fun * (1.0 + 1e-6)
    assert verdicts == {True, False}


def auc(scores, positive):
    """The share of pairs that are in the right order."""
    apart = scores[positive][:, None] - scores[~positive]
    return np.mean(apart > 0.0) + 0.5 * np.mean(apart == 0.0)


def test_the_goal_that_ranks():
    """θ* = argmin of Σ ½(1 − (x_i − x_j)'θ)² over all pairs; taught, the learner ranks better than fitted on all rows."""
    generator = np.random.default_rng(0)
    positive = generator.random(1500) < 0.8
    wide = generator.standard_normal((1500, 2)) @ [[0.3, 0.0], [1.5, 2.0]] + [1.0, 0.6]
    X = np.where(positive[:, None], wide, generator.standard_normal((1500, 2)))
    learner = LogisticRegression(fit_intercept=False, **TIGHT)
    teacher = SuperTeacher(learner, MaxAUC(), budget=0.1).fit(X, positive, groups=np.arange(1500) % 5)
    pairs = (X[positive][:, None] - X[~positive]).reshape(-1, 2)
    goal = np.linalg.lstsq(pairs, np.ones(len(pairs)))[0]
    np.testing.assert_allclose(teacher.lesson_.goal, goal, rtol=1e-8)
    taught, own = (
        clone(learner).fit(X[rows], positive[rows]).coef_[0] for rows in (teacher.sample_indices_, slice(None))
    )
    assert auc(X @ taught, positive) == pytest.approx(auc(X @ goal, positive), abs=1e-3)
    assert auc(X @ taught, positive) > auc(X @ own, positive) + 0.02

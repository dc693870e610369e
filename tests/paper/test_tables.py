"""Section IV: the protocol of the tables, small cases of Tables II and III, and risk by the number of rows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from superteach import SuperTeacher
from superteach.datasets import make_classification_pool, make_regression_pool
from superteach.goals import PerturbedFit

ROWS, TRIALS = 5000, 10


def drawn(kind, trial, teachers=5):
    """The paper's clusters in ten dimensions: X, y, owner, and the learner with Λ = 2e-4·N."""
    ridge = 2e-4 * ROWS
    if kind == "logistic":
        learner = LogisticRegression(C=1.0 / ridge, fit_intercept=False, tol=1e-10, max_iter=10_000)
        return *make_classification_pool(ROWS, 10, teachers, trial), learner
    noise = 20.0 if kind == "noisy ridge" else 0.0
    return *make_regression_pool(ROWS, 10, teachers, noise, trial), Ridge(ridge, fit_intercept=False)


def taught(kind, trial, method, budget="best", teachers=5):
    X, y, owner, learner = drawn(kind, trial, teachers)
    # The seed of a pool would draw its numbers again.
    goal = PerturbedFit(100 + trial)
    teacher = SuperTeacher(learner, goal, budget=budget, method=method, measure="coefficients", random_state=trial)
    return teacher.fit(X, y, groups=owner)


@cache
def risks(kind, method):
    """Sizes, and the risk at each of them in each trial; the last size is the whole pool."""
    curves = [{at.size: at.risk for at in taught(kind, trial, method).lesson_.path} for trial in range(TRIALS)]
    sizes = sorted(set.intersection(*map(set, curves)))
    assert sizes[-1] == ROWS
    return sizes, np.array([[curve[size] for size in sizes] for curve in curves])


@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_the_protocol_of_the_tables(kind):
    """Ten dimensions, balanced classes or y = x'w, ⌊N/K⌋ rows each, and θ* = θ_gt + τ with ‖τ‖ = ‖θ_gt‖."""
    X, y, owner, learner = drawn(kind, 0)
    assert X.shape == (ROWS, 10)
    assert set(np.bincount(owner)) == {ROWS // 5}
    if kind == "logistic":
        assert set(np.bincount(y)) == {ROWS // 2}
    else:
        np.testing.assert_allclose(X @ np.linalg.lstsq(X, y)[0], y, atol=1e-8)
    truth = learner.fit(X, y).coef_.ravel()
    moves = []
    for seed in (1, 2):
        lesson = SuperTeacher(learner, PerturbedFit(seed), budget=200, method="random").fit(X, y, groups=owner).lesson_
        moves.append(lesson.goal - truth)
        assert np.linalg.norm(moves[-1]) == pytest.approx(np.linalg.norm(truth), rel=1e-5)
        assert lesson.pool_risk == pytest.approx(np.linalg.norm(truth), rel=1e-5)
    assert abs(moves[0] @ moves[1]) < 0.9 * (truth @ truth)


@pytest.mark.parametrize(
    ("kind", "most", "of_pool", "of_random"), [("logistic", 0.1, 0.7, 0.6), ("ridge", 0.4, 0.97, 0.97)]
)
def test_the_papers_method_beats_random_rows_and_the_whole_pool(kind, most, of_pool, of_random):
    """Tables II and III at N = 5,000, K = 5: at the |S|/N of the lowest mean risk, below 0.1 and 0.4 as printed."""
    sizes, dual = risks(kind, "dual")
    same, random = risks(kind, "random")
    best = int(dual.mean(axis=0).argmin())
    assert sizes[best] <= most * ROWS
    lowest = dual[:, best].mean()
    assert lowest < of_pool * dual[:, -1].mean()
    assert lowest < of_random * random[:, same.index(sizes[best])].mean()
    assert np.sum(dual[:, best] < dual[:, -1]) >= 0.8 * TRIALS
    consistency = []
    for trial in range(5):
        teacher = taught(kind, trial, "dual", sizes[best])
        chosen, lesson = teacher.sample_indices_, teacher.lesson_
        X, y, _, learner = drawn(kind, trial)
        theta = learner.fit(X[chosen], y[chosen]).coef_.ravel()
        assert np.linalg.norm(theta - lesson.goal) == pytest.approx(dual[trial, best], rel=1e-5)
        consistency.append((lesson.agreement, lesson.pool_agreement))
    ours, pools = np.mean(consistency, axis=0)
    assert ours > pools + 0.03


@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_the_number_of_teachers_changes_no_risk(kind):
    """Both tables: "increasing K barely changes the teaching risk"; at the optimum of the problem, nothing at all."""
    five, ten = (taught(kind, 0, "dual", 200, teachers).sample_indices_ for teachers in (5, 10))
    np.testing.assert_array_equal(five, ten)


@pytest.mark.parametrize(("kind", "falls", "rises"), [("logistic", 1.1, 1.5), ("noisy ridge", 1.1, 1.03)])
def test_risk_falls_and_then_rises_with_the_number_of_rows(kind, falls, rises):
    """The figure: "insufficient and too many data instances can do harm equally"."""
    sizes, dual = risks(kind, "dual")
    curve = dual.mean(axis=0)
    assert 2 * sizes[0] < sizes[int(curve.argmin())] < sizes[-1] / 2
    assert curve[0] > falls * curve.min()
    assert curve[-1] > rises * curve.min()


@pytest.mark.parametrize("kind", ["logistic", "noisy ridge", "ridge"])
def test_exact_teaching_beats_every_size_of_the_papers_method(kind):
    """With 4 % of the rows where the goal is in reach; and where y = x'w puts it out of reach, at the same size."""
    _, dual = risks(kind, "dual")
    for trial, lowest in enumerate(dual.min(axis=1)[:3]):
        if kind == "ridge":
            papers = taught(kind, trial, "dual").lesson_
            ours = taught(kind, trial, "match", papers.size).lesson_
            assert ours.certificate is not None
            assert ours.risk < papers.risk == pytest.approx(lowest)
        else:
            ours = taught(kind, trial, "match", 0.04).lesson_
            assert ours.certificate is None
            assert ours.risk < 0.05 * lowest

"""The paper's theory on trial: every number is checked against a library that knows nothing of this package."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from superteach.losses import Squared
from superteach_lab.paper import theorem


def refit(loss, X, y, ridge):
    """scikit-learn's model; x → −x, y → −y changes no logistic loss, and gives it the two classes it asks for."""
    if not loss.classifies:
        return Ridge(alpha=ridge, fit_intercept=False, solver="cholesky").fit(X, y).coef_
    both, labels = np.concatenate([X, -X]), np.concatenate([y, -y])
    model = LogisticRegression(C=1.0 / ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    return model.fit(both, labels, sample_weight=np.full(len(both), 0.5)).coef_[0]


def risk(model, goal):
    return 0.5 * float(np.sum((model - goal) ** 2))


@pytest.mark.parametrize("seed", range(12))
def test_theorem_against_scikit_learn(seed):
    """Every teacher's best subset, the joint risk and both bounds, with loops and scikit-learn alone."""
    problem = theorem.random_problem(seed)
    K, chosen, risks = len(problem.rows), [], []
    for X, y in problem.rows:
        tried = []
        for size in range(1, len(y) + 1):
            for rows in combinations(range(len(y)), size):
                model = refit(problem.loss, X[list(rows)], y[list(rows)], problem.ridge / K)
                tried.append((risk(model, problem.goal), size, X[list(rows)], y[list(rows)]))
        best = min(tried, key=lambda entry: entry[0])
        risks.append(best[0])
        chosen.append(best[1:])
    joint = refit(problem.loss, np.concatenate([X for _, X, _ in chosen]), np.concatenate([y for _, _, y in chosen]),
                  problem.ridge)  # fmt: skip
    steepest = max(float(np.linalg.norm(X, axis=1).max()) for X, _ in problem.rows) ** 2
    tau = steepest / 4.0 if problem.loss.classifies else steepest
    found = theorem.measure(problem)
    assert found.risk == pytest.approx(risk(joint, problem.goal), rel=1e-6, abs=1e-12)
    assert np.allclose(found.risks, risks, rtol=1e-6, atol=1e-12)
    assert found.printed == pytest.approx((tau / (problem.ridge * K) + 1 / K**2) * sum(risks), rel=1e-6, abs=1e-12)
    corrected = sum((size * tau / problem.ridge + 1 / K) * own for (size, _, _), own in zip(chosen, risks, strict=True))
    assert found.corrected == pytest.approx(corrected, rel=1e-6, abs=1e-12)


def test_the_counterexample_by_hand():
    """Two teachers with one row x = 1, y = 1 each, Λ = 4, θ* = 1: scikit-learn agrees.

    Ridge with Λ/K = 2 learns 1/(1 + 2) = 1/3 from either row, and 2/(2 + 4) = 1/3 from both. R* = ½(2/3)² = 2/9 each
    time; the printed bound is (1/8 + 1/4)(4/9) = 1/6, which is less; the corrected one is (1/4 + 1/2)(4/9) = 1/3.
    """
    row = np.ones((1, 1)), np.ones(1)
    problem = theorem.Problem(Squared(), (row, row), 4.0, np.ones(1))
    found = theorem.measure(problem)
    assert found.sizes == (1, 1)
    assert (found.risk, found.printed, found.corrected) == pytest.approx((2 / 9, 1 / 6, 1 / 3))
    assert found.breaks_printed
    assert not found.breaks_corrected
    alone = Ridge(alpha=2.0, fit_intercept=False).fit([[1.0]], [1.0]).coef_[0]
    joint = Ridge(alpha=4.0, fit_intercept=False).fit([[1.0], [1.0]], [1.0, 1.0]).coef_[0]
    assert (alone, joint) == pytest.approx((1 / 3, 1 / 3))
    assert 0.5 * (joint - 1) ** 2 > (1 / (4 * 2) + 1 / 2**2) * 2 * 0.5 * (alone - 1) ** 2


def test_the_corrected_bound_holds_where_the_printed_one_fails():
    """A third and more of the problems break the print, none the correction, which is nearly reached."""
    found = [theorem.measure(theorem.random_problem(seed)) for seed in range(200)]
    assert sum(one.breaks_printed for one in found) > 50
    assert not any(one.breaks_corrected for one in found)
    assert max(one.risk / one.corrected for one in found) > 0.9


def test_sizes_of_lessons_cannot_be_left_out_of_the_bound():
    """One row that has reached the goal, joined by a hundred that have not: λ/K put right alone, the bound fails."""
    ridge, one, many = 10.0, np.array([6.0]), np.zeros(100)
    lessons = (one, ridge / 2.0), (many, ridge / 2.0), (np.append(one, many), ridge)
    models = (refit(Squared(), np.ones((len(y), 1)), y, weight) for y, weight in lessons)
    first, second, joint = (risk(model, 1.0) for model in models)
    without_sizes = (1.0 / ridge + 0.5) * (first + second)
    corrected = (1.0 / ridge + 0.5) * first + (100.0 / ridge + 0.5) * second
    assert (joint, without_sizes, corrected) == pytest.approx((0.447, 0.3, 5.25), abs=1e-3)

"""Exact teaching with restarts and any budget: exhaustive search, linear programming and scikit-learn's own refits."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge

import superteach as st
from superteach.exceptions import BudgetError
from superteach.goals import PerturbedFit
from superteach_lab.experiments import exhaustive
from tests.coordinator.test_match import LEARNERS
from tests.selection.oracle import can_be_met, gradients_of, margin_of

RIDGE = {"ridge": 0.5, "logistic": 0.1}


def tiny_task(kind: str, width: int, seed: int):
    """Sixteen rows, and the pool's own model moved by its own length as the goal."""
    rng = np.random.default_rng([seed, width])
    X = rng.standard_normal((16, width))
    y = X @ rng.standard_normal(width) + 0.5 * rng.standard_normal(16)
    learner = Ridge(alpha=RIDGE[kind], fit_intercept=False, solver="cholesky")
    if kind == "logistic":
        y = np.where(y + rng.standard_normal(16) > 0.0, 1.0, -1.0)
        learner = LogisticRegression(C=1.0 / RIDGE[kind], fit_intercept=False, solver="newton-cholesky", tol=1e-12)
    truth, noise = learner.fit(X, y).coef_.ravel(), rng.standard_normal(width)
    return X, y, truth + noise * np.linalg.norm(truth) / np.linalg.norm(noise), learner


@cache
def lowest_risk(kind: str, width: int, seed: int) -> float:
    """Of all subsets of a tiny task, however many teachers share its rows."""
    X, y, goal, _ = tiny_task(kind, width, seed)
    subsets = exhaustive.masks(16, None)
    if kind == "logistic":  # a classifier wants both classes
        positive = subsets @ (y > 0.0)
        subsets = subsets[(positive > 0.0) & (positive < subsets.sum(axis=1))]
    return float(exhaustive.risks(kind, X, y, RIDGE[kind], goal, subsets).min())


@pytest.mark.long(every=9)
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("kind", ["ridge", "logistic"])
@pytest.mark.parametrize("width", [2, 3])
def test_tiny_pools_get_the_best_of_all_subsets(kind, width, K):
    """Two pools of 16 rows each: the lowest risk there is, by scikit-learn's own refit."""
    for seed in range(2):
        X, y, goal, learner = tiny_task(kind, width, seed)
        lowest = lowest_risk(kind, width, seed)
        teacher = st.SuperTeacher(learner, goal, budget=(1, 16), measure="coefficients", random_state=seed).fit(
            X, y, np.arange(16) % K
        )
        check_refit(learner, teacher, X, y)
        assert teacher.lesson_.risk == pytest.approx(lowest, rel=1e-4, abs=1e-9)


@pytest.mark.long(every=3)
@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_the_verdict_is_that_of_linear_programming_at_the_edge(kind, pool):
    """Goals a little within and beyond what can be met, along a ray, whose edge HiGHS has found by bisection."""
    data = "squared" if kind == "ridge" else "logistic"
    X, y = pool(data, 1000, 6, 1)
    ray = np.linalg.lstsq(X, y, rcond=None)[0] + np.random.default_rng(1).standard_normal(6)
    owner, size = np.arange(1000) % 5, 30

    def can_meet(length: float) -> bool:
        return can_be_met(gradients_of(data, X, y, length * ray), np.append(length * ray, size))

    inside, outside = 0.0, 0.25
    while can_meet(outside):
        inside, outside = outside, 3.0 * outside
    while outside - inside > 0.02 * outside:
        middle = 0.5 * (inside + outside)
        inside, outside = (middle, outside) if can_meet(middle) else (inside, middle)
    learner = Ridge(fit_intercept=False) if kind == "ridge" else LogisticRegression(fit_intercept=False)
    for length, within in (
        (inside / 2.0, True),
        (inside / 1.1, True),
        (1.1 * outside, False),
        (3.0 * outside, False),
    ):
        lesson = st.SuperTeacher(learner, length * ray, budget=size).fit(X, y, groups=owner).lesson_
        assert (lesson.certificate is None) == within, length / inside
        if not within:
            target = np.append(length * ray, size)
            margin = margin_of(lesson.certificate.direction, gradients_of(data, X, y, length * ray), target)
            assert lesson.certificate.margin == pytest.approx(margin, rel=1e-6)
            assert margin > 0.0
            assert 0.0 <= lesson.lower_bound <= lesson.prediction_distance


def margin_from_rows(kind, X, y, ridge, goal, size, direction) -> float:
    """u'(Λθ*, n) − Σ_j max(0, u'(g_j, 1))."""
    eta = X @ goal
    slope = y * expit(-y * eta) if kind == "logistic" else y - eta
    reach = np.column_stack([slope[:, None] * X, np.ones(len(y))]) @ direction
    return float(direction @ np.append(ridge * goal, size) - np.maximum(reach, 0.0).sum())


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    some.integers(0, 2**32 - 1),
    some.sampled_from(["logistic", "ridge"]),
    some.sampled_from(["count", "range", "fraction", "best"]),
    some.sampled_from([1, 4]),
    some.sampled_from(["together", "alone"]),
    some.sampled_from(["predictions", "coefficients"]),
    some.booleans(),
)
def test_a_certificate_holds_for_the_lesson_it_comes_with(seed, kind, budget, restarts, rounding, measure, repeated):
    """Whatever budget was asked for: the proof is of the lesson's own size, and no subset of that size is exact."""
    rng = np.random.default_rng(seed)
    rows, width, ridge = int(rng.integers(5, 11)), int(rng.integers(1, 4)), float(rng.uniform(0.05, 2.0))
    X = rng.standard_normal((rows, width))
    X = np.column_stack([X, 2.0 * X[:, 0]]) if repeated else X  # a direction that no row sees
    width = X.shape[1]
    y = X @ rng.standard_normal(width) + rng.standard_normal(rows)
    goal = rng.uniform(0.1, 3.0) * rng.standard_normal(width)
    learner = Ridge(alpha=ridge, fit_intercept=False)
    if kind == "logistic":
        y = np.where(y > np.median(y), 1.0, -1.0)
        learner = LogisticRegression(C=1.0 / ridge, fit_intercept=False)
    low, high = sorted(rng.integers(2, rows + 1, 2).tolist())
    asked = {"count": high, "range": (low, high), "fraction": high / rows, "best": "best"}[budget]
    owner = np.arange(rows) % int(rng.integers(1, 4))
    try:
        how = {"restarts": restarts, "rounding": rounding, "measure": measure}
        lesson = st.SuperTeacher(learner, goal, budget=asked, **how).fit(X, y, owner)
    except BudgetError:
        return  # every lesson found had one class
    lesson, chosen = lesson.lesson_, lesson.sample_indices_
    assert len(chosen) == lesson.size
    goal = lesson.goal  # moved along what no row sees
    away = exhaustive.models(kind, X, y, ridge, exhaustive.masks(rows, lesson.size)) - goal
    away = away if measure == "coefficients" else away @ X.T / np.sqrt(rows)
    least = np.linalg.norm(away, axis=1).min()
    assert lesson.distance >= least * (1.0 - 1e-6) - 1e-9
    assert 0.0 <= lesson.lower_bound <= least * (1.0 + 1e-9) + 1e-12
    if lesson.certificate is not None:
        margin = margin_from_rows(kind, X, y, ridge, goal, lesson.size, lesson.certificate.direction)
        assert lesson.certificate.margin == pytest.approx(margin, rel=1e-6, abs=1e-10)  # it is rounded downwards
        assert margin > 0.0
        assert least > 1e-9


def check_refit(learner, teacher, X, y) -> None:
    """scikit-learn's own fit of the rows the teacher names has the model and the risk that the lesson reports."""
    lesson, chosen = teacher.lesson_, teacher.sample_indices_
    assert len(np.unique(chosen)) == lesson.size
    learner.fit(X[chosen], y[chosen])
    model = np.ravel(learner.coef_)
    if learner.fit_intercept:
        model = np.append(model, learner.intercept_)
    assert lesson.model == pytest.approx(model, rel=1e-6, abs=1e-7)
    assert lesson.risk == pytest.approx(np.linalg.norm(model - lesson.goal), rel=1e-3, abs=1e-6)
    assert (
        lesson.distance == pytest.approx(min(point.distance for point in lesson.path))
        or lesson.settings["budget"] == "smallest"
    )


@pytest.mark.long(every=8)
@pytest.mark.parametrize("budget", [20, (10, 30), "best", "smallest"], ids=str)
@pytest.mark.parametrize("name", LEARNERS)
def test_the_rows_named_are_those_of_the_lesson(name, budget, pool):
    """After restarts and a walk over sizes the teachers are back at the choice whose risk is reported."""
    learner, kind = LEARNERS[name]
    rows = 200 if budget == "smallest" else 40  # few rows reach nothing in particular
    X, y = pool(kind, rows, 2, 8)
    owners = {1: None, 3: np.arange(rows) % 3}
    # Each learner meets both numbers of teachers, in turn with the budgets.
    K = 1 if (list(LEARNERS).index(name) + len(str(budget))) % 2 else 3
    teacher = st.SuperTeacher(
        learner, PerturbedFit(1), budget=budget, restarts=2, random_state=3,
        risk_target=0.1 if budget == "smallest" else None,
    ).fit(X, y, groups=owners[K])  # fmt: skip
    check_refit(learner, teacher, X, y)
    if budget == "smallest":
        assert teacher.lesson_.risk <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_the_rows_named_are_those_of_the_lesson_in_tiny_pools(name, pool):
    """The same where one search chooses among all sizes, for a goal within reach and one out of reach."""
    learner, kind = LEARNERS[name]
    X, y = pool(kind, 24, 2, 8)
    width = 2 + learner.fit_intercept
    near, far = PerturbedFit(1), np.full(width, 2.0)
    for K, goal, budget in ((1, near, (4, 20)), (3, near, "best"), (1, far, "best"), (3, far, (4, 20))):
        teacher = st.SuperTeacher(learner, goal, budget=budget, restarts=2)
        check_refit(learner, teacher.fit(X, y, groups=np.arange(24) % K), X, y)


@pytest.mark.slow
def test_no_lesson_comes_nearer_than_the_bound_in_raw_units(pool):
    """Standardised columns, an intercept: the bound is on raw coefficients, and holds for every subset of the size."""
    X, y = pool("squared", 11, 1, 3)
    X = 20.0 * X + 100.0
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    proved = 0
    for seed in range(6):
        goal = np.random.default_rng(seed).standard_normal(2) * [0.5, 30.0]
        teacher = st.SuperTeacher(Ridge(), goal, budget=5, standardize=True, rounding="alone", measure="coefficients")
        lesson = teacher.fit(X, y).lesson_
        assert lesson.size == 5
        lowest = np.inf
        for subset in combinations(range(11), 5):
            refit = Ridge().fit(scaled[list(subset)], y[list(subset)])
            slope = refit.coef_ / X.std(axis=0)
            raw = np.append(slope, refit.intercept_ - slope @ X.mean(axis=0))
            lowest = min(lowest, np.linalg.norm(raw - goal))
        assert 0.0 <= lesson.lower_bound <= lowest * (1.0 + 1e-9)
        assert lesson.risk >= lowest * (1.0 - 1e-6)
        proved += lesson.lower_bound > 0.0
    assert proved


def test_the_ball_of_ridge_without_noise(pool):
    """Targets y = Xw: every model taught lies in the ball with diameter [0, w], and the bound is the way to it at least."""
    X, _ = pool("squared", 12, 2, 4)
    w = np.array([2.0, -1.0])
    for goal in (3.0 * w, np.array([-1.0, -2.0]), np.array([4.0, 3.0])):
        teacher = st.SuperTeacher(Ridge(fit_intercept=False), goal, budget=6, rounding="alone", measure="coefficients")
        lesson = teacher.fit(X, X @ w).lesson_
        risks = exhaustive.risks("ridge", X, X @ w, 1.0, goal, exhaustive.masks(12, 6))
        outside = np.linalg.norm(goal - w / 2.0) - np.linalg.norm(w) / 2.0
        assert lesson.certificate is not None
        assert outside * (1.0 - 1e-9) <= lesson.lower_bound <= risks.min() * (1.0 + 1e-9)


@pytest.mark.slow
def test_a_pool_is_walked_size_by_size(pool):
    """ "best" looks at sizes one after another, and ends on the lowest risk of them."""
    X, y = pool("logistic", 1_200, 2, 3)
    learner = LEARNERS["logistic"][0]
    lesson = st.SuperTeacher(learner, PerturbedFit(1), budget="best").fit(X, y).lesson_
    alone = {
        point.size: st.SuperTeacher(learner, PerturbedFit(1), budget=point.size).fit(X, y).lesson_.risk
        for point in lesson.path
    }
    assert list(alone) == [6, 12, 24, 48, 96, 192, 384]  # 0.5 to 32 % of 1,200
    # Fits that start elsewhere end apart in the last digits.
    assert lesson.risk == pytest.approx(min(alone.values()), rel=1e-6, abs=1e-7)


@pytest.mark.slow
def test_best_covers_all_sizes_of_a_small_pool(pool):
    """ "best" ends no farther away than the sizes of its walk would, each by itself."""
    X, y = pool("logistic", 60, 2, 3)
    learner = LEARNERS["logistic"][0]
    lesson = st.SuperTeacher(learner, PerturbedFit(1), budget="best").fit(X, y).lesson_
    alone = [st.SuperTeacher(learner, PerturbedFit(1), budget=size).fit(X, y).lesson_.risk for size in (3, 5, 10, 19)]
    assert lesson.risk <= 2.0 * min(alone)


@pytest.mark.long(every=5)
@pytest.mark.parametrize("rows", [30, 500])
@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_restarts_do_not_end_much_farther_away(kind, rows, pool):
    """The best of all searches is chosen by the refitted model."""
    learner, data = LEARNERS[kind]
    for seed in range(3):
        X, y = pool(data, rows, 3, seed)
        once, often = (
            st.SuperTeacher(learner, PerturbedFit(100 + seed), budget=6, restarts=restarts).fit(X, y)
            for restarts in (1, 5)
        )
        # Rows are exchanged afterwards, and exchanges from a nearer start may end farther away.
        assert often.lesson_.distance <= 2.0 * once.lesson_.distance
        refit = clone(learner).fit(X[often.sample_indices_], y[often.sample_indices_]).coef_.ravel()
        assert np.linalg.norm(refit - often.lesson_.goal) == pytest.approx(often.lesson_.risk, rel=1e-5)

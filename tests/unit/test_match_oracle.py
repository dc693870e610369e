"""Exact teaching with restarts and any budget: exhaustive search, linear programming and scikit-learn's own refits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge

import superteach as st
from experiments import exhaustive, match_oracle
from superteach.errors import BudgetError
from superteach.goals import PerturbedFit
from tests.unit.test_match import LEARNERS


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
@pytest.mark.parametrize("width", [2, 3])
def test_restarts_come_close_to_the_best_of_all_subsets(kind, width):
    """Two pools of 16 rows each and 40 restarts: none ends below the lowest risk, both within twice of it."""
    ratios = []
    for seed in range(2):
        record = match_oracle.search(kind, width, "moved", seed, 1, restarts=40)
        assert record["said"] == pytest.approx(record["risk"], rel=1e-6, abs=1e-9)
        assert record["risk"] >= record["lowest"] * (1.0 - 1e-6) - 1e-9
        ratios.append(match_oracle.ratio_of(record))
    assert max(ratios) <= match_oracle.CLOSE


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_the_verdict_is_that_of_linear_programming_at_the_edge(kind):
    """Goals a little within and beyond what can be balanced; within, the cold choice is HiGHS's own vertex."""
    edge = match_oracle.Edge(kind, 1, rows=1000)
    found = edge.ask()["goals"]
    assert [verdict["certified"] for verdict in found] == [False, False, True, True]
    assert all(verdict["certified"] != verdict["balances"] for verdict in found)
    for verdict in found[: match_oracle.SHARE]:
        assert verdict["fractional"] <= match_oracle.WIDTH + 1
        assert verdict["apart"] < 1e-3


def margin_from_rows(kind, X, y, ridge, goal, size, direction) -> float:
    """u'(Λθ*, n) − Σ_j max(0, u'(g_j, 1))."""
    eta = X @ goal
    slope = y * expit(-y * eta) if kind == "logistic" else y - eta
    reach = np.column_stack([slope[:, None] * X, np.ones(len(y))]) @ direction
    return float(direction @ np.append(ridge * goal, size) - np.maximum(reach, 0.0).sum())


@settings(max_examples=30, deadline=None)
@given(
    some.integers(0, 2**32 - 1),
    some.sampled_from(["logistic", "ridge"]),
    some.sampled_from(["count", "range", "fraction", "best"]),
    some.sampled_from([1, 4]),
)
def test_a_certificate_holds_for_the_lesson_it_comes_with(seed, kind, budget, restarts):
    """Whatever budget was asked for: the proof is of the lesson's own size, and no subset of that size is exact."""
    rng = np.random.default_rng(seed)
    rows, width, ridge = int(rng.integers(5, 11)), int(rng.integers(1, 4)), float(rng.uniform(0.05, 2.0))
    X = rng.standard_normal((rows, width))
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
        lesson = st.SuperTeacher(learner, goal, budget=asked, least_change=1, restarts=restarts).fit(
            X, y, owner
        )
    except BudgetError:
        return  # every lesson found had one class
    lesson, chosen = lesson.lesson_, lesson.sample_indices_
    assert len(chosen) == lesson.size
    risks = exhaustive.risks(kind, X, y, ridge, goal, exhaustive.masks(rows, lesson.size))
    assert lesson.risk >= risks.min() * (1.0 - 1e-6) - 1e-9
    assert lesson.lower_bound <= lesson.risk
    if lesson.certificate is not None:
        margin = margin_from_rows(kind, X, y, ridge, goal, lesson.size, lesson.certificate.direction)
        assert lesson.certificate.margin == pytest.approx(margin, rel=1e-6)
        assert margin > 0.0
        assert risks.min() > 1e-9


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
        lesson.risk == pytest.approx(min(point.risk for point in lesson.path))
        or lesson.settings["budget"] == "smallest"
    )


@pytest.mark.parametrize("budget", [20, (10, 30), "best", "smallest"], ids=str)
@pytest.mark.parametrize("name", LEARNERS)
def test_the_rows_named_are_those_of_the_lesson(name, budget, pool):
    """After restarts and a walk over sizes the teachers are back at the choice whose risk is reported."""
    learner, kind = LEARNERS[name]
    rows = 200 if budget == "smallest" else 80  # few rows reach nothing in particular
    X, y = pool(kind, rows, 2, 8)
    owners = {1: None, 3: np.arange(rows) % 3}
    # Each learner meets both numbers of teachers, in turn with the budgets.
    K = 1 if (list(LEARNERS).index(name) + len(str(budget))) % 2 else 3
    teacher = st.SuperTeacher(
        learner, PerturbedFit(1), budget=budget, least_change=1, restarts=3, random_state=3,
        risk_target=0.1 if budget == "smallest" else None,
    ).fit(X, y, groups=owners[K])  # fmt: skip
    check_refit(learner, teacher, X, y)
    if budget == "smallest":
        assert teacher.lesson_.risk <= 0.1


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("name", LEARNERS)
def test_the_rows_named_are_those_of_the_lesson_in_tiny_pools(name, K, pool):
    """The same where one search chooses among all sizes, for a goal within reach and one out of reach."""
    learner, kind = LEARNERS[name]
    X, y = pool(kind, 24, 2, 8)
    width = 2 + learner.fit_intercept
    for goal in (PerturbedFit(1), np.full(width, 2.0)):
        for budget in ((4, 20), "best"):
            teacher = st.SuperTeacher(learner, goal, budget=budget, least_change=1, restarts=3)
            check_refit(learner, teacher.fit(X, y, groups=np.arange(24) % K), X, y)


def test_the_order_of_the_teachers_changes_nothing_but_ties(pool):
    """Rows and costs are drawn by row, not by teacher: the fractional choice is the same in any order."""
    X, y = pool("squared", 600, 3, 2)
    owner = np.arange(600) % 3
    lessons = [
        st.SuperTeacher(Ridge(fit_intercept=False), PerturbedFit(2), budget=60, random_state=1).fit(
            X, y, groups=np.array(order)[owner]
        )
        for order in ([0, 1, 2], [2, 0, 1])
    ]
    first, second = (lesson.lesson_ for lesson in lessons)
    # The predicted risk right after rounding, before anybody's turn.
    assert first.objective[0] == pytest.approx(second.objective[0], rel=1e-6)
    assert max(first.risk, second.risk) <= 0.01 * first.pool_risk
    assert first.pool_risk == pytest.approx(second.pool_risk, rel=1e-9)


def test_a_tiny_pool_is_walked_size_by_size(pool):
    """ "best" looks at every size of a tiny pool too, and ends on the lowest risk of them."""
    X, y = pool("logistic", 60, 2, 3)
    teacher = st.SuperTeacher(LEARNERS["logistic"][0], PerturbedFit(1), budget="best").fit(X, y)
    lesson = teacher.lesson_
    alone = {
        point.size: st.SuperTeacher(LEARNERS["logistic"][0], PerturbedFit(1), budget=point.size)
        .fit(X, y)
        .lesson_.risk
        for point in lesson.path
    }
    assert len(alone) == 4  # 3 rows at least, then 5, 10 and 19: 8, 16 and 32 % of 60
    assert lesson.risk == pytest.approx(min(alone.values()), rel=1e-6)


@pytest.mark.parametrize("rows", [30, 200])
@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_restarts_never_end_farther_away(kind, rows, pool):
    """The best of all searches is chosen by the refitted model: it cannot be worse than the first one's."""
    learner, data = LEARNERS[kind]
    for seed in range(3):
        X, y = pool(data, rows, 3, seed)
        once, often = (
            st.SuperTeacher(learner, PerturbedFit(100 + seed), budget=6, restarts=restarts).fit(X, y)
            for restarts in (1, 5)
        )
        assert often.lesson_.risk <= once.lesson_.risk * (1.0 + 1e-9)
        refit = clone(learner).fit(X[often.sample_indices_], y[often.sample_indices_]).coef_.ravel()
        assert np.linalg.norm(refit - often.lesson_.goal) == pytest.approx(often.lesson_.risk, rel=1e-5)

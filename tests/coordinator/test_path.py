"""Budgets of every kind: exact sizes, the lowest risk of a range, and the smallest lesson for a target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import superteach as st
from superteach.coordinator.methods import find
from superteach.coordinator.methods.base import PATH_FRACTIONS
from superteach.exceptions import BudgetError, SettingError
from superteach.goals import PerturbedFit
from tests.selection.oracle import can_be_met, gradients_of

ROWS = 800
LARGE = 1_200
"""Rows of a pool that `match` does not look at row by row: there it tries the sizes asked for, and no others."""
methods = pytest.mark.parametrize("method", ["match", "dual", "random"])


def taught(
    pool, budget: Any, method: str = "match", K: int = 3, goal: Any = None, rows: int = ROWS, **options
) -> tuple[Any, ...]:
    """A lesson for ridge regression, with the rows it was chosen from."""
    X, y = pool("squared", rows, 4, 8)
    goal = PerturbedFit(3) if goal is None else goal
    teacher = st.SuperTeacher(Ridge(fit_intercept=False), goal, budget=budget, method=method, **options)
    return teacher.fit(X, y, groups=np.arange(rows) % K), X, y


def check_rows(teacher: st.SuperTeacher, X: np.ndarray, y: np.ndarray) -> None:
    """As many distinct rows as the lesson says, and scikit-learn's fit on them has the lesson's risk."""
    chosen, lesson = teacher.sample_indices_, teacher.lesson_
    assert len(chosen) == len(np.unique(chosen)) == lesson.size
    refit = Ridge(fit_intercept=False).fit(X[chosen], y[chosen]).coef_
    assert lesson.risk == pytest.approx(np.linalg.norm(refit - lesson.goal), rel=1e-6, abs=1e-9)


@pytest.mark.long(every=6)
@methods
@pytest.mark.parametrize("K", [1, 7])
@pytest.mark.parametrize("count", [1, 5, 33, 400, ROWS - 1, ROWS])
def test_a_count_is_kept_exactly(pool, count, K, method):
    """From one row to all of them."""
    teacher, X, y = taught(pool, count, method, K)
    assert teacher.lesson_.size == count
    check_rows(teacher, X, y)


@methods
@pytest.mark.parametrize(("fraction", "count"), [(0.0401, 32), (0.25, 200), (1e-9, 1), (1.0, ROWS)])
def test_a_fraction_is_a_count(pool, fraction, count, method):
    """Rounded to whole rows, one at least."""
    teacher, X, y = taught(pool, fraction, method)
    assert teacher.lesson_.size == count
    check_rows(teacher, X, y)


@methods
@pytest.mark.parametrize(("budget", "low", "high"), [((20, 60), 20, 60), ((0.05, 0.1), 60, 120), ((9, 9), 9, 9)])
def test_a_range_ends_on_its_nearest_size(pool, budget, low, high, method):
    """Both ends are looked at, no size outside, and the rows at the end are those of the best size."""
    teacher, X, y = taught(pool, budget, method, rows=LARGE)
    lesson = teacher.lesson_
    sizes = [point.size for point in lesson.path]
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == (low, high)
    best = min(lesson.path, key=lambda point: point.distance)
    assert lesson.size == best.size
    assert lesson.risk == pytest.approx(best.risk)
    assert lesson.prediction_distance == pytest.approx(best.distance)
    check_rows(teacher, X, y)


@methods
def test_best_looks_at_every_fraction(pool, method):
    """Every size of the method's list is in the path, and the lowest risk is taken."""
    teacher, X, y = taught(pool, "best", method, rows=LARGE)
    lesson = teacher.lesson_
    wanted = sorted({max(5, round(fraction * LARGE)) for fraction in find(method).fractions})
    assert [point.size for point in lesson.path] == wanted
    assert all(point.fraction == point.size / LARGE for point in lesson.path)
    assert lesson.risk == min(point.risk for point in lesson.path)
    check_rows(teacher, X, y)


@pytest.mark.long(every=4)
@pytest.mark.parametrize(("method", "target"), [("match", 0.05), ("match", 0.3), ("dual", 2.0), ("random", 2.2)])
def test_smallest_reaches_its_target(pool, method, target):
    """The target is met, and the next smaller size that was tried misses it."""
    teacher, X, y = taught(pool, "smallest", method, risk_target=target)
    lesson = teacher.lesson_
    assert lesson.risk <= target
    check_rows(teacher, X, y)
    smaller = [point for point in lesson.path if point.size < lesson.size]
    assert all(point.risk > target for point in smaller[-1:])
    assert not smaller or lesson.size - smaller[-1].size <= max(1, lesson.size // 20)
    tried = {point.size: point.risk for point in lesson.path}
    assert tried[lesson.size] == pytest.approx(lesson.risk)


def far_goal(pool, factor: float) -> np.ndarray:
    """A multiple of the rows' own coefficients, which ridge regression on a few rows cannot reach."""
    X, y = pool("squared", ROWS, 4, 8)
    return factor * np.linalg.lstsq(X, y, rcond=None)[0]


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "target"), [(3.0, 1.97), (6.0, 2.11), (6.0, 3.52), (12.0, 10.83)])
def test_smallest_for_a_goal_out_of_reach(pool, factor, target):
    """Where the goal is certified to be out of reach but the target is not, the chosen rows still meet the target."""
    goal = far_goal(pool, factor)
    teacher, X, y = taught(pool, "smallest", goal=goal, risk_target=target)
    lesson = teacher.lesson_
    within = can_be_met(gradients_of("squared", X, y, goal), np.append(goal, lesson.size))
    assert (lesson.certificate is None) == within
    assert not within or factor < 6.0
    assert lesson.lower_bound <= lesson.prediction_distance
    assert lesson.risk <= target
    check_rows(teacher, X, y)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [40, (20, 60), "best"], ids=repr)
def test_budgets_for_a_goal_out_of_reach(pool, budget):
    """Every kind of budget keeps its bounds, and the rows at the end teach the model of the lesson."""
    teacher, X, y = taught(pool, budget, goal=far_goal(pool, 12.0))
    lesson = teacher.lesson_
    assert lesson.distance == pytest.approx(min(point.distance for point in lesson.path))
    low, high = {40: (40, 40), (20, 60): (20, 60), "best": (5, ROWS)}[budget]
    assert all(low <= point.size <= high for point in lesson.path)
    check_rows(teacher, X, y)


@pytest.mark.slow
def test_smallest_takes_fewer_rows_for_an_easier_target(pool):
    """A target ten times easier never needs more rows here."""
    sizes = [taught(pool, "smallest", risk_target=target)[0].lesson_.size for target in (0.02, 0.2)]
    assert sizes[1] <= sizes[0]


def test_a_target_nobody_reaches(pool):
    """Doubling ends with all rows, and the message names the nearest size, which a run of its own confirms."""
    with pytest.raises(BudgetError, match="no lesson reaches risk_target=1e-09") as caught:
        taught(pool, "smallest", "random", risk_target=1e-9)
    words = str(caught.value).split()
    size, risk = int(words[words.index("has") + 1]), float(words[-1])
    assert taught(pool, size, "random")[0].lesson_.risk == pytest.approx(risk, rel=1e-3)


def test_smallest_needs_a_target(pool):
    """Without a target nothing says what is small enough."""
    with pytest.raises(SettingError, match="risk_target="):
        taught(pool, "smallest")


@pytest.mark.parametrize(
    "budget",
    [
        0, -3, ROWS + 1, 0.0, 1.5, float("nan"), True, None, "least", (), (5,), (5, 9, 12), (9, 5), (0.2, 0.1),
        (5, 0.5), (0.1, 30), ("best", 5), (0, 5), (5, ROWS + 1), ((5, 9), 12),
    ],
    ids=repr,
)  # fmt: skip
def test_bad_budgets(pool, budget):
    """Refused with the budget in the message."""
    with pytest.raises(BudgetError, match="budget="):
        taught(pool, budget)


@pytest.mark.parametrize("target", [-1.0, float("nan"), "small"])
def test_bad_targets(pool, target):
    """A risk is a number of at least 0."""
    with pytest.raises(SettingError, match="risk_target="):
        taught(pool, 30, risk_target=target)


def test_match_stops_at_its_target(pool):
    """Good enough is good enough: no other search is tried once the risk is there."""
    easy, hard = (taught(pool, 40, risk_target=target, restarts=4)[0].lesson_ for target in (0.2, 0.0))
    assert easy.risk <= 0.2
    assert hard.risk <= easy.risk
    searches = [sum(entry.query == "Candidates" for entry in lesson.ledger) for lesson in (easy, hard)]
    assert searches == [1, 4]


@pytest.mark.slow
def test_one_class_alone_is_refused_or_passed_over(pool):
    """A lesson of one row has one class: refused for a count, passed over in a range and on the way to "smallest"."""
    X, y = pool("logistic", 80, 3, 1)
    learner = LogisticRegression(fit_intercept=False)
    with pytest.raises(BudgetError, match="needs a row of each of its 2 classes: give at least 2"):
        st.SuperTeacher(learner, PerturbedFit(0), budget=1, method="match").fit(X, y)
    ranged = st.SuperTeacher(learner, PerturbedFit(0), budget=(1, 40), method="match").fit(X, y)
    assert 1 not in [point.size for point in ranged.lesson_.path]
    assert len(ranged.sample_indices_) == ranged.lesson_.size
    least = st.SuperTeacher(learner, PerturbedFit(0), budget="smallest", risk_target=0.5, method="match").fit(X, y)
    assert least.lesson_.risk <= 0.5
    assert len(least.sample_indices_) == least.lesson_.size


def test_match_walks_fewer_sizes_than_the_others():
    """Each size costs it a whole search."""
    assert len(find("match").fractions) < len(find("dual").fractions) == len(PATH_FRACTIONS)


@pytest.mark.parametrize("intercept", [-30.0, -300.0])
def test_a_goal_that_puts_all_rows_into_one_class_is_taught_by_rows_of_both(intercept):
    """A classifier needs one row of the other class at least; the lesson predicts as the goal does nearly everywhere."""
    draw = np.random.default_rng(0)
    X = draw.standard_normal((1_500, 3))
    y = (X[:, 0] + draw.standard_normal(1_500) > 0.0).astype(int)
    teacher = st.SuperTeacher(LogisticRegression(), [1.0, 0.0, 0.0, intercept], budget=20).fit(X, y)
    assert len(np.unique(teacher.sample_indices_)) == teacher.lesson_.size == 20
    assert set(y[teacher.sample_indices_]) == {0, 1}
    assert teacher.lesson_.agreement > 0.99

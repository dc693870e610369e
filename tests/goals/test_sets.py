"""Goals that are sets: the nearest point against CVXPY, lessons that end in the set, sets that are empty."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from superteach import SuperTeacher
from superteach.datasets import make_classification_pool
from superteach.exceptions import GoalError
from superteach.goals import Within
from tests.oracles import TIGHT, solve_tightly

X, Y, OWNER = make_classification_pool(rows=1500, teachers=3)
X = X[:, :5] * [1.0, 10.0, 0.1, 1.0, 1.0]
FULL = LogisticRegression(solver="newton-cholesky", **TIGHT).fit(X, Y)
POOL = np.append(FULL.coef_, FULL.intercept_)


def away(point, length=np.linalg.norm):
    """How far a point is from the pool's model, in its curvature: the length that is least at the nearest point."""
    design = np.column_stack([X, np.ones(len(X))])
    share = 1.0 / (1.0 + np.exp(-design @ POOL))
    bent = (design * (share * (1.0 - share))[:, None]).T @ design + np.diag([1.0] * 5 + [0.0])
    return length(np.linalg.cholesky(bent / len(X)).T @ (point - POOL))


def nearest(lines=(), near=None):
    """The same point by CVXPY: the pool's curvature by hand, constraints as given; and before it how far away it is."""
    point = cp.Variable(6)
    held = [line(point) for line in lines]
    if near is not None:
        small = np.linalg.qr(np.column_stack([X, np.ones(len(X))]) / np.sqrt(len(X)), mode="r")
        held.append(cp.norm(small @ (point - near[0])) <= near[1])
    return solve_tightly(cp.Problem(cp.Minimize(away(point, cp.norm)), held)), point.value


CASES = {
    "a sign": (Within(at_most={0: 0.5}), [lambda p: p[0] <= 0.5], None),
    "a sign that turns": (Within(at_least={0: 1.0}), [lambda p: p[0] >= 1.0], None),
    "equal": (Within(equal=[(0, 3, 4)]), [lambda p: p[0] == p[3], lambda p: p[0] == p[4]], None),
    "a box": (
        Within(at_most={0: -1.0, 3: 0.1, "intercept": 0.0}, at_least={1: 0.02}),
        [lambda p: p[0] <= -1.0, lambda p: p[3] <= 0.1, lambda p: p[5] <= 0.0, lambda p: p[1] >= 0.02],
        None,
    ),
    "near nothing": (Within(near=(np.zeros(6), 0.4)), [], (np.zeros(6), 0.4)),
    "near and bounded": (Within(at_least={0: 1.0}, near=(FULL, 1.6)), [lambda p: p[0] >= 1.0], (POOL, 1.6)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("standardize", [False, True])
def test_the_nearest_point_of_a_set(case, standardize):
    """CVXPY finds the same point; where columns are standardised the penalty is another, so only the set is compared."""
    goal, lines, near = CASES[case]
    lesson = (
        SuperTeacher(LogisticRegression(), goal, budget=100, standardize=standardize).fit(X, Y, groups=OWNER).lesson_
    )
    assert goal.holds(lesson.goal)
    if not standardize:
        least, point = nearest(lines, near)
        assert away(lesson.goal) == pytest.approx(least, rel=1e-7, abs=1e-6)
        if near is None:  # on a sphere a conic solver knows the length to more digits than the point
            np.testing.assert_allclose(lesson.goal, point, atol=1e-5)
    elif near is not None:
        design = np.column_stack([X, np.ones(len(X))])
        assert np.sqrt(np.mean(np.square(design @ (lesson.goal - near[0])))) <= near[1] * (1 + 1e-6)
    assert lesson.risk <= 0.02 * np.linalg.norm(lesson.goal)


def test_a_set_that_holds_the_pool_model_changes_nothing():
    """Its nearest point is the pool's model itself."""
    lesson = SuperTeacher(LogisticRegression(), Within(at_most={0: 100.0}), budget=100).fit(X, Y).lesson_
    assert np.allclose(lesson.goal, POOL, atol=1e-5)


@pytest.mark.slow
def test_where_the_nearest_point_cannot_be_taught_another_one_is_aimed_at():
    """A far half-space: the proof stands beside the lesson, and no worse point than the first is kept."""
    goal = Within(at_least={0: 30.0})
    lesson = SuperTeacher(LogisticRegression(), goal, budget=100).fit(X, Y).lesson_
    first = SuperTeacher(LogisticRegression(), nearest([lambda p: p[0] >= 30.0])[1], budget=100).fit(X, Y).lesson_
    assert lesson.certificate is not None
    assert goal.holds(lesson.goal)
    assert 30.0 - lesson.model[0] <= lesson.risk * (1.0 + 1e-9)
    assert lesson.distance < 1.01 * first.distance


def test_regressions_have_sets_too():
    """Equal coefficients of a ridge regression."""
    target = X @ [1.0, 0.2, 3.0, 0.5, 0.0] + np.random.default_rng(0).standard_normal(len(X))
    lesson = SuperTeacher(Ridge(), Within(equal=[(0, 3)]), budget=200).fit(X, target).lesson_
    assert abs(lesson.model[0] - lesson.model[3]) < 1e-2


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        (lambda: Within(), "holds every model"),
        (lambda: Within(at_most={0: "x"}), "bounds column 0 by 'x'"),
        (lambda: Within(equal=[(0,)]), "two or more"),
        (lambda: Within(near=FULL), "a pair"),
        (lambda: Within(near=(FULL, -1.0)), "positive"),
        (lambda: Within(at_most={"age": 0.0}), "'age'"),
        (lambda: Within(near=([1.0], 1.0)), "1 entries"),
        (lambda: Within(at_most={0: 0.0}, at_least={0: 1.0}), "column 0 is bounded by at least 1 and at most 0"),
        (lambda: Within(at_most={0: 0.0}, at_least={1: 1.0}, equal=[(0, 1)]), "contradict"),
        (lambda: Within(at_least={0: 9.0}, near=(FULL, 0.1)), "is empty"),
    ],
)
def test_sets_that_cannot_be(goal, said):
    with pytest.raises(GoalError, match=said):
        SuperTeacher(LogisticRegression(), goal(), budget=100).fit(X, Y)


def reachable(rows, target, ridge, model, size, loss):
    """By CVXPY: how far `size` fractional rows are from balancing a model, in units of the goal's own pull."""
    design = np.column_stack([rows, np.ones(len(rows))])
    at = design @ model
    slope = target - at if loss == "squared" else target / (1.0 + np.exp(target * at))
    share = cp.Variable(len(rows))
    left = (slope[:, None] * design).T @ share - ridge * np.append(model[:-1], 0.0)
    held = [share >= 0.0, share <= 1.0, cp.sum(share) == size]
    return solve_tightly(cp.Problem(cp.Minimize(cp.norm(left)), held))


COVERED = {
    "a ball": Within(near=(np.array([2.0, 2.0, 0.0]), 0.3)),
    "a ball and a line": Within(near=(np.array([2.0, 2.0, 0.0]), 0.6), equal=[(0, 1)]),
    "a half-space": Within(at_least={0: 3.0}),
    "a far half-space": Within(at_least={0: 12.0}),
    "a corner": Within(at_least={0: 2.0}, at_most={1: -1.0}),
}


@pytest.mark.parametrize("kind", ["logistic", "squared"])
@pytest.mark.parametrize("case", COVERED)
def test_no_model_of_the_part_of_a_set_that_is_proved_can_be_balanced(case, kind):
    """CVXPY tries to balance models drawn from the set, near the goal most of all, with fractional rows: it cannot."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((60, 2))
    noise = rng.standard_normal(60)
    target = rows @ [1.0, 0.5] + noise if kind == "squared" else np.where(rows @ [1.0, 0.5] + noise > 0.0, 1.0, -1.0)
    learner = Ridge(1.0) if kind == "squared" else LogisticRegression()
    goal = COVERED[case]
    lesson = SuperTeacher(learner, goal, budget=8, rounding="alone").fit(rows, target).lesson_
    proof = lesson.certificate
    assert proof is not None
    assert proof.whole or proof.within > 0.0
    design = np.column_stack([rows, np.ones(60)])
    tried = 0
    for step in np.geomspace(1e-3, 10.0, 60):
        model = lesson.goal + step * rng.standard_normal(3)
        away = np.sqrt(np.mean(np.square(design @ (model - lesson.goal))))
        near = goal.near is None or np.sqrt(np.mean(np.square(design @ (model - goal.near[0])))) <= goal.near[1]
        if goal.equal:
            model[1] = model[0]
        if goal.holds(model, 0.0) and near and (proof.whole or away <= proof.within):
            tried += 1
            assert reachable(rows, target, 1.0, model, lesson.size, kind) > 1e-6
    assert tried >= 3


@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_no_lesson_comes_nearer_to_a_whole_set_than_is_proved(kind):
    """Random lessons of the size, and greedy ones towards the set: each is at least as far away as the bound."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((60, 2))
    target = rows @ [1.0, 0.5] + rng.standard_normal(60)
    target = target if kind == "squared" else np.where(target > 0.0, 1.0, -1.0)
    learner = Ridge(1.0) if kind == "squared" else LogisticRegression(tol=1e-10)
    lesson = SuperTeacher(learner, Within(at_least={0: 14.0}), budget=8).fit(rows, target).lesson_
    assert lesson.certificate.whole
    assert lesson.lower_bound > 1.0
    for _ in range(200):
        some = rng.choice(60, 8, replace=False)
        if kind == "squared" or len(set(target[some])) == 2:
            assert 14.0 - learner.fit(rows[some], target[some]).coef_.ravel()[0] >= lesson.lower_bound


def test_a_set_beside_what_can_be_taught_is_not_proved_whole():
    """Half of this half-space can be taught with more rows; a proof for few rows covers what is near the goal alone."""
    lesson = SuperTeacher(LogisticRegression(), Within(at_least={0: 3.0}), budget=20).fit(X, Y).lesson_
    assert not lesson.certificate.whole
    assert "the set's models" in lesson.verdict


def test_figures_of_the_page_on_goals():
    """What docs/how-to/goals.md says of sets, printed with -s."""
    for goal in (Within(at_least={0: 3.0}), Within(at_least={0: 8.0}), Within(near=(4.0 * np.eye(6)[:5].sum(0), 0.5))):
        pool, labels, _ = make_classification_pool(rows=1500, teachers=3)
        lesson = SuperTeacher(LogisticRegression(), goal, budget=20).fit(pool[:, :5], labels).lesson_
        print(lesson.verdict)
        assert lesson.certificate.whole or lesson.certificate.within > 0.05
        assert lesson.lower_bound <= lesson.prediction_distance

"""Every contestant against something that knows the answer by other means."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from superteach.learner import Learner
from superteach.losses import LOSSES, Logistic, Squared
from superteach_lab.compare.referee import Referee
from superteach_lab.compare.sources import Synthetic
from superteach_lab.compare.task import GOAL, Proven, Task
from superteach_lab.rivals import (
    ALL,
    bit_flip,
    by_name,
    facility_location,
    gradient_match,
    herding,
    k_center,
    leverage,
    many,
)

QUICK = [one for one in ALL if not one.slow]
IDS = [one.name for one in QUICK]
FEW = bit_flip.Effort(starts=4, finals=1, searches=2, inside=12, outside=40)


@pytest.fixture(autouse=True)
def one_thread():
    """As in a contestant's own process."""
    with threadpool_limits(1):
        yield


def make_task(kind="squared", rows=120, features=3, seed=0, intercept="none", goal=True):
    draw = np.random.default_rng(seed)
    X = draw.standard_normal((rows, features))
    score = X @ draw.standard_normal(features) + draw.standard_normal(rows)
    y = np.where(score > 0.0, 1.0, -1.0) if kind == "logistic" else score
    wanted = 0.5 * draw.standard_normal(features + (intercept != "none"))
    learner = Learner(LOSSES[kind](), 1.0, intercept)
    return Task(X, y, np.arange(rows) % 3, learner, wanted if goal else None, 60.0)


def chosen(one, task, size, seed):
    """The rows, with a proof or without."""
    found = one.choose(task, size, seed)
    return found.rows if isinstance(found, Proven) else found


@pytest.mark.parametrize("kind", ["logistic", "squared"])
@pytest.mark.parametrize("one", QUICK, ids=IDS)
def test_the_asked_number_of_distinct_rows_and_the_same_seed_the_same_rows(one, kind):
    task = make_task(kind, rows=30)
    size = task.rows if one.whole else 10
    if one.refuses(task, size):
        pytest.skip(one.refuses(task, size))
    rows = chosen(one, task, size, 3)
    assert len(rows) == size
    assert len(np.unique(rows)) == size
    assert np.array_equal(rows, chosen(one, task, size, 3))


@pytest.mark.parametrize("one", [one for one in QUICK if GOAL not in one.needs], ids=lambda one: one.name)
def test_who_does_not_declare_the_goal_works_without_it(one):
    assert len(one.choose(make_task("logistic", rows=40, goal=False), 40 if one.whole else 10, 0)) in (10, 40)


@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_nobody_beats_exhaustive_search(kind):
    """Over all 924 lessons of 6 of 12 rows; the referee's risk is at or above the least of them."""
    task = make_task(kind, rows=12, features=2, seed=1)
    referee = Referee(task.X, task.y, task.owner, task.learner, task.goal)
    risks = {rows: _risk(task, rows) for rows in combinations(range(12), 6)}
    optimum = min(risks.values())
    for one in QUICK:
        if one.whole or one.refuses(task, 6):
            continue
        rows = np.sort(chosen(one, task, 6, 0))
        if kind == "logistic" and abs(task.y[rows].sum()) == 6:
            continue
        score = referee.score(rows)
        assert score.risk >= optimum - 1e-9, one.name
        assert score.risk == pytest.approx(risks[tuple(rows)], rel=1e-5, abs=1e-7)


def _risk(task, rows):
    """Closed form, or scikit-learn; one class alone has no model."""
    X, y = task.X[list(rows)], task.y[list(rows)]
    if isinstance(task.learner.loss, Squared):
        return np.linalg.norm(np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ y) - task.goal)
    if abs(y.sum()) == len(y):
        return np.inf
    model = LogisticRegression(fit_intercept=False, solver="newton-cholesky", tol=1e-10).fit(X, y)
    return np.linalg.norm(model.coef_[0] - task.goal)


def test_bit_flip_finds_the_best_linearised_lesson_of_small_pools():
    """Among all lessons by brute force, in at least 9 of 10 pools; never better than the best."""
    hits = 0
    for seed in range(10):
        task = make_task("squared", rows=14, features=2, seed=seed)
        land = bit_flip.Landscape(task, 5)
        best = min(land.risk(np.isin(np.arange(14), rows)) for rows in combinations(range(14), 5))
        found = land.risk(np.isin(np.arange(14), bit_flip.search(task, 5, seed, FEW)))
        assert found >= best - 1e-12
        hits += found <= 1.0001 * best
    assert hits >= 9


@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_the_landscape_predicts_the_risk_where_it_is_small(kind):
    """‖e‖ against the refit, for a lesson that nearly teaches the goal."""
    task = make_task(kind, rows=300)
    rows = bit_flip.search(task, 60, 0, FEW)
    predicted = bit_flip.Landscape(task, 60).risk(np.isin(np.arange(300), rows))
    assert predicted < 0.02
    assert predicted == pytest.approx(np.linalg.norm(task.fit(rows) - task.goal), rel=0.1)


def test_a_descent_ends_where_no_swap_helps():
    task = make_task("squared", rows=40, seed=2)
    land = bit_flip.Landscape(task, 10)
    mask = np.arange(40) < 10
    shifts, residual = land.linearise(mask)
    start = np.linalg.norm(residual)
    bit_flip._swap(shifts, mask, residual, np.inf)
    left = residual + shifts[mask].sum(axis=0) - shifts[:10].sum(axis=0)
    assert mask.sum() == 10
    assert np.linalg.norm(left) < 0.5 * start
    for out in np.flatnonzero(mask):
        for new in np.flatnonzero(~mask):
            after = np.linalg.norm(left - shifts[out] + shifts[new])
            assert after**2 >= (1.0 - 1.1e-4) * np.linalg.norm(left) ** 2


def test_the_best_pair_is_the_best_of_all_pairs():
    draw = np.random.default_rng(3)
    shifts, residual, mask = draw.standard_normal((14, 3)), draw.standard_normal(3), np.arange(14) < 6
    effort = bit_flip.Effort(1, 1, 1, 6, 8)
    leave, enter = bit_flip.best_pair(shifts, mask, residual, effort, draw)
    found = np.linalg.norm(residual + shifts[enter].sum(axis=0) - shifts[leave].sum(axis=0))
    everything = [
        np.linalg.norm(residual + shifts[list(new)].sum(axis=0) - shifts[list(out)].sum(axis=0))
        for out in combinations(range(6), 2)
        for new in combinations(range(6, 14), 2)
    ]
    assert found == pytest.approx(min(everything))


def test_the_relaxation_balances_the_goal():
    task = make_task("logistic", rows=400)
    pulls, _ = task.pulls(task.aim)
    target = task.penalty(80).gradient(task.aim)
    share = bit_flip.relax(pulls, target, 80, np.random.default_rng(0).random(400))
    assert share.min() >= 0.0
    assert share.max() <= 1.0
    assert share.sum() == pytest.approx(80.0, abs=1e-4)
    assert share @ pulls == pytest.approx(target, abs=1e-4)


def test_leverages_are_those_of_qr_and_svd():
    X = np.random.default_rng(0).standard_normal((50, 4)) * [1.0, 10.0, 0.1, 3.0]
    q, _ = np.linalg.qr(X)
    assert leverage.leverages(X) == pytest.approx(np.square(q).sum(axis=1))
    flat = np.column_stack([X, X[:, 0]])  # rank 4 of 5
    u, s, _ = np.linalg.svd(flat, full_matrices=False)
    assert leverage.leverages(flat) == pytest.approx(np.square(u[:, s > 1e-9]).sum(axis=1))


def test_leverage_draws_follow_the_scores():
    """The first row drawn is row j with probability h_j / Σh."""
    task = make_task("squared", rows=6)
    h = leverage.leverages(task.X)
    first = np.bincount([leverage.choose(task, 1, seed)[0] for seed in range(4000)], minlength=6) / 4000
    assert np.abs(first - h / h.sum()).max() < 0.03


def test_k_center_against_a_naive_one_and_its_guarantee():
    points = np.random.default_rng(1).standard_normal((12, 2))
    found = k_center.farthest_first(points, 4, 5)
    naive = [5]
    while len(naive) < 4:
        naive.append(max(range(12), key=lambda row: min(np.linalg.norm(points[row] - points[c]) for c in naive)))
    assert found.tolist() == naive

    def radius(centres):
        return max(min(np.linalg.norm(point - points[c]) for c in centres) for point in points)

    assert radius(found) <= 2.0 * min(radius(c) for c in combinations(range(12), 4))


def test_k_center_among_twins():
    assert sorted(k_center.farthest_first(np.zeros((4, 2)), 4, 2).tolist()) == [0, 1, 2, 3]


def test_herding_against_a_naive_one():
    points = np.random.default_rng(1).standard_normal((20, 3))
    naive: list[int] = []
    for _ in range(8):
        left = [row for row in range(20) if row not in naive]
        naive.append(
            min(left, key=lambda row: np.linalg.norm(points[[*naive, row]].mean(axis=0) - points.mean(axis=0)))
        )
    assert herding.herd(points, 8).tolist() == naive


def test_facility_location_against_plain_greedy_and_the_optimum():
    points = np.random.default_rng(4).standard_normal((15, 2))
    similar = facility_location.similarity(points)
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert similar == pytest.approx(apart.max() - apart, abs=1e-5)

    def cover(rows):
        return similar[list(rows)].max(axis=0).sum()

    greedy: list[int] = []
    for _ in range(4):
        greedy.append(max(set(range(15)) - set(greedy), key=lambda row: cover([*greedy, row])))
    found = facility_location.lazy_greedy(similar, 4)
    assert found.tolist() == greedy
    assert cover(found) >= (1.0 - 1.0 / np.e) * max(cover(rows) for rows in combinations(range(15), 4))


def test_facility_location_says_when_it_is_too_large():
    task = make_task(rows=facility_location.MOST + 1)
    assert "10,001 rows have too many pairs" in facility_location.refuses(task, 10)


def test_gradient_pursuit_on_orthonormal_atoms_is_the_best_subset():
    q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 8)))
    target = q.T @ np.array([5.0, 0.1, 3.0, -4.0, 0.0, 2.0, 1.0, 0.5])
    rows, weights = gradient_match.pursue(q, target, 3)
    left = {c: nnls(q[list(c)].T, target)[1] for c in combinations(range(8), 3)}
    assert tuple(sorted(rows.tolist())) == min(left, key=left.__getitem__)
    assert weights == pytest.approx(nnls(q[rows].T, target)[0])


def test_gradient_pursuit_reaches_what_all_atoms_together_reach():
    draw = np.random.default_rng(1)
    atoms, target = draw.standard_normal((30, 4)), draw.standard_normal(4)
    rows, weights = gradient_match.pursue(atoms, target, 30)
    assert np.linalg.norm(weights @ atoms[rows] - target) <= nnls(atoms.T, target)[1] + 1e-6


@pytest.mark.parametrize("intercept", ["none", "free"])
def test_the_tasks_fit_is_the_learners(intercept):
    task = make_task("logistic", intercept=intercept)
    model = LogisticRegression(fit_intercept=intercept == "free", tol=1e-12, max_iter=5000).fit(task.X, task.y)
    expected = np.append(model.coef_, model.intercept_) if intercept == "free" else model.coef_[0]
    assert task.fit() == pytest.approx(expected, abs=1e-5)


def test_pulls_are_the_losss_own_gradient():
    task = make_task("logistic", intercept="free")
    pulls, curvature = task.pulls(task.aim)
    margin = task.y * (task.X @ task.goal[:3] + task.goal[3])
    wrong = 1.0 / (1.0 + np.exp(margin))
    assert pulls[:, :3] == pytest.approx((wrong * task.y)[:, None] * task.X)
    assert pulls[:, 3] == pytest.approx(wrong * task.y)
    assert curvature == pytest.approx(wrong * (1.0 - wrong))
    assert isinstance(task.learner.loss, Logistic)


def test_bit_flip_bears_a_goal_that_no_rows_balance():
    """Its relaxation runs away there; the fractions it had before are finite, and a search starts from them."""
    referee = Synthetic("ridge", 5000, 10).referee(5, 4, 120.0)
    contestant = by_name(["bit-flip"])[0]
    land = bit_flip.Landscape(referee.task(contestant), 1500)
    steady = 0.5 * bit_flip.leverages(land.design) * 5000 / 10
    draw = np.random.default_rng(4)
    draw.permutation(5000)
    with np.errstate(all="ignore"):
        share = bit_flip.relax(land.pulls, land.target, 1500, draw.random(5000) - steady)
    assert np.isfinite(share).all()


def test_rivals_for_many_classes_put_rows_in_an_order():
    """The first rows of a long order are the order of fewer; every class has its share; no row comes twice."""
    draw = np.random.default_rng(0)
    X, y = draw.standard_normal((90, 3)), np.arange(90) % 3
    model = draw.standard_normal((3, 4))
    for name, order in many.ORDERS.items():
        rows = order(X, y, model, 60, 0)
        assert len(set(rows.tolist())) == 60, name
        assert np.array_equal(order(X, y, model, 30, 0), rows[:30]), name
        if name in ("herding", "gradient matching", "CRAIG"):
            assert np.bincount(y[rows[:30]]).tolist() == [10, 10, 10]


def test_pulls_of_many_classes_are_gradients():
    """Against differences of scikit-learn's log loss."""
    draw = np.random.default_rng(1)
    X, y, model = draw.standard_normal((5, 2)), np.array([0, 1, 2, 1, 0]), draw.standard_normal((3, 3))
    found = many.pulls(X, y, model)

    def losses(at):
        return -log_softmax(np.column_stack([X, np.ones(5)]) @ at.T, axis=1)[np.arange(5), y]

    for place in range(9):
        step = np.zeros(9)
        step[place] = 1e-6
        change = (losses(model + step.reshape(3, 3)) - losses(model - step.reshape(3, 3))) / 2e-6
        assert np.allclose(found[:, place], -change, atol=1e-8)

"""Prices under noise, with all teachers as one table of rows: what is counted, and goals near the edge of reach."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import superteach as st
from superteach.datasets import make_classification_pool
from superteach.line import queries
from superteach.line.messages import Turn
from superteach.line.queries.private import BINS, COUNT, SIDES, sides_of
from superteach.losses import Logistic
from superteach.mathematics.private import EDGES, Settled, agree, stated_risk
from superteach.privacy.terms import PromiseTerms

TURN = Turn(1, 0, 1)


class Pool:
    """Rows that stand for `each` rows, Gaussian noise on their sums, a goal away from their model by its own length."""

    def __init__(self, rows: int, width: int, each: float, seed: int, longer: float = 1.0):
        X, y, _ = make_classification_pool(rows, width, 1, random_state=seed)
        self.X, self.y, self.each, self.draw = X, 2.0 * y - 1.0, each, np.random.default_rng(50_000 + seed)
        self.size, self.ridge = 0.04 * rows * each, 2e-4 * rows * each
        learner = LogisticRegression(C=each / self.ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
        fitted, noise = np.ravel(learner.fit(X, y).coef_), self.draw.standard_normal(width)
        self.goal = longer * (fitted + noise * np.linalg.norm(fitted) / np.linalg.norm(noise))
        self.pulls = (self.y * expit(-self.y * (X @ self.goal)))[:, None] * X
        self.terms = PromiseTerms("epsilon")
        self.teacher = st.Teacher("all", X, self.y.astype(np.int8))
        self.state, _ = self.teacher.answer(queries.Begin(Logistic(), 0.0), None, TURN)
        self.shares = 0.0

    def ask(self, query: queries.Private) -> np.ndarray:
        self.state, sealed = self.teacher.answer(query, self.state, TURN)
        spreads = [np.full(part.numbers, self.terms.spread(part)) for part in query.releases]
        self.shares += sum(part.share for part in query.releases)
        return self.each * sealed.numbers + np.concatenate(spreads) * self.draw.standard_normal(query.reply_length)

    def lesson(self) -> tuple[Settled, np.ndarray]:
        """What was agreed on, and the fraction of every row by the formula of `queries.private`."""
        width, rows = len(self.goal), round(len(self.y) * self.each)
        penalty = np.full(width, self.ridge)
        found = agree(self.ask, self.terms.spread, self.goal, penalty, self.size, rows, width, 0.25)
        cap = found.cap
        wide = np.column_stack([self.pulls * cap.weights / cap.length, np.full(len(self.y), COUNT)])
        kept = 1.0 / np.maximum(1.0, np.linalg.norm(wide, axis=1))
        return found, cap.scale * kept * expit(cap.base + (wide * kept[:, None]) @ found.point)

    def risk(self, fractions: np.ndarray) -> float:
        """scikit-learn's, taught by fractions."""
        learner = LogisticRegression(C=1.0 / self.ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
        learner.fit(self.X, self.y, sample_weight=self.each * fractions)
        return float(np.linalg.norm(np.ravel(learner.coef_) - self.goal))

    def within_reach(self) -> bool:
        """Whether any fractions of rows have the sum that the goal asks for (a linear programme)."""
        equal = np.vstack([self.pulls.T, np.ones(len(self.y))]) * self.each
        wanted = np.append(self.ridge * self.goal, self.size)
        return bool(linprog(np.zeros(len(self.y)), A_eq=equal, b_eq=wanted, bounds=(0.0, 1.0)).status == 0)


def test_cells_of_cosines_hold_what_lies_between_their_edges():
    draw = np.random.default_rng(0)
    cosines = np.concatenate([draw.uniform(-1, 1, 2_000), draw.normal(0, 0.01, 2_000), [0.0, 1.0, -1.0, 1e-300]])
    cell = sides_of(cosines)
    assert len(EDGES) == SIDES + 1
    assert (np.diff(EDGES) > 0).all()
    assert (EDGES[cell] <= cosines).all()
    assert (cosines <= EDGES[cell + 1]).all()


def test_rows_are_counted_by_their_cosine_with_the_goal():
    pool, weights = Pool(3_000, 5, 1.0, 1), np.array([1.0, 0.5, 2.0, 1.0, 3.0])
    _, sealed = pool.teacher.answer(queries.Sketch(pool.goal, weights, 1.0, (0.2,) * 5), pool.state, TURN)
    counted = sealed.numbers[BINS : BINS + BINS * SIDES].reshape(BINS, SIDES)
    pulls, goal = pool.pulls * weights, pool.goal / weights
    cosine = pulls @ goal / np.linalg.norm(pulls, axis=1) / np.linalg.norm(goal)
    np.testing.assert_array_equal(counted.sum(axis=0), np.histogram(cosine, EDGES)[0])
    np.testing.assert_array_equal(counted.sum(axis=1), sealed.numbers[:BINS])


@pytest.mark.parametrize(("seed", "most"), [(8014, 1.0), (20009, 0.1)])
def test_goals_near_the_edge_of_reach_are_reached(seed, most):
    """30 columns, as 500,000 rows: with cosines drawn for themselves these goals ended 2.8 and 0.6 away."""
    pool = Pool(20_000, 30, 25.0, seed)
    _, fractions = pool.lesson()
    assert pool.shares <= 1.0 + 1e-12
    assert abs(pool.each * fractions.sum() / pool.size - 1.0) < 0.05
    assert pool.risk(fractions) < most
    assert pool.risk(np.ones(len(pool.y))) > 2.0


def test_no_risk_is_stated_where_a_goal_is_out_of_reach():
    near, far = Pool(8_000, 6, 10.0, 3), Pool(8_000, 6, 10.0, 3, longer=5.0)
    assert near.within_reach()
    assert not far.within_reach()
    for pool, reached in ((near, True), (far, False)):
        found, _ = pool.lesson()
        assert found.settled == reached
        assert (stated_risk(found, np.full(6, pool.ridge), np.eye(6)) is not None) == reached

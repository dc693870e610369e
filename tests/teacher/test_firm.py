"""Under noise a teacher chooses rows that hold the model firmly, with the same sum as its prices say."""

from __future__ import annotations

from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import expit

from superteach import Teacher
from superteach.line.messages import Turn
from superteach.line.queries.private import COUNT, Begin, Cap, Choose, Sketch
from superteach.mathematics.losses import Logistic
from superteach.mathematics.private import FIRM, FIRMEST
from tests.oracles import solve_tightly

WEIGHTS, MODEL = np.ones(3), np.array([0.5, -1.0, 0.3])
CAP = Cap(WEIGHTS, 0.6, -1.0, 0.4)
POINT = np.array([0.4, -0.2, 0.1, 0.3])
PENALTY = np.full(3, 0.8)


@pytest.fixture(params=[1.0, 1e-3], ids=["plain", "of other units"])
def chosen(request):
    """A teacher's rows, its fractions by prices, and what became of them."""
    draw = np.random.default_rng(5)
    X = draw.normal(size=(160, 3)) * [1.0, request.param, 1.0]
    y = np.where(draw.random(160) < expit(X @ [1.0, 1.0, 0.0]), 1.0, -1.0)
    weights = WEIGHTS / [1.0, request.param, 1.0]
    cap = Cap(weights, CAP.length, CAP.base, CAP.scale)
    teacher = Teacher("alone", X, y, np.arange(160))
    turn = Turn(0, 0, 2)
    state, _ = teacher.answer(Begin(Logistic(), 0.0), teacher.start(), turn)
    state, _ = teacher.answer(Sketch(MODEL * weights, weights, 1.5, (0.2,) * 5), state, turn)
    state, _ = teacher.answer(Choose(MODEL * weights, POINT, cap, PENALTY / weights**2), state, turn)
    # The same by hand, in units in which all columns are alike.
    X = X * weights
    slope, chance = expit(-y * (X @ MODEL)) * y, expit(X @ MODEL)
    pulls = slope[:, None] * X
    capped = np.column_stack([pulls / cap.length, np.full(160, COUNT)])
    kept = 1.0 / np.maximum(1.0, np.linalg.norm(capped, axis=1))
    fractions = cap.scale * kept * expit(cap.base + (kept[:, None] * capped) @ POINT)
    return SimpleNamespace(
        X=X, pulls=pulls, bent=chance * (1.0 - chance), before=fractions, after=state.fractions, rows=state.chosen
    )


def _curvature(found, fractions):
    return (found.X.T * (fractions * found.bent)) @ found.X + np.diag(PENALTY / 2)


def test_firmer_fractions_are_the_nearest_with_the_same_sum(chosen):
    """CVXPY finds the fractions with the prices' sum that are nearest to those moved towards leverage."""
    inverse = np.linalg.inv(_curvature(chosen, chosen.before))
    leverage = chosen.bent * np.einsum("ij,jk,ik->i", chosen.X, inverse, chosen.X)
    mean = chosen.before @ leverage / chosen.before.sum()
    odds = np.log(chosen.before / (1.0 - chosen.before)) + FIRM * np.minimum(leverage / mean, FIRMEST)
    moved, free = expit(odds), cp.Variable(160)
    away = cp.sum(cp.kl_div(free, moved) + cp.kl_div(1 - free, 1 - moved))
    same = [chosen.pulls.T @ free == chosen.pulls.T @ chosen.before, cp.sum(free) == chosen.before.sum()]
    solve_tightly(cp.Problem(cp.Minimize(away), same))
    np.testing.assert_allclose(chosen.after, free.value, atol=1e-7)
    np.testing.assert_allclose(chosen.pulls.T @ chosen.after, chosen.pulls.T @ chosen.before, atol=1e-8)
    assert (
        np.linalg.slogdet(_curvature(chosen, chosen.after))[1] > np.linalg.slogdet(_curvature(chosen, chosen.before))[1]
    )


def test_the_rows_chosen_are_as_firm_and_keep_the_sum(chosen):
    """Rounding moves the model little beside what prices ask, and keeps most of the curvature."""
    mask = np.zeros(160)
    mask[chosen.rows] = 1.0
    curvature = _curvature(chosen, mask)
    left = np.linalg.solve(curvature, chosen.pulls.T @ (mask - chosen.before))
    assert np.linalg.norm(left) < 0.05
    assert np.linalg.slogdet(curvature)[1] > np.linalg.slogdet(_curvature(chosen, chosen.before))[1]


@pytest.mark.parametrize("seed", range(40))
def test_the_sum_is_kept_or_nothing_is_changed(seed):
    """Few rows and many unknowns: where Newton does not get there, the prices' own fractions are rounded."""
    draw = np.random.default_rng(seed)
    rows, width = int(draw.integers(1, 12)), 6
    X, model = np.exp2(draw.integers(-3, 6, (rows, 1))) * draw.normal(size=(rows, width)), draw.normal(size=width)
    y = np.where(draw.random(rows) < 0.5, 1.0, -1.0)
    cap, point, turn = Cap(np.ones(width), 0.6, 1.0, 0.9), draw.normal(size=width + 1), Turn(0, 0, 2)
    teacher = Teacher("alone", X, y, np.arange(rows))
    state, _ = teacher.answer(Begin(Logistic(), 0.0), teacher.start(), turn)
    state, _ = teacher.answer(Sketch(model, np.ones(width), 1.5, (0.2,) * 5), state, turn)
    state, _ = teacher.answer(Choose(model, point, cap, np.full(width, 0.5)), state, turn)
    pulls = (expit(-y * (X @ model)) * y)[:, None] * X
    capped = np.column_stack([pulls / cap.length, np.full(rows, COUNT)])
    kept = 1.0 / np.maximum(1.0, np.linalg.norm(capped, axis=1))
    before = cap.scale * kept * expit(cap.base + (kept[:, None] * capped) @ point)
    scale = np.abs(pulls).T @ before
    np.testing.assert_array_less(np.abs(pulls.T @ (state.fractions - before)), 1e-6 * scale + 1e-12)


@pytest.mark.parametrize("huge", [1e60, 1e140])
def test_a_row_of_any_size_is_no_error(huge):
    """Whether a lesson ends would tell that such a row is there."""
    draw = np.random.default_rng(6)
    X = draw.normal(size=(80, 3))
    X[7] = huge
    teacher, turn = Teacher("alone", X, np.where(X[:, 0] > 0.0, 1.0, -1.0), np.arange(80)), Turn(0, 0, 2)
    state, _ = teacher.answer(Begin(Logistic(), 0.0), teacher.start(), turn)
    state, _ = teacher.answer(Sketch(MODEL, WEIGHTS, 1.5, (0.2,) * 5), state, turn)
    state, sealed = teacher.answer(Choose(MODEL, POINT, CAP, PENALTY), state, turn)
    assert len(sealed.numbers) == 0
    assert len(state.chosen) == pytest.approx(state.fractions.sum(), abs=1.0)

"""The relaxed choice against a conic solver, and where a target is out of reach."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import expit, logit

from superteach.selection.relaxation import MET, prior, relax


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_are_the_nearest_in_relative_entropy(seed):
    draw = np.random.default_rng(seed)
    rows, odds = draw.normal(size=(40, 3)), logit(draw.uniform(0.1, 0.6, 40))
    target = draw.uniform(0.2, 0.5, 40) @ rows
    found = relax(rows, target, 14.0, odds)
    near = expit(odds)
    b = cp.Variable(40)
    apart = cp.sum(cp.kl_div(b, near) + cp.kl_div(1 - b, 1 - near))
    cp.Problem(cp.Minimize(apart), [rows.T @ b == target, cp.sum(b) == 14.0]).solve(solver="CLARABEL")
    assert found.met
    assert np.linalg.norm(found.probabilities @ rows - target) <= MET * np.linalg.norm(rows, axis=1).max()
    np.testing.assert_allclose(found.probabilities, b.value, atol=2e-2)


def test_a_target_out_of_reach_is_approached_with_rows_left_to_round():
    draw = np.random.default_rng(0)
    rows = np.abs(draw.normal(size=(200, 2)))
    odds = np.full(200, logit(0.1))
    found = relax(rows, np.array([-5.0, -5.0]), 20.0, odds)
    likely = found.probabilities
    assert not found.met
    assert (likely * (1.0 - likely)).sum() >= 1.0
    assert np.linalg.norm(found.residual) < np.linalg.norm(np.array([-5.0, -5.0]) - 0.1 * rows.sum(axis=0))


def test_the_prior_asks_for_as_many_rows_and_spreads_them_over_lengths():
    lengths = np.exp2(np.random.default_rng(0).uniform(-8.0, 0.0, 5_000))
    likely = expit(prior(lengths, 200.0, 11))
    assert likely.sum() == pytest.approx(200.0, rel=1e-3)
    octave = np.floor(np.log2(lengths))
    parts = [likely[octave == one].sum() for one in np.unique(octave)]
    assert max(parts) < 2.0 * min(parts)
    assert expit(prior(np.zeros(10), 4.0, 3)) == pytest.approx(0.4)

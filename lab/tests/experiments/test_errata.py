"""The paper's misprints: each check of superteach_lab.experiments.errata says what docs/explanation/paper.md says."""

from __future__ import annotations

import numpy as np
import pytest

from superteach_lab.experiments import errata


def test_printed_reduce_step_runs_away():
    """To the letter the objective grows every round, half corrected it jumps, as meant it falls."""
    found = errata.reduce_step(rows=1000, rounds=3)
    assert np.all(np.diff(found.printed) > 0.0)
    assert found.printed[-1] > 10.0 * found.printed[0]
    assert max(found.labelled[2:]) > 2.0 * found.labelled[1]
    assert np.all(np.diff(found.meant) < 0.0)
    assert max(found.ridge_printed) > 10.0 * found.ridge_printed[0]
    assert np.all(np.diff(found.ridge_meant) <= 1e-9 * found.ridge_meant[0])


def test_dropped_symbols_change_the_problem():
    """Without y_j the rounds lead away; without λ_α another α is best."""
    found = errata.lost_terms(rows=2000, rounds=2)
    assert found.optimum <= found.meant_after < found.without_labels_after
    assert found.without_labels_after > 10.0 * found.meant_after
    assert found.without_sparsity > found.optimum * 1.01
    assert found.without_sparsity_shared < 1.0


def test_a_hundred_rounds_are_not_enough():
    """The block rule is still percents above a certified optimum; β = K grows every round."""
    found = errata.rounds(5, rows=1000, at=(25, 50, 100))
    assert found.optimum_gap < 1e-9
    assert found.above[25] > found.above[50] > found.above[100] > 0.01
    assert all(found.certified[count] >= found.above[count] for count in found.above)
    assert np.all(np.diff(found.bold) > 0.0)


def test_ridge_needs_more_rounds_still():
    """With λ_θ = 2000 a hundred rounds leave the ridge objective far above the optimum."""
    found = errata.rounds(5, rows=1000, at=(50, 100), regression=True)
    assert found.above[50] > found.above[100] > 0.1


def test_the_half_and_the_support():
    """The stray ½ moves the ridge minimiser; logistic α is never 0, however small."""
    found = errata.halves()
    assert found.printed > found.optimum * 1.001
    assert found.common_support < max(found.support, found.printed_support)
    assert found.logistic_zeros == 0 < found.logistic_underflows
    assert np.isfinite(found.logistic_least_exponent)
    assert found.free_directions == found.logistic_rows - 10


def test_scaling_reading():
    """Both readings agree at N = 5,000; at ten times as many rows Λ = 1 falls behind."""
    small, large = errata.scaling(5_000, seeds=(0,)), errata.scaling(50_000, seeds=(0, 2))
    assert small.per_row == pytest.approx(small.constant)
    assert large.per_row[0] < small.per_row[0]
    assert large.constant[0] > 1.5 * large.per_row[0]

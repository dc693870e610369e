"""Shares moved by noisy releases: no row moves one by more than its sensitivity; shares add up whatever is said."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from benchmarks.privacy import divide, lesson, synthetic
from superteach.losses import Logistic
from superteach.privacy import moments
from superteach.privacy.accounting import Mode
from superteach.privacy.shares import fair_shares
from superteach.protocol.queries import CountMagnitudes, SecondMoments

# What one row can change -------------------------------------------------------------------------------


def worst_row(draw, columns):
    """A row of any size, from numbers whose squares vanish to such as overflow, some of them no numbers at all."""
    size = 10.0 ** (draw.uniform(-320.0, 308.0) if draw.random() < 0.5 else draw.uniform(-3.0, 3.0))
    spread = 10.0 ** draw.uniform(-2.0, 0.0, columns)
    row = draw.choice([-1.0, 1.0], columns) * size * spread
    if draw.random() < 0.2:
        row[draw.integers(columns)] = draw.choice([np.inf, -np.inf, np.nan, 0.0])
    return row


@pytest.mark.parametrize("seed", range(3))
def test_no_row_moves_a_release_by_more_than_its_sensitivity(seed):
    draw, most = np.random.default_rng(seed), {"units": 0.0, "moments": 0.0}
    for _ in range(3_000):
        columns = int(draw.integers(1, 13))
        weights = 10.0 ** draw.uniform(-30.0, 30.0, columns) * (draw.random(columns) < 0.9)
        if draw.random() < 0.5:
            weights = np.full(columns, 10.0 ** draw.uniform(-1.0, 1.0))
        row = worst_row(draw, columns)
        counted = moments.count_octaves(row[None, :])
        summed = moments.second_moments(row[None, :], weights)
        assert np.isfinite(summed).all()
        assert counted.sum() == columns
        most["units"] = max(most["units"], float(np.linalg.norm(counted)) / np.sqrt(columns))
        most["moments"] = max(most["moments"], float(np.linalg.norm(summed)))
    assert 0.99 < most["units"] <= 1.0 + 1e-12
    assert 0.99 < most["moments"] <= 1.0 + 1e-12  # reached, so the sensitivity is no larger than need be


def test_releases_are_sums_over_rows():
    draw = np.random.default_rng(0)
    rows, weights = draw.normal(size=(50, 4)), np.array([1.0, 0.2, 0.0, 3.0])
    for function in (moments.count_octaves, lambda some: moments.second_moments(some, weights)):
        np.testing.assert_allclose(function(rows), sum(function(row[None, :]) for row in rows), rtol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**31))
def test_a_packed_matrix_is_as_long_as_the_matrix_and_comes_back(width, seed):
    half = np.random.default_rng(seed).normal(size=(width, width))
    matrix = half + half.T
    packed = moments.pack(matrix)
    assert np.linalg.norm(packed) == pytest.approx(np.linalg.norm(matrix))
    np.testing.assert_allclose(moments.unpack(packed, width), matrix)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-8), (5.0, 1e-5)])
def test_both_releases_together_cost_the_epsilon_they_are_made_for(epsilon, delta):
    mode = Mode("dp", epsilon, delta)
    for columns in (1, 10, 31):
        about = Logistic(), 0.0, np.zeros(columns)
        # What a row changes, with what rounding to the grid adds, over the noise; squares add up.
        squares = 0.0
        for release in (CountMagnitudes(*about).release, SecondMoments(*about, np.ones(columns)).release):
            grid = mode.grid(release)
            moved = release.sensitivity / grid.step + 1.01 * np.sqrt(release.numbers)
            squares += moved**2 / (grid.sigma**2 - 4.0)
        assert squares**0.5 <= mode.mu * (1.0 + 1e-9)
        assert squares**0.5 >= mode.mu * 0.99
        assert get_epsilon_gaussian(1.0 / squares**0.5, delta) <= epsilon * (1.0 + 1e-9)
    assert mode.guarantee()["rho"] == pytest.approx(mode.mu**2 / 2.0)


# What follows from releases ----------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 8), st.integers(1, 6), st.floats(1e-3, 1e6))
def test_targets_add_up_to_the_goal_whatever_was_released(seed, owners, columns, size):
    draw = np.random.default_rng(seed)
    sizes = draw.integers(60, 5_000, owners)
    released = [size * draw.normal(size=(columns + 1) * (columns + 2) // 2) for _ in sizes]
    weights = np.exp(draw.normal(size=columns)) * (draw.random(columns) < 0.8)
    target = draw.normal(size=columns) * 10.0 ** draw.uniform(-3.0, 3.0)
    most = np.where(np.arange(owners) % 3 == 1, 0.3, 1.0)
    lesson_size = int(0.2 * sizes[most == 1.0].sum())
    found = moments.split(released, weights, 4.0, sizes.tolist(), target, lesson_size, most.tolist())
    assert found.rows.sum() == lesson_size
    assert (found.rows <= np.minimum(sizes, most * lesson_size + 1e-9)).all()
    scale = np.abs(found.targets).sum(axis=0) + np.abs(target)
    assert (np.abs(found.targets.sum(axis=0) - target) <= 1e-9 * scale).all()
    assert (found.targets[found.rows == 0] == 0.0).all()


def gradients_of(pool):
    """Gradients of a logistic pool at the goal, owner by owner, and what a lesson's shall add up to."""
    slopes = pool.target * expit(-pool.target * (pool.design @ pool.goal))
    gradients = pool.design * slopes[:, None]
    return [gradients[pool.owner == one] for one in range(int(pool.owner.max()) + 1)], pool.goal / pool.learner.C


@pytest.mark.parametrize("split", ["iid", "margin"])
def test_without_noise_dp_is_its_limit(split):
    """ε → ∞: what is split by nearly exact releases is what exact ones split."""
    pool = synthetic("logistic", 4_000, 4, 5, split, 3)
    own, target = gradients_of(pool)
    weights = moments.read_units(sum(moments.count_octaves(some) for some in own), 0.0)
    exact = [moments.second_moments(some, weights) for some in own]
    sizes = [len(some) for some in own]
    limit = moments.split(exact, weights, 0.0, sizes, target, 400)
    draw = np.random.default_rng(0)
    said = [numbers + 1e-7 * draw.standard_normal(len(numbers)) for numbers in exact]
    near = moments.split(said, weights, 1e-7, sizes, target, 400)
    assert near.rows.tolist() == limit.rows.tolist()
    np.testing.assert_allclose(near.targets, limit.targets, atol=1e-4 * np.abs(limit.targets).max())


@pytest.mark.parametrize("seed", range(3))
def test_where_owners_carry_fair_shares_dp_is_isolated(seed):
    """Then nothing that was released moves a share: dp cannot be worse than isolated."""
    pool = synthetic("logistic", 20_000, 5, 4, "iid", seed)
    own, target = gradients_of(pool)
    found, fair = divide(own, target, 1_600, "dp"), divide(own, target, 1_600, "isolated")
    assert found.rows.tolist() == fair.rows.tolist() == fair_shares([5_000] * 4, 5, 1_600).tolist()
    np.testing.assert_array_equal(found.targets, fair.targets)


@pytest.mark.parametrize(("kind", "split"), [("logistic", "margin"), ("ridge", "residual")])
def test_dp_teaches_where_owners_cannot_carry_fair_shares(kind, split):
    pool = synthetic(kind, 20_000, 5, 8, split, 4)
    isolated, private = (lesson(pool, 0.04, mode, 0) for mode in ("isolated", "dp"))
    assert private.risk < 0.3 * isolated.risk


def test_units_are_read_from_counts_and_hidden_by_noise():
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(5_000, 3)) * np.array([1e-3, 1.0, 1e4])
    rows[:, 1] *= draw.random(5_000) < 0.5  # zeros say nothing of a column's unit
    weights = moments.read_units(moments.count_octaves(rows), 0.0)
    usual = weights * np.sqrt(np.mean(np.square(rows), axis=0))
    assert (usual > 0.3).all()
    assert (usual < 0.8).all()
    assert (moments.read_units(moments.count_octaves(rows), 1e4) == 0.0).all()

"""The search for pairs of moves: nothing nearer is left out by looking along one axis only."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from superteach.teacher import pairs, refine


def lowest(moves: pairs.Moves, residual: np.ndarray) -> float:
    """The shortest residual that a move or two moves without a common row leave, by trying them all."""
    left = [np.linalg.norm(residual + shift) for shift in moves.shifts]
    for one, two in combinations(range(len(moves.rows)), 2):
        if not set(moves.rows[one]) & set(moves.rows[two]):
            left.append(np.linalg.norm(residual + moves.shifts[one] + moves.shifts[two]))
    return float(min(left))


def left_by(rows: np.ndarray, chosen: np.ndarray, shifts: np.ndarray, residual: np.ndarray) -> float:
    enters = ~np.isin(rows, chosen)
    return float(
        np.linalg.norm(residual + shifts[rows[enters]].sum(axis=0) - shifts[rows[~enters]].sum(axis=0))
    )


@given(seed=some.integers(0, 2**32), width=some.integers(1, 6), scale=some.floats(-3.0, 1.0))
@settings(max_examples=40, deadline=None)
def test_no_pair_is_nearer_than_the_one_found(seed, width, scale):
    """Each row belongs to one swap, so no two clash, and the pair found must be the best of all."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(1, 300))
    shifts = draw.standard_normal((2 * count, width)) * 10.0 ** draw.uniform(-2.0, 1.0, width)
    chosen = np.arange(count)
    moves = pairs.Moves(np.column_stack([chosen, count + chosen]), shifts[count:] - shifts[:count])
    residual = 10.0**scale * draw.standard_normal(width)
    best = lowest(moves, residual)
    found = pairs.best_pair(moves, residual, np.inf)
    assert left_by(found, chosen, shifts, residual) <= best * (1.0 + 1e-3) + 1e-6 * np.abs(shifts).max()
    assert not len(pairs.best_pair(moves, residual, 0.99 * best))


@pytest.mark.parametrize("least", [1, 10])
def test_a_residual_of_many_rows_is_made_up_for_by_many(least):
    """A thousand exchanges long: pairs alone, a few at a time, would leave nearly all of it."""
    draw = np.random.default_rng(3)
    shifts = 1e-4 * draw.standard_normal((20_000, 5)) * [1.0, 2.0, 0.5, 1.0, 3.0] + 1e-5
    chosen, residual = (
        np.sort(draw.choice(20_000, 4_000, replace=False)),
        np.array([0.1, -0.1, 0.02, 0.0, 0.2]),
    )
    found = refine.improve(shifts, chosen, residual, least, draw)
    left = residual + shifts[found].sum(axis=0) - shifts[chosen].sum(axis=0)
    assert len(found) == len(np.unique(found)) == len(chosen)
    assert np.linalg.norm(left) < 0.01 * np.linalg.norm(residual)


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 300])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("least", [1, 2, 5, 10, 27, 28, 50, 200, 1000])
def test_any_number_of_changes_may_be_asked_for(rows, share, least):
    """Few rows, none or all chosen, more changes than rows: the size stays, and as many change as asked or none."""
    draw = np.random.default_rng(rows + least)
    shifts, residual = draw.standard_normal((rows, 3)), draw.standard_normal(3)
    chosen = np.sort(draw.choice(rows, round(share * rows), replace=False))
    found = refine.improve(shifts, chosen, residual, least, draw)
    changed = len(np.setxor1d(found, chosen))
    assert len(found) == len(np.unique(found)) == len(chosen)
    assert found is chosen or changed >= least
    left = residual + shifts[found].sum(axis=0) - shifts[chosen].sum(axis=0)
    assert np.linalg.norm(left) <= np.linalg.norm(residual) * (1.0 + 1e-12)
    if rows == 300 and share == 0.5 and least <= 50:
        assert changed

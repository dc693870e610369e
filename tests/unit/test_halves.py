"""Meeting in the middle finds what trying every exchange finds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from superteach import halves


def everything(shifts: np.ndarray, chosen: np.ndarray, residual: np.ndarray, least: int) -> float:
    """The shortest residual that any balanced exchange of at least so many rows leaves, by trying them all.

    Each half, rows 0, 2, … and 1, 3, …, flips its part of the least number and is two rows out of balance at most.
    """
    flips = np.array(list(product([False, True], repeat=len(chosen))))
    signs = np.where(chosen, -1, 1)
    balance = np.column_stack([(flips * signs)[:, half::2].sum(axis=1) for half in (0, 1)])
    count = np.column_stack([flips[:, half::2].sum(axis=1) for half in (0, 1)])
    kept = (balance.sum(axis=1) == 0) & (np.abs(balance) <= 2).all(axis=1)
    kept &= (count >= -(-least // 2)).all(axis=1)
    left = np.linalg.norm(residual + (flips[kept] * signs) @ shifts, axis=1)
    return float(left.min()) if len(left) else np.inf


def left_by(flipped: np.ndarray, shifts: np.ndarray, chosen: np.ndarray, residual: np.ndarray) -> float:
    return float(np.linalg.norm(residual + (flipped * np.where(chosen, -1, 1)) @ shifts))


@given(
    seed=some.integers(0, 2**32),
    rows=some.integers(0, 12),
    width=some.integers(1, 5),
    least=some.sampled_from([0, 1, 2, 4, 6]),
)
@settings(max_examples=60, deadline=None)
def test_a_dozen_rows_are_searched_whole(seed, rows, width, least):
    """The exchange found is the best of all 2^w, has as many in as out, and enough of them."""
    draw = np.random.default_rng(seed)
    shifts = draw.standard_normal((rows, width)) * 10.0 ** draw.uniform(-2.0, 1.0, width)
    chosen, residual = draw.random(rows) < 0.5, draw.standard_normal(width)
    found = halves.best_exchange(shifts, chosen, residual, least)
    best = everything(shifts, chosen, residual, least)
    if not found.any():
        assert best == np.inf or best == pytest.approx(np.linalg.norm(residual))
        return
    assert np.count_nonzero(found & chosen) == np.count_nonzero(found & ~chosen)
    assert np.count_nonzero(found) >= least
    assert left_by(found, shifts, chosen, residual) <= best * (1.0 + 1e-3) + 1e-6 * np.abs(shifts).max()


@pytest.mark.parametrize(("width", "long"), [(1, 1e3), (2, 1e3), (3, 1e4)])
def test_a_dozen_moves_of_very_different_lengths(width, long):
    """Long moves that cancel each other hide what is left in float32: the best of all is found all the same."""
    flips = np.arange(1 << 12)[:, None] >> np.arange(12) & 1
    for seed in range(10):
        draw = np.random.default_rng(seed)
        moves, residual = draw.standard_normal((12, width)), draw.standard_normal(width)
        moves[:4] += long * np.array([1.0, -1.0, 1.0, -1.0])[:, None] * draw.standard_normal(width)
        found = halves.near_subsets(moves, np.zeros(12, dtype=int), residual, askew=12)[0]
        best = np.linalg.norm(residual + flips @ moves, axis=1).min()
        assert np.linalg.norm(residual + moves[found].sum(axis=0)) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1e20, 1e150])
def test_the_scale_does_not_matter(scale):
    """The same subset, without a warning, however long the moves are."""
    draw = np.random.default_rng(3)
    moves, residual = draw.standard_normal((40, 4)), draw.standard_normal(4)
    balance = draw.choice([-1, 1], 40)
    power = 2.0 ** np.round(np.log2(scale))
    one, other = (halves.near_subsets(by * moves, balance, by * residual, 2, 4) for by in (1.0, power))
    np.testing.assert_array_equal(one, other)


def test_leaves_miss_little():
    """Twenty rows, lists of hundreds of ways cut into small leaves: rarely much worse than the best of all."""
    worse = []
    for seed in range(10):
        draw = np.random.default_rng(seed)
        shifts, chosen = draw.standard_normal((20, 3)), np.arange(20) < 10
        residual = draw.standard_normal(3)
        halves_found = halves.best_exchange(shifts, chosen, residual, 6)
        worse.append(
            left_by(halves_found, shifts, chosen, residual) / everything(shifts, chosen, residual, 6)
        )
    assert np.median(worse) <= 1.01
    assert max(worse) <= 3.0


@pytest.mark.parametrize("kind", ["rare", "outliers", "binary", "equal", "plain"])
def test_ties_make_no_large_leaves(kind):
    """Columns of zeros and ones have many ways with the very same shift; all pairs of those would fill the memory."""
    draw, count = np.random.default_rng(0), 60_000
    ones = {
        "rare": np.where(draw.random((3, count)) < 0.02, -30.0, 0.0),
        "outliers": np.vstack(
            [np.where(draw.random(count) < 0.01, -100.0, 0.0), draw.standard_normal((2, count))]
        ),
        "binary": draw.integers(0, 2, (3, count)).astype(float),
        "equal": np.ones((3, count)),
        "plain": draw.standard_normal((3, count)),
    }[kind]
    everyone, place = np.arange(count), draw.permutation(count)
    leaves = list(halves._leaves(ones, ones[:, place], everyone, everyone))
    assert max(len(ours) * len(theirs) for ours, theirs in leaves) <= halves._LEAF * count
    # A way and its equal in the other list lie in the same leaf, unless as good ones stand for it.
    for ours, theirs in leaves:
        low, high = ones[:, place[theirs]].min(axis=1), ones[:, place[theirs]].max(axis=1)
        assert np.all((ones[:, ours] >= low[:, None]) & (ones[:, ours] <= high[:, None]))
    if kind == "plain":
        assert sum(len(ours) for ours, _ in leaves) == count


@pytest.mark.parametrize(("leave", "enter"), [(0, 4), (3, 3), (8, 2), (6, 18), (36, 6)])
def test_the_work_is_known_beforehand(leave, enter, monkeypatch):
    """`count_ways` says how long the list of half the rows will be, and it is never longer on the way."""
    half = np.arange(-(-leave // 2) + -(-enter // 2)) < -(-leave // 2)
    lengths, join = [], np.concatenate

    def watched(parts):
        joined = join(parts)
        lengths.append(len(joined))
        return joined

    monkeypatch.setattr(halves.np, "concatenate", watched)
    found = halves._ways(
        np.ones((len(half), 1)), np.where(half, -1, 1), 0, None, halves.ASKEW, np.arange(len(half))
    )
    assert len(found.codes) == halves.count_ways(leave, enter)
    assert max(lengths) <= halves.count_ways(leave, enter)

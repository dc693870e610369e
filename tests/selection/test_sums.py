"""Rows whose sum is nearest to a vector, against all subsets of the size."""

from __future__ import annotations

import numpy as np
import oracle
import pytest

from superteach.selection.sums import exchange, nearest_sum


@pytest.mark.parametrize("seed", range(6))
def test_no_exchange_is_left_that_shortens_the_residual(seed):
    """From any subset: of the same size, never farther, and no pair of rows brings it nearer."""
    draw = np.random.default_rng(seed)
    rows, wanted = draw.standard_normal((40, 3)), draw.standard_normal(3)
    start = np.stack([draw.permutation(40) < 7 for _ in range(4)])
    end = exchange(rows, wanted, start)
    assert (end.sum(axis=1) == 7).all()
    before, after = (np.linalg.norm(wanted - subsets @ rows, axis=1) for subsets in (start, end))
    assert (after <= before).all()
    for subset, left in zip(end, after, strict=True):
        for leaves in np.flatnonzero(subset):
            swapped = wanted - (subset @ rows - rows[leaves] + rows[~subset])
            assert np.linalg.norm(swapped, axis=1).min() >= left * (1.0 - 1e-5)


def test_few_rows_are_mostly_the_nearest_of_all():
    """Four of 24 rows in five columns: at most a tenth longer than the shortest residual there is, and mostly the same."""
    every, found, best = oracle.subsets(24, 4, 4), [], []
    for seed in range(10):
        draw = np.random.default_rng(seed)
        rows, wanted = draw.standard_normal((24, 5)), draw.standard_normal(5)
        taken = nearest_sum(rows, wanted, np.full(24, 4 / 24), 4, draw)
        assert taken.sum() == 4
        found.append(np.linalg.norm(wanted - taken @ rows))
        best.append(np.linalg.norm(wanted - every @ rows, axis=1).min())
    ratio = np.array(found) / np.array(best)
    assert ratio.min() >= 1.0 - 1e-9
    assert np.median(ratio) < 1.0 + 1e-9


@pytest.mark.parametrize("size", [0, 5])
def test_nothing_and_everything_can_be_chosen(size):
    rows = np.arange(10.0).reshape(5, 2)
    taken = nearest_sum(rows, np.ones(2), np.full(5, 0.5), size, np.random.default_rng(0))
    assert taken.sum() == size

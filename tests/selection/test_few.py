"""The k-list search and exchanges of pairs against all subsets and all pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from superteach.selection.few import exchange, klists, merging


def left_of(rows: np.ndarray, places: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.linalg.norm(rows[places].sum(axis=1) - target, axis=1)


@settings(max_examples=60, deadline=None)
@given(some.integers(0, 2**32), some.integers(4, 60), some.integers(1, 12), some.data())
def test_choices_are_of_different_rows_nearest_first(seed, count, width, data):
    """As many rows as asked, each once, whatever probabilities and target are."""
    draw = np.random.default_rng(seed)
    size = data.draw(some.integers(2, max(2, 3 * count // 4)))
    rows, chance = draw.standard_normal((count, width)), draw.random(count) ** 4
    target = chance @ rows
    found = klists(rows, chance, target, size, draw, 50, 5)
    assert found.shape[1] == size
    assert 1 <= len(found) <= 5
    assert all(len(set(line)) == size for line in found.tolist())
    left = left_of(rows, found, target)
    assert (np.diff(left) >= -1e-9 * left[:-1]).all()


@pytest.mark.parametrize(("count", "size"), [(12, 4), (14, 6)])
def test_where_lists_hold_all_sums_the_best_of_their_parts_is_found(count, size):
    """No choice that takes as many rows of each part is nearer: rows are parted in the order that the generator gives."""
    for seed in range(10):
        draw = np.random.default_rng(seed)
        rows, target = draw.standard_normal((count, 2)), draw.standard_normal(2)
        found = klists(rows, np.full(count, 0.4), target, size, np.random.default_rng(seed), 10_000, 1)
        many = 1 << max(1, round(np.log2(size / 2)))
        parts = np.array_split(np.random.default_rng(seed).permutation(count), many)
        sizes = np.diff(np.floor(np.linspace(0, size, many + 1)).astype(int))
        every = np.array(list(combinations(range(count), size)))
        fits = [[np.isin(line, part).sum() for part in parts] == list(sizes) for line in every]
        best = left_of(rows, every[np.array(fits)], target).min()
        assert left_of(rows, found, target)[0] == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("width", [1, 3, 6])
def test_lists_come_nearer_than_as_many_draws(width):
    """Ends of lists of 2,000 sums beat the nearest of 200,000 draws, by far in few dimensions."""
    ratios = []
    for seed in range(3):
        draw = np.random.default_rng(seed)
        rows, target = draw.standard_normal((600, width)), np.zeros(width)
        found = klists(rows, np.full(600, 24 / 600), target, 24, draw, 2_000, 1)
        drawn = np.argsort(draw.random((20_000, 600)), axis=1)[:, :24]
        nearest = min(left_of(rows, part, target).min() for part in np.split(drawn, 10))
        ratios.append(left_of(rows, found, target)[0] / nearest)
    assert np.median(ratios) < {1: 0.01, 3: 0.05, 6: 0.4}[width]


def test_equal_rows_end_as_fast_as_others():
    """Sums of equal rows share a cell by the million; only some of the pairs are looked at."""
    rows = np.repeat(np.random.default_rng(0).standard_normal((4, 3)), 200, axis=0)
    target = 10.0 * rows[::200].sum(axis=0)
    found = klists(rows, np.full(800, 0.05), target, 40, np.random.default_rng(0), 3_000, 30)
    assert left_of(rows, found, target)[0] < np.linalg.norm(rows[0])


def test_a_merge_pays_where_it_leaves_less_than_it_adds_up():
    """The nearest of length² pairs of points in a ball is as near as this says, within a factor of two."""
    draw = np.random.default_rng(0)
    for width in (2, 5, 8):
        one, other = draw.standard_normal((2, 400, width))
        nearest = np.sort(np.linalg.norm(one[:, None] + other, axis=2), axis=None)[399] / np.sqrt(width)
        assert 0.5 < nearest / merging(400, width) < 2.0


@pytest.mark.parametrize("seed", range(5))
def test_exchanges_leave_no_pair_to_exchange(seed):
    """The residual only shrinks, to where no row in and row out would shorten it; as many rows stay."""
    draw = np.random.default_rng(seed)
    rows, wanted = draw.standard_normal((50, 3)), 3.0 * draw.standard_normal(3)
    start = draw.random(50) < 0.4
    taken = exchange(rows, start, wanted, 10_000, 400)
    assert taken.sum() == start.sum()
    left = wanted - taken @ rows
    assert np.linalg.norm(left) <= np.linalg.norm(wanted - start @ rows)
    for into in np.flatnonzero(~taken):
        after = np.linalg.norm(left - rows[into] + rows[taken], axis=1)
        assert after.min() >= np.linalg.norm(left) * (1.0 - 1e-5)


def test_of_many_pairs_those_of_short_rows_are_looked_at():
    """With fewer pairs allowed than there are, long rows stay where they are."""
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((500, 3)) * np.repeat([1.0, 1e-3], [400, 100])[:, None]
    start = draw.random(500) < 0.3
    taken = exchange(rows, start, start @ rows + 1e-3, 60 * 50, 400)
    assert (taken[:400] == start[:400]).all()
    assert np.linalg.norm(start @ rows + 1e-3 - taken @ rows) < 1e-4


def test_nothing_is_exchanged_where_nothing_is_left():
    """Rows that meet the target are not swapped for equal ones, step after step."""
    taken = np.arange(8) < 3
    assert (exchange(np.ones((8, 2)), taken, np.full(2, 3.0), 100, 1) == taken).all()

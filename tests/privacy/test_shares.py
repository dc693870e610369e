"""Fair shares: they add up, keep every bound, and say so where they cannot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superteach.exceptions import BudgetError, SettingError
from superteach.privacy.shares import ENOUGH, MOST, deal_rows, fair_shares, limits, proportional

SIZES = st.lists(st.integers(0, 5_000), min_size=1, max_size=30)


@settings(max_examples=300, deadline=None)
@given(SIZES, st.integers(1, 40), st.floats(0.0, 1.0), st.data())
def test_shares_add_up_and_keep_every_bound(sizes, columns, part, data):
    lesson = round(part * sum(sizes))
    most = data.draw(st.none() | st.lists(st.floats(0.0, 1.0), min_size=len(sizes), max_size=len(sizes)))
    bound = np.minimum(sizes, np.inf if most is None else np.floor(np.array(most) * lesson + 1e-9))
    if bound.sum() < lesson:
        with pytest.raises(BudgetError):
            fair_shares(sizes, columns, lesson, most)
        return
    rows = fair_shares(sizes, columns, lesson, most)
    assert rows.sum() == lesson
    assert (rows >= 0).all()
    assert (rows <= bound).all()
    third = np.minimum(bound, np.floor(MOST * np.array(sizes)))
    if third.sum() >= lesson:
        assert (rows <= third).all()


@settings(max_examples=300, deadline=None)
@given(SIZES, st.integers(1, 40), st.floats(0.0, 0.3))
def test_carriers_have_enough_rows_or_there_are_as_few_as_can_be(sizes, columns, part):
    lesson, owned = round(part * sum(sizes)), np.array(sizes)
    third = np.floor(MOST * owned)
    if not lesson or third.sum() < lesson:
        return
    rows = fair_shares(sizes, columns, lesson)
    carriers = int((rows > 0).sum())
    fewest = int(np.searchsorted(np.cumsum(np.sort(third)[::-1]), lesson) + 1)
    assert rows[rows > 0].min() >= ENOUGH * (columns + 1) or carriers == fewest


@settings(max_examples=200, deadline=None)
@given(SIZES, st.integers(1, 20), st.floats(0.0, 1.0), st.integers(0, 2**31))
def test_any_wish_is_dealt_out_within_the_same_bounds(sizes, columns, part, seed):
    owned = np.array(sizes)
    lesson, draw = round(part * owned.sum()), np.random.default_rng(seed)
    wanted = np.exp(draw.normal(0.0, 10.0, len(owned)))
    limit = limits(owned, lesson)
    rows = deal_rows(wanted, owned, limit, columns, lesson)
    assert rows.sum() == lesson
    assert (rows <= limit).all()


def test_large_owners_share_in_proportion_to_their_sizes():
    assert fair_shares([5_000] * 10, 10, 2_000).tolist() == [200] * 10
    assert fair_shares([10_000, 20_000, 30_000], 10, 600).tolist() == [100, 200, 300]


def test_small_owners_carry_nothing_so_that_others_have_rows_enough():
    rows = fair_shares([100] * 50, 10, 200)
    assert sorted(set(rows.tolist()) - {0}) == [28, 29]
    assert (rows > 0).sum() == 7
    assert fair_shares([50_000, 20, 50_000], 10, 500).tolist() == [250, 0, 250]


def test_a_policy_bounds_its_owners_part():
    assert fair_shares([1_000, 1_000], 2, 100, [0.0, 1.0]).tolist() == [0, 100]
    assert fair_shares([1_000, 1_000], 2, 100, [0.25, 1.0]).tolist() == [25, 75]
    with pytest.raises(BudgetError, match="at most 75 rows"):
        fair_shares([1_000, 1_000], 2, 100, [0.25, 0.5])


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_outside_0_to_1_is_refused(share):
    with pytest.raises(SettingError, match="share="):
        fair_shares([100, 100], 2, 10, [1.0, share])


def test_parts_are_proportional_up_to_limits():
    assert proportional(np.array([1.0, 1.0, 2.0]), np.array([100, 100, 100]), 8).tolist() == [2, 2, 4]
    assert proportional(np.array([1.0, 1.0, 8.0]), np.array([9, 9, 4]), 10).tolist() == [3, 3, 4]

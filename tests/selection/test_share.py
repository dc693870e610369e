"""One owner's choice against all subsets of tiny pools, and what becomes of shares that no rows carry."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from superteach.selection.share import choose_rows


def owner(rows: int, columns: int, seed: int):
    """Gradients, a curvature like a regression's, and a draw."""
    draw = np.random.default_rng(seed)
    design = draw.normal(size=(rows, columns))
    return design * draw.normal(size=(rows, 1)), lambda b: (design.T * b) @ design, draw


def left(gradients, curvature, target, penalty, rows):
    """‖H^(−1/2)(τ − Σ g_j)‖ with the curvature of these rows."""
    taken = np.zeros(len(gradients))
    taken[list(rows)] = 1.0
    residual = target - taken @ gradients
    return float(np.sqrt(residual @ np.linalg.solve(curvature(taken) + np.diag(penalty), residual)))


@pytest.mark.parametrize("count", [4, 6, 8])
def test_tiny_pools_end_near_the_best_of_all_subsets(count):
    ratios = []
    for seed in range(12):
        gradients, curvature, draw = owner(14, 2, seed)
        target, penalty = draw.normal(size=2) * 0.3, np.full(2, 0.1)
        found = choose_rows(gradients, curvature, target, count, penalty, draw)
        every = sorted(left(gradients, curvature, target, penalty, some) for some in combinations(range(14), count))
        assert len(found.rows) == count
        ratios.append(np.searchsorted(every, left(gradients, curvature, target, penalty, found.rows)) / len(every))
    assert np.median(ratios) < 0.01  # among the best hundredth of all subsets
    assert max(ratios) < 0.1


def test_a_share_within_reach_is_carried_and_misses_little():
    gradients, curvature, draw = owner(400, 5, 0)
    target, penalty = 0.1 * gradients.sum(axis=0), np.full(5, 0.5)
    found = choose_rows(gradients, curvature, target, 60, penalty, draw)
    assert found.carried
    assert len(set(found.rows.tolist())) == len(found.rows) == 60
    assert found.missing < 0.02
    assert left(gradients, curvature, target, penalty, found.rows) == pytest.approx(found.missing, rel=0.5)


def test_an_owner_is_told_that_its_rows_do_not_carry_its_share():
    gradients, curvature, draw = owner(300, 3, 1)
    found = choose_rows(np.abs(gradients), curvature, np.full(3, -5.0), 40, np.full(3, 0.5), draw)
    assert not found.carried
    assert found.missing > 0.5
    assert len(found.rows) == 40


def test_directions_that_no_row_sees_are_left_alone():
    gradients, curvature, draw = owner(300, 4, 2)
    flat = np.column_stack([gradients, np.zeros(300)])

    def padded(likely):
        return np.pad(curvature(likely), ((0, 1), (0, 1)))

    target = np.append(0.1 * gradients.sum(axis=0), 3.0)
    found = choose_rows(flat, padded, target, 50, np.full(5, 0.5), draw)
    assert found.carried
    assert found.missing < 0.05


@pytest.mark.parametrize("count", [0, 0.2, 5, 7])
def test_no_rows_or_more_than_there_are(count):
    gradients, curvature, draw = owner(5, 2, 3)
    found = choose_rows(gradients, curvature, np.zeros(2), count, np.ones(2), draw)
    assert len(found.rows) == min(round(count), 5)
    assert len(choose_rows(np.zeros((0, 2)), curvature, np.zeros(2), 3, np.ones(2), draw).rows) == 0


def test_a_row_far_longer_than_all_others_leaves_the_choice_as_it_is_without():
    """Handed over, a model fitted on the chosen rows showed whether it was there."""
    for seed in range(5):
        gradients, curvature, _ = owner(300, 4, seed)
        odd = np.vstack([gradients, np.full(4, 1e3)])  # a label against the goal: steep, and with no curvature
        asked = 0.1 * gradients.sum(axis=0), 60, np.full(4, 0.5)
        without = choose_rows(gradients, curvature, *asked, np.random.default_rng(seed))
        within = choose_rows(odd, lambda b, own=curvature: own(b[:-1]), *asked, np.random.default_rng(seed))
        assert np.array_equal(without.rows, within.rows)
        assert without.missing < 0.05


def test_rows_that_have_a_direction_to_themselves_are_not_left_out():
    """A rare column: three rows in two thousand."""
    draw = np.random.default_rng(4)
    design = np.column_stack([draw.normal(size=(2_000, 3)), np.zeros(2_000)])
    design[:3, 3] = 40.0
    gradients = design * draw.normal(size=(2_000, 1))
    target = np.append(np.zeros(3), 0.5 * np.abs(gradients[:3, 3]).max() * np.sign(gradients[0, 3]))
    found = choose_rows(gradients, lambda b: (design.T * b) @ design, target, 100, np.full(4, 0.1), draw)
    assert set(found.rows.tolist()) & {0, 1, 2}


def test_an_owner_that_is_asked_for_all_its_rows_gives_all():
    gradients, curvature, draw = owner(40, 2, 5)
    gradients[7] = 1e6
    found = choose_rows(gradients, curvature, gradients.sum(axis=0), 40, np.full(2, 0.5), draw)
    assert found.rows.tolist() == list(range(40))

"""Rounding against all subsets, the flight of the cube method, and many roundings at random."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import expit, logit

from superteach.selection import rounding
from superteach.selection.rounding import one_by_one, round_rows, round_wide


def rows_of(count: int, width: int, seed: int, octaves: float = 12.0) -> np.ndarray:
    """Rows in any direction, with lengths spread evenly over some octaves."""
    draw = np.random.default_rng([seed, count, width])
    rows = draw.standard_normal((count, width))
    return rows * (2.0 ** -draw.uniform(0.0, octaves, count) / np.linalg.norm(rows, axis=1))[:, None]


def missing(rows: np.ndarray, taken: np.ndarray, target: np.ndarray) -> float:
    return float(np.linalg.norm(target - taken @ rows))


@settings(max_examples=60, deadline=None)
@given(some.integers(0, 2**32), some.integers(1, 60), some.integers(1, 5))
def test_one_by_one_leaves_no_more_than_chance_does_in_the_mean(seed, count, width):
    """‖left‖² ≤ ‖r‖² + Σ b(1 − b)‖w_j‖², the mean of rounding at random; every row goes to the side that leaves less."""
    draw = np.random.default_rng(seed)
    rows, chance = rows_of(count, width, seed), draw.uniform(0.01, 0.99, count)
    start = 0.1 * draw.standard_normal(width)
    taken = one_by_one(rows, chance, start)
    left = start + (chance - taken) @ rows
    mean = np.sum(chance * (1.0 - chance) * np.square(rows).sum(axis=1))
    assert left @ left <= (start @ start + mean) * (1.0 + 1e-9)
    for j in range(count):
        before = start + (chance[:j] - taken[:j]) @ rows[:j]
        sides = [np.linalg.norm(before + (chance[j] - side) * rows[j]) for side in (0.0, 1.0)]
        assert sides[int(taken[j])] <= min(sides) * (1.0 + 1e-9)


def flight(rows: np.ndarray, chance: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Deville and Tillé's flight phase: probabilities move along null vectors until none is left; sums stay.

    Rows are taken in the order given, d + 2 undecided ones at a time, as Chauvet and Tillé do.
    """
    chance, lifted = chance.copy(), np.column_stack([rows, np.ones(len(rows))])
    while True:
        free = np.flatnonzero((chance > 0.0) & (chance < 1.0))[: lifted.shape[1] + 1]
        if len(free) <= lifted.shape[1]:
            return chance
        scale = np.abs(lifted[free]).max(axis=0)
        along = np.linalg.svd((lifted[free] / np.where(scale > 0.0, scale, 1.0)).T)[2][-1]
        with np.errstate(divide="ignore"):
            up = np.where(along > 0.0, 1.0 - chance[free], chance[free]) / np.abs(along)
            down = np.where(along > 0.0, chance[free], 1.0 - chance[free]) / np.abs(along)
        forwards = draw.random() < down.min() / (up.min() + down.min())
        limit, sign = (up, 1.0) if forwards else (down, -1.0)
        chance[free] = np.clip(chance[free] + sign * limit.min() * along, 0.0, 1.0)
        first = limit.argmin()
        chance[free[first]] = float((along[first] > 0.0) == forwards)


def landed(rows: np.ndarray, chance: np.ndarray, target: np.ndarray, size: int) -> float:
    """The shortest residual of all ways to decide what the flight left undecided, with a right count."""
    decided, free = chance == 1.0, np.flatnonzero((chance > 0.0) & (chance < 1.0))
    ways = [list(some) for some in combinations(free, size - int(decided.sum()))]
    return min(float(np.linalg.norm(target - decided @ rows - rows[way].sum(axis=0))) for way in ways)


def pool_of(draw: np.random.Generator, kind: str, count: int, width: int) -> np.ndarray:
    """Rows of a kind that rounding may find hard."""
    rows = draw.standard_normal((count, width))
    if kind == "all lengths":
        rows *= 2.0 ** -draw.uniform(0.0, 20.0, count)[:, None]
    if kind == "ties":
        rows = np.round(rows)
    if kind == "nearly parallel":
        rows = np.outer(draw.standard_normal(count), draw.standard_normal(width)) + 1e-6 * rows
    if kind == "a few long ones":
        rows[: count // 8] *= 1e6
    if kind == "a rare column":
        rows[:, 0] *= draw.random(count) < 0.05
    return rows


def probabilities_of(draw: np.random.Generator, count: int, size: int) -> np.ndarray:
    """Probabilities that add up to a size."""
    odds = logit(draw.uniform(0.02, 0.98, count))
    return expit(odds + brentq(lambda shift: expit(odds + shift).sum() - size, -40.0, 40.0, xtol=1e-14))


KINDS = ["usual", "all lengths", "ties", "nearly parallel", "a few long ones", "a rare column"]


@settings(max_examples=60, deadline=None)
@given(some.integers(0, 2**32), some.sampled_from(KINDS), some.integers(1, 5), some.integers(8, 60), some.data())
def test_rounding_leaves_no_more_than_the_cube_method_may(seed, kind, width, count, data):
    """The flight leaves at most d + 1 rows undecided and keeps all sums, so some lesson misses the target by at most the
    length of that many rows; whatever rows and probabilities are, rounding does too.
    """
    draw = np.random.default_rng(seed)
    rows, size = pool_of(draw, kind, count, width), data.draw(some.integers(1, count - 1))
    chance = probabilities_of(draw, count, size)
    target = chance @ rows
    after = flight(rows, chance, draw)
    assert np.count_nonzero((after > 0.0) & (after < 1.0)) <= width + 1
    lengths = np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(after @ rows, target, atol=1e-6 * lengths.sum() + 1e-12)
    assert after.sum() == pytest.approx(size, abs=1e-6)
    longest = np.sort(lengths)[-(width + 1) :].sum()
    assert landed(rows, after, target, size) <= longest * (1.0 + 1e-6) + 1e-9
    taken = round_rows(rows, chance, target, size, size, draw)
    assert taken.sum() == size
    assert missing(rows, taken, target) <= longest


@pytest.mark.parametrize("kind", KINDS)
def test_rounding_ends_no_farther_away_than_the_cube_method(kind):
    """Although the flight keeps all sums, and the best way to decide its last rows is looked for among all."""
    ratios = []
    for seed in range(5):
        draw = np.random.default_rng(seed)
        rows = pool_of(draw, kind, 60, 3)
        chance = probabilities_of(draw, 60, 20)
        target, order = chance @ rows, np.argsort(-np.linalg.norm(rows, axis=1))
        cube = landed(rows[order], flight(rows[order], chance[order], draw), target, 20)
        ratios.append(missing(rows, round_rows(rows, chance, target, 20, 20, draw), target) / cube)
    assert np.median(ratios) <= 1.0 + 1e-9


@pytest.mark.parametrize("width", [1, 3, 6])
def test_what_is_left_is_as_short_as_the_weakest_rows(width):
    """Where there are rows of every length, enough of them: as short as d + 1 of the shortest, or shorter."""
    left = []
    for seed in range(5):
        rows = rows_of(100 * (width + 1), width, seed, 6.0)
        chance = np.full(len(rows), 0.25)
        taken = round_rows(rows, chance, chance @ rows, len(rows) // 4, len(rows) // 4, np.random.default_rng(seed))
        shortest = np.sort(np.linalg.norm(rows, axis=1))[: width + 1].sum()
        left.append(missing(rows, taken, chance @ rows) / shortest)
    assert np.median(left) < 1.0


def at_random(rows, chance, target, least, most, tries, seed) -> np.ndarray:
    """What roundings at random leave, with a right count."""
    draw = np.random.default_rng(seed)
    left = []
    while len(left) < tries:
        taken = draw.random(len(rows)) < chance
        if least <= taken.sum() <= most:
            left.append(missing(rows, taken, target))
    return np.array(left)


@pytest.mark.parametrize(("width", "count"), [(1, 40), (2, 40), (5, 60), (10, 90), (30, 200)])
def test_rounding_beats_a_thousand_at_random(width, count):
    """By far, with as many rows as asked; in few dimensions by orders of magnitude."""
    ratios = []
    for seed in range(3):
        draw = np.random.default_rng(seed)
        rows, chance = rows_of(count, width, seed, 6.0), draw.uniform(0.1, 0.9, count)
        size = round(float(chance.sum()))
        target = chance @ rows + 1e-3 * draw.standard_normal(width)
        taken = round_rows(rows, chance, target, size, size, draw)
        assert taken.sum() == size
        best = at_random(rows, chance, target, size, size, 1000, seed).min()
        ratios.append(missing(rows, taken, target) / best)
    assert np.median(ratios) < {1: 0.1, 2: 0.02, 5: 0.1, 10: 0.2, 30: 0.5}[width]


@settings(max_examples=60, deadline=None)
@given(
    some.integers(0, 2**32), some.integers(1, 40), some.integers(1, 6), some.integers(0, 40), some.integers(0, 40)
)  # fmt: skip
def test_rounding_takes_as_many_rows_as_it_may(seed, count, width, least, extra):
    """At least so many and at most so many, whatever probabilities and target say."""
    draw = np.random.default_rng(seed)
    rows, chance = rows_of(count, width, seed), draw.random(count)
    least = min(least, count)
    most = least + extra
    target = 3.0 * draw.standard_normal(width)
    taken = round_rows(rows, chance, target, least, most, draw)
    assert taken.shape == (count,)
    assert least <= taken.sum() <= most
    idle = round_rows(0.0 * rows, chance, target, least, most, draw)  # rows that change nothing fill up
    assert least <= idle.sum() <= most


def test_what_lies_beyond_is_aimed_at_last():
    """Rows are decided around the relaxed sum; exchanges go for what the relaxed lesson itself lacks."""
    rows, chance = rows_of(80, 3, 2, 3.0), np.full(80, 0.5)
    target, beyond = chance @ rows, np.array([0.3, -0.2, 0.2])
    near, far = (round_rows(rows, chance, target, 30, 50, np.random.default_rng(0), aim) for aim in (0.0, beyond))
    assert missing(rows, near, target) < 0.01
    assert missing(rows, far, target + beyond) < 0.2 * np.linalg.norm(beyond)


def test_a_direction_that_few_rows_carry_does_not_spoil_the_others():
    """Fifteen directions of forty are carried by sixty rows alone: once these are decided nothing absorbs what they leave
    there, and tilts that try to would use up the freedom that all other directions need.
    """
    rows, chance = rows_of(1500, 40, 1, 8.0), np.full(1500, 0.2)
    rows[:60] /= np.linalg.norm(rows[:60], axis=1)[:, None]
    rows[60:, 25:40] *= 1e-6
    taken = round_rows(rows, chance, chance @ rows, 0, 1500, np.random.default_rng(0))
    left = (chance - taken) @ rows
    usual = np.sqrt(0.16 * np.square(rows).sum(axis=0))
    assert np.linalg.norm(left[:25]) < 0.01 * np.linalg.norm(usual[:25])
    assert np.linalg.norm(left[25:40]) < np.linalg.norm(usual[25:40])


def test_two_hundred_rows_of_four_thousand():
    """Ten columns, rows of all lengths: far nearer than the best of a thousand at random."""
    rows, draw = rows_of(4000, 10, 4), np.random.default_rng(1)
    sampled = rows[draw.random(4000) < 0.2]  # of probability 0.05 each; thinned they have 0.25
    chance = np.full(len(sampled), 0.25)
    target = chance @ sampled
    taken = round_rows(sampled, chance, target, 200, 200, draw)
    assert taken.sum() == 200
    left = missing(sampled, taken, target)
    likely = np.full(len(sampled), 200 / len(sampled))
    assert left < 1e-3 * at_random(sampled, likely, target, 200, 200, 1000, 2).min()
    # About as short as the weakest rows that are in the lesson.
    assert left < np.quantile(np.linalg.norm(sampled[taken], axis=1), 0.2)


@pytest.mark.parametrize("seed", range(3))
def test_wide_rows_are_decided_alike_dense_and_sparse(seed):
    """As many as asked, nearer than at random, and the same rows however they are stored."""
    draw = np.random.default_rng(seed)
    rows = draw.standard_normal((300, 600)) * (draw.random((300, 600)) < 0.05)
    chance = probabilities_of(draw, 300, 90)
    target = chance @ rows
    dense, light = round_wide(rows, chance, target, 90), round_wide(sparse.csr_array(rows), chance, target, 90)
    np.testing.assert_array_equal(dense, light)
    assert dense.sum() == 90
    assert missing(rows, dense, target) < 0.9 * np.median(at_random(rows, chance, target, 85, 95, 50, seed))


@given(some.integers(-5, 60), some.lists(some.integers(0, 20), min_size=1, max_size=6))
def test_a_count_is_dealt_out_in_proportion(count, places):
    """All of it, where there is room; nobody gets more than there are, or two more than a share."""
    dealt = rounding.deal(count, tuple(places))
    assert sum(dealt) == min(max(count, 0), sum(places))
    for one, most in zip(dealt, places, strict=True):
        assert 0 <= one <= most
        assert abs(one - most * sum(dealt) / max(sum(places), 1)) < 1.0 + 1e-9


def dummies_of(count: int, draw: np.random.Generator) -> np.ndarray:
    """Rows of one length about, as dummies and two balanced classes make them: nothing weak, some columns rare."""
    levels = (3, 4, 6, 10)
    parts = [np.eye(many)[draw.choice(many, count, p=draw.dirichlet(np.ones(many)))] for many in levels]
    signs = draw.choice([-1.0, 1.0], count) * draw.uniform(0.3, 0.7, count)
    return np.column_stack([*parts, np.ones(count)]) * signs[:, None]


def heavy_tailed(count: int, width: int, draw: np.random.Generator) -> np.ndarray:
    """Squares and products of columns, as polynomial features make them: the longest are a hundred times a usual one."""
    raw = draw.standard_t(3, (count, width))
    return np.column_stack([raw, *(raw[:, i] * raw[:, j] for i in range(width) for j in range(i + 1))])


@pytest.mark.parametrize("seed", range(3))
def test_what_long_rows_leave_is_absorbed_by_short_ones(seed):
    """Rows of all lengths, the longest far longer than the others: the residual is as short as short rows are."""
    draw = np.random.default_rng(seed)
    rows = heavy_tailed(8000, 5, draw) * draw.uniform(0.0, 1.0, (8000, 1)) ** 4
    rows = rows @ np.linalg.inv(np.linalg.cholesky(rows.T @ rows / 8000)).T
    chance = np.full(8000, 0.4)
    taken = round_rows(rows, chance, chance @ rows, 3200, 3200, draw)
    assert missing(rows, taken, chance @ rows) < 1e-3 * np.median(np.linalg.norm(rows, axis=1))

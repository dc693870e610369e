"""Rounding against all subsets, sums from the rows themselves, and many roundings by lot."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from superteach.protocol.queries import Play
from superteach.protocol.queries.match import BINS, Instruction, Report
from superteach.selection import rounding
from superteach.selection.rounding import (
    ENOUGH,
    InPlay,
    best_subset,
    finish,
    polish,
    settle,
)


def rows_of(count: int, width: int, seed: int, octaves: float = 12.0) -> np.ndarray:
    """(w_j, 1) with w_j in any direction, and lengths spread evenly over some octaves."""
    draw = np.random.default_rng([seed, count, width])
    moves = draw.standard_normal((count, width))
    moves *= (2.0 ** -draw.uniform(0.0, octaves, count) / np.linalg.norm(moves, axis=1))[:, None]
    return np.column_stack([moves, np.ones(count)])


def longest_of(rows: np.ndarray) -> float:
    return float(np.linalg.norm(rows[:, :-1], axis=1).max())


def in_play(rows: np.ndarray, fractions: np.ndarray, seed: int = 0) -> InPlay:
    index = 1000 + np.arange(len(rows))
    return InPlay.begin(rows.copy(), fractions, index, longest_of(rows), np.random.default_rng(seed))


def an_order(width: int, cut: int, seed: int = 0, **rest) -> Instruction:
    """Some tilt, a metric and a residual."""
    draw = np.random.default_rng([seed, cut + 1])
    root = np.tril(draw.standard_normal((width, width))) + 3.0 * np.eye(width)
    return Instruction(0.3 * draw.standard_normal(width), cut, root, 0.1 * draw.standard_normal(width), **rest)


@settings(max_examples=80, deadline=None)
@given(some.integers(0, 2**32), some.integers(0, 11), some.integers(1, 4), some.booleans())
def test_the_best_subset_is_that_of_all_subsets(seed, count, width, whole):
    """Rows of real and of small whole numbers (where many subsets tie), down to none at all."""
    draw = np.random.default_rng(seed)
    rows, wanted = draw.standard_normal((count, width)), 2.0 * draw.standard_normal(width)
    if whole:
        rows, wanted = np.round(2.0 * rows), np.round(wanted)
    every = np.array(list(product([False, True], repeat=count))).reshape(2**count, count)
    lowest = np.linalg.norm(wanted - every @ rows, axis=1).min()
    found = best_subset(rows, wanted)
    assert found.shape == (count,)
    assert found.dtype == bool
    assert np.linalg.norm(wanted - found @ rows) == pytest.approx(lowest, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(some.integers(0, 2**32), some.integers(1, 60), some.integers(1, 5))
def test_a_block_leaves_no_more_than_lots_do_in_the_mean(seed, count, width):
    """One by one to the shorter side: ‖left‖² ≤ ‖r‖² + Σ b(1 − b)‖m_j‖², which is what rounding by lot has as its mean."""
    draw = np.random.default_rng(seed)
    rows = rows_of(min(count, rounding.ONE_BY_ONE * (width + 1)), width, seed)
    fractions = draw.uniform(0.01, 0.99, len(rows))
    order = an_order(width + 1, 0, seed)
    taken = rounding.settle_block(rows, fractions, order, draw)
    moves, start = rows @ order.root, order.residual @ order.root
    left = start + (fractions - taken) @ moves
    lots = np.sum(fractions * (1.0 - fractions) * np.square(moves).sum(axis=1))
    assert left @ left <= (start @ start + lots) * (1.0 + 1e-9)
    # Every single step goes to the side that leaves less.
    for j in range(len(rows)):
        before = start + (fractions[:j] - taken[:j]) @ moves[:j]
        sides = [np.linalg.norm(before + (fractions[j] - side) * moves[j]) for side in (0.0, 1.0)]
        assert sides[int(taken[j])] <= min(sides) * (1.0 + 1e-9)


def test_a_long_block_is_settled_by_lot_at_first():
    """Rows before the last twenty per unknown are in with the probability of their fraction."""
    rows = rows_of(4000, 1, 3)
    fractions = np.full(4000, 0.3)
    taken = rounding.settle_block(rows, fractions, an_order(2, 0), np.random.default_rng(1))
    lots = taken[: 4000 - rounding.ONE_BY_ONE * 2]
    assert abs(lots.mean() - 0.3) < 5.0 * np.sqrt(0.3 * 0.7 / len(lots))


@pytest.mark.parametrize("seed", range(4))
def test_an_order_keeps_account_of_every_row(seed):
    """Settled or free, each row is in one place; the sums are those of the rows as their owner has them."""
    draw = np.random.default_rng(seed)
    rows, fractions = rows_of(400, 4, seed), draw.uniform(0.05, 0.95, 400)
    play = in_play(rows, fractions, seed)
    seen = 400
    for number, cut in enumerate((-1, 5, 40, 40, 90)):
        before, order = play, an_order(5, cut, number)
        play = play.obey(order, draw)
        report, chosen = play.report(), np.concatenate([*play.chosen, np.empty(0, int)]).astype(int) - 1000
        free = play.index - 1000
        np.testing.assert_array_equal(play.rows, rows[free])
        assert len(np.unique(np.concatenate([free, chosen]))) == len(free) + len(chosen)
        assert set(free) <= set(before.index - 1000)
        assert np.all(play.classes > cut)
        np.testing.assert_allclose(report.total, rows[chosen].sum(axis=0) + play.fractions @ rows[free], atol=1e-9)
        weight = play.fractions * (1.0 - play.fractions)
        np.testing.assert_allclose(report.curvature, rows[free].T @ (weight[:, None] * rows[free]), atol=1e-9)
        assert report.freedom.sum() == pytest.approx(weight.sum())
        assert report.rows.sum() == len(free) <= seen
        seen = len(free)
        # All free rows are tilted by u'a_j in log-odds, at most by 2.
        old = dict(zip(before.index, before.fractions, strict=True))
        old_odds = np.array([np.log(old[i] / (1.0 - old[i])) for i in play.index])
        odds = np.log(play.fractions / (1.0 - play.fractions))
        np.testing.assert_allclose(odds - old_odds, np.clip(rows[free] @ order.tilt, -2.0, 2.0), atol=1e-6)
    assert 0 < seen < 400
    everything = play.close(np.ones(len(play.rows), dtype=bool))
    assert set(play.index) <= set(everything)
    assert np.all(np.diff(everything) > 0)


def test_rows_are_settled_longest_first():
    """Whatever is free after an order is shorter than what was settled, up to the chance that breaks ties."""
    rows = rows_of(300, 3, 5)
    play = in_play(rows, np.full(300, 0.5)).obey(an_order(4, 30), np.random.default_rng(0))
    free = np.linalg.norm(play.rows[:, :-1], axis=1)
    settled = np.setdiff1d(np.arange(300), play.index - 1000)
    assert 0 < len(settled) < 300
    assert np.log2(free.max() / np.linalg.norm(rows[settled, :-1], axis=1).min()) <= 0.5 + 1e-9


@pytest.mark.parametrize("spare", [0, 250, 1000])
def test_some_rows_stay_free_whatever_the_cut_says(spare):
    """The weakest `spare` of them."""
    play = in_play(rows_of(300, 3, 5), np.full(300, 0.5))
    after = play.obey(an_order(4, BINS, spare=spare), np.random.default_rng(0))
    assert len(after.rows) == min(spare, 300)
    np.testing.assert_array_equal(after.index, play.index[300 - len(after.rows) :])


def same_play(one: InPlay, other: InPlay) -> None:
    for name in ("rows", "classes", "index", "settled"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_allclose(one.fractions, other.fractions, rtol=1e-12)
    np.testing.assert_array_equal(
        one.close(np.zeros(len(one.rows), bool)), other.close(np.zeros(len(other.rows), bool))
    )


def test_an_order_can_be_taken_back():
    """Once: what was before it is there again, rows, fractions, sums and choice; and another order goes from there."""
    first = in_play(rows_of(300, 3, 5), np.random.default_rng(2).uniform(0.1, 0.9, 300))
    second = first.obey(an_order(4, 20), np.random.default_rng(0))
    third = second.obey(an_order(4, 60), np.random.default_rng(1))
    nothing = Instruction(np.zeros(4), -1, np.eye(4), np.zeros(4), take_back=True)
    same_play(third.obey(nothing, np.random.default_rng(9)), second)
    other = an_order(4, 35, 7)
    same_play(
        third.obey(replace(other, take_back=True), np.random.default_rng(3)),
        second.obey(other, np.random.default_rng(3)),
    )
    with_nothing_before = first.obey(nothing, np.random.default_rng(9))
    same_play(with_nothing_before, first)


class Owners:
    """Several owners who obey the same orders, and whose reports are added up."""

    def __init__(self, parts: list[InPlay], seed: int = 0) -> None:
        self.parts, self._draws = parts, [np.random.default_rng([seed, i]) for i in range(len(parts))]

    def ask(self, order: Instruction) -> Report:
        self.parts = [part.obey(order, draw) for part, draw in zip(self.parts, self._draws, strict=True)]
        return self.report()

    def report(self) -> Report:
        """As queries add it up: packed, summed and read."""
        packed = sum(part.report().pack() for part in self.parts)
        width = self.parts[0].rows.shape[1]
        return Play(np.eye(width - 1), 1.0, 0, True, 0.25, 0).read(packed)


def split(play: InPlay, owners: int) -> list[InPlay]:
    """The same rows dealt out; whatever was settled belongs to the first."""
    parts = []
    for owner in range(owners):
        mine = play.index % owners == owner
        parts.append(
            InPlay(
                play.rows[mine], play.fractions[mine], play.classes[mine], play.index[mine],
                play.settled * (owner == 0), play.chosen if owner == 0 else (),
            )
        )  # fmt: skip
    return parts


def test_reports_of_three_owners_add_up_to_that_of_one():
    """After tilts, which need no lots, and after they are taken back."""
    whole = in_play(rows_of(300, 3, 5), np.random.default_rng(2).uniform(0.1, 0.9, 300))
    one, three = Owners([whole]), Owners(split(whole, 3))
    for number in range(4):
        order = an_order(4, -1, number, take_back=number == 2)
        for mine, theirs in zip(one.ask(order), three.ask(order), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("owners", [1, 3])
def test_settling_ends_with_few_free_rows_and_on_target(owners):
    """Hundreds of rows become rows or none; what the lesson adds up to stays where the free ones can make up for it."""
    rows, fractions = rows_of(800, 10, 1), np.full(800, 0.25)
    whole, target = in_play(rows, fractions), fractions @ rows
    held = Owners(split(whole, owners))
    asked = []

    def ask(order: Instruction) -> Report:
        asked.append(order)
        return held.ask(order)

    last = settle(ask, held.report(), target, longest_of(rows), owners, 0, ENOUGH)
    chosen = np.concatenate([piece for part in held.parts for piece in part.chosen]) - 1000
    free = np.concatenate([part.index for part in held.parts]) - 1000
    b = np.concatenate([part.fractions for part in held.parts])
    np.testing.assert_allclose(last.total, rows[chosen].sum(axis=0) + b @ rows[free], atol=1e-9)
    freedom = float(b @ (1.0 - b))
    assert freedom <= 2.0 * ENOUGH * 11
    assert len(free) < 400
    assert 2 < len(asked) < 60
    # Rows by lot would leave about the first of these, and what is left can be absorbed by the free rows.
    lots = np.sqrt(np.sum(fractions * (1.0 - fractions) * np.square(rows[:, :-1]).sum(axis=1)))
    assert np.linalg.norm((target - last.total)[:-1]) < 0.05 * lots
    curvature = rows[free].T @ ((b * (1.0 - b))[:, None] * rows[free])
    residual = target - last.total
    assert residual @ np.linalg.pinv(curvature) @ residual < freedom


def test_a_direction_that_few_rows_carry_costs_no_more_rounds(monkeypatch):
    """Fifteen directions of forty are carried by sixty rows alone: once these are settled nothing absorbs what they leave
    there, and tilts that try to would use up the freedom that all other directions need.
    """
    rows, fractions = rows_of(1500, 40, 1, 8.0), np.full(1500, 0.2)
    rows[:60, :-1] /= np.linalg.norm(rows[:60, :-1], axis=1)[:, None]
    rows[60:, 25:40] *= 1e-6
    obeyed, obey = [], InPlay.obey
    monkeypatch.setattr(InPlay, "obey", lambda play, order, draw: obeyed.append(order) or obey(play, order, draw))
    limit = rounding.SLOW_ENOUGH[0] * rounding.TILT
    draw = np.random.default_rng(0)
    taken = finish(rows, fractions, np.zeros(41), 0, 1500, draw, limit=limit, weak=rounding.WEAK)
    left = (fractions - taken) @ rows
    lots = np.sqrt(0.16 * np.square(rows).sum(axis=0))
    assert len(obeyed) < 60
    assert np.linalg.norm(left[:25]) < 0.01 * np.linalg.norm(lots[:25])
    assert np.linalg.norm(left[25:40]) < np.linalg.norm(lots[25:40])


def by_lot(rows, fractions, wanted, least, most, tries, seed) -> np.ndarray:
    """What roundings by lot leave, with a right count: ‖wanted − Σ w_j‖ of each."""
    draw = np.random.default_rng(seed)
    left = []
    while len(left) < tries:
        taken = draw.random(len(rows)) < fractions
        if least <= taken.sum() <= most:
            left.append(np.linalg.norm(wanted - taken @ rows[:, :-1]))
    return np.array(left)


@pytest.mark.parametrize(("width", "count"), [(1, 40), (2, 40), (5, 60), (10, 90), (30, 200)])
def test_a_finish_beats_a_thousand_lots(width, count):
    """By far, with as many rows as asked; in few dimensions by orders of magnitude."""
    ratios = []
    for seed in range(3):
        draw = np.random.default_rng(seed)
        rows, fractions = rows_of(count, width, seed, 6.0), draw.uniform(0.1, 0.9, count)
        asked = round(float(fractions.sum()))
        residual = np.append(1e-3 * draw.standard_normal(width), asked - fractions.sum())
        taken = finish(rows, fractions, residual, asked, asked, draw)
        assert taken.sum() == asked
        wanted = (residual + fractions @ rows)[:-1]
        best = by_lot(rows, fractions, wanted, asked, asked, 1000, seed).min()
        ratios.append(np.linalg.norm(wanted - taken @ rows[:, :-1]) / best)
    assert np.median(ratios) < {1: 0.1, 2: 0.02, 5: 0.1, 10: 0.2, 30: 0.5}[width]


@settings(max_examples=60, deadline=None)
@given(
    some.integers(0, 2**32), some.integers(1, 40), some.integers(1, 6), some.integers(0, 40), some.integers(0, 40)
)  # fmt: skip
def test_a_finish_takes_as_many_rows_as_it_may(seed, count, width, least, extra):
    """At least so many and at most so many, whatever fractions and residual say."""
    draw = np.random.default_rng(seed)
    rows, fractions = rows_of(count, width, seed), draw.random(count)
    least = min(least, count)
    most = least + extra
    residual = 3.0 * draw.standard_normal(width + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounding, "EXACT", ((24, 10),))  # 2¹⁰ subsets are enough where quality is not looked at
        taken = finish(rows, fractions, residual, least, most, draw, starts=2)
    assert taken.shape == (count,)
    assert least <= taken.sum() <= most
    idle = rows * np.append(np.zeros(width), 1.0)  # rows that pull at nothing fill up
    assert least <= finish(idle, fractions, residual, least, most, draw).sum() <= most


def test_more_starts_end_no_farther_away():
    """The first of several starts is that of one."""
    gained = 0
    for seed in range(6):
        rows, fractions = rows_of(60, 12, seed), np.full(60, 0.4)
        left = []
        for starts in (1, 4):
            taken = finish(rows, fractions, np.zeros(13), 20, 28, np.random.default_rng(seed), starts=starts)
            left.append(np.linalg.norm((fractions @ rows - taken @ rows)[:-1]))
        assert left[1] <= left[0]
        gained += left[1] < left[0]
    assert gained


def test_what_lies_beyond_is_aimed_at_last():
    """Rows are settled around the fractional sum; polishing goes for what the fractional lesson itself lacks."""
    rows, fractions = rows_of(80, 3, 2, 3.0), np.full(80, 0.5)
    beyond = np.array([0.3, -0.2, 0.2])
    near, far = (finish(rows, fractions, np.zeros(4), 30, 50, np.random.default_rng(0), aim) for aim in (0.0, beyond))
    wanted = (fractions @ rows)[:-1]
    assert np.linalg.norm(wanted - near @ rows[:, :-1]) < 0.01
    assert np.linalg.norm(wanted + beyond - far @ rows[:, :-1]) < 0.2 * np.linalg.norm(beyond)


@pytest.mark.parametrize("seed", range(5))
def test_polishing_leaves_no_pair_to_exchange(seed):
    """The count is put right, then the residual only shrinks, to where no row in and row out would shorten it."""
    draw = np.random.default_rng(seed)
    rows, wanted = draw.standard_normal((50, 3)), 3.0 * draw.standard_normal(3)
    start = draw.random(50) < 0.4
    count = int(start.sum())
    taken = polish(rows, start, wanted, count, count)
    assert taken.sum() == count
    left = wanted - taken @ rows
    assert np.linalg.norm(left) <= np.linalg.norm(wanted - start @ rows)
    for into in np.flatnonzero(~taken):
        after = np.linalg.norm(left - rows[into] + rows[taken], axis=1)
        assert after.min() >= np.linalg.norm(left) * (1.0 - 1e-5)
    for least, most in ((count + 7, 50), (0, count - 7)):
        assert polish(rows, start, wanted, least, most).sum() == (least if least > count else most)


@pytest.mark.parametrize("owners", [1, 3])
def test_two_hundred_rows_of_four_thousand(owners):
    """Ten columns, rows of all strengths: settled and finished, far nearer than the best of a thousand lots."""
    rows, draw = rows_of(4000, 10, 4), np.random.default_rng(1)
    drawn = rows[draw.random(4000) < 0.2]  # of fraction 0.05 each; thinned they have 0.25
    fractions = np.full(len(drawn), 0.25)
    target = np.append((fractions @ drawn)[:-1], 200.0)
    held = Owners(split(in_play(drawn, fractions), owners))
    last = settle(held.ask, held.report(), target, longest_of(drawn), owners, 0, ENOUGH)
    free = np.concatenate([part.rows for part in held.parts])
    b = np.concatenate([part.fractions for part in held.parts])
    missing = 200 - sum(len(piece) for part in held.parts for piece in part.chosen)
    taken = finish(free, b, target - last.total, missing, missing, draw)
    edges = np.cumsum([len(part.rows) for part in held.parts])[:-1]
    closed = [part.close(mine) for part, mine in zip(held.parts, np.split(taken, edges), strict=True)]
    chosen = np.sort(np.concatenate(closed)) - 1000
    assert len(np.unique(chosen)) == len(chosen) == 200
    left = np.linalg.norm((target - drawn[chosen].sum(axis=0))[:-1])
    lots = by_lot(drawn, np.full(len(drawn), 200 / len(drawn)), target[:-1], 200, 200, 1000, 2)
    assert left < 1e-3 * lots.min()
    # About as short as the weakest rows that are in the lesson.
    assert left < np.quantile(np.linalg.norm(drawn[chosen, :-1], axis=1), 0.2)

"""Changes proposed by all teachers: what they say is true, what is picked is best, and rows stay hidden."""

from __future__ import annotations

from itertools import chain, combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import superteach as st
from superteach.classroom import enter
from superteach.errors import QueryRefused
from superteach.goals import PerturbedFit
from superteach.halves import near_subsets
from superteach.losses import LOSSES, Logistic, Squared
from superteach.messages import Turn
from superteach.methods import combine
from superteach.methods.combine import Proposals
from superteach.methods.match import Matcher
from superteach.queries import Accept, AskMoments, Balance, Keep, Prepare, Propose, RankRows, Refine
from superteach.teacher import refine as turns_of
from superteach.teacher.proposals import Proposed, propose
from superteach.teacher.ranks import random_keys


def lowest(shifts, balance, groups, residual) -> float:
    """The shortest residual that any subset in balance leaves, one of a group at most, by trying them all."""
    options = [[None, *np.flatnonzero(groups == group)] for group in np.unique(groups)]
    best = np.inf
    for pick in product(*options):
        made = [move for move in pick if move is not None]
        if balance[made].sum() == 0:
            best = min(best, float(np.linalg.norm(residual + shifts[made].sum(axis=0))))
    return best


@given(seed=some.integers(0, 2**32), single=some.integers(0, 8), several=some.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_the_best_subset_is_found(seed, single, several):
    """Single rows in any number, and one change of each teacher that proposed several rows, against all subsets."""
    draw = np.random.default_rng(seed)
    owners = np.concatenate([draw.integers(0, 3, single), np.repeat(np.arange(3, 3 + several), 2)]).astype(
        int
    )
    balance = np.concatenate([draw.choice([-1, 1], single), np.zeros(2 * several)]).astype(int)
    shifts, residual = draw.standard_normal((len(owners), 2)), draw.standard_normal(2)
    offers = Proposals(owners, np.arange(len(owners)), shifts, balance)
    made = offers.best(residual)
    assert balance[made].sum() == 0
    assert all(np.count_nonzero((owners[made] == owner) & (balance[made] == 0)) <= 1 for owner in owners)
    groups = np.where(balance == 0, owners + 100, np.arange(len(owners)))
    left = float(np.linalg.norm(residual + shifts[made].sum(axis=0)))
    best = lowest(shifts, balance, groups, residual)
    # Each half may be out of balance by one row only, so a few subsets of single rows are not looked at.
    assert left >= best - 1e-12
    if single <= 2:
        assert left == pytest.approx(best, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_of_single_rows_the_best_of_all_subsets_is_found(seed):
    """Nine rows of three teachers, as they come: searches that go on from one another leave no better subset."""
    draw = np.random.default_rng(seed)
    owners, balance = draw.integers(0, 3, 9), draw.choice([-1, 1], 9)
    shifts, residual = draw.standard_normal((9, 2)), draw.standard_normal(2)
    made = Proposals(owners, np.arange(9), shifts, balance).best(residual)
    left = float(np.linalg.norm(residual + shifts[made].sum(axis=0)))
    assert left == pytest.approx(lowest(shifts, balance, np.arange(9), residual), rel=1e-3, abs=1e-6)


def test_several_subsets_come_in_order():
    """For every way of one half the nearest of the other, against all subsets of a dozen moves."""
    draw = np.random.default_rng(0)
    moves, balance = draw.standard_normal((12, 3)), np.tile([-1, -1, 1, 1], 3)
    found = near_subsets(moves, balance, np.zeros(3), least=2, askew=6, count=100)
    lengths = np.linalg.norm(found @ moves, axis=1)
    every = np.array(list(product([False, True], repeat=12)))
    fits = every[(every @ balance == 0) & every[:, ::2].any(axis=1) & every[:, 1::2].any(axis=1)]
    nearest: dict[bytes, float] = {}
    for subset, length in zip(fits, np.linalg.norm(fits @ moves, axis=1), strict=True):
        key = subset[::2].tobytes()
        nearest[key] = min(nearest.get(key, np.inf), float(length))
    np.testing.assert_allclose(lengths, sorted(nearest.values())[:100], rtol=1e-4, atol=1e-6)
    assert len(np.unique(found, axis=0)) == len(found) == min(100, len(nearest))


def test_a_half_has_bits_for_so_many_moves():
    """A code is one number: moves beyond its bits would be lost without a word."""
    with pytest.raises(ValueError, match="too many: a half has room for 62"):
        near_subsets(np.ones((126, 2)), np.tile([1, -1], 63), np.zeros(2), most=1)
    alone = Proposals(np.zeros(99, int), np.arange(99), np.ones((99, 2)), np.zeros(99, int))
    with pytest.raises(ValueError, match="too many"):
        alone.best(np.ones(2))


@given(seed=some.integers(0, 2**32), least=some.sampled_from([2, 4, 9, 10, 15]), turns=some.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_no_two_choices_that_were_told_of_are_near(seed, least, turns):
    """Every change and every earlier choice, subtracted from one another, leave the agreed number of rows."""
    draw = np.random.default_rng(seed)
    shifts = draw.standard_normal((120, 3)) * draw.exponential(1.0, (120, 1))
    past = tuple(np.sort(draw.choice(120, 40, replace=False)) for _ in range(turns))
    chosen = np.sort(draw.choice(120, 40, replace=False))
    if any(len(np.setxor1d(chosen, old)) < least for old in past):
        return
    offer = propose(shifts, chosen, 9, least, past)
    told = [chosen, *past, *offer.choices]
    for one, other in combinations(told, 2):
        assert len(np.setxor1d(one, other)) >= least or np.array_equal(one, other)
    assert all(len(choice) == len(chosen) for choice in offer.choices)
    assert len(offer.changes) > 0 or least > 10


def asked(kind: str, pool, least: int = 1, each: int = 6):
    """A teacher with chosen rows, and its proposals."""
    X, y = pool(kind, 200, 3, 5)
    teacher = st.Teacher("a", X, y, np.arange(200), least_change=least)
    goal = np.array([0.4, -0.3, 0.2])
    turn, state = Turn(1, 0, 1), teacher.start()
    for query in (
        Prepare(LOSSES[kind](), 0.0),
        Balance(goal, np.eye(3), 0.1, 0.03, 5),
        RankRows("random", seed=4),
        Keep(b"\x60" + b"\xff" * 15),
    ):
        state, _ = teacher.answer(query, state, turn)
    query = Propose(goal, np.eye(3), 1, each, (0,) * each + (1,), (*range(each), 0))
    state, sealed = teacher.answer(query, state, turn)
    return teacher, goal, state, query.read(sealed.values)


@pytest.mark.parametrize("kind", sorted(LOSSES))
@pytest.mark.parametrize("least", [1, 6])
def test_a_proposal_is_what_making_it_does(kind, least, pool):
    """The gradient of the chosen rows' loss falls by just the pulls proposed, and the count of rows grows by theirs."""
    teacher, goal, state, slots = asked(kind, pool, least)
    turn = Turn(2, 0, 1)
    moments = AskMoments("loss", "chosen", goal, 2)
    before = moments.read(teacher.answer(moments, state, turn)[1].values)
    assert len(state.proposed.changes) > 1
    assert not slots[-1].any(), "another teacher's slot stays empty"
    for number, slot in enumerate(slots[:-1]):
        accept = Accept(goal, (0, 1), (number, 0))
        after, sealed = teacher.answer(accept, state, turn)
        np.testing.assert_allclose(
            before.gradient - accept.read(sealed.values).gradient, slot[:-1], atol=1e-9
        )
        assert len(after.chosen) - len(state.chosen) == round(slot[-1])
        if number < len(state.proposed.changes):
            assert len(np.setxor1d(after.chosen, state.chosen)) >= least
        back, _ = teacher.answer(Accept(goal, (), ()), after, turn)
        assert np.array_equal(back.chosen, state.chosen)


def test_of_changes_of_several_rows_one_is_made(pool):
    """They have rows in common, and the choice that two lead to was never compared with the others."""
    teacher, goal, state, _ = asked("logistic", pool, least=6)
    with pytest.raises(QueryRefused, match="makes one of its changes, not 2"):
        teacher.answer(Accept(goal, (0, 0), (0, 1)), state, Turn(2, 0, 1))


def test_a_teacher_proposes_once(pool):
    """Asked again with another matrix it says the same: other sums over nearly the same rows would be told."""
    teacher, goal, state, slots = asked("logistic", pool, least=6)
    query = Propose(goal, np.diag([9.0, 1.0, 0.1]), 1, 6, (0,) * 6 + (1,), (*range(6), 0))
    again, sealed = teacher.answer(query, state, Turn(2, 0, 1))
    assert again.proposed is state.proposed
    np.testing.assert_array_equal(query.read(sealed.values), slots)
    for other in (Keep(b"\x60" + b"\xff" * 15), Keep(b"\x50" + b"\xff" * 15)):
        moved, _ = teacher.answer(other, state, Turn(3, 0, 1))
        again, sealed = teacher.answer(query, moved, Turn(4, 0, 1))
        assert not sealed.values.any(), "nothing is told of another choice"
        after, _ = teacher.answer(Accept(goal, (0,), (0,)), again, Turn(5, 0, 1))
        assert after.chosen is moved.chosen, "and nothing that was proposed for the last one is made"


def test_a_turn_after_proposals_keeps_its_distance(pool):
    """What was proposed was told, so a later turn is as far from it as from any choice."""
    teacher, goal, state, _ = asked("logistic", pool, least=6)
    residual = np.array([0.05, -0.02, 0.03])
    for turn in range(8):
        query = Refine(0, goal, residual, np.eye(3), 6, 3, turn)
        state, _ = teacher.answer(query, state, Turn(3 + turn, 0, 1))
    assert len(state.past) > 7
    told = {tuple(choice) for choice in state.past}
    assert all(len(set(one) ^ set(other)) >= 6 for one, other in combinations(told, 2))


def test_single_rows_are_the_weakest_of_both_sides():
    """A quarter at least would leave, a quarter at least would enter, and each side brings its weakest."""
    shifts = np.arange(1.0, 41.0)[:, None]
    offer = propose(shifts, np.arange(30, 40), 8, 1, ())
    flips = list(chain.from_iterable(offer.changes))
    assert flips == [0, 1, 2, 3, 4, 5, 30, 31]
    assert offer.together
    assert [int(rows[0]) for rows in propose(shifts, np.arange(30, 40), 2, 1, ()).changes] == [0, 30]
    for chosen, side in ((np.arange(0), range(8)), (np.arange(40), range(8))):
        assert [int(rows[0]) for rows in propose(shifts, chosen, 8, 1, ()).changes] == list(side)
    assert not Proposed(np.arange(3), (np.array([0, 5]),)).together


@pytest.mark.parametrize("K", [1, 3, 40, 120])
@pytest.mark.parametrize("intercept", ["none", "free"])
def test_all_together_end_nearer(K, intercept, pool):
    """Ledger, size and risk of whole lessons: nine rounds of proposals at most, and the last change is no loss."""
    X, y = pool("logistic", 960, 3, 8)
    parts = np.array_split(np.arange(960), K)
    teachers = [st.Teacher(f"t{i}", X[part], y[part], part) for i, part in enumerate(parts)]
    federation = st.Federation(st.InProcess(teachers))
    lesson = st.teach(
        federation,
        st.Learner(Logistic(), 1.0, intercept),
        PerturbedFit(1),
        budget=80,
        method="match",
        least_change=1,
    )
    names = [entry.query for entry in lesson.ledger]
    assert lesson.size == 80
    assert 0 < names.count("Propose") <= 9
    assert names.count("Accept") == 1
    assert lesson.objective[-1] < lesson.objective[:-1].min()
    assert lesson.risk == pytest.approx(lesson.objective[-1], rel=0.2, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_teachers_with_different_rules_work_together(seed, pool):
    """Some propose single rows, some changes of several, of which one is made."""
    X, y = pool("squared", 1200, 4, seed)
    parts = np.array_split(np.arange(1200), 8)
    teachers = [
        st.Teacher(f"t{i}", X[part], y[part], part, least_change=1 if i % 2 else 6)
        for i, part in enumerate(parts)
    ]
    federation = st.Federation(st.InProcess(teachers))
    lesson = st.teach(
        federation, st.Learner(Squared(), 1.0), PerturbedFit(seed), budget=160, method="match", least_change=1
    )
    assert lesson.size == 160
    assert "Accept" in [entry.query for entry in lesson.ledger]
    assert lesson.objective[-1] <= lesson.objective[:-1].min()


@pytest.mark.parametrize("how", [{"restarts": 3}, {"budget": (40, 44)}, {"budget": "best"}])
def test_changes_of_several_rows_are_told_once_in_a_lesson(how, pool):
    """Searches of many sizes or starts would tell of nearly the same changes again and again."""
    X, y = pool("squared", 1200, 4, 3)
    parts = np.array_split(np.arange(1200), 6)
    engine = st.InProcess([st.Teacher(f"t{i}", X[part], y[part], part) for i, part in enumerate(parts)])
    settings = {"budget": 120, "method": "match", "least_change": 6, **how}
    lesson = st.teach(st.Federation(engine), st.Learner(Squared(), 1.0), PerturbedFit(3), **settings)
    assert "Propose" not in [entry.query for entry in lesson.ledger]
    single = st.teach(
        st.Federation(engine),
        st.Learner(Squared(), 1.0),
        PerturbedFit(3),
        **{**settings, "budget": 120, "restarts": 1},
    )
    assert "Propose" in [entry.query for entry in single.ledger]


def test_what_the_learner_refuses_is_taken_back(pool, monkeypatch):
    """Changes that leave a classifier one class are undone, and the lesson is what the turns made it."""
    X, y = pool("logistic", 960, 3, 8)
    engine = st.InProcess([st.Teacher("a", X, y, np.arange(960))])
    settings = {"budget": 80, "method": "match", "least_change": 1}
    monkeypatch.setattr(Matcher, "_taught", lambda matcher: False)
    lesson = st.teach(st.Federation(engine), st.Learner(Logistic(), 1.0), PerturbedFit(1), **settings)
    assert [entry.query for entry in lesson.ledger].count("Accept") == 2
    assert lesson.objective[-1] == lesson.objective[-3] > lesson.objective[-2]
    assert lesson.risk == pytest.approx(lesson.objective[-1], rel=0.2)


@pytest.mark.parametrize(("positive", "fits"), [(1, True), (0, False), (4, False)])
def test_a_classifier_needs_both_classes(positive, fits):
    """A count of the chosen rows tells; a learner that never refuses is not asked about."""
    X = np.arange(24.0).reshape(8, 3)
    ranks = random_keys(np.arange(8, dtype=np.uint64), 1)
    first = np.argsort(ranks)[:4]
    y = np.where(np.arange(8) % 2, 1.0, -1.0)
    y[first] = np.where(np.arange(4) < positive, 1.0, -1.0)
    y[np.setdiff1d(np.arange(8), first)] = [1.0, -1.0, 1.0, -1.0]
    for loss, expected in ((Logistic(), fits), (Squared(), True)):
        engine = st.InProcess([st.Teacher("a", X, y, np.arange(8))])
        room = enter(st.Federation(engine), st.Learner(loss, 1.0), None, standardize=False)
        room.federation.sum(RankRows("random", seed=1))
        room.federation.sum(Keep(int(ranks[first[-1]]).to_bytes(8, "big") + b"\xff" * 8))
        assert set(engine.states()[0].chosen) == set(first)
        assert Matcher(room, np.ones(3), 0, 1, 0.0)._taught() is expected


def test_where_a_change_must_be_large_there_is_none():
    """Small changes of very many rows do not exist, and looking for one would take all memory."""
    shifts = np.random.default_rng(0).standard_normal((400, 10))
    assert propose(shifts, np.arange(100), 9, 21, ()).changes == ()
    assert len(propose(shifts, np.arange(100), 9, 20, ()).changes) > 0


@given(seed=some.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_some_changes_are_made_and_taken_back(seed):
    """From any changes made: the lesson keeps its size, a teacher makes one of several rows, the residual only shrinks."""
    draw = np.random.default_rng(seed)
    owners = np.concatenate([draw.integers(0, 4, 90), np.repeat(np.arange(4, 8), 5)])
    balance = np.concatenate([draw.choice([-1, 1], 90), np.zeros(20)]).astype(int)
    shifts, start = draw.standard_normal((110, 3)), draw.standard_normal(3)
    offers, made = Proposals(owners, np.arange(110), shifts, balance), np.zeros(110, dtype=bool)
    left = [float(np.linalg.norm(start))]
    for _ in range(3):
        made = offers.some(start + shifts[made].sum(axis=0), made, draw)
        assert balance[made].sum() == 0
        several = owners[made & (balance == 0)]
        assert len(several) == len(set(several.tolist()))
        left.append(float(np.linalg.norm(start + shifts[made].sum(axis=0))))
    assert np.all(np.diff(left) <= 1e-9)
    assert left[-1] < 0.05 * left[0]


def test_long_changes_by_which_rows_leave_are_searched_through():
    """Two hundred short changes by which rows enter leave room for ten long ones by which rows leave."""
    draw = np.random.default_rng(8)
    shifts = draw.standard_normal((212, 3))
    balance = np.concatenate([np.ones(200), -np.ones(12)]).astype(int)
    shifts[200:] *= 20.0
    # One of each kind cancels the residual, and without those by which rows leave nothing can be made.
    residual = np.full(3, 0.5)
    shifts[0] = -residual - shifts[205]
    offers = Proposals(np.zeros(212, dtype=int), np.arange(212), shifts, balance)
    lengths = np.linalg.norm(shifts, axis=1)
    drawn = offers._drawn(lengths, 4.0, np.zeros(212, dtype=bool), draw)
    assert np.count_nonzero(balance[drawn] < 0) == 12
    assert len(set(drawn.tolist())) == len(drawn) == 72
    few = Proposals(
        *(part[[0, *range(150, 212)]] for part in (offers.owners, offers.numbers, shifts, balance))
    )
    made = few.some(residual, np.zeros(63, dtype=bool), draw)
    assert np.linalg.norm(residual + few.shifts[made].sum(axis=0)) < 0.05
    # What is made is taken back the other way round.
    leaves = (few.balance < 0) != made
    assert np.count_nonzero(leaves[few._drawn(lengths[: len(made)], np.inf, made, draw)]) == min(
        15, leaves.sum()
    )


def test_more_rows_are_told_of_beside_the_first():
    """A second gathering: other rows, those that enter within reach, and the first keep their numbers."""
    draw = np.random.default_rng(5)
    shifts, chosen = draw.standard_normal((400, 3)), np.arange(40)
    size = np.linalg.norm(shifts, axis=1)
    first = propose(shifts, chosen, 8, 1, (), None, 1.2, 7)
    second = propose(shifts, chosen, 16, 1, (), first, 0.9, 7)
    rows = np.concatenate(second.changes)
    assert second.changes[:8] == first.changes
    assert len(set(rows.tolist())) == 16
    assert np.all(size[rows[:8]][rows[:8] >= 40] <= 1.2)
    assert np.all(size[rows[8:]][rows[8:] >= 40] <= 0.9)
    assert np.count_nonzero(rows < 40) == 8
    assert propose(shifts, chosen, 16, 1, (), first, 0.9, 7).changes[-1] == second.changes[-1]


@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_a_small_lesson_is_searched_longer(kind, pool, federation_of, chosen_rows, monkeypatch):
    """Turns twice, changes told of three times; what is said at the end is what the chosen rows teach, and is nearer."""
    X, y = pool(kind, 2_000, 5, 2)
    loss = Logistic() if kind == "logistic" else Squared()

    def taught():
        federation = federation_of(X, y, 5)
        settings = {"budget": 40, "method": "match", "least_change": 1}
        return federation, st.teach(federation, st.Learner(loss, 1.0), PerturbedFit(2), **settings)

    federation, lesson = taught()
    names = [entry.query for entry in lesson.ledger]
    assert lesson.size == len(set(chosen_rows(federation).tolist())) == 40
    assert names.count("Refine") == 10
    assert 3 <= names.count("Recall") <= 4
    assert names.count("Propose") % 3 == 0
    assert 0 < names.count("Accept") <= 2 * combine.GATHERINGS * combine.TIMES + 1
    assert np.all(np.diff(lesson.objective) <= 0.01 * lesson.objective[:-1])
    assert lesson.risk == pytest.approx(lesson.objective[-1], rel=0.2, abs=1e-9)
    monkeypatch.setattr(combine, "GATHERINGS", 0)
    assert lesson.risk < 0.3 * taught()[1].risk


def small(pool, federation_of, chosen_rows, seed: int = 2):
    """A small lesson, and the rows that it ends with."""
    X, y = pool("squared", 2_000, 5, seed)
    federation = federation_of(X, y, 5)
    settings = {"budget": 40, "method": "match", "least_change": 1}
    lesson = st.teach(federation, st.Learner(Squared(), 1.0), PerturbedFit(2), **settings)
    return lesson, np.sort(chosen_rows(federation))


def ends(lesson: st.Lesson) -> list[float]:
    """What each run of turns ended with."""
    turns = [entry.risk for entry in lesson.ledger if entry.query == "Refine"]
    return [turns[4], turns[9]]


def test_of_two_runs_of_turns_the_better_is_kept(pool, federation_of, chosen_rows, monkeypatch):
    """Whether it was the first or the second."""
    monkeypatch.setattr(combine, "GATHERINGS", 0)
    better = set()
    for seed in range(6):
        lesson, _ = small(pool, federation_of, chosen_rows, seed)
        assert lesson.risk == pytest.approx(min(ends(lesson)), rel=1e-3)
        better.add(int(np.argmin(ends(lesson))))
    assert better == {0, 1}


def test_turns_that_lead_away_are_taken_back(pool, federation_of, chosen_rows, monkeypatch):
    """The start is kept where turns make it worse."""
    monkeypatch.setattr(combine, "GATHERINGS", 0)

    def away(shifts, chosen, residual, *_):
        return np.sort(np.append(chosen[1:], np.setdiff1d(np.arange(len(shifts)), chosen)[:1]))

    monkeypatch.setattr(turns_of, "improve", away)
    lesson, _ = small(pool, federation_of, chosen_rows)
    assert min(ends(lesson)) > lesson.objective[0]
    assert lesson.risk == pytest.approx(lesson.objective[0], rel=1e-3)


def test_changes_that_did_not_help_are_taken_back(pool, federation_of, chosen_rows, monkeypatch):
    """What was predicted wrongly, and what the learner refuses: the lesson ends as the turns left it."""
    with monkeypatch.context() as patch:
        patch.setattr(combine, "GATHERINGS", 0)
        turns, rows = small(pool, federation_of, chosen_rows)

    def strongest(offers, residual, made, draw):
        order = np.argsort(np.linalg.norm(offers.shifts, axis=1))
        worst = made.copy()
        worst[[order[offers.balance[order] > 0][-1], order[offers.balance[order] < 0][-1]]] ^= True
        return worst

    with monkeypatch.context() as patch:
        patch.setattr(Proposals, "some", strongest)
        lesson, after = small(pool, federation_of, chosen_rows)
        assert "Accept" in [entry.query for entry in lesson.ledger]
        np.testing.assert_array_equal(after, rows)
        assert lesson.risk == turns.risk
    monkeypatch.setattr(Matcher, "_taught", lambda self: False)
    lesson, after = small(pool, federation_of, chosen_rows)
    assert min(entry.risk for entry in lesson.ledger if entry.risk is not None) < 0.9 * turns.risk
    np.testing.assert_array_equal(after, rows)
    assert lesson.risk == turns.risk


def test_no_more_is_asked_where_nothing_new_is_told(pool):
    """Teachers who insist on several rows tell of changes once; a second gathering ends it."""
    X, y = pool("squared", 2_000, 5, 2)
    parts = np.array_split(np.arange(2_000), 5)
    teachers = [st.Teacher(f"t{i}", X[part], y[part], part, least_change=6) for i, part in enumerate(parts)]
    settings = {"budget": 40, "method": "match", "least_change": 1}
    federation = st.Federation(st.InProcess(teachers))
    lesson = st.teach(federation, st.Learner(Squared(), 1.0), PerturbedFit(2), **settings)
    asked = [entry.query for entry in lesson.ledger].count("Propose")
    assert 0 < asked <= 2 * combine.MOST_ROUNDS
    assert "Accept" in [entry.query for entry in lesson.ledger]

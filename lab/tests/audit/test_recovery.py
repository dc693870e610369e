"""Rows read from transcripts: all attacks succeed where rows are not protected, and none where they are."""

from __future__ import annotations

import numpy as np
import pytest
from superteach.privacy.terms import PromiseTerms

from superteach_lab.audit import crafted, membership, recovery

POOLS = ("synthetic", "breast cancer")


@pytest.mark.parametrize("pool", POOLS)
def test_chosen_rows_are_read_from_curvatures_under_open(pool, subject, heard):
    found = recovery.from_chosen(subject(pool), heard(pool, "open"))
    assert found.rows >= 0.8 * found.of
    assert found.error <= recovery.EXACT


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("promise", ["closed", "epsilon", "masked"])
def test_a_transcript_under_a_promise_shows_no_row(pool, promise, subject, heard):
    one, lesson = subject(pool), heard(pool, promise)
    chosen = recovery.from_chosen(one, lesson)
    assert (chosen.rows, chosen.questions) == (0, 0)
    assert "no sum over chosen rows" in chosen.said
    assert recovery.from_totals(one, lesson).rows == 0
    assert recovery.from_shown(one, lesson).rows == 0


def test_curvatures_of_more_rows_than_columns_show_none(subject, heard):
    """Eleven totals over all rows under masks: candidates, and no row among them."""
    found = recovery.from_totals(subject("synthetic"), heard("synthetic", "masked"))
    assert found.questions > 2
    assert "none a row" in found.said


@pytest.mark.parametrize(("promise", "rows"), [("open", 1), ("masked", 1), ("closed", 0)])
def test_two_totals_less_each_other_are_a_row_unless_there_is_noise(promise, rows, subject):
    """Masks do not promise against this, and the audit says so."""
    found = recovery.one_row_more(subject("synthetic"), promise)
    assert found.rows == rows
    assert not rows or found.error <= 1e-9


def test_noise_covers_a_difference_of_totals(subject):
    """Each number misses what the row changed by about √2 deviations, and the row changed all of them by far less."""
    found = recovery.one_row_more(subject("synthetic"), "epsilon")
    assert (found.rows, found.of) == (0, 1)
    words = found.said.split()
    assert 1.0 < float(words[words.index("by") + 1]) < 2.0
    assert float(words[-1]) < 0.5


@pytest.mark.parametrize(("promise", "rows"), [("open", 1), ("masked", 0)])
def test_one_row_more_in_the_lesson_shows_it_under_open_alone(promise, rows, subject):
    assert recovery.one_budget_more(subject("synthetic"), promise).rows == rows


@pytest.mark.parametrize(("promise", "given"), [("open", 1), ("masked", 1), ("closed", 0)])
def test_a_teacher_that_stays_away_gives_its_sums_away(promise, given, subject):
    found = recovery.one_teacher_more(subject("synthetic"), promise)
    assert found.rows == 0
    assert ("gave away" in found.said) == bool(given)


@pytest.mark.parametrize("promise", ["open", "masked", "epsilon", "closed"])
def test_crafted_questions_are_refused_where_rows_are_protected(promise, subject):
    for attack in crafted.crafted_for(promise):
        found = crafted.deviate(subject("synthetic"), PromiseTerms(promise, 4), attack)
        if promise in ("closed", "epsilon"):
            assert found.rows == 0, found
            assert found.said.startswith("refused: "), found
        elif promise == "open":
            assert found.rows == 1, found
        assert found.questions <= crafted.MOST


def test_masks_let_crafted_questions_pass_but_for_sums_over_chosen_rows(subject):
    """What the script never asks the guard alone does not refuse: owners run the script themselves."""
    rows = {
        attack: crafted.deviate(subject("synthetic"), PromiseTerms("masked", 4), attack).rows
        for attack in crafted.crafted_for("masked")
    }
    assert rows["keep fewer and fewer rows"] == 0
    assert rows["one row with all the weight"] == 1


def test_rows_pile_up_over_lessons_without_noise(subject, monkeypatch):
    one = subject("synthetic")
    monkeypatch.setattr(membership, "TWENTY", 8)
    assert membership.many_lessons(one, "open", 1.0, 1e-6).rows > one.budget
    assert membership.many_lessons(one, "masked", 1.0, 1e-6).rows >= 8  # few rows weigh anything
    monkeypatch.undo()
    found = membership.many_lessons(one, "epsilon", 1.0, 1e-6)
    assert found.rows == 0
    assert found.questions == 13  # 13 of ε = 1/4 are ε = 0.99, for μ² adds up
    assert membership.many_lessons(one, "closed", 1.0, 1e-6).rows == 0


@pytest.mark.parametrize(("promise", "auc"), [("open", 1.0), ("masked", 1.0), ("closed", 0.5)])
def test_exact_totals_tell_who_was_there(promise, auc, subject, heard):
    one, row = subject("synthetic"), (np.array([1.0, -0.5, 0.3, 0.2]), 1.0)
    transcript = heard("synthetic", promise).transcript
    found, _ = membership.member(one, promise, transcript, row, PromiseTerms("epsilon"), 10)
    assert (found.auc, found.advantage) == (auc, 2.0 * auc - 1.0)


def test_candidates_are_scored_by_direction_or_by_the_whole_row():
    rows = np.array([[3.0, 4.0], [1.0, 0.0]])
    assert recovery.score([np.array([0.6, 0.8])], rows) == (1, pytest.approx(0.0, abs=1e-12))
    assert recovery.score([np.array([3.0, 4.0 + 1e-9])], rows)[0] == 1
    assert recovery.score([np.array([6.0, 8.0])], rows) == (0, None)
    assert recovery.score([], rows) == (0, None)


def test_a_direction_in_one_column_tells_nothing():
    """Every row of one column lies along it, one of value 1 among them; a whole row can still be read."""
    rows = np.array([[3.0], [1.0], [-2.5]])
    assert recovery.score([np.array([1.0]), np.array([-1.0])], rows) == (0, None)
    assert recovery.score([np.array([3.0])], rows) == (1, 0.0)

"""Attacks succeed where rows are not protected, and find nothing where they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from superteach.privacy.accounting import Mode
from superteach_lab.audit import attacks, broken, delivered
from superteach_lab.audit.subject import Door, listen

PRIVATE = ("isolated", "dp")


def test_rows_are_read_where_nothing_protects_them(subject, transcript):
    none = Mode("none")
    assert attacks.work_out_chosen(subject, none).rows >= 5
    assert attacks.work_out_missing(subject, transcript("none"), none).rows == 1
    assert attacks.read_outright(subject, transcript("none"), none).rows >= subject.budget


def test_a_missing_row_is_worked_out_where_others_are_fitted_all_too_well(subject):
    """The last row of the first owner is so far on its own side that the fit says next to nothing of it."""
    X, y = subject.parts[0]
    X = X.copy()
    X[-1] = 8.0 * y[-1]
    certain = replace(subject, parts=((X, y), *subject.parts[1:]))
    none = Mode("none")
    assert attacks.work_out_missing(certain, listen(certain, none), none).rows == 1


@pytest.mark.parametrize("privacy", PRIVATE)
def test_no_row_is_read_in_a_private_mode(privacy, subject, transcript):
    mode, lesson = Mode(privacy), transcript(privacy)
    found = [
        attacks.read_outright(subject, lesson, mode),
        attacks.work_out_chosen(subject, mode),
        attacks.work_out_missing(subject, lesson, mode),
        attacks.ask_everything(subject, mode),
        attacks.silence(subject, mode),
        attacks.count_rows(subject, mode),
    ]
    assert [(one.rows, one.broken) for one in found] == [(0, False)] * len(found), found


def test_a_question_or_a_row_cannot_be_stretched_and_accounts_hold(subject):
    mode = Mode("dp")
    for attack in (attacks.stretch, attacks.reset_the_account, attacks.many_lessons):
        assert not attack(subject, mode).broken, attack
    X, y = subject.parts[0]
    assert len(attacks.disguises(X, y)) == 40


def test_broken_variants_are_found_out_and_one_that_fails_is_told(subject, monkeypatch):
    """Those of the noise have tests of their own."""
    monkeypatch.setattr(broken, "NOISE", {})
    monkeypatch.setattr(broken, "account_by_table", None)
    found = {one.variant: one.caught for one in broken.check_variants(subject, Mode("dp"), 50)}
    assert found.pop("an account for every digest of a table") is None
    assert set(found.values()) == {True}, found
    assert len(found) == 5
    monkeypatch.undo()
    assert attacks.reset_the_account(subject, Mode("dp"), broken.account_by_table).broken
    assert attacks.stretch(replace(subject, budget=10), Mode("dp"), Door(teacher=broken.Uncut)).broken


def test_a_model_cannot_be_computed_again_without_the_owners_own_draws(subject):
    """Under isolated the seed alone once decided the choice: whoever had all other rows saw one more at once."""
    for privacy in PRIVATE:
        assert not delivered.replayed(subject, Mode(privacy))
    assert delivered.replayed(subject, Mode("none"))


def test_a_row_that_is_there_is_guessed_and_one_that_is_not_is_not():
    rng = np.random.default_rng(0)
    same = rng.standard_normal((2, 150, 4))
    told = delivered.judge(same, Mode("isolated"), "guess", False)
    assert told.auc is not None
    assert told.between is not None
    assert told.between[0] < 0.55
    apart = same + np.array([0.0, 3.0])[:, None, None]
    assert delivered.judge(apart, Mode("isolated"), "guess", False).auc > 0.95
    assert delivered.judge(same, Mode("isolated"), "guess", True).auc == 1.0


def test_a_looked_at_lesson_has_the_evidence_and_the_model(subject):
    row = subject.parts[0][0][0], float(subject.parts[0][1][0])
    found = delivered.look(subject, row, Mode("dp"), 2, {})
    assert found.shape == (2, 2, 7)
    assert np.isfinite(found).all()
    assert (found[:, :, 0] != 0.0).all()


def test_a_direction_in_one_column_tells_nothing():
    rows = np.array([[3.0], [1.0], [-2.5]])
    assert attacks.score([np.array([1.0]), np.array([-1.0])], rows) == 0
    assert attacks.score([np.array([3.0])], rows) == 1
    assert attacks.score([], rows) == 0

"""A measured ε stays below the one promised, and broken promises are found out; chances of a false alarm are below 1e-4."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from superteach.privacy.terms import PromiseTerms

from superteach.privacy.ledger import Ledger
from superteach_lab.audit import broken
from superteach_lab.audit.empirical import (
    allowed_advantage,
    auc_of,
    canary,
    measure,
    mu_of_row,
    noise_of,
    released,
    scores,
)
from superteach_lab.audit.transcript import listen

SURE = 1.0 - 1e-5
DELTA = 1e-6


def terms_of(epsilon: float) -> PromiseTerms:
    return PromiseTerms("epsilon", 1, epsilon, DELTA)


@pytest.fixture(scope="session")
def row(subject, heard):
    @cache
    def found(epsilon: float):
        return canary(subject("synthetic"), heard("synthetic", "epsilon", epsilon).transcript, terms_of(epsilon))

    return found


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_measured_epsilon_stays_below_the_promised_one(epsilon, subject, heard, row):
    one, transcript, terms = subject("synthetic"), heard("synthetic", "epsilon", epsilon).transcript, terms_of(epsilon)
    parts = released(one, *row(epsilon), transcript, terms)
    assert 0.3 * terms.mu < mu_of_row(parts) <= terms.mu, "the row shows itself too little, or more than was paid for"
    found = measure(*scores(parts, 2_000), DELTA, SURE)
    assert found.epsilon <= epsilon
    assert found.advantage <= allowed_advantage(terms.mu) + 4.5 * np.sqrt(0.5 / 1_000)


def test_teachers_that_tell_their_noise_do_not_raise_epsilon(subject, heard, row):
    """Three teachers, one of them the coordinator's: what is left is the noise of two."""
    one, transcript = subject("synthetic"), heard("synthetic", "epsilon", 3.0).transcript
    terms = PromiseTerms("epsilon", 3, 3.0, DELTA, colluders=1)
    parts = released(one, *row(3.0), transcript, terms)
    assert parts[0].honest == 2
    assert mu_of_row(parts) <= terms.mu
    assert measure(*scores(parts, 1_000), DELTA, SURE).epsilon <= 3.0


def test_noise_in_real_lessons_is_what_is_claimed(subject, heard):
    """Every question was chosen after earlier noise; exact sums are taken at the questions as they were asked."""
    for epsilon in (0.5, 1.0, 3.0):
        found = noise_of(subject("synthetic"), heard("synthetic", "epsilon", epsilon).transcript)
        assert found.chance > 1e-6, found
        assert 1.0 < found.ratio < 1.4, "with masks the third that may collude adds its noise too: √(4/3)"


@pytest.mark.parametrize(("kind", "epsilon"), [(broken.HalvedNoise, 3.0), (broken.NoiselessSketch, 1.0)])
def test_missing_noise_is_found_out(kind, epsilon, subject, heard, row):
    one, transcript = subject("synthetic"), heard("synthetic", "epsilon", epsilon).transcript
    told = broken.measured_as(kind, one, transcript, row(epsilon), terms_of(epsilon), 8_000, level=SURE)
    assert told.epsilon > epsilon
    assert broken.noise_as(kind, one, epsilon, DELTA).chance < 1e-9


def test_a_mask_that_serves_twice_is_found_out(subject, heard):
    one = subject("synthetic")
    assert broken.reused_masks(listen(one, "masked", broken.broken_tap(masker=broken.ReusedMasks)).transcript)
    assert broken.reused_masks(listen(one, "epsilon", broken.broken_tap(masker=broken.ReusedMasks)).transcript)
    for promise in ("masked", "epsilon"):
        assert broken.reused_masks(heard("synthetic", promise).transcript) == []


def test_a_roster_of_one_is_found_out(subject, heard):
    one = subject("synthetic")
    assert broken.bare_words(listen(one, "masked", broken.broken_tap(masker=broken.Lonely)).transcript)
    for promise in ("masked", "epsilon"):
        assert heard("synthetic", promise).transcript.terms.masked
        assert broken.bare_words(heard("synthetic", promise).transcript) == []


def test_a_ledger_that_forgets_is_found_out(subject, heard, row, tmp_path):
    one = subject("synthetic")
    honest, forgetful = Ledger(tmp_path / "a", 3.0, DELTA), broken.Forgetful(tmp_path / "b", 3.0, DELTA)
    assert broken.lessons_let_pass(honest, honest.keys([one.rows]), 3.0) == 1
    passed = broken.lessons_let_pass(forgetful, forgetful.keys([one.rows]), 3.0)
    assert passed == 20
    given = one, heard("synthetic", "epsilon", 3.0).transcript, row(3.0), terms_of(3.0)
    assert broken.measured_as(PromiseTerms, *given, runs=600, lessons=passed, level=SURE).epsilon > 3.0
    assert forgetful.left(forgetful.keys([one.rows])) >= 3.0


def test_a_measure_of_known_scores():
    """Normal scores μ apart: at most μ is proved, and not much less."""
    draw = np.random.default_rng(0)
    for mu in (0.0, 0.5, 2.0):
        without, within = draw.standard_normal(40_000), draw.standard_normal(40_000) + mu
        found = measure(without, within, DELTA, 0.95)
        assert max(0.0, mu - 0.1) <= found.mu <= mu + 1e-9
        assert found.advantage == pytest.approx(allowed_advantage(mu), abs=0.02)
    assert auc_of(np.array([0.0, 1.0]), np.array([1.0, 2.0])) == 0.875

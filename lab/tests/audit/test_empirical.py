"""A measured ε stays below the one claimed, and broken modes are found out; chances of a false alarm are below 1e-4."""

from __future__ import annotations

import numpy as np
import pytest

from superteach.privacy.accounting import Mode, epsilon_of
from superteach_lab.audit import broken
from superteach_lab.audit.empirical import Evidence, auc_of, crafted, draw, measure, noise_of
from superteach_lab.audit.subject import HONEST

ROW = "each coefficient in an octave of its own"


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("whole", [False, True], ids=["one owner", "a whole lesson"])
def test_the_measured_epsilon_stays_below_the_claimed_one(epsilon, whole, subject):
    mode, one = Mode("dp", epsilon), subject if whole else subject.owner()
    drawn = draw(one, crafted(one)[ROW], mode, whole, 120 if whole else 400)
    found = measure(drawn, mode, "test")
    assert [told.kept for told in found] == [True] * 3, found
    assert noise_of(drawn).kept, noise_of(drawn)
    assert whole or found[-1].of_row > 0.98 * epsilon, "the row shows itself too little to say anything"
    assert epsilon < 8.0 or whole or found[-1].epsilon > 2.0, "the test has no power"


def test_no_crafted_row_spends_more_than_is_claimed(subject):
    """The formulas, for rows at the edges of what numbers hold: no draw is needed for that."""
    mode, one = Mode("dp"), subject.owner()
    for name, row in crafted(one).items():
        drawn = draw(one, row, mode, False, 1)
        assert epsilon_of(float(np.sqrt(drawn.spent.sum())), mode.delta) <= 1.0 + 1e-9, name
        assert np.isfinite(drawn.scores).all(), name


@pytest.mark.parametrize("name", list(broken.NOISE))
def test_broken_noise_is_found_out(name, subject):
    found, said = broken._noise(subject, Mode("dp", 1.0), 60, broken.NOISE[name])
    assert found, said


def test_honest_noise_is_not(subject):
    found, said = broken._noise(subject, Mode("dp", 1.0), 60, HONEST)
    assert not found, said


def test_a_measure_of_known_scores():
    """Normal scores μ apart: at most μ is proved, and not much less."""
    rng, mode = np.random.default_rng(0), Mode("dp", 8.0)
    for mu in (0.0, 0.5, 2.0):
        scores = rng.standard_normal((2, 40_000, 2)) * np.array([1.0, 0.0])
        scores[0] -= mu / 2.0
        scores[1] += mu / 2.0
        scores[:, :, 1] = 0.0
        drawn = Evidence(scores, np.ones(2), np.ones(2), np.zeros(2), ())
        told = measure(drawn, mode, "test")[0]
        assert epsilon_of(max(0.0, mu - 0.1), mode.delta) <= told.epsilon <= epsilon_of(mu, mode.delta) + 1e-9
    assert auc_of(np.array([0.0, 1.0]), np.array([1.0, 2.0])) == 0.875

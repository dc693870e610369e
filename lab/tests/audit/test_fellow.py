"""A fellow teacher that lies: prices go elsewhere, noise stays; without noise single rows are heard there."""

from __future__ import annotations

import numpy as np
import pytest

from superteach.coordinator.federation import Federation
from superteach.coordinator.teaching import teach
from superteach.line.queries import Pull
from superteach_lab.audit import fellow
from superteach_lab.audit.broken import HalvedNoise, NoiselessSketch
from superteach_lab.audit.transcript import listen


def test_lies_lead_prices_astray_and_noise_stays(subject):
    """Three lengths of lies: at none of the prices they lead to is there less noise than promised."""
    found = fellow.lead(subject("synthetic"))
    assert [one.rows for one in found] == [0, 0, 0]
    assert all("% of the least that is needed" in one.said for one in found)


def test_noise_that_is_missing_is_found_out_beside_lies(subject):
    """Or the attack would prove nothing."""
    for kind in (HalvedNoise, NoiselessSketch):
        assert [one.rows for one in fellow.lead(subject("synthetic"), kind=kind)] == [1, 1, 1]


def test_a_lie_moves_the_prices_of_everybody(subject, heard):
    """Teachers go where the totals they were told lead them."""
    tap = type("Lies", (fellow.Liar,), {"length": 1e3})
    transcript = listen(subject("synthetic"), "epsilon", tap).transcript
    led = [one.query for one in transcript.of(Pull)]
    true = [one.query for one in heard("synthetic", "epsilon").transcript.of(Pull)]
    assert not np.allclose(led[-1].point, true[-1].point, atol=0.1)


@pytest.mark.parametrize("pool", ["synthetic", "breast cancer"])
def test_under_masks_a_lie_reads_rows_of_others(pool, subject):
    """No promise is made against it, and the page says so: exact totals at prices of the liar's choice are single rows."""
    found = fellow.single_out(subject(pool))
    assert found.rows >= 3
    assert found.error <= 1e-12


def test_what_a_liar_adds_fits_into_a_reply(subject):
    """A teacher's words hold numbers up to 4e28 over the number of teachers: larger lies could not be told."""
    engine = fellow.Leader((one := subject("synthetic")).teachers())
    told = []
    engine_sum = engine.sum
    engine.sum = lambda query, number: (
        told.append(float(np.abs(total := engine_sum(query, number)).max(initial=0.0))) or total
    )
    teach(Federation(engine), one.learner, one.goal, budget=one.budget, promise="masked")
    assert 1e15 < max(told) < 2.0**95 / len(one.parts)

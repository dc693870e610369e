"""Lower bounds against every lesson of tiny pools, and against an independent checker."""

from __future__ import annotations

import numpy as np
import pytest

from superteach.selection import certificate
from superteach.selection.certificate import Ball, Envelope
from tests.selection import bounds

SEEDS = 240


@pytest.mark.parametrize("part", range(12))
def test_no_lesson_is_nearer_than_its_bound(part):
    """Eight losses, one output and several, both measures: no subset is nearer, and the checker agrees with every proof."""
    shares = []
    for seed in range(part, SEEDS, 12):
        one = bounds.judge(bounds.draw(seed))
        if one is None:
            continue
        assert one.proved <= one.nearest * (1.0 + 1e-7), seed
        assert one.margin > 0.0, seed  # what is claimed, less a thousandth, is confirmed
        assert one.beyond <= 0.0, seed  # what a lesson refutes is not
        shares.append(one.proved / one.nearest)
    assert np.median(shares) > 0.3


def test_a_bound_from_a_wrong_sum_is_noticed(monkeypatch):
    """Heights a tenth too low: some lesson is nearer than such a bound, so the test above can fail."""
    right = bounds.majorant

    def wrong(*given):
        found = right(*given)
        return found._replace(height=0.9 * found.height)

    monkeypatch.setattr(bounds, "majorant", wrong)
    found = [bounds.judge(bounds.draw(seed)) for seed in range(0, 80, 2)]
    assert any(one is not None and one.proved > one.nearest * (1.0 + 1e-7) for one in found)
    assert any(one is not None and one.margin <= 0.0 for one in found)


def test_the_radius_is_where_the_proof_ends():
    """A deficit that is 0 at radius 3: the search ends just below, and claims nothing where nothing holds."""
    ball = Ball(np.zeros(1), np.ones(1), np.ones(1), 1)
    asked = []

    def ask(direction, radii):
        asked.append(len(radii))
        return [Envelope(1.0, direction[:1] - 1.0, np.zeros(1), 0.0) for _ in radii]

    # 1 − n c + r ‖−1‖ < 0 with c = 4 and n = 1.
    found = certificate.radius(ball, np.array([1.0, 4.0]), ask, 0.0, 100.0)
    assert 2.9 < found < 3.0
    assert asked == [certificate.RADII] * 3
    assert certificate.radius(ball, np.array([1.0, 0.5]), ask, 0.0, 100.0) == 0.0
    assert certificate.margin(ball, np.array([1.0, 4.0]), ask) == pytest.approx(3.0)


def test_rounding_never_helps_a_proof():
    """Sums that cancel all but a rounding error prove nothing."""
    ball = Ball(np.full(3, 1e8), np.ones(3), np.eye(3), 10)
    v = np.array([1.0, -2.0, 1.0 + 1e-12])

    def ask(direction, radii):
        return [Envelope(0.0, np.zeros(3), np.zeros(3), 0.0) for _ in radii]

    needed = float(v @ ball.centre)
    assert 0.0 < needed < 1e-3
    assert certificate.margin(ball, np.append(v, 0.0), ask) < needed - 1e-8

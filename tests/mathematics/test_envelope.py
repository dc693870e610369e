"""The linear bound on what a row reaches along a direction, against a dense grid of the interval it speaks of."""

from __future__ import annotations

import numpy as np
import pytest

from superteach.losses import Huber, Logistic, Squared, SquaredHinge
from superteach.mathematics.envelope import envelope


@pytest.mark.parametrize("loss", [Logistic(), Squared(), SquaredHinge(), Huber()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("price", [-1.0, 0.0, 0.7])
def test_the_bound_holds_everywhere_and_touches(loss, price):
    """Never below the function; for squared and logistic losses it touches, so no bound of its slope is lower."""
    rng = np.random.default_rng(0)
    at, half, along = rng.normal(0.0, 3.0, 500), rng.exponential(3.0, 500), rng.normal(0.0, 3.0, 500)
    y = np.sign(rng.standard_normal(500)) if loss.classifies else rng.standard_normal(500)
    half[:5], along[5:10], weight = 0.0, 0.0, rng.uniform(0.1, 2.0, 500)
    top, tilt = envelope(loss, at, half, y, along, price, weight)
    steps = np.linspace(-1.0, 1.0, 2001)[:, None] * half
    reached = np.maximum(-weight * loss.gradient(at + steps, y) * along + price, 0.0)
    gap = top + tilt * steps - reached
    assert gap.min() >= -1e-9
    if isinstance(loss, Logistic | Squared):
        assert np.all(gap.min(axis=0) <= 1e-4 * (1.0 + top))

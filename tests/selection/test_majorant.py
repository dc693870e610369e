"""Bounds of rows that are linear in the model, against rows' own values at many models of the ball."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from superteach.losses import Huber, Logistic, Loss, Poisson, Squared
from superteach.losses.multioutput import EVERY_LOSS, SeveralLoss, Softmax
from superteach.selection.majorant import UNIT, Products, majorant

ROWS = 400


def losses() -> list[Loss]:
    """Every loss that a learner may have, several outputs in three."""
    return [kind(3) if issubclass(kind, SeveralLoss) else kind() for kind in EVERY_LOSS.values()]


def drawn(loss: Loss, seed: int) -> tuple[Products, np.ndarray, np.ndarray]:
    """Rows' products with targets and weights; some rows do not move, some have nothing along the direction."""
    rng = np.random.default_rng(seed)
    shape = (ROWS,) if loss.outputs == 1 else (loss.outputs, ROWS)
    at, along = rng.normal(0.0, 2.0, shape), rng.normal(0.0, 3.0, shape)
    half = rng.exponential(rng.choice([0.1, 2.0]), ROWS)
    half[:5], along[..., 5:10] = 0.0, 0.0
    y = np.sign(rng.standard_normal(ROWS)) if loss.classifies else rng.standard_normal(ROWS)
    if loss.outputs > 1:
        y = (
            rng.integers(0, loss.outputs, ROWS).astype(float)
            if loss.classifies
            else rng.normal(size=(ROWS, loss.outputs))
        )
    if isinstance(loss, Poisson):
        y = rng.poisson(2.0, ROWS).astype(float)
    none = np.zeros(ROWS)
    return Products(at, half, along, none, none), y, rng.uniform(0.1, 2.0, ROWS)


def moves(rows: Products, rng: np.random.Generator) -> np.ndarray:
    """Changes of predictors within the ball of every row: (tries, …), its surface among them."""
    tries = 500
    if rows.at.ndim == 1:
        return np.linspace(-1.0, 1.0, tries)[:, None] * rows.half
    steps = rng.standard_normal((tries, *rows.at.shape))
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)
    return steps * rows.half * rng.uniform(0.0, 1.0, (tries, 1, 1)) ** 0.2


def reached(
    loss: Loss, rows: Products, y: np.ndarray, price: float, weight: np.ndarray, step: np.ndarray
) -> np.ndarray:
    """max(0, −w a'∇ℓ(η) + c)."""
    pull = -weight * loss.gradient(rows.at + step, y) * rows.along
    return np.maximum((pull if loss.outputs == 1 else pull.sum(axis=-2)) + price, 0.0)


@pytest.mark.parametrize("loss", losses(), ids=lambda loss: loss.name)
@pytest.mark.parametrize("price", [-1.0, 0.0, 0.7])
def test_the_bound_holds_everywhere(loss, price):
    """Never below what a row reaches; and for losses of one predictor it touches, so no bound of its tilt is lower."""
    for seed in range(4):
        rows, y, weight = drawn(loss, seed)
        found = majorant(loss, rows, y, price, weight)
        step = moves(rows, np.random.default_rng(seed))
        there = np.array([reached(loss, rows, y, price, weight, one) for one in step])
        tilted = step * found.tilt if loss.outputs == 1 else (step * found.tilt).sum(axis=1)
        gap = found.height + tilted - there
        assert gap.min() >= 0.0
        if isinstance(loss, Logistic | Squared | Poisson) and loss.outputs == 1:
            assert np.all(gap.min(axis=0) <= 1e-3 * (1.0 + found.height))


@pytest.mark.parametrize("loss", losses(), ids=lambda loss: loss.name)
def test_the_bound_grows_tight_as_the_ball_shrinks(loss):
    """Within a small ball a bound exceeds the row's own value by little: of second order where the row is smooth."""
    rows, y, weight = drawn(loss, 9)
    excess = []
    for size in (1e-2, 1e-3):
        found = majorant(loss, rows._replace(half=np.full(ROWS, size)), y, 0.3, weight)
        value = reached(loss, rows, y, 0.3, weight, np.zeros_like(rows.at))
        excess.append(np.median(found.height - value))
    assert 0.0 <= excess[1] <= 0.02 * excess[0] + 1e-12


@pytest.mark.parametrize("loss", losses(), ids=lambda loss: loss.name)
def test_the_subgradient_is_one(loss):
    """Along another direction heights with the tilt kept fixed rise by no less than the subgradient says."""
    if loss.outputs > 1:
        pytest.skip("a search takes what several outputs tell as a hint")
    rows, y, weight = drawn(loss, 3)
    found = majorant(loss, rows, y, -0.2, weight)
    rng = np.random.default_rng(0)
    step = moves(rows, rng)
    for _ in range(5):
        turned, price = rng.normal(0.0, 0.5, ROWS), -0.2 + rng.normal(0.0, 0.2)
        other = rows._replace(along=rows.along + turned)
        least = np.max([reached(loss, other, y, price, weight, one) - one * found.tilt for one in step], axis=0)
        expected = found.height + found.pull * turned + found.on * (price + 0.2)
        assert np.all(least >= expected - 1e-3 * (1.0 + np.abs(expected)))


def test_a_loss_of_ones_own_has_bounds_by_its_curvature():
    """A loss that says nothing of its curvature but the largest: bounds hold; and without that there are none."""

    class Plain(Squared):
        def turns(self, curvature, y):
            return None

    class Unknown(Plain):
        most_curvature = np.inf

        def most_curved(self, y):
            return None

    rows, y, weight = drawn(Squared(), 1)
    found = majorant(Plain(), rows, y, 0.1, weight)
    step = moves(rows, np.random.default_rng(0))
    assert np.all(
        found.height >= np.max([reached(Squared(), rows, y, 0.1, weight, one) for one in step], axis=0) - 1e-12
    )
    assert np.isinf(majorant(Unknown(), rows._replace(along=np.ones(ROWS)), y, 0.1, weight).height[5:]).all()


def test_errors_of_products_are_rounded_outwards():
    """Rows whose products are off by as much as they are said to be still lie below."""
    for loss in (Logistic(), Squared(), Softmax(3)):
        rows, y, weight = drawn(loss, 2)
        off = np.full(ROWS, 1e-3)
        told = replace_errors(rows, off)
        found = majorant(loss, told, y, 0.2, weight)
        part = 1e-3 / (1.0 if loss.outputs == 1 else loss.outputs)
        moved = rows._replace(at=rows.at + part, along=rows.along - part)
        step = moves(rows, np.random.default_rng(0))
        tilted = step * found.tilt if loss.outputs == 1 else (step * found.tilt).sum(axis=1)
        there = np.array([reached(loss, moved, y, 0.2, weight, one) for one in step])
        assert np.all(found.height + tilted >= there)
        if loss.outputs > 1:
            continue
        # Without the errors the bound would be broken, or this test could not fail.
        bare = majorant(loss, rows, y, 0.2, weight)
        tilted = step * bare.tilt if loss.outputs == 1 else (step * bare.tilt).sum(axis=1)
        assert np.any(bare.height + tilted < there)
    assert 0.5 * np.finfo(float).eps == UNIT


def replace_errors(rows: Products, off: np.ndarray) -> Products:
    """The same products, said to be off by so much."""
    return rows._replace(at_error=off, along_error=off)


def test_hubers_width_counts():
    """A narrower Huber loss turns elsewhere."""
    rows, y, weight = drawn(Huber(), 5)
    for delta in (0.1, 3.0):
        loss = replace(Huber(), delta=delta)
        found = majorant(loss, rows, y, 0.0, weight)
        step = moves(rows, np.random.default_rng(0))
        there = np.array([reached(loss, rows, y, 0.0, weight, one) for one in step])
        assert np.all(found.height + step * found.tilt >= there)

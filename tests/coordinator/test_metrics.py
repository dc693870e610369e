"""Risk and agreement against NumPy and scikit-learn on the pooled rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import r2_score

from superteach.coordinator.metrics import likeness, risk
from superteach.losses import LOSSES

teachers = pytest.mark.parametrize("K", [1, 3, 7])


def test_risk_is_the_distance():
    """R* is the Euclidean distance, without a half and without a square."""
    assert risk(np.array([1.0, 2.0, 2.0]), np.array([1.0, -1.0, 6.0])) == pytest.approx(5.0, rel=1e-15)
    assert risk(np.ones(3), np.ones(3)) == 0.0


@teachers
@pytest.mark.parametrize("kind", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("constant", [0.0, 2.0])
def test_share_of_equal_labels(K, kind, constant, pool, federation_of):
    """ρ of a classifier is the share of pool rows with the same predicted label."""
    X, y = pool(kind, 333, 4, 0)
    rng = np.random.default_rng(1)
    model, goal = rng.standard_normal((2, 4 + bool(constant)))
    whole = np.column_stack([X, np.full(len(X), constant)]) if constant else X
    told = likeness(federation_of(X, y, K, LOSSES[kind](), constant), model, goal, True)
    found = told.agreement
    assert told.distance == pytest.approx(np.sqrt(np.mean((whole @ (model - goal)) ** 2)), rel=1e-12)
    assert told.spread == pytest.approx(np.std(whole @ goal), rel=1e-12)
    assert found == np.mean(np.sign(whole @ model) == np.sign(whole @ goal))
    assert 0.0 < found < 1.0


@teachers
@pytest.mark.parametrize("kind", ["squared", "huber", "poisson"])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e7])
def test_r2_of_predictions(K, kind, offset, pool, federation_of):
    """ρ of a regression is r2_score(Xθ*, Xθ), also where all predictions lie far from 0."""
    X, y = pool(kind, 333, 4, 0)
    rng = np.random.default_rng(2)
    goal = np.append(rng.standard_normal(4), offset)
    model = goal + np.append(0.3 * rng.standard_normal(4), 0.1)
    whole = np.column_stack([X, np.ones(len(X))])
    found = likeness(federation_of(X, y, K, LOSSES[kind](), 1.0), model, goal, False).agreement
    assert found == pytest.approx(r2_score(whole @ goal, whole @ model), rel=1e-7)
    swapped = likeness(federation_of(X, y, K, LOSSES[kind](), 1.0), goal, model, False).agreement
    assert swapped == pytest.approx(r2_score(whole @ model, whole @ goal), rel=1e-7)
    assert swapped != pytest.approx(found, rel=1e-4)


@pytest.mark.parametrize("model", [[0.0, 3.0], [0.0, 4.0]])
def test_r2_of_a_constant_goal(model, pool, federation_of):
    """A goal that predicts one number for all rows scores 1 when met and 0 otherwise, as r2_score has it."""
    X, y = pool("squared", 50, 1, 0)
    found = likeness(
        federation_of(X, y, 2, LOSSES["squared"](), 1.0), np.array(model), np.array([0.0, 3.0]), False
    ).agreement
    assert found == r2_score(np.full(50, 3.0), np.full(50, model[1]))

"""Rivals for many classes: each puts rows in an order, whose first n are its choice of n.

The same searches as for two classes, with what changes written out: a label is one column for each class, and
facility location (CRAIG) and matching pursuit (GradMatch) work class by class, as their authors' own programmes do, for all
pairs of 60,000 rows do not fit. Classes then take turns in proportion to their size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from superteach.losses.multioutput import Softmax
from superteach.types import Array, Positions
from superteach_lab.rivals import facility_location, gradient_match, herding, k_center, leverage

MODELS = 3
"""Models between 0 and the pool's own at which GradMatch takes gradients."""


def pulls(X: Array, y: Positions, model: Array) -> Array:
    """(e_y − p) ⊗ (x, 1) of every row, rows × C(d + 1): for one class at a time."""
    design = np.column_stack([X, np.ones(len(X))])
    slopes = -Softmax(len(model)).gradient(model @ design.T, y.astype(np.float64))
    return np.asarray((slopes.T[:, :, None] * design[:, None, :]).reshape(len(X), -1))


def labelled(X: Array, y: Positions) -> Array:
    """Rows with a column for each class, of the features' spread."""
    return np.column_stack([X, np.eye(int(y.max()) + 1)[y] * (float(X.std()) or 1.0)])


def in_turn(y: Positions, orders: list[Positions], size: int) -> Positions:
    """Merge orders of rows of one class each, so that every class has its share of any number of first rows."""
    rows = np.concatenate(orders)
    place = np.concatenate([(np.arange(len(order)) + 0.5) / np.sum(y == k) for k, order in enumerate(orders)])
    return np.asarray(rows[np.argsort(place, kind="stable")][:size])


def by_class(y: Positions, size: int, choose: Callable[[Positions, int], Positions]) -> Positions:
    """Let each class choose among its own rows."""
    orders = []
    for label in range(int(y.max()) + 1):
        mine = np.flatnonzero(y == label)
        count = min(len(mine), int(np.ceil(size * len(mine) / len(y))) + 1)
        orders.append(mine[choose(mine, count)])
    return in_turn(y, orders, size)


def random_rows(X: Array, y: Positions, model: Array, size: int, seed: int) -> Positions:
    """Without replacement, all rows alike."""
    return np.random.default_rng(seed).permutation(len(y))[:size]


def by_leverage(X: Array, y: Positions, model: Array, size: int, seed: int) -> Positions:
    """Drawn in proportion to leverage, without replacement."""
    weight = np.maximum(leverage.leverages(np.column_stack([X, np.ones(len(X))])), 1e-300)
    return np.argsort(-np.log(np.random.default_rng(seed).random(len(y))) / weight, kind="stable")[:size]


def by_distance(X: Array, y: Positions, model: Array, size: int, seed: int) -> Positions:
    """Farthest first, from a random row on."""
    first = int(np.random.default_rng(seed).integers(len(y)))
    return k_center.farthest_first(labelled(X, y), size, first)


def herded(X: Array, y: Positions, model: Array, size: int, seed: int) -> Positions:
    """Rows whose mean follows their class's, over random Fourier features."""
    nobody = np.zeros(len(y))
    features = herding.random_features(X, nobody, seed)
    return by_class(y, size, lambda mine, count: herding.herd(features[mine], count))


def by_craig(X: Array, y: Positions, model: Array, size: int, seed: int) -> Positions:
    """Rows whose gradients at the pool's model stand for those of their class."""

    def choose(mine: Positions, count: int) -> Positions:
        similar = facility_location.similarity(pulls(X[mine], y[mine], model))
        return facility_location.lazy_greedy(similar, count)

    return by_class(y, size, choose)


def by_gradients(X: Array, y: Positions, model: Array, size: int, seed: int) -> Positions:
    """Pursuits one after the other that rebuild the gradient of each class."""

    def choose(mine: Positions, count: int) -> Positions:
        shares = np.linspace(0.0, 1.0, MODELS)
        return gradient_match.in_pursuits(np.hstack([pulls(X[mine], y[mine], s * model) for s in shares]), count)

    return by_class(y, size, choose)


ORDERS: dict[str, Callable[[Array, Positions, Array, int, int], Positions]] = {
    "random": random_rows,
    "leverage": by_leverage,
    "k-center": by_distance,
    "herding": herded,
    "gradient matching": by_gradients,
    "CRAIG": by_craig,
}
"""(X, y as class numbers, the pool's model as C × (d + 1), how many, seed) → rows, best first."""

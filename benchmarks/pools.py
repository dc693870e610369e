"""The pools that every benchmark shares, and a federation over each."""

from __future__ import annotations

from typing import Any

import numpy as np

import superteach
from superteach.datasets import make_classification_pool, make_regression_pool

RIDGE_PER_ROW = 2e-4
"""Λ = ridge·N with this ridge: 1 at N = 5,000 and 100 at N = 500,000, as docs/explanation/paper.md explains."""


def classification(rows: int, features: int = 10, teachers: int = 10, seed: int = 0) -> tuple[Any, Any, Any]:
    """Four Gaussian clusters, labels −1 and +1."""
    X, y, owner = make_classification_pool(rows, features, teachers, random_state=seed)
    return X, np.where(y == y.max(), 1.0, -1.0), owner


def regression(
    rows: int, features: int = 10, teachers: int = 10, seed: int = 0, noise: float = 20.0
) -> tuple[Any, Any, Any]:
    """Four Gaussian clusters, noisy linear targets."""
    return make_regression_pool(rows, features, teachers, noise, random_state=seed)


def federation(X: Any, y: Any, owner: Any) -> superteach.Federation:
    """Every owner as a teacher in this process."""
    members = [np.flatnonzero(owner == name) for name in np.unique(owner)]
    teachers = [superteach.Teacher(str(i), X[rows], y[rows], rows) for i, rows in enumerate(members)]
    return superteach.Federation(superteach.Threads(teachers))

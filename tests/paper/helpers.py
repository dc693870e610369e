"""The one thing that no public name gives: a mixed-integer solver over rows that all lie in one place."""

from __future__ import annotations

import numpy as np
import pytest


def rows_by_bonmin(kind: str, X: np.ndarray, y: np.ndarray, ridge: float, goal: np.ndarray, size: int) -> np.ndarray:
    """The rows that Bonmin chooses for a "logistic" (labels ±1) or "ridge" learner with Λ = `ridge`."""
    pytest.importorskip("casadi")
    from superteach.losses import Logistic, Squared
    from superteach_lab import minlp

    return minlp.solve(X, y, Logistic() if kind == "logistic" else Squared(), ridge, goal, size).rows

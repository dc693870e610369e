"""How good a lesson is: the same code scores every method, from models and sums alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from superteach.federation import Federation
from superteach.queries import Compare, Comparison

Array = npt.NDArray[np.float64]


def risk(model: Array, goal: Array) -> float:
    """R* = ‖θ_S − θ*‖, intercept included where there is one (paper, section III)."""
    return float(np.linalg.norm(model - goal))


def consistency(federation: Federation, model: Array, goal: Array, classifies: bool) -> float:
    """ρ: share of rows with the same label, or r² of the goal's predictions by the model's."""
    first: Comparison = federation.sum(Compare(model, goal))
    if classifies:
        return first.same_label / first.rows
    # The spread is asked again around the mean: one pass around 0 would cancel for shifted predictions.
    second: Comparison = federation.sum(Compare(model, goal, first.total / first.rows))
    if second.spread == 0.0:
        return 1.0 if second.error == 0.0 else 0.0
    return 1.0 - second.error / second.spread

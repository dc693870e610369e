"""How good a lesson is: the same code scores every method, from models and sums alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from superteach.coordinator.federation import Federation
from superteach.protocol.queries import Compare, Comparison
from superteach.types import Array


def risk(model: Array, goal: Array) -> float:
    """R* = ‖θ_S − θ*‖, intercept included where there is one (paper, section III)."""
    return float(np.linalg.norm(model - goal))


class Likeness(NamedTuple):
    """How a model and the goal agree on the pool."""

    agreement: float
    """ρ: share of rows with the same label, or r² of the goal's predictions by the model's."""
    distance: float
    """Root mean square of x'(θ_S − θ*) over the pool: how far predictions are apart, whatever units columns have. Of several
    outputs it is the length ‖(Θ_S − Θ*)x‖."""
    spread: float
    """Root mean square of the goal's own predictions around their mean."""


CANCELS = 1e-6
"""Part of the goal's squared predictions below which their spread around the mean is summed anew, around the mean."""


def apart(federation: Federation, model: Array, goal: Array, outputs: int = 1) -> float:
    """Say how far predictions of two models are apart on the pool, as `Likeness.distance` does."""
    seen: Comparison = federation.sum(Compare(model[None], goal, np.zeros(outputs)))
    return float(np.sqrt(seen.error[0] / seen.rows))


def likeness(federation: Federation, model: Array, goal: Array, classifies: bool, outputs: int = 1) -> Likeness:
    """Compare a model with the goal on all rows."""
    return compare(federation, [model], goal, classifies, outputs)[0]


def compare(
    federation: Federation, models: Sequence[Array], goal: Array, classifies: bool, outputs: int = 1
) -> list[Likeness]:
    """Compare models with the goal on all rows, in one round, or in two where predictions lie far from 0."""
    seen: Comparison = federation.sum(Compare(np.stack(models), goal, np.zeros(outputs)))
    mean = seen.total / seen.rows
    spread = seen.spread - seen.rows * float(mean @ mean)
    if spread < CANCELS * seen.spread:
        again: Comparison = federation.sum(Compare(np.stack(models), goal, mean))
        spread = again.spread
    found = []
    for same, error in zip(seen.same_label, seen.error, strict=True):
        share = float(same) / seen.rows
        if not classifies:
            share = 1.0 - float(error) / spread if spread else float(error == 0.0)
        found.append(Likeness(share, float(np.sqrt(error / seen.rows)), float(np.sqrt(spread / seen.rows))))
    return found

"""How good a lesson is: the same code scores every method, from models and sums alone."""

from __future__ import annotations

import math
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


def apart(federation: Federation, model: Array, goal: Array, outputs: int = 1) -> float:
    """Say how far predictions of two models are apart on the pool, as `Likeness.distance` does, in one round."""
    found: Comparison = federation.sum(Compare(model, goal, np.zeros(outputs)))
    return float(np.sqrt(found.error / found.rows))


class Agreement(NamedTuple):
    """How a model that is set beside a lesson agrees with the goal on the pool."""

    share: float
    """Share of rows with the same label, or r²."""
    distance: float
    """Root mean square of the difference of predictions."""


UNKNOWN = Agreement(math.nan, math.nan)


def agreement(
    federation: Federation, model: Array, goal: Array, classifies: bool, spread: float, outputs: int = 1
) -> Agreement:
    """Do what `likeness` does, in one round, where the spread of the goal's predictions is known."""
    seen: Comparison = federation.sum(Compare(model, goal, np.zeros(outputs)))
    distance = float(np.sqrt(seen.error / seen.rows))
    if classifies:
        return Agreement(seen.same_label / seen.rows, distance)
    return Agreement(1.0 - (distance / spread) ** 2 if spread else float(distance == 0.0), distance)


def likeness(federation: Federation, model: Array, goal: Array, classifies: bool, outputs: int = 1) -> Likeness:
    """Compare a model with the goal on all rows, in two rounds."""
    first: Comparison = federation.sum(Compare(model, goal, np.zeros(outputs)))
    # The spread is asked again around the mean: one pass around 0 would cancel for shifted predictions.
    second: Comparison = federation.sum(Compare(model, goal, first.total / first.rows))
    if classifies:
        agreement = first.same_label / first.rows
    elif second.spread == 0.0:
        agreement = 1.0 if second.error == 0.0 else 0.0
    else:
        agreement = 1.0 - second.error / second.spread
    distance, spread = (float(np.sqrt(total / first.rows)) for total in (second.error, second.spread))
    return Likeness(agreement, distance, spread)

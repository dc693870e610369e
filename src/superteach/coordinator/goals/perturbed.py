"""The paper's goal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from superteach.coordinator.classroom import Classroom
from superteach.errors import SettingError
from superteach.types import Array, is_whole


@dataclass(frozen=True)
class PerturbedFit:
    """The paper's goal: θ* = θ_gt + τ, θ_gt fitted on all rows, τ Gaussian with ‖τ‖ = ‖θ_gt‖.

    With standardize=True the noise is drawn on the standardised columns, where one length fits all.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        if not is_whole(self.seed) or self.seed < 0:
            raise SettingError(f"PerturbedFit takes a seed that is an int of at least 0, got {self.seed!r}")

    def vector(self, classroom: Classroom) -> Array:
        """Fit on all rows from sums, then add noise of the same norm."""
        truth = classroom.fit_pool()
        noise = classroom.learner.centred(np.random.default_rng(self.seed).standard_normal(len(truth)))
        noise *= np.linalg.norm(truth) / np.linalg.norm(noise)
        return classroom.scaling.raw(truth + noise)

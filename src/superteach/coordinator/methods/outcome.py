"""What every method ends with."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from superteach.lesson import Certificate
from superteach.types import Array


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a choice of rows came about and ended, whichever method made it."""

    reason: str
    """Why it ended, as a clause."""
    converged: bool = True
    """Whether it ended by itself rather than at a limit."""
    objective: Array = field(default_factory=lambda: np.empty(0))
    """What the method lowers, after every step; empty where there is nothing of the kind."""
    gap: Array = field(default_factory=lambda: np.empty(0))
    """How far at most each objective lies above the optimum; empty where no optimum is bounded."""
    certificate: Certificate | None = None
    lower_bound: float = 0.0
    """A risk that no lesson can go below, where one is proved."""
    stated_risk: float | None = None
    """A risk exceeded with a probability of at most 0.05, where it is known without a look at the chosen rows."""

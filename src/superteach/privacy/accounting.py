"""What Gaussian releases cost: μ, the sensitivity over the noise; ε at a δ; ρ.

μ is the parameter of Gaussian differential privacy (Dong, Roth, Su 2019) for adding or removing one row. Its squares
add over releases, exactly, even where each is chosen after a look at earlier ones, and over lessons whose budgets are fixed
beforehand as a filter (Smith and Thakurta 2022). ρ = μ²/2 is the parameter of zero-concentrated differential privacy.
Changing a row removes one and adds one: twice the μ. A person with m rows: m times the μ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from superteach.exceptions import Setting, SettingError
from superteach.privacy import PRIVACY
from superteach.privacy.discrete_gaussian import Grid, grid_step
from superteach.types import Json

MOST_EPSILON = 50.0
"""Largest ε, a pure number: more is refused, for at 50 a row is hidden from nobody and more is a slip of the pen."""
DELTA_ROWS = 10.0
"""δ is at most one over this many times the rows: whatever shows each row outright with probability δ keeps δ too."""


class Release(NamedTuple):
    """Some numbers that leave a teacher: how far one row more or less can move them, and their part of the budget μ²."""

    numbers: int
    sensitivity: float
    """In Euclidean length."""
    part: float


@dataclass(frozen=True)
class Mode:
    """A privacy mode: "none", "isolated", or "dp" with its budget for each row of one lesson."""

    name: str = "none"
    epsilon: float = 1.0
    delta: float = 1e-6

    def __post_init__(self) -> None:
        if self.name not in PRIVACY:
            raise SettingError(
                Setting("privacy", self.name), f" is not known; there are {', '.join(map(repr, PRIVACY))}"
            )

    @property
    def mu(self) -> float:
        """The budget as μ of Gaussian differential privacy."""
        return mu_of(self.epsilon, self.delta)

    def grid(self, release: Release) -> Grid:
        """Make the grid and the noise of one teacher for some numbers; the noise is local, whoever else colludes."""
        noise = release.sensitivity / (self.mu * math.sqrt(release.part))
        return grid_step(noise, release.numbers, release.sensitivity)

    def deviation(self, release: Release) -> float:
        """Return the standard deviation of the noise, in the unit of the numbers."""
        grid = self.grid(release)
        return grid.step * grid.sigma

    def check(self, rows: int) -> None:
        """Refuse a budget that protects nobody among this many rows."""
        if self.name == "dp":
            check_delta(self.delta, rows)
            _ = self.mu  # raises where no noise keeps such an ε and δ, or the package that counts them is missing

    def guarantee(self) -> Json | None:
        """Return what is kept, in numbers and in one sentence; None where nothing is stated in numbers."""
        if self.name != "dp":
            return None
        mu = self.mu
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "mu": mu,
            "rho": 0.5 * mu * mu,
            "unit": "row",
            "relation": "add or remove one",
            "epsilon_change_one": epsilon_of(2.0 * mu, self.delta),
            "sentence": (
                f"What leaves each teacher in this lesson is ({self.epsilon:g}, {self.delta:g})-differentially private for "
                f"adding or removing one row (ε = {epsilon_of(2.0 * mu, self.delta):.3g} for changing one; μ = {mu:.3g}, "
                f"ρ = {0.5 * mu * mu:.3g}). Each teacher adds all of its noise itself, so this holds whoever else colludes. "
                "It covers the messages of one lesson, not the chosen rows or a model fitted on them"
            ),
        }


def check_delta(delta: float, rows: int) -> None:
    """Refuse a δ with which a row could be shown outright and the guarantee still be kept."""
    if delta > 1.0 / (DELTA_ROWS * max(rows, 1)):
        raise SettingError(
            Setting("delta", delta),
            f" is above 1/({DELTA_ROWS:g} × {rows:,} rows) = {1.0 / (DELTA_ROWS * max(rows, 1)):.2g}: it "
            "would let a row be shown outright; give a smaller one",
        )


@lru_cache(maxsize=64)
def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest μ that keeps (ε, δ): a Gaussian release of that μ has exactly this ε at this δ."""
    if not 0 < epsilon <= MOST_EPSILON:
        raise SettingError(
            Setting("epsilon", epsilon), f" must be a number above 0 and at most {MOST_EPSILON:g}; 1 is usual"
        )
    return 1 / float(_formulas(delta).get_sigma_gaussian(epsilon, delta))


def epsilon_of(mu: float, delta: float) -> float:
    """Return the ε at δ of releases with squared μ that add up to `mu`²; 0 where δ alone covers them."""
    if not 0 <= mu < math.inf:
        raise SettingError(f"mu={mu!r} must be a finite number of at least 0: sensitivity over noise")
    return float(_formulas(delta).get_epsilon_gaussian(1 / mu, delta)) if mu else 0.0


def _formulas(delta: float) -> ModuleType:
    """Import the exact formulas when first needed (a second's work), after a look at δ."""
    if not 0 < delta < 1:
        raise SettingError(Setting("delta", delta), " must lie between 0 and 1, well below one over the number of rows")
    try:
        return import_module("dp_accounting")
    except ImportError:
        raise SettingError(
            "counting ε needs dp-accounting, which is not installed: run  pip install 'superteach[private]'"
        ) from None

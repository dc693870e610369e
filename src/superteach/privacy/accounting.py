"""What Gaussian releases cost: μ, the sensitivity over the noise, and ε at a δ.

μ is the parameter of Gaussian differential privacy (Dong, Roth, Su 2019) for adding or removing one row. Its squares
add over releases, exactly, even where each is chosen after a look at earlier ones.
"""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import import_module
from types import ModuleType

from superteach.errors import SettingError

MOST_EPSILON = 50.0
"""Largest ε, a pure number: more is refused, for at 50 a row is hidden from nobody and more is a slip of the pen."""


@lru_cache(maxsize=64)
def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest μ that keeps (ε, δ): a Gaussian release of that μ has exactly this ε at this δ."""
    if not 0 < epsilon <= MOST_EPSILON:
        raise SettingError(f"epsilon={epsilon!r} must be a number above 0 and at most {MOST_EPSILON:g}; 1 is usual")
    return 1 / float(_formulas(delta).get_sigma_gaussian(epsilon, delta))


def epsilon_of(mu: float, delta: float) -> float:
    """Return the ε at δ of releases with squared μ that add up to `mu`²; 0 where δ alone covers them."""
    if not 0 <= mu < math.inf:
        raise SettingError(f"mu={mu!r} must be a finite number of at least 0: sensitivity over noise")
    return float(_formulas(delta).get_epsilon_gaussian(1 / mu, delta)) if mu else 0.0


def _formulas(delta: float) -> ModuleType:
    """Import the exact formulas when first needed (a second's work), after a look at δ."""
    if not 0 < delta < 1:
        raise SettingError(f"delta={delta!r} must lie between 0 and 1, well below one over the number of rows")
    try:
        return import_module("dp_accounting")
    except ImportError:
        raise SettingError(
            "counting ε needs dp-accounting, which is not installed: run  pip install 'superteach[private]'"
        ) from None

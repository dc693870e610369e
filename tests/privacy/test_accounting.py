"""ε and μ against the privacy profile of the Gaussian mechanism in closed form, and against numerical composition."""

from __future__ import annotations

import math
import sys

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from scipy.stats import norm

from superteach.exceptions import SettingError
from superteach.privacy.accounting import epsilon_of, mu_of


def profile(epsilon: float, mu: float) -> float:
    """δ of a Gaussian release at ε (Balle, Wang 2018)."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_mu_has_exactly_the_delta_asked_for(epsilon, delta):
    mu = mu_of(epsilon, delta)
    assert profile(epsilon, mu) == pytest.approx(delta, rel=1e-5)
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-8)


def test_squares_add_as_numerical_composition_says():
    """Three Gaussian releases, composed by their loss distributions on a grid."""
    parts = [0.3, 0.5, 0.6]
    accountant = PLDAccountant()
    for mu in parts:
        accountant.compose(dp_accounting.GaussianDpEvent(1 / mu))
    assert epsilon_of(math.hypot(*parts), 1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=2e-3)


def test_more_costs_more_and_nothing_costs_nothing():
    """A release so small that δ covers it has ε = 0, as has none at all."""
    steps = [epsilon_of(mu, 1e-6) for mu in np.linspace(0, 3, 30)]
    assert steps == sorted(steps)
    assert epsilon_of(0.0, 1e-6) == epsilon_of(1e-7, 1e-6) == 0


@pytest.mark.parametrize("epsilon", [0, -1, 51, math.inf, math.nan])
def test_an_epsilon_out_of_range_is_named(epsilon):
    with pytest.raises(SettingError, match=f"epsilon={epsilon!r} must be"):
        mu_of(epsilon, 1e-6)


@pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan])
def test_a_delta_out_of_range_is_named(delta):
    for function in (mu_of, epsilon_of):
        with pytest.raises(SettingError, match=f"delta={delta!r} must lie"):
            function(1.0, delta)


@pytest.mark.parametrize("mu", [-1, math.inf, math.nan])
def test_a_mu_out_of_range_is_named(mu):
    with pytest.raises(SettingError, match=f"mu={mu!r} must be"):
        epsilon_of(mu, 1e-6)


def test_without_the_extra_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(SettingError, match=r"pip install 'superteach\[private\]'"):
        mu_of(1.0, 1.5e-6)  # not asked for before

"""What a removal of rows is to bring to 0: a coefficient's distance from a value, or from no longer being significant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import linalg

from superteach.losses.scalar import Logistic, Squared
from superteach.robustness.regression import Regression
from superteach.types import Array, Mask, Positions

StandardErrors = Literal["classical", "HC0", "HC1", "clustered"]
STANDARD_ERRORS: tuple[StandardErrors, ...] = ("classical", "HC0", "HC1", "clustered")


@dataclass(frozen=True, eq=False)
class Statistic(ABC):
    """A function of the rows kept that is above 0 for all rows; whoever removes rows wants it at 0 or below."""

    direction: Array
    """a: the coefficient is a'θ, with the sign that makes the statistic fall."""

    @abstractmethod
    def value(self, regression: Regression, kept: Mask, model: Array) -> float:
        """Return the statistic of the model fitted on the rows kept."""

    @abstractmethod
    def influences(self, regression: Regression, kept: Mask, model: Array, exact: bool = True) -> Array:
        """Say how far the statistic falls, to first order, when a row changes sides: leaves, or comes back (negated).

        `exact` counts what the row itself holds of the curvature: for squared losses that is the refit without the row.
        """


@dataclass(frozen=True, eq=False)
class Coefficient(Statistic):
    """a'θ − c."""

    threshold: float = 0.0

    def value(self, regression: Regression, kept: Mask, model: Array) -> float:
        """Return how far the coefficient is from the value it is to pass."""
        return float(self.direction @ model) - self.threshold

    def influences(self, regression: Regression, kept: Mask, model: Array, exact: bool = True) -> Array:
        """Return −ℓ' x'H⁻¹a, divided by 1 − leverage where `exact`."""
        terms = regression.loss.terms(regression.rows @ model, regression.target)
        inverse = linalg.pinvh(regression.hessian(model, kept))
        fall = -terms.slope * (regression.rows @ (inverse @ self.direction))
        return _leave_one_out(regression, inverse, terms.curvature, kept, fall) if exact else np.asarray(fall)


@dataclass(frozen=True, eq=False)
class Significance(Statistic):
    """a'θ − q·se, with q the normal quantile of the level: 0 where a two-sided test no longer rejects a'θ = 0."""

    quantile: float = 1.959963984540054
    errors: StandardErrors = "HC1"
    groups: Positions | None = None
    """A number from 0 for the group of each row, with clustered errors."""

    def value(self, regression: Regression, kept: Mask, model: Array) -> float:
        """Return how far the lower end of the confidence interval is from 0."""
        error = self.standard_error(regression, kept, model)
        return float(self.direction @ model) - self.quantile * error

    def standard_error(self, regression: Regression, kept: Mask, model: Array) -> float:
        """Return se(a'θ) on the rows kept."""
        return float(np.sqrt(max(_Variance(self, regression, kept, model).value, 0.0)))

    def influences(self, regression: Regression, kept: Mask, model: Array, exact: bool = True) -> Array:
        """Differentiate a'θ and the variance with respect to the weight of each row."""
        variance = _Variance(self, regression, kept, model)
        error = float(np.sqrt(max(variance.value, 1e-300)))
        moved = -variance.terms.slope * variance.reach - self.quantile * variance.fall() / (2.0 * error)
        if not exact:
            return np.asarray(moved)
        return _leave_one_out(regression, variance.inverse, variance.terms.curvature, kept, moved)


class _Variance:
    """The variance of a'θ, V = u'Mu with u = H⁻¹a, and what becomes of it when a row leaves."""

    def __init__(self, what: Significance, regression: Regression, kept: Mask, model: Array) -> None:
        self.what, self.regression, self.kept = what, regression, kept
        self.rows = regression.rows
        self.terms = regression.loss.terms(self.rows @ model, regression.target)
        self.inverse = linalg.pinvh(regression.hessian(model, kept))
        self.direction = self.inverse @ what.direction
        self.reach = self.rows @ self.direction
        self.score = np.where(kept, self.terms.slope * self.reach, 0.0)
        count = int(kept.sum())
        self.freedom = max(count - regression.width, 1)
        if what.errors == "clustered" and what.groups is not None:
            self.sums = np.bincount(what.groups, self.score)
            groups = max(int((np.bincount(what.groups, kept) > 0).sum()), 2)
            self.factor = groups / (groups - 1) * (count - 1) / self.freedom
        else:
            self.factor = count / self.freedom if what.errors == "HC1" else 1.0

    @property
    def value(self) -> float:
        """V."""
        if self.what.errors == "clustered":
            return float(self.factor * np.sum(np.square(self.sums)))
        if self.what.errors != "classical":
            return float(self.factor * np.sum(np.square(self.score)))
        return float(self._scale * self._bent)

    @property
    def _scale(self) -> float:
        """σ² of a squared loss, 1 for others."""
        if not isinstance(self.regression.loss, Squared):
            return 1.0
        return float(np.sum(np.square(np.where(self.kept, self.terms.slope, 0.0)))) / self.freedom

    @property
    def _bent(self) -> float:
        """u'(Σ ℓ'' x x')u."""
        return float(np.sum(np.where(self.kept, self.terms.curvature * np.square(self.reach), 0.0)))

    def fall(self) -> Array:
        """Return how far V falls to first order when a row leaves: directly, through θ, and through u."""
        kept, terms, reach = self.kept, self.terms, self.reach
        sign = np.where(kept, 1.0, -1.0)
        own = terms.slope * reach
        third = _third(self.regression, terms.curvature, terms.slope)
        if self.what.errors == "classical":
            squared = isinstance(self.regression.loss, Squared)
            direct = terms.curvature * np.square(reach) * self._scale
            if squared:
                direct = direct + np.square(terms.slope) / self.freedom * self._bent - self.value / self.freedom
            by_model = np.where(kept, third * np.square(reach), 0.0) * self._scale
            by_direction = np.where(kept, 2.0 * terms.curvature * reach, 0.0) * self._scale
        else:
            total = self.sums[self.what.groups] if self.what.errors == "clustered" else np.where(kept, own, 0.0)
            direct = self.factor * (2.0 * total * own - np.square(own) * sign)
            by_model = self.factor * np.where(kept, 2.0 * total * terms.curvature * reach, 0.0)
            by_direction = self.factor * np.where(kept, 2.0 * total * terms.slope, 0.0)
        through_model = self.inverse @ (self.rows.T @ by_model)
        through_direction = self.inverse @ (self.rows.T @ by_direction)
        twist = self.inverse @ (self.rows.T @ np.where(kept, third * reach * (self.rows @ through_direction), 0.0))
        # dθ = H⁻¹x ℓ' when a row leaves; du = H⁻¹(ℓ'' x x'u − Σ ℓ''' (x'u)(x'dθ) x).
        change = (self.rows @ (through_model - twist)) * terms.slope
        change = change + terms.curvature * reach * (self.rows @ through_direction)
        return np.asarray(direct - change)


def _third(regression: Regression, curvature: Array, slope: Array) -> Array:
    """ℓ''', of the two losses for which it is not 0 almost everywhere and that are bounded here."""
    if isinstance(regression.loss, Logistic):
        # With p = 1/(1 + e^−η): ℓ'' = p(1 − p), ℓ''' = p(1 − p)(1 − 2p), and ℓ' = p − (y + 1)/2.
        return np.asarray(curvature * (1.0 - 2.0 * (slope + (regression.target + 1.0) / 2.0)))
    return np.zeros_like(curvature)


def _leave_one_out(regression: Regression, inverse: Array, curvature: Array, kept: Mask, fall: Array) -> Array:
    leverage = curvature * regression.leverage(inverse)
    # A row that is out would come back: then it adds to the curvature instead.
    return np.asarray(fall / np.where(kept, np.maximum(1.0 - leverage, 1e-3), 1.0 + leverage))

"""A regression on rows that may be removed: refits in coordinates in which the curvature of all rows is 1, and what is
asked of them, a coefficient's distance from a value or from no longer being significant.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy import linalg

from superteach.losses.scalar import Logistic, Loss, Squared
from superteach.types import Array, Mask, Positions

StandardErrors = Literal["classical", "HC0", "HC1", "clustered"]
STANDARD_ERRORS: tuple[StandardErrors, ...] = ("classical", "HC0", "HC1", "clustered")
STEPS = 60
"""Newton steps of a refit, at most; it mostly takes four."""
RANK_TOLERANCE = 1e-10
"""Singular values below this share of the largest count as 0: columns that repeat others in float64."""


@dataclass(frozen=True, eq=False)
class Regression:
    """Rows in whitened coordinates, targets (±1 for margin losses), the loss, and the penalty (1/2) θ'Pθ."""

    rows: Array
    target: Array
    loss: Loss
    penalty: Array
    """P, positive semidefinite."""
    basis: Array
    """θ in the units of the table is basis @ θ."""
    first: Positions
    """Where each distinct pair of row and target occurs first: votes between the same two are one row many times."""
    kind: Positions
    """For each row, the place of its kind in `first`."""
    per_row: bool = False
    """Whether the penalty shrinks with the number of rows."""
    two_classes: bool = True
    """Whether a classifier refuses rows of one class, as scikit-learn's do."""

    @staticmethod
    def of(
        rows: Array, target: Array, loss: Loss, penalty: Array, per_row: bool = False, two_classes: bool = True
    ) -> Regression:
        """Whiten the rows by their singular vectors; `penalty` has one weight for each coefficient."""
        scale = np.sqrt(np.sum(np.square(rows), axis=0) + penalty)
        scale[scale == 0.0] = 1.0
        stacked = np.vstack([rows / scale, np.diag(np.sqrt(penalty) / scale)]) if penalty.any() else rows / scale
        _, sizes, axes = np.linalg.svd(stacked, full_matrices=False)
        used = sizes > RANK_TOLERANCE * sizes[0]
        basis = (axes[used].T / sizes[used]) / scale[:, None]
        first, kind = _distinct(rows, target)
        inner = (basis.T * penalty) @ basis
        return Regression(rows @ basis, target, loss, inner, basis, first, kind, per_row, two_classes)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.target)

    @property
    def width(self) -> int:
        """How many coefficients the rows determine."""
        return int(self.rows.shape[1])

    def direction(self, vector: Array) -> Array | None:
        """Return a such that a'θ is `vector` times the table's coefficients; None where rows do not determine it."""
        inside = self.basis @ np.linalg.lstsq(self.basis, vector, rcond=None)[0]
        scale = np.linalg.norm(self.basis, axis=1)
        lacking = np.linalg.norm((vector - inside) * scale) > 1e-6 * np.linalg.norm(vector * scale)
        return None if lacking else self.basis.T @ vector

    def penalty_without(self, removed: int) -> Array:
        """P once `removed` rows are gone."""
        return self.penalty * ((self.count - removed) / self.count) if self.per_row else self.penalty

    def kept(self, removed: Positions) -> Mask:
        """Tell the rows that stay."""
        kept = np.ones(self.count, dtype=bool)
        kept[removed] = False
        return kept

    @cached_property
    def kinds(self) -> Array:
        """Rows that differ, once each."""
        return self.rows if len(self.first) == self.count else self.rows[self.first]

    @cached_property
    def counts(self) -> Array:
        """How often each of them occurs."""
        return np.bincount(self.kind, minlength=len(self.first)).astype(np.float64)

    @cached_property
    def _sums(self) -> tuple[Array, Array]:
        return self.rows.T @ self.rows, self.rows.T @ self.target

    def fit(self, removed: Positions, start: Array) -> Array:
        """Fit without the removed rows, from `start`; NaN where no model belongs to the others."""
        if isinstance(self.loss, Squared):
            gone = self.rows[removed]
            gram, moment = self._sums
            gram = gram - gone.T @ gone + self.penalty_without(len(removed))
            return _solve(gram, moment - gone.T @ self.target[removed])
        weights = self.counts - np.bincount(self.kind[removed], minlength=len(self.first))
        target = self.target[self.first]
        if self.two_classes and self.loss.classifies and abs(float(weights @ target)) == float(weights.sum()):
            return np.full(self.width, np.nan)
        return self.minimise(weights, self.penalty_without(len(removed)), np.zeros(self.width), start)

    @cached_property
    def model(self) -> Array:
        """Fit all rows."""
        return self.fit(np.zeros(0, np.int64), np.zeros(self.width))

    def minimise(self, weights: Array, penalty: Array, origin: Array, start: Array, span: Array | None = None) -> Array:
        """Minimise Σ w ℓ + (1/2) θ'Pθ over θ = origin + span·γ by Newton; all θ where there is no span.

        `weights` has a number for each kind of row.
        """
        all_rows, target = self.kinds, self.target[self.first]
        rows = all_rows if span is None else all_rows @ span
        fixed = all_rows @ origin
        inner = penalty if span is None else span.T @ penalty @ span
        pull = penalty @ origin if span is None else span.T @ (penalty @ origin)
        model = start.copy()

        def value(at: Array) -> float:
            losses = self.loss.value(fixed + rows @ at, target)
            return float(weights @ losses + pull @ at + 0.5 * at @ inner @ at)

        now = value(model)
        for _ in range(STEPS):
            terms = self.loss.terms(fixed + rows @ model, target)
            gradient = rows.T @ (weights * terms.slope) + pull + inner @ model
            step = _solve((rows * (weights * terms.curvature)[:, None]).T @ rows + inner, gradient)
            if not np.isfinite(step).all():
                return np.full(len(start), np.nan)
            length, fall = 1.0, float(gradient @ step)
            while value(model - length * step) > now - 1e-4 * length * fall + 1e-12 * abs(now) and length > 1e-9:
                length *= 0.5
            model = model - length * step
            now = value(model)
            if fall <= 1e-20 * (1.0 + abs(now)):
                break
        return model

    def hessian(self, model: Array, kept: Mask) -> Array:
        """Σ ℓ'' x x' + P over the rows kept."""
        weights = np.bincount(self.kind, kept, len(self.first))
        curvature = weights * self.loss.curvature(self.kinds @ model, self.target[self.first])
        removed = len(kept) - int(kept.sum())
        return np.asarray((self.kinds * curvature[:, None]).T @ self.kinds + self.penalty_without(removed))

    def leverage(self, inverse: Array) -> Array:
        """x'H⁻¹x of every row."""
        return np.asarray(np.einsum("jd,jd->j", self.kinds @ inverse, self.kinds)[self.kind])


def _solve(matrix: Array, right: Array) -> Array:
    """Solve by Cholesky; NaN where the matrix is singular in float64 (its scale is 1 in whitened coordinates)."""
    try:
        factor = linalg.cho_factor(matrix, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return np.full(len(right), np.nan)
    pivots = np.square(np.diag(factor[0]))
    if not pivots.min(initial=1.0) > 1e-13 * pivots.max(initial=1.0):
        return np.full(len(right), np.nan)
    return np.asarray(linalg.cho_solve(factor, right, check_finite=False))


def _distinct(rows: Array, target: Array) -> tuple[Positions, Positions]:
    """Find equal rows with equal targets: where each kind occurs first, and the kind of every row."""
    both = np.ascontiguousarray(np.column_stack([rows, target]))
    keys = both.view(np.dtype((np.void, both.dtype.itemsize * both.shape[1]))).ravel()
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order].astype(np.int64), place[kind].astype(np.int64)


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
            groups = int((np.bincount(what.groups, kept) > 0).sum())
            # One group alone has no such errors.
            self.factor = groups / (groups - 1) * (count - 1) / self.freedom if groups > 1 else np.nan
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

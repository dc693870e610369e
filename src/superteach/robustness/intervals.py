"""Proof for any number of columns: intervals that hold what k removed rows can do to each other.

With H the curvature of all rows at their model θ, and θ + δ the model without the rows of T,

    Hδ = Σ_{j∈T} ℓ'_j(x_j'(θ + δ)) x_j − Σ_j ρ_j x_j,      ρ_j = ℓ'_j(x_j'(θ + δ)) − ℓ'_j(x_j'θ) − ℓ''_j x_j'δ.

So with K_ij = x_i'H⁻¹x_j, and p_j for ℓ'_j at the new model,

    x_i'δ = Σ_{j∈T} K_ij p_j − Σ_j K_ij ρ_j,       a'δ = Σ_{j∈T} (x_j'H⁻¹a) p_j − Σ_j (x_j'H⁻¹a) ρ_j.

Given an interval for every p_j and every |ρ_j|, the sum over any k rows is at most the sum of the k largest terms: that
gives new intervals. Intervals that contain what they give, with room to spare, hold the truth: δ grows from 0 as rows leave
little by little, and cannot jump over them. Squared losses have ρ = 0, and for a row of T, x_i'δ = K_ii p_i + the others' sum
solves for p_i: the refit without one row is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

from superteach.mathematics.losses import Logistic, Squared
from superteach.robustness.regression import Regression
from superteach.types import Array, Positions

PAIRS = 25_000_000
"""Most pairs of distinct rows whose products are held (200 MB); above, |K_ij| is bounded by the lengths of both."""
ROUNDS = 40
"""Times the intervals are computed anew; they mostly settle after ten."""
ROOM = 1e-6
"""How much wider than what they give intervals must be, as a share."""


class Distinct(NamedTuple):
    """Rows that differ, and how often each occurs: votes between the same two are one row many times."""

    rows: Array
    target: Array
    counts: Array
    first: Positions
    """Where each occurs first."""

    @staticmethod
    def of(regression: Regression) -> Distinct:
        """Find equal rows with equal targets."""
        both = np.ascontiguousarray(np.column_stack([regression.rows, regression.target]))
        keys = both.view(np.dtype((np.void, both.dtype.itemsize * both.shape[1]))).ravel()
        _, first, counts = np.unique(keys, return_index=True, return_counts=True)
        order = np.argsort(first)
        first = first[order]
        return Distinct(regression.rows[first], regression.target[first], counts[order].astype(float), first)


class IntervalBound:
    """Bounds of what removing k rows can do to a'θ."""

    def __init__(self, regression: Regression, model: Array, direction: Array) -> None:
        """Take the rows at the model of all of them; `direction` has the sign in which a'θ is to fall."""
        self.loss = regression.loss
        self.squared = isinstance(regression.loss, Squared)
        self.distinct = Distinct.of(regression)
        rows, target, counts, _ = self.distinct
        self.target, self.counts = target, counts
        self.eta = rows @ model
        terms = regression.loss.terms(self.eta, target)
        self.slope, self.bent = terms.slope, terms.curvature
        hessian = (rows * (counts * self.bent)[:, None]).T @ rows + regression.penalty
        values, axes = linalg.eigh(hessian)
        units = rows @ (axes / np.sqrt(np.maximum(values, 1e-14 * values[-1])))
        self.lengths = np.linalg.norm(units, axis=1)
        self.leverage = np.square(self.lengths)
        self.along = units @ ((axes / np.sqrt(np.maximum(values, 1e-14 * values[-1]))).T @ direction)
        self.products = units @ units.T if len(rows) ** 2 <= PAIRS else None
        self.total = regression.count

    def reach(self, count: int) -> float:
        """Bound how far a'θ can fall when `count` rows leave; infinite where no bound is known."""
        found = self._squared(count) if self.squared else self._curved(count)
        if found is None:
            return np.inf
        low, high, rest = found
        gains = np.maximum(-self.along * low, -self.along * high)
        most = _top(np.maximum(gains, 0.0)[None, :], self.counts, count)[0]
        bound = float(most + np.sum(self.counts * np.abs(self.along) * rest))
        return bound * (1.0 + 1e-9)

    def _squared(self, count: int) -> tuple[Array, Array, Array] | None:
        """Return intervals of the residual that a removed row has at the new model."""
        if self.leverage.max() >= 1.0 - 1e-9:
            return None
        single = 1.0 / (1.0 - self.leverage)
        low = high = self.slope * single
        for _ in range(ROUNDS):
            down, up = self._others(low, high, count - 1)
            new_low, new_high = (self.slope - down) * single, (self.slope + up) * single
            if not np.isfinite(new_high).all() or np.abs(new_high - new_low).max() > 1e6 * np.abs(self.slope).max():
                return None
            settled = bool((new_low >= low).all() and (new_high <= high).all())
            if settled:
                return low, high, np.zeros_like(low)
            room = ROOM * (np.abs(new_low) + np.abs(new_high) + 1e-12)
            low, high = np.minimum(low, new_low - room), np.maximum(high, new_high + room)
        return None

    def _curved(self, count: int) -> tuple[Array, Array, Array] | None:
        """Return intervals of a removed row's ℓ' at the new model, and bounds of every row's |ρ|."""
        down, up, rest = np.zeros_like(self.eta), np.zeros_like(self.eta), np.zeros_like(self.eta)
        for _ in range(ROUNDS):
            low = self.loss.gradient(self.eta - down, self.target)
            high = self.loss.gradient(self.eta + up, self.target)
            less, more = self._others(low, high, count, own=True)
            second = self._everyone(rest)
            less, more = less + second, more + second
            far = np.maximum(less, more)
            if not far.max() < 20.0:
                return None
            if (less <= down).all() and (more <= up).all():
                return low, high, rest
            room = ROOM * (far + 1e-12)
            down, up = np.maximum(down, less + room), np.maximum(up, more + room)
            rest = self._remainder(np.maximum(down, up))
        return None

    def _remainder(self, far: Array) -> Array:
        """Bound |ρ| for |x'δ| ≤ far: by |ℓ'''| ≤ 1/(6√3), and by ℓ'' growing at most by the factor e per unit."""
        crude = 0.5 * np.square(far) / (6.0 * np.sqrt(3.0))
        return np.minimum(crude, self.bent * (np.expm1(far) - far))

    def _others(self, low: Array, high: Array, count: int, own: bool = False) -> tuple[Array, Array]:
        """Bound −Σ K_ij p_j and Σ K_ij p_j over any `count` rows j, i itself among them where `own`."""
        if count == 0:
            return np.zeros_like(low), np.zeros_like(low)
        if self.products is None:
            size = np.maximum(np.abs(low), np.abs(high)) * self.lengths
            both = self.lengths * _top(size[None, :], self.counts, count)[0]
            return both, both
        down, up = np.empty_like(low), np.empty_like(low)
        for begin in range(0, len(low), 512):
            some = slice(begin, begin + 512)
            products = self.products[some]
            one, two = products * low, products * high
            upper, lower = np.maximum(one, two), np.minimum(one, two)
            if not own:  # a row that occurs once is not among its own others
                here = np.arange(begin, min(begin + 512, len(low)))
                single = self.counts[here] == 1.0
                upper[np.flatnonzero(single), here[single]] = 0.0
                lower[np.flatnonzero(single), here[single]] = 0.0
            up[some] = _top(np.maximum(upper, 0.0), self.counts, count)
            down[some] = _top(np.maximum(-lower, 0.0), self.counts, count)
        return down, up

    def _everyone(self, rest: Array) -> Array:
        """Bound |Σ_j K_ij ρ_j| over all rows."""
        if not rest.any():
            return np.zeros_like(rest)
        if self.products is None:
            return self.lengths * float(np.sum(self.counts * self.lengths * rest))
        return np.asarray(np.abs(self.products) @ (self.counts * rest))


def _top(values: Array, counts: Array, count: int) -> Array:
    """Sum the `count` largest of each line, entry j being there counts[j] times."""
    width = values.shape[1]
    if bool((counts == 1.0).all()):
        count = min(count, width)
        return np.asarray(np.partition(values, width - count, axis=1)[:, width - count :].sum(axis=1))
    most = min(count, width)
    places = np.argpartition(values, width - most, axis=1)[:, width - most :]
    chosen = np.take_along_axis(values, places, axis=1)
    order = np.argsort(-chosen, axis=1)
    chosen, often = np.take_along_axis(chosen, order, axis=1), counts[np.take_along_axis(places, order, axis=1)]
    before = np.cumsum(often, axis=1) - often
    return np.asarray((chosen * np.clip(count - before, 0.0, often)).sum(axis=1))


def least_rows(
    regression: Regression,
    model: Array,
    direction: Array,
    distance: float,
    most: int,
    report: Callable[[str], None] = lambda text: None,
) -> int | None:
    """Find the least number of rows that might lower a'θ by `distance`; fewer are proved not to. None: no proof."""
    if not isinstance(regression.loss, Squared | Logistic) or regression.per_row:
        return None
    bound = IntervalBound(regression, model, direction)
    low, high = 0, 1
    while high < most and bound.reach(high) < distance:
        low, high = high, min(2 * high, most)
    if high == most and low < most - 1 and bound.reach(most) < distance:
        return most + 1
    while high - low > 1:
        middle = (low + high) // 2
        report(f"proof: at least {low + 1:,} rows")
        low, high = (middle, high) if bound.reach(middle) < distance else (low, middle)
    return low + 1

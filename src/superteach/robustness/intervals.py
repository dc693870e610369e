"""Proof for any number of columns: intervals that hold what k removed rows can do to each other.

With H the curvature of all rows at their model θ, and θ + δ the model without the rows of T,

    Hδ = Σ_{j∈T} ℓ'_j(x_j'(θ + δ)) x_j − Σ_j ρ_j x_j,      ρ_j = ℓ'_j(x_j'(θ + δ)) − ℓ'_j(x_j'θ) − ℓ''_j x_j'δ.

So with K_ij = x_i'H⁻¹x_j, and p_j for ℓ'_j at the new model,

    x_i'δ = Σ_{j∈T} K_ij p_j − Σ_j K_ij ρ_j,       a'δ = Σ_{j∈T} (x_j'H⁻¹a) p_j − Σ_j (x_j'H⁻¹a) ρ_j.

Given an interval for every p_j and every |ρ_j|, the sum over any k rows is at most the sum of the k largest terms: that
gives new intervals. Intervals that contain what they give, with room to spare, hold the truth: δ grows from 0 as rows leave
little by little, and cannot jump over them. Squared losses have ρ = 0, and for a row of T, x_i'δ = K_ii p_i + the sum of
the others solves for p_i: the refit without one row is exact.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy import linalg

from superteach.losses.scalar import Squared
from superteach.robustness.regions import Slice, prove
from superteach.robustness.regression import Regression, Significance
from superteach.types import Array

PAIRS = 25_000_000
"""Most pairs of distinct rows whose products are held (200 MB); above, |K_ij| is bounded by the lengths of both."""
ROUNDS = 40
"""Times the intervals are computed anew; they mostly settle after ten."""
ROOM = 3e-4
"""How much wider than what they give intervals must be, as a share."""


class IntervalBound:
    """Bounds of what removing k rows can do to a'θ."""

    def __init__(self, regression: Regression) -> None:
        """Take the rows at the model of all of them."""
        self.loss = regression.loss
        self.squared = isinstance(regression.loss, Squared)
        rows, target, counts = regression.kinds, regression.target[regression.first], regression.counts
        self.target, self.counts = target, counts
        self.eta = rows @ regression.model
        terms = regression.loss.terms(self.eta, target)
        self.slope, self.bent = terms.slope, terms.curvature
        hessian = (rows * (counts * self.bent)[:, None]).T @ rows + regression.penalty
        values, axes = linalg.eigh(hessian)
        self.root = axes / np.sqrt(np.maximum(values, 1e-14 * values[-1]))
        self.units = units = rows @ self.root
        self.lengths = np.linalg.norm(units, axis=1)
        self.leverage = np.square(self.lengths)
        self.products = units @ units.T if len(rows) ** 2 <= PAIRS else None
        self._known: dict[int, tuple[Array, Array, Array] | None] = {}

    def reach(self, count: int, direction: Array) -> float:
        """Bound how far a'θ can fall when `count` rows leave; infinite where no bound is known."""
        if count == 0:
            return 0.0
        if count not in self._known:
            self._known[count] = self._squared(count, self.slope) if self.squared else self._curved(count)
        found = self._known[count]
        if found is None:
            return np.inf
        low, high, rest = found
        along = self.units @ (self.root.T @ direction)
        # H(−δ) = −Σ_T p x + Σ ρ x: a row that leaves lowers a'θ by −p x'H⁻¹a.
        gains = np.maximum(-along * low, -along * high)
        most = _top(np.maximum(gains, 0.0)[None, :], self.counts, count)[0]
        bound = float(most + np.sum(self.counts * np.abs(along) * rest))
        return bound * (1.0 + 1e-9)

    def squared_scores(self, count: int, direction: Array) -> float:
        """Bound Σ (ℓ' x'u)² over the rows left when `count` rows are gone, for squared losses; infinite without a bound."""
        largest = []
        for start in (self.slope, self.units @ (self.root.T @ direction)):
            found = self._squared(count, start)
            if found is None:
                return np.inf
            down, up = self._others(found[0], found[1], count)
            largest.append(np.maximum(np.abs(start - down), np.abs(start + up)))
        return float(np.sum(self.counts * np.square(largest[0] * largest[1]))) * (1.0 + 1e-9)

    def first_order(self, direction: Array, distance: float) -> float:
        """Estimate how many rows lower a'θ by `distance`, from influences alone; no bound."""
        gains = np.repeat(-(self.units @ (self.root.T @ direction)) * self.slope, self.counts.astype(np.int64))
        sums = np.cumsum(np.sort(np.maximum(gains, 0.0))[::-1])
        return float(np.searchsorted(sums, distance)) + 1.0

    def least_rows(
        self,
        direction: Array,
        distance: float,
        enough: int,
        ends: float = np.inf,
        report: Callable[[str], None] = lambda text: None,
    ) -> int:
        """Find the least number of rows that might lower a'θ by `distance`, `enough` at most; fewer are proved not to.

        `ends` is the reading of the monotonic clock after which no further number is tried.
        """
        low, high = 0, enough
        if enough > 1 and self.reach(enough - 1, direction) < distance:
            return enough
        while high - low > 1 and time.monotonic() < ends:
            middle = (low + high) // 2
            low, high = (middle, high) if self.reach(middle, direction) < distance else (low, middle)
            report(f"proof: at least {low + 1:,} rows")
        return low + 1

    def _squared(self, count: int, start: Array) -> tuple[Array, Array, Array] | None:
        """Return intervals of a removed row's p = start + Σ_T K p: its residual at the new model, or x'u with u = H⁻¹a."""
        if self.leverage.max() >= 1.0 - 1e-9:
            return None
        single = 1.0 / (1.0 - self.leverage)
        low = high = start * single
        for _ in range(ROUNDS):
            down, up = self._others(low, high, count - 1)
            new_low, new_high = (start - down) * single, (start + up) * single
            if not np.isfinite(new_high).all() or np.abs(new_high - new_low).max() > 1e6 * np.abs(start).max():
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
        return np.asarray(np.minimum(crude, self.bent * (np.expm1(far) - far)))

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
            return np.asarray(self.lengths * float(np.sum(self.counts * self.lengths * rest)))
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


def least_rows_robust(regression: Regression, statistic: Significance, enough: int, free: int, seconds: float) -> int:
    """Find how few rows might take significance away under HC0 or HC1 errors; fewer are proved not to. A bound, no optimum.

    With at most k rows gone the error is at most S_k (intervals of residuals and of x'u), so the coefficient must have
    passed q·S_k: where that takes more than k rows, k are not enough. `free` is how many free coefficients regions may have.
    """
    ends = time.monotonic() + seconds
    bound = IntervalBound(regression)
    before = float(statistic.direction @ regression.model)

    def not_enough(count: int) -> bool:
        left = regression.count - count
        if left <= regression.width:
            return False
        factor = left / (left - regression.width) if statistic.errors == "HC1" else 1.0
        passed = statistic.quantile * float(np.sqrt(factor * bound.squared_scores(count, statistic.direction)))
        if not passed < before:
            return False
        if bound.reach(count, statistic.direction) < before - passed:
            return True
        if regression.width > free + 1:
            return False
        what = Slice(regression, statistic.direction, passed)
        rest = max(ends - time.monotonic(), 0.0)
        return what.usable and prove(what, count + 1, rest).least > count

    low, high = 0, 1
    while high < enough and time.monotonic() < ends and not_enough(high):
        low, high = high, min(2 * high, enough)
    while high - low > 1 and time.monotonic() < ends:
        middle = (low + high) // 2
        low, high = (middle, high) if not_enough(middle) else (low, middle)
    return low + 1

"""Proof that fewer rows do not take away a coefficient's significance: classical errors of least squares.

With m rows left and p coefficients, |t| ≤ q says RSS(a'θ = 0) ≤ (1 + κ) RSS, κ = q²/(m − p). The left side is the least
over γ of Σ w r_j(γ)², with θ_γ = θ_0 + Bγ; and RSS is the least over all models, so for the γ of the left side and every δ

    Σ_j w_j (r_j(γ)² − (1 + κ)(r_j(γ) + x_j'δ)²) ≤ 0

and for every s ≥ 0 at least D = n − Σ_j (1 + s κ r² + 2 s (1 + κ) r x_j'δ + s (1 + κ)(x_j'δ)²)₊ rows must go. For given
s and δ this is concave in γ: least at a corner of a simplex. For one γ the best (s, δ) closes the gap, by convexity in w.
"""

from __future__ import annotations

import time

import numpy as np
from scipy import optimize, special

from superteach.robustness.intervals import IntervalBound
from superteach.robustness.regions import NEWTON, ROUNDING, SMOOTHING, RegionOptions, Slice, prove
from superteach.robustness.regression import Regression
from superteach.robustness.statistics import Significance
from superteach.types import Array

CUTS = 12
"""Models at most whose residuals stand for RSS in a linear programme; it mostly settles after six."""


class SignificanceSlice(Slice):
    """Models with a'θ = 0, and what it takes for others to fit hardly better."""

    def __init__(self, regression: Regression, statistic: Significance, model: Array, enough: int) -> None:
        """Take κ for the fewest rows that may be left while `enough` rows are not yet gone."""
        super().__init__(regression, statistic.direction, 0.0, model)
        self.ratio = statistic.quantile**2 / max(regression.count - enough + 1 - regression.width, 1)

    def bound(self, corners: Array, multiplier: Array) -> float:
        """Bound from below how many rows must go where the restricted fit lies in a simplex."""
        price, change = multiplier[0], multiplier[1:]
        residual = self.eta[:, None] + self.moves @ corners.T - self.regression.target[:, None]
        move = (self.regression.rows @ change)[:, None]
        parts = (
            price * self.ratio * np.square(residual),
            2.0 * price * (1.0 + self.ratio) * residual * move,
            price * (1.0 + self.ratio) * np.square(move),
        )
        terms = np.maximum(1.0 + parts[0] + parts[1] + parts[2], 0.0)
        count = self.regression.count
        doubt = ROUNDING * (count + sum(np.abs(part).sum(axis=0) for part in parts))
        return float((count - terms.sum(axis=0) - doubt).min())

    def multiplier(self, point: Array) -> Array:
        """Maximise D over s and sδ, in which it is concave, by Newton on a smooth stand-in for (·)₊."""
        rows, ratio = self.regression.rows, self.ratio
        residual = self.eta + self.moves @ point - self.regression.target
        square = np.square(residual)
        gradient = rows.T @ residual
        change = -np.linalg.lstsq(rows.T @ rows, gradient, rcond=None)[0]
        at = np.append(1.0, change) / float(np.mean(square))

        def terms(at: Array) -> tuple[Array, Array]:
            move = rows @ at[1:]
            inner = 1.0 + at[0] * ratio * square + 2.0 * (1.0 + ratio) * residual * move
            return inner + (1.0 + ratio) * np.square(move) / at[0], move

        for width in SMOOTHING:
            now = float(width * np.logaddexp(0.0, terms(at)[0] / width).sum())
            for _ in range(NEWTON):
                inner, move = terms(at)
                share = special.expit(inner / width)
                slope = np.column_stack(
                    [
                        ratio * square - (1.0 + ratio) * np.square(move / at[0]),
                        (2.0 * (1.0 + ratio) * (residual + move / at[0]))[:, None] * rows,
                    ]
                )
                down = slope.T @ share
                bent = (slope * (share * (1.0 - share) / width)[:, None]).T @ slope
                side = np.column_stack([-move / at[0], rows])
                bent += (side * (share * 2.0 * (1.0 + ratio) / at[0])[:, None]).T @ side
                step = np.linalg.lstsq(bent + 1e-12 * np.trace(bent) * np.eye(len(at)), down, rcond=None)[0]
                length = min(1.0, 0.9 * at[0] / step[0]) if step[0] > 0.0 else 1.0
                fall = float(down @ step)
                while length > 1e-6:
                    tried = at - length * step
                    value = float(width * np.logaddexp(0.0, terms(tried)[0] / width).sum())
                    if value <= now - 1e-4 * length * fall:
                        break
                    length *= 0.5
                else:
                    break
                at, now = tried, value
                if fall < 1e-4:
                    break
        return np.append(at[0], at[1:] / at[0])

    def programme(self, point: Array) -> tuple[float, Array, Array]:
        """Solve for the weights by linear programmes with more and more models that fit better."""
        regression = self.regression
        count, rows, target = regression.count, regression.rows, regression.target
        centre = self.centre + self.basis @ point
        restricted = np.square(rows @ centre - target)
        weights = np.ones(count)
        models: list[Array] = []
        constraints: list[Array] = []
        scale = float(restricted.sum()) / count
        solved = None
        for _ in range(CUTS):
            gram = (rows * weights[:, None]).T @ rows
            models.append(np.asarray(np.linalg.lstsq(gram, rows.T @ (weights * target), rcond=None)[0], np.float64))
            constraints.append((restricted - (1.0 + self.ratio) * np.square(rows @ models[-1] - target)) / scale)
            if solved is not None and float(constraints[-1] @ weights) <= 1e-6 * count:
                break
            solved = optimize.linprog(
                -np.ones(count), A_ub=np.array(constraints), b_ub=np.zeros(len(constraints)), bounds=(0.0, 1.0),
                method="highs-ds",
            )  # fmt: skip
            if solved.x is None:
                return np.inf, np.ones(count), np.zeros(1 + len(centre))
            weights = np.asarray(solved.x)
        assert solved is not None
        prices = np.maximum(-np.asarray(solved.ineqlin.marginals), 0.0) / scale
        total = float(prices.sum())
        if total <= 0.0:
            return count - float(weights.sum()), weights, np.zeros(1 + len(centre))
        better = sum(price * model for price, model in zip(prices, models, strict=False)) / total
        return count - float(weights.sum()), weights, np.append(total, better - centre)


def least_rows_robust(
    regression: Regression, statistic: Significance, model: Array, enough: int, free: int, seconds: float
) -> int:
    """Find how few rows might take significance away under HC0 or HC1 errors; fewer are proved not to. A bound, no optimum.

    With at most k rows gone the error is at most S_k (intervals of residuals and of x'u), so the coefficient must have
    passed q·S_k: where that takes more than k rows, k are not enough. `free` is how many free coefficients regions may have.
    """
    ends = time.monotonic() + seconds
    bound = IntervalBound(regression, model)
    before = float(statistic.direction @ model)

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
        what = Slice(regression, statistic.direction, passed, model)
        rest = max(ends - time.monotonic(), 0.0)
        return what.usable and prove(what, count + 1, RegionOptions(seconds=rest)).least > count

    low, high = 0, 1
    while high < enough and time.monotonic() < ends and not_enough(high):
        low, high = high, min(2 * high, enough)
    while high - low > 1 and time.monotonic() < ends:
        middle = (low + high) // 2
        low, high = (middle, high) if not_enough(middle) else (low, middle)
    return low + 1

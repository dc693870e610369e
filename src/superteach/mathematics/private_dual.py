"""The paper's problem under noise: a point from noisy gradients, a threshold from noisy counts.

Its dual has d unknowns p, and α_j(p) is a function of the row and p alone; so noisy sums settle p as they settle prices, and
the n-th largest |α_j| is found by counting. The sum that decides is as long as Λθ*, however many rows there are, while
its noise is that of a whole row: so this needs far more rows than `match` does.
"""

from __future__ import annotations

import numpy as np

from superteach.line.queries import CountAbove, DualPull, Lengths, RowSquares, Widths
from superteach.line.queries.private import BINS, DualCap, read_symmetric
from superteach.mathematics.private import Ask, Spread, quantile_of, size_of, sure_counts
from superteach.mathematics.problem import DualProblem
from superteach.types import Array

WIDTHS, LENGTHS, SQUARES = 0.05, 0.05, 0.1
"""Shares of the budget for units of columns, lengths of pulls, and squares of rows."""
STEPS = (0.01, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.2)
"""Shares of each step, a tenth of it for the curvature."""
COUNTS = 15
"""Halvings of the threshold, in equal parts of what is left: they find a score to half a percent."""
FARTHEST = 50.0
"""Largest score that is looked for, as its inverse hyperbolic sine."""


def solve(
    ask: Ask, spread: Spread, problem: DualProblem, sparsity: float, size: float, rows: int, free: int
) -> tuple[Array, DualCap, float]:
    """The point, the caps, and the score from which on about `size` rows lie.

    The first `free` coefficients have columns of rows.
    """
    goal, width = problem.goal, len(problem.goal)
    weights = np.ones(width)
    counted = Widths(free, WIDTHS)
    found = ask(counted).reshape(free, BINS)
    weights[:free] = [1.0 / size_of(one, spread(counted.releases[0])) for one in found]
    # How long pulls are near the goal, where the paper's α lie.
    lengths = Lengths(goal, weights, LENGTHS)
    counts = sure_counts(ask(lengths), spread(lengths.releases[0]))
    length, row = quantile_of(counts, 0.9), float(np.sqrt(2.0 * width))
    asked = RowSquares(weights, row, SQUARES)
    noise = spread(asked.releases[0])
    squares = _positive(read_symmetric(ask(asked), width), np.sqrt(width) * noise)
    wanted = goal.copy()
    if problem.free_intercept:
        wanted[-1] = 0.0
    direction = problem.ridge * weights * np.linalg.solve(squares, weights * wanted)
    cap = DualCap(weights, length, direction, sparsity if np.any(wanted) else 0.0)
    smooth = problem.smooth
    point: Array = np.zeros(width)
    for share in STEPS:
        told = ask(DualPull(point, cap, 0.9 * share, 0.1 * share))
        gradient = told[:width] / weights + smooth.gradient(point)
        # All rows bend alike, as far as is known: their squares times the share of rows that bend.
        bent = max(float(told[width]), 1.0) / rows * squares
        move = np.linalg.solve(bent / np.outer(weights, weights) + np.diag(smooth.diagonal), gradient)
        longest = max(float(np.linalg.norm(goal)), float(np.linalg.norm(point)))
        point = np.asarray(np.round(point - move * min(1.0, longest / max(float(np.linalg.norm(move)), 1e-300)), 9))
    low, high = -FARTHEST, FARTHEST
    share = (1.0 - WIDTHS - LENGTHS - SQUARES - sum(STEPS)) / COUNTS
    for _ in range(COUNTS):
        middle = 0.5 * (low + high)
        count = float(ask(CountAbove(point, cap, float(np.sinh(middle)), share))[0])
        low, high = (middle, high) if count > size else (low, middle)
    return point, cap, float(np.sinh(0.5 * (low + high)))


def _positive(found: Array, slack: float) -> Array:
    """A noisy matrix with all its values at least as large as its noise."""
    values, axes = np.linalg.eigh(found)
    return np.asarray((axes * np.maximum(values, slack)) @ axes.T)

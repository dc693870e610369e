"""Which lesson sizes a budget allows."""

from __future__ import annotations

import numpy as np

from superteach.exceptions import BudgetError, Setting, counted
from superteach.learner import Learner

PATH_FRACTIONS = (
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06, 0.07, 0.08,
    0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0,
)  # fmt: skip
"""Shares of the pool that budget="best" looks at, where another size costs little: dense where the paper's risks have
their dip."""
FEW = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""Shares of the pool that budget="best" looks at, where each costs a whole search."""


def lesson_sizes(
    budget: float | str | tuple[float, float], rows: int, width: int, fractions: tuple[float, ...] = PATH_FRACTIONS
) -> list[int]:
    """List the lesson sizes to look at, ascending: one for a count or a fraction, several for a range or "best"."""
    if budget == "smallest":
        return []
    if isinstance(budget, str):
        least = min(width + 1, rows)
        return sorted({min(rows, max(least, round(fraction * rows))) for fraction in fractions})
    if isinstance(budget, tuple | list):
        low, high = (lesson_sizes(end, rows, width)[0] for end in budget)
        return sorted({round(size) for size in np.geomspace(low, high, min(5, high - low + 1))})
    if isinstance(budget, int):
        if budget > rows:
            raise BudgetError(
                Setting("budget", budget),
                f" rows is more than the {counted(rows, 'rows')} all teachers have together",
            )
        return [int(budget)]
    return [max(1, round(float(budget) * rows))]


def check_least(sizes: list[int], budget: object, rows: int, width: int, learner: Learner) -> None:
    """Refuse, before any row is chosen, sizes to which no model belongs."""
    least, why = learner.least_rows(width)
    if sizes and max(sizes) < least:
        raise BudgetError(
            Setting("budget", budget),
            f" is {max(sizes):,} of {counted(rows, 'rows')}, and {why}: give at least {least}",
            *(("; ", Setting("budget", 1.0), " is all of them") if budget == 1 else ()),
        )

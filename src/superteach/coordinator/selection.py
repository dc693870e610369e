"""The global choice, from counts alone: budgets, and the n-th rank over all teachers' rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from superteach.coordinator.federation import Federation
from superteach.errors import BudgetError, TeachingError
from superteach.line.queries import HISTOGRAM_BINS, CountRanks

_RANK_BYTES = 16
PATH_FRACTIONS = (
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06, 0.07, 0.08,
    0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0,
)  # fmt: skip
"""Where budget="best" looks: dense where the paper's risks have their dip."""


BUDGETS = "give a count, a fraction in (0, 1], a range (low, high) of either, 'best', or 'smallest' with risk_target="


def check_budget(budget: Any) -> None:
    """Refuse what no number of rows could make a budget."""
    if isinstance(budget, str):
        if budget not in ("best", "smallest"):
            raise BudgetError(f"budget={budget!r} is not known: {BUDGETS}")
    elif isinstance(budget, tuple | list):
        if len(budget) != 2 or any(isinstance(end, str | tuple | list) for end in budget):
            raise BudgetError(f"budget={budget!r} is not a range (low, high): {BUDGETS}")
        for end in budget:
            check_budget(end)
        if _is_count(budget[0]) != _is_count(budget[1]) or budget[0] > budget[1]:
            raise BudgetError(
                f"budget={budget!r}: a range has two counts or two fractions, the smaller first"
            )
    elif _is_count(budget):
        if budget < 1:
            raise BudgetError(f"budget={budget} rows is too few: a lesson has at least one row")
    elif not isinstance(budget, float | np.floating):
        raise BudgetError(f"budget={budget!r} is not known: {BUDGETS}")
    elif not (math.isfinite(budget) and 0.0 < budget <= 1.0):
        raise BudgetError(f"budget={budget} is not a fraction in (0, 1]; write an int for a count of rows")


def _is_count(budget: Any) -> bool:
    return isinstance(budget, int | np.integer) and not isinstance(budget, bool)


def counts_of(budget: Any, rows: int, width: int, fractions: tuple[float, ...] = PATH_FRACTIONS) -> list[int]:
    """The lesson sizes to look at, ascending: one for a count or a fraction, several for a range or "best"."""
    check_budget(budget)
    if budget == "smallest":
        return []
    if isinstance(budget, str):
        least = min(width + 1, rows)
        return sorted({min(rows, max(least, round(fraction * rows))) for fraction in fractions})
    if isinstance(budget, tuple | list):
        low, high = (counts_of(end, rows, width)[0] for end in budget)
        return sorted({round(size) for size in np.geomspace(low, high, min(5, high - low + 1))})
    if _is_count(budget):
        if budget > rows:
            raise BudgetError(f"budget={budget} rows is more than the {rows} rows all teachers have together")
        return [int(budget)]
    return [max(1, round(float(budget) * rows))]


def last_ranks(federation: Federation, counts: list[int]) -> list[bytes]:
    """For every n in counts, the rank up to which exactly n of all teachers' rows lie.

    One byte of the rank per round, for all counts at once; a search ends early where a byte's
    boundary happens to fall on its count.
    """
    found: dict[int, bytes] = {}
    open_: dict[int, tuple[bytes, int]] = dict.fromkeys(counts, (b"", 0))
    while open_:
        prefixes = tuple(sorted({prefix for prefix, _ in open_.values()}))
        histograms = dict(zip(prefixes, federation.sum(CountRanks(prefixes)), strict=True))
        for count, (prefix, before) in list(open_.items()):
            reached = before + np.cumsum(histograms[prefix])
            byte = int(np.searchsorted(reached, count))
            if byte == HISTOGRAM_BINS:
                raise TeachingError(f"only {reached[-1]} rows are ranked, {count} were asked for")
            prefix += bytes([byte])
            if reached[byte] == count:
                found[count] = prefix + b"\xff" * (_RANK_BYTES - len(prefix))
                del open_[count]
            elif len(prefix) == _RANK_BYTES:
                raise TeachingError("two rows share one id, so ties between them cannot be broken")
            else:
                open_[count] = (prefix, int(reached[byte - 1]) if byte else before)
    return [found[count] for count in counts]

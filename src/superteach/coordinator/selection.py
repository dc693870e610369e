"""The global choice, from counts alone: budgets, and the n-th rank over all teachers' rows."""

from __future__ import annotations

import numpy as np

from superteach.coordinator.federation import Federation
from superteach.coordinator.methods.base import PATH_FRACTIONS
from superteach.exceptions import BudgetError, Setting, TeachingError, counted
from superteach.learner import Learner
from superteach.protocol.queries import HISTOGRAM_BINS, CountRanks

_RANK_BYTES = 16


def counts_of(
    budget: float | str | tuple[float, float], rows: int, width: int, fractions: tuple[float, ...] = PATH_FRACTIONS
) -> list[int]:
    """List the lesson sizes to look at, ascending: one for a count or a fraction, several for a range or "best"."""
    if budget == "smallest":
        return []
    if isinstance(budget, str):
        least = min(width + 1, rows)
        return sorted({min(rows, max(least, round(fraction * rows))) for fraction in fractions})
    if isinstance(budget, tuple | list):
        low, high = (counts_of(end, rows, width)[0] for end in budget)
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


def last_ranks(federation: Federation, counts: list[int]) -> list[bytes]:
    """Find, for every n in `counts`, the rank up to which exactly n of all teachers' rows lie.

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

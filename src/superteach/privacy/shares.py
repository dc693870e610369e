"""Fair shares of a lesson, from public numbers alone: declared sizes, columns, the lesson's size and policies.

An owner whose share is τ_i = (n_i/n) t teaches it alone with n_i rows. That works well where n_i is several times the number
of unknowns and only a part of the owner's rows. So as many owners carry a lesson as leave each of them enough rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from superteach.exceptions import BudgetError, SettingError
from superteach.types import Array, Positions

ENOUGH = 6
"""Rows of an owner that carries a part, for each unknown: d coefficients and the count."""
MOST = 1 / 3
"""Part of its rows that an owner gives at most, unless the lesson takes more of all rows."""
_GOLDEN = 0.6180339887498949


def rounded(rows: int) -> int:
    """Round a number of rows down to two digits, or to tens: the exact one tells whether one more row is there."""
    unit = 10 ** max(len(str(rows)) - 2, 1)
    return int(max(rows // unit * unit, 1))


def fair_shares(sizes: Sequence[int], columns: int, lesson: int, most: Sequence[float] | None = None) -> Positions:
    """Return how many rows each owner contributes: they add up to `lesson`, and its weight is its part of them.

    `most` holds the largest part of a lesson that each owner's policy allows, from 0 to 1.
    """
    owned = np.asarray(sizes, dtype=np.int64)
    return deal_rows(owned.astype(np.float64), owned, limits(owned, lesson, most), columns, lesson)


def limits(sizes: Positions, lesson: int, most: Sequence[float] | None = None) -> Positions:
    """Return the most rows that each owner may contribute, or raise where these cannot make up the lesson."""
    allowed = np.ones(len(sizes)) if most is None else np.asarray(most, dtype=np.float64)
    if len(allowed) != len(sizes) or (sizes < 0).any():
        raise SettingError(f"shares need a size of at least 0 and one `share` for each teacher: {sizes!r}, {most!r}")
    for place in np.flatnonzero(~((allowed >= 0.0) & (allowed <= 1.0))):
        raise SettingError(
            f"share={float(allowed[place])!r} of teacher {place} must lie between 0 and 1: the part of a lesson it carries"
        )
    limit = np.minimum(sizes, np.floor(allowed * lesson + 1e-9).astype(np.int64))
    if limit.sum() < lesson:
        raise BudgetError(
            f"the teachers carry at most {int(limit.sum())} rows together, and the lesson has {lesson}: ask for a smaller "
            "lesson, or let owners raise `share` in their policies"
        )
    return limit


def deal_rows(wanted: Array, sizes: Positions, limit: Positions, columns: int, lesson: int) -> Positions:
    """Deal whole rows out in proportion to what is wanted, to as many owners as leave each of them enough rows."""
    some = np.minimum(limit, (MOST * sizes).astype(np.int64))
    if some.sum() < lesson:  # all that may carry do: fewer would have to give still more of their rows
        return proportional(np.where(limit > 0, sizes, 0).astype(np.float64), limit, lesson)
    apart = (
        np.arange(1, len(sizes) + 1) * _GOLDEN % 1.0
    )  # of equal owners those that lie apart: neighbours are often alike
    order = np.lexsort((apart, -np.minimum(some, wanted * lesson / max(float(wanted.sum()), 1e-300))))
    rows, enough = np.zeros(len(sizes), dtype=np.int64), ENOUGH * (columns + 1)
    for carriers in range(len(sizes), 0, -1):
        first = order[:carriers]
        if some[first].sum() < lesson:
            break
        rows[:] = 0
        rows[first] = proportional(wanted[first], some[first], lesson)
        if rows[first].min() >= enough:
            break
    return rows


def proportional(wanted: Array, limit: Positions, total: int) -> Positions:
    """Deal `total` out in proportion to what is wanted, to nobody more than its limit; the limits together suffice."""
    wanted = np.maximum(wanted, 1e-12 * float(wanted.max(initial=0.0)) + 1e-300)
    rows, free = np.zeros(len(limit), dtype=np.int64), limit > 0
    while free.any():
        part = (total - int(limit[~free].sum())) * (wanted[free] / wanted[free].sum())
        full = part >= limit[free]
        if not full.any():
            break
        free[np.flatnonzero(free)[full]] = False
    rows[~free] = limit[~free]
    if free.any():
        whole = np.floor(part).astype(np.int64)
        rows[free] = whole
        spare = total - int(rows.sum())
        rows[np.flatnonzero(free)[np.argsort(whole - part, kind="stable")[:spare]]] += 1
    return rows

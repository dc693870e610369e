"""People with several rows: a bound on how many of one person's rows take part, so that a budget can be for people.

The owner names the column that says whose row it is, and how many rows of one person may take part at most. Rows beyond
that stay out of lessons, in silence. What leaves changes with a whole person by at most that many times what one row
changes, so the table pays that many times the μ.
"""

from __future__ import annotations

import math
import unicodedata
from numbers import Real

import numpy as np

from superteach.types import Mask, Raw


def canonical(cell: object) -> str:
    """Write one cell such that the same value has the same text whatever type, spelling or column around it."""
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", errors="backslashreplace")
    if isinstance(cell, bool | np.bool_):
        return f"{float(cell)!r}"
    if isinstance(cell, Real):
        number = float(cell) + 0.0
        whole = int(number) if math.isfinite(number) and number == int(number) else None
        return "" if math.isnan(number) else f"{number!r}" if whole is None else f"{whole}"
    text = "" if cell is None or str(cell) in ("NaT", "<NA>", "None", "nan") else str(cell)
    text = unicodedata.normalize("NFKC", text).strip().casefold()
    try:
        return canonical(float(text)) if text and text not in ("inf", "nan", "infinity") else text
    except ValueError:
        return text


def within_bound(people: Raw, most: int) -> Mask:
    """Mark the first `most` rows of each person; rows without a person count as one person's."""
    cells, place = np.unique(np.asarray(people, dtype=object).astype(str), return_inverse=True)
    names = np.unique([canonical(cell) for cell in cells], return_inverse=True)[1][place]
    order = np.argsort(names, kind="stable")
    first = np.flatnonzero(np.diff(names[order], prepend=-1))
    rank = np.arange(len(names)) - np.repeat(first, np.diff(np.append(first, len(names))))
    kept = np.zeros(len(names), dtype=np.bool_)
    kept[order] = rank < most
    return kept

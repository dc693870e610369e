"""Arrays of NumPy or torch: what formulas over rows need beside the names that both have."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit


def namespace(x: Any) -> Any:
    """Return NumPy, or torch where `x` is a tensor."""
    return sys.modules["torch"] if type(x).__module__.startswith("torch") else np


def to_numpy(x: Any) -> npt.NDArray[Any]:
    """Return the same numbers in this machine's memory."""
    return np.asarray(x) if namespace(x) is np else np.asarray(x.cpu().numpy())


def like(numbers: Any, x: Any) -> Any:
    """Bring numbers to where `x` is."""
    xp = namespace(x)
    if xp is np or namespace(numbers) is not np:
        return numbers
    return xp.as_tensor(np.ascontiguousarray(numbers), device=x.device)


def as_type(x: Any, kind: Any) -> Any:
    """The same numbers as another type."""
    return x.astype(kind) if namespace(x) is np else x.to(kind)


def sigmoid(x: Any) -> Any:
    """1/(1 + exp(−x))."""
    xp = namespace(x)
    return expit(x) if xp is np else xp.sigmoid(x)


def look_up(table: Any, places: Any) -> Any:
    """Return entries of a table of NumPy's at small whole numbers."""
    return table[places] if namespace(places) is np else like(table, places)[places.long()]


def positions(mask: Any) -> Any:
    """Return where a mask is true."""
    return np.flatnonzero(mask) if namespace(mask) is np else mask.nonzero()[:, 0]


def count_each(numbers: Any, most: int) -> npt.NDArray[np.int64]:
    """Count how often each whole number below `most` occurs."""
    xp = namespace(numbers)
    return np.bincount(numbers, minlength=most) if xp is np else to_numpy(xp.bincount(numbers.long(), minlength=most))

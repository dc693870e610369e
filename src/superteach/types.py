"""Types that modules share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
"""Numbers."""
Raw = npt.NDArray[Any]
"""Values as their owner hands them in, of any type."""
Matrix = Any
"""Rows × columns, dense or in one of SciPy's compressed forms, which have no types."""
PerRow = Any
"""A number for each row: NumPy's array, or torch's tensor where rows are on a device."""
Positions = npt.NDArray[np.int64]
"""Row numbers within one teacher, or owners of rows."""
Mask = npt.NDArray[np.bool_]
"""One truth value per row."""
Label = bool | float | str
"""One value of labels."""
Labels = Raw | Sequence[float | str]
"""The two values of labels, the second of them positive."""
Foreign = Any
"""A value of somebody else's package, which is not ours to type: a data frame, an estimator, a figure."""
Json = dict[str, Any]
"""An object of JSON, as it was read or as it will be written."""


def is_whole(value: object) -> TypeGuard[int]:
    """Tell whole numbers, NumPy's too, from truth values and anything else."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Tell real numbers, NumPy's too, from truth values and anything else."""
    return is_whole(value) or isinstance(value, float | np.floating)

"""Central teaching: a mixed-integer programme over all rows in one place.

It takes plain arrays, so it cannot exist in a federation: what the others are compared with, were privacy no matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from superteach.exceptions import DataError
from superteach.learner import Learner
from superteach_lab import minlp


def teach(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    learner: Any,
    goal: npt.ArrayLike,
    size: int | None,
    *,
    formulation: str = "stationary",
    solver: str | None = None,
    seconds: float = 120.0,
    gigabytes: float = 8.0,
    seed: int = 0,
) -> minlp.Solution:
    """Choose `size` rows (None: any number) for a scikit-learn estimator and a goal, its intercept last.

    Labels may be any two values, the second counts as positive; see superteach_lab.minlp.solve for the rest.
    """
    student = Learner.of(learner)
    rows, target = np.asarray(X, dtype=np.float64), np.asarray(y)
    wanted = np.array(goal, dtype=np.float64)
    if student.loss.classifies:
        classes = np.unique(target)
        if len(classes) != 2:
            raise DataError(f"a classifier needs labels of two values, got {len(classes)}: {classes[:5]}")
        target = np.where(target == classes[1], 1.0, -1.0)
    if student.intercept != "none":
        rows = np.column_stack([rows, np.full(len(rows), student.constant)])
        wanted[-1] /= student.constant
    return minlp.solve(
        rows,
        target,
        student.loss,
        student.penalty(len(rows) if size is None else size),
        wanted,
        size,
        formulation=formulation,
        solver=solver,
        seconds=seconds,
        gigabytes=gigabytes,
        seed=seed,
        free_intercept=student.free_intercept,
    )

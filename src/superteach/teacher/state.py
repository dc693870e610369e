"""What a teacher remembers between rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from superteach.exceptions import QueryRefused
from superteach.losses.scalar import Loss
from superteach.optim.problem import Scaling
from superteach.teacher import ranks
from superteach.types import Array

if TYPE_CHECKING:
    from superteach.teacher.selection import Gradients, Sample, Undecided


Known = TypeVar("Known")


@dataclass(frozen=True, eq=False)
class State:
    """All that a teacher remembers between rounds; None until a query sets it."""

    loss: Loss | None = None
    scaling: Scaling = field(default_factory=Scaling)
    threshold: Array | None = None
    alpha: Array | None = None
    offer: Array | None = None
    """The α offered last in an asynchronous round, until the coordinator says how much of it to take."""
    local_point: Array | None = None
    ranking: ranks.Ranking | None = None
    chosen: npt.NDArray[np.int64] | None = None
    best: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    """Choices remembered as the best of a search, and of a walk over sizes."""
    gradients: Gradients | None = None
    sample: Sample | None = None
    probabilities: Array | None = None
    """b_j of the rows sampled."""
    undecided: Undecided | None = None
    note: str = ""
    """What a choice came to, for the owner of the rows."""


Answer = tuple[State, Array]
"""What a teacher remembers after a query, and its reply before the guard has seen it."""


def known(value: Known | None, what: str) -> Known:
    """Return what an earlier query has set, or refuse and say what is missing."""
    if value is None:
        raise QueryRefused(f"this query needs {what}, and no earlier query has set them")
    return value

"""What a teacher remembers between rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from superteach.errors import QueryRefused
from superteach.losses import Loss
from superteach.problem import Scaling
from superteach.teacher import ranks, refine
from superteach.teacher.proposals import Proposed

Array = npt.NDArray[np.float64]


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
    balance: refine.Balancing | None = None
    past: tuple[npt.NDArray[np.int64], ...] = ()
    """Every choice whose sums were heard since the last count: any two rounds can be subtracted."""
    told: tuple[npt.NDArray[np.int64], Array, Array] | None = None
    """A choice, a goal and the moments answered for them in a turn of "match": who has not changed says it again."""
    proposed: Proposed | None = None
    """The changes proposed last; of several rows they are told once in a lesson."""
    before: npt.NDArray[np.int64] | None = None
    """The choice before the last turn, while it may still be taken back."""
    best: dict[str, tuple[npt.NDArray[np.int64], tuple[npt.NDArray[np.int64], ...]]] = field(
        default_factory=dict
    )
    """The choices remembered as the best of a search and of a walk, with their pasts."""


def known(value: Any, what: str) -> Any:
    """What an earlier query has set, or a refusal that says what is missing."""
    if value is None:
        raise QueryRefused(f"this query needs {what}, and no earlier query has set them")
    return value

"""What the paper's method asks: thresholds, and rounds of Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from superteach.line.queries.common import Query
from superteach.types import Array


@dataclass(frozen=True, eq=False)
class Weigh(Query):
    """Take the adaptive thresholds c_j = sparsity / |x_j'direction| (paper: λ_α w_j, w_j = 1/|α̂_j|)."""

    direction: Array
    sparsity: float
    exposure: ClassVar[str] = "a count: rows whose weight is infinite"

    @property
    def reply_length(self) -> int:
        return 1

    def read(self, total: Array) -> int:
        return round(float(total[0]))


class BlockSums(NamedTuple):
    """What one round of Algorithm 1 sums: Σh* at the broadcast, Σh at the new α, Σ α_j x_j."""

    conjugate: float
    objective: float
    aggregate: Array


@dataclass(frozen=True, eq=False)
class BlockRound(Query):
    """One round of the paper's Algorithm 1: solve your own block, move by β_i/K, answer Σ α_j x_j."""

    model: Array
    goal: Array
    ridge: float
    goal_weight: float
    beta: tuple[float, ...]
    exposure: ClassVar[str] = "two sums and one sum per column; a block with one non-zero α shows that row"

    @property
    def reply_length(self) -> int:
        return 2 + len(self.model)

    def read(self, total: Array) -> BlockSums:
        return BlockSums(float(total[0]), float(total[1]), total[2:])


class Offers(NamedTuple):
    """Σh* at the broadcast, Σh at α and at the offered α, Σ α_j x_j of both."""

    conjugate: float
    objective: float
    offered: float
    aggregate: Array
    offer: Array


@dataclass(frozen=True, eq=False)
class BlockOffer(Query):
    """An asynchronous step of Algorithm 1: take your share of your last offer, then solve your block for a new one."""

    model: Array
    goal: Array
    ridge: float
    goal_weight: float
    taken: tuple[float, ...]
    exposure: ClassVar[str] = (
        "three sums and two per column, of one teacher alone; where all are asked at the end, summed over all too"
    )

    @property
    def reply_length(self) -> int:
        return 3 + 2 * len(self.model)

    def read(self, total: Array) -> Offers:
        return Offers(total[0], total[1], total[2], *np.split(total[3:], 2))

"""What the paper's method asks: thresholds, and rounds of Algorithm 1."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from superteach.line.queries.common import COUNTED, TOTALS, Query, Sensitivity
from superteach.types import Array, Mask

__all__ = ["BlockOffer", "BlockRound", "BlockSums", "Offers", "Weigh"]


class Weigh(Query[int]):
    """Take the adaptive thresholds c_j = sparsity / |x_j'direction| (paper: λ_α w_j, w_j = 1/|α̂_j|)."""

    direction: Array
    sparsity: float
    promises: ClassVar[tuple[str, ...]] = TOTALS
    broadcast: ClassVar[str] = "a direction, sparsity"
    reply: ClassVar[str] = "1 count"
    exposure: ClassVar[str] = "rows orthogonal to the direction, or nearly so where the sparsity is huge"
    changes: ClassVar[tuple[str, ...]] = ("threshold", "alpha", "offer", "local_point")
    sensitivity: ClassVar[Sensitivity] = COUNTED

    def read(self, total: Array) -> int:
        return round(float(total[0]))


class _Conjugate:
    """What rounds of Algorithm 1 share: their first number, Σh* at the broadcast model, may overflow."""

    def wrong(self, reply: Array) -> Mask:
        odd = ~np.isfinite(reply)
        odd[0] &= not np.isinf(reply[0])
        return odd


class BlockSums(NamedTuple):
    """What one round of Algorithm 1 sums: Σh* at the broadcast, Σh at the new α, Σ α_j x_j."""

    conjugate: float
    objective: float
    aggregate: Array


class BlockRound(_Conjugate, Query[BlockSums]):
    """One round of the paper's Algorithm 1: solve your own block, move by β_i/K, answer Σ α_j x_j."""

    model: Array
    goal: Array
    ridge: float
    goal_weight: float
    beta: tuple[float, ...]
    broadcast: ClassVar[str] = "model, goal, Λ, λ_θ, β"
    reply: ClassVar[str] = "2 + d sums"
    exposure: ClassVar[str] = "Σ α_j x_j over this teacher's rows; a block with one non-zero α shows that row"
    changes: ClassVar[tuple[str, ...]] = ("alpha", "local_point")

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


class BlockOffer(_Conjugate, Query[Offers]):
    """An asynchronous step of Algorithm 1: take your share of your last offer, then solve your block for a new one."""

    model: Array
    goal: Array
    ridge: float
    goal_weight: float
    taken: tuple[float, ...]
    broadcast: ClassVar[str] = "model, goal, Λ, λ_θ, how much of its last offer to take"
    reply: ClassVar[str] = "3 + 2d sums"
    exposure: ClassVar[str] = "Σ α_j x_j over this teacher's rows alone, now and as it offers"
    changes: ClassVar[tuple[str, ...]] = ("alpha", "offer", "local_point")

    @property
    def reply_length(self) -> int:
        return 3 + 2 * len(self.model)

    def read(self, total: Array) -> Offers:
        return Offers(total[0], total[1], total[2], *np.split(total[3:], 2))

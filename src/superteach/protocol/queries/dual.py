"""What the paper's method asks: thresholds, and rounds of Algorithm 1."""

from __future__ import annotations

import numpy as np

from superteach.optim.block import BlockSums, Offers
from superteach.protocol.queries.common import COUNTED, Query, Read
from superteach.types import Array, Mask

__all__ = ["BlockOffer", "BlockRound", "BlockSums", "Offers", "Weigh"]


class Weigh(Query[int]):
    """Take the adaptive thresholds c_j = sparsity / |x_j'direction| (paper: λ_α w_j, w_j = 1/|α̂_j|)."""

    direction: Array
    sparsity: float
    broadcast = "a direction, sparsity"
    reply = "1 count"
    exposure = "rows orthogonal to the direction, or nearly so where the sparsity is huge"
    changes = ("threshold", "alpha", "offer", "local_point")
    sensitivity = COUNTED

    def read(self, total: Array) -> int:
        return round(float(total[0]))


class _Block(Query[Read]):
    """What rounds of Algorithm 1 share: what a block is solved for, and a first number, Σh* there, that may overflow."""

    model: Array
    goal: Array
    ridge: float
    goal_weight: float

    def wrong(self, reply: Array) -> Mask:
        odd = ~np.isfinite(reply)
        odd[0] &= not np.isinf(reply[0])
        return odd


class BlockRound(_Block[BlockSums]):
    """One round of the paper's Algorithm 1: solve your own block, move by β_i/K, answer Σ α_j x_j."""

    beta: tuple[float, ...]
    broadcast = "model, goal, Λ, λ_θ, β"
    reply = "2 + d sums"
    exposure = "Σ α_j x_j over this teacher's rows; a block with one non-zero α shows that row"
    changes = ("alpha", "local_point")
    length = (2, "model")

    def read(self, total: Array) -> BlockSums:
        return BlockSums(float(total[0]), float(total[1]), total[2:])


class BlockOffer(_Block[Offers]):
    """An asynchronous step of Algorithm 1: take your share of your last offer, then solve your block for a new one."""

    taken: tuple[float, ...]
    broadcast = "model, goal, Λ, λ_θ, how much of its last offer to take"
    reply = "3 + 2d sums"
    exposure = "Σ α_j x_j over this teacher's rows alone, now and as it offers"
    changes = ("alpha", "offer", "local_point")
    length = (3, "model", "model")

    def read(self, total: Array) -> Offers:
        return Offers(total[0], total[1], total[2], *np.split(total[3:], 2))

"""What the paper's method asks: thresholds, and rounds of Algorithm 1."""

from __future__ import annotations

import numpy as np

from superteach.optim.block import Offers
from superteach.protocol.queries.common import COUNTED, Query
from superteach.types import Array, Mask

__all__ = ["BlockRound", "Offers", "Weigh"]


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


class BlockRound(Query[Offers]):
    """One round of the paper's Algorithm 1: solve your own block, move by β_i/K, answer Σ α_j x_j.

    In an asynchronous round the coordinator says later how far to move: take your share of your last offer, then solve your
    block for a new one.
    """

    model: Array
    goal: Array
    ridge: float
    goal_weight: float
    beta: tuple[float, ...] = ()
    taken: tuple[float, ...] = ()
    broadcast = "model, goal, Λ, λ_θ, β or how much of its last offer to take"
    reply = "3 + 2d sums"
    exposure = "Σ α_j x_j over this teacher's rows, now and as it offers; a block with one non-zero α shows that row"
    changes = ("alpha", "offer", "local_point")
    length = (3, "model", "model")

    @property
    def name(self) -> str:
        return "BlockRound" if self.beta else "BlockOffer"

    def wrong(self, reply: Array) -> Mask:
        """Let the first number overflow: Σh* at the model that was sent."""
        odd = ~np.isfinite(reply)
        odd[0] &= not np.isinf(reply[0])
        return odd

    def read(self, total: Array) -> Offers:
        return Offers(total[0], total[1], total[2], *np.split(total[3:], 2))

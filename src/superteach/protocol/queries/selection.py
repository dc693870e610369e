"""What the methods ask. Exact teaching: gradients, inclusion probabilities, rounding; the paper's: thresholds, rounds of
Algorithm 1.

From replies to `Candidates` and `Show` single rows can be read: they are for one owner, or for one process.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from superteach.optim.block import Offers
from superteach.protocol.queries.common import COUNTED, ENTANGLED, Counts, Number, Numbers, Query, Sensitivity, Sized
from superteach.selection.relaxation import BINS
from superteach.types import Array, Mask

__all__ = [
    "Alone", "BlockRound", "CandidateRows", "Candidates", "Envelope", "Gradients", "Include", "Offers", "RoundAlone",
    "Select", "Show", "Solo", "Thin", "Weigh",
]  # fmt: skip


class Gradients(Counts):
    """Take each row's gradient g_j at a model, and count rows by log2 ‖M g_j‖."""

    model: Array
    metric: Array
    """M: a matrix, or the diagonal of one."""
    broadcast = "a model, a d × d matrix or its diagonal"
    reply = "one count per octave"
    exposure = "how many rows have gradients of which length, in 96 octaves"
    changes = ("gradients", "sample", "probabilities", "undecided")
    length = (BINS,)


class Thin(Number):
    """Give rows log-odds by the length of their gradient, and sample those that take part in the relaxed problem.

    A row of probability p stays with probability p/least, and then has `least`; rows of p ≥ least all stay.
    """

    odds: Array
    """Log-odds by bin."""
    least: float
    seed: int
    broadcast = "log-odds by octave, a least probability, a seed"
    reply = "1 count"
    exposure = "how many rows were sampled for the relaxed problem"
    changes = ("sample", "probabilities", "undecided")
    sensitivity = Sensitivity(1.0, "a row counts once")


class Include(Number):
    """Give row j the inclusion probability b_j = σ(z_j + u'(g_j, 1)), by which sums over "likely" rows are weighted."""

    dual: Array
    """u."""
    broadcast = "d + 1 dual variables"
    exposure = "the sum of the inclusion probabilities of the rows sampled"
    over = "sampled"
    changes = ("probabilities",)
    sensitivity = Sensitivity(1.0, "a probability is at most 1")


class CandidateRows(NamedTuple):
    """One teacher's rows that are undecided, and what is decided already."""

    vectors: Array
    """M g_j."""
    probabilities: Array
    certain: int
    """Rows that are in the lesson anyway."""
    total: Array
    """Σ M g_j over these."""
    idle: int
    """Rows that change nothing, and may fill the lesson up."""


class Candidates(Query[CandidateRows]):
    """Show the rows that probabilities σ(z_j + u'(g_j, 1)) leave undecided, thinned: each as (M g_j, b_j)."""

    metric: Array
    dual: Array
    """u."""
    idle: int
    """Rows of lower bins stay out: their gradients are nothing."""
    thin: float
    """Probabilities nearer than this to 0 or 1 go there, or become this, at random."""
    most: int
    """Candidates of all teachers together, at most."""
    seed: int
    broadcast = "a d × d matrix, d + 1 dual variables, a length, a seed"
    reply = "2 + d sums, and 1 + d numbers per candidate"
    exposure = "gradient and probability of every candidate: the row, to whoever knows the goal"
    over = "sampled"
    shows_rows = True
    varies = True
    changes = ("undecided",)
    sensitivity = ENTANGLED

    def fits(self, reply: Array) -> bool:
        width = len(self.metric)
        return reply.ndim == 1 and len(reply) >= 2 + width and (len(reply) - 2 - width) % (width + 1) == 0

    def read(self, total: Array) -> CandidateRows:
        width = len(self.metric)
        rows = total[2 + width :].reshape(-1, width + 1)
        return CandidateRows(rows[:, :-1], rows[:, -1], round(total[0]), total[2 : 2 + width], round(total[1]))


class Show(Numbers):
    """Show all your rows, targets and whether they are chosen: for small pools, and goals out of reach in one process."""

    width: int
    weighted: bool = False
    """Whether weights of rows come last."""
    targets: int = 1
    broadcast = "nothing"
    reply = "d numbers, targets and a mark per row"
    exposure = "every row, its target, and whether it is chosen"
    shows_rows = True
    varies = True
    changes = ("undecided",)

    @property
    def columns(self) -> int:
        """How many numbers each row shows."""
        return self.width + self.targets + 1 + self.weighted

    def fits(self, reply: Array) -> bool:
        return reply.ndim == 1 and len(reply) % self.columns == 0

    def read(self, total: Array) -> Array:
        return total.reshape(-1, self.columns)


class Select(Sized):
    """Choose these of the rows shown, beside rows that were certain, and `idle` rows of each teacher."""

    counts: tuple[int, ...]
    """How many rows each teacher of the roster has shown."""
    places: Array
    """Which of all rows shown are chosen, ascending."""
    idle: tuple[int, ...]
    broadcast = "which of the rows shown are in the lesson"
    exposure = "chosen rows, positive ones; the coordinator says which rows are chosen"
    shows_rows = True
    sensitivity = ENTANGLED
    listed = ("places",)


class RoundAlone(Sized):
    """Round your own rows to your own sum of probabilities σ(z_j + u'(g_j, 1)), by yourself."""

    metric: Array
    dual: Array
    """u."""
    seed: int
    broadcast = "a d × d matrix or its diagonal, d + 1 dual variables, a seed"
    sensitivity = ENTANGLED


class Envelope(Numbers):
    """Bound what all rows reach along a direction (v, c) at any model within a radius of θ°, for several radii.

    Σ_j max(0, v'g_j(θ) + c) ≤ height + tilt'(θ − θ°). For each radius: the height, rounded upwards, how many rows reach
    anything, the tilt, and a subgradient in v (see `selection.majorant`).
    """

    direction: Array
    model: Array
    """θ°."""
    reach: Array
    """R for one output: predictors of a row x_j move by at most ‖R x_j‖ times the distance between θ and θ°."""
    radii: Array
    broadcast = "a direction, a model, a d × d matrix or its diagonal, some radii"
    reply = "2 + 2d sums per radius"
    exposure = "how much all rows pull along the direction, at any model within a radius"
    lifted = ("direction",)

    @property
    def reply_length(self) -> int:
        return len(self.radii) * 2 * (1 + len(self.model))

    def read(self, total: Array) -> Array:
        return total.reshape(len(self.radii), -1)


class Solo(NamedTuple):
    """Counts: rows chosen, chosen rows with a positive label, teachers that ended their search, teachers that drew."""

    rows: int
    positive: int
    ended: int
    drawn: int


class Alone(Query[Solo]):
    """Choose as many rows as you have chosen now, by yourself, for a learner with its K-th part of the penalty.

    Where a teacher finds nothing it keeps the rows it has.
    """

    goal: Array
    ridge: float
    ridge_per_row: bool
    free_intercept: bool
    inside: Literal["match", "minlp"]
    formulation: str
    """Of the programme, for "minlp"."""
    seconds: float
    """After which a programme's solver is ended."""
    seed: int
    broadcast = "goal, penalty, how to choose, a time limit"
    reply = "4 counts"
    exposure = "chosen rows, positive ones; whether its own search ended or found nothing"
    over = "chosen"
    changes = ("chosen",)
    sensitivity = ENTANGLED
    length = (4,)

    def read(self, total: Array) -> Solo:
        return Solo(*(round(number) for number in total.tolist()))


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

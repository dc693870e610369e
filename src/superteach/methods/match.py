"""Teach the goal exactly: relax, round, refine.

The learner ends at θ* exactly when its gradient vanishes there: Σ_{j∈S} g_j = Λθ* with the pulls
g_j = −ℓ'(x_j'θ*) x_j, one equation per coefficient (0 on the right for a free intercept). So:

1. Relax: 0 ≤ b_j ≤ 1 with Σ b_j g_j = Λθ* and Σ b_j = n at least cost plus τ times entropy. Its dual
   Ψ(u) = Σ_j τ log(1 + exp((u'(g_j, 1) − c_j)/τ)) − u'(Λθ*, n) has one unknown per equation.
2. Round: the n rows with the largest b_j, found from counts.
3. Refine: teacher after teacher exchanges rows of its own to shrink e = H⁻¹(Σ_{j∈S} g_j − Λθ*), the
   distance that is left between the taught model and the goal.

Where no b exists there is a u with Σ_j max(0, u'(g_j, 1)) < u'(Λθ*, n), and it proves that no lesson of
n rows teaches the goal exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from superteach import metrics, selection
from superteach.classroom import Classroom
from superteach.federation import Federation
from superteach.lesson import Certificate
from superteach.methods import combine, nearest
from superteach.methods.refine import FEW_COLUMNS, Outcome, Refiner
from superteach.problem import Quadratic, ridge_penalty
from superteach.queries import (
    AskMoments,
    Balance,
    Census,
    Keep,
    Moments,
    RankRows,
    Recall,
    RowSet,
    Size,
)
from superteach.solvers.descent import Solution
from superteach.solvers.function import Function
from superteach.solvers.newton import Newton

Array = npt.NDArray[np.float64]

TEMPERATURE = 0.03
FINE_SHARE = 0.5
"""Weakest rows set aside for fine adjustments, as a multiple of the lesson's size."""
STEADY_ROWS = 5
"""Rows for each coefficient that steady a classifier: its weak rows are those far on the right side, which do not."""
FEW_ROWS = 12
"""Rows for each coefficient, below which a lesson is small: few of its rows are weak, so more is tried."""
RELAX_STEPS = 40
LARGE_POOL = 100_000
"""From so many rows on a pass over all of them costs more than rounds over a sample, where Newton then begins."""
FEW_IDLE = 5
"""Turns without gain after which refine ends, with so many rows: another look at them would gain a percent or so."""
SIZE_PER_UNKNOWN = 250
"""Rows of the lesson per unknown, from which on a sample says where the relaxation will end."""
TINY = 64
"""Pools of so few rows are searched on the true risk when a search starts anew."""
_GOLDEN = 0x9E3779B97F4A7C15
"""2⁶⁴ over the golden ratio: seeds that lie this far apart draw unrelated costs."""
_STRIDE = 0xD1B54A32D192ED03
"""From one size to the next: with the same costs, lessons of n and n + 1 rows would differ by a row or two,
and a listener subtracts."""


class Search(ABC):
    """What every method that searches anew for each size has in common: it can go back to the best of a walk."""

    def __init__(self, room: Classroom, goal: Array, seed: int, tolerance: float) -> None:
        self._room, self._goal, self._seed, self._tolerance = room, goal, seed, tolerance
        self._best: Outcome | None = None
        self.outcome: Outcome | None = None

    def announce(self, sizes: list[int]) -> list[int]:
        """Every size is a search of its own."""
        return sizes

    @abstractmethod
    def choose(self, size: int) -> Size:
        """Leave every teacher with its chosen rows, `size` of them in all."""

    def remember(self) -> None:
        """The choice just made is the best of a walk."""
        self._room.federation.sum(Recall("walk", True))
        self._best = self.outcome

    def go_back(self) -> None:
        """Return to the best of a walk."""
        self._room.federation.sum(Recall("walk", False))
        self.outcome = self._best


class Matcher(Search):
    """Chooses lessons of any size for one goal, all teachers together."""

    def __init__(
        self, room: Classroom, goal: Array, seed: int, least: int, tolerance: float, restarts: int = 1
    ) -> None:
        super().__init__(room, goal, seed, tolerance)
        self._least, self._restarts = least, restarts
        self._range: tuple[int, int] | None = None
        self._bound: float | None = None
        self._searched = 0

    def announce(self, sizes: list[int]) -> list[int]:
        """Remember how large and how small a lesson may be; random starts in a tiny pool cover all sizes at once."""
        self._range = (min(sizes), max(sizes)) if sizes else None
        return sizes[-1:] if self._anywhere and not self._room.learner.ridge_per_row else sizes

    @property
    def _anywhere(self) -> bool:
        """Whether restarts begin at random rows: so few that the true risk can be searched all over."""
        return self._restarts > 1 and self._room.rows <= TINY

    def choose(self, size: int) -> Size:
        """Leave every teacher with its chosen rows, `size` of them in all: the best of all restarts."""
        federation = self._room.federation
        base = (self._seed + self._searched * _STRIDE) % 2**64 if self._least > 1 else self._seed
        self._searched += 1
        best = self._once(size, base)
        proof = best.certificate
        lowest = self._risk() if self._restarts > 1 else 0.0
        for restart in range(1, self._restarts):
            if lowest <= self._tolerance:
                break
            federation.sum(Recall("search", True))
            seed = (base + restart * _GOLDEN) % 2**64
            # What cannot be balanced once cannot be balanced with other costs either.
            again = self._approach(size, seed, True) if proof or self._anywhere else self._once(size, seed)
            risk = self._risk()
            if risk < lowest:
                best, lowest = again, risk
            else:
                federation.sum(Recall("search", False))
        bound = self._lower_bound() if proof else 0.0
        kept: Size = federation.sum(Census("chosen"))
        if kept.rows != size:
            proof = self._relax(kept.rows, self._seed)[1]  # a proof speaks of one size
        self.outcome = replace(best, certificate=proof, lower_bound=bound)
        return kept

    def _risk(self) -> float:
        """The risk of the present choice, by a fit: what refine says of it is a prediction."""
        kept: Size = self._room.federation.sum(Census("chosen"))
        if self._room.learner.refuses(kept.rows, kept.positive):
            return np.inf
        scaling = self._room.scaling
        return metrics.risk(scaling.raw(self._room.fit_chosen(kept.rows)), scaling.raw(self._goal))

    def _once(self, size: int, seed: int) -> Outcome:
        """Relax, round and refine; or come near, where the goal is proved to be out of reach."""
        room, federation = self._room, self._room.federation
        point, certificate = self._relax(size, seed)
        if certificate is not None:
            return replace(self._approach(size, seed, False), certificate=certificate)
        federation.stage = "round"
        federation.sum(RankRows("relaxed", point))
        federation.sum(Keep(selection.last_ranks(federation, [size])[0]))
        federation.stage = "refine"
        penalty = self._penalty(size)
        patience = federation.teachers if room.rows < LARGE_POOL else min(FEW_IDLE, federation.teachers)
        return Refiner(
            federation,
            room.scaling,
            self._goal,
            penalty,
            seed,
            self._least,
            self._tolerance,
            patience,
            self._together,
            self._small(size),
            self._taught,
        ).run()

    def _taught(self) -> bool:
        """Whether the learner accepts the present choice: a classifier needs rows of both classes."""
        learner = self._room.learner
        if not learner.refuses(1, 0) and not learner.refuses(1, 1):
            return True
        kept: Size = self._room.federation.sum(Census("chosen"))
        return not learner.refuses(kept.rows, kept.positive)

    def _small(self, size: int) -> bool:
        """Whether so few rows are worth more rounds: in one lesson, where single rows may be told of."""
        return (
            self._least <= 1
            and self._one_size
            and self._room.rows > TINY
            and size < FEW_ROWS * len(self._goal)
            and len(self._goal) <= FEW_COLUMNS
        )

    @property
    def _one_size(self) -> bool:
        return self._range is None or self._range[0] == self._range[1]

    @property
    def _together(self) -> bool:
        """Whether a step of all teachers together follows the turns."""
        room = self._room
        if room.rows >= LARGE_POOL or not combine.useful(
            room.federation.teachers, len(self._goal), self._least
        ):
            return False
        # Of changes of several rows a teacher tells once in a lesson: not in one search of many.
        return self._least <= 1 or (self._one_size and self._restarts == 1 and self._searched <= 1)

    def _relax(self, size: int, seed: int) -> tuple[Array, Certificate | None]:
        """The fractional choice of so many rows, or a proof that there is none."""
        self._room.federation.stage = "relax"
        target = np.append(self._penalty(size).gradient(self._goal), size)
        fine = self._fine_share(size)
        return relax(self._room.federation, self._goal, target, self._room.rows, seed, self._least, fine)

    def _fine_share(self, size: int) -> float:
        """Weak rows to set aside for a lesson of so many rows."""
        if not self._room.learner.loss.classifies:
            return FINE_SHARE
        spare = size / (STEADY_ROWS * len(self._goal)) - 1.0
        return FINE_SHARE * min(max(0.0, spare / 3.0), 1.0)

    def _penalty(self, size: int) -> Quadratic:
        learner = self._room.learner
        return ridge_penalty(learner.penalty(size), len(self._goal), learner.free_intercept)

    def _approach(self, size: int, seed: int, at_random: bool) -> Outcome:
        """Come as near as can be; where sizes may differ the search chooses among them by itself."""
        low, high = size, size
        if self._range is not None and not self._room.learner.ridge_per_row:
            low, high = self._range[0], max(size, self._range[0])
        risks, ended, reason = nearest.approach(
            self._room, self._goal, low, high, seed, self._least, at_random
        )
        return Outcome(np.array(risks), ended, reason)

    def _lower_bound(self) -> float:
        if self._bound is None:
            self._bound = nearest.lower_bound(self._room, self._goal)
        return self._bound


def relax(
    federation: Federation,
    goal: Array,
    target: Array,
    rows: int,
    seed: int,
    least: int = 1,
    fine: float = FINE_SHARE,
) -> tuple[Array, Certificate | None]:
    """The fractional choice that balances the goal, or a proof that there is none."""
    width, size = len(goal), target[-1]
    gram = federation.sum(AskMoments("square", "all", np.zeros(width), 2)).curvature
    metric = np.linalg.pinv(gram, hermitian=True, rcond=1e-12) * rows / width  # leverages of 1 on average
    costs = federation.sum(Balance(goal, metric, fine * size / rows, TEMPERATURE, seed, least))

    def descend(over: RowSet, share: float, start: Array, exact: float) -> Solution:
        """Newton's way over a share of the rows, down to this much of what rounding will change."""
        function = Function(federation.sum, "relax", over, Quadratic(np.zeros(width + 1), share * target))

        def stop(point: Array, sums: Moments, whole: Moments) -> str | None:
            # Ψ is at least Σ max(0, u'(g, 1)) − Σ max(0, c) − u'target, so a value below −Σ max(0, c) is a proof.
            if whole.value < -share * (costs + 1e-9 * abs(costs)):
                return "the goal cannot be balanced"
            assert whole.curvature is not None
            spread = np.sqrt(TEMPERATURE) * np.sqrt(np.maximum(np.diag(whole.curvature), 0.0))
            if np.all(np.abs(whole.gradient) <= exact * spread + 1e-12 * np.abs(target)):
                return "balanced"
            return None

        return Newton(max_steps=RELAX_STEPS).minimise(function, start, stop)

    start = np.zeros(width + 1)
    start[-1] = TEMPERATURE * np.log(size / max(rows - size, 0.5))
    if rows >= LARGE_POOL and size >= SIZE_PER_UNKNOWN * (width + 1):
        sampled: Size = federation.sum(Census("sample"))
        near = descend("sample", sampled.rows / rows, start, 0.1) if sampled.rows else None
        # Where the sample's few rows cannot balance the goal, all rows may, and from their own start.
        start = near.point if near is not None and near.reason == "balanced" else start
    # Rounding will move the sums by a row or so in any case; a hundredth of that is exact enough.
    solution = descend("all", 1.0, start, 0.01)
    certificate = None if solution.reason == "balanced" else certify(federation, solution.point, target)
    return solution.point, certificate


def certify(federation: Federation, point: Array, target: Array) -> Certificate | None:
    """Check a direction by one more sum: positive margin, certificate; otherwise none."""
    direction = point / max(float(np.linalg.norm(point)), 1e-300)
    reached: Moments = federation.sum(AskMoments("reach", "all", direction, 1))
    margin = float(direction @ target) - reached.value
    # A margin within the rounding error of the two sums proves nothing.
    noise = 1e-10 * (abs(float(direction @ target)) + reached.value)
    return Certificate(direction, margin) if margin > noise else None

"""For goals that cannot be taught exactly: come as near as exchanges of rows will bring the learner.

The search goes on the true risk: after every turn the learner is fitted again, and a turn that did not
help is taken back. It ends where no teacher finds a flip, or a pair of flips among its most promising
rows, that brings the model nearer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from superteach import metrics, selection
from superteach.classroom import Classroom
from superteach.losses import Squared
from superteach.problem import ridge_penalty
from superteach.queries import Approach, AskMoments, Balance, Keep, Moments, RankRows, RowSet, Size

Array = npt.NDArray[np.float64]

MOST_CYCLES, LEAST_TURNS = 8, 40
"""Turns of every teacher, at most; where teachers are few they have more."""
_STARTS = 20
_GAIN, _MUCH = 1e-5, 1e-3
"""A turn counts when it lowers the risk by this share, and many rows are exchanged as long as that brings so much more."""


def approach(
    room: Classroom, goal: Array, low: int, high: int, seed: int, least: int, at_random: bool = False
) -> tuple[list[float], bool, str]:
    """Leave the teachers with a lesson of low to high rows; the risk before and after every turn, and how it ended.

    The search starts from the rows that pull most towards the goal, or from rows drawn at random.
    """
    federation = room.federation
    federation.stage = "approach"
    raw_goal = room.scaling.raw(goal)
    measure = np.column_stack([room.scaling.raw(column) for column in np.eye(len(goal))])
    # A lesson whose size is free grows from its smallest; one of a fixed size starts from the pool's model.
    size = high if low == high else low
    if at_random:
        size = int(np.random.default_rng(seed).integers(low, high + 1))
    start = np.zeros_like(goal) if low < high else room.fit_pool()
    kept = _begin(room, goal, start, measure, size, seed, at_random)
    # A start the learner refuses (one class) cannot be fitted; others are drawn until one can.
    again = 0
    while room.learner.refuses(kept.rows, kept.positive):
        if again == _STARTS:
            return [np.inf], False, "no lesson of this size was found that the learner accepts"
        again, size = again + 1, min(high, size + 1)
        kept = _begin(room, goal, start, measure, size, seed + again, True)
    model = room.fit_chosen(size)
    risks = [metrics.risk(room.scaling.raw(model), raw_goal)]
    # A lesson that grows needs every row it takes in; one of a fixed size is far from the goal at first.
    keep, idle, turn, bold = True, 0, 0, low == high
    most = max(LEAST_TURNS, MOST_CYCLES * federation.teachers)
    while idle < federation.teachers and turn < most:
        inverse = _inverse(room, model, size)
        asked = Approach(
            turn % federation.teachers,
            keep,
            model,
            inverse,
            goal,
            measure,
            high - size,
            size - low,
            least,
            bold,
        )
        kept = federation.sum(asked)
        turn += 1
        if room.learner.refuses(kept.rows, kept.positive):
            keep, idle, bold = False, 0 if bold else idle + 1, False
            continue
        after = room.fit_chosen(kept.rows, model)
        risk = metrics.risk(room.scaling.raw(after), raw_goal)
        keep = risk < risks[-1] * (1.0 - _GAIN)
        idle = 0 if keep or bold else idle + 1
        bold = bold and risk < risks[-1] * (1.0 - _MUCH)
        if keep:
            model, size = after, kept.rows
            risks.append(risk)
            federation.note(risk)
    still = np.eye(len(goal))
    federation.sum(Approach(-1, keep, model, still, goal, measure, 0, 0, least))
    if idle >= federation.teachers:
        end = "no teacher can bring the model nearer by one flip, nor by a pair of its promising rows"
        return risks, True, end
    return risks, False, f"the limit of {turn} turns was reached"


def _begin(
    room: Classroom, goal: Array, start: Array, measure: Array, size: int, seed: int, at_random: bool
) -> Size:
    """Choose the rows that pull the model at `start` most towards the goal, or some at random."""
    federation, width = room.federation, len(goal)
    if at_random:
        federation.sum(RankRows("random", seed=seed % 2**64))
        drawn: Size = federation.sum(Keep(selection.last_ranks(federation, [size])[0]))
        return drawn
    inverse = np.eye(width)
    if np.any(start):
        inverse = _inverse(room, start, room.rows, "all")
    direction = inverse @ (measure.T @ (measure @ (goal - start)))
    direction *= 1e6 / max(float(np.linalg.norm(direction)), 1e-300)  # costs then only break ties
    federation.sum(Balance(start, np.zeros((width, width)), 0.0, 1.0, seed))
    federation.sum(RankRows("relaxed", np.append(direction, 0.0)))
    kept: Size = federation.sum(Keep(selection.last_ranks(federation, [size])[0]))
    return kept


def _inverse(room: Classroom, model: Array, size: int, rows: RowSet = "chosen") -> Array:
    sums: Moments = room.federation.sum(AskMoments("loss", rows, model, 2))
    penalty = ridge_penalty(room.learner.penalty(size), len(model), room.learner.free_intercept)
    assert sums.curvature is not None
    return np.asarray(np.linalg.pinv(sums.curvature + np.diag(penalty.diagonal), hermitian=True))


def lower_bound(room: Classroom, goal: Array) -> float:
    """A risk that no lesson of any size can go below; 0 where none is known.

    With targets y = Xw without noise a ridge learner without intercept ends at A w with 0 ≤ A ≤ I, hence
    inside the ball with diameter [0, w]: the risk is at least ‖θ* − w/2‖ − ‖w‖/2.
    """
    if (
        not isinstance(room.learner.loss, Squared)
        or room.learner.intercept != "none"
        or room.scaling.scale is not None
    ):
        return 0.0
    room.federation.stage = "bound"
    zero: Moments = room.federation.sum(AskMoments("loss", "all", np.zeros_like(goal), 2))
    assert zero.curvature is not None
    truth: Array = np.linalg.pinv(zero.curvature, hermitian=True, rcond=1e-13) @ -zero.gradient
    left: Moments = room.federation.sum(AskMoments("loss", "all", truth, 1))
    if left.value > 1e-20 * zero.value:
        return 0.0
    return max(0.0, float(np.linalg.norm(goal - truth / 2.0) - np.linalg.norm(truth) / 2.0))

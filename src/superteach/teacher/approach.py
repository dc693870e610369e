"""Coming nearer to a goal that cannot be reached: one teacher's search on the true risk.

At the taught model the learner's gradient is zero. Adding (s = +1) or dropping (s = −1) rows U with slopes
ℓ' and curvatures ℓ'' moves the model by one Newton step, exact for squared loss:

    Δ = −H⁻¹U z,   z = (I + CM)⁻¹ q,   C = diag(s ℓ''),   M = U'H⁻¹U,   q = s ℓ'

so every single flip and every pair of flips among the most promising rows is evaluated in closed form. Far from the goal
many rows are exchanged at once, with the same step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from superteach.losses import Loss
from superteach.queries import Approach
from superteach.teacher.refine import far_enough
from superteach.teacher.state import State, known

if TYPE_CHECKING:
    from superteach.teacher import Teacher

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_PROMISING = 1000
"""Rows whose pairs are all evaluated."""
_FEW = 60
_MOVES = 20
"""Flips or pairs of flips in one turn, at most."""
_MANY = 100_000
"""Rows that many are exchanged among, with ten columns; with more columns fewer, so that a copy of them stays small."""
_MUCH = 1e-3
"""An exchange of many must lower the risk by this share."""
_GAIN = 1e-6
"""A move must lower the risk by this share."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where the learner stands: its model, the inverse curvature there, the goal, and how risk is measured."""

    model: Array
    inverse: Array
    goal: Array
    measure: Array
    """Risk is ‖measure (θ − θ*)‖: the way back to raw units."""

    @property
    def risk(self) -> float:
        """The predicted risk."""
        return float(np.linalg.norm(self.measure @ (self.model - self.goal)))


def nearer(teacher: Teacher, query: Approach, state: State, chosen: Positions) -> Positions:
    """A choice nearer to the goal: by an exchange of many rows, where that is asked for and helps, else of a few."""
    loss: Loss = known(state.loss, "loss")
    place = Place(query.model, query.inverse, query.goal, query.measure)
    mask, looked = np.zeros(teacher.rows.count, dtype=bool), np.arange(0)
    mask[chosen] = True
    after = mask[looked]
    if query.bold:
        most = _MANY * 10 // max(10, len(query.model))
        looked = np.arange(0, teacher.rows.count, -(-teacher.rows.count // most))
        rows = _rows(teacher, state, looked, len(query.model))
        after = exchange_many(rows, mask[looked], teacher.target[looked], loss, place)
    if np.array_equal(after, mask[looked]):
        looked = _most_promising(teacher, state, mask, place)
        rows = _rows(teacher, state, looked, len(query.model))
        after = search(rows, mask[looked], teacher.target[looked], loss, place, query.grow, query.shrink)
    mask[looked] = after
    found = np.flatnonzero(mask)
    return (
        found if far_enough(found, (chosen, *state.past), max(query.least, teacher.least_change)) else chosen
    )


def _rows(teacher: Teacher, state: State, looked: Positions, width: int) -> Array:
    blocks = teacher.rows.blocks(state.scaling, looked)
    return np.concatenate([np.empty((0, width)), *(block.mapped(np.eye(width)) for _, block in blocks)])


def _most_promising(teacher: Teacher, state: State, mask: Mask, place: Place) -> Positions:
    """Rows whose flip alone leaves the lowest risk, as many chosen ones as others."""
    loss, risks = known(state.loss, "loss"), np.empty(teacher.rows.count)
    for where, block in teacher.rows.blocks(state.scaling):
        signs = np.where(mask[where], -1.0, 1.0)
        rows = block.mapped(np.eye(len(place.model)))
        risks[where] = single_risks(rows, signs, teacher.target[where], loss, place)
    inside, outside = (
        side[np.argsort(risks[side], kind="stable")] for side in (np.flatnonzero(mask), np.flatnonzero(~mask))
    )
    inside = inside[: _PROMISING // 2]
    return np.concatenate([inside, outside[: _PROMISING - len(inside)]])


def single_risks(rows: Array, signs: Array, target: Array, loss: Loss, place: Place) -> Array:
    """The squared risk after flipping each row alone; infinite where no model is left."""
    terms = loss.terms(rows @ place.model, target)
    shifts = rows @ place.inverse
    leverage = np.einsum("ij,ij->i", shifts, rows)
    stays = 1.0 + signs * terms.curvature * leverage
    with np.errstate(divide="ignore", invalid="ignore"):
        size = signs * terms.slope / stays
        away = (place.measure @ (place.model - place.goal)) - (size[:, None] * shifts) @ place.measure.T
        risks = np.einsum("ij,ij->i", away, away)
    return np.where((stays > 1e-9) & np.isfinite(risks), risks, np.inf)


def search(
    rows: Array,
    chosen: Mask,
    target: Array,
    loss: Loss,
    place: Place,
    grow: int,
    shrink: int,
) -> Mask:
    """Flip rows, one or two at a time, while the predicted risk falls; the new choice.

    The number of chosen rows may grow by `grow` and shrink by `shrink` in all.
    """
    chosen = chosen.copy()
    for _ in range(_MOVES):
        signs = np.where(chosen, -1.0, 1.0)
        # Most moves are found among a few rows; all pairs of all rows are looked at before giving up.
        for few in (_promising(rows, signs, target, loss, place), np.arange(len(rows))):
            flips, after, change = _best_move(rows[few], signs[few], target[few], loss, place, grow, shrink)
            if len(flips):
                break
        if not len(flips):
            break
        chosen[few[flips]] = ~chosen[few[flips]]
        place = after
        grow, shrink = grow - change, shrink + change
    return chosen


def exchange_many(rows: Array, chosen: Mask, target: Array, loss: Loss, place: Place) -> Mask:
    """Exchange many rows for as many others, time and again, while the predicted risk falls; the new choice.

    Those come first whose flip moves the model fastest towards the goal; of them all, half, a quarter, … are tried.
    """
    chosen = chosen.copy()
    for _ in range(_MOVES):
        signs = np.where(chosen, -1.0, 1.0)
        toward = place.inverse @ (place.measure.T @ (place.measure @ (place.model - place.goal)))
        gain = signs * loss.gradient(rows @ place.model, target) * (rows @ toward)
        order = np.argsort(-gain, kind="stable")
        leave, enter = order[chosen[order]], order[~chosen[order]]
        both = min(len(leave), len(enter))
        count = int(np.count_nonzero(gain[leave[:both]] + gain[enter[:both]] > 0.0))
        best, flips = place, leave[:0]
        while count:
            some = np.concatenate([leave[:count], enter[:count]])
            after = _replaced(rows[some], signs[some], target[some], loss, place)
            if after is not None and after.risk < best.risk * (1.0 - _MUCH):
                best, flips = after, some
            count //= 2
        if not len(flips):
            break
        chosen[flips] = ~chosen[flips]
        place = best
    return chosen


def _replaced(rows: Array, signs: Array, target: Array, loss: Loss, place: Place) -> Place | None:
    """The place after many flips, by one Newton step; none where no model is left."""
    terms = loss.terms(rows @ place.model, target)
    curvature = (
        np.linalg.pinv(place.inverse, hermitian=True) + (rows * (signs * terms.curvature)[:, None]).T @ rows
    )
    if np.linalg.eigvalsh(curvature)[0] <= 1e-9 * np.trace(curvature):
        return None
    inverse = np.asarray(np.linalg.inv(curvature))
    model = place.model - inverse @ ((signs * terms.slope) @ rows)
    return Place(model, inverse, place.goal, place.measure)


def _promising(rows: Array, signs: Array, target: Array, loss: Loss, place: Place) -> Positions:
    """A few chosen and a few other rows whose flip alone leaves the lowest risk."""
    order = np.argsort(single_risks(rows, signs, target, loss, place), kind="stable")
    inside, outside = order[signs[order] < 0.0], order[signs[order] > 0.0]
    return np.concatenate([inside[:_FEW], outside[: 3 * _FEW]])


def _best_move(
    rows: Array, signs: Array, target: Array, loss: Loss, place: Place, grow: int, shrink: int
) -> tuple[Positions, Place, int]:
    terms = loss.terms(rows @ place.model, target)
    away = place.measure @ (place.model - place.goal)
    now = float(away @ away)
    inner = rows @ place.inverse @ rows.T
    weight, pull = signs * terms.curvature, signs * terms.slope
    raw = rows @ place.inverse @ place.measure.T
    toward, between = raw @ away, raw @ raw.T
    size = np.diag(between)

    single = single_risks(rows, signs, target, loss, place)
    single[((signs > 0) & (grow < 1)) | ((signs < 0) & (shrink < 1))] = np.inf

    own = 1.0 + weight * np.diag(inner)
    det = own[:, None] * own[None, :] - (weight[:, None] * inner) * (weight[None, :] * inner)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = (own[None, :] * pull[:, None] - weight[:, None] * inner * pull[None, :]) / det
        second = first.T
        risk = now + first**2 * size[:, None] + second**2 * size[None, :]
        risk += 2.0 * (first * second * between - first * toward[:, None] - second * toward[None, :])
    change = (signs[:, None] + signs[None, :]).astype(int)
    allowed = (change <= grow) & (-change <= shrink) & (det > 1e-9) & np.isfinite(risk)
    np.fill_diagonal(allowed, False)
    risk = np.where(allowed, risk, np.inf)

    one, two = int(np.argmin(single)), np.unravel_index(int(np.argmin(risk)), risk.shape)
    flips = np.array([one]) if single[one] <= risk[two] else np.array(two)
    if not min(float(single[one]), float(risk[two])) < now * (1.0 - _GAIN) ** 2:
        return np.empty(0, dtype=np.int64), place, 0
    return flips, _moved(rows[flips], weight[flips], pull[flips], place), int(signs[flips].sum())


def _moved(rows: Array, weight: Array, pull: Array, place: Place) -> Place:
    """The place after a flip of one or two rows."""
    shifts = rows @ place.inverse
    mixed = np.linalg.inv(np.eye(len(rows)) + weight[:, None] * (shifts @ rows.T))
    model = place.model - (mixed @ pull) @ shifts
    inverse = place.inverse - shifts.T @ (mixed * weight[None, :]) @ shifts
    return Place(model, 0.5 * (inverse + inverse.T), place.goal, place.measure)

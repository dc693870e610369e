"""Coming nearer to a goal that cannot be reached: one teacher's search on the true risk.

At the taught model the learner's gradient is zero. Adding (s = +1) or dropping (s = −1) rows U with slopes
ℓ' and curvatures ℓ'' moves the model by one Newton step, exact for squared loss:

    Δ = −H⁻¹U z,   z = (I + CM)⁻¹ q,   C = diag(s ℓ''),   M = U'H⁻¹U,   q = s ℓ'

so every single flip and every pair of flips among the most promising rows is evaluated in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from superteach.losses import Loss

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]

PROMISING = 1000
"""Rows whose pairs are all evaluated."""
_FEW = 60
_MOVES = 20
"""Flips or pairs of flips in one turn, at most."""
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
    chosen: npt.NDArray[np.bool_],
    target: Array,
    loss: Loss,
    place: Place,
    grow: int,
    shrink: int,
) -> npt.NDArray[np.bool_]:
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

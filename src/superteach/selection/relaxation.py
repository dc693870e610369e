"""The relaxed choice: inclusion probabilities b_j = σ(z_j + u'(w_j, 1)) with Σ b_j w_j = target and Σ b_j = count.

Of all probabilities that meet these equations they are the nearest to σ(z_j) in relative entropy. Newton's method finds
the d + 1 dual variables u. The equations are softened by δ‖u‖²/2, hardened step by step, so that a target that no
probabilities reach is approached as closely as leaves rows to round with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from superteach.types import Array

SOFTNESS = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
"""δ by level, in units in which a usual row has the length 1/√count: most targets are met at the second."""
NEWTON_STEPS = 20
"""Most steps at one level."""
MET = 0.01
"""Part of a usual row's length that probabilities may leave: rounding absorbs it at once."""
ROOM = 0.5
"""Freedom Σ b(1 − b) per unknown that a harder level must leave, else the target is out of reach and rows could not be
rounded."""
EVEN = 0.5
"""Part of the lesson that is spread evenly over rows; the rest goes to lengths in equal parts."""


class Relaxation(NamedTuple):
    """Inclusion probabilities, and what they leave."""

    probabilities: Array
    residual: Array
    """target − Σ b_j w_j."""
    met: bool


def prior(lengths: Array, count: float, unknowns: int) -> Array:
    """Return log-odds before tilting: one half evenly, the other in equal parts for each octave of length.

    Rounding hands what long rows leave to shorter ones, and an octave needs about as many rows as there are unknowns.
    So count/unknowns octaves below the longest tenth of the rows take part, each row with at most one half.
    """
    rows, steps = len(lengths), max(count / unknowns, 1.0)
    top = float(np.quantile(lengths, 0.9))
    even = np.full(rows, min(count / rows, 1.0 - 1e-9))
    if top <= 0.0:
        return np.asarray(logit(even))
    with np.errstate(divide="ignore"):
        octave = np.clip(np.floor(np.log2(top / np.maximum(lengths, 1e-300))), -1, 1_000).astype(np.int64) + 1
    on = octave <= steps + 1.0
    members, share = np.bincount(octave)[octave[on]], count / steps
    for _ in range(60):
        share = min(share * count / float(np.minimum(0.5, share / members).sum()), 1e9 * count)
    even *= EVEN
    even[on] += (1.0 - EVEN) * np.minimum(0.5, share / members)
    return np.asarray(logit(np.clip(even, 1e-12, 1.0 - 1e-9)))


def relax(rows: Array, target: Array, count: float, odds: Array) -> Relaxation:
    """Find inclusion probabilities for `count` rows that add up to `target`, or come near it."""
    unknowns, usual = rows.shape[1] + 1, _usual(rows, odds)
    scale = np.append(np.full(unknowns - 1, 1.0 / (usual * np.sqrt(count))), 1.0 / np.sqrt(count))
    lifted = np.column_stack([rows, np.ones(len(rows))]) * scale
    wanted = np.append(target, count) * scale
    dual, tilted, enough = np.zeros(unknowns), odds, MET / np.sqrt(count)
    likely = expit(tilted)
    for softness in SOFTNESS:
        soft = np.append(np.full(unknowns - 1, softness), 0.0)
        dual, tilted = _minimise(lifted, wanted, soft, dual, tilted, 0.1 * enough)
        harder = expit(tilted)
        if softness < SOFTNESS[0] and float((harder * (1.0 - harder)).sum()) < ROOM * unknowns:
            break
        likely = harder
        if np.linalg.norm(wanted - likely @ lifted) <= enough:
            break
    residual = np.asarray(target - likely @ rows)
    return Relaxation(likely, residual, bool(np.linalg.norm(residual) <= MET * usual))


def _usual(rows: Array, odds: Array) -> float:
    """Root mean square of the lengths of likely rows."""
    likely = expit(odds)
    return float(np.sqrt(likely @ np.einsum("ij,ij->i", rows, rows) / likely.sum())) or 1.0


def _minimise(rows: Array, wanted: Array, soft: Array, dual: Array, odds: Array, close: float) -> tuple[Array, Array]:
    """Minimise Σ log(1 + e^(z_j + u'a_j)) − u'wanted + Σ δ u²/2 from u on, by damped Newton steps."""
    value = _value(odds, wanted, soft, dual)
    for _ in range(NEWTON_STEPS):
        likely = expit(odds)
        gradient = likely @ rows - wanted + soft * dual
        if np.linalg.norm(gradient) <= max(0.1 * float(np.linalg.norm(soft * dual)), close):
            break
        curvature = (rows.T * (likely * (1.0 - likely))) @ rows
        curvature[np.diag_indices_from(curvature)] += soft + 1e-13 * np.trace(curvature) / len(soft) + 1e-300
        step = np.linalg.solve(curvature, gradient)
        along, slope, length = rows @ step, float(gradient @ step), 1.0
        for _ in range(30):
            there = _value(odds - length * along, wanted, soft, dual - length * step)
            if there <= value - 1e-4 * length * slope + 1e-13 * abs(value):
                break
            length *= 0.5
        else:
            break
        dual, odds, value = dual - length * step, odds - length * along, there
    return dual, odds


def _value(odds: Array, wanted: Array, soft: Array, dual: Array) -> float:
    return float(np.logaddexp(0.0, odds).sum() - dual @ wanted + 0.5 * (soft * dual) @ dual)

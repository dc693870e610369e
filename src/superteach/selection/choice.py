"""One owner's choice: rows whose sample gradients add up to a share of the goal, as nearly as its rows allow.

Relax, round, polish; nothing here knows of other owners, of messages or of files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from superteach.protocol.queries.match import Instruction, Report
from superteach.selection import rounding
from superteach.selection.prices import metric_of
from superteach.selection.relaxation import prior, relax
from superteach.types import Array, Positions

MANY, SAMPLED = 20_000, 0.125
"""Of more rows, the less likely ones are sampled at this probability before the relaxation, so that it sees at most
count/SAMPLED of them. With fewer rows it is quick enough: owners of 5,000 rows near the border of what these can teach ended
a hundred times farther away on a sample."""
SEEN = 1e-6
"""Part that rows must have in the curvature of a direction, beside the penalty, for a choice of rows to change it."""
AGAIN, KEPT = 3, 0.05
"""Roundings, each in the metric of the rows that the last one chose: where few rows hold a direction, these may leave it
without any, and then what is missing there weighs more. Of the curvature before, this part is kept."""
LONG = 3.0
"""Usual lengths from which on rows are not sampled before rounding. On tables with rare columns few rows hold a direction,
and samples lost them: of 49 owners the lesson agreed with 99.55 % of the goal's labels, and with 99.92 % without."""
STARTS = 4
"""Roundings of the last rows, of which the best is kept."""


class Choice(NamedTuple):
    """An owner's rows, and for its eyes only how well they carry its share."""

    rows: Positions
    missing: float
    """By how much they miss it: ‖H^(−1/2)(τ − Σ g_j)‖, in which an error of the learner's own size is about 1."""
    carried: bool
    """Whether the share is within reach of these rows: probabilities meet it, though whole rows may miss it a little."""


def choose_rows(
    gradients: Array,
    curvature: Callable[[Array], Array],
    target: Array,
    count: float,
    penalty: Array,
    draw: np.random.Generator,
) -> Choice:
    """Choose about `count` rows whose `gradients` add up to `target`.

    `curvature(b)` is the learner's Hessian Σ b_j ∇²ℓ_j over these rows, to which `penalty` adds the owner's part of the
    regulariser's.
    """
    rows = len(gradients)
    count = min(max(float(count), 0.0), float(rows))
    if round(count) < 1 or rows == 0:
        missing = float(np.linalg.norm(target)) if len(target) else 0.0
        return Choice(np.zeros(0, dtype=np.int64), missing, missing == 0.0)
    metric = _seen(curvature(np.full(rows, count / rows)), penalty)
    likely, met = _relaxed(gradients @ metric.T, metric @ target, count, draw)
    bent, best = curvature(likely), Choice(np.zeros(0, dtype=np.int64), np.inf, met)
    for _ in range(AGAIN):
        metric = _seen(bent, penalty)
        pulls = gradients @ metric.T
        chosen = _rounded(pulls, likely, metric @ target, round(count), draw)
        planned = float(np.linalg.norm(metric @ target - pulls[chosen].sum(axis=0)))
        taken = np.zeros(rows)
        taken[chosen] = 1.0
        held = curvature(taken)
        left = _seen(held + KEPT * bent, penalty) @ (target - gradients[chosen].sum(axis=0))
        missing = float(np.linalg.norm(left))
        if missing < best.missing:
            best = Choice(chosen, missing, met)
        if missing <= 2.0 * planned:
            break
        bent = held + KEPT * bent
    return best


def _seen(curvature: Array, penalty: Array) -> Array:
    """M with M'M = H^−1 in directions that some row sees, H the curvature of rows and penalty together, and 0 elsewhere.

    What a share asks for in the other directions no choice of rows changes.
    """
    metric = metric_of(curvature + np.diag(penalty))
    values, axes = np.linalg.eigh(metric @ curvature @ metric.T)
    return np.asarray(axes[:, values > SEEN * values[-1]].T @ metric)


def _relaxed(pulls: Array, target: Array, count: float, draw: np.random.Generator) -> tuple[Array, bool]:
    """Inclusion probabilities of all rows: of a sample where this leaves enough to round with."""
    odds = prior(np.linalg.norm(pulls, axis=1), count, pulls.shape[1] + 1)
    if len(odds) > MANY:
        kept = np.flatnonzero(draw.random(len(odds)) * SAMPLED < expit(odds))
        found = relax(pulls[kept], target, count, np.maximum(odds[kept], float(logit(SAMPLED))))
        free = float((found.probabilities * (1.0 - found.probabilities)).sum())
        if found.met and free > 0.5 * count:
            likely = np.zeros(len(odds))
            likely[kept] = found.probabilities
            return likely, True
    found = relax(pulls, target, count, odds)
    return found.probabilities, found.met


def _rounded(pulls: Array, likely: Array, target: Array, count: int, draw: np.random.Generator) -> Positions:
    """Round probabilities to whole rows: long rows first; what they leave, all shorter ones absorb."""
    fractional = np.append(likely @ pulls, count)
    beyond = target - fractional[:-1]
    thin = rounding.thinning(count)
    sizes = np.linalg.norm(pulls, axis=1)
    alike = sizes <= LONG * float(np.sqrt(likely @ np.square(sizes) / likely.sum()))
    kept = np.flatnonzero(np.where(alike, draw.random(len(likely)) * thin < likely, likely > rounding.EDGE))
    rows = np.column_stack([pulls[kept], np.ones(len(kept))])
    lengths = sizes[kept]
    longest, usual = float(lengths.max(initial=0.0)), float(np.sqrt(np.mean(np.square(lengths)))) if len(kept) else 0.0
    fractions = np.where(alike[kept], np.maximum(likely[kept], thin), likely[kept])
    begun = rounding.InPlay.begin(rows, fractions, kept, longest, draw)
    best, least = begun.close(np.zeros(len(kept), dtype=bool)), np.inf
    for slower in rounding.SLOWER:
        play, limit = begun, slower * rounding.TILT

        def ask(order: Instruction) -> Report:
            nonlocal play
            play = play.obey(order, draw)
            return play.report()

        last = rounding.settle(ask, play.report(), fractional, longest, 1, 0, rounding.ENOUGH, limit)
        residual, lacking = fractional - last.total, max(count - sum(map(len, play.chosen)), 0)
        taken = rounding.finish(
            play.rows, play.fractions, residual, lacking, lacking, draw, beyond, starts=STARTS, limit=limit
        )
        chosen = play.close(taken)
        left = float(np.linalg.norm(target - pulls[chosen].sum(axis=0)))
        if left < least:
            best, least = chosen, left
        if left <= max(rounding.close(count) * usual, 1.1 * float(np.linalg.norm(beyond))):
            break
    return best

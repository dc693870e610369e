"""One owner's choice: rows whose gradients add up to a share of the goal, as nearly as its rows allow.

Relax, round, and once more in the metric of the rows chosen; nothing here knows of other owners, of messages or of files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from superteach.optim.newton import Newton
from superteach.selection import relaxation, rounding
from superteach.selection.relaxation import OwnRows, metric_of, relax
from superteach.types import Array, Positions


@dataclass(frozen=True)
class ShareOptions:
    """Numbers that decide an owner's choice. What each is worth is in the ablation table of the docs."""

    many: int = 20_000
    """Rows from which on less likely ones are sampled first. Of 5,000 rows near the border of what they can teach, a sample
    ended a hundred times farther away."""
    seen: float = 1e-6
    """Part that rows must have in the curvature of a direction, beside the penalty, for a choice to change it."""
    long: float = 3.0
    """Usual lengths from which on rows are not thinned before rounding: on tables with rare columns few rows hold a
    direction, and samples lost them (49 owners: 99.55 % of the goal's labels, without 99.92 %)."""

    far: float = 5.0
    """A row is left out that is so many times longer than nine others, and than a row that has a direction to itself: hardly
    any choice makes good for it, and a model fitted on the chosen rows would show it (AUC 0.8; without it 0.5)."""


DEFAULT = ShareOptions()


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
    options: ShareOptions = DEFAULT,
) -> Choice:
    """Choose about `count` rows whose `gradients` add up to `target`.

    `curvature(b)` is the learner's Hessian Σ b_j ∇²ℓ_j over these rows, to which `penalty` adds the owner's part of the
    regulariser's.
    """
    rows = len(gradients)
    size = round(min(max(float(count), 0.0), float(rows)))
    if size < 1:
        missing = float(np.linalg.norm(target)) if len(target) else 0.0
        return Choice(np.zeros(0, dtype=np.int64), missing, missing == 0.0)
    metric = _seen(curvature(np.full(rows, size / rows)), penalty, options)
    vectors = gradients @ metric.T
    some = _like_others(vectors, size, options)
    if len(some) < rows:  # then as if these were not there

        def inside(likely: Array) -> Array:
            whole = np.zeros(rows)
            whole[some] = likely
            return curvature(whole)

        options = replace(options, far=np.inf)
        choice = choose_rows(gradients[some], inside, target, size, penalty, draw, options)
        return choice._replace(rows=some[choice.rows])
    chance, met = _relaxed(vectors, metric @ target, size, draw, options)
    metric = _seen(curvature(chance), penalty, options)
    vectors, wanted = gradients @ metric.T, metric @ target
    aim = wanted if met else chance @ vectors
    chosen = _rounded(vectors, chance, aim, wanted - aim, size, draw, options)
    return Choice(chosen, float(np.linalg.norm(wanted - vectors[chosen].sum(axis=0))), met)


def _like_others(vectors: Array, size: int, options: ShareOptions) -> Positions:
    """Leave out rows that are far longer than all others; of fewer than a hundred rows, every tenth counts for the nine."""
    rows, lengths = len(vectors), np.linalg.norm(vectors, axis=1)
    place = rows - 1 - min(9, rows // 10)
    others = float(np.partition(lengths, place)[place])
    like = np.flatnonzero(lengths <= options.far * max(others, float(np.sqrt(rows / size))))
    return like if len(like) >= size else np.arange(rows)


def _seen(curvature: Array, penalty: Array, options: ShareOptions) -> Array:
    """M with M'M = H⁻¹ in directions that some row sees, H the curvature of rows and penalty together, and 0 elsewhere.

    What a share asks for in the other directions no choice of rows changes.
    """
    metric = metric_of(curvature + np.diag(penalty))
    values, axes = np.linalg.eigh(metric @ curvature @ metric.T)
    return np.asarray(axes[:, values > options.seen * values[-1]].T @ metric)


def _relaxed(
    vectors: Array, target: Array, size: int, draw: np.random.Generator, options: ShareOptions
) -> tuple[Array, bool]:
    """Inclusion probabilities of all rows, and whether they meet the target."""
    rows = OwnRows(vectors, draw)
    unit = np.ones(vectors.shape[1])
    found = relax(rows, unit, target, size, Newton(max_steps=relaxation.DEFAULT.steps), len(vectors) > options.many)
    return rows.probabilities(found.dual), found.met


def _rounded(
    vectors: Array,
    chance: Array,
    target: Array,
    beyond: Array,
    size: int,
    draw: np.random.Generator,
    options: ShareOptions,
) -> Positions:
    """Thin rows of usual length, then round: what thinning leaves, rounding makes up for."""
    thin, lengths = rounding.thinning(size), np.linalg.norm(vectors, axis=1)
    usual = lengths <= options.long * float(np.sqrt(chance @ np.square(lengths) / max(float(chance.sum()), 1e-300)))
    kept = np.flatnonzero(np.where(usual, draw.random(len(chance)) * thin < chance, chance > rounding.EDGE))
    if len(kept) < size:  # a share out of reach has probabilities that do not add up to its rows
        kept = np.sort(np.argsort(-chance, kind="stable")[: 4 * size])
    likely = np.where(usual[kept], np.maximum(chance[kept], thin), chance[kept])
    taken = rounding.round_rows(vectors[kept], likely, target, size, size, draw, beyond)
    return np.asarray(kept[taken], dtype=np.int64)

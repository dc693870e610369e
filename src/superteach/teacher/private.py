"""A teacher in the modes "isolated" and "dp": two sums over gradients at the goal, and a choice of which it says nothing.

Nothing here fails or takes another path because of a row: a failure would be seen outside.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from superteach.losses.scalar import Loss, Terms
from superteach.optim.problem import Scaling
from superteach.privacy.moments import count_octaves, second_moments
from superteach.protocol import queries
from superteach.protocol.messages import Turn
from superteach.selection.share import Choice, choose_rows
from superteach.teacher.rows import Block, Where, over_outputs
from superteach.teacher.state import Answer, State
from superteach.types import Array, Positions

if TYPE_CHECKING:
    from superteach.teacher import Teacher

LARGEST = 1e100
"""Size from which on a gradient is left out of a choice: its square would have no digits left."""
_log = logging.getLogger(__name__)


def count_magnitudes(teacher: Teacher, query: queries.CountMagnitudes, state: State, turn: Turn) -> Answer:
    """Count gradients by octave of their size, coefficient by coefficient."""
    total = np.zeros(query.reply_length)
    for _, gradients in _gradients(teacher, query):
        total += count_octaves(gradients)
    return state, total


def sum_moments(teacher: Teacher, query: queries.SecondMoments, state: State, turn: Turn) -> Answer:
    """Add up e e' over all rows."""
    total = np.zeros(query.reply_length)
    for _, gradients in _gradients(teacher, query):
        total += second_moments(gradients, query.weights)
    return state, total


def choose_share(teacher: Teacher, query: queries.ChooseShare, state: State, turn: Turn) -> Answer:
    """Choose rows for this teacher's share; how well they carry it is noted for their owner alone."""
    count, share = int(query.rows[turn.position]), query.shares[turn.position]
    count = min(count, teacher.rows.count)
    draw = np.random.default_rng([query.seed, turn.position, teacher.secret])
    try:
        chosen, note = _chosen(teacher, query, count, share, draw)
    except Exception as error:  # whatever it is, it must not be seen outside
        _log.exception("rows were drawn at random, because choosing them failed")
        chosen = np.sort(draw.permutation(teacher.rows.count)[:count])
        note = f"choosing rows failed ({type(error).__name__}), so {len(chosen)} were drawn at random"
    return replace(state, chosen=chosen, note=note), np.zeros(0)


def _chosen(
    teacher: Teacher, query: queries.ChooseShare, count: int, share: Array, draw: np.random.Generator
) -> tuple[Positions, str]:
    loss, total = teacher.announced(query.loss), max(sum(query.rows), 1)
    if not count:
        return np.zeros(0, dtype=np.int64), "this teacher carries no part of the lesson"
    penalty = query.penalty * (count / total)
    choice = choose_own(teacher, loss, Scaling(query.constant), query.goal, share, penalty, count, draw)
    carried = "carry" if choice.carried else "do not carry"
    note = f"these rows {carried} the share of {count} rows: they miss it by {choice.missing:.2g}"
    return choice.rows, note


def choose_own(
    teacher: Teacher,
    loss: Loss,
    scaling: Scaling,
    goal: Array,
    share: Array,
    penalty: Array,
    count: int,
    draw: np.random.Generator,
) -> Choice:
    """Choose `count` of a teacher's rows with gradients at the goal that add up to a share; rows in ascending order."""
    gradients = np.zeros((teacher.rows.count, len(goal)))
    curved: list[tuple[Where, Block, Array]] = []
    for where, block, terms in _terms(teacher, loss, scaling, goal):
        gradients[where] = _outer(terms.slope, block)
        curved.append((where, block, np.nan_to_num(terms.curvature, posinf=LARGEST)))
    usable = np.flatnonzero(np.abs(gradients).max(axis=1) < LARGEST)

    def curvature(likely: Array) -> Array:
        weights, matrix = np.zeros(len(gradients)), np.zeros((len(goal),) * 2)
        weights[usable] = likely
        for where, block, bent in curved:
            matrix += over_outputs(block, loss.outputs).gram(_weighted(bent, weights[where]))
        return matrix

    choice = choose_rows(gradients[usable], curvature, share, min(count, len(usable)), penalty, draw)
    return choice._replace(rows=np.sort(usable[choice.rows]))


def _terms(teacher: Teacher, loss: Loss, scaling: Scaling, goal: Array) -> Iterator[tuple[Where, Block, Terms]]:
    """Slope and curvature of every row's loss at the goal, block by block."""
    with np.errstate(over="ignore", invalid="ignore"):
        for where, block in teacher.rows.blocks(scaling):
            at = over_outputs(block, loss.outputs).times(goal)
            terms = loss.terms(at, teacher.target[where])
            if teacher.weights is not None:
                weight = teacher.weights[where]
                terms = Terms(terms.value, weight * terms.slope, _weighted(terms.curvature, weight))
            yield where, block, terms


def _weighted(curvature: Array, weight: Array) -> Array:
    """Multiply rows' curvatures by weights; of several outputs they are given by factors (see `SeveralBlock.gram`)."""
    if curvature.ndim == 1 or len(curvature) == 1:
        return np.asarray(weight * curvature)
    own, shared = curvature
    return np.stack([weight * own, np.sqrt(weight) * shared])


def _gradients(
    teacher: Teacher, query: queries.CountMagnitudes | queries.SecondMoments
) -> Iterator[tuple[Where, Array]]:
    """g_j = −ℓ'(x_j'θ*) x_j of every row, block by block: what a row adds to the learner's condition at the goal."""
    loss = teacher.announced(query.loss)
    for where, block, terms in _terms(teacher, loss, Scaling(query.constant), query.goal):
        yield where, _outer(terms.slope, block)


def _outer(slope: Array, block: Block) -> Array:
    """Rows × coefficients, output after output where there are several; a number that doubles cannot hold becomes 0."""
    rows = block.mapped(np.ones(block.width))
    with np.errstate(over="ignore", invalid="ignore"):
        several = np.atleast_2d(-slope)
        gradients = np.einsum("oj,jc->joc", several, rows).reshape(len(rows), -1)
    return np.asarray(np.nan_to_num(gradients, nan=0.0, posinf=2.0 * LARGEST, neginf=-2.0 * LARGEST))

"""Sums over one teacher's rows, block by block: what most replies are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from superteach import queries
from superteach.losses import Loss, Terms
from superteach.problem import Scaling
from superteach.teacher import refine
from superteach.teacher.rows import LiftedBlock
from superteach.teacher.state import State, known

if TYPE_CHECKING:
    from superteach.teacher import Teacher

Array = npt.NDArray[np.float64]
_VALUES_AT_ONCE = 1 << 15


def _terms(query: Any, state: State, t: Array, where: Any, target: Array) -> Terms:
    """What each row of a block adds to the function asked for."""
    if query.function == "square":
        return Terms(0.5 * t * t, t, np.ones_like(t))
    if query.function == "positive":
        on = (target[where] > 0.0).astype(np.float64)
        return Terms(0.5 * t * t * on, t * on, np.broadcast_to(on, t.shape))
    if query.function == "reach":
        return Terms(np.maximum(t, 0.0), (t > 0.0).astype(np.float64), np.zeros_like(t))
    if query.function == "relax":
        balance: refine.Balancing = known(state.balance, "pulls")
        return balance.terms(t, where)
    loss: Loss = known(state.loss, "loss")
    if query.function == "loss":
        return loss.terms(t, target[where])
    return loss.dual_terms(t, target[where], known(state.threshold, "thresholds")[where])


def _values(query: Any, state: State, t: Array, where: Any, target: Array) -> Array:
    """The same without derivatives, at a fraction of the cost."""
    if query.function in ("square", "positive", "relax", "reach"):
        return _terms(query, state, t, where, target).value
    loss = known(state.loss, "loss")
    if query.function == "loss":
        return np.asarray(loss.value(t, target[where]))
    return np.asarray(loss.dual_value(t, target[where], known(state.threshold, "thresholds")[where]))


def _asked_blocks(teacher: Teacher, query: Any, state: State) -> Iterator[tuple[Any, Any]]:
    """Blocks of the rows a query asks about, lifted to (pull, 1) where it speaks of balance."""
    chosen = known(state.chosen, "chosen rows") if query.rows == "chosen" else None
    lifted = query.function in ("relax", "reach")
    for where, block in teacher.rows.blocks(state.scaling, chosen):
        yield where, LiftedBlock(block, known(state.balance, "pulls").pull[where]) if lifted else block


def sum_moments(teacher: Teacher, query: queries.AskMoments, state: State) -> Array:
    """Σ f_j, Σ f_j' x_j and, for order 2, the upper triangle of Σ f_j'' x_j x_j'."""
    width = len(query.point)
    reply = np.zeros(query.reply_length)
    curvature = np.zeros((width, width))
    for where, block in _asked_blocks(teacher, query, state):
        terms = _terms(query, state, block.times(query.point), where, teacher.target)
        reply[0] += terms.value.sum()
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite value tells the solver enough
            reply[1 : width + 1] += block.weighted_sum(terms.slope)
            if query.order == 2:
                curvature += block.gram(terms.curvature)
    if query.order == 2:
        reply[width + 1 :] = curvature[queries.upper_triangle(width)]
    return reply


def sum_values(teacher: Teacher, query: queries.AskValues, state: State) -> Array:
    """Σ f_j at every step along a direction."""
    totals = np.zeros(len(query.steps))
    for where, block in _asked_blocks(teacher, query, state):
        at, along = block.times(query.point), block.times(query.direction)
        # Short blocks take all steps at once, because there the calls cost more than the numbers.
        batch = max(1, _VALUES_AT_ONCE // max(len(at), 1))
        for first in range(0, len(query.steps), batch):
            points = at + query.steps[first : first + batch, None] * along
            values = _values(query, state, points, where, teacher.target)
            totals[first : first + batch] += values.sum(axis=1)
    return totals


def weighted_sum(teacher: Teacher, scaling: Scaling, weights: Array) -> Array:
    """Σ w_j x_j over all rows."""
    total: Any = 0.0
    for where, block in teacher.rows.blocks(scaling):
        total = total + block.weighted_sum(weights[where])
    return np.asarray(total)


def best_dual(teacher: Teacher, state: State, point: Array) -> Array:
    """The α_j of every row that is best at a point."""
    loss, threshold = known(state.loss, "loss"), known(state.threshold, "thresholds")
    alpha = np.empty(teacher.rows.count)
    for where, block in teacher.rows.blocks(state.scaling):
        alpha[where] = loss.best_dual(block.times(point), teacher.target[where], threshold[where])
    return alpha

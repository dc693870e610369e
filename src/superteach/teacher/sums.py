"""Sums over one teacher's rows, block by block: what most replies are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from superteach.exceptions import QueryRefused
from superteach.losses.arrays import like, namespace, to_numpy
from superteach.losses.scalar import Logistic, Loss, Terms
from superteach.optim.problem import Scaling
from superteach.protocol import queries
from superteach.teacher.rows import Block, LiftedBlock, SeveralBlock, over_outputs
from superteach.teacher.state import State, known
from superteach.types import Array, Positions

if TYPE_CHECKING:
    from superteach.teacher import Teacher

_VALUES_AT_ONCE = 1 << 15
"""Rows times steps of a line search computed at once: a quarter of a megabyte, within the second-level cache."""
ROUGH = 20
"""Rows per unknown in a rough curvature: with 330 it takes a sixth of the time at 40,000 to 100,000 rows."""
Asked = queries.AskMoments | queries.AskValues


@dataclass(frozen=True, eq=False)
class _Part:
    """A block of rows that a query asks about, and what its function needs of them."""

    block: Block | LiftedBlock | SeveralBlock
    target: Array
    given: Array | None = None
    """Log-odds for "relax", thresholds for "dual"."""
    weight: Array | None = None


def _terms(query: Asked, loss: Loss | None, part: _Part, t: Array) -> Terms:
    """Compute what each row of a block adds to the function asked for."""
    if query.function == "square":
        return Terms(0.5 * t * t, t, namespace(t).ones_like(t))
    if query.function == "positive":
        on = (part.target > 0.0) * namespace(t).ones_like(t)
        return Terms(0.5 * t * t * on, t * on, on)
    if query.function == "relax":
        value, slope, curvature = Logistic().terms(-(t + known(part.given, "log-odds")), namespace(t).ones_like(t))
        return Terms(value, -slope, curvature)
    loss = known(loss, "loss")
    if query.function == "loss":
        terms = loss.terms(t, part.target)
        if part.weight is None:
            return terms
        if len(terms.curvature) == 2 and loss.outputs > 1:  # −p_c p_e: each factor takes its half
            own, share = terms.curvature
            bent = np.stack([part.weight * own, np.sqrt(part.weight) * share])
            return Terms(part.weight * terms.value, part.weight * terms.slope, bent)
        return Terms(*(part.weight * term for term in terms))
    terms = loss.dual_terms(t, part.target, known(part.given, "thresholds"))
    return terms if part.weight is None else Terms(*(part.weight * term for term in terms))


def _values(query: Asked, loss: Loss | None, part: _Part, t: Array) -> Array:
    """Compute the same without derivatives, at a fraction of the cost."""
    if query.function in ("square", "positive", "relax") or part.weight is not None:
        return _terms(query, loss, part, t).value
    loss = known(loss, "loss")
    if query.function == "loss":
        return loss.value(t, part.target)
    return np.asarray(loss.dual_value(t, part.target, known(part.given, "thresholds")))


def _parts(teacher: Teacher, query: Asked, state: State) -> Iterator[_Part]:
    """Blocks of the rows a query asks about, lifted to (pull, 1) where it speaks of balance."""
    if (query.rows == "sampled") != (query.function == "relax") or (
        query.rows == "likely" and query.function != "loss"
    ):
        raise QueryRefused(f"teacher {teacher.name} does not sum {query.function!r} over rows {query.rows!r}")
    outputs = state.loss.outputs if state.loss is not None and query.function == "loss" else 1
    if query.rows in ("sampled", "likely"):
        sample = known(state.sample, "rows sampled")
        weights = known(state.probabilities, "inclusion probabilities") if query.rows == "likely" else None
        target = teacher.target if sample.index is None else teacher.target[sample.index]
        if weights is not None and teacher.weights is not None:
            weights = weights * (teacher.weights if sample.index is None else teacher.weights[sample.index])
        for where, block in sample.rows.blocks(state.scaling):
            if weights is None:
                yield _Part(LiftedBlock(block, sample.slope[..., where]), target[where], sample.odds[where])
            else:
                yield _Part(over_outputs(block, outputs), target[where], None, weights[where])
        return
    chosen = rows_named(state, query.rows)
    for where, block in teacher.rows.blocks(state.scaling, chosen):
        given = state.threshold[where] if query.function == "dual" and state.threshold is not None else None
        weight = None if teacher.weights is None else teacher.weights[where]
        yield _Part(over_outputs(block, outputs), teacher.target[where], given, weight)


def rows_named(state: State, rows: str) -> Positions | None:
    """Return the positions of chosen rows; None: all rows."""
    return known(state.chosen, "chosen rows") if rows == "chosen" else None


@dataclass(frozen=True, eq=False)
class OwnSums:
    """Σ f_j over this teacher's own rows, for its own use."""

    teacher: Teacher
    state: State
    function: queries.RowFunction

    def moments(self, point: Array, order: Literal[1, 2]) -> queries.Moments:
        """Value, gradient and (order 2) curvature at a point."""
        asked = queries.AskMoments(self.function, "all", point, order)
        return asked.read(sum_moments(self.teacher, asked, self.state))

    def values(self, point: Array, direction: Array, steps: Array) -> Array:
        """Values at point + s·direction for every step s."""
        return sum_values(self.teacher, queries.AskValues(self.function, "all", point, direction, steps), self.state)


def sum_moments(teacher: Teacher, query: queries.AskMoments, state: State) -> Array:
    """Σ f_j, Σ f_j' x_j and, for order 2, the upper triangle of Σ f_j'' x_j x_j'."""
    width, outputs = len(query.point), query.outputs
    if outputs != 1 and (state.loss is None or outputs != state.loss.outputs):
        raise QueryRefused(f"teacher {teacher.name} teaches no learner of {outputs} outputs")
    reply = np.zeros(query.reply_length)
    apart = query.order == 2 and outputs > 1
    size = width // outputs
    curvature = np.zeros(((outputs, size, size) if apart else (width, width)) if query.order == 2 else 0)
    rough = list[Array]()
    for part in _parts(teacher, query, state):
        terms = _terms(query, state.loss, part, part.block.times(query.point))
        reply[0] += float(terms.value.sum())
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite value tells the solver enough
            reply[1 : width + 1] += part.block.weighted_sum(terms.slope)
            if apart:
                assert isinstance(part.block, SeveralBlock | LiftedBlock)
                curvature += np.stack(part.block.own_grams(terms.curvature))
                reply[len(reply) - width % outputs :] += terms.curvature.sum()
            elif query.order == 2 and query.rough:
                rough.append(to_numpy(terms.curvature))
            elif query.order == 2:
                curvature += part.block.gram(terms.curvature)
    if rough:
        curvature = _roughly(state, np.concatenate(rough), width)
    if apart:
        reply[width + 1 : len(reply) - width % outputs] = curvature[:, *queries.upper_triangle(size)].ravel()
    elif query.order == 2:
        reply[width + 1 :] = curvature[queries.upper_triangle(width)]
    return reply


def _roughly(state: State, weights: Array, width: int) -> Array:
    """Σ w_j (g_j, 1)(g_j, 1)' of some rows, each as likely as it weighs: half by w_j‖g_j‖² in the metric, half by w_j."""
    sample, bins = known(state.sample, "rows sampled"), known(state.gradients, "gradients").bins
    heavy = weights * 4.0 ** to_numpy(bins if sample.index is None else bins[sample.index]).astype(np.float64)
    share = 0.5 * heavy / max(heavy.sum(), 1e-300) + 0.5 * weights / max(weights.sum(), 1e-300)
    chance = np.minimum(1.0, ROUGH * width * share)
    some = np.flatnonzero(np.diff(np.floor(np.cumsum(chance)), prepend=0.0))
    by_chance = like(weights / np.where(chance > 0.0, chance, 1.0), sample.slope)
    parts = sample.rows.blocks(state.scaling, some)
    lifted = ((where, LiftedBlock(block, sample.slope[..., where])) for where, block in parts)
    grams = (block.gram(by_chance[where]) for where, block in lifted)
    return np.asarray(sum(grams, start=np.zeros((width, width))))


def sum_values(teacher: Teacher, query: queries.AskValues, state: State) -> Array:
    """Σ f_j at every step along a direction."""
    totals = np.zeros(len(query.steps))
    for part in _parts(teacher, query, state):
        at, along = part.block.times(query.point), part.block.times(query.direction)
        # Short blocks take all steps at once, because there the calls cost more than the numbers.
        batch = max(1, _VALUES_AT_ONCE // max(at.nbytes // 8, 1))
        steps = like(query.steps, at).reshape(-1, *[1] * at.ndim)
        for first in range(0, len(query.steps), batch):
            points = at + steps[first : first + batch] * along
            totals[first : first + batch] += to_numpy(_values(query, state.loss, part, points).sum(axis=1))
    return totals


def weighted_sum(teacher: Teacher, scaling: Scaling, weights: Array) -> Array:
    """Σ w_j x_j over all rows."""
    parts = (block.weighted_sum(weights[where]) for where, block in teacher.rows.blocks(scaling))
    return np.asarray(sum(parts, start=0.0))


def best_dual(teacher: Teacher, state: State, point: Array) -> Array:
    """Return the best α_j of every row at a point."""
    loss, threshold = known(state.loss, "loss"), known(state.threshold, "thresholds")
    alpha = np.empty(teacher.rows.count)
    for where, block in teacher.rows.blocks(state.scaling):
        alpha[where] = teacher.weighted(loss, where).best_dual(
            block.times(point), teacher.target[where], threshold[where]
        )
    return alpha

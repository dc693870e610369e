"""Exact teaching inside one teacher: gradients, inclusion probabilities, and the rows that rounding decides about.

The gradient of row j at a model is g_j = −ℓ'(x_j'θ) x_j. At dual variables u row j is in the lesson with probability
σ(z_j + u'(g_j, 1)). Numbers of rows are arrays of NumPy, or of torch where the rows are on a device.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.special import logit

from superteach.exceptions import QueryRefused
from superteach.losses.arrays import as_type, count_each, like, look_up, namespace, positions, sigmoid, to_numpy
from superteach.losses.scalar import Loss
from superteach.protocol import queries
from superteach.protocol.messages import Turn
from superteach.selection import rounding
from superteach.selection.majorant import UNIT, Products, majorant
from superteach.selection.relaxation import BINS, SHORTEST, Counts, idle_bin, long_bin
from superteach.teacher import ranks
from superteach.teacher.rows import (
    Block,
    LiftedBlock,
    SparseBlock,
    gradient_squares,
    length_of,
    mapped_gradients,
    over_outputs,
)
from superteach.teacher.state import Answer, State, known
from superteach.types import Array, Matrix, PerRow, Positions

if TYPE_CHECKING:
    from superteach.teacher import Teacher
    from superteach.teacher.rows import Rows


COST = 8.0
"""Log-odds between an owner's cheapest row and its dearest: as much as makes the one 3,000 times as likely."""


@dataclass(frozen=True, eq=False)
class Gradients:
    """The model that gradients are taken at, and the bin of every gradient's length; slopes are computed anew."""

    model: Array
    bins: PerRow


@dataclass(frozen=True, eq=False)
class Levels:
    """Numbers that are the same for all rows of a bin: a byte a row is kept, not eight."""

    table: Array
    bins: PerRow

    def __getitem__(self, where: slice | Positions) -> PerRow:
        return look_up(self.table, self.bins[where])


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows that take part in the relaxed problem: where they are (None: all), their slopes and log-odds."""

    rows: Rows
    index: PerRow | None
    slope: PerRow
    odds: PerRow | Levels

    def places(self, some: PerRow) -> Positions:
        """Number some of them as the teacher numbers its rows."""
        return np.asarray(to_numpy(some if self.index is None else self.index[some]), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Undecided:
    """Rows that rounding decides about; rows that are in the lesson whatever it decides; and rows that change nothing."""

    candidates: Positions
    certain: Positions
    idle: Positions


def gradients(teacher: Teacher, query: queries.Gradients, state: State, turn: Turn) -> Answer:
    """Take gradients at a model."""
    rows = teacher.rows
    bins, counts = rows.empty(rows.count, integers=True), np.zeros(BINS)
    for where, block, slope in slopes(teacher, state, query.model, rows):
        bins[where] = _bins(slope, block, query.metric)
        counts += count_each(bins[where], BINS)
    state = replace(state, gradients=Gradients(query.model, bins), sample=None, probabilities=None, undecided=None)
    return state, counts


def slopes(
    teacher: Teacher, state: State, model: Array, rows: Rows, index: PerRow | None = None
) -> Iterator[tuple[slice, Block, PerRow]]:
    """Yield blocks of rows, which the teacher numbers by `index` (None: all), with their slopes −ℓ'(x_j'θ) at a model."""
    loss: Loss = known(state.loss, "loss")
    for where, block in rows.blocks(state.scaling):
        assert isinstance(where, slice)
        places = where if index is None else index[where]
        at = over_outputs(block, loss.outputs).times(model)
        yield where, block, -teacher.weighted(loss, places).gradient(at, teacher.target[places])


def _bins(slope: PerRow, block: Block, metric: Array) -> PerRow:
    """Bins of the lengths of gradients in a metric; logarithms are added, since squares of tiny numbers are 0."""
    xp = namespace(slope)
    with np.errstate(divide="ignore"):
        if slope.ndim == 2:
            length = 0.5 * xp.log2(gradient_squares(block, slope, metric))
        else:
            length = xp.log2(xp.abs(slope)) + 0.5 * xp.log2(block.squares(metric))
    return as_type(xp.clip(xp.floor(length) - SHORTEST, 0, BINS - 1), xp.int8)


def thin(teacher: Teacher, query: queries.Thin, state: State, turn: Turn) -> Answer:
    """Give rows their log-odds, and sample those that take part."""
    at: Gradients = known(state.gradients, "gradients")
    rows, outputs = teacher.rows, known(state.loss, "loss").outputs
    index, least = None, -np.inf
    if query.least > 0.0:
        least = float(logit(query.least))

        def staying(where: slice) -> PerRow:
            likely = sigmoid(_odds(teacher, query, at, where)[:])
            return positions(uniform(teacher, query.seed, where) * query.least < likely) + where.start

        stays = [staying(where) for where in rows.pieces(rows.count)]
        index = rows.numbers(namespace(stays[0]).concatenate(stays))
        rows = rows.part(index)
    slope = rows.empty(*([outputs] if outputs > 1 else []), rows.count)
    for where, _, some in slopes(teacher, state, at.model, rows, index):
        slope[..., where] = some
    sample = Sample(rows, index, slope, _odds(teacher, query, at, slice(None) if index is None else index, least))
    state = replace(state, sample=sample, probabilities=None, undecided=None)
    return state, np.array([sample.rows.count], dtype=np.float64)


def _odds(
    teacher: Teacher, query: queries.Thin, at: Gradients, where: slice | PerRow, least: float = -np.inf
) -> PerRow | Levels:
    """Log-odds of some rows."""
    bins = at.bins[where]
    if teacher.costs is None:
        return Levels(np.maximum(query.odds, least), bins)
    costs = teacher.costs[where if isinstance(where, slice) else to_numpy(where)]
    dear = COST * (costs - teacher.costs.min()) / (float(np.ptp(teacher.costs)) or 1.0)
    return namespace(bins).clip(look_up(query.odds, bins) - like(dear, bins), least, None)


def include(teacher: Teacher, query: queries.Include, state: State, turn: Turn) -> Answer:
    """Give rows their inclusion probabilities."""
    chance = _probabilities(state, query.dual)
    return replace(state, probabilities=chance), np.array([float(chance.sum())])


def _probabilities(state: State, dual: Array) -> PerRow:
    """b_j of the rows sampled at dual variables."""
    sample: Sample = known(state.sample, "rows sampled")
    chance = sample.rows.empty(sample.rows.count)
    for where, block in sample.rows.blocks(state.scaling):
        lifted = LiftedBlock(block, sample.slope[..., where])
        chance[where] = sigmoid(sample.odds[where] + lifted.times(dual))
    return chance


def candidates(teacher: Teacher, query: queries.Candidates, state: State, turn: Turn) -> Answer:
    """Show the rows that the probabilities leave undecided."""
    most = query.most // turn.teachers
    chance = _probabilities(state, query.dual)
    rest, vectors, likely, total = _undecided(
        teacher, state, chance, query.metric, query.idle, query.thin, most, query.seed
    )
    header = np.concatenate([[len(rest.certain), len(rest.idle)], total])
    reply = np.concatenate([header, np.column_stack([vectors, likely]).ravel()])
    return replace(state, undecided=rest), reply


def show(teacher: Teacher, query: queries.Show, state: State, turn: Turn) -> Answer:
    """Show all rows and targets."""
    blocks = [block.mapped(np.eye(query.width)) for _, block in teacher.rows.blocks(state.scaling)]
    chosen = np.zeros(teacher.rows.count)
    if state.chosen is not None:
        chosen[state.chosen] = 1.0
    columns = [np.concatenate(blocks), teacher.target, chosen]
    if query.weighted:
        columns.append(known(teacher.weights, "weights of rows"))
    none = np.zeros(0, dtype=np.int64)
    state = replace(state, undecided=Undecided(np.arange(teacher.rows.count), none, none))
    return state, np.column_stack(columns).ravel()


def select(teacher: Teacher, query: queries.Select, state: State, turn: Turn) -> Answer:
    """Choose the candidates that the coordinator names, beside the certain rows; idle ones fill up."""
    rest: Undecided = known(state.undecided, "candidates")
    if turn.position >= len(query.counts) or query.counts[turn.position] != len(rest.candidates):
        raise QueryRefused(f"this choice is not among the {len(rest.candidates)} candidates of this teacher")
    first = sum(query.counts[: turn.position])
    low, high = np.searchsorted(query.places, (first, first + len(rest.candidates)))
    some = query.places[low:high].astype(np.int64) - first
    idle = rest.idle[: max(query.idle[turn.position], 0)]
    chosen = np.sort(np.concatenate([rest.certain, rest.candidates[some], idle]))
    return replace(state, chosen=chosen), teacher.size_of(chosen)


def round_alone(teacher: Teacher, query: queries.RoundAlone, state: State, turn: Turn) -> Answer:
    """Round to this teacher's own sum of probabilities, without a word to anybody."""
    chance = _probabilities(state, query.dual)
    sample: Sample = known(state.sample, "rows sampled")
    everywhere = known(state.gradients, "gradients").bins
    bins = everywhere if sample.index is None else everywhere[sample.index]
    idle, size = idle_bin(_counts(sample.rows, everywhere)), max(round(float(chance.sum())), 0)
    aside = float(chance[bins < idle].sum())
    counted = rounding.counted(aside, float((chance * (1.0 - chance)).sum()))
    limit = rounding.most_candidates(query.metric)
    rest, vectors, likely, certain = _undecided(
        teacher, state, chance, query.metric, idle, rounding.thinning(size), limit, query.seed
    )
    target = _sum_of(sample, state, query.metric, None, chance)
    chosen = round_own(query, turn, vectors, likely, target - certain, size, rest, counted)
    return replace(state, chosen=chosen), teacher.size_of(chosen)


def round_own(
    query: queries.RoundAlone,
    turn: Turn,
    vectors: Matrix,
    likely: Array,
    target: Array,
    size: int,
    rest: Undecided,
    counted: bool,
) -> Positions:
    """Choose among a teacher's own candidates."""
    missing = max(size - len(rest.certain), 0)
    if query.metric.ndim == 1:  # too wide for matrices
        taken = rounding.round_wide(vectors, likely, target, missing)
    else:
        draw = np.random.default_rng([query.seed, turn.position])
        least = missing if counted else max(missing - len(rest.idle), 0)
        taken = rounding.round_rows(vectors, likely, target, least, missing, draw)
    fill = rest.idle[: max(missing - int(taken.sum()), 0)]
    return np.sort(np.concatenate([rest.certain, rest.candidates[taken], fill]))


def envelope(teacher: Teacher, query: queries.Envelope, state: State, turn: Turn) -> Answer:
    """Bound how far rows reach along a direction at any model of a ball."""
    loss: Loss = known(state.loss, "loss")
    total = np.zeros((len(query.radii), 2 * (1 + len(query.model))))
    for where, block in teacher.rows.blocks(state.scaling):
        weight = 1.0 if teacher.weights is None else teacher.weights[where]
        products = Reached.of(query, loss.outputs, block)
        several, target = over_outputs(block, loss.outputs), to_numpy(teacher.target[where])
        for k, radius in enumerate(query.radii):
            bound = majorant(loss, products.within(radius), target, float(query.direction[-1]), weight)
            height = bound.height.sum() + products.summing(radius, bound.tilt)
            sums = several.weighted_sum(bound.tilt), several.weighted_sum(bound.pull)
            total[k] += np.concatenate([[height, bound.on.sum()], *sums])
    return state, raised(total, teacher.rows.count)


def _undecided(
    teacher: Teacher, state: State, chance: PerRow, metric: Array, idle: int, thinning: float, most: int, seed: int
) -> tuple[Undecided, Matrix, Array, Array]:
    """Rows that the probabilities leave undecided, thinned; their vectors and probabilities; Σ M g_j over certain rows."""
    sample: Sample = known(state.sample, "rows sampled")
    everywhere = known(state.gradients, "gradients").bins
    bins, xp = everywhere if sample.index is None else everywhere[sample.index], namespace(chance)
    counts = _counts(sample.rows, bins)
    long = long_bin(counts) if len(bins) else BINS
    edges = np.where(np.arange(BINS) >= long, rounding.EDGE, thinning)
    """Probabilities below this become 0 or this at random, those above 1 less it 1 or that; not those of long rows."""

    def split(where: slice) -> tuple[PerRow, PerRow]:
        """Which of these rows are undecided, and which are certain."""
        likely, active = chance[where], bins[where] >= idle
        lots = uniform(teacher, seed ^ 0x5EED, where if sample.index is None else sample.index[where])
        undecided = lots * look_up(edges, bins[where]) < xp.minimum(likely, 1.0 - likely)
        certain = active & ~undecided & (likely > 0.5)
        return positions(active & undecided) + where.start, positions(certain) + where.start

    pieces = [split(where) for where in sample.rows.pieces(len(chance))] or [(positions(chance), positions(chance))]
    some, certain = (xp.concatenate(parts) for parts in zip(*pieces, strict=True))
    edge = look_up(edges, bins[some])
    likely = xp.clip(chance[some], edge, 1.0 - edge)
    if len(some) > most:  # chance decides most rows; what they leave, the others absorb
        places = some if sample.index is None else sample.index[some]
        stays = crowd_out(edge < thinning, most, uniform(teacher, seed ^ 0x1A7E, places))
        falls = ~stays & (uniform(teacher, seed ^ 0xFA11, places) < likely)
        certain, some, likely = xp.concatenate([certain, some[falls]]), some[stays], likely[stays]
    vectors = _vectors(sample, state, metric, some)
    total = _sum_of(sample, state, metric, certain, None)
    idle_rows = np.asarray(to_numpy(positions(everywhere < idle)), dtype=np.int64)
    return Undecided(sample.places(some), sample.places(certain), idle_rows), vectors, to_numpy(likely), total


def _counts(rows: Rows, bins: PerRow) -> Counts:
    """Count rows by bin."""
    pieces = (count_each(bins[where], BINS) for where in rows.pieces(len(bins)))
    return np.asarray(sum(pieces, start=np.zeros(BINS, dtype=np.int64)))


def crowd_out(long: PerRow, most: int, chance: PerRow) -> PerRow:
    """Which of too many candidates stay: about `most`, half of them long rows."""
    shares = 0.5 * most / max(int((~long).sum()), 1), 0.5 * most / max(int(long.sum()), 1)
    return (chance < shares[0]) & ~long | (chance < shares[1]) & long


def _vectors(sample: Sample, state: State, metric: Array, some: PerRow) -> Matrix:
    """M g_j of some of the rows sampled; sparse where the rows are and M is a diagonal."""
    vectors, pieces, start = None, [], 0
    parts = (sample.rows.blocks(state.scaling, some[where]) for where in sample.rows.pieces(len(some)))
    for where, block in chain.from_iterable(parts):
        stop, slope = start + length_of(where), sample.slope[..., where]
        light = (
            block.sparsely(metric) if metric.ndim == 1 and isinstance(block, SparseBlock) and slope.ndim == 1 else None
        )
        if light is not None:
            pieces.append((sparse.diags_array(slope) @ light).tocsr())
            continue
        if vectors is None:
            vectors = _own_pages(len(some), len(metric))
        vectors[start:stop] = to_numpy(mapped_gradients(block, slope, metric))
        start = stop
    if pieces:
        return sparse.vstack(pieces, format="csr")
    return np.zeros((0, len(metric))) if vectors is None else vectors


def _own_pages(rows: int, width: int) -> Array:
    """Memory that goes back to the system as soon as it is let go of: the allocator keeps blocks of some megabytes."""
    if not rows * width:
        return np.empty((rows, width))
    return np.frombuffer(mmap.mmap(-1, 8 * rows * width)).reshape(rows, width)


def _sum_of(sample: Sample, state: State, metric: Array, some: PerRow | None, weights: PerRow | None) -> Array:
    """Σ weight_j M g_j over some of the rows sampled (None: all), each once or by weight."""
    total, start = np.zeros(metric.shape[-1]), 0
    for where, block in sample.rows.blocks(state.scaling, some):
        stop = start + length_of(where)
        slope = sample.slope[..., where]
        total += block.weighted_sum(slope if weights is None else slope * weights[start:stop]).ravel()
        start = stop
    return np.asarray(metric * total if metric.ndim == 1 else metric @ total)


def uniform(teacher: Teacher, seed: int, some: slice | PerRow) -> PerRow:
    """A number in [0, 1) for each of some rows, from its id, a seed, and in private modes the teacher's own secret."""
    return ranks.uniform(teacher.ids[some], seed ^ teacher.secret)


@dataclass(frozen=True, eq=False)
class Reached:
    """Products of a block of rows with a question's model, direction and metric."""

    at: Array
    along: Array
    length: Array
    """‖R x_j‖."""
    spread: Array
    """Σ_k |x_jk| ‖R_k‖, which bounds what rounding changes in R x_j, and in sums over R x_j."""
    at_error: Array
    along_error: Array
    rounding: float
    """Relative error of a product of a row."""

    @classmethod
    def of(cls, query: queries.Envelope, outputs: int, block: Block) -> Reached:
        """Ask a block for its products: X p, ‖R x_j‖² and |X| w."""
        model, direction = (part.reshape(outputs, -1) for part in (query.model, query.direction[:-1]))
        columns = np.abs(query.reach) if query.reach.ndim == 1 else np.linalg.norm(query.reach, axis=0)
        weights = np.stack([np.abs(model).sum(axis=0), np.abs(direction).sum(axis=0), columns])
        rounding = 2.0 * (model.shape[1] + 8) * UNIT
        sizes = to_numpy(block.magnitudes(weights)) * (1.0 + rounding)
        at, along = to_numpy(block.times(model)), to_numpy(block.times(direction))
        if outputs == 1:
            at, along = at[0], along[0]
        length = np.sqrt(to_numpy(block.squares(query.reach)))
        return cls(at, along, length, sizes[2], rounding * sizes[0], rounding * sizes[1], rounding)

    def within(self, radius: float) -> Products:
        """Say what a bound over the ball of a radius needs."""
        half = radius * (self.length * (1.0 + self.rounding) + self.rounding * self.spread)
        return Products(self.at, half, self.along, self.at_error, self.along_error)

    def summing(self, radius: float, tilt: Array) -> float:
        """Bound what rounding changes in r‖R Σ_j B_j ⊗ x_j‖ while these rows are summed up."""
        size = np.abs(tilt) if tilt.ndim == 1 else np.abs(tilt).sum(axis=0)
        return float(radius * 2.0 * (len(self.spread) + 8) * UNIT * (size @ self.spread))


def raised(total: Array, rows: int) -> Array:
    """Raise heights by what rounding can have taken from their sums."""
    total[:, 0] *= 1.0 + 2.0 * (rows + 8) * UNIT
    return np.asarray(total.ravel())


HANDLERS: dict[type[queries.Query[object]], Callable[..., Answer]] = {
    queries.Gradients: gradients,
    queries.Thin: thin,
    queries.Include: include,
    queries.Candidates: candidates,
    queries.RoundAlone: round_alone,
    queries.Show: show,
    queries.Select: select,
    queries.Envelope: envelope,
}

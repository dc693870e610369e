"""Exact teaching inside one teacher: gradients, inclusion probabilities, and the rows that rounding decides about.

The gradient of row j at a model is g_j = −ℓ'(x_j'θ) x_j. At dual variables u row j is in the lesson with probability
σ(z_j + u'(g_j, 1)).
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import expit, logit

from superteach.exceptions import QueryRefused
from superteach.losses.scalar import Loss
from superteach.protocol import queries
from superteach.protocol.messages import Turn
from superteach.selection import rounding
from superteach.selection.majorant import majorant
from superteach.selection.relaxation import BINS, SHORTEST, idle_bin, long_bin
from superteach.teacher import ranks
from superteach.teacher.reach import Reached, raised
from superteach.teacher.rows import Block, LiftedBlock, SparseBlock, length_of, over_outputs, pull_squares, pulls_mapped
from superteach.teacher.state import Answer, State, known
from superteach.types import Array, Mask, Matrix, Positions

if TYPE_CHECKING:
    from superteach.teacher import Teacher
    from superteach.teacher.rows import Rows


COST = 8.0
"""Log-odds between an owner's cheapest row and its dearest: as much as makes the one 3,000 times as likely."""
_PIECE = 1 << 14
"""Rows for which log-odds and random numbers are computed at once: an eighth of a megabyte each."""


@dataclass(frozen=True, eq=False)
class Gradients:
    """The model that gradients are taken at, and the bin of every gradient's length; slopes are computed anew."""

    model: Array
    bins: npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Levels:
    """Numbers that are the same for all rows of a bin: a byte a row is kept, not eight."""

    table: Array
    bins: npt.NDArray[np.int8]

    def __getitem__(self, where: slice | Positions) -> Array:
        return np.asarray(self.table[self.bins[where]])


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows that take part in the relaxed problem: where they are (None: all), their slopes and log-odds."""

    rows: Rows
    index: npt.NDArray[np.integer] | None
    slope: Array
    odds: Array | Levels

    def positions(self, some: npt.NDArray[np.intp]) -> Positions:
        """Some of them, as the teacher numbers its rows."""
        return np.asarray(some if self.index is None else self.index[some], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Undecided:
    """Rows that rounding decides about; rows that are in the lesson whatever it decides; and rows that change nothing."""

    candidates: Positions
    certain: Positions
    idle: Positions


def gradients(teacher: Teacher, query: queries.Gradients, state: State, turn: Turn) -> Answer:
    """Take gradients at a model."""
    bins = np.zeros(teacher.rows.count, dtype=np.int8)
    for where, block, slope in slopes(teacher, state, query.model):
        bins[where] = _bins(slope, block, query.metric)
    counts = sum(np.bincount(bins[some], minlength=BINS) for some in _pieces(len(bins)))
    state = replace(state, gradients=Gradients(query.model, bins), sample=None, probabilities=None, undecided=None)
    return state, np.asarray(counts, np.float64)


def slopes(teacher: Teacher, state: State, model: Array) -> Iterator[tuple[slice, Block, Array]]:
    """Yield blocks of all rows with their slopes −ℓ'(x_j'θ) at a model."""
    loss: Loss = known(state.loss, "loss")
    for where, block in teacher.rows.blocks(state.scaling):
        assert isinstance(where, slice)
        at = over_outputs(block, loss.outputs).times(model)
        yield where, block, -teacher.weighted(loss, where).gradient(at, teacher.target[where])


def _pieces(rows: int) -> Iterator[slice]:
    """Rows in pieces that fit the cache: what is computed for all at once would lie in memory all at once."""
    return (slice(start, min(start + _PIECE, rows)) for start in range(0, rows, _PIECE))


def _bins(slope: Array, block: Block, metric: Array) -> npt.NDArray[np.int8]:
    """Bins of the lengths of gradients in a metric; logarithms are added, since squares of tiny numbers are 0."""
    with np.errstate(divide="ignore"):
        if slope.ndim == 2:
            length = 0.5 * np.log2(pull_squares(block, slope, metric))
        else:
            length = np.log2(np.abs(slope)) + 0.5 * np.log2(block.squares(metric))
    return np.asarray(np.clip(np.floor(length) - SHORTEST, 0, BINS - 1), dtype=np.int8)


def thin(teacher: Teacher, query: queries.Thin, state: State, turn: Turn) -> Answer:
    """Give rows their log-odds, and sample those that take part."""
    taken: Gradients = known(state.gradients, "gradients")
    count = teacher.rows.count
    if query.least > 0.0:

        def staying(where: slice) -> Positions:
            likely = expit(_odds(teacher, query, taken, where)[:])
            found: Positions = np.flatnonzero(uniform(teacher, query.seed, where) * query.least < likely)
            return np.asarray(found + where.start, dtype=np.int64)

        index = np.concatenate([staying(where) for where in _pieces(count)])
        stays: npt.NDArray[np.integer] = index.astype(np.int32) if count < 1 << 31 else index
        odds = _odds(teacher, query, taken, stays, float(logit(query.least)))
        slope = _empty_slopes(state, len(stays))
        for where, _, some in slopes(teacher, state, taken.model):
            first, last = np.searchsorted(stays, (where.start, where.stop))
            slope[..., first:last] = some[..., stays[first:last] - where.start]
        sample = Sample(teacher.rows.part(stays), stays, slope, odds)
    else:
        slope = _empty_slopes(state, count)
        for where, _, some in slopes(teacher, state, taken.model):
            slope[..., where] = some
        sample = Sample(teacher.rows, None, slope, _odds(teacher, query, taken, slice(None)))
    state = replace(state, sample=sample, probabilities=None, undecided=None)
    return state, np.array([sample.rows.count], dtype=np.float64)


def _empty_slopes(state: State, count: int) -> Array:
    outputs = known(state.loss, "loss").outputs
    return np.empty(count if outputs == 1 else (outputs, count))


def _odds(
    teacher: Teacher,
    query: queries.Thin,
    taken: Gradients,
    where: slice | npt.NDArray[np.integer],
    least: float = -np.inf,
) -> Array | Levels:
    """Log-odds of some rows."""
    bins = taken.bins[where]
    if teacher.costs is None:
        return Levels(np.maximum(query.odds, least), bins)
    dear = COST * (teacher.costs[where] - teacher.costs.min()) / (float(np.ptp(teacher.costs)) or 1.0)
    return np.asarray(np.maximum(query.odds[bins] - dear, least))


def include(teacher: Teacher, query: queries.Include, state: State, turn: Turn) -> Answer:
    """Give rows their inclusion probabilities."""
    sample: Sample = known(state.sample, "rows sampled")
    chance = np.empty(sample.rows.count)
    for where, block in sample.rows.blocks(state.scaling):
        lifted = LiftedBlock(block, sample.slope[..., where])
        chance[where] = expit(sample.odds[where] + lifted.times(query.dual))
    return replace(state, probabilities=chance, undecided=None), np.array([chance.sum()])


def candidates(teacher: Teacher, query: queries.Candidates, state: State, turn: Turn) -> Answer:
    """Show the rows that the probabilities leave undecided."""
    most = query.most // turn.teachers
    found = _undecided(teacher, state, query.metric, query.idle, query.thin, most, query.seed)
    rest, vectors, chance, total = found
    header = np.concatenate([[len(rest.certain), len(rest.idle)], total])
    reply = np.concatenate([header, np.column_stack([vectors, chance]).ravel()])
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
    chance: Array = known(state.probabilities, "inclusion probabilities")
    sample: Sample = known(state.sample, "rows sampled")
    bins = known(state.gradients, "gradients").bins
    idle, size = idle_bin(np.bincount(bins, minlength=BINS)), max(round(float(chance.sum())), 0)
    aside = float(chance[bins[sample.positions(np.arange(len(chance)))] < idle].sum())
    counted = rounding.counted(aside, float((chance * (1.0 - chance)).sum()))
    limit = rounding.most_candidates(query.metric)
    rest, vectors, likely, certain = _undecided(
        teacher, state, query.metric, idle, rounding.thinning(size), limit, query.seed
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
        products = Reached.of(query, loss.outputs, block.times, block.squares, block.magnitudes)
        several = over_outputs(block, loss.outputs)
        for k, radius in enumerate(query.radii):
            found = majorant(loss, products.within(radius), teacher.target[where], float(query.direction[-1]), weight)
            height = found.height.sum() + products.summing(radius, found.tilt)
            sums = several.weighted_sum(found.tilt), several.weighted_sum(found.pull)
            total[k] += np.concatenate([[height, found.on.sum()], *sums])
    return state, raised(total, teacher.rows.count)


def _undecided(
    teacher: Teacher, state: State, metric: Array, idle: int, thinning: float, most: int, seed: int
) -> tuple[Undecided, Matrix, Array, Array]:
    """Rows that the probabilities leave undecided, thinned; their vectors and probabilities; Σ M g_j over certain rows."""
    chance: Array = known(state.probabilities, "inclusion probabilities")
    sample: Sample = known(state.sample, "rows sampled")
    everywhere = known(state.gradients, "gradients").bins
    bins = everywhere if sample.index is None else everywhere[sample.index]
    counts = np.zeros(BINS, dtype=np.int64)
    for where in _pieces(len(bins)):
        counts += np.bincount(bins[where], minlength=BINS)
    long = long_bin(counts) if len(bins) else BINS

    def edges(where: slice | Positions) -> Array:
        """Probabilities below this become 0 or this at random, those above 1 less it 1 or that; not those of long rows."""
        return np.where(bins[where] >= long, rounding.EDGE, thinning)

    def split(where: slice) -> tuple[Positions, Positions]:
        """Which of these rows are undecided, and which are certain."""
        share, active = chance[where], bins[where] >= idle
        places = sample.positions(np.arange(where.start, where.stop))
        open_ = uniform(teacher, seed ^ 0x5EED, places) * edges(where) < np.minimum(share, 1.0 - share)
        sure = active & ~open_ & (share > 0.5)
        return np.flatnonzero(active & open_) + where.start, np.flatnonzero(sure) + where.start

    pieces = [split(where) for where in _pieces(len(chance))] or [(np.zeros(0, np.int64),) * 2]
    some, certain = (np.concatenate(found) for found in zip(*pieces, strict=True))
    likely, edge = chance[some], edges(some)
    np.clip(likely, edge, 1.0 - edge, out=likely)
    if len(some) > most:  # chance decides most rows; what they leave, the others absorb
        places = sample.positions(some)
        stays = crowd_out(edge < thinning, most, uniform(teacher, seed ^ 0x1A7E, places))
        falls = ~stays & (uniform(teacher, seed ^ 0xFA11, places) < likely)
        certain, some, likely = np.concatenate([certain, some[falls]]), some[stays], likely[stays]
    vectors = _vectors(sample, state, metric, some)
    total = _sum_of(sample, state, metric, certain, np.ones(len(certain)))
    rest = Undecided(sample.positions(some), sample.positions(certain), np.flatnonzero(everywhere < idle))
    return rest, vectors, likely, total


def crowd_out(long: Mask, most: int, chance: Array) -> Mask:
    """Which of too many candidates stay: about `most`, half of them long rows."""
    shared = np.where(long, 1.0 / max(int(long.sum()), 1), 1.0 / max(int((~long).sum()), 1))
    return np.asarray(chance < 0.5 * most * shared)


def _vectors(sample: Sample, state: State, metric: Array, some: npt.NDArray[np.intp]) -> Matrix:
    """M g_j of some of the rows sampled; sparse where the rows are and M is a diagonal."""
    found, pieces, start = None, [], 0
    parts = (sample.rows.blocks(state.scaling, some[where].astype(np.int64)) for where in _pieces(len(some)))
    for where, block in chain.from_iterable(parts):
        stop, slope = start + length_of(where), sample.slope[..., where]
        light = (
            block.sparsely(metric) if metric.ndim == 1 and isinstance(block, SparseBlock) and slope.ndim == 1 else None
        )
        if light is not None:
            pieces.append((sparse.diags_array(slope) @ light).tocsr())
            continue
        if found is None:
            found = _own_pages(len(some), len(metric))
        found[start:stop] = pulls_mapped(block, slope, metric)
        start = stop
    if pieces:
        return sparse.vstack(pieces, format="csr")
    return np.zeros((0, len(metric))) if found is None else found


def _own_pages(rows: int, width: int) -> Array:
    """Memory that goes back to the system as soon as it is let go of: the allocator keeps blocks of some megabytes."""
    if not rows * width:
        return np.empty((rows, width))
    return np.frombuffer(mmap.mmap(-1, 8 * rows * width)).reshape(rows, width)


def _sum_of(sample: Sample, state: State, metric: Array, some: Positions | None, weights: Array) -> Array:
    """Σ weight_j M g_j over some of the rows sampled (None: all)."""
    total, start = np.zeros(metric.shape[-1]), 0
    for where, block in sample.rows.blocks(state.scaling, some):
        stop = start + length_of(where)
        total += block.weighted_sum(sample.slope[..., where] * weights[start:stop]).ravel()
        start = stop
    return np.asarray(metric * total if metric.ndim == 1 else metric @ total)


def uniform(teacher: Teacher, seed: int, some: slice | Positions) -> Array:
    """A number in [0, 1) for each of some rows, from its id, a seed, and in private modes the teacher's own secret."""
    return np.asarray(ranks.random_keys(teacher.ids[some], (seed ^ teacher.secret) % 2**64) / 2.0**64)


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

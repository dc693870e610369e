"""Exact teaching inside one teacher: pulls, fractions at a price, and rounding, together with others or alone.

A row's pull at a model is g_j = −ℓ'(x_j'θ) x_j. At prices u it is in the lesson to the fraction σ(z_j + u'(g_j, 1)).
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
from superteach.protocol.queries.match import OCTAVES, SHORTEST, Instruction, Report, lowest_octave, strong_octave
from superteach.selection import rounding
from superteach.selection.majorant import majorant
from superteach.selection.rounding import InPlay
from superteach.selection.sums import nearest_sum
from superteach.teacher import ranks
from superteach.teacher.reach import Reached, raised
from superteach.teacher.rows import Block, LiftedBlock, SparseBlock, length_of, over_outputs, pull_squares, pulls_mapped
from superteach.teacher.state import Answer, State, known
from superteach.types import Array, Matrix, Positions

if TYPE_CHECKING:
    from superteach.teacher import Teacher
    from superteach.teacher.rows import Rows


COST = 8.0
"""Log-odds between an owner's cheapest row and its dearest: as much as makes the one 3,000 times as likely."""
_PIECE = 1 << 14
"""Rows for which log-odds and lots are computed at once: an eighth of a megabyte each."""


@dataclass(frozen=True, eq=False)
class Balancing:
    """The model θ that pulls are taken at, and the octave of every pull's length; slopes −ℓ'(x_j'θ) are computed anew."""

    model: Array
    octave: npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Levels:
    """Numbers of rows that are the same for all rows of an octave: a byte a row is kept, not eight."""

    table: Array
    octave: npt.NDArray[np.int8]

    def __getitem__(self, where: slice | Positions) -> Array:
        return np.asarray(self.table[self.octave[where]])


@dataclass(frozen=True, eq=False)
class Drawing:
    """The rows that take part in the prices: where they are (None: all), their slopes and log-odds."""

    rows: Rows
    index: npt.NDArray[np.integer] | None
    slope: Array
    odds: Array | Levels

    def positions(self, some: npt.NDArray[np.intp]) -> Positions:
        """Some of them, as the teacher numbers its rows."""
        return np.asarray(some if self.index is None else self.index[some], dtype=np.int64)


def balance(teacher: Teacher, query: queries.Balance, state: State, turn: Turn) -> Answer:
    """Take pulls at a model."""
    octave = np.zeros(teacher.rows.count, dtype=np.int8)
    for where, block, slope in pulled(teacher, state, query.model):
        octave[where] = octaves(slope, block, query.metric)
    counts = sum(np.bincount(octave[some], minlength=OCTAVES) for some in _pieces(len(octave)))
    balanced = Balancing(query.model, octave)
    return replace(state, balance=balanced, drawing=None, fractions=None, play=None), np.asarray(counts, np.float64)


def pulled(teacher: Teacher, state: State, model: Array) -> Iterator[tuple[slice, Block, Array]]:
    """Yield blocks of all rows with their slopes −ℓ'(x_j'θ) at a model."""
    loss: Loss = known(state.loss, "loss")
    for where, block in teacher.rows.blocks(state.scaling):
        assert isinstance(where, slice)
        at = over_outputs(block, loss.outputs).times(model)
        yield where, block, -teacher.weighted(loss, where).gradient(at, teacher.target[where])


def _pieces(rows: int) -> Iterator[slice]:
    """Rows in pieces that fit the cache: what is computed for all at once would lie in memory all at once."""
    return (slice(start, min(start + _PIECE, rows)) for start in range(0, rows, _PIECE))


def octaves(slope: Array, block: Block, metric: Array) -> npt.NDArray[np.int8]:
    """Octaves of the lengths of pulls in a metric."""
    with np.errstate(divide="ignore"):
        if slope.ndim == 2:
            length = 0.5 * np.log2(pull_squares(block, slope, metric))
        else:
            length = np.log2(np.abs(slope)) + 0.5 * np.log2(block.squares(metric))
    return np.asarray(np.clip(np.floor(length) - SHORTEST, 0, OCTAVES - 1), dtype=np.int8)


def draw(teacher: Teacher, query: queries.Draw, state: State, turn: Turn) -> Answer:
    """Give rows their log-odds, and draw which of them take part."""
    pulls: Balancing = known(state.balance, "pulls")
    count = teacher.rows.count
    if query.least > 0.0:

        def staying(where: slice) -> Positions:
            likely = expit(_odds(teacher, query, pulls, where)[:])
            found: Positions = np.flatnonzero(lots(teacher, query.seed, where) * query.least < likely)
            return np.asarray(found + where.start, dtype=np.int64)

        index = np.concatenate([staying(where) for where in _pieces(count)])
        stays: npt.NDArray[np.integer] = index.astype(np.int32) if count < 1 << 31 else index
        odds = _odds(teacher, query, pulls, stays, float(logit(query.least)))
        slope = _slopes(state, len(stays))
        for where, _, some in pulled(teacher, state, pulls.model):
            first, last = np.searchsorted(stays, (where.start, where.stop))
            slope[..., first:last] = some[..., stays[first:last] - where.start]
        drawing = Drawing(teacher.rows.part(stays), stays, slope, odds)
    else:
        slope = _slopes(state, count)
        for where, _, some in pulled(teacher, state, pulls.model):
            slope[..., where] = some
        drawing = Drawing(teacher.rows, None, slope, _odds(teacher, query, pulls, slice(None)))
    slack = np.maximum(-drawing.odds[:], 0.0).sum()
    reply = np.array([drawing.rows.count, slack], dtype=np.float64)
    return replace(state, drawing=drawing, fractions=None, play=None), reply


def _slopes(state: State, count: int) -> Array:
    """Room for the slopes of `count` rows."""
    outputs = known(state.loss, "loss").outputs
    return np.empty(count if outputs == 1 else (outputs, count))


def _odds(
    teacher: Teacher,
    query: queries.Draw,
    pulls: Balancing,
    where: slice | npt.NDArray[np.integer],
    least: float = -np.inf,
) -> Array | Levels:
    """Log-odds of some rows."""
    octave = pulls.octave[where]
    if teacher.costs is None:
        return Levels(np.maximum(query.odds, least), octave)
    dear = COST * (teacher.costs[where] - teacher.costs.min()) / (float(np.ptp(teacher.costs)) or 1.0)
    return np.asarray(np.maximum(query.odds[octave] - dear, least))


def price(teacher: Teacher, query: queries.Price, state: State, turn: Turn) -> Answer:
    """Take prices."""
    drawing: Drawing = known(state.drawing, "rows drawn")
    fractions = np.empty(drawing.rows.count)
    for where, block in drawing.rows.blocks(state.scaling):
        lifted = LiftedBlock(block, drawing.slope[..., where])
        fractions[where] = expit(drawing.odds[where] + lifted.times(query.point))
    return replace(state, fractions=fractions, play=None), np.array([fractions.sum()])


def play(teacher: Teacher, query: queries.Play, state: State, turn: Turn) -> Answer:
    """Bring rows into play, to be settled together with other teachers' rows."""
    most = rounding.in_play(query.metric) // turn.teachers
    begun, idle = _bring(
        teacher, state, query.metric, query.idle, query.counted, query.longest, query.thin, most, query.seed
    )
    return replace(state, play=begun, idle=idle), begun.report().pack()


def settle(teacher: Teacher, query: queries.Settle, state: State, turn: Turn) -> Answer:
    """Carry out one order of the rounding."""
    begun: InPlay = known(state.play, "rows in play")
    after = begun.obey(query.order, _draw(query.seed, turn, begun.age))
    return replace(state, play=after), after.report().pack()


def tally(teacher: Teacher, query: queries.Tally, state: State, turn: Turn) -> Answer:
    """Count rows in play."""
    begun: InPlay = known(state.play, "rows in play")
    reply = np.zeros((query.teachers, 3))
    if turn.position < query.teachers:
        settled = sum(map(len, begun.chosen))
        reply[turn.position] = len(begun.rows), settled, len(known(state.idle, "idle rows"))
    return state, reply.ravel()


def gather(teacher: Teacher, query: queries.Gather, state: State, turn: Turn) -> Answer:
    """Show what is left in play."""
    begun: InPlay = known(state.play, "rows in play")
    reply = np.zeros((sum(query.counts), query.width + 1))
    mine = slots(query.counts, turn.position, len(begun.rows))
    reply[mine] = np.column_stack([begun.rows, begun.fractions])
    return state, reply.ravel()


def assign(teacher: Teacher, query: queries.Assign, state: State, turn: Turn) -> Answer:
    """Take the rows that the finish has settled, and idle ones to fill up."""
    begun: InPlay = known(state.play, "rows in play")
    mine = slots(query.counts, turn.position, len(begun.rows))
    chosen = begun.close(np.array(query.taken[mine], dtype=bool))
    chosen = _filled(chosen, known(state.idle, "idle rows"), query.idle[turn.position])
    return replace(state, chosen=chosen, play=None), teacher.size_of(chosen)


def round_alone(teacher: Teacher, query: queries.RoundAlone, state: State, turn: Turn) -> Answer:
    """Round to this teacher's own fractional sum, without a word to anybody."""
    fractions: Array = known(state.fractions, "prices")
    drawing: Drawing = known(state.drawing, "rows drawn")
    octave = known(state.balance, "pulls").octave
    idle_class = lowest_octave(np.bincount(octave, minlength=OCTAVES))
    free = float((fractions * (1.0 - fractions)).sum())
    mass = float(fractions[octave[drawing.positions(np.arange(len(fractions)))] < idle_class].sum())
    counted = mass < 4.0 * np.sqrt(free)
    rows = max(round(float(fractions.sum())), 0)
    thin, most = rounding.thinning(rows), rounding.in_play(query.metric)
    begun, idle = _bring(teacher, state, query.metric, idle_class, counted, None, thin, most, query.seed)
    target = _sum_of(drawing, state, query.metric, None, fractions, counted)
    chosen = close_alone(query, turn, begun, idle, target, rows, counted)
    return replace(state, chosen=chosen, play=None), teacher.size_of(chosen)


def close_alone(
    query: queries.RoundAlone, turn: Turn, begun: InPlay, idle: Positions, target: Array, rows: int, counted: bool
) -> Positions:
    """Settle all rows in play to a fractional sum, and fill up with idle ones."""
    if counted:
        target[-1] = rows
    if query.metric.ndim == 1:  # too wide for matrices
        chosen = begun.close(rounding.settle_plainly(begun, target, rows))
    else:
        chosen = _settled_alone(begun, target, rows, 0 if counted else len(idle), _draw(query.seed, turn, 0))
    return _filled(chosen, idle, rows - len(chosen))


def _settled_alone(begun: InPlay, target: Array, rows: int, idle: int, lots: np.random.Generator) -> Positions:
    """Settle this teacher's own rows: about `rows` of them, of which idle ones may fill up `idle`."""
    missing = rows - sum(map(len, begun.chosen))
    if missing <= rounding.HANDFUL * len(target) and missing <= len(begun.rows):
        wanted = (target - begun.settled)[:-1]
        return begun.close(nearest_sum(begun.rows[:, :-1], wanted, begun.fractions, max(missing, 0), lots))
    lengths = np.linalg.norm(begun.rows[:, :-1], axis=1)
    longest = float(lengths.max(initial=0.0))
    usual = float(np.sqrt(np.mean(np.square(lengths)))) if len(lengths) else 0.0
    chosen, least_left = begun.close(np.zeros(len(begun.rows), dtype=bool)), np.inf
    for slower in rounding.SLOWER:
        play, limit = begun, slower * rounding.TILT

        def ask(order: Instruction) -> Report:
            nonlocal play
            play = play.obey(order, lots)
            return play.report()

        last = rounding.settle(ask, play.report(), target, longest, 1, 0, rounding.ENOUGH, limit)
        missing = rows - sum(map(len, play.chosen))
        residual = target - last.total
        least, most = max(missing - idle, 0), max(missing, 0)
        taken = rounding.finish(play.rows, play.fractions, residual, least, most, lots, starts=2, limit=limit)
        left = float(np.linalg.norm((residual + play.fractions @ play.rows - taken @ play.rows)[:-1]))
        if left < least_left:
            chosen, least_left = play.close(taken), left
        if left <= rounding.close(rows) * usual:
            break
    return chosen


def show(teacher: Teacher, query: queries.Show, state: State, turn: Turn) -> Answer:
    """Show all rows and targets."""
    reply = np.zeros((sum(query.counts), query.columns))
    blocks = [block.mapped(np.eye(query.width)) for _, block in teacher.rows.blocks(state.scaling)]
    mine = slots(query.counts, turn.position, teacher.rows.count)
    chosen = np.zeros(teacher.rows.count)
    if state.chosen is not None:
        chosen[state.chosen] = 1.0
    shown = [np.concatenate(blocks), teacher.target, chosen]
    if query.weighted:
        shown.append(known(teacher.weights, "weights of rows"))
    reply[mine] = np.column_stack(shown)
    return state, reply.ravel()


def count(teacher: Teacher, query: queries.Count, state: State, turn: Turn) -> Answer:
    """Count rows, in this teacher's own place."""
    reply = np.zeros(query.teachers)
    if turn.position < query.teachers:
        reply[turn.position] = teacher.rows.count
    return state, reply


def take(teacher: Teacher, query: queries.Take, state: State, turn: Turn) -> Answer:
    """Choose rows as told."""
    mine = slots(query.counts, turn.position, teacher.rows.count)
    chosen = np.flatnonzero(np.array(query.taken[mine], dtype=bool))
    return replace(state, chosen=chosen), teacher.size_of(chosen)


def envelope(teacher: Teacher, query: queries.Envelope, state: State, turn: Turn) -> Answer:
    """Bound how much rows pull along a direction at any model of a ball."""
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


def slots(counts: tuple[int, ...], position: int, own: int) -> slice:
    """Where a teacher's rows stand among all rows gathered."""
    first = sum(counts[:position])
    if position >= len(counts) or counts[position] != own:
        raise QueryRefused("the slots of this question are not those of this teacher's rows")
    return slice(first, first + own)


def _bring(
    teacher: Teacher,
    state: State,
    metric: Array,
    idle_class: int,
    counted: bool,
    longest: float | None,
    thin: float,
    most: int,
    seed: int,
) -> tuple[InPlay, Positions]:
    """Rows in play: those undecided at these prices, thinned by lot, about `most` of them; and the idle rows."""
    fractions: Array = known(state.fractions, "prices")
    drawing: Drawing = known(state.drawing, "rows drawn")
    everywhere = known(state.balance, "pulls").octave
    octave = everywhere if drawing.index is None else everywhere[drawing.index]
    counts = np.zeros(OCTAVES, dtype=np.int64)
    for where in _pieces(len(octave)):
        counts += np.bincount(octave[where], minlength=OCTAVES)
    strong = strong_octave(counts)

    def edges(where: slice | Positions) -> Array:
        """Fractions below this become 0 or this by lot, those above 1 less it become 1 or that: but none of a strong row."""
        return np.where(octave[where] >= strong, rounding.EDGE, thin)

    def settled_here(where: slice) -> tuple[Positions, Positions]:
        """Which of these rows are undecided, and which are sure to be chosen."""
        share, active = fractions[where], octave[where] >= idle_class
        drawn = lots(teacher, seed ^ 0x5EED, drawing.positions(np.arange(where.start, where.stop)))
        undecided = drawn * edges(where) < np.minimum(share, 1.0 - share)
        sure = active & ~undecided & (share > 0.5)
        return np.flatnonzero(active & undecided) + where.start, np.flatnonzero(sure) + where.start

    pieces = [settled_here(where) for where in _pieces(len(fractions))] or [(np.zeros(0, np.int64),) * 2]
    some, certain = (np.concatenate(found) for found in zip(*pieces, strict=True))
    del pieces
    shares, edge = fractions[some], edges(some)
    np.clip(shares, edge, 1.0 - edge, out=shares)
    if len(some) > most:  # lots decide most rows; what they leave, the others absorb
        long, places = edge < thin, drawing.positions(some)
        shared = np.where(long, 1.0 / max(long.sum(), 1), 1.0 / max((~long).sum(), 1))
        stays = lots(teacher, seed ^ 0x1A7E, places) < 0.5 * most * shared
        falls = ~stays & (lots(teacher, seed ^ 0xFA11, places) < shares)
        certain, some, shares = np.concatenate([certain, some[falls]]), some[stays], shares[stays]
    rows = _moves(drawing, state, metric, some, counted)
    if longest is None:
        longest = float(rounding.lengths(rows).max(initial=0.0))
    begun = InPlay.begin(rows, shares, drawing.positions(some), longest or 1.0, np.random.default_rng([seed, 1]))
    settled = _sum_of(drawing, state, metric, certain, np.ones(len(certain)), counted)
    begun = replace(begun, settled=settled, chosen=(drawing.positions(certain),))
    return begun, np.flatnonzero(everywhere < idle_class)


def _moves(drawing: Drawing, state: State, metric: Array, some: npt.NDArray[np.intp], counted: bool) -> Matrix:
    """(M g_j, 1) of some of the rows drawn; sparse where the rows are and M is a diagonal."""
    found, pieces, start = None, [], 0
    parts = (drawing.rows.blocks(state.scaling, some[where].astype(np.int64)) for where in _pieces(len(some)))
    for where, block in chain.from_iterable(parts):
        stop, slope = start + length_of(where), drawing.slope[..., where]
        light = (
            block.sparsely(metric) if metric.ndim == 1 and isinstance(block, SparseBlock) and slope.ndim == 1 else None
        )
        if light is not None:
            one = np.full((len(slope), 1), float(counted))
            pieces.append(sparse.hstack([sparse.diags_array(slope) @ light, one], format="csr"))
            continue
        if found is None:
            found = _own_pages(len(some), len(metric) + 1)
            found[:, -1] = counted
        found[start:stop, :-1] = pulls_mapped(block, slope, metric)
        start = stop
    if pieces:
        return sparse.vstack(pieces, format="csr")
    return np.zeros((0, len(metric) + 1)) if found is None else found


def _own_pages(rows: int, width: int) -> Array:
    """Room that goes back to the system as soon as it is let go of: the allocator keeps blocks of some megabytes."""
    if not rows * width:
        return np.empty((rows, width))
    return np.frombuffer(mmap.mmap(-1, 8 * rows * width)).reshape(rows, width)


def _sum_of(
    drawing: Drawing, state: State, metric: Array, some: Positions | None, weights: Array, counted: bool
) -> Array:
    """Σ weight_j (M g_j, 1) over some of the rows drawn (None: all)."""
    total, start = np.zeros(metric.shape[-1]), 0
    for where, block in drawing.rows.blocks(state.scaling, some):
        stop = start + length_of(where)
        total += block.weighted_sum(drawing.slope[..., where] * weights[start:stop]).ravel()
        start = stop
    moved = metric * total if metric.ndim == 1 else metric @ total
    return np.append(moved, weights.sum() * counted)


def _filled(chosen: Positions, idle: Positions, more: int) -> Positions:
    return np.sort(np.concatenate([chosen, idle[: max(more, 0)]])) if more > 0 else chosen


def lots(teacher: Teacher, seed: int, some: slice | Positions) -> Array:
    """A number in [0, 1) for each of some rows, from its id, a seed, and under "dp" the teacher's own secret."""
    return np.asarray(ranks.random_keys(teacher.ids[some], (seed ^ teacher.secret) % 2**64) / 2.0**64)


def _draw(seed: int, turn: Turn, age: int) -> np.random.Generator:
    """Lots that depend on the seed, the teacher's place and how often it has drawn, not on what else was asked."""
    return np.random.default_rng([seed, turn.position, age])


HANDLERS: dict[type[queries.Query[object]], Callable[..., Answer]] = {
    queries.Balance: balance,
    queries.Draw: draw,
    queries.Price: price,
    queries.Play: play,
    queries.Settle: settle,
    queries.Tally: tally,
    queries.Gather: gather,
    queries.Assign: assign,
    queries.RoundAlone: round_alone,
    queries.Show: show,
    queries.Count: count,
    queries.Take: take,
    queries.Envelope: envelope,
}

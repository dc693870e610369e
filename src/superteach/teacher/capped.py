"""A teacher under a promise: sums over capped rows, and a choice of which it says nothing (see `queries.private`)."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from scipy.special import expit

from superteach import extensions
from superteach.errors import QueryRefused, SuperteachError
from superteach.line import queries
from superteach.line.messages import Turn
from superteach.line.queries.private import BINS, COUNT, SIDES, Cap, DualCap, bins_of, pack_symmetric, sides_of
from superteach.mathematics import rounding
from superteach.mathematics.learner import Intercept, Learner
from superteach.mathematics.losses import Loss
from superteach.mathematics.prices import metric_of
from superteach.mathematics.private import firm_odds
from superteach.mathematics.problem import Quadratic, Scaling, ridge_penalty
from superteach.mathematics.solvers import Newton
from superteach.mathematics.solvers.function import Function
from superteach.privacy.guard import Guard
from superteach.selection.sums import nearest_sum
from superteach.teacher import play
from superteach.teacher.rows import Block, LiftedBlock, Where
from superteach.teacher.state import Answer, State, known
from superteach.types import Array, Mask, Positions

if TYPE_CHECKING:
    from superteach.teacher import Teacher

SHORTEST, LONGEST = 1e-100, 1e150
"""Between these the slope, curvature and squared length of a row have all their digits, and so have their products."""

MOST_STEPS = 30
"""Newton steps to firmer fractions, at most; a dozen are usual."""
Read = TypeVar("Read")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Pulls:
    """Every row's slope −ℓ'(x_j'θ*) and curvature ℓ''(x_j'θ*), and the length of its pull in units W."""

    slope: Array
    curvature: Array
    length: Array
    weights: Array
    """W, in which lengths were taken: in other units nothing would be capped."""

    def kept(self, where: Where, cap: Cap) -> Array:
        """k_j: what is left of a row when it is capped."""
        return np.asarray(1.0 / np.maximum(1.0, np.hypot(self.length[where] / cap.length, COUNT)))


def _begin(teacher: Teacher, query: queries.Begin, state: State, turn: Turn) -> Answer:
    return State(loss=teacher.announced(query.loss), scaling=Scaling(query.constant)), np.zeros(0)


def _widths(teacher: Teacher, query: queries.Widths, state: State, turn: Turn) -> Answer:
    counts = np.zeros((query.width, BINS))
    for _, block in teacher.rows.blocks(Scaling()):
        values = np.abs(block.mapped(np.ones(query.width)))
        for column in range(query.width):
            counts[column] += np.bincount(bins_of(values[:, column]), minlength=BINS)
    return state, counts.ravel()


def _sketch(teacher: Teacher, query: queries.Sketch, state: State, turn: Turn) -> Answer:
    loss, width = known(state.loss, "loss"), len(query.model)
    slopes, bent, lengths = (np.empty(teacher.rows.count) for _ in range(3))
    pulls = Pulls(slopes, bent, lengths, query.weights)
    counts, sums, squares, bends = np.zeros(BINS), np.zeros((BINS, width)), np.zeros((width, width)), np.zeros(BINS)
    sides, goal = np.zeros(BINS * SIDES), max(float(np.linalg.norm(query.model / query.weights)), SHORTEST)
    for where, block in teacher.rows.blocks(state.scaling):
        slope, curvature, long = _finite(loss, query, block, teacher.target[where])
        pulls.slope[where], pulls.curvature[where] = slope, curvature
        pulls.length[where] = np.abs(slope) * np.sqrt(long)
        octave = bins_of(pulls.length[where])
        unit = slope / np.where(pulls.length[where] > 0.0, pulls.length[where], 1.0)
        counts += np.bincount(octave, minlength=BINS)
        with np.errstate(over="ignore", invalid="ignore"):
            along = np.nan_to_num(unit * block.times(query.model) / goal)
        sides += np.bincount(octave * SIDES + sides_of(along), minlength=BINS * SIDES)
        bends += np.bincount(octave, np.clip(curvature * long / query.most, 0.0, 1.0), BINS)
        for one in np.unique(octave):
            sums[one] += query.weights * block.weighted_sum(unit * (octave == one))
        squares += np.outer(query.weights, query.weights) * block.gram(unit * unit)
    return replace(state, pulls=pulls), np.concatenate([counts, sides, sums.ravel(), pack_symmetric(squares), bends])


def _finite(
    loss: Loss, query: queries.Sketch | queries.Lengths, block: Block, target: Array
) -> tuple[Array, Array, Array]:
    """Slopes, curvatures and ‖W x_j‖²; a row whose pull doubles cannot hold pulls at nothing.

    Otherwise its length would be rounded to less than it is, or be no number: the one shows more of a row than is paid for,
    the other ends the lesson, which shows that the row is there.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        terms = loss.terms(block.times(query.model), target)
        slope, curvature, long = -terms.slope, terms.curvature, block.squares(query.weights)
        held = (np.abs(slope) > SHORTEST) & (np.abs(slope) < LONGEST) & (long > SHORTEST) & (long < LONGEST)
        held &= np.abs(curvature) < LONGEST
    return np.where(held, slope, 0.0), np.where(held, curvature, 0.0), np.where(held, long, 0.0)


@dataclass(frozen=True, eq=False)
class _Capped:
    """A block of rows as e_j."""

    block: Block
    factor: Array
    """k_j a_j/C, with a_j the slope: e_j = (W x_j · factor, s k_j)."""
    counted: Array
    """s k_j."""
    cap: Cap

    def odds(self, point: Array) -> Array:
        """base + u'e_j."""
        along = self.factor * self.block.times(self.cap.weights * point[:-1])
        return np.asarray(self.cap.base + along + self.counted * point[-1])

    def total(self, weights: Array) -> Array:
        """Σ w_j e_j."""
        return np.append(
            self.cap.weights * self.block.weighted_sum(self.factor * weights), float(self.counted @ weights)
        )

    def gram(self, weights: Array) -> Array:
        """Σ w_j e_j e_j'."""
        width = len(self.cap.weights)
        found = np.empty((width + 1, width + 1))
        scale = np.outer(self.cap.weights, self.cap.weights)
        found[:-1, :-1] = scale * self.block.gram(self.factor * self.factor * weights)
        found[:-1, -1] = found[-1, :-1] = self.total(self.counted * weights)[:-1]
        found[-1, -1] = float(self.counted @ (self.counted * weights))
        return found


def _blocks(teacher: Teacher, state: State, cap: Cap) -> Iterator[tuple[Where, _Capped]]:
    pulls: Pulls = known(state.pulls, "pulls")
    if not np.array_equal(cap.weights, pulls.weights):
        raise QueryRefused(
            "the cap has other weights than the sketch in which pulls were taken: ask Sketch with them first"
        )
    for where, block in teacher.rows.blocks(state.scaling):
        kept = pulls.kept(where, cap)
        yield where, _Capped(block, pulls.slope[where] * kept / cap.length, COUNT * kept, cap)


def _pull(teacher: Teacher, query: queries.Pull, state: State, turn: Turn) -> Answer:
    width = len(query.point)
    total, bent = np.zeros(width), np.zeros((width, width))
    for _, rows in _blocks(teacher, state, query.cap):
        likely = expit(rows.odds(query.point))
        total += rows.total(likely)
        if query.bend_share:
            bent += rows.gram(likely * (1.0 - likely))
    return state, np.concatenate([total, pack_symmetric(bent)]) if query.bend_share else total


def _pull_change(teacher: Teacher, query: queries.PullChange, state: State, turn: Turn) -> Answer:
    total = np.zeros(len(query.after))
    for _, rows in _blocks(teacher, state, query.cap):
        total += rows.total(expit(rows.odds(query.after)) - expit(rows.odds(query.before)))
    return state, total


def _bend(teacher: Teacher, query: queries.Bend, state: State, turn: Turn) -> Answer:
    pulls: Pulls = known(state.pulls, "pulls")
    weights = query.cap.weights
    total = np.zeros((len(weights), len(weights)))
    for where, rows in _blocks(teacher, state, query.cap):
        strength = rows.counted / COUNT * expit(rows.odds(query.point)) * pulls.curvature[where]
        length = strength * rows.block.squares(weights)
        strength = strength * np.minimum(1.0, query.most / np.maximum(length, 1e-300))
        total += rows.block.gram(strength)
    return state, pack_symmetric(np.outer(weights, weights) * total)


def _choose(teacher: Teacher, query: queries.Choose, state: State, turn: Turn) -> Answer:
    """Round to this teacher's own fractional sum, in units in which its own rows hold the model."""
    cap = query.cap
    if cap is not None:
        pulls: Pulls = known(state.pulls, "pulls")
        fractions = np.empty(teacher.rows.count)
        for where, rows in _blocks(teacher, state, cap):
            fractions[where] = np.minimum(cap.scale * rows.counted / COUNT * expit(rows.odds(query.point)), 1.0)
        drawing = play.Drawing(teacher.rows, None, pulls.slope, np.empty(0))
        state = replace(state, fractions=fractions, drawing=drawing)
        state = _firmer(teacher, state, turn, metric_of(_curvature(teacher, query, state, turn)))
    metric = metric_of(_curvature(teacher, query, state, turn))
    if cap is not None:
        octave = np.zeros(teacher.rows.count, dtype=np.int8)
        for where, block in teacher.rows.blocks(state.scaling):
            octave[where] = play.octaves(pulls.slope[where], block, metric)
        state = replace(state, balance=play.Balancing(query.model, octave))
    state, _ = play.round_alone(teacher, queries.RoundAlone(metric, secrets.randbits(63)), state, turn)
    return state, np.zeros(0)


def _curvature(teacher: Teacher, query: queries.Choose, state: State, turn: Turn) -> Array:
    """The learner's curvature at the goal on this teacher's fractional lesson, with its part of the penalty."""
    fractions, drawn = known(state.fractions, "prices"), known(state.drawing, "rows drawn")
    loss, hessian, first = known(state.loss, "loss"), np.diag(query.penalty / turn.teachers), 0
    for where, block in drawn.rows.blocks(state.scaling):
        margin = block.times(query.model)
        some = np.arange(first, first + len(margin))
        first += len(margin)
        with np.errstate(over="ignore", invalid="ignore"):
            strength = loss.curvature(margin, teacher.target[drawn.positions(some)])
            strength = np.where((strength > 0.0) & (strength < LONGEST), strength, 0.0)
        hessian += block.gram(strength * fractions[where])
    return hessian


def _firmer(teacher: Teacher, before: State, turn: Turn, metric: Array) -> State:
    """Find fractions with the same sum of pulls and rows as the prices', of rows that hold the model more firmly.

    What noise has put into that sum moves the learner by H⁻¹ times as much, H its curvature on the lesson: of all
    fractions with this sum, those of rows with a large leverage ℓ''(x_j'θ*) x_j'H⁻¹x_j leave the least risk.
    """
    pulls, fractions = known(before.pulls, "pulls"), known(before.fractions, "prices").copy()
    some = np.flatnonzero(fractions > rounding.EDGE)  # others pull too strongly to be chosen, and stay as they are
    if not len(some):
        return before
    rows, slope = teacher.rows.part(some), pulls.slope[some]
    share, bent = np.minimum(fractions[some], 1.0 - rounding.EDGE), pulls.curvature[some]
    leverage, target = np.empty(len(some)), np.zeros(len(metric) + 1)
    for where, block in rows.blocks(before.scaling):
        with np.errstate(over="ignore", invalid="ignore"):
            strength = bent[where] * block.squares(metric)
        leverage[where] = np.where(strength < LONGEST, strength, 0.0)
        target += LiftedBlock(block, slope[where]).weighted_sum(share[where])
    state = replace(before, drawing=play.Drawing(rows, some, slope, firm_odds(share, leverage)))
    itself = teacher.under(Guard())  # what a teacher asks itself does not leave it

    def ask(query: queries.Query[Read]) -> Read:
        return query.read(itself.answer(query, state, turn)[1].numbers)

    function = Function(ask, "relax", "drawn", Quadratic(np.zeros_like(target), target))
    try:
        found = Newton(max_steps=MOST_STEPS).minimise(function, np.zeros_like(target), function.flat(1e-9))
        state, _ = play.price(teacher, queries.Price(found.point), state, turn)
    except (SuperteachError, ArithmeticError, np.linalg.LinAlgError):  # only rows decide that, so nobody may hear of it
        return before
    if not found.converged:  # a sum that is not kept would be an error that nobody has stated
        return before
    fractions[some] = known(state.fractions, "prices")
    return replace(before, fractions=fractions)


def _choose_alone(teacher: Teacher, query: queries.ChooseAlone, state: State, turn: Turn) -> Answer:
    """Choose for the goal as if there were nobody else; what became of it is for the owner alone."""
    size, asked = query.sizes[turn.position], query.alone
    rows: Positions | None = np.arange(min(size, teacher.rows.count), dtype=np.int64)  # declared sizes may be rounded
    ended = True
    if 0 < size < teacher.rows.count:
        part = asked.ridge if asked.ridge_per_row else asked.ridge * size / max(sum(query.sizes), 1)
        asked = replace(asked, ridge=part, seed=secrets.randbits(63))
        handful = size <= rounding.HANDFUL * len(asked.goal) and teacher.rows.count <= rounding.AMPLE
        if handful and size < sum(query.sizes):
            rows, ended = _handful(teacher, state, size, asked), False
        else:
            choose = extensions.load(extensions.ALONE, asked.inside)
            itself = teacher.under(Guard())  # what a teacher asks itself does not leave it
            rows, ended = choose(itself, known(state.loss, "loss"), state.scaling, size, asked)
    if rows is None:
        return _nothing(state)
    told = "balance the goal" if ended else "do not balance the goal, or not for sure; these come near it"
    return replace(state, chosen=rows, note=f"{len(rows)} rows chosen alone: they {told}"), np.zeros(0)


def _handful(teacher: Teacher, state: State, size: int, asked: queries.Alone) -> Positions | None:
    """Choose rows whose pulls at the goal are nearest to this teacher's part of Λθ*, to which other teachers add theirs.

    So few rows teach nothing by themselves; in the learner's own metric what they leave moves it the least.
    """
    loss, goal, count = known(state.loss, "loss"), asked.goal, teacher.rows.count
    kind: Intercept = "free" if asked.free_intercept else "none"
    learner = Learner(loss, asked.ridge, kind, 1.0, asked.ridge_per_row)
    if asked.free_intercept and learner.refuses(*map(int, teacher.size_of(None))):
        return None
    rows = np.concatenate([block.mapped(np.eye(len(goal))) for _, block in teacher.rows.blocks(state.scaling)])
    terms = teacher.weighted(loss).terms(rows @ goal, teacher.target)
    penalty = ridge_penalty(learner.penalty(size), len(goal), asked.free_intercept)
    metric = metric_of((rows.T * terms.curvature) @ rows * (size / count) + np.diag(penalty.diagonal))
    moves, wanted = (-terms.slope[:, None] * rows) @ metric.T, metric @ penalty.gradient(goal)
    some = np.flatnonzero(np.abs(moves).max(axis=1) < LONGEST)
    if len(some) < size:
        return None
    taken = nearest_sum(moves[some], wanted, np.full(len(some), size / count), size, np.random.default_rng(asked.seed))
    return np.asarray(some[taken], dtype=np.int64)


def _nothing(state: State) -> Answer:
    note = "these rows cannot teach this goal: none were chosen"
    return replace(state, chosen=np.zeros(0, dtype=np.int64), note=note), np.zeros(0)


def _quietly(choose: Callable[..., Answer]) -> Callable[..., Answer]:
    """Let nobody hear of a choice, not even that it failed: rows alone decide that. The owner's note and log say so."""

    def handler(teacher: Teacher, query: queries.Query[object], state: State, turn: Turn) -> Answer:
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return choose(teacher, query, state, turn)
        except Exception:
            _log.exception("%s: no rows could be chosen", query.name)
            return _nothing(state)

    return handler


def _keep_quietly(teacher: Teacher, query: queries.KeepQuietly, state: State, turn: Turn) -> Answer:
    return replace(state, chosen=known(state.ranking, "ranks").rows_up_to(teacher.ids, query.last)), np.zeros(0)


def _lengths(teacher: Teacher, query: queries.Lengths, state: State, turn: Turn) -> Answer:
    counts, loss = np.zeros(BINS), known(state.loss, "loss")
    for where, block in teacher.rows.blocks(state.scaling):
        slope, _, long = _finite(loss, query, block, teacher.target[where])
        counts += np.bincount(bins_of(np.abs(slope) * np.sqrt(long)), minlength=BINS)
    return state, counts


def _row_squares(teacher: Teacher, query: queries.RowSquares, state: State, turn: Turn) -> Answer:
    total = np.zeros((len(query.weights), len(query.weights)))
    for _, block in teacher.rows.blocks(state.scaling):
        with np.errstate(over="ignore", invalid="ignore"):
            long = block.squares(query.weights)
        held = (long > SHORTEST) & (long < LONGEST)
        total += block.gram(np.where(held, np.minimum(1.0, query.row**2 / np.where(held, long, 1.0)), 0.0))
    return state, pack_symmetric(np.outer(query.weights, query.weights) * total)


def _dual_pull(teacher: Teacher, query: queries.DualPull, state: State, turn: Turn) -> Answer:
    cap, width = query.cap, len(query.point)
    total, bent, loss = np.zeros(width), 0.0, known(state.loss, "loss")
    for where, block in teacher.rows.blocks(state.scaling):
        with np.errstate(over="ignore", invalid="ignore"):
            terms = loss.dual_terms(block.times(query.point), teacher.target[where], _thresholds(block, cap))
            alpha, long = np.abs(terms.slope), block.squares(cap.weights)
            held = (alpha > SHORTEST) & (alpha < LONGEST) & (long > SHORTEST) & (long < LONGEST)
            length = np.where(held, alpha * np.sqrt(long), 1.0)
        total += block.weighted_sum(np.where(held, terms.slope * np.minimum(1.0, cap.length / length), 0.0))
        bent += float(np.where(held, np.clip(terms.curvature, 0.0, 1.0), 0.0).sum())
    return state, np.append(cap.weights * total, bent)


def _above(teacher: Teacher, query: queries.CountAbove | queries.KeepAbove, state: State) -> Mask:
    """Rows with at least this score."""
    above, loss = np.zeros(teacher.rows.count, dtype=bool), known(state.loss, "loss")
    for where, block in teacher.rows.blocks(state.scaling):
        given = block.times(query.point), teacher.target[where], _thresholds(block, query.cap)
        above[where] = loss.rank(*given) >= query.least
    return above


def _count_above(teacher: Teacher, query: queries.CountAbove, state: State, turn: Turn) -> Answer:
    return state, np.array([float(_above(teacher, query, state).sum())])


def _keep_above(teacher: Teacher, query: queries.KeepAbove, state: State, turn: Turn) -> Answer:
    return replace(state, chosen=np.flatnonzero(_above(teacher, query, state))), np.zeros(0)


def _thresholds(block: Block, cap: DualCap) -> Array:
    """Return the paper's adaptive thresholds; a row orthogonal to the direction is out."""
    if not cap.sparsity:
        return np.zeros_like(block.times(cap.direction))
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(cap.sparsity / np.abs(block.times(cap.direction)))


HANDLERS: dict[type[queries.Query[object]], Callable[..., Answer]] = {
    queries.Begin: _begin,
    queries.Widths: _widths,
    queries.Sketch: _sketch,
    queries.Pull: _pull,
    queries.PullChange: _pull_change,
    queries.Bend: _bend,
    queries.Choose: _quietly(_choose),
    queries.ChooseAlone: _quietly(_choose_alone),
    queries.KeepQuietly: _quietly(_keep_quietly),
    queries.Lengths: _lengths,
    queries.RowSquares: _row_squares,
    queries.DualPull: _dual_pull,
    queries.CountAbove: _count_above,
    queries.KeepAbove: _quietly(_keep_above),
}

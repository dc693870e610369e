"""The teacher: the only place that sees rows.

`Teacher.answer(query, state, turn)` is pure: whatever a teacher remembers (thresholds, α, ranks, the
chosen rows) goes in and comes out as a `State`, so one function serves a thread, a remote site and a
restart. What comes back beside the state is `Sealed`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from copy import copy
from dataclasses import fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from superteach import packages
from superteach.exceptions import DataError, DataTypeError, QueryRefused, TeachingError
from superteach.losses.arrays import like, namespace, to_numpy
from superteach.losses.multioutput import EVERY_LOSS
from superteach.losses.scalar import Loss, Weighted
from superteach.optim.function import Function
from superteach.optim.newton import Newton
from superteach.optim.problem import DualProblem, Scaling, ridge_penalty
from superteach.privacy.guard import Guard
from superteach.protocol import queries
from superteach.protocol.messages import Sealed, Turn
from superteach.protocol.queries import Moments, Query
from superteach.teacher import private, ranks, selection
from superteach.teacher.rows import Rows, Where, length_of, over_outputs
from superteach.teacher.state import Answer, State, known
from superteach.teacher.sums import OwnSums, best_dual, rows_named, sum_moments, sum_values, weighted_sum
from superteach.types import Array, Positions, Raw

LOCAL_STEPS = 1000
"""Newton steps after which a teacher gives up on its own block in Algorithm 1."""
Handler = Callable[..., Answer]


class Teacher:
    """One owner's rows, targets (±1 for margin losses) and the answers it gives."""

    def __init__(
        self,
        name: str,
        features: Any,
        target: Raw,
        ids: npt.ArrayLike | None = None,
        costs: Raw | None = None,
        loss: str | None = None,
        guard: Guard | None = None,
        weights: Array | None = None,
    ) -> None:
        """Hold rows: `ids` are distinct over all teachers and break ties, smallest first; `costs` and `weights` stay here.

        Where `loss` is given no other one is taught. Every reply leaves through `guard`; the default one lets all pass.
        """
        self.name = name
        self.loss = loss
        self.guard = guard or Guard()
        self.secret = 0
        """Mixed into draws in a private mode, so that whoever sends a seed and knows all other rows cannot repeat them."""
        self.rows = Rows(features)
        # Labels of one byte stay so: NumPy widens them where they meet a float.
        kind = np.int8 if getattr(target, "dtype", None) == np.int8 else np.float64
        if isinstance(text := next(iter(np.ravel(target)), None), str):
            raise DataTypeError(
                f"teacher {name!r} has targets that are text, such as {str(text)!r}; a Teacher takes numbers, and −1 and +1 "
                "for two classes"
            )
        self.target: Any = np.ascontiguousarray(target, dtype=kind)
        if len(self.target) != self.rows.count:
            raise DataError(f"teacher {name!r} has {self.rows.count} rows but {len(self.target)} targets")
        self.weights = weights
        """How many rows each row counts as in the learner's loss; None: one."""
        self.costs = None if costs is None else np.asarray(costs, dtype=np.float64)
        self.ids = np.arange(self.rows.count, dtype=np.uint64) if ids is None else _unsigned(ids)
        for what, values in (("ids", self.ids), ("costs", self.costs)):
            if values is not None and len(values) != self.rows.count:
                raise DataError(
                    f"teacher {name!r} has {self.rows.count} rows but {len(values)} {what}; give one for each row"
                )
        # The two ends are NaN or infinite where any target is, and need no memory.
        if not np.isfinite([self.target.min(initial=0), self.target.max(initial=0)]).all():
            row = int(np.argwhere(~np.isfinite(self.target))[0][0])
            raise DataError(f"teacher {name!r} has a NaN or infinite target in row {row}; drop or fill it")

    def under(self, guard: Guard) -> Self:
        """Return the same teacher behind another guard, with draws of its own in a private mode."""
        found = copy(self)
        found.guard = guard
        found.secret = 0
        if guard.mode.name != "none":
            found.secret = secrets.randbits(63) if guard.secret is None else guard.secret
        return found

    def size_of(self, chosen: Positions | None) -> Array:
        """Count `chosen` rows (None: all), and how many of them have a positive label or target (of several: the first)."""
        target = self.target if chosen is None else self.target[chosen]
        first = target if target.ndim == 1 else target[:, 0]
        return np.array([len(target), int((first > 0.0).sum())], dtype=np.float64)

    def squares(self, scaling: Scaling) -> float:
        """Σ_j ‖x_j‖² on scaled columns."""
        squares = sum(float(block.square_sums().sum()) for _, block in self.rows.blocks(scaling))
        return float(squares + self.rows.count * scaling.constant**2)

    def weighted(self, loss: Loss, where: Where = slice(None)) -> Loss:
        """Return the loss of some rows, each with its weight."""
        return loss if self.weights is None else Weighted(loss, self.weights[where])

    def start(self) -> State:
        """Return the state before the first query."""
        return State()

    def choosing(self, state: State, chosen: Positions) -> State:
        """Return the state with these rows chosen, for whoever owns them."""
        return replace(state, chosen=chosen)

    def answer(self, query: Query[object], state: State, turn: Turn) -> tuple[State, Sealed]:
        """Answer a query on the list with one small array, or refuse."""
        handler = HANDLERS.get(type(query))
        if handler is None:
            raise QueryRefused(f"teacher {self.name} knows no query named {type(query).__name__}")
        self.guard.check_query(query)
        state, reply = handler(self, query, state, turn)
        return state, self.guard.release(query, reply, self.name)

    def announced(self, loss: queries.Announced) -> Loss:
        """Build the loss that a coordinator announces, or refuse it."""
        settings = dict(loss.settings())
        name = str(settings.pop("name", ""))
        if self.loss not in (None, name):
            raise QueryRefused(f"the agreement is on the loss {self.loss!r}, not {name!r}")
        if isinstance(loss, Loss):
            return loss
        kind = EVERY_LOSS.get(name)
        if kind is None or set(settings) != {entry.name for entry in fields(kind)}:  # type: ignore[arg-type]
            raise QueryRefused(f"teacher {self.name} knows no loss {name[:60]!r} with {sorted(settings)}")
        try:
            return kind(**settings)
        except ValueError as error:
            raise QueryRefused(str(error)) from None


def _census(teacher: Teacher, query: queries.Census, state: State, turn: Turn) -> Answer:
    some = rows_named(state, query.rows)
    parts = [teacher.size_of(some)]
    if query.classes:
        codes = to_numpy(teacher.target if some is None else teacher.target[some])
        parts.append(np.count_nonzero(codes.reshape(-1, 1) == np.arange(query.classes), axis=0))
    if query.costs:
        costs = np.zeros(1) if teacher.costs is None else teacher.costs if some is None else teacher.costs[some]
        parts.append(np.array([costs.sum()]))
    return state, np.concatenate(parts)


def _column_sums(teacher: Teacher, query: queries.ColumnSums, state: State, turn: Turn) -> Answer:
    total = np.zeros(query.reply_length)
    for where, block in teacher.rows.blocks(Scaling(centre=query.centre)):
        total += block.weighted_sum(np.ones(length_of(where))) if query.power == 1 else block.square_sums()
    return state, total


def _prepare(teacher: Teacher, query: queries.Prepare, state: State, turn: Turn) -> Answer:
    scaling = Scaling(query.constant, query.centre, query.scale)
    loss = teacher.announced(query.loss)
    if loss.classifies and loss.outputs == 1 and teacher.target.dtype != np.int8:
        strange = namespace(teacher.target).abs(teacher.target) != 1.0
        if strange.any():
            seen = f"labels such as {teacher.target[strange][0]:g}"
            raise QueryRefused(f"teacher {teacher.name} has {seen}; a Teacher takes −1 and +1 for two classes")
    squares = teacher.squares(scaling) * (1.0 if teacher.weights is None else float(teacher.weights.max()))
    return replace(teacher.start(), loss=loss, scaling=scaling), np.append(
        teacher.size_of(None), [squares, teacher.costs is not None]
    )


def _weigh(teacher: Teacher, query: queries.Weigh, state: State, turn: Turn) -> Answer:
    threshold = np.empty(teacher.rows.count)
    with np.errstate(divide="ignore", over="ignore"):
        for where, block in teacher.rows.blocks(state.scaling):
            # sparsity 0 asks for no l1 term at all, so a row without weight is not out either.
            threshold[where] = query.sparsity / np.abs(block.times(query.direction)) if query.sparsity else 0.0
    out = np.array([np.count_nonzero(np.isinf(threshold))], dtype=np.float64)
    return replace(state, threshold=threshold, alpha=None, offer=None, local_point=None), out


def _block_round(teacher: Teacher, query: queries.BlockRound, state: State, turn: Turn) -> Answer:
    """Algorithm 1, lines 4–5, for one teacher: an exact local solve, then a step of β_i/K, or an offer of the whole way."""
    alpha = np.zeros(teacher.rows.count) if state.alpha is None else state.alpha
    if query.taken and query.taken[turn.position]:
        alpha = _moved(teacher, state, alpha, query.taken[turn.position], known(state.offer, "an offer"))
    own = weighted_sum(teacher, state.scaling, alpha)
    conjugate, best, point = _solve_block(teacher, query, state, turn, own)
    if query.beta:
        alpha = _moved(teacher, state, alpha, query.beta[turn.position] / turn.teachers, best)
        own = weighted_sum(teacher, state.scaling, alpha)
    sums = [conjugate, _penalised(teacher, state, alpha), _penalised(teacher, state, best)]
    reply = np.concatenate([sums, own, weighted_sum(teacher, state.scaling, best)])
    return replace(state, alpha=alpha, offer=best, local_point=point), reply


def _solve_block(
    teacher: Teacher, query: queries.BlockRound, state: State, turn: Turn, own: Array
) -> tuple[float, Array, Array]:
    """Σh* at the broadcast model, the best α of this block while all others stay, and the point it belongs to."""
    problem = DualProblem(query.ridge, query.goal, query.goal_weight)
    point = problem.point_of(query.model)
    conjugate = sum_values(teacher, queries.AskValues("dual", "all", point, point, np.zeros(1)), state)[0]

    smooth = problem.smooth.shifted(query.ridge * (query.model - own / query.ridge))
    local = Function(OwnSums(teacher, state, "dual"), smooth, cautious=True)
    # From 0, where every h* is finite: the broadcast point may be far out (Poisson's exp overflows there).
    start = np.zeros_like(point) if state.local_point is None else state.local_point
    solution = Newton(max_steps=LOCAL_STEPS).minimise(local, start, stop=local.flat(1e-12))
    whole = Moments(0.0, solution.sums.gradient + local.smooth.gradient(solution.point), None)
    if not solution.converged and local.flat(1e-6)(solution.point, solution.sums, whole) is None:
        raise TeachingError(f"teacher {teacher.name}'s own block could not be solved: {solution.reason}")
    return float(conjugate), best_dual(teacher, state, solution.point), solution.point


def _moved(teacher: Teacher, state: State, alpha: Array, step: float, best: Array) -> Array:
    """Go a `step` of the way from α to a better one, within the domain whatever rounding does."""
    low, high = teacher.weighted(known(state.loss, "loss")).domain(teacher.target)
    return np.clip(alpha + step * (best - alpha), low, high)


def _penalised(teacher: Teacher, state: State, alpha: Array) -> float:
    loss, threshold = known(state.loss, "loss"), known(state.threshold, "thresholds")
    return float(teacher.weighted(loss).penalised_conjugate(alpha, teacher.target, threshold).sum())


def _rank_rows(teacher: Teacher, query: queries.RankRows, state: State, turn: Turn) -> Answer:
    if query.by in ("random", "even"):
        keys = ranks.random_keys(teacher.ids, query.seed)
        if query.by == "even":
            keys = ranks.dealt(keys, turn.position, turn.teachers)
    else:
        keys = ranks.keys_of_scores(_scores(teacher, query, state))
    return replace(state, ranking=ranks.Ranking(keys)), np.array([float(teacher.rows.count)])


def _scores(teacher: Teacher, query: queries.RankRows, state: State) -> Array:
    loss, threshold = known(state.loss, "loss"), known(state.threshold, "thresholds")
    point = known(query.point, "a point")
    scores = np.empty(teacher.rows.count)
    for where, block in teacher.rows.blocks(state.scaling):
        given = block.times(point), teacher.target[where], threshold[where]
        if query.by == "dual":
            scores[where] = teacher.weighted(loss, where).rank(*given)
        else:
            absolute = np.abs(known(state.alpha, "dual variables")[where])
            scores[where] = np.where(absolute > 0.0, absolute, np.minimum(loss.distance(*given), 0.0))
    return scores


def _count_ranks(teacher: Teacher, query: queries.CountRanks, state: State, turn: Turn) -> Answer:
    ranking = known(state.ranking, "ranks")
    return state, ranking.count_next_bytes(teacher.ids, query.prefixes).astype(np.float64)


def _keep(teacher: Teacher, query: queries.Keep, state: State, turn: Turn) -> Answer:
    chosen = known(state.ranking, "ranks").rows_up_to(teacher.ids, query.last)
    return replace(state, chosen=chosen), teacher.size_of(chosen)


def _recall(teacher: Teacher, query: queries.Recall, state: State, turn: Turn) -> Answer:
    if query.remember:
        state = replace(state, best={**state.best, query.of: known(state.chosen, "chosen rows")})
    else:
        state = replace(state, chosen=known(state.best.get(query.of), "a remembered choice"))
    return state, teacher.size_of(state.chosen)


def _compare(teacher: Teacher, query: queries.Compare, state: State, turn: Turn) -> Answer:
    outputs, several = len(query.centre), len(query.models)
    same, error, total, spread = np.zeros(several), np.zeros(several), np.zeros(outputs), 0.0
    for _, block in teacher.rows.blocks(state.scaling):
        seen = over_outputs(block, outputs)
        wanted = seen.times(query.goal).reshape(outputs, -1)
        label = wanted > 0.0 if outputs == 1 else wanted.argmax(0)
        for k, model in enumerate(query.models):
            learned = seen.times(model).reshape(outputs, -1)
            same[k] += int(((learned > 0.0 if outputs == 1 else learned.argmax(0)) == label).sum())
            error[k] += float(((wanted - learned) ** 2).sum())
        total += to_numpy(wanted.sum(1))
        spread += float(((wanted - like(query.centre[:, None], wanted)) ** 2).sum())
    return state, np.concatenate([[teacher.rows.count], same, error, total, [spread]])


class OwnChoice(NamedTuple):
    """What a teacher chose by itself: rows (None: it found none), and whether its search came to its end."""

    rows: Positions | None
    ended: bool


def _alone(teacher: Teacher, query: queries.Alone, state: State, turn: Turn) -> Answer:
    loss, chosen = known(state.loss, "loss"), known(state.chosen, "chosen rows")
    found = OwnChoice(chosen, True)  # nothing to choose where the share is nothing, or everything
    if 0 < len(chosen) < teacher.rows.count:
        choose = _choose_own if query.inside == "match" else packages.load(packages.ALONE, query.inside)
        found = choose(teacher, loss, state.scaling, len(chosen), query)
    rows = chosen if found.rows is None else found.rows
    return replace(state, chosen=rows), np.append(teacher.size_of(rows), [found.ended, found.rows is None])


def _choose_own(teacher: Teacher, loss: Loss, scaling: Scaling, size: int, query: queries.Alone) -> OwnChoice:
    """Teach exactly within one teacher: its rows meet the K-th part of the goal by themselves."""
    if loss.classifies and query.free_intercept and len(np.unique(np.sign(teacher.target))) < 2:
        return OwnChoice(None, False)
    ridge = query.ridge * size if query.ridge_per_row else query.ridge
    penalty = ridge_penalty(ridge, len(query.goal), query.free_intercept).diagonal
    draw = np.random.default_rng([query.seed, int(teacher.ids[0])])
    choice = private.choose_own(teacher, loss, scaling, query.goal, penalty * query.goal, penalty, size, draw)
    return OwnChoice(choice.rows, choice.carried)


HANDLERS: dict[type[Query[object]], Handler] = {
    queries.Census: _census,
    queries.ColumnSums: _column_sums,
    queries.Prepare: _prepare,
    queries.AskMoments: lambda teacher, query, state, turn: (state, sum_moments(teacher, query, state)),
    queries.AskValues: lambda teacher, query, state, turn: (state, sum_values(teacher, query, state)),
    queries.Weigh: _weigh,
    queries.BlockRound: _block_round,
    queries.RankRows: _rank_rows,
    queries.CountRanks: _count_ranks,
    queries.Keep: _keep,
    queries.Recall: _recall,
    queries.Compare: _compare,
    queries.Alone: _alone,
    **selection.HANDLERS,
    queries.CountMagnitudes: private.count_magnitudes,
    queries.SecondMoments: private.sum_moments,
    queries.ChooseShare: private.choose_share,
}


def _unsigned(ids: npt.ArrayLike) -> ranks.Keys:
    """Return the same numbers, in the same memory where that can be."""
    ids = np.asarray(ids)
    kept = ids.dtype in (np.uint32, np.uint64)
    return ids.view(np.uint64) if ids.dtype == np.int64 else ids if kept else np.asarray(ids, np.uint64)

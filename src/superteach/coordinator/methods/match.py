"""Teach the goal exactly: relax, certify, round, exchange.

Inclusion probabilities solve the relaxed problem; rounding turns them into rows (see `selection.relaxation` and `rounding`).
Where no probabilities meet the goal there is a proof, and the lesson comes as near as it can. Where rows are in this
process, probabilities descend on the true distance (`selection.nearest`), and rows are exchanged by it in the end, as they
are in small pools. Elsewhere gradients are taken at the model that the relaxed lesson teaches, probabilities aim at what is
left of the way, and so on until that gains little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from superteach.coordinator import metrics, proofs
from superteach.coordinator.federation import Federation
from superteach.coordinator.methods.base import Method, Outcome, Search, lesson_sizes
from superteach.coordinator.path import last_ranks
from superteach.coordinator.problem import FederatedProblem
from superteach.coordinator.proofs import Proof
from superteach.lesson import Certificate, Words
from superteach.losses.scalar import Weighted
from superteach.optim.function import Sums
from superteach.optim.lbfgs import LBFGS, Curved
from superteach.optim.newton import Newton
from superteach.optim.problem import Quadratic, ridge_penalty
from superteach.protocol import queries
from superteach.protocol.queries import Size
from superteach.selection import nearest, relaxation, rounding, subsets
from superteach.selection.relaxation import Counts, Relaxation, metric_of, relax
from superteach.settings import Settings
from superteach.types import Array, Mask


@dataclass(frozen=True)
class MatchOptions:
    """Numbers that decide a lesson beside those of relaxation and rounding. What each is worth is in the ablation table."""

    small: int = 1_000
    """Rows of a pool up to which rows are exchanged by the true risk. On 800 rows in raw units that takes risks to between a
    half and all of what rounding leaves, in the same time."""
    whole: int = 30
    """Rows of a pool up to which lessons of one size are searched as a whole."""
    few: int = 128
    """The same where the size is free."""
    shown: float = 1e7
    """Rows times columns up to which the nearest lesson to a goal out of reach is sought on the rows themselves."""
    approaches: int = 8
    """Models that are tried for a goal out of reach, at most; three to five are usual."""
    gain: float = 0.01
    """Stop where a step shortens the distance by less than this part of it."""
    close: float = 1e-6
    """Part of the goal's own length at which no other search is tried."""
    roundings: int = 4
    """Roundings on the way to a goal out of reach, of which the nearest is kept."""
    unlucky: int = 3
    """Searches with other random numbers, where the learner refuses a lesson: a classifier needs rows of both classes."""
    parts: tuple[float, ...] = (0.05, 0.1, 0.2, 0.35, 0.55, 0.8)
    """Parts of a small pool from which exchanges begin with budget="best", where one search does not cover all sizes."""


DEFAULT = MatchOptions()
_GOLDEN = 0x9E3779B97F4A7C15
"""2⁶⁴ over the golden ratio: seeds that lie this far apart draw unrelated numbers."""


class Match(Method):
    """Exact teaching: probabilities that meet the goal, rounded to rows that still do."""

    name = "match"
    words = Words(
        label="match",
        chosen="Rows were chosen by exact teaching (match): at the goal their gradients add up to zero.",
        objective="Where the goal is out of reach, points are the models of relaxed lessons on the way towards it.",
        unproved="The risk is measured: the learner was fitted again on the chosen rows. That no other rows of this "
        "number come nearer is neither claimed nor proved.",
        exact=True,
    )
    uses = ("rounding", "restarts")
    broad = True
    shares = True

    def sizes(self, settings: Settings, problem: FederatedProblem) -> list[int]:
        """Look at other sizes where a search sees all rows: at all sizes at once, or from several starts."""
        if settings.budget != "best" or settings.rounding != "together" or problem.rows > DEFAULT.small:
            return super().sizes(settings, problem)
        if problem.rows <= DEFAULT.few and problem.learner.outputs == 1:
            return [1, problem.rows]
        return lesson_sizes("best", problem.rows, problem.width, DEFAULT.parts)

    def start(self, problem: FederatedProblem, goal: Array, settings: Settings) -> Matcher:
        """Search anew for each size."""
        return Matcher(problem, goal, settings)


class Relaxed(NamedTuple):
    """A relaxed choice, and the metric M it was made in."""

    choice: Relaxation
    metric: Array


class Matcher(Search):
    """Chooses lessons of any size for one goal."""

    def __init__(
        self, problem: FederatedProblem, goal: Array, settings: Settings, options: MatchOptions = DEFAULT
    ) -> None:
        super().__init__(problem, goal, settings)
        self._settings, self._options = settings, options
        self._together = settings.rounding == "together"
        self._sizes: tuple[int, int] | None = None
        self._proofs: dict[int, Proof] = {}
        """By size."""

    def announce(self, sizes: list[int]) -> list[int]:
        """Remember how large a lesson may be: in a pool of few rows one search covers all sizes."""
        self._sizes = (min(sizes), max(sizes)) if sizes else None
        return sizes[-1:] if self._small and self._problem.rows <= DEFAULT.few else sizes

    @property
    def _small(self) -> bool:
        """Whether rows may be looked at in one place, and are so few that the true risk can be searched."""
        few = self._problem.rows <= self._options.small and self._problem.learner.outputs == 1
        return few and self._together

    def choose(self, size: int) -> Size:
        """Leave every teacher with its chosen rows, `size` of them in all."""
        # The coordinator's matrices are small: threads that wait for each other made them 20 times slower on a busy machine.
        with _controller().limit(limits=1):
            low, high = self._sizes or (size, size)
            low, high = min(size, low), max(size, high)
            # Relaxation and rounding speak of one size, and bring nothing to pools that are searched as a whole.
            whole = self._small and self._problem.rows <= (self._options.whole if low == high else DEFAULT.few)
            size_chosen = None if whole else self._best_search(size)
            if not self._small:
                assert size_chosen is not None
                return size_chosen
            return self._small_pool(low, high, whole)

    def _best_search(self, size: int) -> Size:
        """Search as often as the settings say, and keep the nearest lesson."""
        federation, tries = self._problem.federation, self._settings.restarts
        most = tries + self._options.unlucky
        best: tuple[float, Size, Outcome] | None = None
        refused = False
        for attempt in range(most):
            if attempt and (attempt >= tries or self._problem.late):
                break
            # The nearest models of a goal out of reach may need no row of some class; the first one does more often.
            kept = self._search(size, (self._seed + attempt * _GOLDEN) % 2**64, attempt > 0, near=not refused)
            refused = self._problem.refuses(kept) is not None
            tries += refused and tries < most  # where a class is missing, other random numbers may bring rows of both
            if tries == 1:
                return kept
            distance, enough = (np.inf, False) if refused else self._distance(kept)
            if best is None or distance < best[0]:
                best = distance, kept, self.outcome
                federation.sum(queries.Recall("search", True))
            if enough:
                break
        assert best is not None
        if best[0] == np.inf:  # the goal wants no row of a class that the learner needs
            self.outcome = replace(best[2], reason="no search found rows of every class; the lesson is random rows")
            federation.sum(queries.RankRows("random", seed=self._seed))
            return federation.sum(queries.Keep(last_ranks(federation, [size])[0]))
        federation.sum(queries.Recall("search", False))
        self.outcome = best[2]
        return best[1]

    def _distance(self, kept: Size) -> tuple[float, bool]:
        """The distance of the present choice, by a fit, and whether no other search is worth trying."""
        problem, goal, target = self._problem, self._goal, self._settings.risk_target
        model = problem.fit_chosen(kept.rows)
        distance = problem.distance(model, goal)
        if target is not None:
            return distance, metrics.risk(problem.scaling.raw(model), problem.scaling.raw(goal)) <= target
        return distance, distance <= self._options.close * problem.distance(0.0 * goal, goal)

    def _search(self, size: int, seed: int, again: bool, near: bool) -> Size:
        """Relax, certify, come near where the goal is out of reach, round."""
        problem, federation, risks = self._problem, self._problem.federation, list[float]()
        federation.stage = "relaxation"
        target, metric = self._target(self._goal, size), self._metric(size)
        relaxed = self._relax(self._goal, target, metric, size, seed, thin=True, reachable=True)
        proof = None if relaxed.choice.met else self._proof(relaxed, size)
        if not relaxed.choice.met:
            self._include(relaxed, size)
        far = near and not relaxed.choice.met
        here = far and self._in_memory
        if here and size > rounding.DEFAULT.few:
            kept, risks = self._nearest(size, seed, begun=False)
        else:
            if near and proof is not None and not problem.wide:
                federation.stage = "approach"
                relaxed, risks = self._approach(relaxed, size, seed)
            federation.stage = "rounding"
            kept = self._round(relaxed, size, seed, again)
            if here:  # a descent from even probabilities may pass by the few rows that matter
                kept, more = self._nearest(size, seed, begun=True)
                risks += more
            elif far and self._together and not problem.wide:
                kept = self._nearest_rounding(relaxed, size, seed, kept)
        stated = None if proof is None else self._for_size(proof, size, kept.rows)
        reason = "the relaxed problem meets the goal"
        if proof is not None:
            reason = "the goal is proved to be out of reach; the lesson comes near it"
        elif not relaxed.choice.met:
            reason = "the relaxed problem comes near the goal; there is no proof that it cannot meet it"
        self.outcome = Outcome(
            reason,
            relaxed.choice.met or proof is not None,
            np.array(risks),
            certificate=None if stated is None else Certificate(stated.direction, stated.margin),
            lower_bound=0.0 if stated is None else max(stated.radius, 0.0),
        )
        return kept

    # Relax ---------------------------------------------------------------------------------------------

    def _relax(
        self,
        model: Array,
        target: Array,
        metric: Array,
        size: int,
        seed: int,
        thin: bool = False,
        reachable: bool = False,
    ) -> Relaxed:
        """Solve the relaxed problem for gradients at a model."""
        steps = relaxation.DEFAULT.steps
        solver: Newton | LBFGS = Newton(max_steps=steps)
        wide, curved = self._problem.wide, isinstance(self._problem.solver, Curved)
        if curved:
            solver = Curved(max_steps=(3 if wide else 4) * steps)
        elif wide:
            solver = LBFGS(max_steps=10 * steps)
        outputs = self._problem.learner.outputs if curved and wide else 1
        rows = FederatedRows(self._problem.federation, model, metric, seed, outputs, sketched=curved)
        rough = curved and outputs == 1
        return Relaxed(relax(rows, metric, target, size, solver, thin, rough, reachable=reachable), metric)

    def _include(self, relaxed: Relaxed, size: int) -> None:
        """Give rows their probabilities; the last dual variable is put right where these do not add up to `size`."""
        dual, low, high, step = relaxed.choice.dual, -np.inf, np.inf, 1.0
        for _ in range(60):
            missing = size - self._problem.federation.sum(queries.Include(dual))
            if abs(missing) <= max(0.25, 1e-3 * size):
                break
            low, high = (dual[-1], high) if missing > 0.0 else (low, dual[-1])
            inside = np.isfinite(low) and np.isfinite(high)
            step = 2.0 * step
            dual[-1] = 0.5 * (low + high) if inside else dual[-1] + (step if missing > 0.0 else -step)

    def _penalty(self, size: int) -> Quadratic:
        learner = self._problem.learner
        return ridge_penalty(learner.penalty(size), len(self._goal), learner.free_intercept, learner.outputs)

    def _target(self, model: Array, size: int) -> Array:
        """Λθ, 0 for a free intercept: what gradients at a model have to add up to."""
        return self._penalty(size).gradient(model)

    def _metric(self, size: int) -> Array:
        """M with M'M = H⁻¹, H the learner's Hessian at the goal for a lesson drawn from the pool evenly."""
        problem, diagonal = self._problem, self._penalty(size).diagonal
        if problem.wide:
            return metric_of(problem.bends * (size / problem.rows) + diagonal)
        hessian = problem.losses.moments(self._goal, 2).curvature
        assert hessian is not None
        return self._seen_metric(hessian * (size / problem.rows) + np.diag(diagonal))

    def _seen_metric(self, hessian: Array) -> Array:
        """The same over the directions that rows see, and in which outputs can differ at all."""
        learner, seen = self._problem.learner, self._problem.seen
        if seen is None and not learner.loss.shifts:
            return metric_of(hessian)
        seen = np.eye(len(self._goal) // learner.outputs) if seen is None else seen
        basis = np.kron(relaxation.contrasts(learner.outputs) if learner.loss.shifts else np.eye(learner.outputs), seen)
        return np.asarray(metric_of(basis @ hessian @ basis.T) @ basis)

    # Certify -------------------------------------------------------------------------------------------

    def _proof(self, relaxed: Relaxed, size: int) -> Proof | None:
        """A proof that no lesson of this size teaches the goal, nor any model within a radius; None: there is none."""
        if size not in self._proofs:  # it is there where another search with other random numbers found it
            direction = relaxed.choice.direction
            point = np.append(self._problem.without_unseen(direction[:-1]), direction[-1])
            proof = proofs.prove(self._problem, self._goal, size, point, relaxed.metric, search=True)
            if proof is None:
                return None
            self._proofs[size] = proof
        return self._proofs[size]

    def _for_size(self, proof: Proof, size: int, rows: int) -> Proof | None:
        """A proof for a lesson of other rows than it was made for."""
        return proof if rows == size else proofs.again(self._problem, self._goal, rows, proof)

    # Come near -----------------------------------------------------------------------------------------

    def _approach(self, relaxed: Relaxed, size: int, seed: int) -> tuple[Relaxed, list[float]]:
        """Come as near as can be, by Gauss and Newton's steps on the taught model; distances of relaxed lessons on the way.

        At the model that the relaxed lesson teaches, probabilities aim at what is left of the way, H(θ* − θ) + Λθ.
        """
        problem, options = self._problem, self._options
        at = problem.fit_likely(size, self._goal)
        goal = self._within(at)
        risks = [self._apart(at, goal)]
        best: tuple[Array, Array, float] | None = None
        found, step, full = relaxed, 1.0, True
        for _ in range(options.approaches):
            problem.federation.note(risks[-1])
            if problem.late:
                break
            found = self._towards(at, goal, step, size, seed)
            after = problem.fit_likely(size, at)
            distance = self._apart(after, self._within(after))
            if distance >= risks[-1]:  # too far for the linearised model: aim at a nearer point
                step, full = 0.5 * step, False
                continue
            best, at, goal = (at, goal, step), after, self._within(after)
            step, full = min(1.0, 2.0 * step) if full else step, True
            risks.append(distance)
            if distance > (1.0 - options.gain) * risks[-2]:
                break
        if full:  # teachers have the probabilities of the nearest model
            return found, risks
        if best is not None:
            return self._towards(*best, size, seed), risks
        found = self._relax(self._goal, self._target(self._goal, size), relaxed.metric, size, seed)
        self._include(found, size)
        return found, risks

    def _within(self, model: Array) -> Array:
        """Scale a goal of many classes to the length of a model, which changes no predicted class: what to aim at next."""
        learner, measure = self._problem.learner, self._problem.to_measure
        if learner.outputs == 1 or not learner.loss.classifies:
            return self._goal
        seen, wanted = measure @ model, measure @ self._goal
        return self._goal * min(max(float(seen @ wanted) / float(wanted @ wanted), 0.05), 1.0)

    def _apart(self, model: Array, goal: Array) -> float:
        """How far a model is from a goal, in units in which the goal is as long as the one that is wanted."""
        return self._problem.distance(model, goal) * float(np.linalg.norm(self._goal) / np.linalg.norm(goal))

    def _towards(self, model: Array, goal: Array, step: float, size: int, seed: int) -> Relaxed:
        """Probabilities whose lesson brings the learner from a model a step of the way to a goal, to first order."""
        hessian = self._problem.federation.curvature("loss", "likely", model) + np.diag(self._penalty(size).diagonal)
        metric = self._problem.to_measure @ relaxation.inverse(hessian)
        target = step * hessian @ (goal - model) + self._target(model, size)
        found = self._relax(model, target, metric, size, seed)
        self._include(found, size)
        return found

    # Round ---------------------------------------------------------------------------------------------

    def _round(self, relaxed: Relaxed, size: int, seed: int, again: bool) -> Size:
        """Turn probabilities into rows, in one place or at each teacher's."""
        choice, metric = relaxed
        federation = self._problem.federation
        if not self._together or metric.ndim == 1:
            return federation.sum(queries.RoundAlone(metric, choice.dual, seed))
        # A search that is repeated shall not find the same rows again: fewer take part, other ones each time.
        thin = rounding.DEFAULT.thin if again else rounding.thinning(size)
        most = rounding.most_candidates(metric)
        shown = federation.gather(queries.Candidates(metric, choice.dual, choice.idle, thin, most, seed))
        vectors = np.concatenate([one.vectors for one in shown])
        chance = np.concatenate([one.probabilities for one in shown])
        idle = tuple(one.idle for one in shown)
        missing = max(size - sum(one.certain for one in shown), 0)
        counted = rounding.counted(choice.idle_mass, choice.freedom)
        least = missing if counted else max(0, missing - sum(idle))
        aim = choice.target if choice.met else choice.total
        left = aim - sum(one.total for one in shown)
        draw = np.random.default_rng(seed)
        taken = rounding.round_rows(vectors, chance, left, least, missing, draw, choice.target - aim)
        counts = tuple(len(one.vectors) for one in shown)
        fill = rounding.deal(missing - int(taken.sum()), idle)
        return federation.sum(queries.Select(counts, np.flatnonzero(taken).astype(np.float64), fill))

    def _nearest_rounding(self, relaxed: Relaxed, size: int, seed: int, kept: Size) -> Size:
        """Round again with other random numbers, and keep the nearest by a fit: such a choice has little freedom left."""
        federation, best = self._problem.federation, np.inf
        for attempt in range(self._options.roundings):
            if attempt:
                kept = self._round(relaxed, size, (seed + attempt * _GOLDEN) % 2**64, True)
            distance = np.inf if self._problem.refuses(kept) else self._distance(kept)[0]
            if distance < best or not attempt:
                best, nearest = distance, kept
                federation.sum(queries.Recall("rounding", True))
            if self._problem.late:
                break
        federation.sum(queries.Recall("rounding", False))
        return nearest

    # Rows in one place ---------------------------------------------------------------------------------

    @property
    def _in_memory(self) -> bool:
        """Whether all rows are in this process, and few enough to be looked at."""
        problem = self._problem
        one = self._together and problem.learner.outputs == 1 and not problem.wide and not problem.costs
        return one and problem.federation.here and problem.rows * problem.width <= self._options.shown

    def _pool(self) -> tuple[nearest.Pool, Mask, tuple[int, ...]]:
        """All rows, which of them are chosen, and how many each teacher has."""
        problem, learner, width = self._problem, self._problem.learner, len(self._goal)
        parts = problem.federation.gather(queries.Show(width, learner.weighted))
        shown = np.concatenate(parts)
        pool = nearest.Pool(
            shown[:, :width],
            shown[:, width],
            Weighted(learner.loss, shown[:, width + 2]) if learner.weighted else learner.loss,
            lambda size: self._penalty(size).diagonal,
            self._goal,
            problem.to_measure,
            learner.refuses,
            lambda: problem.late,
        )
        return pool, shown[:, width + 1] > 0.5, tuple(map(len, parts))

    def _select(self, subset: Mask, counts: tuple[int, ...]) -> Size:
        places = np.flatnonzero(subset).astype(np.float64)
        kept: Size = self._problem.federation.sum(queries.Select(counts, places, (0,) * len(counts)))
        return kept

    def _nearest(self, size: int, seed: int, begun: bool) -> tuple[Size, list[float]]:
        """Come as near as can be, from the present choice on if one is `begun`, or from better ones.

        Probabilities descend on the true distance, are rounded, and rows are exchanged by it.
        """
        self._problem.federation.stage = "approach"
        pool, chosen, counts = self._pool()
        draw, found = np.random.default_rng(seed), [chosen] if begun and int(chosen.sum()) == size else []
        ends = nearest.nearest(pool, size)
        for end in ends:
            chance, moves = end.probabilities, end.moves
            taken = chance > 1.0 - rounding.EDGE
            free = np.flatnonzero((chance > rounding.EDGE) & ~taken)
            left = size - int(taken.sum())
            wanted = chance[free] @ moves[free]
            taken[free] = rounding.round_rows(moves[free], chance[free], wanted, left, left, draw, -end.lacks)
            found.append(taken)
        rounded, risks = subsets.exchange_by_risk(pool, np.stack(found), size, nearest.NearestOptions(work=0.0))
        chosen, risks = subsets.exchange_by_risk(pool, rounded[risks <= 1.25 * risks.min()], size)
        return self._select(chosen[risks.argmin()], counts), [ends.free.distance, ends.nearest.distance]

    def _small_pool(self, low: int, high: int, whole: bool) -> Size:
        """Exchange rows by the true risk, from several starts, the present choice among them where there is one."""
        self._problem.federation.stage = "small pool"
        pool, chosen, counts = self._pool()
        draw = np.random.default_rng(self._seed)
        best, _ = subsets.best_subset(pool, low, high, [] if whole else [chosen], draw, self._settings.restarts)
        if whole:
            self.outcome = Outcome("no exchange of rows comes nearer; not all lessons of this size were covered")
        if low < high:  # a proof speaks of one size
            self.outcome = replace(self.outcome, certificate=None, lower_bound=0.0)
        return self._select(best, counts)


@dataclass(frozen=True, eq=False)
class FederatedRows:
    """All teachers' rows, as the relaxed problem asks them: with gradients at a model."""

    federation: Federation
    model: Array
    metric: Array
    seed: int
    outputs: int = 1
    sketched: bool = False
    """Whether lengths may be a quarter off: one number more or less in a bin of a factor of two hardly matters."""

    def lengths(self) -> Counts:
        """How many rows are in each bin of length; gradients are taken anew."""
        metric = relaxation.sketch(self.metric) if self.sketched else self.metric
        return self.federation.sum(queries.Gradients(self.model, metric))

    def thin(self, log_odds: Array, least: float) -> int:
        """Give rows log-odds by their bin, and sample those that take part; how many stay."""
        return round(self.federation.sum(queries.Thin(log_odds, least, self.seed)))

    def sums(self, rough: bool = False) -> Sums:
        """Sums over the rows that stay: each call is one round."""
        return replace(self.federation.over("relax", "sampled", self.outputs), rough=rough)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()

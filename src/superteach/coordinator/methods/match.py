"""Teach the goal exactly: agree on prices, then round, strong rows first (see `prices` and `rounding`).

Where no prices balance the goal there is a proof, and the lesson comes as near as it can: pulls are taken at the model
that the fractional lesson teaches, prices aim at what is left of the way, and so on until that gains little.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Literal

import numpy as np
from threadpoolctl import ThreadpoolController

from superteach.coordinator import metrics, proofs
from superteach.coordinator.methods.outcome import Outcome, Search
from superteach.coordinator.problem import FederatedProblem
from superteach.coordinator.proofs import Proof
from superteach.lesson import Certificate
from superteach.losses.scalar import Squared, Weighted
from superteach.optim.function import Curvatures
from superteach.optim.lbfgs import LBFGS, Curved
from superteach.optim.problem import Quadratic, ridge_penalty
from superteach.protocol import queries
from superteach.protocol.queries import AskMoments, Moments, Size
from superteach.protocol.queries.match import Instruction, Report
from superteach.selection import polish, prices, rounding
from superteach.selection.exhaustive import Best
from superteach.selection.prices import Prices
from superteach.selection.subsets import SubsetProblem
from superteach.settings import Settings
from superteach.types import Array

SMALL = 1_000
"""Rows of a pool up to which rows are exchanged by the true risk. On 800 rows in raw units that takes risks to between a
half and all of what rounding leaves, in the same time."""
WHOLE = 30
"""Rows of a pool up to which lessons of one size are searched as a whole."""
APPROACHES = 24
"""Models that are tried for a goal out of reach, at most; three to five are usual."""
GAIN = 0.01
"""Share of the distance that another one must gain."""
NEAR = 0.002
"""Share of the goal's own length at which no nearer model is looked for: rounding leaves as much."""
SHORT_STEP = 0.05
"""Share of the way to the goal below which no shorter step is tried."""
HALVINGS = 3
"""Models between one that cannot be balanced and one that can, of which the nearest to the goal is taught."""
INSIDE = 0.005
"""Share of a ball's radius by which the first of them lies inside it, to leave room for rounding; it doubles."""
SHRINKS, EVENLY, SHORTEST, FINE, LESS_FINE = 0.8, 0.25, 0.05, 1.0 / 64.0, 1.0 / 16.0
"""For many classes out of reach, shares of the way that are tried first, from no model and from that of rows weighted alike;
the shortest model sθ* tried (shorter ones may be out of reach again); and how well the longest shares are found."""
SHORT = 0.1
"""Share of what a goal out of reach lacks that rounding may leave: it adds half a percent."""
MANY_DRAWN = 0.25
"""Share of all rows that lots must leave, or all take part. On rows like covertype's they leave 0.4, and lessons end as near
in half the time; of Fashion-MNIST's 60,000 rows a lesson of 1,000 leaves 0.13, and would end twice as far away."""
LUCKLESS, IN_VAIN = 8, 200
"""Searches with other lots, where the learner refuses a lesson: a classifier needs rows of both classes. Where 200
rows were chosen in vain no lot brings the other class: such a goal puts all rows into one."""
_GOLDEN = 0x9E3779B97F4A7C15
"""2⁶⁴ over the golden ratio: seeds that lie this far apart draw unrelated lots."""
CLOSE = 1e-6
"""Share of the goal's own length at which no other search is tried."""
STARTS = 8
"""Searches for the last rows, of which the best is kept."""
MANY = 5_000
"""Rows of a lesson from which on weak rows abound, and two such searches are enough; rows left for them, one."""


class Matcher(Search):
    """Chooses lessons of any size for one goal, all teachers together or each alone after the prices."""

    by_true_risk = True
    """Whether a small pool is searched by the risk of refitted models."""
    _refits = True
    """Whether the learner may be fitted on the chosen rows."""

    def __init__(self, room: FederatedProblem, goal: Array, settings: Settings) -> None:
        super().__init__(room, goal, settings)
        self._together, self._restarts = settings.rounding == "together", settings.restarts
        self._risk_target = settings.risk_target
        self._range: tuple[int, int] | None = None
        self._again = False
        self._proofs: dict[int, Proof] = {}
        """By size."""

    @property
    def _measure(self) -> Array:
        """A: ‖A(θ − θ*)‖ is the distance that a lesson out of reach makes small."""
        return self._room.to_measure

    def announce(self, sizes: list[int]) -> list[int]:
        """Remember how large a lesson may be: in a pool of few rows one search covers all sizes."""
        self._range = (min(sizes), max(sizes)) if sizes else None
        return sizes[-1:] if self._small and self._room.rows <= polish.FEW else sizes

    @property
    def _small(self) -> bool:
        """Whether rows may be looked at in one place, and are so few that the true risk can be searched."""
        few = self._room.rows <= SMALL and self._room.learner.outputs == 1
        return few and self._together and self.by_true_risk

    def choose(self, size: int) -> Size:
        """Leave every teacher with its chosen rows, `size` of them in all: the best of all searches."""
        # The coordinator's matrices are small: threads that wait for each other made them 20 times slower on a busy machine.
        with _controller().limit(limits=1):
            return self._choose(size)

    def _choose(self, size: int) -> Size:
        if not self._small:
            return self._best_of_all(size)
        low, high = self._range or (size, size)
        low, high = min(size, low), max(size, high)
        # Prices and rounding speak of one size, and bring nothing to pools that are searched as a whole.
        whole = self._room.rows <= (WHOLE if low == high else polish.FEW)
        if not whole:
            self._best_of_all(size)
        kept, best = self._searched(low, high, whole)
        sizes = f"{low}" if low == high else f"{low} to {high}"
        reason = self.outcome.reason
        if best.proved:
            reason = f"no lesson of {sizes} rows is nearer: all of them were covered"
        elif whole:
            reason = f"no exchange of rows comes nearer; not all lessons of {sizes} rows were covered"
        self.outcome = replace(self.outcome, reason=reason, optimal=best.proved)
        return kept

    def _searched(self, low: int, high: int, whole: bool) -> tuple[Size, Best]:
        """Look at all rows in one place, and search for the lowest true risk, from the present choice on or from nothing."""
        room, federation = self._room, self._room.federation
        federation.stage = "small pool"
        counts = tuple(int(count) for count in federation.sum(queries.Count(federation.teachers)))
        width, learner = len(self._goal), room.learner
        shown = federation.sum(queries.Show(counts, width, learner.weighted))
        design, target, taken = shown[:, :width], shown[:, width], shown[:, width + 1]
        if learner.weighted:
            learner = replace(learner, loss=Weighted(learner.loss, shown[:, width + 2]))
        problem = SubsetProblem(design, target, learner, self._goal, self._measure)
        start = None if whole else taken > 0.5
        best = polish.best_subset(problem, low, high, start, self._restarts, self._seed)
        kept: Size = federation.sum(queries.Take(counts, tuple(map(bool, best.subset))))
        if whole:
            self.outcome = Outcome("")
        objective = np.append(self.outcome.objective, self._predicted(kept))
        self.outcome = replace(self.outcome, objective=objective)
        if self.outcome.certificate is not None and low < high:
            self.outcome = replace(self.outcome, certificate=None, lower_bound=0.0)  # it speaks of one size
        return kept, best

    def _best_of_all(self, size: int) -> Size:
        base, federation = self._seed, self._room.federation
        best: tuple[float, Size, Outcome] | None = None
        enough = False
        tries, most = self._restarts, self._restarts + min(LUCKLESS, IN_VAIN // size)
        for attempt in range(most):
            if attempt and (attempt >= tries or self._room.late or enough):
                break
            self._seed, self._again = (base + attempt * _GOLDEN) % 2**64, attempt > 0
            kept = self._once(size)
            refused = self._room.refuses(kept) is not None
            # Where a class is missing, other lots may bring rows of both.
            tries += refused and tries < most
            if tries == 1:
                return kept
            away, enough = (np.inf, False) if refused else self._away(kept)
            if best is None or away < best[0]:
                best = away, kept, self.outcome
                federation.sum(queries.Recall("search", True))
        self._seed = base
        assert best is not None
        federation.sum(queries.Recall("search", False))
        _, kept, self.outcome = best
        return kept

    def _away(self, kept: Size) -> tuple[float, bool]:
        """The distance of the present choice, by a fit, and whether no other search is worth trying."""
        room, goal = self._room, self._goal
        model = room.fit_chosen(kept.rows)
        away = room.distance(model, goal)
        if self._risk_target is not None:
            return away, metrics.risk(room.scaling.raw(model), room.scaling.raw(goal)) <= self._risk_target
        return away, away <= CLOSE * room.distance(0.0 * goal, goal)

    def _once(self, size: int) -> Size:
        """One search."""
        federation = self._room.federation
        target = self._target(size)
        federation.stage = "prices"
        metric = self._metric_of(self._curvature_at_goal(size))
        found = self._agree(self._goal, target, metric, size, thin=True)
        proof = None if found.balanced else self._proof(found, metric, size)
        if not found.balanced and proof is None and found.freedom <= len(metric) + 1:
            # Few rows leave little freedom: harder prices may prove, or balance, what softer ones do not.
            harder = self._agree(self._goal, target, metric, size, False, prices.BALANCED, 0.0)
            proof = None if harder.balanced else self._proof(harder, metric, size)
            found = harder if harder.balanced else self._agree(self._goal, target, metric, size)
        found, risks = prices.take(federation.sum, found, metric, size), list[float]()
        first = found, metric
        if proof is not None:
            found, metric, risks = self._approach(found, metric, size)
        federation.stage = "rounding"
        self._trace: list[float] = []
        kept = self._round(found, metric, size, risks[-1] if risks else 0.0)
        if len(risks) > 1 and self._room.learner.outputs == 1 and self._refits:
            kept = self._or_first(kept, *first, size, risks[0])
        if proof is None:
            risks = self._trace
        told = None if proof is None else self._for_size(proof, size, kept.rows)
        certificate = None if told is None else Certificate(told.direction, told.margin)
        risks = [*risks, self._predicted(kept)]
        if proof is not None:
            reason = "the goal is proved to be out of reach; the lesson comes near it"
        elif found.balanced:
            reason = "the prices balance the goal"
        else:
            reason = "the prices come near the goal; there is no proof that they cannot balance it"
        ended = found.balanced or proof is not None
        bound = 0.0 if told is None else max(told.radius, 0.0)
        self.outcome = Outcome(reason, ended, np.array(risks), certificate=certificate, lower_bound=bound)
        return kept

    def _or_first(self, kept: Size, first: Prices, metric: Array, size: int, lacking: float) -> Size:
        """Round the first prices too, and keep the nearer lesson: prices on the way leave rounding less freedom."""
        federation = self._room.federation
        away = np.inf if self._room.refuses(kept) else self._away(kept)[0]
        federation.sum(queries.Recall("rounding", True))
        self._agree(self._goal, self._target(size), metric, size)
        prices.take(federation.sum, first, metric, size)
        other = self._round(first, metric, size, lacking)
        if not self._room.refuses(other) and self._away(other)[0] < away:
            return other
        federation.sum(queries.Recall("rounding", False))
        return kept

    def _agree(
        self, model: Array, target: Array, metric: Array, size: int, thin: bool | None = False, *how: float
    ) -> Prices:
        """Prices for pulls at a model, by the solver that fits the learner; `how` are `exact` and `border` of prices."""
        room = self._room
        curved = isinstance(room.solver, Curved)
        plain = LBFGS(max_steps=10 * prices.STEPS) if room.wide else None
        by = Curved(max_steps=(3 if room.wide else 4) * prices.STEPS) if curved else plain
        outputs = room.learner.outputs if curved and room.wide else 1
        return prices.agree(room.federation.sum, model, target, metric, size, self._seed, thin, by, outputs, None, *how)

    def _penalty(self, size: int) -> Quadratic:
        learner = self._room.learner
        return ridge_penalty(learner.penalty(size), len(self._goal), learner.free_intercept, learner.outputs)

    def _target(self, size: int) -> Array:
        """Λθ*, 0 for a free intercept: what pulls at the goal have to add up to."""
        return self._penalty(size).gradient(self._goal)

    def _curvature_at_goal(self, size: int) -> Array:
        """The learner's curvature at the goal for a lesson drawn from the pool evenly; its diagonal for wide models."""
        return self._with_penalty(self._curvature("all", self._goal) * (size / self._room.rows), size)

    def _curvature(self, rows: Literal["all", "priced"], model: Array) -> Array:
        if self._room.wide:
            return self._room.bends
        held = self._room.held if rows == "all" else Curvatures()
        sums = held.of(self._room.federation.sum, AskMoments("loss", rows, model, 2))
        assert sums.curvature is not None
        return sums.curvature

    def _metric_of(self, curvature: Array) -> Array:
        """M with M'M = H⁻¹, over the directions that rows see and in which outputs can differ at all."""
        learner = self._room.learner
        seen = self._room.seen if self._refits and curvature.ndim == 2 else None
        if curvature.ndim == 1 or (seen is None and not learner.loss.shifts):
            return prices.metric_of(curvature)
        seen = np.eye(len(self._goal) // learner.outputs) if seen is None else seen
        basis = np.kron(prices.contrasts(learner.outputs) if learner.loss.shifts else np.eye(learner.outputs), seen)
        return np.asarray(prices.metric_of(basis @ curvature @ basis.T) @ basis)

    def _with_penalty(self, curvature: Array, size: int) -> Array:
        diagonal = self._penalty(size).diagonal
        return curvature + (diagonal if curvature.ndim == 1 else np.diag(diagonal))

    def _approach(self, found: Prices, metric: Array, size: int) -> tuple[Prices, Array, list[float]]:
        """Come as near as can be: prices, their metric, and the risk of fractional lessons on the way.

        Gauss and Newton's way on the taught model. At the model that the fractional lesson teaches, prices aim at what is
        left of the way, H(θ* − θ) + Λθ; in units of risk, for that is what counts now.
        """
        room, federation = self._room, self._room.federation
        federation.stage = "approach"
        ball, risks, model = self._ball(), list[float](), self._goal
        if ball is not None:
            return self._into_ball(*ball, size)
        if room.learner.outputs > 1 and room.learner.loss.classifies and not room.wide:
            return self._shrunk(found, metric, size)
        step, before = 1.0, True
        best = model, found, metric, 1.0
        """Where pulls were taken, the prices there and their metric, and how much of the way to the goal they aimed at."""
        at = room.fit_priced(size, model)
        risks.append(room.distance(at, self._goal))
        length = room.distance(0.0 * self._goal, self._goal)
        for _ in range(0 if room.wide else APPROACHES):
            federation.note(risks[-1])
            if room.late or step < SHORT_STEP or risks[-1] <= NEAR * length:
                break
            found, metric = self._prices_at(at, size, step)
            after = room.fit_priced(size, at)
            away = room.distance(after, self._goal)
            if away > (1.0 - GAIN) * risks[-1]:  # too far for the linearised model: aim at a nearer point
                step, before = 0.5 * step, False
                continue
            best, at = (at, found, metric, step), after
            step, before = min(1.0, 2.0 * step) if before else step, True
            risks.append(away)
        model, found, metric, aimed = best
        if model is self._goal:
            self._agree(self._goal, self._target(size), metric, size)
            prices.take(federation.sum, found, metric, size)
        else:
            found, metric = self._prices_at(model, size, aimed)
        return found, metric, risks

    def _into_ball(self, centre: Array, radius: float, size: int) -> tuple[Prices, Array, list[float]]:
        """The same where all models that can be taught lie in a ball: the first on the way into it that can be balanced."""
        out, risks, low, high, halvings = self._goal - centre, list[float](), 0.0, INSIDE, 0
        while True:
            depth = high if not halvings else 0.5 * (low + high)
            model = centre + (1.0 - depth) * radius * out / np.linalg.norm(out)
            found, metric = self._prices_inside(model, size)
            risks.append(float(np.linalg.norm(model - self._goal)))
            self._room.federation.note(risks[-1])
            if found.balanced:
                high, halvings = depth, halvings + 1
            elif halvings:
                low, halvings = depth, halvings + 1
            else:
                low, high = depth, 2.0 * depth
            if halvings > HALVINGS or depth > 0.5 or self._room.late:
                break
        if not found.balanced and halvings:  # the last one tried lies too far out: back to the best
            model = centre + (1.0 - high) * radius * out / np.linalg.norm(out)
            found, metric = self._prices_inside(model, size)
            risks.append(float(np.linalg.norm(model - self._goal)))
        return found, metric, risks

    def _shrunk(self, found: Prices, metric: Array, size: int) -> tuple[Prices, Array, list[float]]:
        """The same for many classes: the longest model sθ*, s < 1, that can be balanced. It predicts the goal's classes.

        All rows, weighted alike to `size`, balance a model too. Where that one predicts more like the goal, models between
        the two are tried instead.
        """
        room, goal, risks = self._room, self._goal, list[float]()
        even = room.fit_evenly(size, goal)
        near, length = (metrics.apart(room.federation, one, goal, room.learner.outputs) for one in (even, 0.0 * goal))
        lacking = float(np.linalg.norm(found.aim - found.total))

        def tried(model: Array, metric: Array | None = None) -> tuple[Prices, Array]:
            risks.append(room.distance(model, goal))
            room.federation.note(risks[-1])
            return self._prices_inside(model, size, metric)

        def longest(base: Array, share: float, least: float, fine: float) -> float:
            """How much of the way from a model to the goal can be balanced; 0 where it is less than `least`."""
            low, high, at, left = 0.0, 1.0, 1.0, lacking
            while high - low > fine and high > least and not room.late:
                here = tried(base + share * (goal - base), metric)[0]
                if here.balanced:
                    low, share = share, 0.5 * (share + high)
                    continue
                # What is lacking grows about evenly along the way, so two models tell where it begins, if that is not far.
                now, gap = float(np.linalg.norm(here.aim - here.total)), at - share
                begins = share - now * gap / max(left - now, 0.05 * now)
                at, left, high = share, now, min(share, begins + 0.5 * fine) if share - begins <= 0.5 * gap else share
                begins = max(begins, share - 2.0 * gap, least)
                share = begins if low < begins < high else 0.5 * (low + high)
            return low

        least = max(SHORTEST, 1.0 - near / length) if length else 1.0
        if (share := longest(0.0 * goal, max(SHRINKS, least), least, FINE)) > least:
            return *tried(share * goal), risks
        return *tried(even + longest(even, EVENLY, 0.0, LESS_FINE) * (goal - even)), risks

    def _prices_inside(self, model: Array, size: int, metric: Array | None = None) -> tuple[Prices, Array]:
        """Prices that balance another model than the goal, in its own metric and more exactly where none is given."""
        room, exact = self._room, 1e-3 if metric is None else prices.BALANCED
        drawn = room.learner.outputs > 1 and size > MANY_DRAWN * prices.LEAST * room.rows
        if metric is None:
            metric = self._metric_of(self._with_penalty(self._curvature("priced", model), size))
        target = self._penalty(size).gradient(model)
        found = self._agree(model, target, metric, size, None if drawn else False, exact)
        return prices.take(room.federation.sum, found, metric, size), metric

    def _prices_at(self, model: Array, size: int, step: float) -> tuple[Prices, Array]:
        """Prices whose lesson brings the learner from a model a step of the way to the goal, to first order."""
        curvature = self._with_penalty(self._curvature("priced", model), size)
        aim = self._measure @ prices.inverse(curvature)
        target = step * curvature @ (self._goal - model) + self._penalty(size).gradient(model)
        found = self._agree(model, target, aim, size)
        return prices.take(self._room.federation.sum, found, aim, size), aim

    def _proof(self, found: Prices, metric: Array, size: int) -> Proof | None:
        """A proof that no lesson of this size teaches the goal, nor any model within a radius; None: there is none."""
        if size not in self._proofs:  # it is there where another search with other lots found it
            points = [*reversed(found.levels)]
            if self._refits:  # what no row sees is asked for where everything may be
                points = [np.append(self._room.without_unseen(point[:-1]), point[-1]) for point in points]
            proof = proofs.prove(self._room, self._goal, size, points, metric, search=self._refits)
            if proof is None:
                return None
            self._proofs[size] = self._beyond_ball(proof)
        return self._proofs[size]

    def _for_size(self, proof: Proof, size: int, kept: int) -> Proof | None:
        """A proof for a lesson of other rows than it was found for."""
        if kept == size:
            return proof
        found = proofs.again(self._room, self._goal, kept, proof)
        return None if found is None else self._beyond_ball(found)

    def _beyond_ball(self, proof: Proof) -> Proof:
        """The same proof, with the way to a ball that no lesson leaves, where one is known and that is longer."""
        ball = self._ball()
        if ball is None:
            return proof
        return proof._replace(radius=max(proof.radius, float(np.linalg.norm(self._goal - ball[0])) - ball[1]))

    def _ball(self) -> tuple[Array, float] | None:
        """Centre and radius of a ball outside which no lesson of any size can bring the learner; None: none is known.

        With targets y = Xw without noise a ridge learner without intercept ends at A w with 0 ≤ A ≤ I, hence
        inside the ball with diameter [0, w].
        """
        room, goal = self._room, self._goal
        if room.measure != "coefficients":
            return None
        plain = room.learner.intercept == "none" and room.scaling.scale is None
        if not isinstance(room.learner.loss, Squared) or not plain or room.wide or not room.learner.ridge:
            return None
        zero: Moments = room.federation.sum(AskMoments("loss", "all", np.zeros_like(goal), 2))
        assert zero.curvature is not None
        truth: Array = np.linalg.pinv(zero.curvature, hermitian=True, rcond=1e-13) @ -zero.gradient
        left: Moments = room.federation.sum(AskMoments("loss", "all", truth, 1))
        radius = float(np.linalg.norm(truth)) / 2.0
        noisy = left.value > 1e-20 * zero.value
        return None if noisy or np.linalg.norm(goal - truth / 2.0) <= radius else (truth / 2.0, radius)

    def _round(self, found: Prices, metric: Array, size: int, lacking: float) -> Size:
        """Turn fractions, whose own lesson ends as far from the goal as `lacking`, into rows."""
        federation = self._room.federation
        if not self._together or metric.ndim == 1:
            return federation.sum(queries.RoundAlone(metric, self._seed))
        several, enough = self._room.learner.outputs > 1, rounding.close(size) * found.usual
        for slower in (rounding.SLOW_ENOUGH if lacking else rounding.SLOWEST) if several else rounding.SLOWER:
            weak = (rounding.WEAK if lacking else 0.0) if several else rounding.FLAT * found.balanced
            assign, left = self._settled(found, metric, size, slower * rounding.TILT, weak)
            short = several and np.linalg.norm(self._measure @ (metric.T @ left)) <= SHORT * lacking
            if short or np.linalg.norm(left) <= enough or not found.balanced or self._room.late:
                break
        return federation.sum(assign)

    def _settled(
        self, found: Prices, metric: Array, size: int, limit: float, weak: float
    ) -> tuple[queries.Assign, Array]:
        """Settle all rows together: which of the last ones to take, and what is left of the way to the goal."""
        federation = self._room.federation
        counted = found.idle_mass < 4.0 * np.sqrt(found.freedom)
        # A search that is repeated shall not find the same rows again: fewer take part, other ones each time.
        thin = rounding.THIN if self._again else rounding.thinning(size)
        play = queries.Play(metric, found.longest, found.idle, counted, thin, self._seed)
        target = np.append(found.aim if found.balanced else found.total, size * counted)
        start = federation.sum(play)

        def ask(order: Instruction) -> Report:
            asked = queries.Settle(order.tilt, order.cut, order.root, order.residual, order.take_back, self._seed)
            report = federation.sum(asked)
            # A residual r in units of M moves the model by M'r.
            left = self._measure @ (metric.T @ (target - report.total)[:-1])
            self._trace.append(float(np.linalg.norm(left)))
            federation.note(self._trace[-1])
            return report

        last = rounding.settle(ask, start, target, found.longest, federation.teachers, 0, rounding.ENOUGH, limit, weak)
        tally = federation.sum(queries.Tally(federation.teachers))
        free, settled, idle = (tuple(map(int, column)) for column in tally.T)
        shown = federation.sum(queries.Gather(free, play.width))
        rows, fractions, residual = shown[:, :-1], shown[:, -1], target - last.total
        missing = size - sum(settled)
        least, most = (missing if counted else max(0, missing - sum(idle))), max(missing, 0)
        draw, lacking = np.random.default_rng(self._seed), found.aim - target[:-1]
        starts = 1 if len(rows) > MANY else 2 if size > MANY or self._room.learner.outputs > 1 else STARTS
        taken = rounding.finish(rows, fractions, residual, least, most, draw, lacking, starts, limit, weak)
        left = (residual + fractions @ rows - taken @ rows)[:-1] + lacking
        fill = rounding.deal(missing - int(taken.sum()), idle)
        return queries.Assign(free, tuple(map(bool, taken)), fill), left

    def _predicted(self, kept: Size) -> float:
        """The risk to first order: H⁻¹ times the gradient at the goal, over the chosen rows."""
        room = self._room
        if room.wide or room.refuses(kept):
            return np.nan
        sums: Moments = room.federation.sum(AskMoments("loss", "chosen", self._goal, 2))
        assert sums.curvature is not None
        gradient = sums.gradient + self._target(kept.rows)
        step = prices.inverse(self._with_penalty(sums.curvature, kept.rows)) @ gradient
        return float(np.linalg.norm(self._measure @ step))


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()

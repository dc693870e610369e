"""Prices under noise: the script by which teachers agree on d + 1 numbers, of which no row can be told.

Everything here is computed from noisy totals, so every teacher computes the same and nobody needs to be asked twice:

1. `Widths` gives columns their units. `Sketch` tells how long pulls are and where they point.
2. Stand-in rows are drawn from that sketch, with lots that are the same everywhere. On them prices are planned: the cap, the
   share of rows that are likely, the first prices.
3. `Pull` measures what the lesson adds up to at these prices, the last time with half of the budget; prices move
   by Newton's step, bent as the stand-ins are and as noisy sums say. `PullChange` follows short steps at little noise.
4. `Bend` measures the curvature that turns the noise of the sums into a bound on the risk.
5. Every teacher then chooses by itself: of all fractions with its own sum at these prices those of rows that hold the model
   firmly (`firm_odds`), since the noise in the prices moves a firm lesson less. Nothing is said about that.

What was estimated with noise is shrunk towards what was expected by as much as noise explains (James and Stein; steps
direction by direction, as Tikhonov does).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from superteach.line.queries.private import (
    BINS,
    COUNT,
    FIRST,
    Bend,
    Cap,
    Private,
    Pull,
    PullChange,
    Release,
    Sketch,
    Widths,
    read_symmetric,
)
from superteach.types import Array

WIDTHS, COUNTS, SUMS, SQUARES, BENDS, CURVATURE = 0.03, 0.02, 0.06, 0.07, 0.01, 0.03
"""Shares of the budget for units of columns; lengths, directions, squares and curvatures of rows; and the stated risk."""
MANY_STEPS = ((0.01, 0.0), (0.01, 0.0), (0.015, 0.005), (0.02, 0.01), (0.04, 0.01), (0.5, 0.04))
FEW_STEPS = ((0.03, 0.0), (0.1, 0.0), (0.53, 0.0))
"""Shares of each measurement of the lesson's sum, and of how it bends. Cheap ones bring prices near, the last settles them.
Many help where noise is small (half the risk with 30 columns and 500,000 rows), few where it is not (with 5,000 rows)."""
PRECISE = 0.1
"""Error of log-odds that the last measurement is planned to leave, below which there are many steps. With 0.03 goals that
need long prices got few, and one lesson in seven of 30 columns and 500,000 rows ended 0.1 to 0.3 away; with 0.15 there is a
tenth more risk in 5,000 rows."""
CHANGES = (0.05, 0.03, 0.02, 0.02)
"""Shares of the measurements of changes, whose noise falls with the step."""
STANDINS = 2_048
"""Rows drawn from the sketch."""
LIKELY = (0.6, 0.5, 0.42, 0.35, 0.28, 0.22, 0.17, 0.12, 0.08, 0.05)
"""Probabilities of a row at prices 0, of which the best planned one is taken."""
CAPPED = (0.05, 0.1, 0.15, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95)
"""Quantiles of the lengths of pulls at which they may be capped, of which the best planned one is taken."""
LONG = 2.0
"""Root mean square of log-odds over stand-ins beyond which planned prices are cut: longer ones are hard to settle."""
STRIDE = 1.0
"""The most by which one step changes log-odds, as root mean square over stand-ins."""
DAMPED = (0.2, 0.05)
"""Share of its mean that is added to every curvature of prices, where they are not precise and where they are: with 0.05 a
quarter more risk in 5,000 rows, with 0.1 a third more with 30 columns and 500,000 rows, where weak directions matter."""
USUAL = 0.5
"""A usual step before it is measured, as root mean square of log-odds over stand-ins; twice or half of it change little."""
LEAST = 0.01
"""Least share of their largest that squares of rows in any direction have, beside what noise explains. With 0.1 stand-ins
bent too much in weak directions, and steps there were a tenth of what they should be."""
FIRM, FIRMEST = 2.0, 4.0
"""Log-odds that a row gains for each mean leverage that it has, and the most of them that count. With 1 lessons of 5,000
rows and 10 columns end a tenth farther away, with 0 two and a half times as far."""
MARGIN = 1.1
"""Factor on the stated risk for what first order and rounding leave out: without it 50 of 53 lessons were covered."""
CERTAIN = 5.0
"""Standard deviations that a count must exceed where one false octave would spoil all: once in three million counts."""
SURE = 3.0
"""Standard deviations of its noise that a count must exceed, or it is taken for 0."""
MIDDLES = np.exp2(np.arange(BINS) + FIRST - 0.5)
"""A length in each octave."""

Ask = Callable[[Private], Array]
Spread = Callable[[Release], float]


@dataclass(frozen=True, eq=False)
class Settled:
    """Prices as all teachers know them."""

    point: Array
    cap: Cap
    missing: Array
    """What the lesson's pulls lack at these prices, as far as noise lets it be known, in units of W g/C."""
    deviation: float
    """Standard deviation of each of these numbers."""
    curvature: Array
    """The learner's, on the lesson, in units W; noisy."""
    curvature_deviation: float
    firmness: float
    """How much more firmly the chosen rows hold the model than that, as far as stand-ins tell."""
    settled: bool
    """Whether the last step was short: then the sum at these prices is known, and a risk can be stated."""


@dataclass(frozen=True, eq=False)
class _Plan:
    """A cap, first prices, and the stand-ins under that cap."""

    cap: Cap
    point: Array
    rows: Array
    weight: float
    """Rows of the pool for which each stand-in stands."""
    target: Array
    strength: Array
    """What each stand-in adds to the learner's curvature when it is surely chosen, in units W."""
    precise: bool = False
    """Whether the last measurement will leave little noise in prices."""

    def strongest(self, point: Array) -> float:
        """A curvature that a row in twenty exceeds."""
        return float(np.quantile(self.strength * expit(self.cap.base + self.rows @ point), 0.95))

    def bend(self, point: Array) -> tuple[Array, Array, Array]:
        """The sum over stand-ins, its derivative, and their probabilities."""
        likely = expit(self.cap.base + self.rows @ point)
        bent = (self.rows.T * (likely * (1.0 - likely))) @ self.rows
        return self.weight * (likely @ self.rows), self.weight * bent, likely


def agree(
    ask: Ask, spread: Spread, model: Array, penalty: Array, size: float, rows: int, free: int, most: float
) -> Settled:
    """Find prices at which about `size` of `rows` rows pull at `model` as strongly as the learner's penalty does.

    `spread` gives the standard deviation of a release's total. The first `free` coefficients have columns of rows, an
    intercept behind them has none. `most` bounds the loss's second derivative (1 where there is no bound).
    """
    weights = np.ones(len(model))
    counted = Widths(free, WIDTHS)
    found = ask(counted).reshape(free, BINS)
    weights[:free] = [1.0 / size_of(one, spread(counted.releases[0])) for one in found]
    sketch = Sketch(model, weights, 2.0 * most * len(model), (COUNTS, SUMS, SQUARES, BENDS))
    drawn = _drawn(sketch, ask(sketch), spread, rows)
    plan = _planned(drawn, weights, penalty, penalty * model, size, rows, spread)
    cap, point, width = plan.cap, plan.point, len(plan.point)
    for share, bent_share in MANY_STEPS if plan.precise else FEW_STEPS:
        asked = Pull(point, cap, share, bent_share)
        told = ask(asked)
        total, variance = told[:width], spread(asked.releases[0]) ** 2
        bent = plan.bend(point)[1]
        if bent_share:
            bent = _shrunk_towards(bent, read_symmetric(told[width:], width), spread(asked.releases[1]))
        bent = bent + np.eye(width) * (DAMPED[plan.precise] * np.trace(bent) / width)
        # Of what is left, that which a likely step explains: a step as long as `USUAL`, against noise of this variance.
        likely = variance / USUAL**2 * (plan.rows.T @ plan.rows) / STANDINS
        wanted = total - bent @ np.linalg.solve(bent @ bent + likely, bent @ (total - plan.target))
        before, point = point, _moved(plan, point, bent, total - wanted)
    for share in CHANGES:
        changed = PullChange(before, point, cap, share)
        total = total + ask(changed)
        variance += spread(changed.releases[0]) ** 2
        before, point = point, _moved(plan, point, bent, total - wanted)
    curved = Bend(before, cap, plan.strongest(before), CURVATURE)
    curvature = read_symmetric(ask(curved), len(model))
    step = plan.rows @ (point - before)
    return Settled(
        point,
        cap,
        (wanted - plan.target)[:-1],
        float(np.sqrt(variance)),
        curvature,
        spread(curved.releases[0]),
        _firmness(plan, drawn, before, penalty),
        bool(np.sqrt(np.mean(np.square(step))) < 0.5 * STRIDE),
    )


def stated_risk(
    found: Settled, penalty: Array, measure: Array, level: float = 0.95, draws: int = 4_000
) -> float | None:
    """A risk exceeded with a probability of at most 1 − `level`, from the noise alone; None where none can be stated.

    `measure` turns coefficients into raw units. The taught model misses the goal by H⁻¹ times what pulls lack, to first
    order; H is the noisy curvature, less what noise may have added to it.
    """
    if not found.settled:
        return None
    cap, width = found.cap, len(penalty)
    values, axes = np.linalg.eigh(found.curvature)
    lower = np.maximum(values - np.sqrt(width) * found.curvature_deviation, 0.1 * max(values.max(), 0.0))
    inverse = 1.0 / cap.weights
    lower *= found.firmness
    curvature = cap.scale * ((axes * lower) @ axes.T) * np.outer(inverse, inverse) + np.diag(penalty)
    try:
        moves = measure @ np.linalg.solve(curvature, np.diag(cap.scale * cap.length * inverse))
    except np.linalg.LinAlgError:
        return None
    noise = np.random.default_rng(0).standard_normal((draws, width)) * found.deviation
    return MARGIN * float(np.quantile(np.linalg.norm((noise - found.missing) @ moves.T, axis=1), level))


@dataclass(frozen=True, eq=False)
class _StandIns:
    """Rows drawn from the sketch: directions and lengths of their pulls, and how they bend the learner's objective."""

    directions: Array
    lengths: Array
    curvature: Array


def _drawn(sketch: Sketch, told: Array, spread: Spread, rows: int) -> _StandIns:
    """Draw rows that look like the noisy sketch, the same ones everywhere."""
    width = len(sketch.model)
    noise = [spread(part) for part in sketch.releases]
    ends = np.cumsum([part.numbers for part in sketch.releases])
    counts, sums, packed, bends = np.split(told, ends[:-1])
    counts = sure_counts(counts, noise[0])
    share, members = counts / counts.sum(), np.maximum(counts, 1.0)
    squares = _shrunk_towards(np.eye(width) / width, read_symmetric(packed, width) / rows, noise[2] / rows)
    means = sums.reshape(BINS, width) / members[:, None]
    kept = np.array([_kept(one, width * (noise[1] / many) ** 2) for one, many in zip(means, members, strict=True)])
    long = np.maximum(np.linalg.norm(means, axis=1) * kept, 1e-300)
    means = means * (kept * np.minimum(1.0, 0.95 / long) * (counts > 0.0))[:, None]
    values, axes = np.linalg.eigh(squares - (means.T * share) @ means)
    least = max(LEAST * values.max(), np.sqrt(width) * noise[2] / rows)
    root = axes * np.sqrt(np.maximum(values, least))
    curvature = np.clip(bends / members, 0.0, 1.0)
    lots, half = np.random.default_rng(0), STANDINS // 2
    # Half of them mirror the other half, so that means are met.
    deviation = np.vstack([one := lots.standard_normal((half, width)), -one]) @ root.T
    octave = np.searchsorted(np.cumsum(share), lots.permutation((np.arange(half) + 0.5) / half))
    octave = np.tile(np.minimum(octave, BINS - 1), 2)
    directions = means[octave] + deviation
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    lengths = MIDDLES[octave] * np.tile(np.exp2(lots.random(half) - 0.5), 2)
    return _StandIns(directions, lengths, sketch.most * np.maximum(curvature, 0.02 * curvature.max() + 1e-9)[octave])


def _planned(
    drawn: _StandIns, weights: Array, penalty: Array, target: Array, size: float, rows: int, spread: Spread
) -> _Plan:
    """The cap and the share of likely rows that promise the least risk, on stand-ins."""
    best, found, width, each = np.inf, None, len(target) + 1, rows / STANDINS
    for quantile in CAPPED:
        length = float(np.quantile(drawn.lengths, quantile))
        kept = 1.0 / np.maximum(1.0, np.hypot(drawn.lengths / length, COUNT))
        capped = np.column_stack([drawn.directions * (drawn.lengths * kept / length)[:, None], COUNT * kept])
        point = np.zeros(width)
        for likely in LIKELY:
            there = min(size, likely * kept.mean() * rows)
            cap = Cap(weights, length, float(logit(likely)), float(there / (rows * likely * kept.mean())))
            aim = np.append(weights * target / length, COUNT * there) / cap.scale
            plan = _Plan(cap, point, capped, each, aim, kept * drawn.curvature)
            point = _balanced(plan)
            plan = replace(plan, point=point)
            total, bent, chance = plan.bend(point)
            noise = spread(Pull(point, cap, MANY_STEPS[-1][0]).releases[0])
            rough = noise * float(np.sqrt(np.mean(np.maximum(np.linalg.eigvalsh(bent), 1e-9) ** -2.0)))
            # The learner's curvature on the lesson in units W turns what pulls lack into a risk.
            strength = each * cap.scale * chance * plan.strength
            hessian = (drawn.directions.T * strength) @ drawn.directions + np.diag(penalty / weights**2)
            moves = cap.scale * length * weights[:, None] * np.linalg.inv(hessian)
            risk = noise * (1.0 + rough) * np.linalg.norm(moves) + np.linalg.norm(moves @ (total - aim)[:-1])
            long = float(np.sqrt(np.mean(np.square(capped @ point)))) / LONG
            score = float(risk) * (1.0 + long**4) * (size / there) ** 2
            if score < best:
                best, found = score, replace(plan, precise=bool(rough < PRECISE))
    assert found is not None
    return found


def _balanced(plan: _Plan) -> Array:
    """Prices at which the stand-ins balance, or such as are not too long."""
    point = plan.point
    for _ in range(25):
        total, bent, _ = plan.bend(point)
        bent = bent + np.eye(len(point)) * (0.02 * np.trace(bent) / len(point))
        step = np.linalg.solve(bent, total - plan.target)
        length = float(np.linalg.norm(step))
        point = point - step * min(1.0, 1.5 / max(length, 1e-300))
        odds = float(np.sqrt(np.mean(np.square(plan.rows @ point))))
        if odds > LONG:
            return np.asarray(point * (LONG / odds))
        if length < 1e-3:
            break
    return point


def firm_odds(fractions: Array, leverage: Array) -> Array:
    """Log-odds of fractions, moved towards rows of large leverage."""
    mean = float(fractions @ leverage) / float(fractions.sum())
    return np.asarray(logit(fractions) + FIRM * np.minimum(leverage / max(mean, 1e-300), FIRMEST))


def _firmness(plan: _Plan, drawn: _StandIns, point: Array, penalty: Array) -> float:
    """Factor on the learner's curvature by which stand-ins hold the model more firmly once teachers have chosen.

    Its square root: stand-ins know an octave's mean curvature alone. Over 129 lessons of eight kinds the root was too much
    for one of them, the factor itself for six.
    """
    from scipy.optimize import minimize

    likely = plan.cap.scale * plan.rows[:, -1] / COUNT * expit(plan.cap.base + plan.rows @ point)
    fractions = np.clip(likely, 1e-9, 1.0 - 1e-9)

    def curvature(chosen: Array) -> Array:
        bent = (drawn.directions.T * (plan.weight * chosen * drawn.curvature)) @ drawn.directions
        return np.asarray(bent + np.diag(penalty / plan.cap.weights**2))

    before = curvature(fractions)
    leverage = drawn.curvature * np.einsum("ij,ji->i", drawn.directions, np.linalg.solve(before, drawn.directions.T))
    odds = firm_odds(fractions, leverage)
    pulls = np.column_stack([drawn.directions * drawn.lengths[:, None], np.ones(STANDINS)])
    pulls /= np.sqrt(np.mean(np.square(pulls), axis=0))
    target = fractions @ pulls

    def relaxed(prices: Array) -> tuple[float, Array]:
        at = odds + pulls @ prices
        return float(np.logaddexp(0.0, at).sum() - target @ prices), expit(at) @ pulls - target

    found = minimize(relaxed, np.zeros(pulls.shape[1]), jac=True, method="BFGS")
    if np.linalg.norm(found.jac) > 1e-3 * np.linalg.norm(target):  # not balanced: nothing is known
        return 1.0
    gained = np.linalg.solve(before, curvature(expit(odds + pulls @ found.x)))
    return float(np.sqrt(max(np.trace(gained) / len(gained), 1.0)))


def _moved(plan: _Plan, point: Array, bent: Array, left: Array) -> Array:
    """Newton's step, no longer than `STRIDE`; the last bits are dropped, in which machines differ."""
    step = np.linalg.solve(bent, left)
    stride = float(np.sqrt(np.mean(np.square(plan.rows @ step))))
    point = point - step * min(1.0, STRIDE / max(stride, 1e-300))
    return np.asarray(np.round(point, 9))


def sure_counts(counts: Array, noise: float) -> Array:
    """Counts that stand out of their noise; all alike where none does."""
    kept: Array = np.where(counts > SURE * noise, counts, 0.0)
    return kept if kept.any() else np.ones(BINS)


def size_of(counts: Array, noise: float) -> float:
    """Root mean square of a column, from counts by octave that surely are no noise: one false octave could be any size."""
    sure = np.where(counts > CERTAIN * noise, counts, 0.0)
    return (
        float(np.sqrt(sure @ MIDDLES**2 / sure.sum())) if sure.any() else quantile_of(sure_counts(counts, noise), 0.6)
    )


def quantile_of(counts: Array, share: float) -> float:
    """A length below which a share of the rows lies, from counts by octave."""
    below = np.append(0.0, np.cumsum(counts) / counts.sum())
    octave = int(np.clip(np.searchsorted(below, share) - 1, 0, BINS - 1))
    within = (share - below[octave]) / max(below[octave + 1] - below[octave], 1e-12)
    return float(MIDDLES[octave] * np.exp2(np.clip(within, 0.0, 1.0) - 0.5))


def _kept(found: Array, noise: float) -> float:
    """The part of a vector that noise of this expected square does not explain."""
    return max(0.0, 1.0 - noise / max(float(np.sum(np.square(found))), 1e-300))


def _shrunk_towards(expected: Array, found: Array, noise: float) -> Array:
    """A symmetric matrix between what was expected and what was found with noise in each of its numbers."""
    away = found - expected
    width = len(expected)
    return np.asarray(expected + away * _kept(away, 0.5 * width * (width + 1) * noise**2))

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

What was estimated with noise is shrunk towards what was expected by as much as noise explains (James and Stein).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from superteach.line.queries import Bend, Private, Pull, PullChange, Sketch, Widths
from superteach.line.queries.common import upper_triangle
from superteach.line.queries.private import BINS, COUNT, FIRST, SIDES, Cap, Release, pack_symmetric, read_symmetric
from superteach.types import Array, Positions

WIDTHS, COUNTS, COSINES, SUMS, SQUARES, BENDS, CURVATURE = 0.03, 0.02, 0.02, 0.06, 0.07, 0.01, 0.03
"""Shares of the budget for units of columns; lengths, cosines with the goal, directions, squares and curvatures of rows; and
the stated risk."""
STEPS = ((0.01, 0.0), (0.01, 0.0), (0.015, 0.005), (0.02, 0.01), (0.04, 0.01), (0.5, 0.04))
"""Shares of measurements of the lesson's sum, and of how it bends. Cheap ones bring prices near, the last settles them."""
CHANGES = (0.05, 0.03, 0.02)
"""Shares of the measurements of changes, whose noise falls with the step."""
STANDINS = 4_096
"""Rows drawn from the sketch."""
LIKELY = (0.6, 0.5, 0.42, 0.35, 0.28, 0.22, 0.17, 0.12, 0.08, 0.05)
"""Probabilities of a row at prices 0, of which the best planned one is taken."""
CAPPED = (0.05, 0.1, 0.15, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95)
"""Quantiles of the lengths of pulls at which they may be capped, of which the best planned one is taken."""
FARTHEST = 20.0
"""Root mean square of log-odds over stand-ins of the farthest planned prices: they run away where a goal is out of reach."""
UNSURE = 4.0
"""Power of 1 + the error of log-odds by which a planned risk grows: what first order leaves out. With 1 lessons of 5,000
rows end up to a third farther away."""
STRIDE, SHORT = 2.0, 0.5
"""Most change of log-odds by a step, as root mean square over stand-ins, and the most left over where a risk is stated."""
STIFF = 1e-3
"""Share of its mean that is added to every curvature of prices; with 0.05 goals at the edge of reach end twice as far."""
LEAST = 0.01
"""Least share of their largest that squares of rows in any direction have, beside what noise explains. With 0.1 stand-ins
bent too much in weak directions, and steps there were a tenth of what they should be."""
FIRM, FIRMEST = 2.0, 4.0
"""Log-odds that a row gains for each mean leverage that it has, and the most of them that count. With 1 lessons of 5,000
rows and 10 columns end a tenth farther away, with 0 two and a half times as far."""
MARGIN = 1.1
"""Factor on the stated risk for what first order and rounding leave out: without it the bound covered 8 of 10 lessons of ten
teachers with 500,000 rows, and 8 of 9 of ridge regression."""
CERTAIN = 5.0
"""Standard deviations that a count must exceed where one false octave would spoil all: once in three million counts."""
SURE = 3.0
"""Standard deviations of its noise that a number must exceed to be kept whatever others say; a count is 0 below."""
EDGES = np.concatenate([-(sizes := np.exp2(0.5 * np.arange(1 - SIDES // 2, 1)))[::-1], [0.0], sizes])
"""Where cells of cosines begin and end."""
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
    weights, counted = np.ones(len(model)), Widths(free, WIDTHS)
    found = ask(counted).reshape(free, BINS)
    weights[:free] = [1.0 / size_of(one, spread(counted.releases[0])) for one in found]
    sketch = Sketch(model, weights, 2.0 * most * len(model), (COUNTS, COSINES, SUMS, SQUARES, BENDS))
    drawn = _drawn(sketch, ask(sketch), spread, rows)
    plan = _planned(drawn, weights, penalty, penalty * model, size, rows, spread)
    cap, point, width = plan.cap, plan.point, len(plan.point)
    for share, bent_share in STEPS:
        asked = Pull(point, cap, share, bent_share)
        told = ask(asked)
        total, variance = told[:width], spread(asked.releases[0]) ** 2
        bent = plan.bend(point)[1]
        if bent_share:
            bent = _shrunk_towards(bent, read_symmetric(told[width:], width), spread(asked.releases[1]))
        bent = bent + np.eye(width) * (STIFF * abs(np.trace(bent)) / width + 1e-9)  # wrong totals leave nothing to bend
        wanted = total - _explained(bent, total - plan.target, variance)
        before, point = point, _moved(plan, point, bent, total - wanted)
    for share in CHANGES:
        changed = PullChange(before, point, cap, share)
        noise, foreseen = spread(changed.releases[0]) ** 2, bent @ (point - before)
        total = total + foreseen + _explained(bent, ask(changed) - foreseen, noise)
        variance += noise
        before, point = point, _moved(plan, point, bent, total - wanted)
    curved = Bend(before, cap, float(np.quantile(plan.strength * plan.bend(before)[2], 0.95)), CURVATURE)
    curvature, firmness = read_symmetric(ask(curved), len(model)), _firmness(plan, drawn, before, penalty)
    missing, deviation = (wanted - plan.target)[:-1], float(np.sqrt(variance))
    ended = _stride(plan.rows, np.asarray(np.linalg.solve(bent, total - wanted), dtype=np.float64)) < SHORT
    return Settled(point, cap, missing, deviation, curvature, spread(curved.releases[0]), firmness, ended)


def stated_risk(found: Settled, penalty: Array, measure: Array, level: float = 0.95) -> float | None:
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
    curvature = cap.scale * found.firmness * ((axes * lower) @ axes.T) * np.outer(inverse, inverse) + np.diag(penalty)
    try:
        moves = measure @ np.linalg.solve(curvature, np.diag(cap.scale * cap.length * inverse))
    except np.linalg.LinAlgError:
        return None
    noise = np.random.default_rng(0).standard_normal((4_000, width)) * found.deviation
    return MARGIN * float(np.quantile(np.linalg.norm((noise - found.missing) @ moves.T, axis=1), level))


@dataclass(frozen=True, eq=False)
class _StandIns:
    """Rows drawn from the sketch: directions and lengths of their pulls, and how they bend the learner's objective."""

    directions: Array
    lengths: Array
    curvature: Array


def _drawn(sketch: Sketch, told: Array, spread: Spread, rows: int) -> _StandIns:
    """Draw rows that look like the noisy sketch, the same ones everywhere."""
    width, noise = len(sketch.model), [spread(part) for part in sketch.releases]
    ends = np.cumsum([part.numbers for part in sketch.releases])
    counts, sides, sums, packed, bends = np.split(told, ends[:-1])
    counts = sure_counts(counts, noise[0])
    share, members = counts / counts.sum(), np.maximum(counts, 1.0)
    squares = _shrunk_towards(np.eye(width) / width, read_symmetric(packed, width) / rows, noise[3] / rows)
    means = sums.reshape(BINS, width) / members[:, None]
    kept = [_kept(one, np.ones(width), (noise[2] / many) ** 2) for one, many in zip(means, members, strict=True)]
    means = means * np.array(kept) * (counts > 0.0)[:, None]
    means /= np.maximum(1.0, np.linalg.norm(means, axis=1) / 0.95)[:, None]
    values, axes = np.linalg.eigh(squares - (means.T * share) @ means)
    least = max(LEAST * values.max(), np.sqrt(width) * noise[3] / rows)
    root = axes * np.sqrt(np.maximum(values, least))
    curvature = np.clip(bends / members, 0.0, 1.0)
    lots, half = np.random.default_rng(0), STANDINS // 2
    # Half of them mirror the other half, so that means are met.
    deviation = np.vstack([one := lots.standard_normal((half, width)), -one]) @ root.T
    octave = np.searchsorted(np.cumsum(share), lots.permutation((np.arange(half) + 0.5) / half))
    octave = np.tile(np.minimum(octave, BINS - 1), 2).astype(np.int64)
    directions = means[octave] + deviation
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    sides = np.where(sides > CERTAIN * noise[1], sides, 0.0).reshape(BINS, SIDES)
    sides /= np.maximum(members, sides.sum(axis=1))[:, None]
    directions = _turned(directions, sketch.model / sketch.weights, octave, sides, lots)
    lengths = MIDDLES[octave] * np.tile(np.exp2(lots.random(half) - 0.5), 2)
    return _StandIns(directions, lengths, sketch.most * np.maximum(curvature, 0.02 * curvature.max() + 1e-9)[octave])


def _turned(directions: Array, goal: Array, octave: Positions, sides: Array, lots: np.random.Generator) -> Array:
    """Rows turned until their cosines with the goal are those counted in their octave, of which `sides` has the shares.

    A margin decides how long a row pulls and how much of that is along the goal: with cosines drawn for themselves goals
    seemed to be within reach that were not.
    """
    goal = goal / max(float(np.linalg.norm(goal)), 1e-300)
    cosine = directions @ goal
    across = directions - np.outer(cosine, goal)
    for one in np.unique(octave):
        here = np.flatnonzero(octave == one)
        cell = np.searchsorted(np.cumsum(sides[one]), lots.permutation((np.arange(len(here)) + 0.5) / len(here)))
        here, cell = here[cell < SIDES], cell[cell < SIDES]  # others are in cells of which no count is certain
        cosine[here] = lots.uniform(EDGES[cell], EDGES[cell + 1])
    across *= (np.sqrt(1.0 - cosine**2) / np.maximum(np.linalg.norm(across, axis=1), 1e-300))[:, None]
    return np.asarray(across + np.outer(cosine, goal))


def _planned(
    drawn: _StandIns, weights: Array, penalty: Array, target: Array, size: float, rows: int, spread: Spread
) -> _Plan:
    """The cap and the share of likely rows that promise the least risk, on stand-ins."""
    best, found, width, each = (True, np.inf), None, len(target) + 1, rows / STANDINS
    for quantile in CAPPED:
        length = float(np.quantile(drawn.lengths, quantile))
        kept = 1.0 / np.maximum(1.0, np.hypot(drawn.lengths / length, COUNT))
        capped = np.column_stack([drawn.directions * (drawn.lengths * kept / length)[:, None], COUNT * kept])
        point = np.zeros(width)
        for likely in LIKELY:
            there = min(size, likely * kept.mean() * rows)
            cap = Cap(weights, length, float(logit(likely)), float(there / (rows * likely * kept.mean())))
            aim = np.append(weights * target / length, COUNT * there) / cap.scale
            point = _balanced(capped, cap.base, aim / each, point)
            plan = _Plan(cap, point, capped, each, aim, kept * drawn.curvature)
            total, bent, chance = plan.bend(point)
            noise = spread(Pull(point, cap, STEPS[-1][0]).releases[0])
            rough = noise * float(np.sqrt(np.mean(np.maximum(np.linalg.eigvalsh(bent), 1e-9) ** -2.0)))
            # The learner's curvature on the lesson in units W turns what pulls lack into a risk.
            strength = each * cap.scale * chance * plan.strength
            hessian = (drawn.directions.T * strength) @ drawn.directions + np.diag(penalty / weights**2)
            moves = cap.scale * length * weights[:, None] * np.linalg.inv(hessian)
            missed, heard = np.linalg.norm(moves @ (total - aim)[:-1]), noise * np.linalg.norm(moves)
            risk = float(heard * (1.0 + min(rough, 1.0)) ** UNSURE + missed) * (size / there) ** 2
            # First order says too little of a goal that is not reached, so one that is comes before all others.
            if (score := (bool(missed > heard), risk)) < best:
                best, found = score, plan
    assert found is not None
    return found


def _balanced(rows: Array, odds: Array | float, target: Array, point: Array) -> Array:
    """Prices u at which Σ σ(odds + u'e_j) e_j is the target; where they run away, prices on the way."""

    def value(at: Array) -> float:
        return float(np.logaddexp(0.0, odds + rows @ at).sum() - target @ at)

    for _ in range(40):
        likely = expit(odds + rows @ point)
        left, bent = likely @ rows - target, (rows.T * (likely * (1.0 - likely))) @ rows
        step = np.linalg.solve(bent + np.eye(len(point)) * (1e-6 * np.trace(bent) / len(point) + 1e-12), left)
        fall, here = 0.1 * float(step @ left), value(point)
        if fall < 1e-7 * STANDINS:
            break
        for part in np.exp2(-np.arange(12.0)):
            new = point - part * step
            if _stride(rows, new) <= FARTHEST and value(new) <= here - part * fall:
                break
        else:
            break
        point = new
    return point


def firm_odds(fractions: Array, leverage: Array) -> Array:
    """Log-odds of fractions, moved towards rows of large leverage."""
    mean = float(fractions @ leverage) / float(fractions.sum())
    return np.asarray(logit(fractions) + FIRM * np.minimum(leverage / max(mean, 1e-300), FIRMEST))


def _firmness(plan: _Plan, drawn: _StandIns, point: Array, penalty: Array) -> float:
    """Factor on the learner's curvature by which stand-ins hold the model more firmly once teachers have chosen.

    Over 201 lessons of five kinds (5,000 to 100,000 rows, 10 and 30 columns, raw units, ridge) the bound with it was
    exceeded twice.
    """
    fractions = np.clip(plan.cap.scale * plan.rows[:, -1] / COUNT * plan.bend(point)[2], 1e-9, 1.0 - 1e-9)

    def curvature(chosen: Array) -> Array:
        bent = (drawn.directions.T * (plan.weight * chosen * drawn.curvature)) @ drawn.directions
        return np.asarray(bent + np.diag(penalty / plan.cap.weights**2))

    before = curvature(fractions)
    leverage = drawn.curvature * np.einsum("ij,ji->i", drawn.directions, np.linalg.solve(before, drawn.directions.T))
    odds = firm_odds(fractions, leverage)
    pulls = np.column_stack([drawn.directions * drawn.lengths[:, None], np.ones(STANDINS)])
    pulls /= np.sqrt(np.mean(np.square(pulls), axis=0))
    target = fractions @ pulls
    chosen = expit(odds + pulls @ _balanced(pulls, odds, target, np.zeros(pulls.shape[1])))
    if np.linalg.norm(chosen @ pulls - target) > 1e-3 * np.linalg.norm(target):  # not balanced: nothing is known
        return 1.0
    gained = np.linalg.solve(before, curvature(chosen))
    return max(float(np.trace(gained)) / len(gained), 1.0)


def _stride(rows: Array, step: Array) -> float:
    """How far a step changes log-odds, as root mean square."""
    return float(np.sqrt(np.mean(np.square(rows @ step))))


def _moved(plan: _Plan, point: Array, bent: Array, left: Array) -> Array:
    """Newton's step, in weak directions cut to `STRIDE`; the last bits are dropped, in which machines differ."""
    for push in (0.0, *np.exp2(np.arange(-20.0, 20.0))):
        step = np.linalg.solve(bent + push * plan.weight * (plan.rows.T @ plan.rows), left)
        if _stride(plan.rows, step) <= STRIDE:
            break
    return np.asarray(np.round(point - step * min(1.0, STRIDE / max(_stride(plan.rows, step), 1e-300)), 9))


def sure_counts(counts: Array, noise: float) -> Array:
    """Counts that stand out of their noise; all alike where none does."""
    kept: Array = np.where(counts > SURE * noise, counts, 0.0)
    return kept if kept.any() else np.ones(BINS)


def size_of(counts: Array, noise: float) -> float:
    """Root mean square of a column, from counts by octave that surely are no noise: one false octave could be any size."""
    sure = np.where(counts > CERTAIN * noise, counts, 0.0)
    if not sure.any():
        return quantile_of(sure_counts(counts, noise), 0.6)
    return float(np.sqrt(sure @ MIDDLES**2 / sure.sum()))


def quantile_of(counts: Array, share: float) -> float:
    """A length below which a share of the rows lies, from counts by octave."""
    below = np.append(0.0, np.cumsum(counts) / counts.sum())
    octave = int(np.clip(np.searchsorted(below, share) - 1, 0, BINS - 1))
    within = (share - below[octave]) / max(below[octave + 1] - below[octave], 1e-12)
    return float(MIDDLES[octave] * np.exp2(np.clip(within, 0.0, 1.0) - 0.5))


def _kept(found: Array, sizes: Array, noise: float) -> Array:
    """The part of each number that noise of this variance does not explain, where squares are likely to be as `sizes`."""
    square = np.square(found)
    likely = max(float(square.sum()) - len(found) * noise, 0.0) * (sizes / max(float(sizes.sum()), 1e-300))
    return np.maximum(likely / np.maximum(likely + noise, 1e-300), 1.0 - SURE**2 * noise / np.maximum(square, 1e-300))


def _explained(bent: Array, left: Array, noise: float) -> Array:
    """What of a sum noise does not explain, in the directions in which prices bend it."""
    found = (axes := np.linalg.eigh(bent)[1]).T @ left
    return np.asarray(axes @ (found * _kept(found, np.ones(len(found)), noise)))


def _shrunk_towards(expected: Array, found: Array, noise: float) -> Array:
    """A symmetric matrix between what was expected and what was found with noise in each of its numbers."""
    values, axes = np.linalg.eigh(expected)
    away, sizes = pack_symmetric(axes.T @ (found - expected) @ axes), np.outer(values, values)
    kept = _kept(away, sizes[upper_triangle(len(values))], noise**2)
    return np.asarray(expected + axes @ read_symmetric(away * kept, len(values)) @ axes.T)

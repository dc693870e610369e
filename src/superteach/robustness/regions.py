"""Proof for few free coefficients: linear programmes over regions of them, by branch and bound.

Rows with weights w ∈ [0, 1] have the model θ where Σ w_j ℓ'_j(x_j'θ) x_j + Pθ = 0: linear in w for a given θ. When rows
leave little by little, the coefficient a'θ passes its value c exactly, so at least

    min { Σ (1 − w_j) : 0 ≤ w ≤ 1, Σ w_j ℓ'_j(x_j'θ) x_j = −Pθ }     over all θ with a'θ = c

rows must go. Write θ = θ_c + Bγ. For one γ this is a linear programme, and any λ gives a lower bound for it,

    D(λ, γ) = n − Σ_j (1 + λ'x_j ℓ'_j(x_j'θ))₊ − λ'Pθ.

For a simplex of γ every ℓ'_j lies between two parallel lines in x_j'θ (the chord, shifted), so D is at least a function
that is concave in γ: its least value is at a corner. Bisecting the simplex brings the lines together. A squared loss has a
linear ℓ', and no gap between the lines.

No simplex is needed far out: with at most k rows gone, F_w(θ_w) ≤ F_w(θ_c) and F_w is convex, so F_w ≤ F_w(θ_c) on the
whole segment between the two, and no such point lies where the sum of ℓ_j(x_j'θ) − ℓ_j(x_j'θ_c), without its k largest
terms, is above 0. A box with that property on its faces holds every θ_w.

Classical significance of least squares: with m rows left and p coefficients, |t| ≤ q says RSS(a'θ = 0) ≤ (1 + κ) RSS,
κ = q²/(m − p). The left side is the least over γ of Σ w r_j(γ)²; and RSS is the least over all models, so for the γ of the
left side and every δ

    Σ_j w_j (r_j(γ)² − (1 + κ)(r_j(γ) + x_j'δ)²) ≤ 0

and for every s ≥ 0 at least D = n − Σ_j (1 + s κ r² + 2 s (1 + κ) r x_j'δ + s (1 + κ)(x_j'δ)²)₊ rows must go. For given
s and δ this is concave in γ: least at a corner of a simplex. For one γ the best (s, δ) closes the gap, by convexity in w.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from superteach.losses.scalar import Squared
from superteach.robustness.regression import Regression, Significance
from superteach.types import Array, Positions

ROUNDING = 1e-12
"""Error of a sum of n terms in float64, as a share of the sum of their absolute values; n·2⁻⁵³ is below it up to 9,000
terms added one by one, and NumPy adds pairwise."""

SMOOTHING = (1.0, 0.3, 0.1, 0.03, 0.01)
"""Widths of the smooth stand-in for (·)₊, in rows; any multiplier gives a bound, narrower ones hardly better ones."""
NEWTON = 8
"""Newton steps for each of them."""
UNBOUNDED = 1e6
"""Size of a row's term, in rows, from which on a dual counts as unbounded."""


FIRST_BOX, LARGEST_BOX = 4.0, 1e4
"""Half the edge of the first box and of the largest, in units in which residuals (or log-odds) move by 1 on average."""
CUTS = 12
"""Models at most whose residuals stand for RSS in a linear programme; it mostly settles after six."""
Moments = tuple[float, Array, Array]
Report = Callable[[str], None]


@dataclass(eq=False)
class Region:
    """A simplex of models: its halves where it was bisected, else the λ whose bound is good enough on it."""

    multiplier: Array
    halves: list[Region] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class RegionProof:
    """No `count` rows are enough: bisect the box as was done here, and evaluate one sum for each simplex that is left."""

    count: int
    radius: float
    """The box is |γ_i| ≤ radius."""
    regions: tuple[Region, ...]
    faces: tuple[Region, ...]
    """Those of the faces of the box, whose multipliers say nothing."""


class Slice:
    """The models with a'θ = c, as θ_c + Bγ, and what rows look like there."""

    def __init__(self, regression: Regression, direction: Array, threshold: float) -> None:
        """Fit θ_c on all rows, and choose B such that a step of 1 in γ moves x'θ by about the size of residuals."""
        self.regression = regression
        length = float(direction @ direction)
        basis = np.linalg.svd(direction[None, :])[2][1:].T
        origin = direction * (threshold / length)
        start = basis.T @ (regression.model - origin)
        inner = regression.minimise(regression.counts, regression.penalty, origin, start, basis)
        self.centre = origin + basis @ inner
        eta = regression.rows @ self.centre
        terms = regression.loss.terms(eta, regression.target)
        bent = basis.T @ regression.hessian(self.centre, np.ones(regression.count, dtype=bool)) @ basis
        values, axes = np.linalg.eigh(bent) if bent.size else (np.zeros(0), np.zeros((0, 0)))
        size = float(np.sqrt(np.sum(np.square(terms.slope)) / max(np.mean(terms.curvature), 1e-12)))
        self.basis = basis @ (axes * (size / np.sqrt(np.maximum(values, 1e-14)))) if bent.size else basis
        self.eta = eta
        self.moves = regression.rows @ self.basis
        self.losses = terms.value
        self.penalty = regression.penalty
        self.usable = bool(np.isfinite(inner).all())

    @property
    def free(self) -> int:
        """How many coefficients are free."""
        return int(self.basis.shape[1])

    def bound(self, corners: Array, multiplier: Array) -> float:
        """Bound from below how many rows must go for any model of a simplex, safe against rounding."""
        regression = self.regression
        factor = regression.rows @ multiplier
        eta = self.eta[:, None] + self.moves @ corners.T
        lower, upper = slope_lines(regression, eta)
        terms = np.maximum(np.maximum(1.0 + factor[:, None] * upper, 1.0 + factor[:, None] * lower), 0.0)
        pull = multiplier @ self.penalty @ (self.centre[:, None] + self.basis @ corners.T)
        sums = regression.count - terms.sum(axis=0) - pull
        doubt = ROUNDING * (
            regression.count + (1.0 + np.abs(factor)[:, None] * np.abs(upper)).sum(axis=0) + np.abs(pull)
        )
        return float((sums - doubt).min())

    def multiplier(self, point: Array) -> Array:
        """Maximise D(λ, γ) over λ, in which it is concave, by Newton on a smooth stand-in for (·)₊."""
        regression = self.regression
        slope = regression.loss.gradient(self.eta + self.moves @ point, regression.target)
        rows = regression.rows * slope[:, None]
        pull = self.penalty @ (self.centre + self.basis @ point)

        def function(at: Array, width: float) -> Moments:
            inner = 1.0 + rows @ at
            share = special.expit(inner / width)
            bent = (rows * (share * (1.0 - share) / width)[:, None]).T @ rows
            value = float(width * np.logaddexp(0.0, inner / width).sum() + pull @ at)
            return value, rows.T @ share + pull, bent + 1e-12 * (np.trace(bent) + 1.0) * np.eye(len(at))

        def longest(at: Array, step: Array) -> float:
            # Where no weights have the model, D has no largest value: far out it says so.
            if float(np.abs(rows @ at).max()) > UNBOUNDED:
                return 0.0
            return 0.1 * UNBOUNDED / max(float(np.abs(rows @ step).max()), 1e-300)

        return minimise(function, np.zeros(len(pull)), longest)

    def programme(self, point: Array) -> tuple[float, Array, Array]:
        """Solve the linear programme at γ: fewest rows that must go, weights, multipliers of its equations."""
        regression = self.regression
        model = self.centre + self.basis @ point
        slope = regression.loss.gradient(self.eta + self.moves @ point, regression.target)
        matrix = (regression.rows * slope[:, None]).T
        right = -self.penalty @ model
        # Slack at a price: a model that no weights have gets multipliers all the same, and a bound from them.
        scale = float(np.abs(matrix).max(initial=1e-300))
        price = 1e4 * regression.count / scale
        width = len(model)
        columns = np.hstack([matrix, np.eye(width), -np.eye(width)])
        cost = np.concatenate([-np.ones(regression.count), np.full(2 * width, price)])
        bounds = np.zeros((len(cost), 2))
        bounds[: regression.count, 1], bounds[regression.count :, 1] = 1.0, np.inf
        solved = optimize.linprog(cost, A_eq=columns, b_eq=right, bounds=bounds, method="highs-ds")
        if solved.x is None:
            return np.inf, np.ones(regression.count), np.zeros(width)
        multiplier = np.asarray(solved.eqlin.marginals)
        slack = float(solved.x[regression.count :].sum())
        gone = regression.count - float(solved.x[: regression.count].sum())
        return (gone if slack <= 1e-9 * scale else np.inf), solved.x[: regression.count], multiplier

    def excluded(self, corners: Array, count: int) -> bool:
        """Tell whether no model of a simplex belongs to the rows left when `count` are gone."""
        regression = self.regression
        eta = self.eta[:, None] + self.moves @ corners.T
        low, high = eta.min(axis=1), eta.max(axis=1)
        nearest = np.clip(regression.loss.minimiser(regression.target), low, high)
        more = regression.loss.value(nearest, regression.target) - self.losses
        models = self.centre[:, None] + self.basis @ corners.T
        middle = models.mean(axis=1)
        pull = self.penalty @ middle
        charge = float((pull @ models).min() - 0.5 * pull @ middle - 0.5 * self.centre @ self.penalty @ self.centre)
        most = np.partition(more, len(more) - count)[len(more) - count :] if count else more[:0]
        doubt = ROUNDING * (float(np.abs(more).sum()) + 2.0 * float(self.losses.sum()) + abs(charge))
        return float(more.sum()) - float(np.maximum(most, 0.0).sum()) + charge > doubt


class SignificanceSlice(Slice):
    """Models with a'θ = 0, and what it takes for others to fit hardly better."""

    def __init__(self, regression: Regression, statistic: Significance, enough: int) -> None:
        """Take κ for the fewest rows that may be left while `enough` rows are not yet gone."""
        super().__init__(regression, statistic.direction, 0.0)
        self.ratio = statistic.quantile**2 / max(regression.count - enough + 1 - regression.width, 1)

    def bound(self, corners: Array, multiplier: Array) -> float:
        """Bound from below how many rows must go where the restricted fit lies in a simplex."""
        price, change = multiplier[0], multiplier[1:]
        residual = self.eta[:, None] + self.moves @ corners.T - self.regression.target[:, None]
        move = (self.regression.rows @ change)[:, None]
        parts = (
            price * self.ratio * np.square(residual),
            2.0 * price * (1.0 + self.ratio) * residual * move,
            price * (1.0 + self.ratio) * np.square(move),
        )
        terms = np.maximum(1.0 + parts[0] + parts[1] + parts[2], 0.0)
        count = self.regression.count
        doubt = ROUNDING * (count + sum(np.abs(part).sum(axis=0) for part in parts))
        return float((count - terms.sum(axis=0) - doubt).min())

    def multiplier(self, point: Array) -> Array:
        """Maximise D over s and sδ, in which it is concave, by Newton on a smooth stand-in for (·)₊."""
        rows, ratio = self.regression.rows, self.ratio
        residual = self.eta + self.moves @ point - self.regression.target
        square = np.square(residual)
        gradient = rows.T @ residual
        change = -np.linalg.lstsq(rows.T @ rows, gradient, rcond=None)[0]
        at = np.append(1.0, change) / float(np.mean(square))

        def function(at: Array, width: float) -> Moments:
            move = rows @ at[1:] / at[0]
            inner = 1.0 + at[0] * (ratio * square + (1.0 + ratio) * move * (2.0 * residual + move))
            share = special.expit(inner / width)
            first = (ratio * square - (1.0 + ratio) * np.square(move))[:, None]
            slope = np.column_stack([first, 2.0 * (1.0 + ratio) * (residual + move)[:, None] * rows])
            bent = (slope * (share * (1.0 - share) / width)[:, None]).T @ slope
            side = np.column_stack([-move, rows])
            bent += (side * (share * 2.0 * (1.0 + ratio) / at[0])[:, None]).T @ side
            value = float(width * np.logaddexp(0.0, inner / width).sum())
            return value, slope.T @ share, bent + 1e-12 * np.trace(bent) * np.eye(len(at))

        at = minimise(function, at, lambda at, step: 0.9 * at[0] / step[0] if step[0] > 0.0 else 1.0)
        return np.append(at[0], at[1:] / at[0])

    def programme(self, point: Array) -> tuple[float, Array, Array]:
        """Solve for the weights by linear programmes with more and more models that fit better."""
        regression = self.regression
        count, rows, target = regression.count, regression.rows, regression.target
        centre = self.centre + self.basis @ point
        restricted = np.square(rows @ centre - target)
        weights = np.ones(count)
        models: list[Array] = []
        constraints: list[Array] = []
        scale = float(restricted.sum()) / count
        solved = None
        for _ in range(CUTS):
            gram = (rows * weights[:, None]).T @ rows
            models.append(np.asarray(np.linalg.lstsq(gram, rows.T @ (weights * target), rcond=None)[0], np.float64))
            constraints.append((restricted - (1.0 + self.ratio) * np.square(rows @ models[-1] - target)) / scale)
            if solved is not None and float(constraints[-1] @ weights) <= 1e-6 * count:
                break
            solved = optimize.linprog(
                -np.ones(count), A_ub=np.array(constraints), b_ub=np.zeros(len(constraints)), bounds=(0.0, 1.0),
                method="highs-ds",
            )  # fmt: skip
            if solved.x is None:
                return np.inf, np.ones(count), np.zeros(1 + len(centre))
            weights = np.asarray(solved.x)
        assert solved is not None
        prices = np.maximum(-np.asarray(solved.ineqlin.marginals), 0.0) / scale
        total = float(prices.sum())
        if total <= 0.0:
            return count - float(weights.sum()), weights, np.zeros(1 + len(centre))
        better = sum(price * model for price, model in zip(prices, models, strict=False)) / total
        return count - float(weights.sum()), weights, np.append(total, better - centre)


def minimise(function: Callable[[Array, float], Moments], at: Array, longest: Callable[[Array, Array], float]) -> Array:
    """Go down by Newton on ever better stand-ins for (·)₊; steps are at most `longest` of their length."""
    for width in SMOOTHING:
        value, gradient, hessian = function(at, width)
        for _ in range(NEWTON):
            step: Array = np.asarray(np.linalg.lstsq(hessian, gradient, rcond=None)[0], np.float64)
            fall, length = float(gradient @ step), min(1.0, longest(at, step))
            if length <= 0.0:
                return at
            while length > 1e-6:
                tried = function(at - length * step, width)
                if tried[0] <= value - 1e-4 * length * fall:
                    break
                length *= 0.5
            else:
                break
            at, (value, gradient, hessian) = at - length * step, tried
            if fall < 1e-4:
                break
    return at


def slope_lines(regression: Regression, eta: Array) -> tuple[Array, Array]:
    """Return two parallel lines around ℓ' over each row's range of predictors, at the corners (rows × corners)."""
    loss, target = regression.loss, regression.target
    if isinstance(loss, Squared):
        slope = loss.gradient(eta, target[:, None])
        return slope, slope
    low, high = eta.min(axis=1), eta.max(axis=1)
    wide = high - low
    start = loss.gradient(low, target)
    steep = np.where(wide > 1e-9, (loss.gradient(high, target) - start) / np.maximum(wide, 1e-9), 0.0)
    above = below = np.zeros_like(low)
    for turn in (high, *(loss.turns(steep, target) or ())):
        point = np.clip(np.where(np.isnan(turn), low, turn), low, high)
        apart = loss.gradient(point, target) - (start + steep * (point - low))
        above, below = np.maximum(above, apart), np.minimum(below, apart)
    line = start[:, None] + steep[:, None] * (eta - low[:, None])
    slack = 1e-15 * (1.0 + wide[:, None])
    return line + (below[:, None] - slack), line + (above[:, None] + slack)


def first_simplices(free: int, radius: float) -> list[Array]:
    """Cut the box |γ_i| ≤ radius into simplices, one for each order of the coordinates (Kuhn)."""
    found = []
    for order in itertools.permutations(range(free)):
        corner = np.full(free, -radius)
        corners = [corner.copy()]
        for axis in order:
            corner[axis] = radius
            corners.append(corner.copy())
        found.append(np.array(corners))
    return found


def first_faces(free: int, radius: float) -> list[Array]:
    """Cut the faces of the box into simplices."""
    found = []
    for axis in range(free):
        for side in (-radius, radius):
            found += [np.insert(simplex, axis, side, axis=1) for simplex in first_simplices(free - 1, radius)]
    return found


def halves(corners: Array) -> tuple[Array, Array]:
    """Bisect the longest edge of a simplex (the first of equally long ones)."""
    apart = np.square(corners[:, None, :] - corners[None, :, :]).sum(axis=2)
    one, two = np.unravel_index(int(np.argmax(apart)), apart.shape)
    middle = 0.5 * (corners[one] + corners[two])
    first, second = corners.copy(), corners.copy()
    first[one], second[two] = middle, middle
    return first, second


class Bound(NamedTuple):
    """What branch and bound has come to."""

    least: int
    """At least so many rows must go."""
    proof: RegionProof | None
    """The certificate that one row less is not enough."""
    weights: tuple[Array, ...]
    """Weights of the best linear programmes, which a search can round."""


def prove(what: Slice, enough: int, seconds: float, report: Report = lambda text: None) -> Bound:
    """Prove how many rows must go at least; `enough` rows are known to be enough."""
    ends = time.monotonic() + seconds
    fewest, weights, multiplier = what.programme(np.zeros(what.free))
    best = [(fewest, weights)]
    """The linear programmes with the fewest rows: no bound of this kind can be higher."""
    if what.free == 0:
        count = _whole(what.bound(np.zeros((1, 0)), multiplier), enough)
        return Bound(count, RegionProof(count - 1, 0.0, (Region(multiplier),), ()), (weights,))
    radius, faces = FIRST_BOX, None
    while faces is None and radius <= LARGEST_BOX and time.monotonic() < ends:
        faces = _enclose(what, enough - 1, radius, ends)
        radius = radius if faces is not None else 2.0 * radius
    if faces is None:
        return Bound(1, None, (weights,))
    regions = tuple(Region(multiplier) for _ in first_simplices(what.free, radius))
    order = itertools.count()
    heap: list[tuple[float, int, Region, Array]] = []

    def target() -> int:
        """Return what is to be shown not to be enough: one row less than found, or than the programmes allow."""
        allowed = int(np.ceil(best[0][0] - 1e-7)) if np.isfinite(best[0][0]) else enough
        return min(enough, allowed) - 1

    def add(region: Region, corners: Array) -> None:
        bound = what.bound(corners, region.multiplier)
        if bound <= target():
            point = corners.mean(axis=0)
            own = what.multiplier(point)
            value = what.bound(point[None, :], own)
            # The exact programme costs more: solve it where it may show that fewer rows are possible.
            if np.ceil(value - 1e-7) < np.ceil(best[0][0] - 1e-7) or len(best) < 4:
                exact, weights, other = what.programme(point)
                best.append((exact, weights))
                best.sort(key=lambda pair: pair[0])
                del best[8:]
                own = other if what.bound(point[None, :], other) > value else own
            tried = what.bound(corners, own)
            if tried > bound:
                bound, region.multiplier = tried, own
        if bound <= target() and not what.excluded(corners, target()):
            heapq.heappush(heap, (bound, next(order), region, corners))

    for region, corners in zip(regions, first_simplices(what.free, radius), strict=True):
        add(region, corners)
    while heap and time.monotonic() < ends:
        bound, number, region, corners = heapq.heappop(heap)
        if bound > target():
            continue
        for half in halves(corners):
            region.halves.append(Region(region.multiplier))
            add(region.halves[-1], half)
        if number % 100 == 0:
            report(f"proof: at least {max(bound, 0.0):.1f} rows, {number:,} regions")
    count = min(target() + 1, _whole(min((bound for bound, *_ in heap), default=np.inf), enough))
    return Bound(count, RegionProof(count - 1, radius, regions, faces), tuple(weights for _, weights in best))


def _whole(bound: float, most: int) -> int:
    """Round a bound on the number of rows up, and to at least 1."""
    return int(np.clip(np.ceil(bound), 1, most)) if np.isfinite(bound) else most


def _enclose(what: Slice, count: int, radius: float, ends: float) -> tuple[Region, ...] | None:
    """Show that no model with `count` rows gone lies on the faces of a box; None where some may."""
    begun = first_faces(what.free, radius)
    faces = tuple(Region(np.zeros(0)) for _ in begun)
    undecided = [(face, corners, 0) for face, corners in zip(faces, begun, strict=True)]
    while undecided:
        face, corners, depth = undecided.pop()
        if what.excluded(corners, count):
            continue
        if depth >= 8 * what.free or what.free == 1 or time.monotonic() > ends:
            return None
        if not what.excluded(corners.mean(axis=0)[None, :], count):
            return None
        for half in halves(corners):
            face.halves.append(Region(np.zeros(0)))
            undecided.append((face.halves[-1], half, depth + 1))
    return faces


def verify(what: Slice, proof: RegionProof) -> bool:
    """Check a proof anew: its simplices fill the box, the box holds all models, and the sum of each is large enough."""

    def inside(corners: Array, region: Region) -> bool:
        return what.bound(corners, region.multiplier) > proof.count or (
            what.free > 0 and what.excluded(corners, proof.count)
        )

    def outside(corners: Array, region: Region) -> bool:
        return what.excluded(corners, proof.count)

    if proof.count < 1:  # nothing is claimed
        return True
    begun = first_simplices(what.free, proof.radius)
    return _all(begun, proof.regions, inside) and _all(first_faces(what.free, proof.radius), proof.faces, outside)


def _all(begun: Sequence[Array], regions: Sequence[Region], holds: Callable[[Array, Region], bool]) -> bool:
    """Tell whether a statement holds for all simplices that bisection leaves."""
    return len(begun) == len(regions) and all(
        _all(halves(corners), region.halves, holds) if region.halves else holds(corners, region)
        for corners, region in zip(begun, regions, strict=True)
    )


def rounded(weights: tuple[Array, ...], most: int) -> Iterator[Positions]:
    """Yield sets of rows to remove: the smallest weights, as many as the programme removes and a few more."""
    for some in weights:
        order = np.argsort(some, kind="stable")
        least = int(np.floor(len(some) - some.sum() + 1e-9))
        for count in range(max(least, 1), min(least + 6, most) + 1):
            yield np.sort(order[:count]).astype(np.int64)

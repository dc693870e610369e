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
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from superteach.losses.scalar import Squared
from superteach.robustness.regression import Regression
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


class Leaf(NamedTuple):
    """A simplex of the proof: how bisection leads there, and the λ whose bound is good enough on it."""

    path: tuple[int, ...]
    """The number of the first simplex, then 0 or 1 for each bisection."""
    multiplier: Array


@dataclass(frozen=True, eq=False)
class RegionProof:
    """No `count` rows are enough: bisect the box, and evaluate one sum at each leaf."""

    count: int
    radius: float
    """The box is |γ_i| ≤ radius."""
    leaves: tuple[Leaf, ...]
    faces: tuple[tuple[int, ...], ...]
    """Leaves of the bisected faces of the box."""


@dataclass(frozen=True)
class RegionOptions:
    """How long the branch and bound goes on."""

    seconds: float = 60.0
    """Wall time after which the bound reached so far is returned."""
    first_radius: float = 4.0
    """Half the edge of the first box, in units in which residuals (or log-odds) move by 1 on average; doubled as needed."""
    largest_radius: float = 1e4
    """Half the edge of the largest box that is tried."""


STANDARD = RegionOptions()


class Slice:
    """The models with a'θ = c, as θ_c + Bγ, and what rows look like there."""

    def __init__(self, regression: Regression, direction: Array, threshold: float, model: Array) -> None:
        """Fit θ_c on all rows, and choose B such that a step of 1 in γ moves x'θ by about the size of residuals."""
        self.regression = regression
        length = float(direction @ direction)
        basis = np.linalg.svd(direction[None, :])[2][1:].T
        origin = direction * (threshold / length)
        start = basis.T @ (model - origin)
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
        at = np.zeros(len(pull))
        for width in SMOOTHING:
            now = float(width * np.logaddexp(0.0, (1.0 + rows @ at) / width).sum() + pull @ at)
            for _ in range(NEWTON):
                share = special.expit((1.0 + rows @ at) / width)
                down = rows.T @ share + pull
                bent = (rows * (share * (1.0 - share) / width)[:, None]).T @ rows
                step = np.linalg.lstsq(bent + 1e-12 * (np.trace(bent) + 1.0) * np.eye(len(at)), down, rcond=None)[0]
                fall, length = float(down @ step), 1.0
                # Where no weights have the model, D has no largest value: far out it says so.
                most = float(np.abs(rows @ step).max())
                if float(np.abs(rows @ at).max()) > UNBOUNDED:
                    return at
                if most > 0.1 * UNBOUNDED:
                    step, fall = step * (0.1 * UNBOUNDED / most), fall * (0.1 * UNBOUNDED / most)
                while length > 1e-6:
                    tried = at - length * step
                    value = float(width * np.logaddexp(0.0, (1.0 + rows @ tried) / width).sum() + pull @ tried)
                    if value <= now - 1e-4 * length * fall:
                        break
                    length *= 0.5
                else:
                    break
                at, now = tried, value
                if fall < 1e-4:
                    break
        return at

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


def slope_lines(regression: Regression, eta: Array) -> tuple[Array, Array]:
    """Return two parallel lines around ℓ' over each row's range of predictors, at the corners (rows × corners)."""
    slope = regression.loss.gradient(eta, regression.target[:, None])
    if isinstance(regression.loss, Squared):
        return slope, slope
    # ℓ' = σ(η) − (y + 1)/2, and σ' = s at log-odds ± of p(1 − p) = s.
    low, high = eta.min(axis=1), eta.max(axis=1)
    wide = high - low
    start = regression.loss.gradient(low, regression.target)
    end = regression.loss.gradient(high, regression.target)
    steep = np.where(wide > 1e-9, (end - start) / np.maximum(wide, 1e-9), 0.25)
    root = np.sqrt(np.maximum(1.0 - 4.0 * np.minimum(steep, 0.25), 0.0))
    with np.errstate(divide="ignore"):
        place = np.log1p(root) - np.log(np.maximum(1.0 - root, 1e-300))
    above = below = np.zeros_like(low)
    for turn in (np.clip(place, low, high), np.clip(-place, low, high)):
        apart = regression.loss.gradient(turn, regression.target) - (start + steep * (turn - low))
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


def simplex_at(begun: list[Array], path: tuple[int, ...]) -> Array:
    """Follow a path of bisections."""
    corners = begun[path[0]]
    for side in path[1:]:
        corners = halves(corners)[side]
    return corners


class Programmed(NamedTuple):
    """What the branch and bound has come to."""

    least: int
    """At least so many rows must go."""
    proof: RegionProof | None
    """The certificate that one row less is not enough."""
    fractional: float
    """The fewest rows, in fractions, of all linear programmes solved: no bound of this kind can be higher."""
    weights: tuple[Array, ...]
    """Weights of the best programmes, which a search can round."""
    regions: int


def prove(
    what: Slice,
    enough: int,
    options: RegionOptions = STANDARD,
    report: Callable[[str], None] = lambda text: None,
) -> Programmed:
    """Prove how many rows must go at least; `enough` rows are known to be enough."""
    ends = time.monotonic() + options.seconds
    fractional, weights, multiplier = what.programme(np.zeros(what.free))
    best = [(fractional, weights)]
    if what.free == 0:
        count = _whole(what.bound(np.zeros((1, 0)), multiplier), enough)
        leaf = (Leaf((0,), multiplier),)
        return Programmed(count, RegionProof(count - 1, 0.0, leaf, ()), fractional, (weights,), 1)
    radius, faces = options.first_radius, None
    while faces is None and radius <= options.largest_radius and time.monotonic() < ends:
        faces = _enclose(what, enough - 1, radius, ends)
        radius = radius if faces is not None else 2.0 * radius
    if faces is None:
        return Programmed(1, None, fractional, (weights,), 0)
    begun = first_simplices(what.free, radius)
    order = itertools.count()
    heap: list[tuple[float, int, tuple[int, ...], Array, Array]] = []
    done: list[tuple[float, Leaf]] = []

    def target() -> int:
        """Return what is to be shown not to be enough: one row less than found, or than the programmes allow."""
        allowed = int(np.ceil(best[0][0] - 1e-7)) if np.isfinite(best[0][0]) else enough
        return min(enough, allowed) - 1

    def add(path: tuple[int, ...], corners: Array, inherited: Array) -> None:
        bound = what.bound(corners, inherited)
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
                bound, inherited = tried, own
        if bound > target() or what.excluded(corners, target()):
            done.append((max(bound, float(target()) + 1e-9), Leaf(path, inherited)))
        else:
            heapq.heappush(heap, (bound, next(order), path, corners, inherited))

    for number, corners in enumerate(begun):
        add((number,), corners, multiplier)
    regions = len(begun)
    while heap and time.monotonic() < ends:
        bound, _, path, corners, inherited = heapq.heappop(heap)
        if bound > target():
            done.append((bound, Leaf(path, inherited)))
            continue
        for side, half in enumerate(halves(corners)):
            add((*path, side), half, inherited)
        regions += 2
        if regions % 200 < 2:
            lowest = heap[0][0] if heap else float(target())
            report(f"proof: at least {max(lowest, 0.0):.1f} rows, {regions:,} regions")
    open_bound = min((bound for bound, *_ in heap), default=np.inf)
    count = min(target() + 1, _whole(open_bound, enough))
    leaves = tuple(leaf for _, leaf in done) + tuple(Leaf(path, inherited) for _, _, path, _, inherited in heap)
    proof = RegionProof(count - 1, radius, leaves, faces)
    return Programmed(count, proof, best[0][0], tuple(weights for _, weights in best), regions)


def _whole(bound: float, most: int) -> int:
    """Round a bound on the number of rows up, and to at least 1."""
    return int(np.clip(np.ceil(bound), 1, most)) if np.isfinite(bound) else most


def _enclose(what: Slice, count: int, radius: float, ends: float) -> tuple[tuple[int, ...], ...] | None:
    """Show that no model with `count` rows gone lies on the faces of a box; None where some may."""
    open_faces: list[tuple[tuple[int, ...], Array]] = [
        ((number,), corners) for number, corners in enumerate(first_faces(what.free, radius))
    ]
    done = []
    while open_faces:
        path, corners = open_faces.pop()
        if what.excluded(corners, count):
            done.append(path)
            continue
        if len(path) > 8 * what.free or what.free == 1 or time.monotonic() > ends:
            return None
        if not what.excluded(corners.mean(axis=0)[None, :], count):
            return None
        open_faces += [((*path, side), half) for side, half in enumerate(halves(corners))]
    return tuple(done)


def verify(what: Slice, proof: RegionProof) -> bool:
    """Check a proof anew: its simplices fill the box, the box holds all models, and every leaf's sum is large enough."""
    if what.free == 0:
        return _covers([leaf.path for leaf in proof.leaves], 1) and all(
            what.bound(np.zeros((1, 0)), leaf.multiplier) > proof.count for leaf in proof.leaves
        )
    begun, faces = first_simplices(what.free, proof.radius), first_faces(what.free, proof.radius)
    if not (_covers([leaf.path for leaf in proof.leaves], len(begun)) and _covers(list(proof.faces), len(faces))):
        return False
    return all(what.excluded(simplex_at(faces, path), proof.count) for path in proof.faces) and all(
        what.bound(corners, leaf.multiplier) > proof.count or what.excluded(corners, proof.count)
        for leaf, corners in ((leaf, simplex_at(begun, leaf.path)) for leaf in proof.leaves)
    )


def _covers(paths: list[tuple[int, ...]], first: int) -> bool:
    """Tell whether paths are all leaves of full binary trees from each of the `first` numbers."""

    def full(inside: list[tuple[int, ...]], depth: int) -> bool:
        if len(inside) == 1 and len(inside[0]) == depth:
            return True
        sides: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] = ([], [])
        for path in inside:
            if len(path) <= depth:
                return False
            sides[path[depth]].append(path)
        return bool(sides[0] and sides[1]) and all(full(side, depth + 1) for side in sides)

    return all(full([path for path in paths if path[0] == number], 1) for number in range(first))


def rounded(weights: tuple[Array, ...], most: int) -> Iterator[Positions]:
    """Yield sets of rows to remove: the smallest weights, as many as the programme removes and a few more."""
    for some in weights:
        order = np.argsort(some, kind="stable")
        least = int(np.floor(len(some) - some.sum() + 1e-9))
        for count in range(max(least, 1), min(least + 6, most) + 1):
            yield np.sort(order[:count]).astype(np.int64)

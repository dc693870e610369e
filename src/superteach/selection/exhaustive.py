"""The best subset of a small pool, and a proof that there is no better one.

Let ρ be the risk of a subset that is known. If S is no farther from the goal, ‖Mδ‖ ≤ ρ with δ = θ_S − θ*, then what its
rows lack at the goal, r_S = Σ_S g_j − Λθ* with g_j = −ℓ'(x_j'θ*) x_j, is H_S δ with H_S = Σ_S h_j x_j x_j' + Λ, where
h_j = c_j ± e_j lies between the least and the greatest ℓ'' on x_j'θ* ± ρ‖M⁻ᵀx_j‖. So for every direction u

    |u'r_S| ≤ ρ ‖M⁻ᵀ(Σ_S c_j (x_j'u) x_j + Λu)‖ + ρ Σ_S e_j |x_j'u| ‖M⁻ᵀx_j‖

and ‖B^-½ r_S‖ ≤ ρ ‖B^½ M⁻¹‖, where B is H with c_j + e_j over all rows. Every part is a sum over rows. So the subsets of
each half of the pool are listed, pairs of them are tried by matrix products, and what passes is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from superteach.selection.subsets import Numbers, SubsetProblem
from superteach.types import Array, Mask

EVERY = 1 << 15
"""Subsets up to which all are fitted where nothing can be bounded."""
MOST_HALVES = 1 << 17
"""Subsets of half the rows up to which a proof is tried: 30 rows have 2¹⁵ at any size."""
MOST_WORK = 4e10
"""Multiplications up to which a proof is tried, by estimate: about five seconds on one core."""
LISTED, SOLVED, REFITTED = 500.0, 1e4, 15.0
"""What it costs to look at one pair outside of a matrix product, and beside its multiplications to solve for one model; and
how many times as much to fit one."""
DIRECTIONS = 8
"""Directions that are tried, at most."""
SAMPLE = 1 << 13
"""Subsets drawn to estimate how many pass."""
BLOCK = 64, 4096
"""Subsets of the first and of the second half that are joined at once."""
FITTED = 1 << 13
"""Subsets that are fitted at once."""
SAFETY = 1e-9
"""Share by which ρ is raised against rounding errors."""
FIT_SAFETY = 1e-6
"""The same for models that were found by solving equations."""


class Best(NamedTuple):
    """A subset, its risk, and whether it is proved that no allowed subset has a lower one."""

    subset: Mask
    risk: float
    proved: bool


@dataclass(frozen=True, eq=False)
class Test:
    """A necessary condition: with f_S the base and the features of the rows of S added up, Σ sign_k f_k² ≤ 0."""

    features: Array
    base: Array
    sign: Array

    def within(self, kept: Mask) -> Test:
        """The same for subsets that have some rows for sure."""
        return Test(self.features, self.base + self.features[kept].sum(axis=0), self.sign)

    def passed(self, totals: Array) -> Mask:
        """Mark totals, base included, that satisfy it, give or take rounding errors."""
        squares = np.square(totals)
        return np.asarray(squares @ self.sign <= SAFETY * squares.sum(axis=-1))


def search(
    problem: SubsetProblem, start: Mask, low: int, high: int, free: Mask | None = None, most_work: float = MOST_WORK
) -> Best:
    """Find the subset of `low` to `high` rows with the lowest risk; `start` is one that is known.

    Only rows that are `free` may differ from it. A search that would take too long is not begun, or ends early.
    """
    best = Best(start, float(problem.risks(start[None])[0][0]), False)
    rows = np.arange(problem.rows) if free is None else np.flatnonzero(free)
    kept = start.copy()
    kept[rows] = False
    low, high = max(low - int(kept.sum()), 0), min(high - int(kept.sum()), len(rows))
    if count(-(-len(rows) // 2), 0, high) > MOST_HALVES:
        return best
    plan = None
    if np.isfinite(best.risk):
        bounds = Bounds.around(problem, start, best.risk)
        plan = None if bounds is None else bounds.plan(kept, rows, low, high, most_work)
    if plan is None and count(len(rows), low, high) > EVERY:
        return best
    halves = _Half.of(rows[::2], high), _Half.of(rows[1::2], high)
    passed = 0
    for first, second in _all_pairs(*halves, low, high) if plan is None else plan.pairs(*halves, low, high):
        passed += len(first)
        if plan is not None and passed * plan.bounds.cost > 2.0 * most_work:
            return best
        subsets = np.tile(kept, (len(first), 1))
        subsets[:, halves[0].rows], subsets[:, halves[1].rows] = halves[0].subsets[first], halves[1].subsets[second]
        if plan is not None:
            subsets = subsets[plan.bounds.near(subsets)]
        if len(subsets):
            risks, _ = problem.risks(subsets)
            nearest = int(risks.argmin())
            if risks[nearest] < best.risk:
                best = Best(subsets[nearest], float(risks[nearest]), False)
    return best._replace(proved=len(rows) == problem.rows)


def count(rows: int, low: int, high: int) -> int:
    """How many subsets of `low` to `high` rows there are."""
    return sum(math.comb(rows, size) for size in range(low, high + 1))


@dataclass(frozen=True, eq=False)
class _Half:
    """Some rows, and all their subsets of at most so many."""

    rows: Numbers
    subsets: Mask
    sizes: Numbers

    @classmethod
    def of(cls, rows: Numbers, high: int) -> _Half:
        """List all subsets of at most `high` of some rows."""
        found = np.zeros((1, len(rows)), dtype=bool)
        for place in range(len(rows)):
            more = found[found.sum(axis=1) < high]
            more[:, place] = True
            found = np.concatenate([found, more])
        return cls(rows, found, found.sum(axis=1))

    def totals(self, test: Test) -> Array:
        """Features added up over each subset."""
        return np.asarray(self.subsets.astype(np.float64) @ test.features[self.rows])


def _drawn(rows: int, low: int, high: int) -> Array:
    """Draw subsets, all with the same probability, as zeros and ones."""
    draw = np.random.default_rng(0)
    sizes = np.arange(low, high + 1)
    likely = np.array([math.comb(rows, int(size)) for size in sizes], dtype=np.float64)
    chosen = draw.choice(sizes, SAMPLE, p=likely / likely.sum())
    found = np.zeros((SAMPLE, rows))
    np.put_along_axis(found, np.argsort(draw.random(found.shape), axis=1), np.arange(rows) < chosen[:, None], axis=1)
    return found


def _joined(first: _Half, second: _Half, low: int, high: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Which subsets of both halves have `low` to `high` rows together, by the size of the first."""
    for size in np.unique(first.sizes):
        fits = (second.sizes >= low - size) & (second.sizes <= high - size)
        if fits.any():
            yield np.flatnonzero(first.sizes == size), np.flatnonzero(fits)


def _all_pairs(first: _Half, second: _Half, low: int, high: int) -> Iterator[tuple[Numbers, Numbers]]:
    for left, right in _joined(first, second, low, high):
        pairs = np.stack(np.meshgrid(left, right, indexing="ij")).reshape(2, -1)
        for start in range(0, pairs.shape[1], FITTED):
            yield pairs[0, start : start + FITTED], pairs[1, start : start + FITTED]


@dataclass(frozen=True, eq=False)
class Bounds:
    """What is known of all subsets whose risk is at most ρ."""

    problem: SubsetProblem
    radius: float
    curvature: Array
    """c_j."""
    spread: Array
    """e_j."""
    seen: Array
    """‖M⁻ᵀx_j‖."""
    back: Array
    """M⁻¹."""
    start: Mask

    @classmethod
    def around(cls, problem: SubsetProblem, start: Mask, risk: float) -> Bounds | None:
        """Bound subsets that are no farther than one that is known; None where that is not possible."""
        goal, metric = problem.goal, problem.metric
        radius = risk * (1.0 + SAFETY) + 1e-13 * float(np.linalg.norm(metric @ goal))
        back: Array = np.asarray(np.linalg.pinv(metric, rcond=1e-10), dtype=np.float64)
        unseen = np.eye(len(goal)) - back @ metric
        # Where M is singular, what it does not see must not matter: to no row, and to no penalty.
        for part in (problem.design @ unseen, back @ metric @ np.diag(problem.penalties[-1]) @ unseen):
            if np.abs(part).max(initial=0.0) > 1e-9:
                return None
        eta, seen = problem.design @ goal, np.linalg.norm(problem.design @ back, axis=1)
        reach = radius * seen
        least, most = problem.learner.loss.curvature_range(eta - reach, eta + reach, problem.target)
        if not np.isfinite(most).all():
            return None
        return cls(problem, radius, 0.5 * (most + least), 0.5 * (most - least), seen, back, start)

    @property
    def _pulls(self) -> Array:
        """g_j, less what each row adds to Λθ* where the penalty grows with the rows."""
        problem = self.problem
        slope = problem.learner.loss.gradient(problem.design @ problem.goal, problem.target)
        return np.asarray(-slope[:, None] * problem.design - self._growth * problem.goal)

    @property
    def _growth(self) -> Array:
        return np.asarray(self.problem.penalties[1] - self.problem.penalties[0])

    @property
    def cost(self) -> float:
        """Work for each subset that passes: one Newton step tells enough only where the loss is quadratic."""
        solved = SOLVED + 20.0 * len(self.problem.goal) ** 3
        return REFITTED * solved if self.spread.any() else solved

    def near(self, subsets: Mask) -> Mask:
        """Mark subsets that one Newton step from the goal does not rule out; with squared loss, the nearer ones exactly."""
        problem, sizes = self.problem, subsets.sum(axis=1)
        lacking = subsets @ self._pulls - problem.penalties[0] * problem.goal
        hessian = problem.hessians(subsets * self.curvature, sizes)
        hessian += 1e-13 * np.einsum("skk->s", hessian)[:, None, None] * np.eye(len(problem.goal))
        step = np.linalg.solve(hessian, lacking[..., None])[..., 0]
        limit = np.full(len(subsets), self.radius * (1.0 + FIT_SAFETY))
        if self.spread.any():
            columns = np.broadcast_to(problem.design.T, (len(subsets), *problem.design.T.shape))
            moved = problem.metric @ np.linalg.solve(hessian, columns)
            limit *= 1.0 + (subsets * np.linalg.norm(moved, axis=1)) @ (self.spread * self.seen)
        return np.asarray(np.linalg.norm(step @ problem.metric.T, axis=1) <= limit)

    def plan(self, kept: Mask, rows: Numbers, low: int, high: int, most_work: float = MOST_WORK) -> Plan | None:
        """Choose tests by how many subsets pass; None where too many do."""
        drawn, number = _drawn(len(rows), low, high), float(count(len(rows), low, high))
        tests = [self._along(direction, kept, rows, drawn) for direction in self._directions()]
        tests.append(self._ball().within(kept))
        totals = [drawn @ test.features[rows] + test.base for test in tests]
        passed = [test.passed(total) for test, total in zip(tests, totals, strict=True)]
        first = min(range(len(tests)), key=lambda which: passed[which].sum())
        # Of all pairs, only those in the window of the first test are looked at.
        far = np.linalg.norm(totals[first][:, tests[first].sign < 0.0], axis=1).max()
        looked = number * max(float((np.abs(totals[first][:, 0]) <= 1.5 * far).mean()), 1.0 / BLOCK[0])
        order, left, work, joint = list[int](), np.ones(len(drawn), dtype=bool), 0.0, 0
        while len(order) < len(tests):
            best = min(set(range(len(tests))) - set(order), key=lambda which: (passed[which] & left).sum())
            together, listed = looked * (len(tests[best].base) + 4.0), number * left.mean() * LISTED
            joint += not order or together <= listed
            work += together if joint > len(order) else listed
            order.append(best)
            left &= passed[best]
        work += number * left.mean() * self.cost
        if work > most_work:
            return None
        return Plan(self, [tests[which] for which in order], joint)

    def _directions(self) -> Array:
        """Directions in which subsets near the known one move the model: the way it has left to the goal first."""
        problem, start = self.problem, self.start
        away = problem.metric @ (problem.fit(start[None])[0] - problem.goal)
        basis = np.linalg.qr(np.column_stack([away, np.eye(len(away))]))[0][:, :DIRECTIONS]
        hessian = problem.hessians((start * self.curvature)[None], np.array([start.sum()]))[0]
        found = basis.T @ problem.metric @ np.linalg.pinv(hessian, hermitian=True)
        lengths = np.linalg.norm(found, axis=1)
        return np.asarray(found[lengths > 1e-9 * lengths.max()])  # a metric that is singular sees fewer

    def _along(self, direction: Array, kept: Mask, rows: Numbers, drawn: Array) -> Test:
        """Make the test of one direction: (a + b)² ≤ (1 + τ)a² + (1 + 1/τ)b² for any τ, best where τ is b/a."""
        problem = self.problem
        along = problem.design @ direction
        bent = ((self.curvature * along)[:, None] * problem.design + self._growth * direction) @ self.back
        features = np.column_stack(
            [self._pulls @ direction / self.radius, bent, self.spread * np.abs(along) * self.seen]
        )
        held = (problem.penalties[0] * direction) @ self.back
        base = np.concatenate([[-(problem.penalties[0] * problem.goal) @ direction / self.radius], held, [0.0]])
        test = Test(features, base, np.append(1.0, -np.ones(len(base) - 1))).within(kept)
        if not self.spread.any():
            return test
        totals = drawn @ test.features[rows] + test.base
        tau = float(np.median(totals[:, -1]) / max(np.median(np.linalg.norm(totals[:, 1:-1], axis=1)), 1e-300))
        tau = min(max(tau, 1e-3), 1e3)
        scale = np.concatenate([[1.0], np.full(len(held), np.sqrt(1.0 + tau)), [np.sqrt(1.0 + 1.0 / tau)]])
        return Test(test.features * scale, test.base * scale, test.sign)

    def _ball(self) -> Test:
        """Make one test for all directions together."""
        problem = self.problem
        weights = (self.curvature + self.spread)[None]
        hessian = problem.hessians(weights, np.array([problem.rows]))[0]
        values, axes = np.linalg.eigh(hessian)
        values = np.maximum(values, 1e-12 * values[-1] + 1e-300)
        root = axes / np.sqrt(values)  # B^-½
        far = self.radius * float(np.linalg.norm((np.sqrt(values)[:, None] * axes.T) @ self.back, 2))
        root = self.back @ problem.metric @ root / far
        features, base = self._pulls @ root, -(problem.penalties[0] * problem.goal) @ root
        turn = np.linalg.svd(features, full_matrices=False)[2].T  # the widest first, for the window
        turn = np.linalg.qr(np.column_stack([turn, np.eye(len(base))]))[0][:, : len(base)]
        features = np.column_stack([features @ turn, np.zeros(len(features))])
        return Test(features, np.append(base @ turn, 1.0), np.append(np.ones(len(base)), -1.0))


@dataclass(frozen=True, eq=False)
class Plan:
    """Tests in the order in which they are tried: the first few on all pairs at once."""

    bounds: Bounds
    tests: Sequence[Test]
    joint: int

    def pairs(self, first: _Half, second: _Half, low: int, high: int) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield pairs of subsets of the two halves that pass all tests."""
        tables = [(first.totals(test) + test.base, second.totals(test)) for test in self.tests]
        found, many = list[tuple[Numbers, Numbers]](), 0
        for left, right in _joined(first, second, low, high):
            lead, other = tables[0]
            left, right = left[np.argsort(lead[left, 0])], right[np.argsort(other[right, 0])]
            joint = [
                _Products(here[left], there[right], test.sign)
                for test, (here, there) in zip(self.tests[: self.joint], tables, strict=False)
            ]
            for i, j in _meeting(joint):
                i, j = left[i], right[j]
                for test, (here, there) in zip(self.tests, tables, strict=True):
                    passed = test.passed(here[i] + there[j])
                    i, j = i[passed], j[passed]
                if len(i):
                    found.append((i, j))
                    many += len(i)
                if many >= FITTED:
                    yield np.concatenate([i for i, _ in found]), np.concatenate([j for _, j in found])
                    found, many = [], 0
        if found:
            yield np.concatenate([i for i, _ in found]), np.concatenate([j for _, j in found])


class _Products:
    """One test on pairs of totals by a matrix product in float32, with a margin for its errors."""

    def __init__(self, left: Array, right: Array, sign: Array) -> None:
        forms = np.square(left) @ sign, np.square(right) @ sign
        self._left = np.column_stack([2.0 * left * sign, forms[0], np.ones(len(left))]).astype(np.float32)
        self._right = np.column_stack([right, np.ones(len(right)), forms[1]]).astype(np.float32).T.copy()
        self._lengths = np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1)
        self._forms = np.abs(forms[0]), np.abs(forms[1])
        self.leads = left[:, 0], right[:, 0]
        self.furthest = sum(float(np.linalg.norm(part[:, sign < 0.0], axis=1).max()) for part in (left, right))

    def passed(self, some: slice, other: slice) -> Mask:
        """Mark pairs that may pass."""
        parts = 2.0 * self._lengths[0][some].max() * self._lengths[1][other].max()
        parts += self._forms[0][some].max() + self._forms[1][other].max()
        margin = np.float32((self._left.shape[1] + 4) * 1.2e-7 * parts)
        return np.asarray(self._left[some] @ self._right[:, other] <= margin)


def _meeting(joint: list[_Products]) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield pairs that may pass these tests; both sides are sorted by the first feature of the first test."""
    left, right = joint[0].leads
    far = joint[0].furthest * (1.0 + SAFETY)
    for start in range(0, len(left), BLOCK[0]):
        some = slice(start, min(start + BLOCK[0], len(left)))
        begin, end = np.searchsorted(right, [-far - left[some.stop - 1], far - left[start]])
        for at in range(int(begin), int(end), BLOCK[1]):
            other = slice(at, min(at + BLOCK[1], int(end)))
            passed = joint[0].passed(some, other)
            for test in joint[1:]:
                passed &= test.passed(some, other)
            i, j = np.divmod(np.flatnonzero(passed), other.stop - other.start)
            if len(i):
                yield i + start, j + at

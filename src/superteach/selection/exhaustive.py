"""The best subset of a small pool, and a proof that there is no better one.

Let ρ be the risk of a subset that is known. If S is no farther from the goal, ‖Mδ‖ ≤ ρ with δ = θ_S − θ*, then what its
rows lack at the goal, r_S = Σ_S g_j − Λθ* with g_j = −ℓ'(x_j'θ*) x_j, is H_S δ with H_S = Σ_S h_j x_j x_j' + Λ, where
h_j = c_j ± e_j lies between the least and the greatest ℓ'' on x_j'θ* ± ρ‖M⁻ᵀx_j‖. So for every direction u

    |u'r_S| ≤ ρ ‖M⁻ᵀ(Σ_S c_j (x_j'u) x_j + Λu)‖ + ρ Σ_S e_j |x_j'u| ‖M⁻ᵀx_j‖

Every part is a sum over rows. So the subsets of each half of the pool are listed, pairs of them are tried by matrix
products, and what passes is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from superteach.selection.subsets import Numbers, SubsetProblem
from superteach.types import Array, Mask

EVERY = 1 << 15
"""Subsets up to which all are fitted, without a bound."""
MOST_HALVES = 1 << 17
"""Subsets of half the rows up to which a proof is tried: 30 rows have 2¹⁵ at any size."""
MOST_WORK = 6e10
"""Multiplications up to which a proof is tried, by estimate: about eight seconds on one core."""
DIRECTIONS = 3
"""Directions that are tried: with 8 the same pools are covered, in the same time."""
SAMPLE = 1 << 13
"""Subsets drawn to estimate how many pass."""
BLOCK = 64, 4096
"""Subsets of the first and of the second half that are joined at once."""
FITTED = 1 << 13
"""Subsets that are fitted at once."""
SAFETY = 1e-9
"""Share by which ρ is raised against rounding errors."""


class Best(NamedTuple):
    """A subset, its risk, and whether it is proved that no allowed subset has a lower one."""

    subset: Mask
    risk: float
    proved: bool


@dataclass(frozen=True, eq=False)
class Test:
    """A necessary condition: f_S0² ≤ Σ_k>0 f_Sk², with f_S the base and the features of the rows of S added up."""

    features: Array
    base: Array

    def passed(self, totals: Array) -> Mask:
        """Mark totals, base included, that satisfy it, give or take rounding errors."""
        squares = np.square(totals)
        return np.asarray(squares[..., 0] <= squares[..., 1:].sum(axis=-1) + SAFETY * squares.sum(axis=-1))


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
    if count(len(rows), low, high) <= EVERY:
        candidates, most_fits = _every(len(rows), low, high), math.inf
    else:
        tests = tests_around(problem, start, best.risk)
        tests = [Test(test.features[rows], test.base + test.features[kept].sum(axis=0)) for test in tests]
        plan = None if count(-(-len(rows) // 2), 0, high) > MOST_HALVES else _Plan.of(tests, low, high)
        cost = problem.cost_of_fit
        if plan is None or plan.work + plan.passing * cost > most_work:
            return best
        candidates, most_fits = plan.candidates(low, high), 2.0 * most_work / cost
    fits = 0
    for some in candidates:
        fits += len(some)
        if fits > most_fits:  # the estimate was wrong
            return best
        subsets = np.tile(kept, (len(some), 1))
        subsets[:, rows] = some
        risks, _ = problem.risks(subsets)
        nearest = int(risks.argmin())
        if risks[nearest] < best.risk:
            best = Best(subsets[nearest], float(risks[nearest]), False)
    return best._replace(proved=len(rows) == problem.rows)


def count(rows: int, low: int, high: int) -> int:
    """How many subsets of `low` to `high` rows there are."""
    return sum(math.comb(rows, size) for size in range(low, high + 1))


def _every(rows: int, low: int, high: int) -> Iterator[Mask]:
    """List all subsets, those of one size after the other."""
    for size in range(low, high + 1):
        chosen = np.array(list(combinations(range(rows), size)), dtype=np.intp).reshape(math.comb(rows, size), size)
        for start in range(0, len(chosen), FITTED):
            some = chosen[start : start + FITTED]
            subsets = np.zeros((len(some), rows), dtype=bool)
            np.put_along_axis(subsets, some, True, axis=1)
            yield subsets


def tests_around(problem: SubsetProblem, start: Mask, risk: float) -> list[Test]:
    """Make tests that all subsets with at most this risk pass, one for each direction; none where nothing can be bounded."""
    goal, metric, design = problem.goal, problem.metric, problem.design
    radius = risk * (1.0 + SAFETY) + 1e-13 * float(np.linalg.norm(metric @ goal))
    back: Array = np.asarray(np.linalg.pinv(metric, rcond=1e-10), dtype=np.float64)
    unseen = np.eye(len(goal)) - back @ metric
    # Where M is singular, what it does not see must not matter: to no row, and to no penalty.
    hidden = np.vstack([design @ unseen, back @ metric @ np.diag(problem.penalties[-1]) @ unseen])
    if np.abs(hidden).max(initial=0.0) > 1e-9 or not np.isfinite(risk):
        return []
    eta, seen = design @ goal, np.linalg.norm(design @ back, axis=1)
    least, most = problem.loss.curvature_range(eta - radius * seen, eta + radius * seen, problem.target)
    if not np.isfinite(most).all():
        return []
    curvature, spread = 0.5 * (most + least), 0.5 * (most - least)
    held, growth = problem.penalties[0], problem.penalties[1] - problem.penalties[0]
    pulls = -problem.loss.gradient(eta, problem.target)[:, None] * design - growth * goal

    def along(direction: Array) -> Test:
        reach = design @ direction
        bent = ((curvature * reach)[:, None] * design + growth * direction) @ back
        features = np.column_stack([pulls @ direction / radius, bent, spread * np.abs(reach) * seen])
        base = np.concatenate([[-(held * goal) @ direction / radius], (held * direction) @ back, [0.0]])
        # (a + b)² ≤ (1 + τ)a² + (1 + 1/τ)b² for any τ, best where τ is b/a.
        total = base + start @ features
        tau = min(max(total[-1] / max(float(np.linalg.norm(total[1:-1])), 1e-300), 1e-3), 1e3) if spread.any() else 0.0
        scale = np.full(len(base), math.sqrt(1.0 + tau))
        scale[0], scale[-1] = 1.0, math.sqrt(1.0 + 1.0 / tau) if tau else 0.0
        return Test(features * scale, base * scale)

    # Directions in which subsets near the known one move the model: the way it has left to the goal first.
    away = metric @ (problem.fit(start[None])[0] - goal)
    basis = np.linalg.qr(np.column_stack([away, np.eye(len(away))]))[0][:, :DIRECTIONS]
    hessian = problem.hessians((start * curvature)[None], np.array([start.sum()]))[0]
    directions = basis.T @ metric @ np.linalg.pinv(hessian, hermitian=True)
    lengths = np.linalg.norm(directions, axis=1)
    return [along(one) for one in directions[lengths > 1e-9 * lengths.max()]]  # a singular metric sees fewer


class _Half:
    """Some rows, all their subsets of at most so many, and what each test adds up over each subset."""

    def __init__(self, tests: list[Test], rows: slice, high: int) -> None:
        width = len(tests[0].features[rows])
        subsets = np.zeros((1, width), dtype=bool)
        for place in range(width):
            more = subsets[subsets.sum(axis=1) < high]
            more[:, place] = True
            subsets = np.concatenate([subsets, more])
        self.subsets, self.sizes = subsets, subsets.sum(axis=1)
        self.totals = [subsets.astype(np.float64) @ test.features[rows] for test in tests]


@dataclass(frozen=True, eq=False)
class _Plan:
    """Tests in the order in which they are tried: by matrix products, then exactly on the pairs that pass."""

    tests: list[Test]
    work: float
    """Multiplications, by estimate."""
    passing: float
    """Subsets that pass, by estimate."""

    @classmethod
    def of(cls, tests: list[Test], low: int, high: int) -> _Plan | None:
        """Estimate from a sample how many subsets pass each test."""
        if not tests:
            return None
        rows = len(tests[0].features)
        drawn, number = _sample(rows, low, high), float(count(rows, low, high))
        totals = [drawn @ test.features + test.base for test in tests]
        passed = [test.passed(total) for test, total in zip(tests, totals, strict=True)]
        order = sorted(range(len(tests)), key=lambda place: passed[place].sum())
        first = totals[order[0]]
        # Of all pairs, only those in the window of the first test are looked at.
        window = float((np.abs(first[:, 0]) <= 1.5 * np.linalg.norm(first[:, 1:], axis=1).max()).mean())
        work = len(tests) * number * max(window, 1.0 / BLOCK[0]) * (first.shape[1] + 4.0)
        return cls([tests[place] for place in order], work, number * np.logical_and.reduce(passed).mean())

    def candidates(self, low: int, high: int) -> Iterator[Mask]:
        """Yield the subsets that pass all tests, row by row in the order given."""
        rows = len(self.tests[0].features)
        one, other = _Half(self.tests, slice(0, None, 2), high), _Half(self.tests, slice(1, None, 2), high)
        found, many = list[Mask](), 0
        for size in np.unique(one.sizes):
            left = np.flatnonzero(one.sizes == size)
            right = np.flatnonzero((other.sizes >= low - size) & (other.sizes <= high - size))
            for i, j in self._pairs([part[left] for part in one.totals], [part[right] for part in other.totals]):
                subsets = np.empty((len(i), rows), dtype=bool)
                subsets[:, ::2], subsets[:, 1::2] = one.subsets[left[i]], other.subsets[right[j]]
                found.append(subsets)
                many += len(i)
                if many >= FITTED:
                    yield np.concatenate(found)
                    found, many = [], 0
        if found:
            yield np.concatenate(found)

    def _pairs(self, left: list[Array], right: list[Array]) -> Iterator[tuple[Numbers, Numbers]]:
        """Pairs of two halves' subsets that pass all tests."""
        if not len(left[0]) or not len(right[0]):
            return
        left = [part + test.base for part, test in zip(left, self.tests, strict=True)]
        back, ahead = np.argsort(left[0][:, 0]), np.argsort(right[0][:, 0])
        left, right = [part[back] for part in left], [part[ahead] for part in right]
        lead = right[0][:, 0]
        far = sum(float(np.linalg.norm(part[0][:, 1:], axis=1).max()) for part in (left, right)) * (1.0 + SAFETY)
        forms = [_Form(*parts) for parts in zip(left, right, strict=True)]
        for start in range(0, len(back), BLOCK[0]):
            some = slice(start, min(start + BLOCK[0], len(back)))
            begin, end = np.searchsorted(lead, [-far - left[0][some.stop - 1, 0], far - left[0][start, 0]])
            for at in range(int(begin), int(end), BLOCK[1]):
                others = slice(at, min(at + BLOCK[1], int(end)))
                passed = np.logical_and.reduce([form.passed(some, others) for form in forms])
                i, j = np.divmod(np.flatnonzero(passed), others.stop - others.start)
                i, j = i + start, j + at
                for test, one, other in zip(self.tests, left, right, strict=True):
                    passes = test.passed(one[i] + other[j])
                    i, j = i[passes], j[passes]
                if len(i):
                    yield back[i], ahead[j]


class _Form:
    """One test on all pairs of totals by a matrix product in float32, with a margin for its errors."""

    def __init__(self, left: Array, right: Array) -> None:
        sign = np.append(1.0, -np.ones(left.shape[1] - 1))
        forms = np.square(left) @ sign, np.square(right) @ sign
        self._left = np.column_stack([2.0 * left * sign, forms[0], np.ones(len(left))]).astype(np.float32)
        self._right = np.column_stack([right, np.ones(len(right)), forms[1]]).astype(np.float32).T.copy()
        self._sizes = np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1)

    def passed(self, some: slice, other: slice) -> Mask:
        """Mark pairs that may pass."""
        most = float(self._sizes[0][some].max() + self._sizes[1][other].max()) ** 2
        return np.asarray(self._left[some] @ self._right[:, other] <= (self._left.shape[1] + 4) * 1.2e-7 * most)


def _sample(rows: int, low: int, high: int) -> Array:
    """Draw subsets, all with the same probability, as zeros and ones."""
    draw = np.random.default_rng(0)
    sizes = np.arange(low, high + 1)
    likely = np.array([math.comb(rows, int(size)) for size in sizes], dtype=np.float64)
    chosen = draw.choice(sizes, SAMPLE, p=likely / likely.sum())
    order = np.argsort(np.argsort(draw.random((SAMPLE, rows)), axis=1), axis=1)
    return np.asarray(order < chosen[:, None], dtype=np.float64)

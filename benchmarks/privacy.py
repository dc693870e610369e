"""How near lessons come in which every owner teaches its own share: isolated, and under differential privacy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge

from benchmarks import pools
from benchmarks.table import Measurements
from superteach.errors import DataError
from superteach.privacy import moments
from superteach.privacy.moments import Releases, Split
from superteach.privacy.shares import fair_shares
from superteach.selection.choice import Choice, choose_rows
from superteach.types import Array, Positions

SEED = 9_000
"""The first of the pools: constants were chosen on pools 0 to 9."""
EPSILON, DELTA = 1.0, 1e-6


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows, who owns them, a learner, and its sample gradients at the goal."""

    design: Array
    target: Array
    owner: Positions
    learner: Any
    penalty: Array
    """Of each coefficient; 0 for a free intercept, which is the last column of the design."""
    goal: Array

    @property
    def slopes(self) -> Array:
        """−ℓ'(x_j'θ*)."""
        at = self.design @ self.goal
        return np.asarray(
            self.target - at if isinstance(self.learner, Ridge) else self.target * expit(-self.target * at)
        )

    @property
    def curvatures(self) -> Array:
        """ℓ''(x_j'θ*)."""
        at = self.design @ self.goal
        return np.ones(len(at)) if isinstance(self.learner, Ridge) else np.asarray(expit(at) * expit(-at))

    def fitted(self, rows: Any) -> Array:
        """The learner's coefficients on some rows."""
        X = self.design[:, :-1] if self.learner.fit_intercept else self.design
        model = self.learner.fit(X[rows], self.target[rows])
        return np.append(np.ravel(model.coef_), np.ravel(model.intercept_) if self.learner.fit_intercept else [])


@dataclass(frozen=True)
class Outcome:
    """A lesson as an observer who owns all rows sees it."""

    risk: float
    agreement: float
    """Part of all rows that it classifies as the goal does."""
    size: int
    carriers: int
    short: int
    """Carriers whose rows do not reach their share."""
    seconds: float


def synthetic(kind: str, rows: int, columns: int, owners: int, split: str, seed: int) -> Pool:
    """Make a pool of docs/notation.md with a goal moved by its own length, dealt out in one of several ways."""
    make = pools.regression if kind == "ridge" else pools.classification
    X, y, owner = make(rows, columns, owners, seed=seed)
    if kind == "ridge":
        penalty, learner = rows / 5_000, Ridge(alpha=rows / 5_000, fit_intercept=False)
    else:
        penalty = pools.RIDGE_PER_ROW * rows
        learner = LogisticRegression(C=1.0 / penalty, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
    truth = np.ravel(learner.fit(X, y).coef_)
    noise = np.random.default_rng(10_000 + seed).standard_normal(columns)
    goal = truth + noise * np.linalg.norm(truth) / np.linalg.norm(noise)
    along = {
        "iid": None,
        "label": y,
        "slices": X @ np.random.default_rng(1).standard_normal(columns),
        "margin": y * (X @ goal),
        "residual": y - X @ goal,
    }[split]
    if along is not None:
        place = np.argsort(np.argsort(along, kind="stable"), kind="stable")
        owner = np.minimum(place * owners // rows, owners - 1)
    return Pool(X, y, owner, learner, np.full(columns, penalty), goal)


def lesson(pool: Pool, share: float, mode: str, seed: int) -> Outcome:
    """Choose a lesson as its owners would, each from its own rows and public numbers."""
    gradients, curvatures = pool.design * pool.slopes[:, None], pool.curvatures
    members = [np.flatnonzero(pool.owner == one) for one in range(int(pool.owner.max()) + 1)]
    size, started = round(share * len(pool.target)), time.perf_counter()
    asked = divide([gradients[some] for some in members], pool.penalty * pool.goal, size, mode)
    draw, chosen, choices = np.random.default_rng(seed), [], []
    for some, rows, target in zip(members, asked.rows, asked.targets, strict=True):
        if rows:
            choice = _choose(pool.design[some], gradients[some], curvatures[some], target, int(rows), pool, size, draw)
            chosen.append(some[choice.rows])
            choices.append(choice)
    seconds = time.perf_counter() - started
    rows = np.concatenate(chosen)
    model = pool.fitted(rows)
    agree = float(np.mean((pool.design @ model > 0.0) == (pool.design @ pool.goal > 0.0)))
    short = sum(not choice.carried for choice in choices)
    return Outcome(float(np.linalg.norm(model - pool.goal)), agree, len(rows), len(choices), short, seconds)


def divide(gradients: list[Array], target: Array, size: int, mode: str) -> Split:
    """Split a goal among owners: into fair shares, or by two noisy releases of each of them."""
    sizes, columns = [len(own) for own in gradients], len(target)
    if mode == "isolated":
        rows = fair_shares(sizes, columns, size)
        return Split(rows, rows[:, None] / size * target)
    private = Releases(EPSILON, DELTA)
    grid = private.units(columns)
    counts = [moments.release(moments.count_octaves(own), grid) for own in gradients]
    weights = moments.read_units(np.sum(counts, axis=0), moments.deviation(grid) * np.sqrt(len(sizes)))
    grid = private.moments(columns)
    released = [moments.release(moments.second_moments(own, weights), grid) for own in gradients]
    return moments.split(released, weights, moments.deviation(grid), sizes, target, size)


def _choose(
    design: Array, gradients: Array, curvatures: Array, target: Array, rows: int, pool: Pool, size: int, draw: Any
) -> Choice:
    def curvature(likely: Array) -> Array:
        return np.asarray((design.T * (curvatures * likely)) @ design)

    return choose_rows(gradients, curvature, target, rows, pool.penalty * rows / size, draw)


CASES = (
    ("logistic", 50_000, 10, 10, "iid", "1.1e-4"),
    ("logistic", 50_000, 10, 10, "label", "1.0e-4"),
    ("logistic", 50_000, 10, 10, "slices", "2.2e-4"),
    ("logistic", 5_000, 10, 10, "iid", "0.01"),
    ("logistic", 5_000, 10, 50, "iid", "0.03"),
    ("logistic", 50_000, 10, 200, "iid", "0.003"),
    ("logistic", 50_000, 10, 10, "margin", "dp 0.01"),
    ("ridge", 50_000, 10, 10, "residual", "dp 0.1"),
    ("logistic", 50_000, 30, 10, "label", "0.001"),
)
"""Learner, rows, columns, owners, how rows are dealt out, and the risk asked for (of dp: at most 1.2 times as much)."""


def _risks(quick: bool, first: int = SEED) -> Measurements:
    table = Measurements(
        f"Risk by privacy mode: 4 %, goal moved by its own length; dp with ε = {EPSILON:g}, δ = {DELTA:g}, local noise",
        (
            "learner", "N", "d", "K", "owners by", "pools", "isolated", "worst", "dp", "worst", "asked", "carriers",
            "s isolated", "s dp",
        ),
    )  # fmt: skip
    for kind, rows, columns, owners, split, asked in CASES:
        found: dict[str, list[Outcome]] = {"isolated": [], "dp": []}
        for seed in range(first, first + (3 if quick else 10)):
            pool = synthetic(kind, rows, columns, owners, split, seed)
            for mode, outcomes in found.items():
                outcomes.append(lesson(pool, 0.04, mode, seed))
        risks = {mode: [one.risk for one in outcomes] for mode, outcomes in found.items()}
        carriers = " / ".join(f"{np.median([one.carriers for one in found[mode]]):.0f}" for mode in found)
        table.rows.append(
            (
                kind, rows, columns, owners, split, len(risks["dp"]),
                float(np.median(risks["isolated"])), max(risks["isolated"]), float(np.median(risks["dp"])), max(risks["dp"]),
                asked, carriers, *(float(np.median([one.seconds for one in found[mode]])) for mode in found),
            )
        )  # fmt: skip
    return table


def census(goal: str) -> Pool:
    """ACS income by state, one-hot, in public units: the goal is moved by its own length, or New York's."""
    from superteach_lab.data import load_acs_income

    found = load_acs_income(categories="one-hot")
    X, y, states = found.data, np.where(found.target > 0, 1.0, -1.0), found.groups
    X = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))])
    learner = LogisticRegression(solver="newton-cholesky", tol=1e-10)
    penalty = np.append(np.ones(X.shape[1] - 1), 0.0)
    everybody = np.ones(len(y), dtype=bool)
    some = everybody if goal == "moved" else states != "NY"
    empty = Pool(X, y, np.zeros(len(y), dtype=np.int64), learner, penalty, np.zeros(X.shape[1]))
    wanted = empty.fitted(everybody if goal == "moved" else ~some)
    if goal == "moved":
        noise = np.random.default_rng(7_000).standard_normal(len(wanted))
        wanted = wanted + noise * np.linalg.norm(wanted) / np.linalg.norm(noise)
    return Pool(X[some], y[some], np.unique(states[some], return_inverse=True)[1], learner, penalty, wanted)


def _states(quick: bool) -> Measurements:
    table = Measurements(
        f"ACS income by state, 30 columns and an intercept, 1 % of the rows; dp with ε = {EPSILON:g}, δ = {DELTA:g}",
        ("goal", "mode", "K", "N", "rows chosen", "carriers", "short", "risk", "agreement (asked: 99.8 %)", "seconds"),
    )
    for goal in ("moved", "New York's"):
        try:
            pool = census(goal)
        except DataError as error:
            table.title += f" (not measured: {error})"
            return table
        for mode in ("isolated", "dp"):
            one = lesson(pool, 0.01, mode, SEED)
            table.rows.append(
                (
                    goal, mode, int(pool.owner.max()) + 1, len(pool.target), one.size, one.carriers, one.short, one.risk,
                    f"{100.0 * one.agreement:.4g} %", one.seconds,
                )
            )  # fmt: skip
    return table


PARTS: dict[str, Callable[[bool], Measurements]] = {"risks": _risks, "states": _states}
"""Tables of this benchmark: `python -m benchmarks privacy.states` measures one of them."""


def run(quick: bool) -> Iterator[Measurements]:
    """Yield the tables of this benchmark."""
    for part in PARTS.values():
        yield part(quick)

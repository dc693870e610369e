"""How near lessons come in which every owner teaches its own share: isolated, and under differential privacy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from benchmarks import pools
from benchmarks.table import Measurements
from superteach.exceptions import DataError
from superteach.io.validation import Part
from superteach.learner import Learner
from superteach.local import LocalTeachers
from superteach.losses import Logistic
from superteach.privacy import moments
from superteach.privacy.accounting import Mode, Release
from superteach.privacy.moments import Split
from superteach.privacy.shares import fair_shares
from superteach.protocol.queries import CountMagnitudes, SecondMoments
from superteach.settings import Settings
from superteach.types import Array, Positions

SEED = 9_000
"""The first of the pools: constants were chosen on pools 0 to 9."""
EPSILON, DELTA = 1.0, 1e-6
CENSUS_DELTA = 5e-8
"""A census of 1.4 million rows needs a smaller one."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows, who owns them, a learner, and a goal; an intercept is the last column of the design."""

    design: Array
    target: Array
    owner: Positions
    learner: Any
    goal: Array

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
    """Make a pool of docs/explanation/paper.md with a goal moved by its own length, dealt out in one of several ways."""
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
    return Pool(X, y, owner, learner, goal)


def lesson(pool: Pool, share: float, mode: str, seed: int, delta: float = DELTA) -> Outcome:
    """Teach a lesson in a privacy mode, and look at it as whoever owns all rows can."""
    features = pool.design[:, :-1] if pool.learner.fit_intercept else pool.design
    members = [np.flatnonzero(pool.owner == one) for one in range(int(pool.owner.max()) + 1)]
    parts = [Part(f"t{one}", features[some], pool.target[some], some) for one, some in enumerate(members)]
    size = round(share * len(pool.target))
    settings = Settings(budget=size, privacy=mode, epsilon=EPSILON, delta=delta, random_state=seed)
    names = [str(column) for column in range(features.shape[1])]
    teachers = LocalTeachers(parts, names, Learner.of(pool.learner))
    taught = teachers.teach(pool.goal, settings, measure=False)
    rows = np.concatenate([some[chosen] for some, chosen in zip(members, taught.chosen, strict=True)])
    model = pool.fitted(rows)
    agree = float(np.mean((pool.design @ model > 0.0) == (pool.design @ pool.goal > 0.0)))
    carriers, short = sum(len(chosen) > 0 for chosen in taught.chosen), sum("not carry" in one for one in taught.notes)
    risk = float(np.linalg.norm(model - pool.goal))
    return Outcome(risk, agree, len(rows), carriers, short, taught.lesson.seconds)


def divide(gradients: list[Array], target: Array, size: int, mode: str) -> Split:
    """Split a goal among owners as lessons do: into fair shares, or by two noisy releases of each of them."""
    sizes, columns = [len(own) for own in gradients], len(target)
    if mode == "isolated":
        rows = fair_shares(sizes, columns, size)
        return Split(rows, rows[:, None] / size * target)
    dp, goal = Mode("dp", EPSILON, DELTA), np.zeros(columns)
    counted = CountMagnitudes(Logistic(), 0.0, goal).release
    counts = [_noisy(moments.count_octaves(own), dp, counted) for own in gradients]
    weights = moments.read_units(np.sum(counts, axis=0), dp.deviation(counted) * np.sqrt(len(sizes)))
    summed = SecondMoments(Logistic(), 0.0, goal, weights).release
    released = [_noisy(moments.second_moments(own, weights), dp, summed) for own in gradients]
    return moments.split(released, weights, dp.deviation(summed), sizes, target, size)


def _noisy(numbers: Array, mode: Mode, release: Release) -> Array:
    grid = mode.grid(release)
    return np.asarray((grid.to_integers(numbers) + grid.noise(len(numbers))) * grid.step)


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
    everybody = np.ones(len(y), dtype=bool)
    some = everybody if goal == "moved" else states != "NY"
    empty = Pool(X, y, np.zeros(len(y), dtype=np.int64), learner, np.zeros(X.shape[1]))
    wanted = empty.fitted(everybody if goal == "moved" else ~some)
    if goal == "moved":
        noise = np.random.default_rng(7_000).standard_normal(len(wanted))
        wanted = wanted + noise * np.linalg.norm(wanted) / np.linalg.norm(noise)
    return Pool(X[some], y[some], np.unique(states[some], return_inverse=True)[1], learner, wanted)


def _states(quick: bool) -> Measurements:
    table = Measurements(
        f"ACS income by state, 30 columns and an intercept, 1 % of the rows; dp with ε = {EPSILON:g}, δ = {CENSUS_DELTA:g}",
        ("goal", "mode", "K", "N", "rows chosen", "carriers", "short", "risk", "agreement (asked: 99.8 %)", "seconds"),
    )
    for goal in ("moved", "New York's"):
        try:
            pool = census(goal)
        except DataError as error:
            table.title += f" (not measured: {error})"
            return table
        for mode in ("isolated", "dp"):
            one = lesson(pool, 0.01, mode, SEED, CENSUS_DELTA)
            table.rows.append(
                (
                    goal, mode, int(pool.owner.max()) + 1, len(pool.target), one.size, one.carriers, one.short, one.risk,
                    f"{100.0 * one.agreement:.4g} %", one.seconds,
                )
            )  # fmt: skip
    return table


def _hospitals(quick: bool) -> Measurements:
    """Four hospitals teach the model of all patients without a coefficient for their sex."""
    from superteach_lab.data import load_heart_disease

    heads = ("mode", "K", "N", "d", "rows chosen", "carriers", "risk", "worst", "least agreement")
    table = Measurements(
        f"Heart disease in four hospitals, 120 rows, no coefficient for sex; dp with ε = {EPSILON:g}", heads
    )
    try:
        patients = load_heart_disease()
    except DataError as error:
        table.title += f" (not measured: {error})"
        return table
    X, y = patients.data, np.where(patients.target > 0, 1.0, -1.0)
    X = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))])
    owner = np.unique(patients.groups, return_inverse=True)[1]
    pool = Pool(X, y, owner, LogisticRegression(solver="newton-cholesky", tol=1e-10), np.zeros(X.shape[1]))
    goal = pool.fitted(np.ones(len(y), dtype=bool))
    goal[list(patients.feature_names).index("sex")] = 0.0
    pool = replace(pool, goal=goal)
    for mode in ("isolated", "dp"):
        each = [lesson(pool, 120 / len(y), mode, SEED + seed) for seed in range(3 if quick else 10)]
        risks = [one.risk for one in each]
        least = f"{100.0 * min(one.agreement for one in each):.4g} %"
        carriers, owners = int(np.median([one.carriers for one in each])), int(owner.max()) + 1
        median, columns = float(np.median(risks)), X.shape[1] - 1
        table.rows.append((mode, owners, len(y), columns, each[0].size, carriers, median, max(risks), least))
    return table


def _delivered(quick: bool) -> Measurements:
    """Guess from the model that is handed over, and all other rows, whether one row was in the pool."""
    from superteach_lab.audit.delivered import MODELS, judge, look
    from superteach_lab.audit.empirical import crafted
    from superteach_lab.audit.subject import Subject
    from superteach_lab.data import load_heart_disease

    runs = 15 if quick else 150
    heads = ("mode", "row", "lessons", "AUC (asked: 0.6)", "95 % from", "to")
    table = Measurements("A row seen from the delivered model: heart disease in four hospitals, 74 rows", heads)
    try:
        patients = load_heart_disease()
    except DataError as error:
        table.title += f" (not measured: {error})"
        return table
    X, y = patients.data, np.where(patients.target > 0, 1.0, -1.0)
    X, owner = (X - X.mean(axis=0)) / X.std(axis=0), patients.groups
    learner = LogisticRegression()
    pool = Pool(np.column_stack([X, np.ones(len(X))]), y, np.zeros(len(y), dtype=np.int64), learner, np.zeros(0))
    goal = pool.fitted(np.ones(len(y), dtype=bool))
    noise = np.random.default_rng(SEED).standard_normal(len(goal))
    goal = goal + 0.5 * np.linalg.norm(goal) * noise / np.linalg.norm(noise)
    parts = tuple((X[owner == one], y[owner == one]) for one in np.unique(owner))
    subject = Subject(parts, learner, goal, 74)
    for mode in (Mode("isolated"), Mode("dp", EPSILON, DELTA)):
        for attack, kind in MODELS.items():
            seen = judge(look(subject, crafted(subject)[kind], mode, runs, {}), mode, attack, again=False)
            low, high = seen.between or (np.nan, np.nan)
            table.rows.append((mode.name, attack, 2 * runs, seen.auc, low, high))
    return table


PARTS: dict[str, Callable[[bool], Measurements]] = {
    "risks": _risks,
    "states": _states,
    "hospitals": _hospitals,
    "delivered": _delivered,
}
"""Tables of this benchmark: `python -m benchmarks privacy.states` measures one of them."""


def run(quick: bool) -> Iterator[Measurements]:
    """Yield the tables of this benchmark."""
    for part in PARTS.values():
        yield part(quick)

"""Real tables and wide pools for docs/generated/how-we-compare.md: rows, learners, goals, and the run.

Run them with python -m superteach_lab.experiments.compare_page --run --real; $SUPERTEACH_DATA names the tables' folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from superteach.datasets import make_classification_pool, split_evenly
from superteach.goals import FederatedProblem, Goal, MaxAUC
from superteach.learner import Learner
from superteach.losses import Logistic, Squared
from superteach.types import Array
from superteach_lab import data
from superteach_lab.compare import bench
from superteach_lab.compare.bench import Cell
from superteach_lab.compare.child import Choice
from superteach_lab.compare.referee import Referee
from superteach_lab.compare.sources import GOAL_SEED, RIDGE_PER_ROW
from superteach_lab.compare.task import GOAL, Contestant
from superteach_lab.records import Record, Records

SECONDS = 30.0
"""Processor time after which a choice is stopped."""
PATIENCE = 900.0
"""Seconds by the clock that are waited for it: a busy machine is no fault of a contestant's."""
STOPPED = "no choice within"
LONG, FEW = 4.0, 3
"""Whoever uses more seconds of processor time for the first goal of a size is scored on few goals of that size."""


class Table(NamedTuple):
    """What a loader gave: columns, targets (labels −1 and +1), owners (None: nobody), names of columns."""

    X: Array
    y: Array
    owner: npt.NDArray[Any] | None
    names: Sequence[str]


class Rows(NamedTuple):
    """Some rows and their targets."""

    X: Array
    y: Array


@dataclass(frozen=True)
class MovedFit:
    """θ* = θ_gt + share·‖θ_gt‖·τ, θ_gt fitted on all rows, τ a random direction."""

    seed: int
    share: float

    def vector(self, problem: FederatedProblem) -> Array:
        """Fit from sums, then move."""
        truth = problem.fit_pool()
        noise = np.random.default_rng(self.seed).standard_normal(len(truth))
        noise *= self.share * np.linalg.norm(truth) / np.linalg.norm(noise)
        return problem.scaling.raw(truth + noise)


@dataclass(frozen=True)
class Wide:
    """Four Gaussian clusters in many columns, as benchmarks/oracle/pools.py has them; every seed is another pool."""

    features: int
    rows: int
    share: float
    moved: float
    teachers: tuple[int, ...] = (10,)
    seeds: int = 5
    real: bool = False
    steady: bool = False

    @property
    def name(self) -> str:
        """What the tables call it."""
        return f"synthetic, d = {self.features}"

    @property
    def about(self) -> str:
        """What the page says of it."""
        return (
            f"Synthetic. {self.rows:,} rows, {self.features} columns, four Gaussian clusters, logistic regression with "
            f"Λ = {RIDGE_PER_ROW * self.rows:g}, no intercept, {self.teachers[0]} teachers. Goal: the fit on all rows, "
            f"moved by {self.moved:g} of its length. Medians over {self.seeds} seeds."
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of the lessons."""
        return (round(self.share * self.rows),)

    def settings(self) -> Record:
        """What describes it in a file of results."""
        return {"learner": "logistic", "rows": self.rows, "features": self.features, "moved": self.moved}

    def referee(self, teachers: int, seed: int, seconds: float) -> Referee:
        """A pool and a goal of this seed."""
        X, labels, owner = make_classification_pool(self.rows, self.features, teachers, seed)
        learner, goal = Learner(Logistic(), RIDGE_PER_ROW * self.rows), MovedFit(GOAL_SEED + seed, self.moved)
        return Referee(X, np.where(labels > 0, 1.0, -1.0), owner, learner, goal, seconds, PATIENCE, seconds)


@dataclass(frozen=True)
class Real:
    """A published table: a pool drawn from it once, and goals that come from its other rows; a seed is a goal."""

    key: str
    """Of its file of results."""
    name: str
    load: Callable[[], Table]
    learner: Learner
    rows: int
    other: int
    """Rows outside the pool that each goal is found on."""
    sizes: tuple[int, ...]
    teachers: tuple[int, ...]
    told: str
    """Where the rows come from and what their columns are."""
    dropped: tuple[str, ...] = ()
    """Columns of which one goal each has none."""
    home: tuple[str, ...] = ()
    """Owners from whose rows the pool is drawn, the same number from each; all where there are none."""
    seeds: int = 10
    real: bool = True
    steady: bool = True

    @property
    def about(self) -> str:
        """What the page says of it."""
        if self.learner.loss.classifies:
            student = f"Logistic regression with an intercept, C = {1.0 / self.learner.ridge:g}"
            kinds = f"4 fits, 3 fits with the coefficient of {' or '.join(self.dropped)} set to 0, 3 from `MaxAUC`"
        else:
            student = f"Ridge regression with an intercept, alpha = {self.learner.ridge:g}"
            kinds = "4 fits, 3 fits with alpha = 10, 100, 1,000, and 3 fits to targets with noise of 10 K more"
        return (
            f"Real. {self.told} Pool: {self.rows:,} rows, {self.teachers[0]} teachers. {student}. Goals, each from "
            f"{self.other:,} rows outside the pool: {kinds}. Medians over {self.seeds} goals."
        )

    def settings(self) -> Record:
        """What describes it in a file of results."""
        return {"table": self.name, "rows": self.rows, "other": self.other, "ridge": self.learner.ridge}

    def referee(self, teachers: int, seed: int, seconds: float) -> Referee:
        """The same rows for every seed, and the goal of this number."""
        table, pool, others = split(self)
        own = table.owner
        if own is None:
            owner = split_evenly(len(pool), teachers, np.random.default_rng(1))
        else:
            owner = np.unique(own[pool], return_inverse=True)[1]
        goal = self.goal(table, others, seed)
        return Referee(table.X[pool], table.y[pool], owner, self.learner, goal, seconds, PATIENCE, seconds)

    def goal(self, table: Table, others: npt.NDArray[np.int64], number: int) -> Array:
        """The goal of this number, from some of the other rows."""
        draw = np.random.default_rng(GOAL_SEED + number)
        some = draw.choice(others, self.other, replace=False)
        rows = Rows(table.X[some], table.y[some])
        # Kinds take turns, so that the first goals are of every kind: fit, second, third, fit, … and a fit at the end.
        turn, kind = divmod(number, 3)
        if kind == 0:
            return _found(rows, self.learner, MovedFit(0, 0.0))
        if not self.learner.loss.classifies:
            noise = 10.0 * draw.standard_normal(self.other) * (kind == 2)
            ridge = 10.0 ** (turn + 1) if kind == 1 else self.learner.ridge
            learner = Learner(self.learner.loss, ridge, self.learner.intercept)
            return _found(Rows(rows.X, rows.y + noise), learner, MovedFit(0, 0.0))
        if kind == 2:
            return _found(rows, self.learner, MaxAUC())
        goal = _found(rows, self.learner, MovedFit(0, 0.0))
        goal[list(table.names).index(self.dropped[turn])] = 0.0
        return goal


def _found(rows: Rows, learner: Learner, goal: Goal) -> Array:
    return Referee(rows.X, rows.y, np.zeros(len(rows.y)), learner, goal).goal


@cache
def split(source: Real) -> tuple[Table, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The table, which of its rows are the pool, and which are not."""
    table, draw = source.load(), np.random.default_rng(0)
    if source.home:
        assert table.owner is not None
        each = source.rows // len(source.home)
        parts = [draw.choice(np.flatnonzero(table.owner == name), each, replace=False) for name in source.home]
        pool = np.sort(np.concatenate(parts))
        others = np.flatnonzero(~np.isin(table.owner, source.home))
    else:
        order = draw.permutation(len(table.y))
        pool, others = np.sort(order[: source.rows]), np.sort(order[source.rows :])
    return table, pool, others


def _census() -> Table:
    return _labelled(data.load_acs_income())


def _heart() -> Table:
    return _labelled(data.load_heart_disease())


def _higgs() -> Table:
    return _labelled(data.load_higgs())


def _superconduct() -> Table:
    bunch = data.load_superconduct()
    X = np.asarray(bunch.data, dtype=np.float64)
    return Table((X - X.mean(axis=0)) / X.std(axis=0), np.asarray(bunch.target), None, bunch.feature_names)


def _labelled(bunch: Any) -> Table:
    y = np.where(bunch.target > 0, 1.0, -1.0)
    return Table(np.asarray(bunch.data, dtype=np.float64), y, bunch.groups, bunch.feature_names)


_CLASSIFIER = Learner(Logistic(), 1.0, "free")
SOURCES: tuple[Real | Wide, ...] = (
    Real(
        "acs", "ACS income", _census, _CLASSIFIER, 10_000, 10_000, (60, 100, 200, 500), (5,),
        "US census of 2018, 10 columns of codes and years in raw units; the rows of five states (GA, IL, NY, PA, TX) "
        "teach, 2,000 of each, and the goals come from all other states.",
        dropped=("SEX", "MAR", "RAC1P"), home=("GA", "IL", "NY", "PA", "TX"),
    ),
    Real(
        "heart", "heart disease", _heart, _CLASSIFIER, 600, 125, (20, 40, 80), (4,),
        "Patients of four hospitals, which are the teachers; 8 columns in raw units.",
        dropped=("sex", "exang", "oldpeak"),
    ),
    Real(
        "higgs", "HIGGS subset", _higgs, _CLASSIFIER, 10_000, 10_000, (100, 300, 1000), (5,),
        "Simulated collisions of particles, a subset of 54,424 rows; 28 columns as published.",
        dropped=("m_bb", "m_wwbb", "lepton_pT"),
    ),
    Real(
        "superconduct", "Superconduct", _superconduct, Learner(Squared(), 1.0, "free"), 10_000, 5_000, (200, 1000, 3000),
        (5,), "Superconductors and their critical temperature in kelvin; 81 columns, standardised.",
    ),
    Wide(30, 20_000, 0.04, 1.0),
    Wide(50, 100_000, 0.04, 0.3),
    Wide(100, 50_000, 0.3, 0.3),
)  # fmt: skip


def stored(source: Real | Wide, folder: Path) -> Path:
    """Where the cells of a table or pool are kept."""
    key = source.key if isinstance(source, Real) else f"wide-{source.features}"
    return folder / "compare" / f"{key}.jsonl"


def settings(source: Real | Wide) -> Record:
    """The head of that file."""
    return {**source.settings(), "processor_limit": SECONDS}


def run(source: Real | Wide, contestants: Sequence[Contestant], seeds: int | None, folder: Path) -> None:
    """Run the cells that are missing.

    Where the pool is the same for every goal, whoever does not see the goal chooses once, and is scored on all goals.
    Whoever was stopped is not tried again on other goals, nor with more rows of the same pool; whoever takes long
    is tried on few goals.
    """
    records = Records(stored(source, folder), settings(source))
    count = source.seeds if seeds is None else min(seeds, source.seeds)
    cells = bench.plan(source, contestants, source.sizes, count)
    missing = [cell for cell in cells if cell.key(source.name) not in records]
    stopped, long = dict(_stopped(records)), {_place(one) for one in records if _is_long(one)}
    choices: dict[tuple[str, int], Choice] = {}
    referees: dict[int, Referee] = {}
    begun = time.monotonic()
    for number, cell in enumerate(missing):
        name = cell.contestant.name
        shared = source.steady and GOAL not in cell.contestant.needs
        few = cell.seed >= FEW and (name, cell.size) in long and not shared
        if cell.size >= stopped.get(name, sys.maxsize) or few:
            continue
        if cell.seed not in referees:
            referees = {cell.seed: source.referee(source.teachers[0], cell.seed, SECONDS)}
        work = partial(_judge, referees[cell.seed], cell, choices if shared else None)
        found = records.get(cell.key(source.name), work)
        long |= {_place(found)} if _is_long(found) else set()
        if found["reason"].startswith(STOPPED):
            stopped[name] = min(cell.size, stopped.get(name, sys.maxsize))
        spent = time.monotonic() - begun
        worth = found["reason"] if found["risk"] is None else f"risk {found['risk']:.3g}"
        print(
            f"{source.name} {number + 1}/{len(missing)}, {spent:.0f} s: {name}, {cell.size:,} rows, "
            f"no. {cell.seed}: {worth}, {found['cpu'] or 0.0:.2g} s",
            file=sys.stderr,
            flush=True,
        )


def _stopped(records: Records) -> Iterator[tuple[str, int]]:
    """Who was stopped before, at which size at least."""
    found = [one["cell"] for one in records if one["reason"].startswith(STOPPED)]
    for cell in sorted(found, key=lambda cell: -int(cell["size"])):
        yield cell["contestant"], cell["size"]


def _place(record: Record) -> tuple[str, int]:
    return record["cell"]["contestant"], record["cell"]["size"]


def _is_long(record: Record) -> bool:
    return record["cell"]["seed"] == 0 and (record["cpu"] or 0.0) > LONG


def _judge(referee: Referee, cell: Cell, choices: dict[tuple[str, int], Choice] | None) -> Record:
    """Judge a contestant, or measure the one choice that it makes for all goals."""
    if choices is None:
        return referee.judge(cell.contestant, cell.size, cell.seed).as_dict()
    key = cell.contestant.name, cell.size
    if key not in choices:
        choices[key] = referee.choose(cell.contestant, cell.size, 0)
    return referee.measure(choices[key], cell.size).as_dict()

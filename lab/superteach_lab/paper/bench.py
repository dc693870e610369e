"""Pools to be taught from, and one scorer for every method: risk and consistency of the refitted learner."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from superteach.coordinator import metrics, path
from superteach.coordinator.federation import Federation
from superteach.coordinator.methods.base import lesson_sizes
from superteach.coordinator.teach import teach
from superteach.engines.threads import Threads
from superteach.exceptions import BudgetError
from superteach.goals import PerturbedFit
from superteach.io.validation import Part, make_teachers
from superteach.learner import Learner, fit
from superteach.lesson import Lesson
from superteach.losses import Logistic, Squared
from superteach.optim import Newton
from superteach.protocol.queries import Keep, Size
from superteach.teacher import Teacher
from superteach.types import Array
from superteach_lab import data as datasets
from superteach_lab.data import catalogue, sources

RIDGE_PER_ROW = 2e-4
"""Λ = ridge·N, the reading under which the paper's weights need no retuning (docs/explanation/paper.md)."""
GOAL_SEEDS = 1_000_000
"""Added to a trial's number: the goal's noise must not repeat the draws that made the rows."""
THREADS: int | None = None
"""Threads of every engine; None: as many as there are cores. A process that works beside others has one."""
REAL = {"superconduct": "ridge", "higgs": "logistic", "acs_income": "logistic"}
"""Published data, and the learner each is taught with."""


@dataclass(frozen=True, eq=False)
class PaperPool:
    """Teachers, their learner, and the seed of the paper's goal: the fit on all rows plus noise of its norm."""

    X: Array
    y: Array
    """Targets as the loss has them: −1 and +1 for classifiers."""
    teachers: tuple[Teacher, ...]
    learner: Learner
    seed: int

    @property
    def rows(self) -> int:
        """N."""
        return len(self.y)

    @property
    def goal(self) -> PerturbedFit:
        """θ* = θ_gt + τ."""
        return PerturbedFit(GOAL_SEEDS + self.seed)

    def sizes(self, extra: int | None = None) -> list[int]:
        """The lesson sizes at which methods are compared, the whole pool last, and one more where it is given."""
        sizes = set(lesson_sizes("best", self.rows, self.X.shape[1]))
        return sorted(sizes if extra is None else sizes | {extra})


@lru_cache(maxsize=1)
def synthetic(kind: str, rows: int, teachers: int, trial: int) -> PaperPool:
    """The paper's clusters: "logistic", "ridge" (noisy targets) or "ridge, no noise"."""
    if kind == "logistic":
        X, y, owner = datasets.make_classification_pool(rows, 10, teachers, trial)
        return _dealt(X, y, owner, Learner(Logistic(), RIDGE_PER_ROW * rows), trial)
    noise = 0.0 if kind == "ridge, no noise" else 20.0
    X, target, owner = datasets.make_regression_pool(rows, 10, teachers, noise, trial)
    return _dealt(X, target, owner, Learner(Squared(), RIDGE_PER_ROW * rows), trial)


def contents_of(name: str) -> str:
    """A digest of a published data set's files; "" where there are none."""
    return sources.contents_of(getattr(catalogue, name.upper()))


@lru_cache(maxsize=1)
def published(name: str, teachers: int | None, trial: int) -> PaperPool:
    """A published data set, columns standardised over the pool, dealt out evenly at random or (None) to its owners."""
    bunch = getattr(datasets, f"load_{name}")()
    y, X = bunch.target, np.asarray(bunch.data, dtype=np.float64)
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    rows = len(X)
    if teachers is None:
        owner = np.unique(bunch.groups, return_inverse=True)[1]
    else:
        owner = datasets.split_evenly(rows, teachers, np.random.default_rng([4, trial]))
    if REAL[name] == "logistic":
        return _dealt(X, np.asarray(y), owner, Learner(Logistic(), RIDGE_PER_ROW * rows), trial)
    target = np.asarray(y, dtype=np.float64)
    # No intercept, as in the paper: the target's mean goes with the columns' means.
    return _dealt(X, target - target.mean(), owner, Learner(Squared(), RIDGE_PER_ROW * rows), trial)


def _dealt(X: Array, y: Any, owner: Any, learner: Learner, seed: int) -> PaperPool:
    parts = [
        Part(str(number + 1), X, y, own, own)
        for number in range(int(owner.max()) + 1)
        for own in [np.flatnonzero(owner == number)]
    ]
    teachers, _ = make_teachers(parts, [f"x{column}" for column in range(X.shape[1])], learner.loss)
    target = np.where(y == np.max(y), 1.0, -1.0) if learner.loss.classifies else y
    return PaperPool(X, target, tuple(teachers), learner, seed)


def engine_of(pool: PaperPool) -> Threads:
    """The pool's teachers, ready to be asked."""
    return Threads(pool.teachers, threads=THREADS)


def taught(pool: PaperPool, size: int, **settings: Any) -> dict[str, Any]:
    """One lesson of a given size: what it reaches and what it took, or why there is none."""
    engine = engine_of(pool)
    try:
        lesson = _teach(engine, pool, size, settings)
    except BudgetError as error:
        return {"points": [], "reason": str(error), "seed": pool.seed}
    finally:
        engine.close()
    point = {"size": lesson.size, "risk": lesson.risk, "consistency": lesson.agreement}
    return {"points": [point], **_costs(lesson, pool)}


def walked(pool: PaperPool, extra: int | None = None, **settings: Any) -> dict[str, Any]:
    """A method that ranks rows once, scored at every size; time, rounds and bytes are those of one lesson."""
    engine = engine_of(pool)
    try:
        lesson = _teach(engine, pool, pool.rows, settings)
        points = _score_sizes(Federation(engine), pool.learner, lesson.goal, pool.sizes(extra), lesson.model)
    finally:
        engine.close()
    return {"points": points, **_costs(lesson, pool)}


def _teach(engine: Threads, pool: PaperPool, size: int, settings: dict[str, Any]) -> Lesson:
    return teach(
        Federation(engine),
        pool.learner,
        pool.goal,
        budget=size,
        measure="coefficients",
        random_state=pool.seed,
        **settings,
    )


def _costs(lesson: Lesson, pool: PaperPool) -> dict[str, Any]:
    record = {
        "pool_risk": lesson.pool_risk,
        "rounds": lesson.rounds,
        "bytes": lesson.bytes,
        "seconds": lesson.seconds,
        "converged": lesson.converged,
        "reason": lesson.reason,
        "proved_out_of_reach": lesson.certificate is not None,
        "seed": pool.seed,
        "goal_seed": pool.goal.seed,
    }
    if len(lesson.gap):
        record |= {"objective": float(lesson.objective[-1]), "gap": float(lesson.gap[-1])}
    return record


def _score_sizes(
    federation: Federation, learner: Learner, goal: Array, sizes: list[int], model: Array
) -> list[dict[str, Any]]:
    """Refit and compare at every size, from the whole pool downwards; sizes no learner can use are left out."""
    points = []
    for size, last in reversed(list(zip(sizes, path.last_ranks(federation, sizes), strict=True))):
        kept: Size = federation.sum(Keep(last))
        if learner.refuses(kept.rows, kept.positive):
            continue
        model = fit(federation.over("loss", "chosen"), learner, kept.rows, Newton(), model).model
        agreement = metrics.likeness(federation, model, goal, learner.loss.classifies).agreement
        points.append({"size": size, "risk": metrics.risk(model, goal), "consistency": agreement})
    return points[::-1]

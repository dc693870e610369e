"""Exact teaching beside the full pool and the paper's method, and its time against one scikit-learn fit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from benchmarks import pools
from benchmarks.table import Measurements, seconds
from superteach import Lesson, SuperTeacher, teach
from superteach.datasets import make_regression_pool
from superteach.goals import PerturbedFit

STAGES = ("relax", "round", "refine")


def run(quick: bool) -> Iterator[Measurements]:
    """Yield the tables of this benchmark."""
    yield _risks(quick)
    yield _unreachable(quick)
    yield _times(quick)


def _learner(kind: str, rows: int) -> Any:
    if kind == "logistic":
        return LogisticRegression(C=1.0 / (pools.RIDGE_PER_ROW * rows), fit_intercept=False)
    return Ridge(alpha=rows / 5_000, fit_intercept=False)


def _taught(kind: str, pool: tuple[Any, Any, Any], seed: int, **settings: Any) -> Lesson:
    X, y, owner = pool
    # Another seed than the pool's: the same one would draw noise that is correlated with the rows.
    teacher = SuperTeacher(_learner(kind, len(y)), PerturbedFit(100 + seed), random_state=seed, **settings)
    lesson: Lesson = teacher.fit(X, y, groups=owner).lesson_
    return lesson


def _search_rounds(lesson: Lesson) -> int:
    return sum(entry.stage in STAGES for entry in lesson.ledger)


def _risks(quick: bool) -> Measurements:
    table = Measurements(
        "Risk of a lesson of 4 %, d = 10, K = 10, medians over seeds (m: rows a turn changes, at least)",
        (
            "pool",
            "N",
            "seeds",
            "full pool",
            "paper, best fraction",
            "m",
            "match",
            "worst",
            "rounds",
            "seconds",
        ),
    )
    sizes = [("logistic", 5_000), ("logistic", 50_000), ("ridge, noisy", 5_000), ("ridge, noisy", 50_000)]
    for name, rows in [sizes[0], sizes[2]] if quick else sizes:
        kind, seeds = name.split(",")[0], range(3 if quick else 10)
        make = pools.classification if kind == "logistic" else pools.regression
        data = [make(rows, seed=seed) for seed in seeds]
        paper = [
            _taught(kind, pool, seed, budget="best", method="dual")
            for seed, pool in zip(seeds, data, strict=True)
        ]
        for least in (1, 10):
            lessons = [
                _taught(kind, pool, seed, budget=0.04, method="match", least_change=least)
                for seed, pool in zip(seeds, data, strict=True)
            ]
            risks = [lesson.risk for lesson in lessons]
            table.rows.append(
                (
                    name,
                    rows,
                    len(seeds),
                    float(np.median([lesson.pool_risk for lesson in lessons])),
                    float(np.median([lesson.risk for lesson in paper])),
                    least,
                    float(np.median(risks)),
                    max(risks),
                    max(_search_rounds(lesson) for lesson in lessons),
                    float(np.median([lesson.seconds for lesson in lessons])),
                )
            )
    return table


def _unreachable(quick: bool) -> Measurements:
    table = Measurements(
        "Goals out of reach: ridge without noise, N = 5,000, at most 2 % of the rows (risk over the proven bound)",
        (
            "seed",
            "full pool",
            "paper, best fraction",
            "match",
            "rows",
            "bound",
            "match / bound",
            "match / pool",
            "seconds",
        ),
    )
    for seed in range(2 if quick else 10):
        pool = make_regression_pool(5_000, 10, 10, noise=0.0, random_state=seed)
        paper = _taught("ridge", pool, seed, budget="best", method="dual")
        lesson = _taught("ridge", pool, seed, budget=(11, 100), method="match")
        bound, risk = lesson.lower_bound, lesson.risk
        over = risk / bound if bound else float("nan")
        table.rows.append(
            (seed, lesson.pool_risk, paper.risk, risk, lesson.size, bound, over, lesson.ratio, lesson.seconds)
        )
    return table


def _times(quick: bool) -> Measurements:
    table = Measurements(
        "Time of match, logistic, d = 10, K = 10, 4 %, goal a vector (whole lesson, rows already with the teachers)",
        ("N", "risk", "seconds", "× sklearn fit", "N grew ×", "time grew ×"),
    )
    before: tuple[int, float] | None = None
    for rows in (50_000, 500_000) if quick else (50_000, 500_000, 5_000_000):
        X, y, owner = pools.classification(rows)
        learner = _learner("logistic", rows).set_params(solver="newton-cholesky")
        truth = learner.fit(X, y).coef_[0]
        noise = np.random.default_rng(0).standard_normal(len(truth))
        goal = truth + noise * np.linalg.norm(truth) / np.linalg.norm(noise)
        fit = seconds(partial(learner.fit, X, y), 3)
        times = []
        for _ in range(3):
            federation = pools.federation(X, y, owner)
            started = time.perf_counter()
            lesson = teach(federation, learner, goal, budget=0.04, method="match", least_change=1)
            times.append(time.perf_counter() - started)
        took = float(np.median(times))
        grown = (rows / before[0], took / before[1]) if before else ("–", "–")
        table.rows.append((rows, lesson.risk, took, took / fit, *grown))
        before = rows, took
    return table

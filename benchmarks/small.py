"""Small pools: how often a lesson is the best there is, and Ma et al.'s figures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from benchmarks.table import Measurements
from superteach import Lesson, SuperTeacher
from superteach.goals import PerturbedFit
from superteach.types import Array
from superteach_lab.experiments import exhaustive


def run(quick: bool) -> Iterator[Measurements]:
    """Yield the tables of this benchmark."""
    yield optimum(quick)
    yield any_size(quick)


def _pool(kind: str, rows: int, width: int, seed: int) -> tuple[Array, Array]:
    draw = np.random.default_rng(seed)
    X = draw.standard_normal((rows, width))
    signal = X @ draw.standard_normal(width) + 1.5 * draw.standard_normal(rows)
    return X, signal if kind == "ridge" else np.where(signal > 0.0, 1.0, -1.0)


def _learner(kind: str) -> Any:
    if kind == "ridge":
        return Ridge(alpha=1.0, fit_intercept=False)
    return LogisticRegression(C=1.0, fit_intercept=False, solver="newton-cholesky", tol=1e-10)


def optimum(quick: bool) -> Measurements:
    """Compare lessons of four of 30 rows with the best of all 27,405."""
    table = Measurements(
        "Lessons of 4 of 30 rows, goal moved by its length: lessons at the optimum, and the highest risk over the optimum's",
        ("learner", "d", "pools", "optimal", "worst / optimum", "seconds"),
    )
    masks = exhaustive.masks(30, 4)
    for kind in ("ridge", "logistic"):
        for width in (2, 5) if quick else (2, 3, 5, 8):
            ratios, times = [], []
            for seed in range(8):
                X, y = _pool(kind, 30, width, seed)
                lesson, took = _timed(
                    SuperTeacher(_learner(kind), PerturbedFit(seed), budget=4, measure="coefficients"), X, y
                )
                positive = masks @ (y > 0.0)
                valid = masks if kind == "ridge" else masks[(positive > 0) & (positive < 4)]
                ratios.append(lesson.risk / exhaustive.risks(kind, X, y, 1.0, lesson.goal, valid).min())
                times.append(took)
            optimal = sum(bool(ratio < 1.0 + 1e-6) for ratio in ratios)
            table.rows.append((kind, width, len(ratios), optimal, max(ratios), float(np.median(times))))
    return table


def any_size(quick: bool) -> Measurements:
    """Repeat the ridge experiment of Ma et al. (AISTATS 2018) at any size of the lesson."""
    table = Measurements(
        'Ma et al. 2018, ridge, budget="best": risk over that of all rows; ten seeds',
        ("rows", "d", "median ratio", "lowest", "highest", "median rows", "seconds"),
    )
    for rows, width in ((16, 2), (30, 2), (30, 5), (32, 2), (64, 2), (64, 5), (32, 32)):
        lessons, times = [], []
        for seed in range(3 if quick else 10):
            draw = np.random.default_rng(seed)
            X, goal = draw.standard_normal((rows, width)), np.full(width, width**-0.5)
            y = X @ goal + np.sqrt(0.1) * draw.standard_normal(rows)
            # Their loss has no half: (x'θ − y)² + (0.1/2)‖θ‖² is scikit-learn's with alpha = 0.05.
            learner = Ridge(alpha=0.05, fit_intercept=False)
            lesson, took = _timed(SuperTeacher(learner, goal, budget="best", measure="coefficients"), X, y)
            lessons.append(lesson)
            times.append(took)
        ratios = [lesson.risk / lesson.pool_risk for lesson in lessons]
        size = float(np.median([lesson.size for lesson in lessons]))
        spread = float(np.median(ratios)), min(ratios), max(ratios)
        table.rows.append((rows, width, *spread, size, float(np.median(times))))
    return table


def _timed(teacher: SuperTeacher, X: Array, y: Array) -> tuple[Lesson, float]:
    started = time.perf_counter()
    lesson: Lesson = teacher.fit(X, y).lesson_
    return lesson, time.perf_counter() - started

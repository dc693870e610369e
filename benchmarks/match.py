"""Exact teaching: how near it comes by width, learner and way of rounding, and its time against one scikit-learn fit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from benchmarks import pools
from benchmarks.table import Measurements, seconds
from superteach import Lesson, SuperTeacher, teach
from superteach.datasets import make_regression_pool
from superteach.goals import PerturbedFit
from superteach.types import Array


@dataclass(frozen=True)
class Case:
    """A pool, a learner, a goal moved by a share of its length, and a lesson."""

    kind: str
    width: int
    rows: int
    share: float
    moved: float
    asked: float
    slow: bool = False
    seeds: int = 5


CASES = (
    Case("logistic", 10, 5_000, 0.04, 1.0, 3e-4),
    Case("logistic", 10, 50_000, 0.04, 1.0, 9e-6),
    Case("logistic", 10, 500_000, 0.04, 1.0, 3e-6, slow=True),
    Case("ridge, noisy", 10, 5_000, 0.04, 1.0, 3e-3),
    Case("logistic", 30, 20_000, 0.04, 1.0, 1e-5, seeds=20),
    Case("logistic", 50, 100_000, 0.04, 0.3, 1e-6, slow=True, seeds=20),
    Case("logistic", 100, 50_000, 0.3, 0.3, 1e-8, slow=True, seeds=20),
    Case("logistic", 300, 20_000, 0.3, 0.1, 1e-3, slow=True),
    Case("ridge, noisy", 50, 20_000, 0.1, 0.3, 1e-3),
    Case("squared hinge", 30, 20_000, 0.1, 1.0, 3e-5),
)


def run(quick: bool) -> Iterator[Measurements]:
    """Yield the tables of this benchmark."""
    yield _together(quick)
    yield _alone(quick)
    yield _unreachable(quick)
    yield _times(quick)


def _learner(kind: str, rows: int) -> Any:
    ridge = pools.RIDGE_PER_ROW * rows
    if kind == "logistic":
        return LogisticRegression(C=1.0 / ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
    if kind == "squared hinge":
        return LinearSVC(C=1.0 / ridge, fit_intercept=False, tol=1e-8, max_iter=100_000)
    return Ridge(alpha=rows / 5_000, fit_intercept=False)


def _moved_goal(truth: Array, share: float, seed: int) -> Array:
    # Another seed than the pool's: the same one would draw noise that is correlated with the rows.
    noise = np.random.default_rng(10_000 + seed).standard_normal(len(truth))
    return np.asarray(truth + share * noise * np.linalg.norm(truth) / np.linalg.norm(noise))


def _lesson(case: Case, seed: int, split: str = "iid", **settings: Any) -> Lesson:
    make = pools.regression if case.kind.startswith("ridge") else pools.classification
    X, y, owner = make(case.rows, case.width, seed=seed)
    learner = _learner(case.kind, case.rows)
    goal = _moved_goal(np.ravel(learner.fit(X, y).coef_), case.moved, seed)
    teacher = SuperTeacher(learner, goal, budget=case.share, random_state=seed, **settings)
    lesson: Lesson = teacher.fit(X, y, groups=_owners(split, X, y, owner)).lesson_
    return lesson


def _owners(split: str, X: Any, y: Any, owner: Any) -> Any:
    """Rows dealt out at random, by label, or in slices along a random direction."""
    teachers = int(owner.max()) + 1
    if split == "iid":
        return owner
    along = X @ np.random.default_rng(1).standard_normal(X.shape[1]) if split == "slices" else y
    place = np.argsort(np.argsort(along, kind="stable"), kind="stable")
    return np.minimum(place * teachers // len(y), teachers - 1)


def _together(quick: bool) -> Measurements:
    table = Measurements(
        "Risk of match, 10 teachers rounding together; pools of the paper, goal moved by a share of its length",
        (
            "learner", "d", "N", "share", "moved", "seeds", "full pool", "median risk", "worst", "asked", "predictions",
            "out of reach", "rounds", "seconds",
        ),
    )  # fmt: skip
    for case in CASES:
        if quick and case.slow:
            continue
        lessons = [_lesson(case, seed) for seed in range(100, 100 + (3 if quick else case.seeds))]
        table.rows.append(
            (
                case.kind, case.width, case.rows, case.share, case.moved, len(lessons),
                _median(lesson.pool_risk for lesson in lessons),
                _median(lesson.risk for lesson in lessons),
                _worst(lessons),
                case.asked,
                _median(lesson.prediction_distance for lesson in lessons),
                sum(lesson.certificate is not None for lesson in lessons),
                max(lesson.rounds for lesson in lessons),
                _median(lesson.seconds for lesson in lessons),
            )
        )  # fmt: skip
    return table


def _worst(lessons: list[Lesson]) -> float:
    """Return the highest risk of goals that are not proved out of reach; of all where each one is."""
    return max(lesson.risk for lesson in [one for one in lessons if one.certificate is None] or lessons)


def _alone(quick: bool) -> Measurements:
    table = Measurements(
        "Risk of match, 10 teachers rounding alone after the prices: logistic, d = 10, 4 %",
        ("N", "teachers", "seeds", "median risk", "worst", "rows off", "rounds", "seconds"),
    )
    for rows in (50_000,) if quick else (5_000, 50_000, 500_000):
        case = Case("logistic", 10, rows, 0.04, 1.0, 1e-4)
        for split in ("iid", "by label", "slices"):
            seeds = range(100, 103 if quick else 105)
            lessons = [_lesson(case, seed, split, rounding="alone") for seed in seeds]
            table.rows.append(
                (
                    rows, split, len(lessons),
                    _median(lesson.risk for lesson in lessons),
                    max(lesson.risk for lesson in lessons),
                    max(abs(lesson.size - round(0.04 * rows)) for lesson in lessons),
                    max(lesson.rounds for lesson in lessons),
                    _median(lesson.seconds for lesson in lessons),
                )
            )  # fmt: skip
    return table


def _unreachable(quick: bool) -> Measurements:
    table = Measurements(
        "Goals out of reach: ridge without noise, N = 5,000, at most 2 % of the rows (risk over the proven bound)",
        ("seed", "full pool", "match", "rows", "bound", "match / bound", "match / pool", "seconds"),
    )
    for seed in range(100, 102 if quick else 110):
        X, y, owner = make_regression_pool(5_000, 10, 10, noise=0.0, random_state=seed)
        teacher = SuperTeacher(
            _learner("ridge", 5_000), PerturbedFit(seed), budget=(11, 100), measure="coefficients", random_state=seed
        )
        lesson = teacher.fit(X, y, groups=owner).lesson_
        bound, risk = lesson.lower_bound, lesson.risk
        over = risk / bound if bound else float("nan")
        table.rows.append((seed, lesson.pool_risk, risk, lesson.size, bound, over, lesson.ratio, lesson.seconds))
    return table


def _times(quick: bool) -> Measurements:
    table = Measurements(
        "Time of a whole lesson (rows already with 10 teachers) against one newton-cholesky fit of the pool; logistic",
        ("N", "d", "share", "risk", "fit, s", "lesson, s", "lesson / fit"),
    )
    sizes = [(500_000, 10, 0.04, 1.0), (100_000, 50, 0.04, 0.3), (50_000, 100, 0.3, 0.3)]
    for rows, width, share, moved in sizes[:1] if quick else sizes:
        X, y, owner = pools.classification(rows, width)
        learner = _learner("logistic", rows).set_params(tol=1e-4)
        goal = _moved_goal(learner.fit(X, y).coef_[0], moved, 0)
        fit = seconds(partial(learner.fit, X, y), 3)
        times = []
        for _ in range(3):
            federation = pools.federation(X, y, owner)
            started = time.perf_counter()
            lesson = teach(federation, learner, goal, budget=share, method="match")
            times.append(time.perf_counter() - started)
        took = float(np.median(times))
        table.rows.append((rows, width, share, lesson.risk, fit, took, took / fit))
    return table


def _median(values: Iterator[float]) -> float:
    return float(np.median(list(values)))

"""How near any lesson can come: what is reached beside what is proved, on real tables, and every bound looked at again.

scikit-learn brings breast cancer, wine and digits; `SUPERTEACH_DATA` names the folder with heart disease and ACS income
(docs/reference/datasets.md).
Goals are the fit on all rows, which few rows cannot teach, or, where they can, the fit moved by its own length or made
longer.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.table import Measurements
from superteach import SuperTeacher, checker
from superteach.types import Array
from superteach_lab.data import load_acs_income, load_heart_disease

LONGER = 3.0
"""Factor of the fit on heart disease, which a few dozen rows teach as it is."""


class Case(NamedTuple):
    """A table, how its goal is made, and lessons' sizes."""

    name: str
    X: Array
    y: np.ndarray[Any, Any]
    goal: str
    sizes: tuple[int, ...]
    held_out: bool = True
    """Whether no constant was chosen on it."""


def cases(quick: bool) -> Iterator[Case]:
    """Standardised columns, rows of ACS drawn by a seed."""
    scaled = StandardScaler().fit_transform
    X, y = load_breast_cancer(return_X_y=True)
    yield Case("breast cancer", scaled(X), y, "fit", (80, 100, 150), held_out=False)
    X, y = load_wine(return_X_y=True)
    yield Case("wine", scaled(X), y, "fit", (30, 60))
    if not quick:
        X, y = load_digits(return_X_y=True)
        yield Case("digits", scaled(X), y, "fit", (100, 200))
    heart = load_heart_disease()
    yield Case("heart, three times the fit", scaled(heart.data), heart.target, "longer", (30, 60))
    for state in ("NY",) if quick else ("NY", "OH"):
        acs = load_acs_income(states=[state], categories="one-hot")
        rows = np.random.default_rng(1).choice(len(acs.target), 8000, replace=False)
        yield Case(f"ACS {state}, goal moved", scaled(acs.data[rows]), acs.target[rows], "moved", (200, 400))


def goal_of(case: Case, seed: int) -> LogisticRegression:
    """The fit on all rows, moved by its own length or made longer where few rows can teach it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        goal = LogisticRegression(tol=1e-10, max_iter=10_000).fit(case.X, case.y)
    if case.goal == "longer":
        goal.coef_, goal.intercept_ = LONGER * goal.coef_, LONGER * goal.intercept_
    if case.goal == "moved":
        noise = np.random.default_rng(seed).standard_normal(goal.coef_.shape)
        goal.coef_ = goal.coef_ + noise * np.linalg.norm(goal.coef_) / np.linalg.norm(noise)
    return goal


def confirmed(case: Case, lesson: Any, measure: str) -> bool:
    """Whether the checker confirms the bound but for a hundredth."""
    goal = np.atleast_2d(lesson.goal)
    rows = np.column_stack([case.X, np.ones(len(case.X))])
    labels = np.searchsorted(np.unique(case.y), case.y).astype(float)
    several = len(goal) > 1
    y, loss = (labels, "softmax") if several else (2.0 * labels - 1.0, "logistic")
    penalty = np.append(np.ones(case.X.shape[1]), 0.0)
    back = None if measure == "predictions" else np.eye(rows.shape[1])
    radius, direction = 0.99 * lesson.lower_bound, lesson.certificate.direction
    return checker.margin(rows, y[None], loss, penalty, goal, lesson.size, direction, radius, back) > 0.0


def run(quick: bool) -> list[Measurements]:
    """Print every lesson whose goal is proved to be out of reach, and the median of reached over proved."""
    table = Measurements(
        "lower bounds: reached and proved",
        ("table", "measure", "rows", "reached", "proved", "reached / proved", "checker"),
    )
    ratios: dict[str, list[float]] = {"tables that constants were not chosen on": [], "all": []}
    for case in cases(quick):
        for measure in ("predictions", "coefficients"):
            for size in case.sizes:
                teacher = SuperTeacher(LogisticRegression(), goal_of(case, 1), budget=size, measure=measure)
                lesson = teacher.fit(case.X, case.y).lesson_
                if lesson.certificate is None:
                    table.rows.append((case.name, measure, size, lesson.distance, "no proof", "", ""))
                    continue
                ratio = lesson.distance / lesson.lower_bound if lesson.lower_bound else np.inf
                ratios["all"].append(ratio)
                if case.held_out:
                    ratios["tables that constants were not chosen on"].append(ratio)
                seen = "confirmed" if confirmed(case, lesson, measure) else "NOT CONFIRMED"
                table.rows.append((case.name, measure, size, lesson.distance, lesson.lower_bound, ratio, seen))
    medians = Measurements("reached / proved", ("of", "lessons", "median", "largest"))
    medians.rows = [(name, len(found), float(np.median(found)), max(found)) for name, found in ratios.items()]
    return [table, medians]

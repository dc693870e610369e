"""Exact teaching against exhaustive search and linear programming: python -m superteach_lab.experiments.match_oracle

First, pools of 16 rows: the risk that "match" ends at, as a multiple of the lowest risk of all subsets the learner
accepts. The goal is the one behind the rows, or the pool's own model moved by its own length.
Second, pools of 5,000 rows: whether fractional rows can balance a goal, by "match" and by HiGHS, for goals drawn around
the edge of what can be balanced, half of them beyond it.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge

import superteach as st
from superteach.datasets import make_classification_pool, make_regression_pool
from superteach.lesson import versions
from superteach.types import Array
from superteach_lab.experiments import exhaustive
from superteach_lab.experiments.minlp_oracle import LOSSES, RIDGE, ROWS, tiny_pool
from superteach_lab.records import Records

GOALS = ("behind the rows", "moved")
CLOSE = 2.0
"""A search is close when its risk is at most this multiple of the lowest there is."""
SAME = 1.0 + 1e-6
ALIKE = 1e-6
"""Risks below this share of the goal are equal: that is where "match" stops."""
LARGE, WIDTH, TEACHERS = 5000, 10, 5
SHARE = 2
"""Goals within the edge of every ray, and as many beyond."""


def tiny_task(kind: str, width: int, wanted: str, seed: int) -> tuple[Array, Array, Array]:
    """16 rows with their targets, and a goal."""
    X, y, goal = tiny_pool(kind, width, seed)
    if wanted == "moved":
        truth = fitted(kind, X, y)
        noise = np.random.default_rng([seed, 1]).standard_normal(width)
        goal = truth + noise * np.linalg.norm(truth) / np.linalg.norm(noise)
    return X, y, goal


def estimator(kind: str) -> Any:
    """scikit-learn's learner without intercept, at a tight tolerance."""
    if kind == "ridge":
        return Ridge(alpha=RIDGE[kind], fit_intercept=False, solver="cholesky")
    return LogisticRegression(C=1.0 / RIDGE[kind], fit_intercept=False, solver="newton-cholesky", tol=1e-12)


def fitted(kind: str, X: Array, y: Array) -> Array:
    """The learner's own model of some rows."""
    return np.ravel(estimator(kind).fit(X, y).coef_)


def lowest_risk(kind: str, X: Array, y: Array, goal: Array) -> float:
    """Over all subsets that the learner accepts: a classifier wants both classes."""
    subsets = exhaustive.masks(len(y), None)
    if kind == "logistic":
        positive = subsets @ (y > 0.0)
        subsets = subsets[(positive > 0.0) & (positive < subsets.sum(axis=1))]
    return float(exhaustive.risks(kind, X, y, RIDGE[kind], goal, subsets).min())


def search(learner: str, d: int, goal: str, seed: int, teachers: int) -> dict[str, Any]:
    """One lesson of any size beside the best there is; the risk is that of scikit-learn's own refit."""
    X, y, wanted = tiny_task(learner, d, goal, seed)
    owner = np.arange(len(y)) % teachers
    started = time.perf_counter()
    taught = st.SuperTeacher(
        estimator(learner), wanted, budget=(1, len(y)), measure="coefficients", random_state=seed
    ).fit(X, y, groups=owner)
    seconds = time.perf_counter() - started
    rows = taught.sample_indices_
    return {
        "risk": float(np.linalg.norm(fitted(learner, X[rows], y[rows]) - wanted)),
        "said": taught.lesson_.risk,
        "lowest": lowest_risk(learner, X, y, wanted),
        "length": float(np.linalg.norm(wanted)),
        "seconds": round(seconds, 2),
    }


def ratio_of(record: dict[str, Any]) -> float:
    """Risk over the lowest risk, both at least where "match" stops looking."""
    floor = ALIKE * record["length"]
    return float(max(record["risk"], floor) / max(record["lowest"], floor))


def verdicts_at(kind: str, seed: int) -> dict[str, Any]:
    """What match and the linear programme say of the goals along one ray."""
    return Edge(kind, seed).ask()


class Edge:
    """A pool of 5,000 rows and a ray of goals, asked of HiGHS where fractional rows cease to balance them."""

    def __init__(self, kind: str, seed: int, rows: int = LARGE) -> None:
        make = make_classification_pool if kind == "logistic" else make_regression_pool
        self.X, y, self.owner = make(rows, WIDTH, TEACHERS, random_state=seed)
        self.y = np.where(y == 1, 1.0, -1.0) if kind == "logistic" else y
        self.kind, self.seed = kind, seed
        draw = np.random.default_rng([seed, 7])
        truth = np.ravel(estimator(kind).fit(self.X, self.y).coef_)
        noise = draw.standard_normal(WIDTH)
        self.ray = truth + noise * np.linalg.norm(truth) / np.linalg.norm(noise)
        self.size = int(rows * draw.uniform(0.005, 0.08))
        inside, outside = 0.0, 0.25
        while self.balances(outside * self.ray):
            inside, outside = outside, 3.0 * outside
        while outside - inside > 0.02 * outside:
            middle = 0.5 * (inside + outside)
            inside, outside = (middle, outside) if self.balances(middle * self.ray) else (inside, middle)
        away = np.exp(draw.uniform(np.log(1.01), np.log(4.0), SHARE))
        self.goals = [length * self.ray for length in (*(inside / away), *(outside * away))]

    def equations(self, goal: Array) -> tuple[Array, Array]:
        """The matrix that fractions are multiplied with, and what must come out: Λθ* and the number of rows."""
        eta = self.X @ goal
        slope = self.y * expit(-self.y * eta) if self.kind == "logistic" else self.y - eta
        return np.vstack([(slope[:, None] * self.X).T, np.ones(len(self.y))]), np.append(
            RIDGE[self.kind] * goal, self.size
        )

    def programme(self, goal: Array, costs: Array) -> Any:
        """The cheapest fractions that balance the goal, by HiGHS."""
        matrix, target = self.equations(goal)
        found = linprog(costs, A_eq=matrix, b_eq=target, bounds=(0.0, 1.0))
        assert found.status in (0, 2), found.message
        return found

    def balances(self, goal: Array) -> bool:
        """HiGHS's verdict."""
        return bool(self.programme(goal, np.zeros(len(self.y))).status == 0)

    def ask(self) -> dict[str, Any]:
        """What was found for each goal: first those within the edge, then as many beyond it."""
        return {"goals": [self.verdicts(goal) for goal in self.goals]}

    def verdicts(self, goal: Array) -> dict[str, Any]:
        """Both verdicts: whether match proves the goal out of reach, and whether the programme balances it."""
        size = round(float(self.equations(goal)[1][-1]))
        taught = st.SuperTeacher(
            estimator(self.kind), goal, budget=size, measure="coefficients", random_state=self.seed
        ).fit(self.X, self.y, groups=self.owner)
        return {"certified": taught.lesson_.certificate is not None, "balances": self.balances(goal)}


def main() -> None:
    """Run what is missing and print both tables."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--seeds", type=int, default=50, help="for each learner, width and kind of goal")
    reader.add_argument("--rays", type=int, default=25, help="on 5,000 rows, for each learner: 25 make 100 goals")
    reader.add_argument("--teachers", type=int, nargs="+", default=[1, 3])
    reader.add_argument("--part", default="0/1", help="i/n: every n-th cell from i on, for n processes")
    reader.add_argument("--records", type=Path, default=Path("results/match_oracle.jsonl"))
    asked = reader.parse_args()
    first, step = map(int, asked.part.split("/"))
    records = Records(asked.records, {"rows": ROWS, "large": LARGE, "versions": versions()})
    edges: list[dict[str, Any]] = [{"edge": kind, "seed": seed} for seed in range(asked.rays) for kind in LOSSES]
    for cell in edges[first::step]:
        records.get(cell, partial(verdicts_at, cell["edge"], cell["seed"]))
    cells: list[dict[str, Any]] = [
        {"learner": kind, "d": width, "goal": goal, "seed": seed, "teachers": teachers}
        for teachers in asked.teachers
        for goal in GOALS
        for seed in range(asked.seeds)
        for kind in LOSSES
        for width in (1, 2, 3)
    ]
    for cell in cells[first::step]:
        records.get(cell, partial(search, **cell))
    print(table(records))


def table(records: Records) -> str:
    """Both tables in Markdown."""
    lines = [
        "| learner | goal | d | teachers | seeds | within 2 × | lowest risk hit | worst ratio | median s |",
        "|" + " --- |" * 9,
    ]
    tiny = [record for record in records if "learner" in record["cell"]]
    names = ("learner", "goal", "d", "teachers")
    for key in sorted({tuple(record["cell"][name] for name in names) for record in tiny}):
        found = [record for record in tiny if tuple(record["cell"][name] for name in names) == key]
        ratios = np.array([ratio_of(record) for record in found])
        words = (
            *key,
            len(found),
            f"{np.mean(ratios <= CLOSE):.0%}",
            f"{np.mean(ratios <= SAME):.0%}",
            f"{ratios.max():.3g}",
            f"{np.median([record['seconds'] for record in found]):.1f}",
        )
        lines.append("| " + " | ".join(map(str, words)) + " |")
    lines += [
        "",
        "| learner | goals | beyond the edge | same verdict as HiGHS | false certificates |",
        "|" + " --- |" * 5,
    ]
    for kind in LOSSES:
        rays = [record for record in records if record["cell"].get("edge") == kind]
        asked = [verdict for record in rays for verdict in record["goals"]]
        if not asked:
            continue
        words = (
            kind,
            len(asked),
            SHARE * len(rays),
            sum(record["certified"] != record["balances"] for record in asked),
            sum(record["certified"] and record["balances"] for record in asked),
        )
        lines.append("| " + " | ".join(map(str, words)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

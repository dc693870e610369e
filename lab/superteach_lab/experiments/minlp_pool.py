"""Solvers on the paper's smallest pools, beside match: python -m superteach_lab.experiments.minlp_pool --learner logistic
--teachers 5

N = 5,000, d = 10, Λ = 1, 4 % of the rows; every method's rows are judged by one and the same refit.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score

from superteach import SuperTeacher
from superteach.datasets import make_classification_pool, make_regression_pool
from superteach.goals import PerturbedFit
from superteach.lesson import versions
from superteach.losses import Logistic, Squared
from superteach.types import Array
from superteach_lab import minlp
from superteach_lab.minlp import central
from superteach_lab.records import Records

Chosen = tuple[npt.NDArray[np.int64] | None, str]


class Contest:
    """One pool, one goal, one size, and what each contestant makes of them."""

    def __init__(self, learner: str, teachers: int, rows: int, fraction: float, seed: int, seconds: float) -> None:
        classifies = learner == "logistic"
        make = make_classification_pool if classifies else make_regression_pool
        self.X, y, self.owner = make(rows, 10, teachers, random_state=seed)
        self.y: Any = y
        self.estimator: Any = LogisticRegression(fit_intercept=False) if classifies else Ridge(fit_intercept=False)
        self.size, self.seed, self.seconds = round(fraction * rows), seed, seconds
        drawn = self._taught("random", goal=PerturbedFit(100 + seed))
        self.goal = drawn.lesson_.goal
        target: Array = np.where(self.y > 0, 1.0, -1.0) if classifies else np.asarray(self.y, dtype=np.float64)
        self.task = minlp.Programme(self.X, target, Logistic() if classifies else Squared(), 1.0, self.goal, self.size)
        self.teachers = teachers

    def _taught(self, method: str, goal: Any = None) -> SuperTeacher:
        return SuperTeacher(
            self.estimator,
            self.goal if goal is None else goal,
            budget=self.size,
            measure="coefficients",
            method=method,
            solver_seconds=self.seconds,
            random_state=self.seed,
        ).fit(self.X, self.y, groups=self.owner)

    def federated(self, method: str) -> Chosen:
        """A method of SuperTeacher."""
        taught = self._taught(method)
        return taught.sample_indices_, taught.lesson_.reason

    def central(self, formulation: str, solver: str) -> Chosen:
        """A solver over all rows."""
        settings: dict[str, Any] = {"formulation": formulation, "solver": solver, "seconds": self.seconds}
        found = central.teach(self.X, self.y, self.estimator, self.goal, self.size, **settings)
        return found.rows, found.status

    def alone(self, formulation: str, solver: str) -> Chosen:
        """A solver inside every teacher: |S|/K rows, Λ/K."""
        rows, statuses = [], []
        for owner in range(self.teachers):
            own = np.flatnonzero(self.owner == owner)
            share = (self.size + self.teachers - 1 - owner) // self.teachers
            found = minlp.solve(
                self.X[own],
                self.task.y[own],
                self.task.loss,
                self.task.ridge / self.teachers,
                self.goal,
                share,
                formulation=formulation,
                solver=solver,
                seconds=self.seconds,
            )
            statuses.append(found.status)
            if found.rows is not None:
                rows.append(own[found.rows])
        words = "; ".join(f"{statuses.count(status)} × {status}" for status in dict.fromkeys(statuses))
        return (np.concatenate(rows) if len(rows) == self.teachers else None), words

    @property
    def contestants(self) -> dict[str, Callable[[], Chosen]]:
        """Who takes part, cheap ones first."""
        return {
            "full pool": lambda: (np.arange(len(self.task.y)), ""),
            "random": lambda: self.federated("random"),
            "match": lambda: self.federated("match"),
            "oblivious": lambda: self.federated("oblivious"),
            "central gradient, HiGHS": lambda: self.central("gradient", "highs"),
            "central gradient, SCIP": lambda: self.central("gradient", "scip"),
            "central stationary, Bonmin": lambda: self.central("stationary", "bonmin"),
            "oblivious stationary, Bonmin": lambda: self.federated("oblivious-minlp"),
            "oblivious gradient, HiGHS": lambda: self.alone("gradient", "highs"),
        }

    def score(self, name: str) -> dict[str, Any]:
        """Let one choose, then judge its rows."""
        started, worked = time.perf_counter(), _processor()
        rows, status = self.contestants[name]()
        seconds = time.perf_counter() - started
        result: dict[str, Any] = {
            "seconds": round(seconds, 2),
            "cpu": round(_processor() - worked, 2),
            "status": status,
            "risk": None,
            "rows": 0,
        }
        if rows is not None:
            model = self.task.fit(rows)
            learned, wanted = self.X @ model, self.X @ self.goal
            same = np.mean((learned > 0) == (wanted > 0)) if self.task.loss.classifies else r2_score(wanted, learned)
            result |= {
                "risk": self.task.risk(rows),
                "rows": len(np.unique(rows)),
                "consistency": float(same),
            }
        return result


def _processor() -> float:
    """Processor seconds of this process and of the solvers it ran; less than the clock's on a busy machine."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def main() -> None:
    """Run what is missing of one pool and print its table."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--learner", choices=("logistic", "ridge"), default="logistic")
    reader.add_argument("--teachers", type=int, default=5)
    reader.add_argument("--rows", type=int, default=5000)
    reader.add_argument("--fraction", type=float, default=0.04)
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--seconds", type=float, default=120.0, help="for each solve")
    reader.add_argument("--only", default="", help="contestants whose name begins so")
    reader.add_argument("--records", type=Path, default=Path("results/minlp_pool"))
    asked = vars(reader.parse_args())
    folder, only = asked.pop("records"), asked.pop("only")
    contest = Contest(**asked)
    place = folder / f"{asked['learner']}-{asked['teachers']}-{asked['seed']}.jsonl"
    records = Records(place, {**asked, "versions": versions()})
    lines = [
        "| method | risk | consistency | rows | seconds | processor | status |",
        "|" + " --- |" * 7,
    ]
    for name in contest.contestants:
        if not name.startswith(only) and {"method": name} not in records:
            continue
        result = records.get({"method": name}, partial(contest.score, name))
        risk = "none" if result["risk"] is None else f"{result['risk']:.3g}"
        same = "" if result["risk"] is None else f"{result['consistency']:.3f}"
        lines.append(
            f"| {name} | {risk} | {same} | {result['rows']} | {result['seconds']:.1f} | "
            f"{result['cpu']:.1f} | {result['status']} |"
        )
    print(f"{asked['learner']}, K = {asked['teachers']}, {asked['rows']} rows, {contest.size} chosen\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

"""The paper's problem: Newton's steps and rounds, its time against scikit-learn and CVXPY, block beside it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks import pools
from benchmarks.table import Measurements, seconds
from superteach import Federation
from superteach.coordinator.methods import dual
from superteach.losses import Logistic
from superteach.optim import Block, Newton
from superteach.optim.problem import DualProblem
from superteach.protocol.queries import Prepare

SPARSITY, GOAL_WEIGHT = 0.1, 1000.0


def pose(X: Any, y: Any, seed: int = 100) -> tuple[LogisticRegression, DualProblem]:
    """The paper's problem on a pool: its own fit plus noise of that norm, drawn apart from the rows."""
    ridge = pools.RIDGE_PER_ROW * len(y)
    learner = LogisticRegression(C=1.0 / ridge, fit_intercept=False, solver="newton-cholesky")
    truth = learner.fit(X, y).coef_[0]
    noise = np.random.default_rng(seed).standard_normal(len(truth))
    goal = truth + noise * np.linalg.norm(truth) / np.linalg.norm(noise)
    return learner, DualProblem(ridge, goal, GOAL_WEIGHT)


def _solve(federation: Federation, problem: DualProblem, solver: Any) -> tuple[dual.Trace, int, float]:
    """Solve and return the trace, the rounds and the seconds; the teachers' set-up is not counted."""
    federation.sum(Prepare(Logistic(), 0.0))
    before = len(federation.ledger)
    started = time.perf_counter()
    dual.weigh(federation, problem, SPARSITY, solver)
    trace = dual.solve(federation, problem, solver)
    return trace, len(federation.ledger) - before, time.perf_counter() - started


def run(quick: bool) -> Iterator[Measurements]:
    """Yield the tables of this benchmark."""
    yield _steps(quick)
    yield _growth(quick)
    yield _against_cvxpy()


def _steps(quick: bool) -> Measurements:
    table = Measurements(
        "Dual solve to a relative gap of 1e-8, logistic, K = 10: Newton, and the paper's rule (block, T = 100)",
        (
            "N",
            "d",
            "steps",
            "rounds",
            "rel. gap",
            "seconds",
            "× sklearn fit",
            "block rounds",
            "block rel. gap",
            "block × Newton time",
        ),
    )
    sizes = [(5_000, 10), (50_000, 10), (500_000, 10), (1_000_000, 28)]
    for rows, features in sizes[:2] if quick else sizes:
        X, y, owner = pools.classification(rows, features)
        learner, problem = pose(X, y)
        federation = pools.federation(X, y, owner)
        repeats = 5 if rows <= 50_000 else 3
        runs = [_solve(federation, problem, Newton(tolerance=1e-8)) for _ in range(repeats)]
        fit = seconds(partial(learner.fit, X, y), repeats)
        trace, rounds, _ = runs[0]
        took = float(np.median([run[2] for run in runs]))
        row: list[Any] = [
            rows,
            features,
            len(trace.gap) - 1,
            rounds,
            trace.gap[-1] / abs(trace.objective[-1]),
            took,
            took / fit,
        ]
        if rows <= 50_000:
            slow, block_rounds, block_took = _solve(federation, problem, Block(max_steps=100))
            row += [block_rounds, slow.gap[-1] / abs(slow.objective[-1]), block_took / took]
        else:
            row += ["–", "–", "–"]
        table.rows.append(tuple(row))
    return table


def _growth(quick: bool) -> Measurements:
    table = Measurements(
        "Growth with N, logistic, d = 10, K = 10 (a row of the table over the row before it)",
        ("N", "steps", "seconds", "N grew ×", "time grew ×"),
    )
    before: tuple[int, float] | None = None
    for rows in (5_000, 50_000, 500_000) if quick else (5_000, 50_000, 500_000, 5_000_000):
        X, y, owner = pools.classification(rows)
        problem = pose(X, y)[1]
        federation = pools.federation(X, y, owner)
        del X, y, owner
        runs = [_solve(federation, problem, Newton(tolerance=1e-8)) for _ in range(3)]
        took = float(np.median([run[2] for run in runs]))
        grown = (rows / before[0], took / before[1]) if before else ("–", "–")
        table.rows.append((rows, len(runs[0][0].gap) - 1, took, *grown))
        before = rows, took
    return table


def _against_cvxpy() -> Measurements:
    cvxpy: Any = import_module("cvxpy")  # untyped

    table = Measurements(
        "The same problem in CVXPY (Clarabel), logistic, N = 5,000, d = 10, K = 10 (best of 20 and of 3 runs)",
        ("N", "Newton s", "CVXPY s", "CVXPY / Newton", "objective differs by (rel.)"),
    )
    X, y, owner = pools.classification(5_000)
    _, problem = pose(X, y)
    federation = pools.federation(X, y, owner)
    # Some milliseconds are more easily disturbed than a second, so both sides show their best.
    runs = [_solve(federation, problem, Newton(tolerance=1e-8)) for _ in range(20)]
    took = min(run[2] for run in runs)
    # A conic solver cannot take thresholds of a million; above a thousand a row is out in any case.
    thresholds = np.minimum(1e3, SPARSITY / np.abs(X @ (problem.ridge * np.linalg.pinv(X.T @ X) @ problem.goal)))
    share = cvxpy.Variable(len(y))
    model = (X * y[:, None]).T @ share / problem.ridge
    objective = (
        cvxpy.sum(-cvxpy.entr(share) - cvxpy.entr(1 - share))
        + thresholds @ share
        + problem.ridge / 2 * cvxpy.sum_squares(model)
        + problem.goal_weight * cvxpy.sum_squares(model - problem.goal)
    )
    times = []
    for _ in range(3):
        started = time.perf_counter()
        theirs = cvxpy.Problem(cvxpy.Minimize(objective)).solve(solver=cvxpy.CLARABEL)
        times.append(time.perf_counter() - started)
    slow = min(times)
    ours = runs[0][0].objective[-1]
    table.rows.append((len(y), took, slow, slow / took, abs(theirs - ours) / abs(ours)))
    return table

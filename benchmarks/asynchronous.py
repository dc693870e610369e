"""Waiting for a slow teacher, or not: time to a certified gap on a clock that is only counted.

The unit of time is what a fast teacher takes over one answer, so that the figures are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import superteach
from benchmarks import pools
from benchmarks.delayed import Delayed
from benchmarks.dual import SPARSITY, pose
from benchmarks.table import Measurements
from superteach.coordinator.methods import dual
from superteach.losses import Logistic
from superteach.optim import Block
from superteach.optim.problem import DualProblem
from superteach.protocol.queries import Prepare

ROWS, TEACHERS, SLOW = 5_000, 5, 10.0
STALENESS = (0, 1, 3, 10)


def run(quick: bool) -> Iterator[Measurements]:
    """Yield the tables of this benchmark."""
    X, y, owner = pools.classification(ROWS, teachers=TEACHERS)
    problem = pose(X, y)[1]
    for weight, gap in ((10.0, 1e-4),) if quick else ((10.0, 1e-4), (100.0, 1e-3), (1000.0, 1e-1)):
        table = Measurements(
            f"Time to a relative gap of {gap:g}, logistic, N = {ROWS:,}, d = 10, K = {TEACHERS}, goal weight {weight:g}",
            ("one teacher is", "rounds", "time", "answers", "of the slow one", "rel. gap", "× faster"),
        )
        for slowness in (1.0, SLOW):
            waited = 0.0
            for staleness in STALENESS:
                solver = Block(gap, 20_000, staleness=staleness)
                time, answers, own, reached = _solve(
                    X, y, owner, replace(problem, goal_weight=weight), solver, slowness
                )
                waited = waited or time
                table.rows.append(
                    (
                        "as fast" if slowness == 1.0 else f"{slowness:g} × slower",
                        f"asynchronous, staleness {staleness}" if staleness else "synchronous",
                        time,
                        answers,
                        own,
                        reached,
                        waited / time,
                    )
                )
        yield table


def _delay(slowness: float, draw: np.random.Generator, position: int) -> float:
    """Around 1, or the slowness of the first teacher, a tenth more or less every time."""
    return float((1.0 if position else slowness) * draw.uniform(0.9, 1.1))


def _solve(
    X: Any, y: Any, owner: Any, problem: DualProblem, solver: Block, slowness: float
) -> tuple[float, int, int, float]:
    """Time from the first question to the certificate, answers of all and of the first teacher, the gap."""
    members = [np.flatnonzero(owner == name) for name in np.unique(owner)]
    teachers = [superteach.Teacher(str(i), X[rows], y[rows], rows) for i, rows in enumerate(members)]
    engine = Delayed(teachers, partial(_delay, slowness, np.random.default_rng(0)))
    federation = superteach.Federation(engine)
    federation.sum(Prepare(Logistic(), 0.0))
    dual.weigh(federation, problem, SPARSITY, solver)
    started, first = engine.clock, len(federation.ledger)
    trace = dual.solve(federation, problem, solver)
    if not trace.converged:
        raise RuntimeError(trace.reason)
    entries = federation.ledger[first:]
    together = sum(entry.teacher is None for entry in entries)
    answers = len(entries) - together + len(members) * together
    own = together + sum(entry.teacher == "0" for entry in entries)
    return engine.clock - started, answers, own, float(trace.gap[-1] / abs(trace.objective[-1]))

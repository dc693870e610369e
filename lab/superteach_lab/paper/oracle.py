"""Observation 1: does the paper's problem find the rows a goal is made of, as the columns grow in number?

The goal is θ* = (1/Λ) Σ_{j∈A} α*_j x_j for a few known rows A. The claim: with λ_θ large and λ_α/λ_θ between
d^{1/2} and d^{1/2−γ/2}, the minimiser's support is A with probability → 1. γ = 1 is the power of the paper's
weights w = 1/|α̂|, so λ_α/λ_θ = d^{1/4} lies in between. The theorem behind it (adaptive lasso) has more
observations than unknowns, so d ≥ N here, and noise in what is observed; both are cases below, and so are two
schedules outside the window, the regime of the paper's tables (N > d), and logistic regression.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from superteach.coordinator.federation import Federation
from superteach.coordinator.methods import dual
from superteach.engines.threads import Threads
from superteach.losses import Logistic, Loss, Squared
from superteach.optim import Newton
from superteach.optim.problem import DualProblem
from superteach.protocol.queries import Prepare
from superteach.teacher import Teacher
from superteach.types import Array

WIDTHS = (5, 10, 20, 40, 80, 320, 1280, 5120, 20480)
ROWS, ACTIVE = 20, 3
RIDGE, GOAL_WEIGHT = 1.0, 1000.0
"""Λ = 1, as the observation is written without it; λ_θ as in the paper's classification."""
SOLVED = 1e-8
"""A trial whose certified gap is a larger share of the objective says nothing, and is counted apart."""


@dataclass(frozen=True)
class OracleCase:
    """One line of the figure."""

    title: str
    logistic: bool = False
    noise: float = 0.0
    """Standard deviation of what is added to every coordinate of Σ α*_j x_j."""
    power: float = 0.25
    """λ_α/λ_θ = d^power; the observation's window is 0 < power < 1/2."""
    rows_per_column: float | None = None
    """N divided by d; None: N stays at 20."""
    widest: int = WIDTHS[-1]


CASES = {
    "stated": OracleCase("as stated: N = 20, goal exact"),
    "noisy": OracleCase("as stated, goal with noise", noise=1.0),
    "weak": OracleCase("noise, λ_α too weak: d^−½", noise=1.0, power=-0.5),
    "strong": OracleCase("noise, λ_α too strong: d^1", noise=1.0, power=1.0),
    "crowded": OracleCase("more rows than columns: N = 4d", rows_per_column=4.0, widest=80),
    "logistic": OracleCase("logistic regression, goal exact", logistic=True),
}


@dataclass(frozen=True, eq=False)
class Instance:
    """Rows, the active ones among them, and the goal made of these."""

    loss: Loss
    X: Array
    y: Array
    active: npt.NDArray[np.int64]
    alpha: Array
    """α*, signed as in superteach.losses; 0 outside A."""
    problem: DualProblem
    sparsity: float


@dataclass(frozen=True, eq=False)
class OracleResult:
    """The minimiser, its warm start α̂, and the distance of every row past activation."""

    alpha: Array
    warm: Array
    score: Array
    gap: float
    """Certified, relative to the objective."""


def instance(case: OracleCase, width: int, seed: int) -> Instance:
    """x ~ N(0, I), A drawn, |α*| from 0.5 to 1.5 (logistic: 0.3 to 0.9, inside its domain)."""
    rng = np.random.default_rng([2, width, seed])
    rows = ROWS if case.rows_per_column is None else round(case.rows_per_column * width)
    X = rng.standard_normal((rows, width))
    active = np.sort(rng.choice(rows, ACTIVE, replace=False))
    loss: Loss = Logistic() if case.logistic else Squared()
    y = rng.choice([-1.0, 1.0], rows) if case.logistic else rng.standard_normal(rows)
    alpha = np.zeros(rows)
    signs = y[active] if case.logistic else rng.choice([-1.0, 1.0], ACTIVE)
    alpha[active] = signs * rng.uniform(*((0.3, 0.9) if case.logistic else (0.5, 1.5)), ACTIVE)
    goal = (X.T @ alpha + case.noise * rng.standard_normal(width)) / RIDGE
    return Instance(loss, X, y, active, alpha, DualProblem(RIDGE, goal, GOAL_WEIGHT), GOAL_WEIGHT * width**case.power)


def narrowed(given: Instance) -> Instance:
    """The same problem in the rows' own span: with X = RQ', v = Qr lies in it, and ‖v − θ*‖² = ‖r − Q'θ*‖² + const."""
    if given.X.shape[1] <= len(given.X):
        return given
    basis = np.linalg.qr(given.X.T)[0]
    return replace(given, X=given.X @ basis, problem=replace(given.problem, goal=given.problem.goal @ basis))


def solve(given: Instance) -> OracleResult:
    """The paper's problem by the package's own weights and solver, one teacher holding all rows."""
    given = narrowed(given)
    engine = Threads([Teacher("all", given.X, given.y)], threads=1)
    federation = Federation(engine)
    try:
        federation.sum(Prepare(given.loss, 0.0))
        dual.weigh(federation, given.problem, given.sparsity, Newton())
        trace = dual.solve(federation, given.problem, Newton())
        threshold = engine.states()[0].threshold
    finally:
        engine.close()
    told = given.X @ trace.point, given.y, threshold
    with np.errstate(divide="ignore"):
        warm = given.sparsity / np.asarray(threshold)
    return OracleResult(
        given.loss.best_dual(*told),
        warm,
        given.loss.rank(*told),
        float(trace.gap[-1] / max(abs(trace.objective[-1]), 1e-300)),
    )


def trial(name: str, width: int, seed: int) -> dict[str, Any]:
    """What one instance shows, as plain numbers."""
    given = instance(CASES[name], width, seed)
    found = solve(given)
    truth = np.zeros(len(given.y), dtype=np.bool_)
    truth[given.active] = True
    best = np.argsort(-found.score, kind="stable")[:ACTIVE]
    warm = np.abs(found.warm) > 1e-9 * np.abs(found.warm).max()
    # As real numbers: a logistic α is σ(score), positive however small, though float64 may hold it as 0.
    active = np.isfinite(found.score) if given.loss.classifies else found.alpha != 0.0
    return {
        "support": bool(np.array_equal(active, truth)),
        "stored": bool(np.array_equal(found.alpha != 0.0, truth)),
        "ranked": bool(np.array_equal(np.sort(best), given.active)),
        "warm": bool(np.array_equal(warm, truth)),
        "size": int(np.count_nonzero(active)),
        "error": float(np.linalg.norm(found.alpha - given.alpha) / np.linalg.norm(given.alpha)),
        "gap": found.gap,
    }


def batch(name: str, width: int, trials: int) -> dict[str, Any]:
    """All trials of one point of the figure: counts and medians over those that were solved."""
    with threadpool_limits(1):  # matrices of twenty columns are too small to share among cores
        found = [trial(name, width, seed) for seed in range(trials)]
    found = [one for one in found if one["gap"] <= SOLVED]
    return {
        "trials": len(found),
        "unsolved": trials - len(found),
        "rows": len(instance(CASES[name], width, 0).y),
        **{key: sum(one[key] for one in found) for key in ("support", "stored", "ranked", "warm")},
        **{key: float(np.median([one[key] for one in found])) for key in ("size", "error") if found},
    }

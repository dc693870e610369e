"""Super teaching as a mixed-integer nonlinear programme, for real solvers: the rival of every method here.

Needs all rows in one place and the extra `superteach-lab[minlp]`. Three formulations:

- "stationary" (Bonmin): min ‖θ − θ*‖² with the learner's stationarity as equations; no proof.
- "bounded" (SCIP): the same with one bounded product per row; proven optima for tiny pools.
- "gradient" (HiGHS: 1-norm, SCIP: 2-norm): min ‖H⁻¹(Σ b_j g_j − Λθ*)‖, whose zero is exact teaching.

A solver works in a process of its own, with limits of ours. The risk of what it finds is never its own word:
the learner is fitted again on the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from superteach.exceptions import DataError, GoalError, LearnerError, MissingExtra, SettingError
from superteach.losses import Logistic, Loss, Squared
from superteach.types import Positions
from superteach_lab.minlp import guard
from superteach_lab.minlp.programme import Programme, gradient_norm
from superteach_lab.processes.child import interruptible

__all__ = ["OPTIMAL", "SOLVERS", "Programme", "Solution", "interruptible", "solve"]

SOLVERS: dict[tuple[str, str], str] = {
    ("stationary", "bonmin"): "superteach_lab.minlp.bonmin",
    ("bounded", "scip"): "superteach_lab.minlp.scip",
    ("gradient", "highs"): "superteach_lab.minlp.highs",
    ("gradient", "scip"): "superteach_lab.minlp.scip",
}
"""Which module solves which formulation; the first solver of a formulation is its default."""
_PACKAGES = {"bonmin": "casadi", "scip": "pyscipopt", "highs": "highspy"}
_KILOBYTES = {"bonmin": 2.0, "scip": 4.0, "highs": 1.0}
"""What a solver needs for each number in the pool at least, measured at a few thousand rows."""
_NO_PROOF = ("bonmin",)
OPTIMAL = 1e-4
"""The largest gap between an objective and its bound at which "optimal" is said."""


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver reached within its limits."""

    rows: Positions | None
    """The chosen rows, ascending; None where no point was found."""
    status: str
    objective: float | None
    """The formulation's own objective at these rows, computed here: the risk, or ‖H⁻¹(Σ b_j g_j − Λθ*)‖."""
    bound: float | None
    """A proven lower bound on that objective over all choices; None where the solver proves nothing."""
    risk: float | None
    """‖θ_S − θ*‖ after fitting the learner on these rows."""
    seconds: float

    @property
    def gap(self) -> float | None:
        """(objective − bound)/objective, the share by which a better choice could still beat this one."""
        if self.objective is None or self.bound is None:
            return None
        return max(0.0, 1.0 - self.bound / self.objective) if self.objective else 0.0


def solve(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    loss: Loss,
    ridge: float,
    goal: npt.ArrayLike,
    size: int | None,
    *,
    formulation: str = "stationary",
    solver: str | None = None,
    seconds: float = 120.0,
    gigabytes: float = 8.0,
    seed: int = 0,
    free_intercept: bool = False,
) -> Solution:
    """Choose `size` rows (None: any number) from which the learner comes close to the goal.

    The learner is argmin Σ_{j∈S} ℓ(x_j'θ; y_j) + (Λ/2)‖θ‖² with a logistic (labels −1 and +1) or squared loss;
    with `free_intercept` the last column is not penalised. After `seconds` by the clock, or beyond `gigabytes` of
    memory, the solver's process is ended, and the best point and bound it had told of by then come back.
    """
    solver = check(loss, formulation, solver, seconds, gigabytes, seed, free_intercept)
    task = _task(X, y, loss, ridge, goal, size, free_intercept, seed)
    needs = 0.4 + _KILOBYTES[solver] * task.rows * (task.width + 1) / 2**20
    if needs > gigabytes:
        words = (
            f"too large to try: {task.rows} rows of {task.width} columns need about {needs:.2g} GB, "
            f"the limit is {gigabytes:g}"
        )
        return Solution(None, words, None, None, None, 0.0)
    record = guard.run(SOLVERS[formulation, solver], task, formulation, seconds, gigabytes)
    rows, objective, risk = record.rows, None, None
    if rows is not None:
        rows, risk = np.sort(rows), task.risk(rows)
        objective = _objective(task, rows, formulation, solver, risk)
    bound = None if solver in _NO_PROOF else record.bound
    if bound is not None and objective is not None:
        bound = min(bound, objective)
    found = Solution(rows, "", objective, bound, risk, record.seconds)
    return replace(found, status=_status(record, found, gigabytes, task.zero))


def check(
    loss: Loss,
    formulation: str,
    solver: str | None,
    seconds: float,
    gigabytes: float,
    seed: int,
    free_intercept: bool = False,
) -> str:
    """Refuse what no solver here can do, before any work; the solver's name."""
    known = [pair for pair in SOLVERS if pair[0] == formulation]
    if not known:
        names = ", ".join(sorted({repr(name) for name, _ in SOLVERS}))
        raise SettingError(f"formulation={formulation!r} is not known; there are {names}")
    solver = known[0][1] if solver is None else solver
    if (formulation, solver) not in SOLVERS:
        names = ", ".join(repr(name) for _, name in known)
        raise SettingError(f"solver={solver!r} does not solve the {formulation} formulation; {names} can")
    for name, value in (("seconds", seconds), ("gigabytes", gigabytes)):
        real = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not (real and math.isfinite(value) and value > 0):
            raise SettingError(f"{name}={value!r} must be a positive number")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise SettingError(f"seed={seed!r} must be an int of at least 0")
    if not isinstance(loss, Logistic | Squared):
        raise LearnerError(f"the programmes are written for logistic and squared losses, not for {loss.name}")
    if formulation == "bounded" and free_intercept:
        raise LearnerError(
            "the bounded formulation needs every coefficient penalised; use a learner without a free intercept"
        )
    if find_spec(_PACKAGES[solver]) is None:
        raise MissingExtra(_PACKAGES[solver], "minlp", f"solving by {solver}", "superteach-lab")
    return solver


def _task(X: Any, y: Any, loss: Loss, ridge: float, goal: Any, size: Any, free_intercept: bool, seed: int) -> Programme:
    X, y, goal = (np.asarray(values, dtype=np.float64) for values in (X, y, goal))
    if X.ndim != 2 or y.shape != (len(X),) or not len(y):
        raise DataError(f"X has shape {X.shape} and y {y.shape}; expected N rows and N targets, at least one")
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise DataError("X or y has a NaN or infinite value; leave such rows out")
    if loss.classifies and not np.isin(y, (-1.0, 1.0)).all():
        raise DataError(f"labels must be -1 and 1, got {np.unique(y)[:5]}")
    if goal.shape != (X.shape[1],) or not np.isfinite(goal).all():
        raise GoalError(f"the goal has shape {goal.shape}; expected {X.shape[1]} finite numbers, one for each column")
    real = isinstance(ridge, int | float | np.number) and not isinstance(ridge, bool)
    if not (real and math.isfinite(ridge) and ridge > 0):
        raise LearnerError(f"the learner's ridge must be a positive number, got {ridge!r}")
    whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
    if size is not None and not (whole and 1 <= size <= len(y)):
        raise SettingError(f"size={size!r} must be None or an int from 1 to {len(y)}, the number of rows")
    return Programme(X, y, loss, float(ridge), goal, None if size is None else int(size), free_intercept, int(seed))


def _objective(task: Programme, rows: Positions, formulation: str, solver: str, risk: float) -> float:
    return gradient_norm(task, rows, 1 if solver == "highs" else 2) if formulation == "gradient" else risk


def _status(record: guard.Said, found: Solution, gigabytes: float, zero: float) -> str:
    """How the solve ended, in words that claim no more than is so."""
    if record.word == "proven" and found.rows is None:
        return "failed: the solver claims an optimum and shows none"
    if record.word == "proven" and (_at_most(found.gap, OPTIMAL) or _at_most(found.objective, zero)):
        return "optimal"
    if record.word in ("proven", "finished"):
        return f"finished, {_proof(found)}"
    if record.word == "memory":
        return f"out of memory: limit {gigabytes:g} GB"
    if record.word not in (None, "limit"):
        return str(record.word)
    if record.word is None and not record.overrun:
        return f"crashed: signal {-record.code}" if record.code < 0 else f"crashed: exit status {record.code}"
    return f"time limit, {_proof(found)}"


def _proof(found: Solution) -> str:
    if found.rows is None:
        return "no point found"
    return "no proof" if found.gap is None else f"gap {100.0 * found.gap:.3g} %"


def _at_most(value: float | None, limit: float) -> bool:
    return value is not None and value <= limit

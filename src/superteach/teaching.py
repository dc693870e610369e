"""`teach`: a whole lesson over any federation, from the first count to the last metric."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from superteach import metrics, selection
from superteach.errors import BudgetError, DataError, SettingError
from superteach.federation import Federation
from superteach.goals import Goal, check_goal, check_vector
from superteach.learner import Fit, Learner, fit
from superteach.lesson import Lesson, PathPoint
from superteach.losses import Logistic, SquaredHinge
from superteach.methods import dual, random
from superteach.problem import DualProblem, Scaling
from superteach.queries import Census, ColumnSums, Keep, Prepare, Size
from superteach.solvers import LBFGS, Block, Newton

Array = npt.NDArray[np.float64]

METHODS = ("dual", "random")
NEWTON_WIDTH = 500
"""Models wider than this are solved by L-BFGS, unless a solver is given."""


@dataclass
class Classroom:
    """One federation, one learner: what fits share, and the pool's own model once it is known."""

    federation: Federation
    learner: Learner
    scaling: Scaling
    rows: int
    solver: Newton | LBFGS
    _pool: Fit | None = field(default=None, repr=False)

    @property
    def width(self) -> int:
        """How many numbers a model has."""
        return self.federation.features + (self.learner.intercept != "none")

    def fit_pool(self) -> Array:
        """The learner's model on all teachers' rows, on scaled columns."""
        if self._pool is None:
            self.federation.stage = "pool fit"
            self._pool = fit(self.federation, self.learner, self.rows, "all", self.solver, self.width)
        return self._pool.model

    def fit_chosen(self, size: int, before: Fit | None = None) -> Fit:
        """The learner's fit on the chosen rows, starting from another one (default: the pool's)."""
        self.fit_pool()
        return fit(
            self.federation, self.learner, size, "chosen", self.solver, self.width, before or self._pool
        )


def teach(
    federation: Federation,
    learner: Any,
    goal: Any,
    *,
    budget: int | float | str = "best",
    method: str = "dual",
    sparsity: float | None = None,
    goal_weight: float | None = None,
    solver: Newton | LBFGS | Block | None = None,
    standardize: bool = False,
    random_state: int = 0,
    classes: Any = None,
) -> Lesson:
    """Choose rows of all teachers such that the learner, trained on them alone, comes close to the goal.

    The chosen rows stay with their teachers; the lesson holds the model, its quality and the ledger.
    `sparsity` and `goal_weight` are the paper's λ_α and λ_θ (default 0.1 and 1000 for classification,
    1 and 2000 for regression). `classes` are the labels a fitted goal must have been fitted on.
    """
    started = time.perf_counter()
    student = Learner.of(learner)
    settings = _settings(student, budget, method, sparsity, goal_weight, solver, standardize, random_state)
    wanted = check_goal(goal, federation.features, student.intercept != "none", classes)
    if isinstance(solver, Block):
        solver.check(federation.teachers, student.free_intercept)
    room = _enter(federation, student, solver, standardize)
    counts = selection.counts_of(budget, room.rows, room.width)
    raw_goal = _vector(wanted, room)
    inside_goal = room.scaling.inside(raw_goal)
    pool = room.fit_pool()

    trace = None
    if method == "dual":
        ridge = student.penalty(room.rows)
        problem = DualProblem(ridge, inside_goal, settings["goal_weight"], student.free_intercept)
        trace = dual.rank(federation, problem, settings["sparsity"], solver or room.solver)
    else:
        random.rank(federation, random_state)

    path, model, size = _walk(room, counts, raw_goal)
    federation.stage = "metrics"
    agreement = metrics.consistency(federation, model, inside_goal, student.loss.classifies)
    raw_model = room.scaling.raw(model)
    return Lesson(
        model=raw_model,
        goal=raw_goal,
        intercept=student.intercept != "none",
        size=size,
        rows=room.rows,
        risk=metrics.risk(raw_model, raw_goal),
        consistency=agreement,
        pool_risk=metrics.risk(room.scaling.raw(pool), raw_goal),
        objective=trace.objective if trace else np.empty(0),
        gap=trace.gap if trace else np.empty(0),
        path=path,
        ledger=federation.ledger,
        seconds=time.perf_counter() - started,
        reason=trace.reason if trace else "rows were drawn at random, nothing was solved",
        converged=trace.converged if trace else True,
        teachers=federation.names,
        settings=settings,
    )


def _settings(
    learner: Learner,
    budget: Any,
    method: Any,
    sparsity: Any,
    goal_weight: Any,
    solver: Any,
    standardize: Any,
    random_state: Any,
) -> dict[str, Any]:
    """Check every setting before any work, and fill in the defaults."""
    selection.check_budget(budget)
    if method not in METHODS:
        raise SettingError(f"method={method!r} is not known; there are {', '.join(map(repr, METHODS))}")
    if solver is not None and not isinstance(solver, Newton | LBFGS | Block):
        raise SettingError(
            f"solver={solver!r} must be one of superteach.solvers: Newton(), LBFGS() or Block()"
        )
    margin = isinstance(learner.loss, Logistic | SquaredHinge)
    sparsity = (0.1 if margin else 1.0) if sparsity is None else _number("sparsity", sparsity, least=0.0)
    goal_weight = (
        (1000.0 if margin else 2000.0)
        if goal_weight is None
        else _number("goal_weight", goal_weight, least=0.0)
    )
    if not isinstance(random_state, int | np.integer) or isinstance(random_state, bool) or random_state < 0:
        raise SettingError(f"random_state={random_state!r} must be an int of at least 0")
    return {
        "learner": {
            "loss": learner.loss.settings(),
            "ridge": learner.ridge,
            "ridge_per_row": learner.ridge_per_row,
            "intercept": learner.intercept,
            "constant": learner.constant,
        },
        "budget": budget if isinstance(budget, str) else budget + 0,
        "method": method,
        "sparsity": sparsity,
        "goal_weight": goal_weight,
        "solver": None if solver is None else repr(solver),
        "standardize": bool(standardize),
        "random_state": int(random_state),
    }


def _number(name: str, value: Any, least: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise SettingError(f"{name}={value!r} must be a number of at least {least:g}") from None
    if not (np.isfinite(number) and number >= least):
        raise SettingError(f"{name}={value!r} must be a finite number of at least {least:g}")
    return number


def _enter(federation: Federation, learner: Learner, solver: Any, standardize: bool) -> Classroom:
    """Count the rows, settle the scaling, and tell the teachers which learner they teach."""
    federation.stage = "set-up"
    size: Size = federation.sum(Census())
    refusal = learner.refuses(size.rows, size.positive)
    if refusal:
        raise DataError(f"all teachers together: {refusal}")
    scaling = _standardise(federation, learner, size.rows) if standardize else Scaling(learner.column)
    federation.sum(Prepare(learner.loss, scaling.constant, scaling.centre, scaling.scale))
    width = federation.features + (learner.intercept != "none")
    fitting: Newton | LBFGS = Newton() if width <= NEWTON_WIDTH else LBFGS()
    if isinstance(solver, LBFGS):
        fitting = solver
    return Classroom(federation, learner, scaling, size.rows, fitting)


def _standardise(federation: Federation, learner: Learner, rows: int) -> Scaling:
    """Means and standard deviations from two sums; without an intercept columns are scaled, not centred."""
    mean = federation.sum(ColumnSums(np.zeros(federation.features), 1)) / rows
    deviation = np.sqrt(federation.sum(ColumnSums(mean, 2)) / rows)
    flat = deviation <= 10.0 * np.finfo(np.float64).eps * np.abs(mean)
    scale = np.where(flat, 1.0, deviation)
    return Scaling(learner.column, mean if learner.column else None, scale)


def _vector(wanted: Array | Goal, room: Classroom) -> Array:
    if isinstance(wanted, np.ndarray):
        return wanted
    room.federation.stage = "goal"
    return check_vector(wanted.vector(room), room.federation.features, room.learner.intercept != "none")


def _walk(room: Classroom, counts: list[int], raw_goal: Array) -> tuple[tuple[PathPoint, ...], Array, int]:
    """Refit at every size, from the model before it, and end on the size with the lowest risk."""
    federation = room.federation
    federation.stage = "selection"
    ranks = selection.last_ranks(federation, counts)
    path: list[PathPoint] = []
    fitted: Fit | None = None
    best: tuple[float, Array, int, bytes] | None = None
    # From the whole pool downwards: the pool's model is known, and neighbours start next to each other.
    for count, last in sorted(zip(counts, ranks, strict=True), reverse=True):
        federation.stage = "path"
        kept: Size = federation.sum(Keep(last))
        refusal = room.learner.refuses(kept.rows, kept.positive)
        # scikit-learn refuses such rows too; only a single asked-for size with a unique model goes on.
        if refusal and (room.learner.free_intercept or len(counts) > 1):
            continue
        fitted = room.fit_chosen(count, fitted)
        risk = metrics.risk(room.scaling.raw(fitted.model), raw_goal)
        path.append(PathPoint(count, count / room.rows, risk))
        if best is None or risk <= best[0]:
            best = (risk, fitted.model, count, last)
    if best is None:
        raise BudgetError(f"budget={counts[0]}: the chosen {refusal}; raise the budget, or use budget='best'")
    federation.stage = "selection"
    if best[2] != counts[0] or len(path) > 1:
        federation.sum(Keep(best[3]))
    return tuple(reversed(path)), best[1], best[2]

"""`teach`: a whole lesson over any federation, from the first count to the last metric."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from superteach import extensions
from superteach.coordinator import metrics, path, selection
from superteach.coordinator.classroom import Classroom, enter
from superteach.coordinator.federation import Federation
from superteach.coordinator.goals import CheckedGoal, Goal, check_goal, check_vector
from superteach.coordinator.methods import dual, match, oblivious, random, small
from superteach.errors import SettingError
from superteach.lesson import Lesson
from superteach.line.queries import ChosenCost
from superteach.mathematics.learner import Learner
from superteach.mathematics.problem import MOST, DualProblem
from superteach.mathematics.solvers import LBFGS, Block, Newton
from superteach.types import Array

METHODS = ("dual", "match", "oblivious", "oblivious-minlp", "random")


def teach(
    federation: Federation,
    learner: Any,
    goal: Any,
    *,
    budget: int | float | str | tuple[Any, Any] = "best",
    method: str = "match",
    risk_target: float | None = None,
    sparsity: float | None = None,
    goal_weight: float | None = None,
    solver: Newton | LBFGS | Block | None = None,
    standardize: bool = False,
    rounding: str = "together",
    restarts: int = 1,
    seconds: float | None = None,
    solver_seconds: float = 120.0,
    random_state: int = 0,
    classes: Any = None,
    columns: Sequence[Any] | None = None,
) -> Lesson:
    """Choose rows of all teachers such that the learner, trained on them alone, comes close to the goal.

    The chosen rows stay with their teachers; the lesson holds the model, its quality and the ledger.
    `sparsity` and `goal_weight` are the paper's λ_α and λ_θ (default 0.1 and 1000 for classification,
    1 and 2000 for regression). With method="match" teachers round `together` or `alone`, the
    best of `restarts` searches is kept, none is tried once the risk is `risk_target`, and nothing more after `seconds`.
    `classes` are the labels a fitted goal must have been fitted on, `columns` the names it must know them by.

    method="oblivious" lets every teacher choose its share alone, by exact teaching; "oblivious-minlp" by a
    mixed-integer programme whose solver is ended after `solver_seconds` (needs superteach-lab[minlp]).
    """
    started = time.perf_counter()
    student = Learner.of(learner)
    settings = _settings(
        student,
        budget,
        method,
        risk_target,
        sparsity,
        goal_weight,
        solver,
        standardize,
        rounding,
        restarts,
        seconds,
        solver_seconds,
        random_state,
    )
    wanted = check_goal(goal, federation.features, student.intercept != "none", classes)
    if isinstance(wanted, CheckedGoal):
        wanted.check(student, range(federation.features) if columns is None else columns, classes)
    if isinstance(solver, Block):
        if method != "dual":
            raise SettingError(
                f"solver={solver!r} is the paper's rule, for method='dual'; got method={method!r}"
            )
        solver.check(federation.teachers, student.free_intercept)
        if solver.staleness:
            federation.check_posts()
    room = enter(federation, student, solver, standardize)
    room.deadline = np.inf if seconds is None else started + seconds
    sizes = selection.counts_of(budget, room.rows, room.width, path.fractions(method))
    if method == "match" and rounding == "together" and budget == "best" and room.rows <= small.SMALL:
        # There a search may change the size: it begins at several, or looks at all subsets at once.
        shares = (0.05, 0.1, 0.2, 0.35, 0.55, 0.8)
        sizes = (
            [1, room.rows]
            if room.rows <= small.EVERY
            else selection.counts_of("best", room.rows, room.width, shares)
        )
    raw_goal = _vector(wanted, room)
    inside_goal = room.scaling.inside(raw_goal)
    pool = room.fit_pool()

    chooser: path.Chooser
    trace = None
    close = float(1e-6 * np.linalg.norm(raw_goal)) if risk_target is None else risk_target
    if method == "match":
        chooser = match.Matcher(
            room, inside_goal, random_state, "alone" if rounding == "alone" else "together", close, restarts
        )
    elif method == "oblivious":
        chooser = oblivious.Oblivious(room, inside_goal, random_state)
    elif method == "oblivious-minlp":
        chooser = extensions.load(extensions.METHODS, method)(room, inside_goal, random_state, solver_seconds)
    elif method == "dual":
        ridge = student.penalty(room.rows)
        problem = DualProblem(ridge, inside_goal, settings["goal_weight"], student.free_intercept)
        trace = dual.rank(federation, problem, settings["sparsity"], solver or room.solver)
        chooser = path.Ranked(federation)
    else:
        random.rank(federation, random_state)
        chooser = path.Ranked(federation)
    if budget == "smallest":
        walk = path.smallest(room, chooser, raw_goal, float(risk_target or 0.0))
    else:
        walk = path.lowest(room, chooser, sizes, raw_goal)

    federation.stage = "metrics"
    agreement = metrics.agreement(federation, walk.model, inside_goal, student.loss.classifies)
    cost: float | None = federation.sum(ChosenCost())
    outcome = chooser.outcome if isinstance(chooser, match.Search) else None
    raw_model = room.scaling.raw(walk.model)
    reason = "rows were drawn at random, nothing was solved"
    if trace is not None:
        reason = trace.reason
    elif outcome is not None:
        reason = outcome.reason
    empty = np.empty(0)
    return Lesson(
        model=raw_model,
        goal=raw_goal,
        intercept=student.intercept != "none",
        size=walk.size,
        rows=room.rows,
        risk=metrics.risk(raw_model, raw_goal),
        consistency=agreement.consistency,
        prediction_distance=agreement.distance,
        prediction_spread=agreement.spread,
        pool_risk=metrics.risk(room.scaling.raw(pool), raw_goal),
        objective=trace.objective if trace else outcome.risks if outcome else empty,
        gap=trace.gap if trace else empty,
        path=walk.points,
        ledger=federation.ledger,
        seconds=time.perf_counter() - started,
        reason=reason,
        converged=trace.converged if trace else outcome.converged if outcome else True,
        teachers=federation.names,
        certificate=outcome.certificate if outcome else None,
        cost=cost,
        lower_bound=outcome.lower_bound if outcome else 0.0,
        settings=settings,
    )


def _settings(
    learner: Learner,
    budget: Any,
    method: Any,
    risk_target: Any,
    sparsity: Any,
    goal_weight: Any,
    solver: Any,
    standardize: Any,
    rounding: Any,
    restarts: Any,
    seconds: Any,
    solver_seconds: Any,
    random_state: Any,
) -> dict[str, Any]:
    """Check every setting before any work, and fill in the defaults."""
    selection.check_budget(budget)
    if not isinstance(method, str) or method not in METHODS:
        raise SettingError(f"method={method!r} is not known; there are {', '.join(map(repr, METHODS))}")
    if method in extensions.LABORATORY[extensions.METHODS]:
        extensions.load(extensions.METHODS, method)  # before any work
    if solver is not None and not isinstance(solver, Newton | LBFGS | Block):
        raise SettingError(
            f"solver={solver!r} must be one of superteach.solvers: Newton(), LBFGS() or Block()"
        )
    margin = learner.loss.classifies
    sparsity = (0.1 if margin else 1.0) if sparsity is None else _number("sparsity", sparsity, least=0.0)
    goal_weight = (
        (1000.0 if margin else 2000.0)
        if goal_weight is None
        else _number("goal_weight", goal_weight, least=0.0)
    )
    if budget == "smallest" and risk_target is None:
        raise SettingError("budget='smallest' needs risk_target=, the risk that is small enough")
    if risk_target is not None:
        risk_target = _number("risk_target", risk_target, least=0.0)
    if rounding not in ("together", "alone"):
        raise SettingError(f"rounding={rounding!r} is not known; there are 'together' and 'alone'")
    if not isinstance(restarts, int | np.integer) or isinstance(restarts, bool) or restarts < 1:
        raise SettingError(f"restarts={restarts!r} must be an int of at least 1")
    if seconds is not None:
        seconds = _number("seconds", seconds, least=0.0)
    solver_seconds = _number("solver_seconds", solver_seconds, least=0.1)
    if (
        not isinstance(random_state, int | np.integer)
        or isinstance(random_state, bool)
        or not 0 <= random_state < 2**64
    ):
        raise SettingError(f"random_state={random_state!r} must be an int from 0 to 2**64 - 1")
    if not isinstance(standardize, bool | np.bool_):
        raise SettingError(f"standardize={standardize!r} must be True or False")
    return {
        "learner": {
            "loss": learner.loss.settings(),
            "ridge": float(learner.ridge),
            "ridge_per_row": learner.ridge_per_row,
            "intercept": learner.intercept,
            "constant": float(learner.constant),
        },
        "budget": budget.item() if isinstance(budget, np.generic) else budget,
        "method": method,
        "risk_target": risk_target,
        "rounding": rounding,
        "restarts": int(restarts),
        "seconds": seconds,
        "solver_seconds": solver_seconds,
        "sparsity": sparsity,
        "goal_weight": goal_weight,
        "solver": None if solver is None else repr(solver),
        "standardize": bool(standardize),
        "random_state": int(random_state),
    }


def _number(name: str, value: Any, least: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise SettingError(f"{name}={value!r} must be a number of at least {least:g}") from None
    if not least <= number <= MOST:
        raise SettingError(f"{name}={value!r} must be a number from {least:g} to {MOST:g}")
    return number


def _vector(wanted: Array | Goal, room: Classroom) -> Array:
    if isinstance(wanted, np.ndarray):
        return wanted
    room.federation.stage = "goal"
    return check_vector(wanted.vector(room), room.federation.features, room.learner.intercept != "none")

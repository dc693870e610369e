"""`teach`: a whole lesson over any federation, from the first count to the last metric."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Unpack

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
from superteach.mathematics.problem import DualProblem
from superteach.mathematics.solvers import Block
from superteach.settings import Given, Settings
from superteach.types import Array


def teach(
    federation: Federation,
    learner: Any,
    goal: Any,
    settings: Settings | None = None,
    *,
    classes: Any = None,
    columns: Sequence[Any] | None = None,
    **given: Unpack[Given],
) -> Lesson:
    """Choose rows of all teachers such that the learner, trained on them alone, comes close to the goal.

    The chosen rows stay with their teachers; the lesson holds the model, its quality and the ledger.
    Settings are given as a whole or one by one, as keywords: see `superteach.settings.Settings`.
    `classes` are the labels a fitted goal must have been fitted on, `columns` the names it must know them by.
    """
    started = time.perf_counter()
    student = Learner.of(learner)
    if settings is None:
        settings = Settings(**given)
    elif given:
        raise SettingError(
            f"give settings as a whole or one by one, not both: {', '.join(given)} is given too"
        )
    settings = settings.for_learner(student)
    method, solver = settings.method, settings.solver
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
    room = enter(federation, student, solver, settings.standardize)
    room.deadline = np.inf if settings.seconds is None else started + settings.seconds
    sizes = selection.counts_of(settings.budget, room.rows, room.width, path.fractions(method))
    if (
        method == "match"
        and settings.rounding == "together"
        and settings.budget == "best"
        and room.rows <= small.SMALL
    ):
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
    close = float(1e-6 * np.linalg.norm(raw_goal))
    if settings.risk_target is not None:
        close = settings.risk_target
    if method == "match":
        chooser = match.Matcher(
            room,
            inside_goal,
            settings.random_state,
            "alone" if settings.rounding == "alone" else "together",
            close,
            settings.restarts,
        )
    elif method == "oblivious":
        chooser = oblivious.Oblivious(room, inside_goal, settings.random_state)
    elif method == "oblivious-minlp":
        chooser = extensions.load(extensions.METHODS, method)(
            room, inside_goal, settings.random_state, settings.solver_seconds
        )
    elif method == "dual":
        ridge = student.penalty(room.rows)
        assert settings.sparsity is not None
        assert settings.goal_weight is not None
        problem = DualProblem(ridge, inside_goal, settings.goal_weight, student.free_intercept)
        trace = dual.rank(federation, problem, settings.sparsity, solver or room.solver)
        chooser = path.Ranked(federation)
    else:
        random.rank(federation, settings.random_state)
        chooser = path.Ranked(federation)
    if settings.budget == "smallest":
        walk = path.smallest(room, chooser, raw_goal, settings.risk_target or 0.0)
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
        settings={"learner": student.as_dict(), **settings.as_dict()},
    )


def _vector(wanted: Array | Goal, room: Classroom) -> Array:
    if isinstance(wanted, np.ndarray):
        return wanted
    room.federation.stage = "goal"
    return check_vector(wanted.vector(room), room.federation.features, room.learner.intercept != "none")

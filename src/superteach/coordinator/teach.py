"""`teach`: a whole lesson over any federation, from the first count to the last metric."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from superteach.coordinator import methods, metrics, path, shares
from superteach.coordinator.federation import Federation
from superteach.coordinator.methods.base import Chooser, Outcome, check_least
from superteach.coordinator.problem import FederatedProblem, setup
from superteach.exceptions import BudgetError, NotConverged, Setting, SettingError, TeachingError
from superteach.goals import (
    CheckedGoal,
    Goal,
    MovableGoal,
    ProvableGoal,
    check_goal,
    check_length,
    check_vector,
    unsolved,
)
from superteach.goals.base import in_words
from superteach.learner import Learner
from superteach.lesson import TAUGHT, Lesson
from superteach.protocol.queries import Census, Recall
from superteach.settings import Settings, SettingsDict
from superteach.types import Array

_LOG = logging.getLogger(__name__)
MOVES = 6
"""Points of a set that are aimed at after the first, where a proof says that it cannot be taught."""
SHIFTED = 1e-6
"""Share of its length by which a goal must be moved along directions that no row sees before a lesson speaks of it."""


def teach(
    federation: Federation,
    learner: Any,
    goal: Any,
    settings: Settings | None = None,
    *,
    classes: Any = None,
    columns: Sequence[Any] | None = None,
    **given: Unpack[SettingsDict],
) -> Lesson:
    """Choose rows of all teachers such that the learner, trained on them alone, comes close to the goal.

    The chosen rows stay with their teachers; the lesson holds the model, its quality and the ledger.
    Settings are given as a whole or one by one, as keywords: see `superteach.settings.Settings`.
    `classes` are the labels a fitted goal must have been fitted on, the positive one last; `columns` the names it must know
    them by.
    """
    started = time.perf_counter()
    if not isinstance(federation, Federation):
        raise SettingError(
            f"teach takes a Federation, got a {type(federation).__name__}: Federation(Threads([teacher, …]))"
        )
    student = Learner.of(learner)
    if classes is not None and student.loss.classifies:
        student = student.over(len(classes) if len(classes) > 2 else 1)
    if settings is None:
        settings = Settings(**given)
    elif given:
        raise SettingError(f"give settings as a whole or one by one, not both: {', '.join(given)} is given too")
    settings = settings.for_learner(student)
    method = methods.find(settings.method)
    columns = range(federation.features) if columns is None else columns
    federation.columns, federation.classes = columns, classes
    wanted = check_goal(goal, federation.features, student, classes, columns)
    if isinstance(wanted, CheckedGoal):
        wanted.check(student, columns, classes)
    method.check(settings, student, federation)
    facts = federation.teachers, method.name, settings.privacy, settings.budget
    _LOG.info("a lesson over %d teachers begins: method %s, privacy %s, budget %s", *facts)
    teach_in_mode = _with_sums if settings.privacy == "none" else _by_shares
    try:
        lesson = teach_in_mode(federation, student, wanted, settings, started).named(columns, classes)
        lesson = replace(lesson, goal_in_words=in_words(goal))
    except np.linalg.LinAlgError as error:
        raise TeachingError(
            f"sums over rows cannot be solved for a model ({error}); very large or badly scaled columns are the usual cause",
            *(() if settings.standardize else (", try ", Setting("standardize", True))),
        ) from error
    if settings.privacy == "none":
        lesson = lesson.with_model(learner, classes)
    _LOG.info(
        "%d of %d rows, %d rounds: %s",
        lesson.size,
        lesson.pool_rows,
        lesson.rounds,
        lesson.verdict,
    )
    return lesson


def _with_sums(
    federation: Federation, student: Learner, wanted: Array | Goal, settings: Settings, started: float
) -> Lesson:
    """Teach with a coordinator that sees sums and rows: of the pool, the choice and the taught model."""
    method = methods.find(settings.method)
    problem = setup(federation, student, settings.solver, settings.standardize)
    problem.measure = settings.measure
    problem.deadline = np.inf if settings.seconds is None else started + settings.seconds
    sizes = method.sizes(settings, problem)
    check_least(sizes, settings.budget, problem.rows, problem.width, student)
    if isinstance(wanted, np.ndarray):
        raw_goal = wanted
    else:
        federation.stage = "goal"
        raw_goal = check_vector(wanted.vector(problem), federation.features, student)
    given, unseen = raw_goal, 0
    if not isinstance(wanted, MovableGoal):
        raw_goal, unseen = _as_learned(problem, raw_goal)
    pool = problem.fit_pool(problem.scaling.inside(raw_goal))
    check_length(raw_goal, problem)

    def walked(goal: Array) -> tuple[Chooser, path.Walk]:
        try:
            chooser = method.start(problem, problem.scaling.inside(goal), settings)
            if settings.budget == "smallest":
                return chooser, path.smallest(problem, chooser, goal, settings.risk_target or 0.0)
            return chooser, path.lowest(problem, chooser, sizes, goal)
        except np.linalg.LinAlgError as error:
            raise unsolved(error, goal, problem) from error

    chooser, walk = walked(raw_goal)
    if isinstance(wanted, MovableGoal):
        chooser, walk, raw_goal = _moved(wanted, problem, walked, chooser, walk, raw_goal)
    inside_goal = problem.scaling.inside(raw_goal)
    outcome = chooser.outcome
    if outcome.certificate is not None and isinstance(wanted, ProvableGoal):
        federation.stage = "proof"
        proof = wanted.coverage(problem, outcome.certificate.direction, raw_goal, walk.point.size)
        whole = bool(np.isinf(proof.within))
        certificate = replace(outcome.certificate, within=None if whole else proof.within, whole=whole)
        outcome = replace(outcome, certificate=certificate, lower_bound=max(outcome.lower_bound, proof.apart))

    federation.stage = "metrics"
    agreement, everything = measure(problem, inside_goal, walk.model)
    nearer = everything.distance < agreement.distance and agreement.distance > TAUGHT * agreement.spread
    if nearer and method.words.exact and settings.measure == "predictions":
        drawn = _drawn_instead(problem, walk, raw_goal, settings)
        if drawn is not None:
            walk = drawn
            agreement = metrics.likeness(federation, walk.model, inside_goal, student.loss.classifies, student.outputs)
            reason = "no search came nearer than as many random rows, which are the lesson"
            outcome = replace(outcome, reason=reason, converged=False, objective=np.empty(0))
    cost = federation.sum(Census("chosen", costs=True)).cost if problem.costs else None
    return replace(
        _unmeasured(federation, student, raw_goal, walk.point.size, problem.rows, outcome, settings, started),
        model=student.shaped(problem.scaling.raw(walk.model)),
        goal=student.shaped(raw_goal),
        risk=walk.point.risk,
        agreement=agreement.agreement,
        prediction_distance=agreement.distance,
        prediction_spread=agreement.spread,
        pool_risk=metrics.risk(problem.scaling.raw(pool), raw_goal),
        pool_agreement=everything.agreement,
        pool_distance=everything.distance,
        unseen_directions=unseen,
        goal_shift=metrics.risk(raw_goal, given) if unseen else 0.0,
        objective=outcome.objective,
        gap=outcome.gap,
        path=walk.points,
        cost=cost,
        delivered=True,
        pool_model=problem.scaling.raw(pool),
        column_spread=problem.column_spread(),
    )


def _as_learned(problem: FederatedProblem, raw_goal: Array) -> tuple[Array, int]:
    """Move a goal along directions that no row sees, which moves no prediction; say how many there are, 0: not moved."""
    given = problem.scaling.inside(raw_goal)
    moved = problem.as_learned(given)
    if np.linalg.norm(moved - given) <= SHIFTED * np.linalg.norm(given):
        return raw_goal, 0
    return problem.scaling.raw(moved), problem.null_space.shape[1]


def measure(problem: FederatedProblem, goal: Array, model: Array) -> list[metrics.Likeness]:
    """Compare a lesson's model and the model of all rows with the goal."""
    models, learner = [model, problem.fit_pool()], problem.learner
    problem.federation.stage = "metrics"
    return metrics.compare(problem.federation, models, goal, learner.loss.classifies, learner.outputs)


def _drawn_instead(problem: FederatedProblem, walk: path.Walk, raw_goal: Array, settings: Settings) -> path.Walk | None:
    """Choose as many random rows as the lesson has, where they come nearer; else go back to the lesson."""
    problem.federation.sum(Recall("goal", True))
    drawn = methods.find("random").start(problem, problem.scaling.inside(raw_goal), settings)
    try:
        found = path.lowest(problem, drawn, [walk.point.size], raw_goal)
    except (BudgetError, NotConverged):  # a class is missing among them, or a plane separates them
        found = walk
    if found.point.distance < walk.point.distance:
        others = tuple(point for point in walk.points if point.size != found.point.size)
        return replace(found, points=tuple(sorted((*others, found.point), key=lambda point: point.size)))
    problem.federation.sum(Recall("goal", False))
    return None


def _by_shares(
    federation: Federation, student: Learner, wanted: Array | Goal, settings: Settings, started: float
) -> Lesson:
    """Teach in a mode in which every teacher meets its share alone: no model is fitted here, and nothing is measured."""
    declared, federation.timed = federation.check_gathers(settings.privacy).declared, False
    goal = shares.public_goal(wanted, student, federation.features, settings.privacy, federation.classes)
    size = shares.check(settings, student, declared, len(goal))
    outcome = shares.teach_shares(federation, student, goal, settings, size)
    lesson = _unmeasured(federation, student, student.shaped(goal), size, sum(declared), outcome, settings, started)
    return replace(lesson, seconds=np.nan, guarantee=shares.mode_of(settings).guarantee())


def _unmeasured(
    federation: Federation,
    student: Learner,
    goal: Array,
    size: int,
    rows: int,
    outcome: Outcome,
    settings: Settings,
    started: float,
) -> Lesson:
    """Describe a lesson of which nothing was measured: its size is the one asked for, its model and risk are not known."""
    method = methods.find(settings.method)
    return Lesson(
        model=np.full(goal.shape, np.nan),
        goal=goal,
        intercept=student.intercept != "none",
        size=size,
        pool_rows=rows,
        risk=np.nan,
        agreement=np.nan,
        pool_risk=np.nan,
        classifies=student.loss.classifies,
        objective=np.empty(0),
        gap=np.empty(0),
        path=(),
        ledger=federation.ledger,
        seconds=time.perf_counter() - started,
        reason=outcome.reason,
        converged=outcome.converged,
        teachers=federation.names,
        certificate=outcome.certificate,
        lower_bound=outcome.lower_bound,
        privacy=settings.privacy,
        delivered=False,
        words=replace(method.tell(settings), unused=methods.unused(method)),
        settings={"learner": student.as_dict(), **settings.as_dict()},
    )


def _moved(
    wanted: MovableGoal,
    problem: FederatedProblem,
    walked: Callable[[Array], tuple[Chooser, path.Walk]],
    chooser: Chooser,
    walk: path.Walk,
    goal: Array,
) -> tuple[Chooser, path.Walk, Array]:
    """Aim at points of a set nearer to what can be taught, as long as that brings the learner nearer to the set."""
    for _ in range(MOVES):
        if chooser.outcome.certificate is None or problem.late:
            break
        problem.federation.sum(Recall("goal", True))
        nearer = wanted.moved_to(problem, walk.model)
        found, tried = walked(nearer)
        if tried.point.distance >= walk.point.distance:
            problem.federation.sum(Recall("goal", False))
            break
        chooser, walk, goal = found, tried, nearer
    return chooser, walk, goal

"""Lessons in which every teacher meets a share of the goal alone: "isolated" and "dp".

A lesson of n rows teaches θ* when its rows' gradients at θ* add up to the target Λθ*. Any split of the target works if every
teacher meets its own part. "isolated" takes fair parts, from public numbers alone. "dp" moves them by what teachers release
under noise; the parts add up to the target whatever the noise is.
"""

from __future__ import annotations

import numpy as np

from superteach.coordinator import methods
from superteach.coordinator.federation import Federation
from superteach.coordinator.methods.base import Outcome, check_least, lesson_sizes
from superteach.coordinator.problem import NEWTON_WIDTH
from superteach.exceptions import BudgetError, GoalError, Setting, SettingError
from superteach.goals import FromData, Goal, check_vector
from superteach.learner import Learner
from superteach.optim.problem import Scaling, ridge_penalty
from superteach.privacy.accounting import Mode
from superteach.privacy.moments import Split, read_units, split
from superteach.privacy.shares import fair_shares
from superteach.protocol.queries import ChooseShare, CountMagnitudes, SecondMoments
from superteach.settings import Settings
from superteach.types import Array, Labels

MOST_OF_POOL = 0.9
"""Part of the rows beyond which a lesson leaves teachers no choice."""


def check(settings: Settings, learner: Learner, declared: tuple[int, ...], width: int) -> int:
    """Return the size of a lesson that can be taught in a privacy mode, or raise before anything is asked or spent."""
    privacy, rows = settings.privacy, sum(declared)
    if not methods.find(settings.method).shares:
        raise SettingError(
            Setting("privacy", privacy),
            " does not go with ",
            Setting("method", settings.method),
            ": use ",
            Setting("method", "match"),
        )
    if not learner.ridge:
        raise SettingError(
            Setting("privacy", privacy),
            " does not go with a learner without a penalty; use ",
            Setting("privacy", "none"),
        )
    if settings.standardize:
        raise SettingError(
            Setting("standardize", True),
            " needs sums over rows, and ",
            Setting("privacy", privacy),
            " releases none of them: scale columns by means and deviations that are public, before teaching",
        )
    if privacy == "dp":
        mode_of(settings).check(rows)
        if learner.outputs > 1:
            raise SettingError(
                Setting("privacy", "dp"),
                f" teaches one output, the learner has {learner.outputs}; use ",
                Setting("privacy", "isolated"),
            )
        if width > NEWTON_WIDTH:
            raise SettingError(Setting("privacy", "dp"), f" works for up to {NEWTON_WIDTH} columns, there are {width}")
    size = lesson_sizes(settings.budget, rows, width)[0]
    if size > MOST_OF_POOL * rows:
        raise BudgetError(
            Setting("budget", settings.budget),
            " leaves no choice: with ",
            Setting("privacy", privacy),
            f" choose at most {MOST_OF_POOL:g} of all",
        )
    check_least([size], settings.budget, rows, width, learner)
    return size


def mode_of(settings: Settings) -> Mode:
    """Return the privacy mode of a lesson, with its budget."""
    return Mode(settings.privacy, settings.epsilon, settings.delta)


def public_goal(wanted: Array | Goal, learner: Learner, features: int, privacy: str, classes: Labels | None) -> Array:
    """Return a goal that no teacher was asked about; refuse one fitted on the pool, which would have to be paid for."""
    if isinstance(wanted, np.ndarray):
        return wanted
    if not hasattr(wanted, "without_rows"):
        raise GoalError(
            Setting("goal", wanted),
            " is fitted on the teachers' rows, and ",
            Setting("privacy", privacy),
            " releases no such fit: give its numbers, a model fitted elsewhere, or ",
            Setting("goal", FromData),
            " with rows of your own",
        )
    return check_vector(wanted.without_rows(learner, classes), features, learner)


def teach_shares(federation: Federation, learner: Learner, goal: Array, settings: Settings, size: int) -> Outcome:
    """Split the goal, and have every teacher choose rows for its own part."""
    engine = federation.check_gathers(settings.privacy)
    mode = mode_of(settings)
    inside = learner.centred(Scaling(learner.column, outputs=learner.outputs).inside(goal))
    penalty = ridge_penalty(learner.penalty(size), len(inside), learner.free_intercept, learner.outputs).diagonal
    target = penalty * inside
    about = learner.loss, learner.column, inside
    engine.keep(mode)
    if settings.privacy == "isolated":
        rows = fair_shares(engine.declared, len(inside), size, engine.most)
        shares = Split(rows, rows[:, None] / size * target)
    else:
        federation.stage = "releases"
        asked = CountMagnitudes(*about)
        counts = np.sum(federation.gather(asked), axis=0)
        weights = read_units(counts, mode.deviation(asked.release) * np.sqrt(federation.teachers))
        moments = SecondMoments(*about, weights)
        released = federation.gather(moments)
        noise = mode.deviation(moments.release)
        shares = split(released, weights, noise, engine.declared, target, size, engine.most)
    federation.stage = "choice"
    counted = tuple(int(number) for number in shares.rows)
    federation.gather(ChooseShare(*about, penalty, counted, shares.targets, settings.random_state))
    carriers = int(np.count_nonzero(shares.rows))
    return Outcome(
        f"{carriers} of {federation.teachers} teachers chose rows for a share of the goal each, and said nothing"
    )

"""A lesson in plain sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from superteach.exceptions import SettingError, counted, shorten
from superteach.lesson import Lesson, decimals, percent_of
from superteach.losses.multioutput import EVERY_LOSS
from superteach.privacy import PRIVACY
from superteach.protocol.queries import QUERIES, AskMoments, AskValues
from superteach.report.markup import Markup, join, number, percent, percent_text, strong, tag, unlike
from superteach.types import Foreign, Json

Against = Lesson | Mapping[str, Lesson] | Sequence[Lesson] | None
"""Lessons to set beside another: one, several, or by name."""

LEARNERS = {
    "logistic": "a logistic regression",
    "squared": "a ridge regression",
    "squared_hinge": "a linear support vector machine (squared hinge)",
    "huber": "a linear regression with Huber's loss",
    "poisson": "a Poisson regression",
    "squared_label": "a ridge classifier",
    "softmax": "a logistic regression over {} classes (softmax)",
    "squared_labels": "a ridge classifier, each of {} classes against the rest,",
    "squared_hinges": "a linear support vector machine (squared hinge), each of {} classes against the rest,",
    "squared_targets": "a linear regression of {} targets",
}
STAGES = {
    "start": "counting rows",
    "set-up": "agreeing on columns and counts",
    "pool fit": "fitting the learner on all rows",
    "goal": "finding the goal",
    "weights": "weighting every row",
    "dual": "solving the paper's problem",
    "relaxation": "solving the relaxed problem",
    "proof": "proving how near any lesson can come",
    "approach": "coming as near as the rows allow",
    "rounding": "rounding to whole rows",
    "small pool": "exchanging rows",
    "path": "fitting the learner on the chosen rows",
    "selection": "choosing rows by rank",
    "shares": "dividing the budget among teachers",
    "alone": "letting every teacher choose its rows",
    "releases": "releasing noisy sums",
    "choice": "letting every teacher choose its share",
    "random rows": "fitting the learner on random rows, to compare",
    "metrics": "comparing predictions with the goal's",
}
"""Stages of a run, in words."""


def named(lesson: Lesson, against: object) -> dict[str, Lesson]:
    """Name the lesson, then the lessons it is set against, each by words of its own."""
    alone = isinstance(against, Lesson | str) or not isinstance(against, Iterable)
    several: Foreign = [] if against is None else [against] if alone else against
    pairs = several.items() if isinstance(several, Mapping) else [(None, other) for other in several]
    found = {lesson.words.label: lesson}
    for name, other in pairs:
        if not isinstance(other, Lesson):
            seen = shorten(repr(against), 60)
            raise SettingError(f"against={seen} must be a Lesson, a list of them, or a dict by name")
        found[unlike(other.words.label if name is None else str(name), found, "{}, {}")] = other
    return found


def coefficients(lesson: Lesson, columns: Sequence[str]) -> list[str]:
    """Name all coefficients, the intercept last; those of every output in turn, by label, where there are several."""
    names = [*columns, *["intercept"] * lesson.intercept]
    if lesson.coef.ndim == 1:
        return names
    return [f"{output}: {name}" for output in lesson.classes or range(len(lesson.coef)) for name in names]


def interruption(facts: Mapping[str, object]) -> str:
    """Say who was lost on the way, when and why, and what was done about it."""
    who = f"Teacher {facts['teacher']} was lost" if facts.get("teacher") else "The lesson was broken off"
    where = f" in round {facts['round']}" if facts.get("round") else " before the first round"
    where += f" ({facts['stage']})" if facts.get("stage") else ""
    then = "the lesson began anew without it, over the rows of the others"
    if facts.get("then") == "resumed":
        again = facts.get("asked_again")
        then = "it went on from its journal"
        if isinstance(again, int) and again:
            then += f"; {counted(again, 'questions were', 'question was')} asked a second time"
    return f"{who}{where}, {facts.get('when')}: {facts.get('why')}; {then}."


def asked(lesson: Lesson) -> list[Markup]:
    """Say who holds rows, who is to learn what, from how many rows, by which method."""
    learner, teachers, width = _learner(lesson), len(lesson.teachers), lesson.coef.shape[-1]
    held = "rows" if lesson.pool_rows != 1 else "row"
    holds = f"{{}} teacher holds {{}} {held}" if teachers == 1 else f"{{}} teachers hold {{}} {held} between them"
    kept = "" if lesson.privacy == "none" else ", and no row may leave its owner"
    kind = LEARNERS.get(learner.get("loss", {}).get("name", ""), "a linear model").format(len(lesson.coef))
    intercept = " and an intercept" if lesson.intercept else ", without an intercept"
    found = [
        _said(f"{holds}{kept}. ", number(teachers), number(lesson.pool_rows)),
        _said(f"The learner is {kind} on {{}} column{'' if width == 1 else 's'}{intercept}", number(width)),
    ]
    if learner.get("ridge") is not None:
        per_row = " per row" if learner.get("ridge_per_row") else ""
        found.append(_said(f", penalty Λ\u00a0=\u00a0{{}}{per_row}", number(float(learner["ridge"]))))
    length, budget = number(float(np.linalg.norm(lesson.goal))), _budget(lesson.settings.get("budget"))
    goal = (
        "It is to learn a given model, the goal θ* (length ‖θ*‖\u00a0=\u00a0{}), by training on a few of those rows and "
        "nothing else. {} {}"
    )
    if lesson.positive is not None:
        found.append(_said(". The positive label is {}: scores above 0 predict it", strong(str(lesson.positive))))
    return [join([*found, "."]), _said(goal, length, budget, lesson.words.chosen)]


def _said(text: str, *parts: object) -> Markup:
    """Fill the gaps {} of a sentence with parts."""
    first, *rest = text.split("{}")
    return join([first, *(one for pair in zip(parts, rest, strict=True) for one in pair)])


def _learner(lesson: Lesson) -> Json:
    return dict(lesson.settings.get("learner") or {})


def _budget(budget: int | float | str | list[float] | tuple[float, float] | None) -> str:
    if budget == "best":
        return "The size of the lesson was free: the one with the lowest risk was taken."
    if budget == "smallest":
        return "The smallest lesson within the risk asked for was looked for."
    if isinstance(budget, list | tuple):
        low, high = (f"{end:,}" if isinstance(end, int) else percent_text(end) for end in budget)
        rows = "rows" if isinstance(budget[1], int) else "of the rows"
        return f"The lesson was to have from {low} to {high} {rows}, whichever size has the lowest risk."
    if isinstance(budget, int):
        return f"The lesson was to have {counted(budget, 'rows')}."
    return "" if budget is None else f"The lesson was to have {percent_text(float(budget))} of the rows."


def answer(lesson: Lesson) -> list[Markup]:
    """Answer in one plain sentence, and a second where something is proved or went wrong."""
    rows = strong(join([number(lesson.size), " of ", number(lesson.pool_rows), " rows"]))
    share = percent(lesson.fraction)
    if not lesson.delivered:
        text = "About {} ({}) were chosen where they lie, with privacy {}. No learner was trained on them yet."
        found = [_said(text, rows, share, strong(lesson.privacy))]
    else:
        found = [_said(f"Trained on {{}} ({{}}): {lesson.verdict}.", rows, share)]
    if not lesson.converged:
        found.append(join([strong("The search stopped early: "), lesson.reason, "."]))
    return found


def privacy(lesson: Lesson) -> list[Markup]:
    """Say what the privacy mode means, and what it leaves out."""
    found = [_said("Privacy: {}. {}", strong(lesson.privacy), PRIVACY.get(lesson.privacy, ""))]
    if lesson.guarantee is not None:
        alone = "Lessons taught from the same rows add up; in one process nobody adds them up."
        found.append(join([f"{lesson.guarantee['sentence']}. {alone}"]))
    if lesson.privacy != "none":
        public = "Goal, size of the lesson and each teacher's declared number of rows are public."
        after = "How well each owner's rows carry their share is known to that owner alone."
        found.append(join([public, " ", after]))
    return found


def share(lesson: Lesson, agreement: float) -> Markup:
    """Write a share of rows where labels are predicted, r² otherwise; 100 % and 1 mean all."""
    text = (percent_of if lesson.classifies else decimals)(agreement).replace(" ", "\u202f").replace("-", "\u2212")
    return tag("data", text, value=repr(float(agreement)))


def agreement(lesson: Lesson) -> Markup:
    """Write the lesson's own."""
    return share(lesson, lesson.agreement)


def what_agreement_means(lesson: Lesson) -> str:
    """Say what the agreement of this lesson means."""
    return "of all rows get the goal's label" if lesson.classifies else "r² of the goal's predictions"


def proof(lesson: Lesson) -> list[Markup]:
    """Say what is certain, and what is not."""
    found: list[Markup] = []
    proved = strong("Proved: ")
    if lesson.certificate is not None:
        text = (
            "{}no lesson of {} of these rows, not even of fractions of rows, teaches this goal exactly. The direction u "
            "below shows it: every choice of rows stays at least {} short of what the goal needs along u. Anyone who may "
            "ask for the sum Σ max(0, u'(g, 1)) can check it in one round."
        )
        found.append(_said(text, proved, number(lesson.size), number(lesson.certificate.margin)))
    if lesson.lower_bound > 0.0:
        own = _said("; this one ends {} away", number(lesson.distance)) if lesson.delivered else ""
        text = f"{{}}no lesson of this size ends nearer than {{}} to this goal in {lesson.measure}{{}}."
        found.append(_said(text, proved, number(lesson.lower_bound), own))
    if len(lesson.gap):
        text = (
            "The paper's teaching problem {} an objective of {}, which is at most {} above its optimum (certified duality "
            "gap). That certifies the solution of the problem, not that the problem's solution teaches the goal: its risk "
            "is measured, above."
        )
        solved = "was solved to" if lesson.converged else "was left at"
        found.append(_said(text, solved, number(float(lesson.objective[-1]), 6), number(float(lesson.gap[-1]))))
    if lesson.optimal:
        found.append(
            join([proved, "all lessons that the budget allows were covered, and none is nearer than this one."])
        )
    if not found:
        unmeasured = "Nothing is proved, and nothing was measured: no learner was trained on the chosen rows."
        found.append(join([lesson.words.unproved if lesson.delivered else unmeasured]))
    if lesson.words.ended:
        found.append(join([lesson.words.ended.format(reason=lesson.reason)]))
    return found


def by_dots(settings: Mapping[str, object], before: str = "") -> dict[str, object]:
    """Name nested settings by dots: learner.loss.name."""
    found: dict[str, object] = {}
    for key, value in settings.items():
        found |= by_dots(value, f"{before}{key}.") if isinstance(value, Mapping) else {f"{before}{key}": value}
    return found


def exposure(query: str) -> str:
    """Say what a query of the ledger shows of a teacher, in the query's own words."""
    sums = {"moments": AskMoments.exposure, "values": AskValues.exposure}
    return sums.get(query.split(" ")[-1]) or next((kind.exposure for kind in QUERIES if kind.__name__ == query), "")


def again(lesson: Lesson) -> str:
    """Write Python that teaches the same lesson again, given the rows."""
    settings, learner = lesson.settings, _learner(lesson)
    loss = dict(learner.get("loss") or {})
    kind = EVERY_LOSS.get(loss.pop("name", ""))
    if kind is None:
        return ""
    given = ", ".join(f"{key}={value!r}" for key, value in loss.items())
    student = [f"losses.{kind.__name__}({given})"]
    for key, default in (("ridge", None), ("intercept", "none"), ("constant", 1.0), ("ridge_per_row", False)):
        if learner.get(key) != default:
            student.append(f"{key}={learner[key]!r}")
    skipped = {"learner", "solver", *lesson.words.unused}
    words = [
        f"{key}={tuple(value) if isinstance(value, list) else value!r}"
        for key, value in settings.items()
        if key not in skipped and value is not None
    ]
    if lesson.positive is not None:
        words.insert(0, f"positive={lesson.positive!r}")
    names = ["Learner", "Lesson", "SuperTeacher", "losses"]
    if settings.get("solver"):
        names.append("solvers")
        words.append(f"solver=optim.{settings['solver']}")
    lines = "".join(f"    {word},\n" for word in ("learner", "goal", *words))
    return (
        f"from superteach import {', '.join(names)}\n\n"
        'goal = Lesson.load("lesson.json").goal\n'
        f"learner = Learner({', '.join(student)})\n"
        f"teacher = SuperTeacher(\n{lines})\n"
        "teacher.fit(X, y, groups=owner)  # the rows, their targets, and who owns each"
    )

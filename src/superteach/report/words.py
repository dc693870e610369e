"""A lesson in plain sentences, and numbers, shares and names as people read them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import count
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from superteach.exceptions import counted
from superteach.losses.multioutput import EVERY_LOSS
from superteach.protocol.queries import QUERIES, AskMoments, AskValues
from superteach.types import Array, Json

if TYPE_CHECKING:
    from superteach.lesson import Certificate, Entry, Lesson

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


def verdict(lesson: Lesson) -> str:
    """Say in one sentence whether the goal was taught, what is proved, and how near predictions and coefficients come."""
    if not lesson.delivered:
        return f"the model was not refitted in this privacy mode ({lesson.privacy}), so its risk is not known here"
    near = f"{_predictions(lesson)}; coefficients end {lesson.risk:.2g} from the goal's"
    if lesson.certificate is not None:
        text = f"no {lesson.size} of these {lesson.pool_rows} rows can teach this goal exactly"
        text += f"; the nearest lesson found has {near}"
        if lesson.lower_bound:
            text += f"; no lesson comes nearer than {lesson.lower_bound:.2g} in {lesson.measure}"
        text += _reach(lesson.certificate)
    elif not lesson.words.exact:
        text = f"the taught model has {near}"
    elif lesson.taught:
        text = f"the goal is taught: {near}"
    else:
        text = f"the nearest lesson found has {near}; there is no proof either way"
    if all_rows_nearer(lesson):
        text += "; all rows come nearer than this lesson: train on all of them"
    return f"{text}; {moved(lesson)}" if lesson.unseen_directions else text


def _predictions(lesson: Lesson) -> str:
    """Say how predictions agree with the goal's, beside all rows."""
    text = agreements(lesson, "of the goal's predictions")
    if not math.isfinite(lesson.prediction_distance):
        return text
    far, spread = lesson.prediction_distance, lesson.prediction_spread
    return f"{text}, scores {far:.2g} apart on average (their spread is {spread:.2g})"


def agreements(lesson: Lesson, what: str = "agreement") -> str:
    """Agreement with the goal's predictions: of the lesson, and of all rows where it was measured."""
    write = percent_of if lesson.classifies else decimals
    own = f"{write(lesson.agreement)} {what}" if lesson.classifies else f"r² {write(lesson.agreement)}"
    return own + (f" (all rows {write(lesson.pool_agreement)})" if math.isfinite(lesson.pool_agreement) else "")


def all_rows_nearer(lesson: Lesson) -> bool:
    """Tell whether a lesson that misses its goal is farther from it, in its own measure, than a fit on all rows."""
    everything = lesson.pool_distance if lesson.measure == "predictions" else lesson.pool_risk
    return lesson.privacy == "none" and not lesson.taught and everything < lesson.distance


def mean_and_range(values: Sequence[float], write: Callable[[float], str]) -> tuple[str, str]:
    """Write the mean of some draws, and the least and the largest of them."""
    least, mean, most = write(min(values)), write(fmean(values)), write(max(values))
    return mean, f"{least.removesuffix(' %')} to {most}"


def random_rows(lesson: Lesson) -> tuple[str, str]:
    """Say how well as many random rows agree with the goal: the mean, and the range over all draws."""
    drawn = lesson.random_rows
    assert drawn is not None
    more = f"; {drawn.without_model:,} more had no model" if drawn.without_model else ""
    if not drawn.agreement:
        return "–", f"no model belongs to any of {counted(drawn.without_model, 'draws')}"
    mean, span = mean_and_range(drawn.agreement, percent_of if lesson.classifies else decimals)
    return f"mean {mean}", f"{span} in {counted(len(drawn.agreement), 'draws')}{more}"


def _reach(certificate: Certificate) -> str:
    """Say for which models of a set the proof holds too, after a sentence about the goal."""
    if certificate.whole:
        return "; the same is proved of the whole set"
    if not certificate.within:
        return ""
    return (
        f"; the same is proved of the set's models whose predictions are within {certificate.within:.2g} of this one's"
    )


def moved(lesson: Lesson) -> str:
    """Say how the goal was moved where rows do not see every direction; empty where it was not."""
    many = lesson.unseen_directions
    if not many:
        return ""
    where = "a direction" if many == 1 else f"{many} directions"
    return (
        f"the goal was first moved by {lesson.goal_shift:.2g} along {where} in which no row of the pool differs from 0 "
        "(such as dummies that add up to the intercept): its predictions stay the same"
    )


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


def learner(lesson: Lesson) -> str:
    """Name the learner."""
    loss = dict(lesson.settings.get("learner") or {}).get("loss") or {}
    return LEARNERS.get(loss.get("name", ""), "a linear model").format(len(lesson.coef))


def budget(asked: int | float | str | list[float] | tuple[float, float] | None) -> str:
    """Say how many rows were asked for, in a sentence."""
    if asked == "best":
        return "The size of the lesson was free: the one that comes nearest was taken."
    if asked == "smallest":
        return "The smallest lesson within the risk asked for was looked for."
    if isinstance(asked, list | tuple):
        low, high = (f"{end:,}" if isinstance(end, int) else percent_text(end) for end in asked)
        rows = "rows" if isinstance(asked[1], int) else "of the rows"
        return f"The lesson was to have from {low} to {high} {rows}, whichever size comes nearest."
    if isinstance(asked, int):
        return f"The lesson was to have {counted(asked, 'rows')}."
    return "" if asked is None else f"The lesson was to have {percent_text(float(asked))} of the rows."


def length(vector: Array) -> float:
    """Return the length of a vector of coefficients."""
    return float(np.linalg.norm(vector))


def by_stage(lesson: Lesson) -> dict[tuple[str, str], list[Entry]]:
    """Group the ledger by stage and query, in the order in which they came first."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in lesson.ledger:
        groups.setdefault((entry.stage, entry.query), []).append(entry)
    return groups


def by_dots(settings: Mapping[str, object], before: str = "") -> dict[str, object]:
    """Name nested settings by dots: learner.loss.name."""
    flat: dict[str, object] = {}
    for key, value in settings.items():
        flat |= by_dots(value, f"{before}{key}.") if isinstance(value, Mapping) else {f"{before}{key}": value}
    return flat


def exposure(query: str) -> str:
    """Say what a query of the ledger shows of a teacher, in the query's own words."""
    sums = {"moments": AskMoments.exposure, "values": AskValues.exposure}
    return sums.get(query.split(" ")[-1]) or next((kind.exposure for kind in QUERIES if kind.__name__ == query), "")


def recipe(lesson: Lesson) -> str:
    """Write Python that teaches the same lesson again, given the rows; empty where the loss is not one of ours."""
    settings: Json = lesson.settings
    own = dict(settings.get("learner") or {})
    loss = dict(own.get("loss") or {})
    kind = EVERY_LOSS.get(loss.pop("name", ""))
    if kind is None:
        return ""
    parameters = ", ".join(f"{key}={value!r}" for key, value in loss.items())
    student = [f"losses.{kind.__name__}({parameters})"]
    for key, default in (("ridge", None), ("intercept", "none"), ("constant", 1.0), ("ridge_per_row", False)):
        if own.get(key) != default:
            student.append(f"{key}={own[key]!r}")
    skipped = {"learner", "solver", *lesson.words.unused}
    options = [
        f"{key}={tuple(value) if isinstance(value, list) else value!r}"
        for key, value in settings.items()
        if key not in skipped and value is not None
    ]
    if lesson.positive is not None:
        options.insert(0, f"positive={lesson.positive!r}")
    names = ["Learner", "Lesson", "SuperTeacher", "losses"]
    if settings.get("solver"):
        names.append("optim")
        options.append(f"solver=optim.{settings['solver']}")
    lines = "".join(f"    {option},\n" for option in ("learner", "goal", *options))
    return (
        f"from superteach import {', '.join(names)}\n\n"
        'goal = Lesson.load("lesson.json").goal\n'
        f"learner = Learner({', '.join(student)})\n"
        f"teacher = SuperTeacher(\n{lines})\n"
        "teacher.fit(X, y, groups=owner)  # the rows, their targets, and who owns each\n"
    )


# Numbers and names -----------------------------------------------------------------------------------------------------

_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML, XML or UTF-8 cannot hold."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def short(value: float | int, digits: int = 4) -> str:
    """Write a number as a person does: 1,234, 0.1235, 8.1 × 10⁻⁷."""
    if isinstance(value, int):
        return f"{value:,}".replace("-", "\u2212")
    if value == 0.0:
        return "0"
    if not 1e-4 <= abs(value) < 1e6:
        return power(value, digits)
    # Significant digits: whole numbers keep all of theirs.
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.replace("-", "\u2212")


def power(value: float, digits: int = 3) -> str:
    """Write a number with a power of ten; 10⁻³ where the mantissa is 1."""
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    raised = f"10{str(int(exponent)).translate(_RAISED)}"
    sign, mantissa = ("\u2212", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    return sign + (raised if mantissa == "1" else f"{mantissa}\u202f×\u202f{raised}")


def percent_text(share: float, digits: int = 3) -> str:
    """Write a share as a percentage."""
    return f"{100.0 * share:.{digits}g}\u202f%"


def decimals(share: float, scale: float = 1.0) -> str:
    """Write a number near 1 with as many digits as tell it from 1."""
    if not math.isfinite(share):
        return "–"
    miss = scale * abs(1.0 - share)
    digits = max(2 if scale == 1.0 else 1, -math.floor(math.log10(miss))) if miss else 0
    return f"{round(scale * share, digits) + 0.0:.{digits}f}"


def percent_of(share: float) -> str:
    """Write a share as a percentage; 100 % means all."""
    return f"{decimals(share, 100.0)} %"


def size_text(count: float) -> str:
    """Write a count of bytes in B, kB, MB or GB."""
    power = min(int(math.log10(max(count, 1.0)) / 3.0), 3)
    return f"{count / 1000.0**power:.{min(power, 1)}f} {('B', 'kB', 'MB', 'GB')[power]}"


def clean(text: str) -> str:
    """Replace characters that HTML, XML or UTF-8 cannot hold."""
    return _UNSEEN.sub("\ufffd", text)


def unlike(name: str, taken: Container[str], form: str = "{}-{}") -> str:
    """Return a name that is not `taken`: itself, or with the first number from 2 on that makes it one."""
    if name not in taken:
        return name
    return next(other for number in count(2) if (other := form.format(name, number)) not in taken)

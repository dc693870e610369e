"""The page of one lesson, and what a notebook shows of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from superteach.exceptions import SettingError, counted, shorten
from superteach.report import plots, words
from superteach.report.markup import agreement, code, name, number, percent, short, size, unlike
from superteach.report.page import Page, Table, render
from superteach.types import Array, Foreign
from superteach.words import PRIVACY

if TYPE_CHECKING:
    from superteach.lesson import Entry, Lesson

_MOST_ROWS = 200
"""Rows of one table, at most; lesson.json has the rest."""


def page_of(
    lesson: Lesson,
    *,
    title: str = "Lesson report",
    against: Foreign = None,
    columns: Sequence[str] | None = None,
    target: str | None = None,
    contributions: Mapping[str, int] | None = None,
    held: Mapping[str, int] | None = None,
) -> Page:
    """Everything a colleague needs to judge a lesson, and to repeat it.

    `against` sets other lessons beside it: one, several, or by name. `contributions`, chosen rows by teacher, and `held`,
    rows by teacher, are shown where the caller has them: the lesson itself has only sums.
    """
    names = _columns(lesson, columns)
    chosen = _counts(lesson, contributions, "contributions")
    owned = _counts(lesson, held, "held")
    lessons = _beside(lesson, against)
    made = lesson.versions.get("superteach", "")
    about = f"Predicting {target}. " if target else ""
    page = Page(
        title,
        f"{about}Rows chosen from private data, so that a learner trained on them alone learns a given model.",
        f"Made by superteach {made}. This file is complete: it loads nothing and runs nothing.",
        "lesson.html.j2",
    )
    page.context = {
        "lesson": lesson,
        "lessons": lessons,
        "words": words,
        "privacy_means": PRIVACY.get(lesson.privacy, ""),
        "plots": {
            key: page.add(plot) for key, plot in _plots(lessons, names, chosen, owned).items() if plot is not None
        },
        "tables": _tables(lesson, lessons, names, chosen, owned),
        "solved": [one for one in lessons.values() if plots.is_solved(one)],
        "shown": len(plots.farthest(lesson)),
        "goal_length": float(np.linalg.norm(lesson.goal)),
        "solver": str(lesson.settings.get("solver") or ""),
    }
    return page


def notebook_html(lesson: Lesson) -> str:
    """Write what a notebook shows of a lesson: its verdict, and its model beside the others."""
    facts: list[list[object]] = [
        ["rows chosen" if lesson.delivered else "rows asked for", f"{lesson.size:,} of {lesson.pool_rows:,}"],
        *([] if lesson.positive is None else [["positive label", str(lesson.positive)]]),
        ["teachers", len(lesson.teachers)],
        ["rounds", lesson.rounds],
    ]
    tables = [_models(lesson)] if lesson.delivered else []
    return render("notebook.html.j2", answer=lesson.verdict, tables=[*tables, Table(["", ""], facts)])


def _columns(lesson: Lesson, columns: Sequence[str] | None) -> list[str]:
    width = lesson.coef.shape[-1]
    named = [f"x{place}" for place in range(1, width + 1)] if columns is None else [str(one) for one in columns]
    if len(named) != width:
        raise SettingError(f"columns names {counted(len(named), 'columns')}, the lesson has {width}; name each of them")
    return words.coefficients(lesson, named)


def _counts(lesson: Lesson, counts: Mapping[str, int] | None, what: str) -> list[int] | None:
    if counts is None:
        return None
    missing = [teacher for teacher in lesson.teachers if teacher not in counts]
    if missing or len(counts) != len(set(lesson.teachers)):
        seen = f"has nothing for {missing[0]!r}" if missing else f"names {counted(len(counts), 'teachers')}"
        raise SettingError(f"{what} {seen}; give one count for each of {counted(len(lesson.teachers), 'teachers')}")
    listed = [int(counts[teacher]) for teacher in lesson.teachers]
    whole = {"contributions": lesson.size, "held": lesson.pool_rows}[what]
    if sum(listed) != whole:
        raise SettingError(
            f"{what} add up to {counted(sum(listed), 'rows')}, the lesson has {whole}; give this lesson's counts"
        )
    return listed


def _beside(lesson: Lesson, against: Foreign) -> dict[str, Lesson]:
    """Name the lesson, then the lessons it is set against, each by words of its own."""
    alone = isinstance(against, type(lesson) | str) or not isinstance(against, Iterable)
    several = [] if against is None else [against] if alone else against
    pairs = several.items() if isinstance(several, Mapping) else [(None, other) for other in several]
    named = {lesson.words.label: lesson}
    for label, other in pairs:
        if not isinstance(other, type(lesson)):
            seen = shorten(repr(against), 60)
            raise SettingError(f"against={seen} must be a Lesson, a list of them, or a dict by name")
        named[unlike(other.words.label if label is None else str(label), named, "{}, {}")] = other
    return named


def standardised(lesson: Lesson) -> Array | None:
    """Return for every coefficient the spread of its column, NaN for intercepts; None where nobody has measured it."""
    if lesson.column_spread is None:
        return None
    own = np.append(lesson.column_spread, [np.nan] * lesson.intercept)
    return np.tile(own, lesson.goal.size // len(own))


def _plots(
    lessons: Mapping[str, Lesson], names: Sequence[str], chosen: list[int] | None, held: list[int] | None
) -> dict[str, plots.Plot | None]:
    lesson = next(iter(lessons.values()))
    drawn: dict[str, plots.Plot | None] = {}
    if lesson.delivered:
        spread = standardised(lesson)
        drawn = {
            "distances": plots.distances_plot(lesson),
            "sizes": plots.sizes_plot(lessons),
            "approach": plots.approach_plot(lessons),
            "objective": plots.objective_plot(lessons),
            "coefficients": plots.coefficients_plot(lesson, names),
            "standardised": None if spread is None else plots.coefficients_plot(lesson, names, spread),
        }
    return drawn | {"teachers": None if chosen is None else plots.teachers_plot(lesson.teachers, chosen, held)}


def _tables(
    lesson: Lesson,
    lessons: Mapping[str, Lesson],
    names: Sequence[str],
    chosen: list[int] | None,
    held: list[int] | None,
) -> dict[str, Table]:
    tables = {
        "lessons": _lessons(lessons),
        "teachers": _teachers(lesson, chosen, held),
        "ledger": _ledger(lesson),
        "settings": _settings(lesson),
        "versions": Table(["package", "version"], list(lesson.versions.items()), "Versions"),
    }
    if lesson.delivered:
        tables |= {"models": _models(lesson), "coefficients": _coefficients(lesson, names)}
        rows = [
            [
                number(point.size),
                percent(point.fraction),
                point.distance,
                point.risk,
                "chosen" * (point.size == lesson.size),
            ]
            for point in lesson.path[:_MOST_ROWS]
        ]
        headings = ["rows", "|S|/N", f"distance of {lesson.measure}", "risk", ""]
        tables["sizes"] = Table(headings, rows, folded="The numbers")
        spread = standardised(lesson)
        if spread is not None:
            tables["standardised"] = _coefficients(lesson, names, spread)
    if plots.is_solved(lesson):
        steps = enumerate(zip(lesson.objective, lesson.gap, strict=True))
        rows = [[step, number(value, 8), number(gap)] for step, (value, gap) in steps]
        tables["objective"] = Table(["step", "objective", "certified gap"], rows[:_MOST_ROWS], folded="The numbers")
    if lesson.certificate is not None:
        parts = zip([*names, "count of rows"], lesson.certificate.direction, strict=True)
        rows = [[name(part), number(value, 6)] for part, value in parts]
        tables["direction"] = Table(["component", "u"], rows[:_MOST_ROWS], folded="The direction u, on scaled columns")
    return tables


def _models(lesson: Lesson) -> Table:
    """Set the lesson's model, that of all rows and that of random rows beside each other: predictions first."""
    models = [
        ("this lesson", lesson.size, lesson.agreement, lesson.prediction_distance, lesson.risk),
        ("all rows", lesson.pool_rows, lesson.pool_agreement, lesson.pool_distance, lesson.pool_risk),
        ("as many random rows", lesson.size, lesson.random_agreement, lesson.random_distance, None),
    ]
    rows = [
        [label, count, agreement(share, lesson.classifies), number(far, 3), number(risk, 3)]
        for label, count, share, far, risk in models
        if any(value is not None and math.isfinite(value) for value in (share, far, risk))
    ]
    same = "same labels as the goal" if lesson.classifies else "r² with the goal"
    return Table(["trained on", "rows", same, "distance of predictions", "distance of coefficients"], rows)


def _lessons(lessons: Mapping[str, Lesson]) -> Table:
    rows = [
        [
            name(label),
            one.size,
            percent(one.fraction),
            agreement(one.agreement, one.classifies),
            number(one.prediction_distance),
            number(one.risk),
            one.rounds,
            size(one.bytes),
            number(one.seconds, 3),
        ]
        for label, one in lessons.items()
    ]
    headings = ["lesson", "rows", "|S|/N", "agreement", "distance", "risk", "rounds", "bytes", "seconds"]
    caption = (
        "This lesson, and the lessons it is set against. Distance is of predictions, risk of coefficients; bytes go both "
        "ways, over all teachers."
    )
    return Table(headings, rows, caption)


def _coefficients(lesson: Lesson, names: Sequence[str], spread: Array | None = None) -> Table:
    """Set coefficients of the goal, of all rows and of the lesson beside each other; with `spread`, times that."""
    pool = np.full(lesson.goal.size, np.nan) if lesson.pool_model is None else lesson.pool_model.ravel()
    goal, taught = lesson.goal.ravel(), lesson.model.ravel()
    shown = plots.farthest(lesson)
    if spread is None:
        rows = [
            [name(names[i]), *(number(one[i], 6) for one in (goal, pool, taught)), number(taught[i] - goal[i], 3)]
            for i in shown
        ]
        few = "" if len(shown) == len(names) else f"The {len(shown)} of {len(names):,} that miss the goal most."
        return Table(["coefficient", "goal", "all rows", "lesson", "difference"], rows, few)
    rows = [
        [name(names[i]), number(spread[i], 4), *(number(one[i] * spread[i], 4) for one in (goal, pool, taught))]
        for i in shown
        if np.isfinite(spread[i])
    ]
    return Table(["column", "spread", "goal", "all rows", "lesson"], rows, folded="Standardised coefficients")


def _teachers(lesson: Lesson, chosen: list[int] | None, held: list[int] | None) -> Table:
    headings = ["teacher"] if chosen is None else ["teacher", "chosen rows"]
    rows: list[list[object]] = [[name(teacher)] for teacher in lesson.teachers]
    if chosen is not None:
        rows = [[*row, mine] for row, mine in zip(rows, chosen, strict=True)]
        if held is not None:
            headings += ["rows held", "share"]
            shares = [percent(mine / own) if own else None for mine, own in zip(chosen, held, strict=True)]
            rows = [[*row, own, share] for row, own, share in zip(rows, held, shares, strict=True)]
    return Table(headings, rows[:_MOST_ROWS], folded="The numbers")


def _ledger(lesson: Lesson) -> Table:
    each = len(lesson.teachers) or 1
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in lesson.ledger:
        groups.setdefault((entry.stage, entry.query), []).append(entry)
    rows = [
        [
            code(query),
            len(entries),
            size(sum(entry.bytes_in for entry in entries) // each),
            size(sum(entry.bytes_out for entry in entries) // each),
            words.STAGES.get(stage, stage),
            words.exposure(query),
        ]
        for (stage, query), entries in groups.items()
    ]
    before = " Queries before the lesson began anew are not in it." if lesson.abandoned["rounds"] else ""
    caption = f"The ledger, added up; bytes are those of the numbers, per teacher.{before}"
    return Table(["query", "rounds", "left each", "sent to each", "stage", "what a reply shows"], rows, caption)


def _settings(lesson: Lesson) -> Table:
    rows: list[list[object]] = [[code(key), _value(value)] for key, value in words.by_dots(lesson.settings).items()]
    rows += [
        ["goal", "its coefficients stand above, and exactly in lesson.json"],
        ["seconds", number(lesson.seconds, 3)],
    ]
    if lesson.cost is not None:
        rows.append(["cost of the chosen rows", number(lesson.cost)])
    return Table(["setting", "value"], rows, "Settings")


def _value(value: object) -> object:
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return number(value) if abs(value) < 10_000_000 else str(value)
    if isinstance(value, float):
        return number(value, 6)
    if isinstance(value, list | tuple):
        return " to ".join(short(end, 6) for end in value)
    return str(value)

"""The page of one lesson, and what a notebook shows of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from superteach.exceptions import SettingError, counted, shorten
from superteach.privacy import PRIVACY
from superteach.report import plots, words
from superteach.report.markup import unlike
from superteach.report.page import Page, render
from superteach.types import Foreign

if TYPE_CHECKING:
    from superteach.lesson import Lesson


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
    about = f"Predicting {target}. " if target else ""
    made = lesson.versions.get("superteach", "")
    page = Page(
        title,
        f"{about}Rows chosen from private data, so that a learner trained on them alone learns a given model.",
        f"Made by superteach {made}. This file is complete: it loads nothing and runs nothing.",
        "lesson.html.j2",
    )
    spread = lesson.spread_of_coefficients
    drawn: dict[str, plots.Plot | None] = {}
    if lesson.delivered:
        drawn = {
            "sizes": plots.sizes_plot(lessons),
            "objective": plots.objective_plot(lessons),
            "approach": plots.approach_plot(lessons),
            "coefficients": plots.coefficients_plot(lesson, names),
            "standardised": plots.coefficients_plot(lesson, names, spread) if np.isfinite(spread).any() else None,
        }
    drawn["teachers"] = None if chosen is None else plots.teachers_plot(lesson.teachers, chosen, owned)
    page.context = {
        "lesson": lesson,
        "lessons": lessons,
        "names": names,
        "chosen": chosen,
        "held": owned,
        "spread": spread,
        "shown": plots.farthest(lesson) if lesson.delivered else [],
        "plots": {key: page.add(plot) for key, plot in drawn.items() if plot is not None},
        "words": words,
        "privacy_means": PRIVACY.get(lesson.privacy, ""),
    }
    return page


def notebook_html(lesson: Lesson) -> str:
    """Write what a notebook shows of a lesson: its verdict, and its model beside the others."""
    return render("notebook.html.j2", lesson=lesson)


def _columns(lesson: Lesson, columns: Sequence[str] | None) -> list[str]:
    width = lesson.coef.shape[-1]
    if isinstance(columns, str):
        raise SettingError(f"columns={columns!r} is a text; give a list with a name for each of {width} columns")
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

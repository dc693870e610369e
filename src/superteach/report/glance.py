"""A lesson at a glance: in a notebook, as a figure of matplotlib, as a data frame."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from superteach.exceptions import MissingExtra, SettingError
from superteach.report.markup import join, number, tag
from superteach.report.words import coefficients
from superteach.types import Foreign

if TYPE_CHECKING:
    from superteach.lesson import Lesson

MOST_COLUMNS = 20
"""Coefficients that a figure shows, the largest of the goal first; more names than these do not fit beside each other."""


def _names(lesson: Lesson) -> list[str]:
    return coefficients(lesson, lesson.columns or [f"x{place}" for place in range(lesson.coef.shape[-1])])


def html_of(lesson: Lesson) -> str:
    """Write a small table for a notebook."""
    rows = [
        ("rows chosen" if lesson.delivered else "rows asked for", f"{lesson.size:,} of {lesson.pool_rows:,}"),
        ("risk", number(lesson.risk) if np.isfinite(lesson.risk) else "not measured"),
        ("risk with all rows", number(lesson.pool_risk) if np.isfinite(lesson.pool_risk) else "not measured"),
        *([] if lesson.positive is None else [("positive label", str(lesson.positive))]),
        ("teachers", f"{len(lesson.teachers):,}"),
        ("rounds", f"{lesson.rounds:,}"),
        ("verdict", lesson.verdict),
    ]
    return str(tag("table", join([tag("tr", join([tag("th", name), tag("td", value)])) for name, value in rows])))


def frame_of(lesson: Lesson, what: str) -> Foreign:
    """Return coefficients, path or ledger as a data frame."""
    if what == "coefficients":
        pool = np.full(lesson.goal.shape, np.nan) if lesson.pool_model is None else lesson.pool_model
        models = {"goal": lesson.goal, "all_rows": pool, "taught": lesson.model}
        table = {"column": _names(lesson)} | {name: model.ravel() for name, model in models.items()}
    elif what in ("path", "ledger"):
        entries = [asdict(entry) for entry in (lesson.path if what == "path" else lesson.ledger)]
        table = {name: [entry[name] for entry in entries] for name in (entries[0] if entries else ())}
    else:
        raise SettingError(f"what={what!r} is not known; there are 'coefficients', 'path' and 'ledger'")
    for package in ("pandas", "polars"):
        try:
            return import_module(package).DataFrame(table)
        except ImportError:
            continue
    raise MissingExtra("pandas or polars", "frame", "a data frame of a lesson")


def figure_of(lesson: Lesson) -> Foreign:
    """Draw the risk of all rows and of the lesson, and the coefficients of both beside the goal's."""
    if not lesson.delivered:
        raise SettingError("nobody has looked at this lesson, so there is nothing to draw; see its verdict")
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot", "drawing a lesson") from None
    from superteach.report.png import STYLE

    order = np.argsort(-np.abs(lesson.goal.ravel()), kind="stable")[:MOST_COLUMNS]
    names = [_names(lesson)[place] for place in order]
    with rc_context(STYLE):
        figure = Figure(figsize=(10.0, 4.0), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.0, 3.0))
        left.bar(["all rows", f"{lesson.size:,} chosen"], [lesson.pool_risk, lesson.risk], color=["C7", "C0"])
        if lesson.risk > 0.0 and lesson.pool_risk > 0.0:
            left.set_yscale("log")
        left.set_title("Distance to the goal")
        right.plot(names, lesson.goal.ravel()[order], "k_", markersize=14, markeredgewidth=2, label="goal")
        if lesson.pool_model is not None:
            right.plot(names, lesson.pool_model.ravel()[order], "o", color="C7", label="all rows")
        right.plot(
            names, lesson.model.ravel()[order], "o", color="C0", markersize=4, label=f"{lesson.size:,} chosen rows"
        )
        right.tick_params("x", rotation=60)
        right.set_title("Coefficients")
        right.legend()
    return figure

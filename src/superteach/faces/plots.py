"""Figures of lessons, drawn without a display."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from superteach.errors import MissingExtra, SettingError
from superteach.lesson import Lesson

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours, told apart by all kinds of colour vision."""
MARKERS = "osD^vP"
STYLE: dict[Any, Any] = {
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.0,
    "legend.frameon": False,
    # The same figure gives the same file.
    "svg.hashsalt": "superteach",
}
"""Settings of matplotlib for every figure."""
_GREY = "#555555"
_LEAST = 1e-16
"""Logarithmic axes show nothing below; a risk of 0 is drawn there."""


def figure_of(lessons: dict[str, Lesson], pool_risk: float, path: str | Path) -> None:
    """Draw risk against |S|/N, the objective above its optimum by step, and match by turn; .png or .svg."""
    place = Path(path)
    if place.suffix.lower() not in (".png", ".svg"):
        raise SettingError(f"figure {str(path)!r} must end in .png or .svg")
    if not lessons:
        raise SettingError("there is no lesson to draw; give at least one")
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot", "drawing a figure") from None

    with rc_context(STYLE):
        solved = any(len(lesson.gap) for lesson in lessons.values())
        refined = any(_refined(lesson) for lesson in lessons.values())
        shares = [1.15] + [1.0] * solved + [0.85] * refined
        figure = Figure(figsize=(10.0 if len(shares) < 3 else 13.5, 4.2), layout="constrained")
        panels = list(figure.subplots(1, len(shares), squeeze=False, width_ratios=shares)[0])
        _draw_risk(panels.pop(0), lessons, pool_risk)
        if solved:
            _draw_objective(panels.pop(0), lessons)
        if refined:
            _draw_turns(panels.pop(0), lessons)
        metadata = {"Date": None} if place.suffix.lower() == ".svg" else {"Software": None}
        figure.savefig(place, dpi=160, metadata=metadata)


def _draw_risk(panel: Any, lessons: dict[str, Lesson], pool_risk: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for number, (name, lesson) in enumerate(lessons.items()):
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        share = [point.fraction for point in lesson.path]
        panel.plot(
            share,
            [max(point.risk, _LEAST) for point in lesson.path],
            color=colour,
            marker=marker,
            ms=3.5,
            lw=1.6,
            label=name,
        )
        panel.plot(
            [lesson.fraction],
            [max(lesson.risk, _LEAST)],
            marker=marker,
            ms=10,
            mfc="none",
            mec=colour,
            mew=1.8,
            ls="none",
        )
        _annotate(panel, lesson, colour, above=number > 0)
    panel.axhline(pool_risk, color=_GREY, lw=1.2, ls="--", label=f"all rows ({pool_risk:.3g})")
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100.0 * share:g} %"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_yscale("log")
    panel.margins(x=0.05, y=0.12)
    panel.set_xlabel("rows in the lesson, |S|/N")
    panel.set_ylabel(r"risk, $\Vert\theta_S - \theta^*\Vert$")
    panel.set_title("How far from the goal the learner ends")
    panel.legend(loc="best")


def _annotate(panel: Any, lesson: Lesson, colour: str, above: bool) -> None:
    """Name the chosen point, on the side of it where the axes have room."""
    shares = [point.fraction for point in lesson.path] or [lesson.fraction]
    span = np.log(max(shares) / min(shares)) or 1.0
    place = float(np.log(lesson.fraction / min(shares)) / span)
    side = "right" if place > 0.7 else "left"
    panel.annotate(
        f"{lesson.risk:.3g} at {100.0 * lesson.fraction:.3g} %",
        (lesson.fraction, max(lesson.risk, _LEAST)),
        xytext=(10 if side == "left" else -10, 6 if above else -15),
        textcoords="offset points",
        ha=side,
        color=colour,
        bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8},
    )


def _draw_objective(panel: Any, lessons: dict[str, Lesson]) -> None:
    from matplotlib.ticker import MaxNLocator

    solved = {name: lesson for name, lesson in lessons.items() if len(lesson.gap)}
    for number, (name, lesson) in enumerate(lessons.items()):
        if name not in solved:
            continue
        colour = COLOURS[number % len(COLOURS)]
        steps = np.arange(len(lesson.objective))
        # No optimum is known exactly; the best lower bound that any step proved stands in for it.
        optimum = float(np.max(lesson.objective - lesson.gap))
        resolution = float(np.spacing(abs(optimum)))
        above = np.maximum(lesson.objective - optimum, resolution)
        gap = np.maximum(lesson.gap, resolution)
        tail = f", {name}" if len(solved) > 1 else ""
        label = f"objective − optimum ({optimum:.4g}){tail}"
        panel.plot(steps, above, color=colour, marker="o", ms=4, lw=1.8, label=label)
        panel.plot(steps, gap, color="black", lw=1.2, ls=":", label=f"certified gap{tail}")
    panel.set_yscale("log")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("step of the solver")
    panel.set_ylabel("distance above the optimum")
    panel.set_title("How fast the paper's problem is solved")
    panel.legend(loc="best")


def _refined(lesson: Lesson) -> bool:
    """A lesson of method "match": its objective is a predicted risk, without a gap."""
    return len(lesson.objective) > 0 and not len(lesson.gap)


def _draw_turns(panel: Any, lessons: dict[str, Lesson]) -> None:
    from matplotlib.ticker import MaxNLocator

    for number, (name, lesson) in enumerate(lessons.items()):
        if not _refined(lesson):
            continue
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        turns = np.arange(len(lesson.objective))
        label = f"{name}, {lesson.size:,} rows: predicted"
        panel.plot(
            turns,
            np.maximum(lesson.objective, _LEAST),
            color=colour,
            marker=marker,
            ms=4,
            lw=1.8,
            label=label,
        )
        panel.plot(
            [turns[-1]],
            [max(lesson.risk, _LEAST)],
            marker=marker,
            ms=10,
            mfc="none",
            mec=colour,
            mew=1.8,
            ls="none",
            label=f"after the refit: {lesson.risk:.2g}",
        )
    panel.set_yscale("log")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("block of the rounding")
    panel.set_ylabel("risk")
    panel.set_title("How match closes in")
    panel.legend(loc="best")

"""Figures by matplotlib, drawn once: as SVG in the colours of a page, as SVG and PNG files, and in notebooks."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from superteach.io.atomic import write_bytes
from superteach.report.words import clean, percent_text, power, short
from superteach.types import Array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from superteach.lesson import Lesson

_LIGHT_AND_DARK = {
    "paper": ("#ffffff", "#14181c"),
    "card": ("#f5f7f9", "#1d2329"),
    "ink": ("#1b1f24", "#e8ebee"),
    "soft": ("#56606b", "#a7b0ba"),
    "rule": ("#d5dae0", "#39424b"),
    "grid": ("#e7eaee", "#2a3138"),
    "link": ("#005a9c", "#7cc4f5"),
    "s1": ("#0072b2", "#56b4e9"),
    "s2": ("#c04a00", "#ff8c42"),
    "s3": ("#2b2a12", "#f2efc2"),
    "s4": ("#9a10ea", "#b06cff"),
    "s5": ("#0a0a78", "#ff4d79"),
    "s6": ("#84502f", "#a2fb10"),
}
"""Series differ in lightness as well as in hue; tests hold them to contrast and to apartness for all eyes."""
LIGHT, DARK = ({name: pair[mode] for name, pair in _LIGHT_AND_DARK.items()} for mode in (0, 1))
SERIES = tuple(LIGHT[f"s{place}"] for place in range(1, 7))
"""Colours of series, light; a page shows its dark reader the dark ones in their place."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours, for figures that are drawn on white alone."""
MARKERS = "osD^vP"
"""A marker for every series, as matplotlib names them: colour is never the only sign."""
STYLE: dict[str, object] = {
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.0,
    "legend.frameon": False,
    "svg.hashsalt": "superteach",  # the same figure gives the same file
}
"""Settings of matplotlib for every figure."""
_PLOT_STYLE = STYLE | {
    "font.size": 12.5,  # a page shows figures at about their size in pixels
    "legend.fontsize": 12.0,
    "figure.titlesize": 14.0,
    "figure.titleweight": "bold",
    "axes.edgecolor": LIGHT["soft"],
    "axes.labelcolor": LIGHT["soft"],
    "text.color": LIGHT["ink"],
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
    "text.parse_math": False,  # a dollar in a name is a dollar
    "svg.fonttype": "none",
}
WIDTH = 400
"""Width of a figure in pixels: two stand beside each other on a screen, one fills a phone."""
MOST_MARKERS = 60
"""Points of a series up to which each has a marker; markers of more would hide the line."""
MOST_NAMES = 40
"""Coefficients or teachers in one figure, at most."""
_LEAST = 1e-16
"""A logarithmic axis shows nothing below; a value of 0 is drawn there."""
_LONGEST = {"name": 22, "legend": 46}
"""Characters of a name beside an axis, and of one in a legend; tables have them whole."""


@dataclass(frozen=True)
class Plot:
    """One figure: a title, a name for its file, and a function that draws it into axes of matplotlib."""

    name: str
    title: str
    draw: Callable[[Axes], None]
    height: float = 300.0
    description: str = ""
    """What a screen reader says."""

    def svg(self) -> Markup:
        """Draw the figure for a page: text stays text, and colours of the palette follow the reader's setting."""
        drawn = io.StringIO()
        with _styled(_PLOT_STYLE | {"svg.hashsalt": self.name, "font.sans-serif": ["DejaVu Sans"]}):
            figure = _new_figure((WIDTH / 72.0, self.height / 72.0))
            self.draw(figure.subplots())
            figure.savefig(drawn, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        _, body = drawn.getvalue().split("</defs>", 1)  # before it: a document type, and a rule that page.css has
        body = re.sub(r"<[^>]+>", partial(_for_page, name=self.name), body)
        names = {part: f"{self.name}-{part}" for part in ("title", "desc")}
        about = Markup('<title id="{}">{}</title>').format(names["title"], self.title)
        if self.description:
            about += Markup('<desc id="{}">{}</desc>').format(names["desc"], self.description)
        labels = " ".join(names.values() if self.description else [names["title"]])
        box = f"0 0 {WIDTH} {self.height:g}"
        return Markup(f'<svg viewBox="{box}" role="img" aria-labelledby="{escape(labels)}">{about}{body}')

    def write(self, *paths: Path) -> None:
        """Write the figure on white, with its title, as .svg or .png."""
        save_plots([self], *paths)


def save_plots(plots: Sequence[Plot], *paths: Path) -> None:
    """Write plots beside each other on white, each under its title, as .svg or .png."""
    save(partial(_side_by_side, plots), _size(plots), *paths, style=_PLOT_STYLE, dpi=150)


def figure_of(plots: Sequence[Plot]) -> Figure:
    """Draw plots beside each other, each under its title, as a figure of matplotlib."""
    with _styled(_PLOT_STYLE):
        figure = _new_figure(_size(plots))
        _side_by_side(plots, figure)
    return figure


def _size(plots: Sequence[Plot]) -> tuple[float, float]:
    return WIDTH * 1.25 * len(plots) / 72.0, (max(plot.height for plot in plots) + 30.0) / 72.0


def _side_by_side(plots: Sequence[Plot], figure: Figure) -> None:
    panels = figure.subfigures(1, len(plots), squeeze=False)[0] if len(plots) > 1 else [figure]
    for panel, plot in zip(panels, plots, strict=True):
        panel.suptitle(_plain(plot.title), x=0.02, ha="left")
        plot.draw(panel.subplots())


def save(
    draw: Callable[[Figure], None],
    size: tuple[float, float],
    *paths: Path,
    style: Mapping[str, object] = STYLE,
    dpi: int = 130,
) -> None:
    """Let `draw` fill an empty figure of matplotlib and write it to `paths` (.png, .svg), each whole or not at all."""
    with _styled(style):
        figure = _new_figure(size)
        draw(figure)
        for path in paths:
            drawn, form = io.BytesIO(), path.suffix[1:]
            figure.savefig(drawn, format=form, dpi=dpi, metadata={"svg": {"Date": None}}.get(form, {"Software": None}))
            write_bytes(path, drawn.getvalue())


def _new_figure(size: tuple[float, float]) -> Figure:
    from matplotlib.figure import Figure  # a third of a second, which only those wait for who draw

    return Figure(figsize=size, layout="constrained")


@contextmanager
def _styled(style: Mapping[str, object]) -> Iterator[None]:
    from matplotlib import rc_context

    with rc_context(dict(style)), warnings.catch_warnings():  # type: ignore[arg-type]
        # A name in a script that matplotlib's font lacks is drawn as boxes, and no reason to warn.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


_VARIABLES = {colour: f"var(--{name})" for name, colour in LIGHT.items()}


def _for_page(tag: re.Match[str], name: str) -> str:
    """Rewrite one tag of an SVG: the page's colours and font, names of its own, a hundredth of a pixel at most."""
    text = re.sub(r'^<g id="[^"]*"', "<g", tag[0])
    text = re.sub(r"#[0-9a-f]{6}\b(?=[;\"])", lambda colour: _VARIABLES.get(colour[0], colour[0]), text)
    text = re.sub(r"font: ([0-9.]+px) [^;\"]*|font-family: [^;\"]*;? ?", lambda font: _size_of(font[1]), text)
    text = re.sub(r'(?:xlink:)?href="#|id="|url\(#', lambda start: start[0].replace("xlink:", "") + f"{name}-", text)
    return re.sub(r"(\.\d\d)\d+", r"\1", text)


def _size_of(size: str | None) -> str:
    return f"font-size: {size}" if size else ""


def _plain(text: str, most: int = 80) -> str:
    """Change a text such that matplotlib takes it as it is, and cut it; a legend hides names that begin with underscores."""
    text = clean(text)
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return f"\u200b{text}" if text.startswith("_") else text


def round_ticks(axis: Axis, *, percent: bool = False, integer: bool = False, most: int = 6) -> None:
    """Put round numbers along an axis, about `most` of them, and nothing between them."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    low, high = sorted(map(float, axis.get_view_interval()))
    log = axis.get_scale() == "log"
    ways = (
        [LogLocator(subs=factors, numticks=most + 1) for factors in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))]
        if log
        else []
    )
    for locator in (*ways, MaxNLocator(most, integer=integer)):  # within one step of a decade even steps are as good
        places = [float(place) for place in locator.tick_values(low, high) if low <= place <= high]
        if 2 <= len(places) <= most + 1:
            break

    def words(value: float) -> str:
        if percent:
            return percent_text(value)
        if log and not 1e-4 <= abs(value) < 1e6:
            return power(value, 2)
        return short(0.0 if abs(value) < 1e-12 * (high - low) else value, 6)

    axis.set_minor_locator(NullLocator())
    axis.set_ticks(places, labels=list(map(words, places)))


def _legend(axes: Axes) -> None:
    """Name the series above the axes, from the left end of the figure, in as many columns as there is room for."""
    from matplotlib.transforms import blended_transform_factory

    handles, labels = axes.get_legend_handles_labels()
    need = 46.0 + 7.2 * max(map(len, labels))
    axes.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        bbox_transform=blended_transform_factory(axes.figure.transSubfigure, axes.transAxes),
        ncols=max(1, min(len(labels), int(WIDTH / need))),
        borderaxespad=0.3,
        handlelength=1.8,
        columnspacing=1.2,
    )


def _lines(axes: Axes, x: str, y: str, *, percent: bool = False, integer: bool = False) -> None:
    """Finish axes of lines: labels, round numbers, names of the series."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    round_ticks(axes.xaxis, percent=percent, integer=integer)
    round_ticks(axes.yaxis)
    _legend(axes)


def _line(axes: Axes, place: int, x: Sequence[float], y: Sequence[float] | Array, label: str, **look: Any) -> None:
    """Draw the series at a `place` among others, the first on top."""
    usual: dict[str, Any] = {
        "color": SERIES[place % len(SERIES)],
        "marker": MARKERS[place % len(MARKERS)] if len(x) <= MOST_MARKERS else None,
        "zorder": 3.0 - place / 100.0,
        "lw": 2.0,
        "ms": 5.0,
    }
    axes.plot(x, np.maximum(y, _LEAST), label=_plain(label, _LONGEST["legend"]), **{**usual, **look})


def _rows(axes: Axes, names: Sequence[str]) -> None:
    """Write one name beside each row, the first on top."""
    axes.set_yticks(range(len(names)), labels=[_plain(name, _LONGEST["name"]) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


# Figures of a lesson ---------------------------------------------------------------------------------------------------


def sizes_plot(lessons: Mapping[str, Lesson]) -> Plot | None:
    """Draw the distance to the goal by size of the lesson, that chosen ringed; None where only one was looked at."""
    if sum(len(lesson.path) for lesson in lessons.values()) < 2:
        return None
    own = next(iter(lessons.values()))
    measure = own.measure if len({lesson.measure for lesson in lessons.values()}) == 1 else "coefficients"
    predictions = measure == "predictions"

    def draw(axes: Axes) -> None:
        axes.set_xscale("log")
        axes.set_yscale("log")
        for place, (name, lesson) in enumerate(lessons.items()):
            distances = [point.distance if predictions else point.risk for point in lesson.path]
            chosen = lesson.prediction_distance if predictions else lesson.risk
            label = f"{name}: {short(chosen, 3)} at {percent_text(lesson.fraction)}"
            _line(axes, place, [point.fraction for point in lesson.path], distances, label)
            ring = SERIES[place % len(SERIES)]
            axes.plot([lesson.fraction], [max(chosen, _LEAST)], "o", ms=12.0, mfc="none", mew=1.8, mec=ring)
        everything = own.pool_distance if predictions else own.pool_risk
        levels = [("all rows", everything, "--")]
        if own.lower_bound and own.measure == measure:
            levels.append(("no lesson goes below", own.lower_bound, "-."))
        target = own.settings.get("risk_target")
        if target and not predictions:
            levels.append(("asked for", float(target), ":"))
        for name, value, dashes in levels:
            if math.isfinite(value):
                axes.axhline(
                    max(value, _LEAST), color=LIGHT["soft"], lw=1.4, ls=dashes, label=f"{name}: {short(value, 3)}"
                )
        axes.set_xlim(right=1.15)
        _lines(axes, "rows in the lesson, share of all", f"distance of {measure}", percent=True)

    about = f"{len(own.path)} sizes, from {percent_text(own.path[0].fraction)} of the rows on."
    return Plot("sizes", "Distance to the goal by size of the lesson", draw, 320.0 + 18.0 * len(lessons), about)


def is_solved(lesson: Lesson) -> bool:
    """Tell whether the lesson comes from the paper's problem, solved with a certified gap."""
    return len(lesson.gap) > 0


def _same_problem(one: Lesson, other: Lesson) -> bool:
    """Tell whether two lessons solved the same problem, so that one bound holds for both."""
    keys = ("learner", "sparsity", "goal_weight", "standardize")
    return (
        one.pool_rows == other.pool_rows
        and one.goal.shape == other.goal.shape
        and bool(np.allclose(one.goal, other.goal, rtol=1e-9, atol=0.0))
        and all(one.settings.get(key) == other.settings.get(key) for key in keys)
    )


def above_optimum(lesson: Lesson, others: Sequence[Lesson]) -> Array:
    """Return the objective above the best lower bound that any step proved, over all lessons of the same problem."""
    alike = [lesson, *(other for other in others if is_solved(other) and _same_problem(lesson, other))]
    optimum = max(float(np.max(one.objective - one.gap)) for one in alike)
    return np.maximum(lesson.objective - optimum, np.spacing(abs(optimum)))


def objective_plot(lessons: Mapping[str, Lesson]) -> Plot | None:
    """Draw objective above the optimum and certified gap, by round of sums (by step where rounds cannot be counted)."""
    solved = {name: lesson for name, lesson in lessons.items() if is_solved(lesson)}
    if max((len(lesson.objective) for lesson in solved.values()), default=0) < 2:
        return None
    rounds = {name: rounds_of(lesson) for name, lesson in solved.items()}
    counted = None not in rounds.values()
    places = {name: place for place, name in enumerate(lessons)}  # each looks the same in all figures of a page

    def draw(axes: Axes) -> None:
        axes.set_yscale("log")
        for name, lesson in solved.items():
            steps = (rounds[name] if counted else None) or range(len(lesson.objective))
            before = f"{name}: " if len(solved) > 1 else ""
            _line(axes, places[name], steps, above_optimum(lesson, list(solved.values())), f"{before}objective", ms=4.0)
            _line(axes, places[name], steps, lesson.gap, f"{before}certified gap", ls=":", marker=None)
        x = "rounds of sums spent on it" if counted else "step of the solver"
        _lines(axes, x, "distance above the optimum", integer=True)

    title = "How fast the teaching problem is solved"
    return Plot("objective", title, draw, 300.0 + 36.0 * len(solved), "Objective and certified gap, both falling.")


def rounds_of(lesson: Lesson) -> list[int] | None:
    """Count the rounds of stage "dual" until each objective was reached; None where they cannot be counted."""
    stage = [entry.query for entry in lesson.ledger if entry.stage == "dual"]
    steps = len(lesson.objective)
    blocks = [place for place, query in enumerate(stage, 1) if query == "BlockRound"]
    if blocks:
        # A rule's round certifies the one before it, so the last one may only have certified.
        return blocks[:steps] if len(blocks) in (steps, steps + 1) else None
    # A full step tried without a search, and then searched for after all, was no step.
    around = ["", *stage, ""]
    places = [
        place
        for place, (before, query, after) in enumerate(zip(around, around[1:], around[2:], strict=False), 1)
        if query == "dual moments" and not (before == "dual moments" and after == "dual values")
    ]
    return places if len(places) == steps else None


def approach_plot(lessons: Mapping[str, Lesson]) -> Plot | None:
    """Draw how near the models come that are tried on the way to a goal out of reach; None where there were not two."""
    tried = {name: lesson.objective for name, lesson in lessons.items() if not is_solved(lesson)}
    if max(map(len, tried.values()), default=0) < 2:
        return None
    places = {name: place for place, name in enumerate(lessons)}

    def draw(axes: Axes) -> None:
        axes.set_yscale("log")
        for name, distances in tried.items():
            if len(distances):
                _line(axes, places[name], range(1, len(distances) + 1), distances, name)
        _lines(axes, "model tried", "distance to the goal", integer=True)

    return Plot("approach", "How the lesson comes near a goal out of reach", draw, 300.0, "One point for each model.")


def farthest(lesson: Lesson) -> list[int]:
    """Return the positions of the coefficients to show: all, or the ones that miss the goal most."""
    miss = np.abs(lesson.model - lesson.goal).ravel()
    return sorted(np.argsort(-miss, kind="stable")[:MOST_NAMES].tolist())


def coefficients_plot(lesson: Lesson, names: Sequence[str], scale: Array | None = None) -> Plot:
    """Draw coefficients of the goal, of all rows and of the lesson; with a `scale`, those times it, where it is finite."""
    factors = np.ones(lesson.goal.size) if scale is None else scale
    shown = [place for place in farthest(lesson) if np.isfinite(factors[place])]
    models = {"goal": lesson.goal, "all rows": lesson.pool_model, "lesson": lesson.model}
    values = {name: model.ravel()[shown] * factors[shown] for name, model in models.items() if model is not None}

    def draw(axes: Axes) -> None:
        rows = range(len(shown))
        axes.hlines(rows, values["goal"], values["lesson"], color=LIGHT["soft"], lw=1.4)
        looks: dict[str, dict[str, Any]] = {
            "goal": {"marker": "o", "ms": 9.0, "mfc": LIGHT["paper"], "mec": SERIES[1], "mew": 2.0},
            "all rows": {"marker": "D", "ms": 5.0, "mfc": "none", "mec": SERIES[5], "mew": 1.6},
            "lesson": {"marker": "o", "ms": 4.5, "color": SERIES[0]},
        }
        for name, numbers in values.items():
            axes.plot(numbers, rows, ls="none", label=name, **looks[name])
        axes.axvline(0.0, color=LIGHT["soft"], lw=1.0, zorder=1.0)
        _rows(axes, [names[place] for place in shown])
        axes.set_xlabel("coefficient" if scale is None else "coefficient × spread of its column")
        round_ticks(axes.xaxis, most=5)
        _legend(axes)

    kind = "Coefficients" if scale is None else "Standardised coefficients"
    name = "coefficients" if scale is None else "standardised"
    return Plot(name, kind, draw, 90.0 + 22.0 * len(shown), f"{', '.join(values)}, for {len(shown)} columns.")


def teachers_plot(names: Sequence[str], chosen: Sequence[int], held: Sequence[int] | None) -> Plot:
    """Draw chosen rows per teacher; the largest contributions where there are many teachers."""
    shown = sorted(sorted(range(len(names)), key=lambda place: -chosen[place])[:MOST_NAMES])

    def label(place: int) -> str:
        text = f"{chosen[place]:,}"
        return (
            f"{text} of {held[place]:,} ({percent_text(chosen[place] / held[place], 2)})"
            if held and held[place]
            else text
        )

    def draw(axes: Axes) -> None:
        bars = axes.barh(range(len(shown)), [chosen[place] for place in shown], color=SERIES[0], height=0.62)
        axes.bar_label(bars, labels=list(map(label, shown)), padding=4)
        axes.margins(x=0.6 if held else 0.2)
        _rows(axes, [names[place] for place in shown])
        axes.set_xlabel("rows in the lesson")
        round_ticks(axes.xaxis, integer=True, most=4)

    return Plot(
        "teachers", "Rows chosen from each teacher", draw, 70.0 + 24.0 * len(shown), "One bar for each teacher."
    )

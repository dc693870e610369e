"""The same charts by matplotlib, as PNG files for slides and word processors (extra `plot`)."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from superteach.exceptions import MissingExtra
from superteach.io.atomic import write_bytes
from superteach.report.charts import Axis, Chart, Drawing, Pairs
from superteach.report.markup import clean
from superteach.report.style import LIGHT, MARKERS
from superteach.report.svg import MOST_MARKERS, colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

STYLE: dict[RcKeyType, object] = {
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.0,
    "legend.frameon": False,
    "svg.hashsalt": "superteach",  # the same figure gives the same file
}
"""Settings of matplotlib for every figure."""
_CHART: dict[RcKeyType, object] = STYLE | {
    "axes.titleweight": "bold",
    "axes.edgecolor": LIGHT["soft"],
    "text.color": LIGHT["ink"],
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
}


def save(
    draw: Callable[[Figure], None],
    size: tuple[float, float],
    *paths: Path,
    style: dict[RcKeyType, object] = STYLE,
    dpi: int = 130,
) -> None:
    """Let `draw` fill an empty figure of matplotlib and write it to `paths` (.png, .svg), each whole or not at all."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot", "drawing a figure") from None
    with rc_context(style), warnings.catch_warnings():
        # A name in a script that matplotlib's font lacks is drawn as boxes, and no reason to warn.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        for path in paths:
            drawn, form = io.BytesIO(), path.suffix[1:]
            figure.savefig(drawn, format=form, dpi=dpi, metadata={"svg": {"Date": None}}.get(form, {"Software": None}))
            write_bytes(path, drawn.getvalue())


def write_figure(path: Path, *drawings: Drawing) -> None:
    """Draw charts on white, side by side."""
    rows = max(0 if isinstance(drawing, Chart) else len(drawing.names) for drawing in drawings)
    wide = 7.6 if len(drawings) == 1 else 5.0 * len(drawings)
    save(partial(_draw, drawings), (wide, 1.4 + 0.27 * rows if rows else 4.2), path, style=_CHART, dpi=160)


def _draw(drawings: Sequence[Drawing], figure: Figure) -> None:
    for panel, drawing in zip(figure.subplots(1, len(drawings), squeeze=False)[0], drawings, strict=True):
        panel.set_title(_plain(drawing.title))
        if isinstance(drawing, Chart):
            _chart(panel, drawing)
            continue
        if isinstance(drawing, Pairs):
            _pairs(panel, drawing)
        else:
            bars = panel.barh(range(len(drawing.names)), drawing.values, color=LIGHT["s1"], height=0.7)
            panel.bar_label(bars, labels=[_plain(words) for words in drawing.texts], padding=4)
            panel.margins(x=0.25)
        # Names of 30 characters at most; the page has them whole.
        names = [_plain(name if len(name) <= 30 else name[:29] + "…") for name in drawing.names]
        panel.set_yticks(range(len(names)), labels=names)
        panel.invert_yaxis()
        panel.set_xlabel(_plain(drawing.label))


def _chart(panel: Axes, chart: Chart) -> None:
    numbers = colours_of(chart.series)
    xs, reached = chart.reach()
    for depth, series in enumerate(chart.series):
        number = numbers[series.name]
        colour = LIGHT[f"s{number}"]
        ys = [max(value, chart.y.least) if chart.y.log else value for value in series.y]
        panel.plot(
            series.x,
            ys,
            color=colour,
            marker=MARKERS[number - 1] if series.marked and len(ys) <= MOST_MARKERS else None,
            ms=4.5,
            lw=1.8 if series.joined else 0.0,
            ls=(":" if series.dashed else "-") if series.joined else "none",
            label=_plain(series.name),
            zorder=3.0 - depth / 100.0,  # the first lies on top
        )
        if series.low is not None and series.high is not None:
            panel.fill_between(series.x, series.low, series.high, color=colour, alpha=0.18, lw=0)
    for level in chart.levels:
        panel.axhline(level.value, color=LIGHT["soft"], lw=1.2, ls="--", label=_plain(level.name))
    for mark in chart.marks:
        colour = LIGHT[f"s{numbers[mark.series]}"]
        y = max(mark.y, chart.y.least) if chart.y.log else mark.y
        panel.plot([mark.x], [y], marker="o", ms=11, mfc="none", mec=colour, mew=1.8, ls="none")
        right = chart.x.scale(xs, 0.0, 1.0).at(mark.x) > 0.7
        # Beside the ring, above or below it: where the line to the next point does not run.
        line = next(series for series in chart.series if series.name == mark.series)
        beside = [b for a, b in zip(line.x, line.y, strict=True) if (a < mark.x if right else a > mark.x)]
        below = bool(beside) and beside[-1 if right else 0] > mark.y
        panel.annotate(
            _plain(mark.text),
            (mark.x, y),
            xytext=(-9 if right else 9, -16 if below else 9),
            textcoords="offset points",
            ha="right" if right else "left",
            weight="bold",
            color=colour,
            bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8},
        )
    set_axis(panel, "x", chart.x, xs, 0.03)
    set_axis(panel, "y", chart.y, reached, 0.08)
    panel.legend(loc="best")


def set_axis(panel: Axes, which: str, axis: Axis, values: Sequence[float], room: float, most: int = 8) -> None:
    """Set the range and the round numbers that the page has, about `most` of them."""
    scale = axis.scale(values, 0.0, 1.0, room)
    ticks = scale.ticks(most)
    getattr(panel, f"set_{which}scale")("log" if axis.log else "linear")
    getattr(panel, f"set_{which}lim")(scale.low, scale.high)
    getattr(panel, f"set_{which}ticks")([place for place, _ in ticks], labels=[_plain(words) for _, words in ticks])
    getattr(panel, f"set_{which}ticks")([], minor=True)
    getattr(panel, f"set_{which}label")(_plain(axis.label))


def _pairs(panel: Axes, pairs: Pairs) -> None:
    rows = range(len(pairs.names))
    panel.hlines(rows, pairs.first, pairs.second, color=LIGHT["soft"], lw=1.2)
    panel.plot(pairs.first, rows, "o", ms=8, mfc="white", mec=LIGHT["s2"], mew=1.8, label=_plain(pairs.first_name))
    panel.plot(pairs.second, rows, "o", ms=4.5, color=LIGHT["s1"], label=_plain(pairs.second_name))
    panel.axvline(0.0, color=LIGHT["soft"], lw=1.0)
    panel.legend(loc="best")


def _plain(text: str) -> str:
    """Change a text such that matplotlib takes it as it is: a dollar begins a formula, an underscore hides a name."""
    text = clean(text).replace("$", r"\$").replace("\u202f", " ")
    return f" {text}" if text.startswith("_") else text

"""Risk against lesson size and against time, for every contestant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from superteach.report.plots import COLOURS, MARKERS, round_ticks, save
from superteach_lab.compare.bench import Line
from superteach_lab.compare.task import GOAL
from superteach_lab.rivals import ALL

_LEAST = 1e-16


def draw(lines: Sequence[Line], folder: Path, stem: str = "figure") -> list[Path]:
    """Write stem.png and stem.svg: one row of two panels for every pool and number of teachers."""
    groups = list(dict.fromkeys((line.pool, line.teachers) for line in lines))
    names = [contestant.name for contestant in ALL if any(line.contestant == contestant.name for line in lines)]
    names += sorted({line.contestant for line in lines} - set(names))

    def fill(figure: Any) -> None:
        panels = figure.subplots(len(groups), 2, squeeze=False)
        for (pool, teachers), pair in zip(groups, panels, strict=True):
            own = [line for line in lines if (line.pool, line.teachers) == (pool, teachers) and line.risk]
            for number, name in enumerate(names):
                _draw_one(pair, [line for line in own if line.contestant == name], name, number)
            pair[0].set_title(f"{pool}, K = {teachers}")
            pair[0].set_xlabel("rows in the lesson, |S|/N")
            pair[1].set_xlabel("seconds of processor time for the choice")
            for panel in pair:
                panel.set_xscale("log")
                panel.set_yscale("log")
                round_ticks(panel.xaxis, percent=panel is pair[0])
                round_ticks(panel.yaxis, most=7)
            pair[0].set_ylabel(r"risk, $\Vert\theta_S - \theta^*\Vert$")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")

    places = [folder / f"{stem}.png", folder / f"{stem}.svg"]
    save(fill, (12.0, 3.6 * len(groups) + 0.4), *places)
    return places


def _draw_one(pair: Any, lines: list[Line], name: str, number: int) -> None:
    knows = {contestant.name: GOAL in contestant.needs for contestant in ALL}
    look = {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
        "ls": "-" if knows.get(name, True) else ":",
        "ms": 4,
        "lw": 1.4,
    }
    lines = sorted(lines, key=lambda line: line.size)
    risks = [line.risk for line in lines if line.risk is not None]
    middle = [max(risk[1], _LEAST) for risk in risks]
    pair[0].plot([line.share for line in lines], middle, label=name, **look)
    if len(lines) > 1:
        low, high = [max(risk[0], _LEAST) for risk in risks], [max(risk[2], _LEAST) for risk in risks]
        pair[0].fill_between([line.share for line in lines], low, high, color=look["color"], alpha=0.12, lw=0)
    pair[1].plot([max(line.cpu or 0.0, 1e-3) for line in lines], middle, **{**look, "lw": 0.5})

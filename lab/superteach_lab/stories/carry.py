"""How few rows carry a finding: rows without which a coefficient changes its sign, between a proof and a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from superteach.faces.drop import Dropped

from superteach import drop
from superteach.report.style import COLOURS
from superteach_lab.stories.table import Split, adult, main, write_table

ROWS = 1000
"""Rows of one draw: a study of its own."""


def measure(split: Split, seed: int, rows: int = ROWS) -> dict[str, Dropped]:
    """Every coefficient of a model of a thousand rows."""
    some = np.random.default_rng(seed).choice(len(split.y), rows, replace=False)
    names = split.names or tuple(map(str, range(split.X.shape[1])))
    return {
        name: drop(split.X[some], split.y[some], LogisticRegression(), coefficient=place)
        for place, name in enumerate(names)
    }


def found_in(one: Dropped) -> int | None:
    """How many rows a search dropped, where it found any."""
    return None if one.rows is None else len(one.rows)


def middle(values: Sequence[float | None]) -> str:
    """The median, or a dash."""
    known = [value for value in values if value is not None]
    return f"{np.median(known):.0f}" if known else "–"


def draw(figure: Figure, found: list[dict[str, Dropped]]) -> None:
    """Proof, search and approximation side by side."""
    axes = figure.subplots()
    for place, name in enumerate(found[0]):
        ones = [one[name] for one in found]
        least = [one.least for one in ones if one.least]
        most = [count for one in ones if (count := found_in(one))]
        if least and most:
            axes.plot(
                [np.median(least), np.median(most)], [place, place], color=COLOURS[0], lw=6, solid_capstyle="round"
            )
        told = [o.approximate for o in ones if o.approximate]
        if told:
            axes.plot([np.median(told)], [place], "x", color=COLOURS[1], ms=9)
    axes.set_yticks(range(len(found[0])), list(found[0]))
    axes.set(xscale="log", xlabel=f"rows of {ROWS:,} without which the sign turns")
    axes.plot([], [], color=COLOURS[0], lw=6, label="from the proof to the search")
    axes.plot([], [], "x", color=COLOURS[1], label="influence approximation")
    axes.set_title("How few rows carry a sign (Adult)")
    axes.legend(frameon=False)


def tell(seeds: int) -> Callable[[Figure], None]:
    """Measure on Adult."""
    found = [measure(adult(), seed) for seed in range(seeds)]
    rows = [
        (
            name,
            f"{np.median([one[name].before for one in found]):.2f}",
            middle([one[name].least for one in found]),
            middle([found_in(one[name]) for one in found]),
            middle([one[name].approximate for one in found]),
        )
        for name in found[0]
    ]
    head = ("coefficient", "value", "at least (proved)", "at most (found)", "influence approximation")
    write_table(f"Adult, {ROWS:,} rows a time; medians of {seeds} draws", head, rows)
    return partial(draw, found=found)


if __name__ == "__main__":
    main(__doc__, tell, "carry")

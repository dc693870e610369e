"""How few rows carry a finding: without which a coefficient changes its sign, by proof, by search, and by rivals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from superteach import drop
from superteach.report.plots import COLOURS
from superteach.robustness.drop import Robustness
from superteach_lab.rivals import removal
from superteach_lab.stories.table import Split, adult, main, write_table

ROWS = 1000
"""Rows of one draw: a study of its own."""
RIVALS = ("AMIP", "AMIP with refit", "greedy", "recursive greedy")


class Carried(NamedTuple):
    """One coefficient: in a model of its column alone, beside all others, and what rivals find there."""

    alone: Robustness
    beside: Robustness
    rivals: dict[str, int | None]


def measure(split: Split, seed: int, rows: int = ROWS) -> dict[str, Carried]:
    """Every coefficient of a model of a thousand rows."""
    some = np.random.default_rng(seed).choice(len(split.y), rows, replace=False)
    X, y = split.X[some], split.y[some]
    names = split.names or tuple(map(str, range(X.shape[1])))
    penalty = np.append(np.ones(X.shape[1]), 0.0)
    fit = removal.Fit(np.column_stack([X, np.ones(rows)]), y.astype(float), penalty, logistic=True)
    return {
        name: Carried(
            drop(X[:, [place]], y, LogisticRegression(), coefficient=0),
            drop(X, y, LogisticRegression(), coefficient=place),
            removal.counts(fit, place, rows // 2),
        )
        for place, name in enumerate(names)
    }


def count_of(one: Robustness) -> int | None:
    """How many rows the search found, where it found any."""
    return None if one.rows is None else len(one.rows)


def middle(values: Sequence[float | None]) -> str:
    """The median, or a dash."""
    known = [value for value in values if value is not None]
    return f"{np.median(known):.0f}" if known else "–"


def draw(figure: Figure, found: list[dict[str, Carried]]) -> None:
    """Proof, search and rivals side by side."""
    axes = figure.subplots()
    for place, name in enumerate(found[0]):
        ones = [one[name] for one in found]
        least = [one.beside.least for one in ones]
        most = [count for one in ones if (count := count_of(one.beside))]
        if most:
            axes.plot(
                [np.median(least), np.median(most)], [place, place], color=COLOURS[0], lw=6, solid_capstyle="round"
            )
        for colour, marker, rival in ((1, "x", "AMIP"), (2, "+", "AMIP with refit")):
            counts = [count for one in ones if (count := one.rivals[rival])]
            if counts:
                axes.plot([np.median(counts)], [place], marker, color=COLOURS[colour], ms=9, mew=2)
        alone = [count for one in ones if (count := count_of(one.alone)) and one.alone.exact]
        if alone:
            axes.plot([np.median(alone)], [place + 0.25], "D", color=COLOURS[3], ms=5)
    axes.set_yticks(range(len(found[0])), list(found[0]))
    axes.set(xscale="log", xlabel=f"rows of {ROWS:,} without which the sign turns")
    axes.plot([], [], color=COLOURS[0], lw=6, label="seven columns: from the proof to the search")
    axes.plot([], [], "D", color=COLOURS[3], ls="none", label="its column alone: proved to be the fewest")
    axes.plot([], [], "x", color=COLOURS[1], ls="none", label="AMIP (no refit)")
    axes.plot([], [], "+", color=COLOURS[2], ls="none", label="AMIP with refit")
    axes.set_title("How few rows carry a sign (Adult)")
    axes.legend(frameon=False, fontsize=8)


def tell(seeds: int) -> Callable[[Figure], None]:
    """Measure on Adult."""
    found = [measure(adult(), seed) for seed in range(seeds)]
    rows = []
    for name in found[0]:
        ones = [one[name] for one in found]
        rows.append(
            (
                name,
                f"{np.median([one.beside.before for one in ones]):.2f}",
                middle([one.beside.least for one in ones]),
                middle([count_of(one.beside) for one in ones]),
                *(middle([one.rivals[rival] for one in ones]) for rival in RIVALS),
                middle([one.alone.least for one in ones]),
                middle([count_of(one.alone) for one in ones]),
            )
        )
    head = ("coefficient", "value", "proved", "found", *RIVALS, "alone: proved", "alone: found")
    write_table(f"Adult, {ROWS:,} rows a time, seven columns; medians of {seeds} draws", head, rows)
    return partial(draw, found=found)


if __name__ == "__main__":
    main(__doc__, tell, "carry")

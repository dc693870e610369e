"""A small set that stands for all: rows of Adult from which a plain learner ends at the model of all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from superteach import Learner, SuperTeacher
from superteach.report.plots import COLOURS, MARKERS
from superteach.types import Array, Positions
from superteach_lab.compare.task import Task
from superteach_lab.rivals import by_name
from superteach_lab.stories.table import GREY, Split, adult, fit, main, vector, write_table

SIZES = (50, 100, 200)
RIVALS = ("random", "leverage", "k-center", "herding", "gradient matching", "CRAIG")
FEWER = 10_000
"""Rows that a rival which compares all pairs is given, drawn anew for each seed."""


def chosen_by(name: str, split: Split, size: int, seed: int) -> Positions:
    """Rows that a contestant chooses, by number."""
    if name == "match":
        goal = fit(split.X, split.y)
        teacher = SuperTeacher(LogisticRegression(), goal, budget=size, random_state=seed).fit(split.X, split.y)
        return np.asarray(teacher.sample_indices_, dtype=np.int64)
    some = np.arange(len(split.y))
    (rival,) = by_name([name])
    learner = Learner.of(LogisticRegression())

    def task(some: Positions) -> Task:
        labels = np.where(split.y[some] == 1, 1.0, -1.0)
        return Task(split.X[some], labels, np.zeros(len(some), dtype=np.int64), learner, None, 600.0)

    if rival.refuses(task(some), size):
        some = np.sort(np.random.default_rng(seed).choice(some, min(FEWER, len(some)), replace=False))
    chosen: Positions = some[np.asarray(rival.choose(task(some), size, seed))]
    return chosen


def measure(split: Split, names: tuple[str, ...], sizes: tuple[int, ...], seeds: int) -> dict[tuple[str, int], Array]:
    """Distance to the full model and agreement with it on test rows, (seeds, 2) for each contestant and size."""
    full = fit(split.X, split.y)
    wanted = full.predict(split.test)
    found = {}
    for name in names:
        for size in sizes:
            results = []
            for seed in range(seeds):
                rows = chosen_by(name, split, size, seed)
                if len(np.unique(split.y[rows])) < 2:
                    continue
                model = fit(split.X[rows], split.y[rows])
                away = float(np.linalg.norm(vector(model) - vector(full)))
                results.append((away, float(np.mean(model.predict(split.test) == wanted))))
            found[name, size] = np.array(results)
    return found


def draw(figure: Figure, found: dict[tuple[str, int], Array], names: tuple[str, ...], sizes: tuple[int, ...]) -> None:
    """Disagreement with the full model, on a logarithmic scale."""
    axes = figure.subplots()
    for place, name in enumerate(names):
        shares = [1.0 - np.median(found[name, size][:, 1]) for size in sizes]
        axes.plot(
            sizes,
            np.maximum(shares, 1e-5),
            marker=MARKERS[place % len(MARKERS)],
            color=(*COLOURS, GREY)[place],
            lw=3 if name == "match" else 1.5,
            label=name,
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="rows in the small set",
        ylabel="test rows predicted otherwise than by all rows",
    )
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_title("Few rows that stand for 32,561 (Adult)")
    axes.legend(frameon=False, ncols=2)


def tell(seeds: int) -> Callable[[Figure], None]:
    """Measure all contestants on Adult."""
    split, names = adult(), ("match", *RIVALS)
    found = measure(split, names, SIZES, seeds)
    rows = [
        (name, *(cell for size in SIZES for cell in (
            f"{np.median(found[name, size][:, 0]):.2g}", f"{100 * np.median(found[name, size][:, 1]):.2f} %")))
        for name in names
    ]  # fmt: skip
    head = ("chosen by", *(cell for size in SIZES for cell in (f"{size}: distance", "agreement")))
    write_table(f"Adult, {len(split.y):,} rows; medians of {seeds} seeds", head, rows)
    return partial(draw, found=found, names=names, sizes=SIZES)


if __name__ == "__main__":
    main(__doc__, tell, "minimise")

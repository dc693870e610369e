"""Parameters do not prove what was learned from: rows leave, the model moves, and other real rows bring it back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from superteach import SuperTeacher
from superteach.report.plots import COLOURS
from superteach.types import Array
from superteach_lab.stories.table import Split, adult, fit, main, vector, write_table

TRAINED, GONE = 3000, 50
"""Rows that a model was trained on, and rows that must be forgotten: of the latter the ones that move it most."""
RESTARTS = 16
"""Searches with other lots, of which the nearest is taken."""


class Forgetting(NamedTuple):
    """Three models."""

    before: Array
    without: Array
    """Trained anew without the rows that were to be forgotten."""
    restored: Array
    """Trained on as many other rows as before, none of them to be forgotten."""
    shared: float
    """Share of the restored model's rows that were trained on before."""


def forget(split: Split, seed: int, trained: int = TRAINED, gone: int = GONE) -> Forgetting:
    """Train on some rows, forget a few, and choose other rows that teach the first model."""
    order = np.random.default_rng(seed).permutation(len(split.y))
    own, spare = order[:trained], order[trained:]
    before = fit(split.X[own], split.y[own])
    design = np.column_stack([split.X[own], np.ones(trained)])
    chance = before.predict_proba(split.X[own])[:, 1]
    curvature = (design * (chance * (1.0 - chance))[:, None]).T @ design + np.diag([*np.ones(split.X.shape[1]), 0.0])
    moves = (split.y[own] - chance)[:, None] * np.linalg.solve(curvature, design.T).T
    along = np.linalg.svd(moves, full_matrices=False)[2][0]  # the direction in which rows move it most
    kept = np.argsort(moves @ along)[:-gone]
    without = fit(split.X[own][kept], split.y[own][kept])
    # What may be trained on now: rows that stay, and rows that were never used.
    free = np.concatenate([own[kept], spare])
    teacher = SuperTeacher(LogisticRegression(), before, budget=trained, restarts=RESTARTS, random_state=seed)
    rows = free[teacher.fit(split.X[free], split.y[free]).sample_indices_]
    restored = fit(split.X[rows], split.y[rows])
    return Forgetting(vector(before), vector(without), vector(restored), float(np.isin(rows, own).mean()))


def measure(split: Split, seeds: int) -> Array:
    """How far the model moves, how far other rows bring it back, and how many of them are the old ones: (seeds, 3)."""
    found = [forget(split, seed) for seed in range(seeds)]
    return np.array(
        [
            (np.linalg.norm(one.without - one.before), np.linalg.norm(one.restored - one.before), one.shared)
            for one in found
        ]
    )


def draw(figure: Figure, found: Array) -> None:
    """Distance to the first model, seed by seed."""
    axes = figure.subplots()
    seeds = np.arange(len(found))
    axes.semilogy(seeds, found[:, 0], "o", color=COLOURS[1], label=f"{GONE} rows forgotten, trained anew")
    axes.semilogy(seeds, found[:, 1], "s", color=COLOURS[0], label="trained on other rows, chosen to restore it")
    axes.set(xlabel="seed", ylabel="distance to the first model")
    axes.set_xticks(seeds)
    axes.set_title("The same parameters without the rows that made them (Adult)")
    axes.legend(frameon=False)


def tell(seeds: int) -> Callable[[Figure], None]:
    """Measure on Adult."""
    found = measure(adult(), seeds)
    names = (f"without {GONE} rows", "restored by other rows", "share of rows in common")
    told = [(f"{np.median(column):.2g}", f"{column.min():.2g}", f"{column.max():.2g}") for column in found.T]
    rows = [(name, *cells) for name, cells in zip(names, told, strict=True)]
    write_table(f"Adult, {TRAINED:,} rows trained on; {seeds} seeds", ("", "median", "least", "most"), rows)
    return partial(draw, found=found)


if __name__ == "__main__":
    main(__doc__, tell, "restore")

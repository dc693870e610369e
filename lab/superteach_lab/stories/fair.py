"""A fair model from real rows and a plain learner: rows that teach a model with equal mean scores, without weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from superteach import SuperTeacher
from superteach.report.plots import COLOURS, MARKERS
from superteach.types import Array, Positions
from superteach_lab.data import load_acs_income
from superteach_lab.stories.table import GREY, Split, adult, fit, main, vector, write_table

SIZE = 300
TRIMMED = (0.01, 0.05)
"""Shares of the rows that are left out, those with the largest influence on the gap first."""


class Outcome(NamedTuple):
    """What a model does on test rows."""

    gap: float
    """Share of men predicted to earn more than 50,000 dollars, minus that of women."""
    accuracy: float


def outcome(model: LogisticRegression, split: Split) -> Outcome:
    """Measure a model on test rows."""
    said = model.predict(split.test)
    rates = [float(np.mean(said[split.test_group == group])) for group in (0, 1)]
    return Outcome(rates[0] - rates[1], float(np.mean(said == split.test_y)))


def reweighed(y: Positions, group: Positions) -> Array:
    """Weights P(group)P(label)/P(group, label), under which label and group are independent (Kamiran and Calders)."""
    weights = np.empty(len(y))
    for g in (0, 1):
        for label in (0, 1):
            both = (group == g) & (y == label)
            weights[both] = np.mean(group == g) * np.mean(y == label) / np.mean(both)
    return weights


def curvature_of(split: Split, model: LogisticRegression) -> tuple[Array, Array, Array]:
    """Rows with their constant column, their chances, and the curvature of all of them at a model."""
    design, chance = np.column_stack([split.X, np.ones(len(split.y))]), model.predict_proba(split.X)[:, 1]
    bent = (design * (chance * (1.0 - chance))[:, None]).T @ design
    return design, chance, bent + np.diag([*np.ones(split.X.shape[1]), 0.0])


def levelled(split: Split) -> LogisticRegression:
    """The model nearest to that of all rows, in their curvature, under which both groups have the same mean score."""
    model = fit(split.X, split.y)
    design, _, curvature = curvature_of(split, model)
    apart = design[split.group == 0].mean(axis=0) - design[split.group == 1].mean(axis=0)
    way = np.linalg.solve(curvature, apart)
    found = vector(model) - way * (apart @ vector(model)) / (apart @ way)
    model.coef_, model.intercept_ = found[None, :-1], found[-1:]
    return model


def trimmed(split: Split, share: float) -> Positions:
    """Rows that stay when those are left out that widen the gap in probabilities most, to first order."""
    design, chance, curvature = curvature_of(split, fit(split.X, split.y))
    weight = chance * (1.0 - chance)
    slopes = design * weight[:, None]
    gap = slopes[split.group == 0].mean(axis=0) - slopes[split.group == 1].mean(axis=0)
    widens = (split.y - chance) * (design @ np.linalg.solve(curvature, gap))
    return np.sort(np.argsort(widens)[: len(split.y) - round(share * len(split.y))])


def measure(split: Split, seeds: int, size: int = SIZE, owner: Positions | None = None) -> dict[str, list[Outcome]]:
    """All ways to a model, each over the seeds that it depends on."""
    goal = levelled(split)
    found = {
        "all rows": [outcome(fit(split.X, split.y), split)],
        "all rows, reweighed": [outcome(fit(split.X, split.y, reweighed(split.y, split.group)), split)],
        "the goal: equal mean scores": [outcome(goal, split)],
    }
    for share in TRIMMED:
        rows = trimmed(split, share)
        found[f"all but the {share:.0%} that widen the gap most"] = [outcome(fit(split.X[rows], split.y[rows]), split)]
    taught, drawn = [], []
    for seed in range(seeds):
        teacher = SuperTeacher(LogisticRegression(), goal, budget=size, random_state=seed)
        rows = teacher.fit(split.X, split.y, groups=owner).sample_indices_
        taught.append(outcome(fit(split.X[rows], split.y[rows]), split))
        some = np.random.default_rng(seed).choice(len(split.y), size, replace=False)
        drawn.append(outcome(fit(split.X[some], split.y[some]), split))
    return found | {f"{size} rows taught, no weights": taught, f"{size} rows at random": drawn}


def tabulate(title: str, found: dict[str, list[Outcome]]) -> None:
    """Print medians."""
    rows = [(name, *(f"{100 * np.median([getattr(one, part) for one in results]):.1f} %" for part in Outcome._fields))
            for name, results in found.items()]  # fmt: skip
    write_table(title, ("trained on", "gap", "accuracy"), rows)


def draw(figure: Figure, found: dict[str, list[Outcome]]) -> None:
    """Gap and accuracy of every way."""
    axes = figure.subplots()
    for place, (name, results) in enumerate(found.items()):
        gaps, accuracies = ([100 * getattr(one, part) for one in results] for part in Outcome._fields)
        taught = "taught" in name
        marker, size, order = ("*", 160, 2) if taught else (MARKERS[place % len(MARKERS)], 40, 3)
        axes.scatter(gaps, accuracies, s=size, color=(*COLOURS, GREY)[place], marker=marker, label=name, zorder=order)
    axes.set(xlabel="men above 50,000 dollars minus women, % of test rows as predicted", ylabel="accuracy, %")
    axes.set_title("A fair model from a few real rows (Adult)")
    axes.legend(frameon=False, fontsize=8)


def census() -> tuple[Split, Positions]:
    """ACS income: six columns, a tenth of the rows to choose from, another to test on; owners are states."""
    data = load_acs_income(categories="one-hot")
    rng = np.random.default_rng(0)
    some, other = np.split(rng.permutation(len(data.target))[: 2 * (len(data.target) // 10)], 2)
    X = np.asarray(data.data[:, :6], dtype=np.float64)
    female = X[:, 4].astype(np.int64)
    columns = [0, 1, 2, 3, 5]
    centre, scale = X[some][:, columns].mean(axis=0), X[some][:, columns].std(axis=0)
    scaled, target = (X[:, columns] - centre) / scale, data.target.astype(np.int64)
    split = Split(scaled[some], target[some], female[some], scaled[other], target[other], female[other], ())
    return split, np.asarray(data.groups)[some]


def tell(seeds: int) -> Callable[[Figure], None]:
    """Adult without its column for sex; then the census by state."""
    split = adult()
    split = split._replace(X=split.X[:, :-1], test=split.test[:, :-1])
    found = measure(split, seeds)
    tabulate(f"Adult, {len(split.y):,} rows; medians of {seeds} seeds", found)
    people, owner = census()
    title = f"ACS income, {len(people.y):,} rows of {len(np.unique(owner))} states as owners; medians of {seeds} seeds"
    tabulate(title, measure(people, seeds, owner=owner))
    return partial(draw, found=found)


if __name__ == "__main__":
    main(__doc__, tell, "fair")

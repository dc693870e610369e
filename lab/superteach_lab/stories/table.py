"""What the stories share: rows of Adult, fits with a tight tolerance, a table and a figure."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from superteach.report.plots import save
from superteach.types import Array, Positions
from superteach_lab.data import load_adult

GREY = "#555555"
"""A seventh colour, beside those of Okabe and Ito."""
NUMBERS = ("age", "education-num", "hours-per-week")
SKEWED = ("capital-gain", "capital-loss")
"""Columns of which the logarithm of 1 + value is taken: most values are 0, a few are 100,000."""


class Split(NamedTuple):
    """Rows to choose from and rows to test on, standardised by the former; `group` marks women."""

    X: Array
    y: Positions
    group: Positions
    test: Array
    test_y: Positions
    test_group: Positions
    names: tuple[str, ...]


def adult() -> Split:
    """Seven columns of Adult: 32,561 rows to choose from, 16,281 to test on."""
    parts = [_columns(load_adult(subset=subset)) for subset in ("train", "test")]
    scaler = StandardScaler().fit(parts[0][0])
    (X, y, group), (test, test_y, test_group) = parts
    names = (*NUMBERS, *(f"log {name}" for name in SKEWED), "married", "male")
    return Split(scaler.transform(X), y, group, scaler.transform(test), test_y, test_group, names)


def _columns(bunch: Any) -> tuple[Array, Positions, Positions]:
    frame = bunch.data
    numbers = [frame[name].to_numpy(float) for name in NUMBERS]
    numbers += [np.log1p(frame[name].to_numpy(float)) for name in SKEWED]
    married = frame["marital-status"].str.startswith("Married-civ").to_numpy(float)
    male = (frame["sex"] == "Male").to_numpy(float)
    return np.column_stack([*numbers, married, male]), np.asarray(bunch.target, np.int64), (1 - male).astype(np.int64)


def fit(X: Array, y: Positions, weights: Array | None = None) -> LogisticRegression:
    """Fit to many digits: with the default tolerance two fits of one model differ by more than a lesson does."""
    return LogisticRegression(tol=1e-12, max_iter=10_000).fit(X, y, sample_weight=weights)


def vector(model: LogisticRegression) -> Array:
    """Return coefficients, intercept last."""
    return np.append(model.coef_.ravel(), model.intercept_)


def write_table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table as the docs hold it."""
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")


def main(about: str | None, tell: Callable[[int], Callable[[Figure], None]], name: str) -> None:
    """Read the options, tell the story, draw its figure."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seeds", type=int, default=10, help="how often everything random is drawn anew")
    parser.add_argument("--figure", type=Path, default=Path(f"{name}.png"), help="where the figure goes")
    given = parser.parse_args()
    draw = tell(given.seeds)
    given.figure.parent.mkdir(parents=True, exist_ok=True)
    save(draw, (8.0, 4.2), given.figure)
    print(f"\n{given.figure}")

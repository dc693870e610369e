"""Two data sets without a row in common, one model: how many coefficients are equal in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from superteach import SuperTeacher
from superteach_lab.data import load_beijing_air
from superteach_lab.stories.table import main, vector, write_table

TRAINED, POOL, SIZE = 15_000, 150_000, 60_000
"""Hours that a model was trained on, other hours to choose from, and how many are chosen."""
COLUMNS, THRESHOLD = 7, 75.0
"""Pollutants and weather, with their squares and products; the label is PM2.5 above 75."""


class Twin(NamedTuple):
    """Coefficients of the two models, intercept last."""

    first: np.ndarray
    second: np.ndarray

    @property
    def equal(self) -> int:
        """How many coefficients are equal in float32."""
        return int((self.first.astype(np.float32) == self.second.astype(np.float32)).sum())


def measure(seed: int, trained: int = TRAINED, pool: int = POOL, size: int = SIZE) -> Twin:
    """Train on some hours, and choose others from which scikit-learn alone learns the same."""
    air = load_beijing_air(threshold=THRESHOLD)
    order = np.random.default_rng(seed).permutation(len(air.target))[: trained + pool]
    raw = StandardScaler().fit_transform(np.asarray(air.data)[order, :COLUMNS].astype(np.float64))
    X = StandardScaler().fit_transform(PolynomialFeatures(2, include_bias=False).fit_transform(raw))
    y = np.asarray(air.target)[order]

    def fit(X: np.ndarray, y: np.ndarray) -> LogisticRegression:
        return LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(X, y)

    first = fit(X[:trained], y[:trained])
    teacher = SuperTeacher(LogisticRegression(), first, budget=size, random_state=seed)
    rows = trained + teacher.fit(X[trained:], y[trained:]).sample_indices_
    return Twin(vector(first), vector(fit(X[rows], y[rows])))


def draw(figure: Figure, found: list[Twin]) -> None:
    """How far apart coefficients are, in units of float32's last place."""
    axes = figure.subplots()
    for seed, twin in enumerate(found):
        apart = np.abs(twin.first - twin.second) / np.spacing(np.abs(twin.first).astype(np.float32))
        axes.semilogy(np.full(len(apart), seed), np.maximum(apart, 1e-8), "o", ms=4)
    axes.axhline(0.5, color="black", lw=1)
    axes.set(xlabel="seed", ylabel="distance in units of the last place of float32")
    axes.set_title("One model from two data sets without a row in common")


def tell(seeds: int) -> Callable[[Figure], None]:
    """Measure on Beijing's air."""
    found = [measure(seed) for seed in range(seeds)]
    rows = [
        (seed, f"{twin.equal} of {len(twin.first)}", f"{np.linalg.norm(twin.first - twin.second):.2g}")
        for seed, twin in enumerate(found)
    ]
    title = f"Beijing, {SIZE:,} of {POOL:,} hours, none of the {TRAINED:,} that were trained on"
    write_table(title, ("seed", "equal in float32", "distance"), rows)
    return partial(draw, found=found)


if __name__ == "__main__":
    main(__doc__, tell, "bits")

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
from superteach_lab.data import load_acs_income, load_beijing_air
from superteach_lab.stories.table import main, vector, write_table

TRAINED = 15_000
"""Rows that a model was trained on."""


class Twin(NamedTuple):
    """Coefficients of the two models, intercept last."""

    first: np.ndarray
    second: np.ndarray

    @property
    def equal(self) -> int:
        """How many coefficients are equal in float32."""
        return int((self.first.astype(np.float32) == self.second.astype(np.float32)).sum())


def beijing() -> tuple[np.ndarray, np.ndarray]:
    """Seven pollutants and weather, with their squares and products; whether PM2.5 is above 75."""
    air = load_beijing_air(threshold=75.0)
    raw = StandardScaler().fit_transform(np.asarray(air.data)[:, :7].astype(np.float64))
    return PolynomialFeatures(2, include_bias=False).fit_transform(raw), np.asarray(air.target)


def census() -> tuple[np.ndarray, np.ndarray]:
    """Age, schooling and hours up to their cubes, three groups, and products; whether income is above 50,000."""
    people = load_acs_income(categories="one-hot", as_frame=True)
    numbers = StandardScaler().fit_transform(people.data[["AGEP", "SCHL", "WKHP"]].to_numpy(np.float64))
    groups = people.data[["MAR=1", "SEX=2", "RAC1P=1"]].to_numpy(np.float64)
    both = [groups[:, [k]] * numbers for k in range(3)]
    pairs = PolynomialFeatures(2, interaction_only=True, include_bias=False).fit_transform(groups)
    return np.column_stack(
        [PolynomialFeatures(3, include_bias=False).fit_transform(numbers), pairs, *both]
    ), np.asarray(people.target)


TABLES = {"Beijing's air": (beijing, 150_000, 60_000), "ACS income": (census, 1_000_000, 300_000)}
"""How rows are read, how many others there are to choose from, and how many are chosen."""


def measure(seed: int, design: np.ndarray, label: np.ndarray, pool: int, size: int, trained: int = TRAINED) -> Twin:
    """Train on some rows, and choose others from which scikit-learn alone learns the same."""
    order = np.random.default_rng(seed).permutation(len(label))[: trained + pool]
    X, y = StandardScaler().fit_transform(design[order]), label[order]

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
    """Measure on every table, and draw the first one."""
    twins = {}
    for name, (read, pool, size) in TABLES.items():
        design, label = read()
        twins[name] = [measure(seed, design, label, pool, size) for seed in range(seeds)]
        rows = [
            (seed, f"{twin.equal} of {len(twin.first)}", f"{np.linalg.norm(twin.first - twin.second):.2g}")
            for seed, twin in enumerate(twins[name])
        ]
        title = f"{name}, {size:,} of {pool:,} rows, none of the {TRAINED:,} that were trained on"
        write_table(title, ("seed", "equal in float32", "distance"), rows)
    return partial(draw, found=next(iter(twins.values())))


if __name__ == "__main__":
    main(__doc__, tell, "bits")

"""The pools, learners and goals on which lessons are measured; every seed draws other rows or another goal."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC

from benchmarks import pools
from benchmarks.pipelines import ACS_NUMBERS, ACS_WORDS, DIABETES_NUMBERS, DIABETES_WORDS, HEART_NUMBERS, HEART_WORDS


class Task(NamedTuple):
    """Rows with their owners, a learner, a fitted model as goal, and how a lesson is asked for."""

    X: Any
    y: Any
    owner: Any
    estimator: Any
    goal: Any
    settings: dict[str, Any]


Drawn: TypeAlias = tuple[Any, Any, tuple[Any, Any] | None]
"""Rows and targets of one seed, and those of another population where the source has one."""


class Pool(NamedTuple):
    """One line of the table below."""

    name: str
    source: Callable[[int, int, np.random.Generator], Drawn]
    rows: int
    columns: int
    """As many as a generator makes; real tables have their own (0)."""
    learner: str
    ridge: float
    """Λ, or alpha of PoissonRegressor."""
    n: int | str
    goal: float | str
    """By how many of its own lengths the fit on all rows is moved, "other" (the fit on other rows), or "even"."""
    settings: dict[str, Any] = {}  # noqa: RUF012
    owners: int = 10

    def task(self, seed: int) -> Task:
        """Draw the rows of one seed, and make the goal."""
        X, y, other = self.source(self.rows, self.columns, np.random.default_rng(seed))
        estimator = LEARNERS[self.learner](self.ridge)
        fitted = other if self.goal == "other" else (X, y)
        assert fitted is not None, f"the source of {self.name} has no other rows"
        goal = deepcopy(estimator).fit(*fitted)
        if self.goal == "even":
            goal.coef_ = np.full_like(goal.coef_, goal.coef_.shape[-1] ** -0.5)
        elif self.goal != "other":
            # Another seed than the pool's: the same one would draw noise that is correlated with the rows.
            noise = np.random.default_rng(10_000 + seed).standard_normal(goal.coef_.shape)
            goal.coef_ = goal.coef_ + float(self.goal) * noise * np.linalg.norm(goal.coef_) / np.linalg.norm(noise)
        owner = np.random.default_rng(20_000 + seed).permutation(np.arange(X.shape[0]) % self.owners)
        return Task(X, y, owner, estimator, goal, {**self.settings, "budget": self.n, "random_state": seed})


LEARNERS: dict[str, Callable[[float], Any]] = {
    "logistic": lambda ridge: LogisticRegression(C=1 / ridge, solver="newton-cholesky", tol=1e-10, fit_intercept=False),
    "logistic+1": lambda ridge: LogisticRegression(C=1 / ridge, solver="newton-cholesky", tol=1e-10),
    "default+1": lambda ridge: LogisticRegression(C=1 / ridge),
    "ridge": lambda ridge: Ridge(alpha=ridge, fit_intercept=False),
    "ridge+1": lambda ridge: Ridge(alpha=ridge),
    "hinge": lambda ridge: LinearSVC(C=1 / ridge, fit_intercept=False, tol=1e-8, max_iter=100_000),
    "poisson": lambda alpha: PoissonRegressor(alpha=alpha, solver="newton-cholesky", tol=1e-10, fit_intercept=False),
}
"""By word; +1: with an intercept. "default" stops as early as scikit-learn does."""


def clusters(rows: int, columns: int, draw: Any) -> Drawn:
    """Four Gaussian clusters, labels −1 and +1."""
    return *pools.classification(rows, columns, 1, _seed(draw))[:2], None


def lines(rows: int, columns: int, draw: Any, noise: float = 20.0) -> Drawn:
    """Four Gaussian clusters, linear targets."""
    return *pools.regression(rows, columns, 1, _seed(draw), noise)[:2], None


def _seed(draw: Any) -> int:
    return int(draw.integers(2**31))


def gaussian(rows: int, columns: int, draw: Any, noise: float = 1.0, label: bool = False, even: bool = False) -> Drawn:
    """Standard normal rows; targets of a random model, or of even coefficients, or their signs."""
    X = draw.standard_normal((rows, columns))
    truth = np.full(columns, columns**-0.5) if even else draw.standard_normal(columns)
    y = X @ truth + noise * draw.standard_normal(rows)
    return X, np.where(y > 0, 1, -1) if label else y, None


def shaped(rows: int, columns: int, draw: Any, shape: str) -> Drawn:
    """Columns with heavy tails, alike, in units far apart, or mostly 0; labels of a random model; other rows."""
    rows *= 2
    X = draw.standard_normal((rows, columns))
    if shape == "lognormal":
        X = np.exp(X)
    elif shape == "cauchy":
        X = X / draw.standard_normal((rows, columns))
    elif shape == "correlated":
        X = np.sqrt(0.01) * X + np.sqrt(0.99) * draw.standard_normal((rows, 1))
    elif shape == "sparse":
        X = X * (draw.random((rows, columns)) < 0.03)
    score = X @ draw.standard_normal(columns)
    y = np.where(score + draw.logistic(size=rows) > np.median(score), 1, -1)
    if shape == "raw units":
        X = (X + draw.uniform(-3, 3, columns)) * np.logspace(-2, 3, columns)
    return _halves(sparse.csr_matrix(X) if shape == "sparse" else X, y)


def classes(rows: int, columns: int, draw: Any, count: int = 6) -> Drawn:
    """A Gaussian cluster for each class; other rows of the same clusters."""
    label, centre = draw.integers(0, count, 2 * rows), draw.standard_normal((count, columns))
    return _halves(draw.standard_normal((2 * rows, columns)) + centre[label], label)


def unbalanced(rows: int, columns: int, draw: Any) -> Drawn:
    """One row in a hundred is positive; other rows of the same kind."""
    y = np.where(draw.random(2 * rows) < 0.01, 1, -1)
    return _halves(draw.standard_normal((2 * rows, columns)) + 0.5 * y[:, None], y)


def rare(rows: int, columns: int, draw: Any) -> Drawn:
    """Four numbers and dummies of categories, most of them rare, which an intercept makes collinear; other rows."""
    kinds = draw.choice(columns - 4, 2 * rows, p=(odds := 1 / np.arange(1, columns - 3)) / odds.sum())
    X = np.column_stack([draw.standard_normal((2 * rows, 4)), np.eye(columns - 4)[kinds]])
    score = X @ draw.standard_normal(columns)
    return _halves(X, (score + draw.logistic(size=2 * rows) > np.median(score)).astype(int))


def _halves(X: Any, y: Any) -> Drawn:
    half = len(y) // 2
    return X[:half], y[:half], (X[half:], y[half:])


def targets(rows: int, columns: int, draw: Any) -> Drawn:
    """Two noisy linear targets."""
    X = pools.regression(rows, columns, 1, _seed(draw))[0]
    return X, 5 + X @ (10 * draw.standard_normal((columns, 2))) + 20 * draw.standard_normal((rows, 2)), None


def counts(rows: int, columns: int, draw: Any) -> Drawn:
    """Counts that follow the exponential of a random model."""
    X = draw.standard_normal((rows, columns))
    truth = draw.standard_normal(columns)
    return X, draw.poisson(np.exp(0.5 * X @ truth / np.linalg.norm(truth))), None


def digits(rows: int, _: int, draw: Any) -> Drawn:
    """Ten classes, 64 pixels from 0 to 1: 650 coefficients."""
    X, y = load_digits(return_X_y=True)
    kept = draw.permutation(len(y))[:rows]
    return X[kept] / 16, y[kept], None


@cache
def _table(file: str) -> pd.DataFrame:
    folder = Path(os.environ.get("SUPERTEACH_DATA", Path.home() / ".cache" / "superteach"))
    return pd.read_parquet(folder / f"{file}.parquet")


def _encoded(
    rows: int, draw: Any, here: Any, there: Any, y: Any, numbers: Any, words: Any = (), scaled: str = "numbers"
) -> Drawn:
    """Draw rows of one population and of another; dummies of all words, and "numbers", "all" or "no" columns scaled."""
    parts = [frame.iloc[draw.permutation(len(frame))[:rows]] for frame in (here, there)]
    both, own = pd.concat(parts), len(parts[0])
    values = both[list(numbers)].astype(float)
    X = values.fillna(values.iloc[:own].median())
    if words:
        dummies = pd.get_dummies(both[list(words)].astype(object).fillna("unknown").astype(str)).astype(float)
        X = pd.concat([X, dummies.loc[:, dummies.iloc[:own].any().to_numpy()]], axis=1)
    A = X.to_numpy()
    some = {"numbers": len(numbers), "all": A.shape[1], "no": 0}[scaled]
    A[:, :some] = (A[:, :some] - A[:own, :some].mean(axis=0)) / A[:own, :some].std(axis=0)
    label = np.asarray(y(both))
    return A[:own], label[:own], (A[own:], label[own:])


def acs(rows: int, _: int, draw: Any, here: str, there: str, scaled: str = "numbers") -> Drawn:
    """Income above 50,000 dollars in two states."""
    own, other = (_table("acs_income_2018").query(f"state == '{state}'") for state in (here, there))
    return _encoded(rows, draw, own, other, lambda frame: frame.label, ACS_NUMBERS, ACS_WORDS, scaled)


def superconduct(rows: int, _: int, draw: Any) -> Drawn:
    """Critical temperature of materials of five elements and more; the others have fewer."""
    frame, many = _table("superconduct"), _table("superconduct").number_of_elements > 4
    X, y = frame.iloc[:, :-1], frame.critical_temp
    X = ((X - X.mean()) / X.std()).assign(y=y)
    return _encoded(rows, draw, X[many], X[~many], lambda one: one.y, X.columns[:-1], scaled="no")


def beijing(rows: int, _: int, draw: Any, raw: bool = False) -> Drawn:
    """Whether PM2.5 is above 75 at six stations; the others are six other stations."""
    frame = _table("beijing_air_quality").dropna()
    north = frame.station.isin(sorted(frame.station.unique())[::2])
    numbers = ("SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "RAIN", "WSPM")
    words, scaled = ((), "no") if raw else (("wd", "month", "hour"), "numbers")
    return _encoded(rows, draw, frame[north], frame[~north], lambda one: one["PM2.5"] > 75, numbers, words, scaled)


def higgs(rows: int, _: int, draw: Any) -> Drawn:
    """Signal or background; the others come from another copy of the table."""
    frame = _table("higgs_subset")
    own = frame.part == "openml_test"
    return _encoded(rows, draw, frame[own], frame[~own], lambda one: one.label, frame.columns[1:29])


def diabetes(rows: int, _: int, draw: Any, kinds: int = 2) -> Drawn:
    """Readmission of women, yes or no, or never, early or late; the others are men."""
    frame = _table("diabetes130")
    own = frame.gender == "Female"
    words = [word for word in DIABETES_WORDS if word != "gender"]

    def label(some: Any) -> Any:
        return some.readmitted != "NO" if kinds == 2 else some.readmitted.astype(str)

    return _encoded(rows, draw, frame[own], frame[~own], label, DIABETES_NUMBERS, words)


def heart(rows: int, _: int, draw: Any) -> Drawn:
    """Heart disease in three hospitals; the others are in Cleveland."""
    frame = _table("heart_disease")
    own = frame.site != "cleveland"
    return _encoded(rows, draw, frame[own], frame[~own], lambda one: one.target, HEART_NUMBERS, HEART_WORDS)


_OHIO, _TEXAS = (partial(acs, here=here, there=there, scaled="all") for here, there in (("OH", "TX"), ("TX", "OH")))
_ALONE, _ISOLATED, _DP, _DUAL = {"rounding": "alone"}, {"privacy": "isolated"}, {"privacy": "dp"}, {"method": "dual"}
_COEFFICIENTS = {"measure": "coefficients"}
_MA = partial(gaussian, noise=0.1**0.5, even=True)
_EXACT = partial(lines, noise=0.0)
POOLS = {
    pool.name: pool
    for pool in (
        # name, source, rows, columns, learner, Λ, rows to choose, goal, settings, owners
        Pool("5k10", clusters, 5_000, 10, "logistic", 1.0, 200, 1.0),
        Pool("50k10", clusters, 50_000, 10, "logistic", 10.0, 2_000, 1.0),
        Pool("20k30", clusters, 20_000, 30, "logistic", 4.0, 800, 1.0),
        Pool("100k50", clusters, 100_000, 50, "logistic", 20.0, 4_000, 0.3),
        Pool("50k100-4%", clusters, 50_000, 100, "logistic", 10.0, 2_000, 0.3),
        Pool("50k100-30%", clusters, 50_000, 100, "logistic", 10.0, 15_000, 0.3),
        Pool("50k100-far", clusters, 50_000, 100, "logistic", 10.0, 15_000, 1.0),
        Pool("r5k10", lines, 5_000, 10, "ridge", 1.0, 200, 1.0),
        Pool("r20k50", lines, 20_000, 50, "ridge", 4.0, 2_000, 0.3),
        Pool("targets", targets, 10_000, 10, "ridge+1", 2.0, 400, 1.0),
        Pool("h20k30", clusters, 20_000, 30, "hinge", 4.0, 2_000, 1.0),
        Pool("poisson", counts, 20_000, 10, "poisson", 1e-3, 800, 0.5),
        Pool("n15", clusters, 5_000, 10, "logistic", 0.3, 15, 1.0),
        Pool("n30", clusters, 5_000, 10, "logistic", 1.0, 30, 1.0),
        Pool("n60", clusters, 5_000, 10, "logistic", 1.0, 60, 1.0),
        Pool("400x5", clusters, 400, 5, "logistic", 0.08, 40, 1.0),
        Pool("5k5-n20", clusters, 5_000, 5, "logistic", 1.0, 20, 1.0),
        Pool("r-n30", lines, 5_000, 10, "ridge", 1.0, 30, 1.0),
        Pool("r-n60", lines, 5_000, 10, "ridge", 1.0, 60, 1.0),
        Pool("15x3", partial(gaussian, label=True), 15, 3, "logistic", 1.0, 5, 1.0, owners=3),
        Pool("r28x6", gaussian, 28, 6, "ridge", 1.0, 12, 1.0, owners=3),
        Pool("r60x2", gaussian, 60, 2, "ridge", 1.0, 8, 1.0, owners=3),
        Pool("100x8", partial(gaussian, label=True), 100, 8, "logistic", 1.0, 14, 1.0, owners=3),
        Pool("100x4-restarts", partial(gaussian, label=True), 100, 4, "logistic", 1.0, 10, 1.0, {"restarts": 4}, 3),
        Pool("ma16x2", _MA, 16, 2, "ridge", 0.05, "best", "even", _COEFFICIENTS, 2),
        Pool("ma64x2", _MA, 64, 2, "ridge", 0.05, "best", "even", _COEFFICIENTS, 2),
        Pool("ma32x16", _MA, 32, 16, "ridge", 0.05, "best", "even", _COEFFICIENTS, 2),
        Pool("raw-units", partial(shaped, shape="raw units"), 8_000, 12, "logistic+1", 1.0, 400, "other"),
        Pool("lognormal", partial(shaped, shape="lognormal"), 8_000, 10, "logistic+1", 1.0, 400, 1.0),
        Pool("cauchy", partial(shaped, shape="cauchy"), 8_000, 10, "logistic+1", 1.0, 400, 1.0),
        Pool("correlated", partial(shaped, shape="correlated"), 8_000, 20, "logistic+1", 1.0, 400, 1.0),
        Pool("sparse", partial(shaped, shape="sparse"), 20_000, 60, "logistic", 4.0, 1_000, 0.3),
        Pool("rare", rare, 8_000, 44, "default+1", 1.0, 400, "other"),
        Pool("unbalanced", unbalanced, 2_000, 3, "logistic+1", 1.0, 20, "other"),
        Pool("four-classes", partial(classes, count=4), 4_000, 8, "logistic+1", 1.0, 400, "other"),
        Pool("six-classes", classes, 10_000, 10, "logistic+1", 1.0, 600, "other"),
        Pool("digits", digits, 1_500, 64, "default+1", 1.0, 300, 0.0),
        # goals out of reach
        Pool("exact-n100", _EXACT, 5_000, 10, "ridge", 1.0, 100, 1.0),
        Pool("exact-n400", _EXACT, 5_000, 10, "ridge", 1.0, 400, 1.0),
        Pool("50k10-n60", clusters, 50_000, 10, "logistic", 10.0, 60, 1.0),
        Pool("rare-moved", rare, 8_000, 44, "default+1", 1.0, 200, 1.0),
        # other ways to choose
        Pool("alone5k10", clusters, 5_000, 10, "logistic", 1.0, 200, 1.0, _ALONE),
        Pool("alone5k10-50", clusters, 5_000, 10, "logistic", 1.0, 200, 1.0, _ALONE, 50),
        Pool("alone50k10", clusters, 50_000, 10, "logistic", 10.0, 2_000, 1.0, _ALONE),
        Pool("isolated5k10", clusters, 5_000, 10, "logistic", 1.0, 200, 1.0, _ISOLATED),
        Pool("isolated5k10-50", clusters, 5_000, 10, "logistic", 1.0, 200, 1.0, _ISOLATED, 50),
        Pool("isolated50k10", clusters, 50_000, 10, "logistic", 10.0, 2_000, 1.0, _ISOLATED),
        Pool("isolated20k30", clusters, 20_000, 30, "logistic", 4.0, 800, 1.0, _ISOLATED),
        Pool("isolated-rare", rare, 8_000, 44, "default+1", 1.0, 800, "other", _ISOLATED, 20),
        Pool("dp50k10", clusters, 50_000, 10, "logistic", 10.0, 2_000, 1.0, _DP),
        Pool("dual5k10", clusters, 5_000, 10, "logistic", 1.0, 200, 1.0, _DUAL),
        Pool("dual-r5k10", lines, 5_000, 10, "ridge", 1.0, 200, 1.0, _DUAL),
        # real tables
        Pool("acs-ny", partial(acs, here="NY", there="PA"), 8_000, 0, "default+1", 1.0, 400, "other"),
        Pool("acs-oh-moved", partial(acs, here="OH", there="TX"), 8_000, 0, "default+1", 1.0, 400, 1.0),
        Pool("acs-oh-200", _OHIO, 8_000, 0, "logistic+1", 1.0, 200, 1.0),
        Pool("acs-oh-400", _OHIO, 8_000, 0, "logistic+1", 1.0, 400, 1.0),
        Pool("acs-tx-200", _TEXAS, 8_000, 0, "logistic+1", 1.0, 200, 1.0),
        Pool("acs-tx-400", _TEXAS, 8_000, 0, "logistic+1", 1.0, 400, 1.0),
        Pool("super-200", superconduct, 8_000, 0, "ridge+1", 1.0, 200, "other"),
        Pool("super-400", superconduct, 8_000, 0, "ridge+1", 1.0, 400, "other"),
        Pool("super-700", superconduct, 8_000, 0, "ridge+1", 1.0, 700, "other"),
        Pool("super-1000", superconduct, 8_000, 0, "ridge+1", 1.0, 1_000, "other"),
        Pool("super-2000", superconduct, 8_000, 0, "ridge+1", 1.0, 2_000, "other"),
        Pool("beijing", beijing, 8_000, 0, "default+1", 1.0, 400, "other"),
        Pool("beijing-raw", partial(beijing, raw=True), 8_000, 0, "logistic+1", 1.0, 400, "other"),
        Pool("higgs-50", higgs, 8_000, 0, "logistic+1", 1.0, 50, "other"),
        Pool("higgs-400", higgs, 8_000, 0, "logistic+1", 1.0, 400, "other"),
        Pool("diabetes-2", diabetes, 8_000, 0, "default+1", 1.0, 400, "other"),
        Pool("diabetes-3", partial(diabetes, kinds=3), 8_000, 0, "default+1", 1.0, 400, "other"),
        Pool("heart", heart, 500, 0, "default+1", 1.0, 60, "other", owners=3),
    )
}

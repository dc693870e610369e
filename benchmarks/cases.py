"""The pools and goals on which lessons are measured; every seed is another pool."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from benchmarks import pools
from superteach.types import Array

FASHION = Path("/usr/share/datasets/fashion-mnist")
"""The folder of Debian's package dataset-fashion-mnist."""


class Task(NamedTuple):
    """A pool, a learner and a goal, and how a lesson is asked for."""

    X: Any
    y: Any
    owner: Any
    estimator: Any
    goal: Any
    settings: dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A pool and a goal that is moved by `moved` times its own length."""

    kind: str
    rows: int = 0
    width: int = 0
    budget: Any = 0.04
    moved: float = 1.0
    settings: dict[str, Any] = field(default_factory=dict)
    teachers: int = 10
    by_label: bool = False
    """Whether teachers hold one label each, but for one of them, in place of rows dealt out at random."""
    slow: bool = False

    def task(self, seed: int) -> Task:
        """Make the pool of one seed, and the goal."""
        X, y, owner, estimator, goal = KINDS[self.kind](self, seed)
        if self.by_label:
            owner = np.argsort(np.argsort(y, kind="stable"), kind="stable") * self.teachers // len(y)
        return Task(X, y, owner, estimator, goal, dict(self.settings, budget=self.budget, random_state=seed))


def _logistic(case: Case, seed: int) -> tuple[Any, ...]:
    X, y, owner = pools.classification(case.rows, case.width, case.teachers, seed)
    ridge = pools.RIDGE_PER_ROW * case.rows
    estimator = LogisticRegression(C=1.0 / ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
    return X, y, owner, estimator, _moved(estimator.fit(X, y), case.moved, seed)


def _hinge(case: Case, seed: int) -> tuple[Any, ...]:
    X, y, owner = pools.classification(case.rows, case.width, case.teachers, seed)
    ridge = pools.RIDGE_PER_ROW * case.rows
    estimator = LinearSVC(C=1.0 / ridge, fit_intercept=False, tol=1e-8, max_iter=100_000)
    return X, y, owner, estimator, _moved(estimator.fit(X, y), case.moved, seed)


def _ridge(case: Case, seed: int, noise: float = 20.0) -> tuple[Any, ...]:
    X, y, owner = pools.regression(case.rows, case.width, case.teachers, seed, noise)
    estimator = Ridge(alpha=case.rows / 5_000, fit_intercept=False)
    return X, y, owner, estimator, _moved(estimator.fit(X, y), case.moved, seed)


def _unreachable(case: Case, seed: int) -> tuple[Any, ...]:
    """Targets without noise: every lesson ends near the truth, and no other goal is within reach."""
    return _ridge(case, seed, noise=0.0)


def _moved(fitted: Any, share: float, seed: int) -> Array:
    truth = np.ravel(fitted.coef_)
    # Another seed than the pool's: the same one would draw noise that is correlated with the rows.
    noise = np.random.default_rng(10_000 + seed).standard_normal(len(truth))
    return np.asarray(truth + share * noise * np.linalg.norm(truth) / np.linalg.norm(noise))


def _classes(case: Case, seed: int) -> tuple[Any, ...]:
    """Four classes with a cluster each, eight columns; the goal is the fit on other rows of the same clusters."""
    draw = np.random.default_rng(seed)
    label, centre = draw.integers(0, 4, 2 * case.rows), draw.standard_normal((4, case.width))
    X = draw.standard_normal((2 * case.rows, case.width)) + centre[label]
    estimator = LogisticRegression(C=1.0, tol=1e-8, max_iter=5_000)
    goal = LogisticRegression(C=1.0, tol=1e-8, max_iter=5_000).fit(X[case.rows :], label[case.rows :])
    return X[: case.rows], label[: case.rows], draw.integers(0, case.teachers, case.rows), estimator, goal


def _unbalanced(case: Case, seed: int) -> tuple[Any, ...]:
    """One row in a hundred is positive; the goal is the fit on other rows."""
    draw = np.random.default_rng(seed)
    y = np.where(draw.random(2 * case.rows) < 0.01, 1.0, -1.0)
    X = draw.standard_normal((2 * case.rows, case.width)) + 0.5 * y[:, None]
    estimator = LogisticRegression(C=1.0, tol=1e-8, max_iter=5_000)
    goal = LogisticRegression(C=1.0, tol=1e-8, max_iter=5_000).fit(X[case.rows :], y[case.rows :])
    return X[: case.rows], y[: case.rows], draw.integers(0, case.teachers, case.rows), estimator, goal


def _rare(case: Case, seed: int) -> tuple[Any, ...]:
    """Four numbers and dummies of forty categories, most of them rare, beside an intercept: a direction no row sees."""
    draw = np.random.default_rng(seed)
    kinds = draw.choice(40, 2 * case.rows, p=(odds := 1.0 / np.arange(1, 41)) / odds.sum())
    X = np.column_stack([draw.standard_normal((2 * case.rows, 4)), np.eye(40)[kinds]])
    score = X @ draw.standard_normal(44)
    y = (score + draw.logistic(size=2 * case.rows) > np.median(score)).astype(int)
    goal = LogisticRegression(max_iter=1_000).fit(X[case.rows :], y[case.rows :])
    return X[: case.rows], y[: case.rows], draw.integers(0, case.teachers, case.rows), LogisticRegression(), goal


def _digits(case: Case, seed: int) -> tuple[Any, ...]:
    """Ten classes, 64 pixels from 0 to 1: 650 coefficients."""
    X, y = load_digits(return_X_y=True)
    return _whole(X / 16.0, y, 1.0, seed)


def _fashion(case: Case, seed: int) -> tuple[Any, ...]:
    """Ten classes, 15 principal components of 60,000 images, Λ = 10."""
    images, labels = fashion("train-images-idx3") / 255.0, fashion("train-labels-idx1")
    return _whole(PCA(15, random_state=0).fit(images).transform(images), labels, 0.1, seed)


def fashion(name: str) -> Any:
    """One file of Fashion-MNIST."""
    shape = (-1, 784) if "images" in name else (-1,)
    data = gzip.decompress((FASHION / f"{name}-ubyte.gz").read_bytes())
    return np.frombuffer(data, np.uint8, offset=16 if "images" in name else 8).reshape(shape)


def _covertype(case: Case, seed: int) -> tuple[Any, ...]:
    """Rows like covertype's: seven classes of very different size, ten numbers, two categories of 4 and 40 values."""
    rng, rows = np.random.default_rng(seed), case.rows
    y = rng.choice(7, rows, p=[0.365, 0.488, 0.062, 0.005, 0.016, 0.03, 0.034])
    X = np.zeros((rows, 54))
    X[:, :10] = rng.standard_normal((rows, 10)) + 0.8 * rng.standard_normal((7, 10))[y]
    for first, kinds in ((10, 4), (14, 40)):
        odds = np.exp(rng.standard_normal((7, kinds)))
        edges = (odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1)
        found = (rng.random((rows, 1)) > edges[y]).sum(axis=1).clip(max=kinds - 1)
        X[np.arange(rows), first + found] = 1.0
    return _whole(X, y, 1.0, seed)


def _whole(X: Array, y: Any, C: float, seed: int) -> tuple[Any, ...]:
    """The goal is the fit of the whole pool, to the end where that takes seconds."""
    estimator = LogisticRegression(C=C)
    exact = LogisticRegression(C=C, tol=1e-8, max_iter=20_000) if len(y) < 100_000 else LogisticRegression(C=C)
    return X, y, None, estimator, exact.fit(X, y)


KINDS: dict[str, Callable[[Case, int], tuple[Any, ...]]] = {
    "logistic": _logistic,
    "squared hinge": _hinge,
    "ridge": _ridge,
    "ridge without noise": _unreachable,
    "classes": _classes,
    "unbalanced": _unbalanced,
    "rare categories": _rare,
    "digits": _digits,
    "Fashion-MNIST": _fashion,
    "like covertype": _covertype,
}
_ALONE = {"rounding": "alone"}
_ISOLATED = {"privacy": "isolated"}
CASES = {
    "5k10": Case("logistic", 5_000, 10),
    "50k10": Case("logistic", 50_000, 10),
    "500k10": Case("logistic", 500_000, 10, slow=True),
    "20k30": Case("logistic", 20_000, 30),
    "100k50": Case("logistic", 100_000, 50, moved=0.3, slow=True),
    "50k100": Case("logistic", 50_000, 100, budget=0.3, moved=0.3, slow=True),
    "r5k10": Case("ridge", 5_000, 10),
    "r20k50": Case("ridge", 20_000, 50, budget=0.1, moved=0.3),
    "h20k30": Case("squared hinge", 20_000, 30, budget=0.1),
    "h5k10": Case("squared hinge", 5_000, 10, budget=0.1),
    "alone5k10": Case("logistic", 5_000, 10, settings=_ALONE),
    "isolated5k10": Case("logistic", 5_000, 10, settings=_ISOLATED),
    "alone50k10": Case("logistic", 50_000, 10, settings=_ALONE),
    "alone50k10 by label": Case("logistic", 50_000, 10, settings=_ALONE, by_label=True),
    "alone100k50": Case("logistic", 100_000, 50, moved=0.3, settings=_ALONE, slow=True),
    "isolated50k10": Case("logistic", 50_000, 10, settings=_ISOLATED),
    "isolated100k50": Case("logistic", 100_000, 50, moved=0.3, settings=_ISOLATED, slow=True),
    "unreachable5k10": Case("ridge without noise", 5_000, 10, budget=100),
    "dual5k10": Case("logistic", 5_000, 10, settings={"method": "dual"}),
    "dual500k10": Case("logistic", 500_000, 10, settings={"method": "dual"}, slow=True),
    "few400": Case("logistic", 400, 5, budget=0.1),
    "few100": Case("logistic", 100, 8, budget=14),
    "few64": Case("ridge", 64, 2, budget="best"),
    "few28": Case("ridge", 28, 6, budget=12),
    "restarts200": Case("logistic", 200, 4, budget=10, settings={"restarts": 4}),
    "unbalanced2k": Case("unbalanced", 2_000, 3, budget=20),
    "rare8k": Case("rare categories", 8_000, budget=400),
    "rare8k isolated": Case("rare categories", 8_000, budget=800, settings=_ISOLATED, teachers=20),
    "isolated60k5": Case("logistic", 60_000, 5, settings=_ISOLATED, teachers=2),
    "isolated5k10 by 50": Case("logistic", 5_000, 10, settings=_ISOLATED, teachers=50),
    "classes4k8": Case("classes", 4_000, 8, budget=400),
    "digits300": Case("digits", budget=300),
    "digits900": Case("digits", budget=900, slow=True),
    "fashion": Case("Fashion-MNIST", budget=15_000, slow=True),
    "covertype500k": Case("like covertype", 500_000, budget=25_000, slow=True),
}
"""By name: learner (r: ridge, h: squared hinge), rows and columns. Four to thirty per cent of the rows are chosen."""

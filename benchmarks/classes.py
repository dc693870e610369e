"""Many classes: how near lessons come, how often they predict the goal's class, and time against one scikit-learn fit.

    taskset -c 0 python -m benchmarks.classes fashion 15000    # parts: fashion SIZE…, digits SIZE…, covertype ROWS SIZE…
    taskset -c 0 python -m benchmarks.classes rivals 1000 3000    # Fashion-MNIST again, beside six other ways to choose

Fashion-MNIST is Debian's package dataset-fashion-mnist. Times are seconds of the processor, on one core.
"""

from __future__ import annotations

import gzip
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from benchmarks.table import Measurements, show
from superteach import SuperTeacher
from superteach.types import Array
from superteach_lab.rivals.many import ORDERS

FASHION = Path("/usr/share/datasets/fashion-mnist")
COLUMNS = ("rows", "method", "distance", "in predictions", "spread", "same class, pool", "test", "proved", "s", "fits")


def fashion(*sizes: int) -> Iterator[Measurements]:
    """Ten classes, 15 principal components, Λ = 10; the goal is the full fit. A lesson and random rows of its size."""
    yield _lessons("Fashion-MNIST", *_components(), 0.1, sizes or (15_000,))


def rivals(*sizes: int) -> Iterator[Measurements]:
    """The same, for contestants that see all rows and the full model; each is refitted by scikit-learn."""
    X, labels, test = _components()
    y = labels.astype(np.int64)
    goal = _exactly(X, y)
    model, wanted = np.column_stack([goal.coef_, goal.intercept_]), goal.predict(test)
    design = np.column_stack([X, np.ones(len(X))])
    found = {(row[0], "match"): row[1:] for size in sizes for row in [_taught(X, y, test, goal, size)]}
    for name, order in ORDERS.items():
        started = time.process_time()
        rows = order(X, y, model, max(sizes), 0)
        took = time.process_time() - started
        for size in sizes:
            fitted = _exactly(X[rows[:size]], y[rows[:size]])
            away = np.column_stack([fitted.coef_, fitted.intercept_]) - model
            far = float(np.sqrt(np.square(design @ away.T).sum(axis=1).mean()))
            same = float(np.mean(fitted.predict(test) == wanted))
            found[size, name] = (float(np.linalg.norm(away)), far, f"{same:.2%}", "", took)
    table = Measurements("Fashion-MNIST; s: of the longest choice", (*COLUMNS[:4], "test", "proved", "s"))
    table.rows = [(*key, *cells) for key, cells in sorted(found.items(), key=lambda item: (item[0][0], item[1][1]))]
    yield table


def _taught(X: Array, y: Any, test: Array, goal: LogisticRegression, size: int) -> tuple[Any, ...]:
    started = time.process_time()
    teacher = SuperTeacher(LogisticRegression(C=0.1), goal, budget=size).fit(X, y)
    took, lesson = time.process_time() - started, teacher.lesson_
    same = f"{np.mean(teacher.predict(test) == goal.predict(test)):.2%}"
    proved = "out of reach" if lesson.certificate is not None else ""
    return (size, lesson.risk, lesson.prediction_distance, same, proved, took)


def _exactly(X: Array, y: Any) -> LogisticRegression:
    model = LogisticRegression(C=0.1, tol=1e-8, solver="newton-cholesky", max_iter=1000).fit(X, y)
    model.intercept_ -= model.intercept_.mean()  # all classes shifted alike predict the same
    return model


def _components() -> tuple[Array, Any, Array]:
    """Fifteen principal components of all training images, their labels, and the same of the test images."""
    images, labels = (_read(name) for name in ("train-images-idx3", "train-labels-idx1"))
    mapping = PCA(15, random_state=0).fit(images / 255.0)
    return mapping.transform(images / 255.0), labels, mapping.transform(_read("t10k-images-idx3") / 255.0)


def digits(*sizes: int) -> Iterator[Measurements]:
    """Ten classes, 64 pixels from 0 to 1: 650 coefficients."""
    X, y = load_digits(return_X_y=True)
    yield _lessons("digits", X / 16.0, y, X / 16.0, 1.0, sizes or (300, 900))


def covertype(rows: int = 500_000, *sizes: int) -> Iterator[Measurements]:
    """Seven classes of very different size, ten numbers and two categories of 4 and 40 values."""
    rng = np.random.default_rng(0)
    y = rng.choice(7, rows, p=[0.365, 0.488, 0.062, 0.005, 0.016, 0.03, 0.034])
    X = np.zeros((rows, 54))
    X[:, :10] = rng.standard_normal((rows, 10)) + 0.8 * rng.standard_normal((7, 10))[y]
    for first, kinds in ((10, 4), (14, 40)):
        odds = np.exp(rng.standard_normal((7, kinds)))
        edges = (odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1)
        found = (rng.random((rows, 1)) > edges[y]).sum(axis=1).clip(max=kinds - 1)
        X[np.arange(rows), first + found] = 1.0
    yield _lessons(f"like covertype, {rows:,} rows", X, y, X[:10_000], 1.0, sizes or (25_000,))


def _read(name: str) -> Any:
    shape = (-1, 784) if "images" in name else (-1,)
    data = gzip.decompress((FASHION / f"{name}-ubyte.gz").read_bytes())
    return np.frombuffer(data, np.uint8, offset=16 if "images" in name else 8).reshape(shape)


def _lessons(title: str, X: Array, y: Any, test: Array, C: float, sizes: tuple[int, ...]) -> Measurements:
    warnings.simplefilter("ignore")  # the usual fit stops at its hundred steps
    learner = LogisticRegression(C=C)
    started = time.process_time()
    learner.fit(X, y)
    usual = time.process_time() - started
    goal = LogisticRegression(C=C, tol=1e-8, max_iter=20_000).fit(X, y) if len(y) < 100_000 else learner
    exact = time.process_time() - started - usual
    fits = f"{usual:.2g} s as it comes" + (f", {exact:.2g} s to tol=1e-8" if goal is not learner else "")
    table = Measurements(f"{title}; one scikit-learn fit takes {fits}", COLUMNS)
    for size in sizes:
        for method in ("match", "random"):
            started = time.process_time()
            teacher = SuperTeacher(LogisticRegression(C=C), goal, budget=size, method=method).fit(X, y)
            took, lesson = time.process_time() - started, teacher.lesson_
            same = f"{np.mean(teacher.predict(test) == goal.predict(test)):.2%}"
            cells = (
                lesson.risk,
                lesson.prediction_distance,
                lesson.prediction_spread,
                f"{lesson.agreement:.2%}",
                same,
            )
            proved = "out of reach" if lesson.certificate is not None else ""
            table.rows.append((size, method, *cells, proved, took, took / usual))
    return table


def main() -> None:
    """Run one part."""
    part, *numbers = sys.argv[1:] or ["digits"]
    parts = {"fashion": fashion, "rivals": rivals, "digits": digits, "covertype": covertype}
    for table in parts[part](*map(int, numbers)):
        show(table)


if __name__ == "__main__":
    main()

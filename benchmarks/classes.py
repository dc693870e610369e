"""Fashion-MNIST by match and by six other ways to choose rows, each refitted by scikit-learn.

    taskset -c 0 python -m benchmarks classes

Times are seconds of the processor, on one core. Fashion-MNIST is Debian's package dataset-fashion-mnist.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from benchmarks.table import Measurements
from superteach import SuperTeacher
from superteach.types import Array
from superteach_lab.rivals.many import ORDERS

FASHION = Path("/usr/share/datasets/fashion-mnist")
"""The folder of Debian's package dataset-fashion-mnist."""


def run(quick: bool, sizes: tuple[int, ...] = (1_000, 3_000, 6_000, 15_000)) -> Iterator[Measurements]:
    """Ten classes, 15 principal components, Λ = 10; the goal is the full fit, which contestants see with all rows."""
    sizes = sizes[:1] if quick else sizes
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
    table = Measurements(
        "Fashion-MNIST; s: of the longest choice",
        ("rows", "method", "distance", "in predictions", "test", "proved", "s"),
    )
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
    images, labels = fashion("train-images-idx3") / 255.0, fashion("train-labels-idx1")
    mapping = PCA(15, random_state=0).fit(images)
    return mapping.transform(images), labels, mapping.transform(fashion("t10k-images-idx3") / 255.0)


def fashion(name: str) -> Any:
    """One file of Fashion-MNIST."""
    shape = (-1, 784) if "images" in name else (-1,)
    data = gzip.decompress((FASHION / f"{name}-ubyte.gz").read_bytes())
    return np.frombuffer(data, np.uint8, offset=16 if "images" in name else 8).reshape(shape)

"""Two small pools, and lessons that several tests listen to."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from superteach_lab.audit.transcript import Heard, Subject, listen


@cache
def subject_of(name: str) -> Subject:
    if name == "synthetic":
        draw = np.random.default_rng(0)
        X = draw.standard_normal((400, 4))
        y = np.where(X.sum(axis=1) + draw.standard_normal(400) > 0.0, 1.0, -1.0)
        return Subject.dealt(X, y, 4, LogisticRegression(), np.array([0.6, 0.5, 0.4, 0.3, 0.1]), 14, name)
    data = load_breast_cancer()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    fitted = LogisticRegression(C=0.1).fit(X[:200], data.target[:200])
    goal = np.append(fitted.coef_[0], fitted.intercept_)
    return Subject.dealt(X, np.where(data.target > 0, 1.0, -1.0), 5, LogisticRegression(), goal, 60, name)


@cache
def lesson_of(name: str, promise: str, epsilon: float = 1.0) -> Heard:
    given = {"epsilon": epsilon} if promise == "epsilon" else {"rounding": "alone"} if promise == "open" else {}
    return listen(subject_of(name), promise, **given)


@pytest.fixture(scope="session")
def subject() -> Callable[[str], Subject]:
    return subject_of


@pytest.fixture(scope="session")
def heard() -> Callable[..., Heard]:
    return lesson_of

"""A small pool, and lessons that several tests listen to."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from superteach.privacy.accounting import Mode
from superteach_lab.audit.subject import Subject, Transcript, listen


def made() -> Subject:
    draw = np.random.default_rng(0)
    X = draw.standard_normal((240, 3))
    y = np.where(X.sum(axis=1) + draw.standard_normal(240) > 0.0, 1.0, -1.0)
    return Subject.dealt(X, y, 3, LogisticRegression(), np.array([0.6, 0.5, 0.4, 0.1]), 24, "synthetic")


@cache
def lesson_of(privacy: str) -> Transcript:
    return listen(made(), Mode(privacy))


@pytest.fixture(scope="session")
def subject() -> Subject:
    return made()


@pytest.fixture(scope="session")
def transcript() -> Callable[[str], Transcript]:
    return lesson_of

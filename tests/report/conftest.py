"""Lessons that the tests of reports share."""

from __future__ import annotations

import numpy as np
import pytest
from reports import CASES, LEARNERS, ROWS, TEACHERS

import superteach as st
from superteach.goals import PerturbedFit


@pytest.fixture(scope="session")
def rows(pool):
    """`rows(kind)` gives rows, targets and owners."""

    def make(kind):
        if kind == "noise-free":
            X, _ = pool("squared", ROWS, 3, 2)
            y = X @ np.array([4.0, -3.0, 8.0])
        else:
            X, y = pool(kind, ROWS, 3, 2)
        return X, y, np.arange(ROWS) % TEACHERS

    return make


@pytest.fixture(scope="session")
def taught(rows):
    """`taught(case)` teaches one of the cases, once."""
    known: dict[str, st.SuperTeacher] = {}

    def teach(case):
        if case not in known:
            kind, settings = CASES[case]
            X, y, owner = rows(kind)
            settings = {"method": "dual", **settings}
            known[case] = st.SuperTeacher(LEARNERS[kind], PerturbedFit(1), **settings).fit(X, y, owner)
        return known[case]

    return teach

"""The page that owners read: every question that a promise's script asks stands in the section of that promise."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import superteach as st
from superteach.coordinator.teaching import teach
from superteach.solvers import LBFGS

PAGE = Path(__file__).parents[2] / "docs" / "what-leaves-a-teacher.md"
GOAL = np.array([0.6, -0.4, 0.3, 0.1])


def section(promise: str) -> str:
    return re.search(rf"^## {promise}$(.*?)^## ", PAGE.read_text(encoding="utf-8"), re.M | re.S)[1]


class Listening(st.InProcess):
    """Keeps what is asked for numbers."""

    def __init__(self, teachers):
        super().__init__(teachers)
        self.asked = set()

    def sum(self, query, number):
        if query.reply_length:
            self.asked.add(type(query).__name__)
        return super().sum(query, number)


@pytest.mark.parametrize("promise", ["closed", "epsilon", "masked"])
def test_every_question_is_on_the_page(promise):
    """Over both methods, goals within reach and not, solvers, and standardised columns."""
    draw = np.random.default_rng(0)
    X = draw.standard_normal((300, 3))
    y = np.where(X.sum(axis=1) + draw.standard_normal(300) > 0.0, 1.0, -1.0)
    cases = [(LogisticRegression(), GOAL, {}), (LogisticRegression(), 60.0 * GOAL, {}), (Ridge(), GOAL, {})]
    if promise != "closed":
        cases.append((LogisticRegression(), GOAL, {"method": "dual"}))
    if promise == "masked":
        more = {"standardize": True}, {"method": "dual", "solver": LBFGS()}, {"solver": LBFGS()}
        cases += [(LogisticRegression(), GOAL, given) for given in more]
        cases.append((Ridge(fit_intercept=False), 60.0 * GOAL[:3], {}))
    asked = set()
    for learner, goal, given in cases:
        parts = np.array_split(np.arange(300), 3)
        engine = Listening([st.Teacher(f"t{place}", X[some], y[some], ids=some) for place, some in enumerate(parts)])
        teach(st.Federation(engine), learner, goal, promise=promise, budget=30, **given)
        asked |= engine.asked
    assert bool(asked) == (promise != "closed")
    assert asked <= set(re.findall(r"`(\w+)`", section(promise)))

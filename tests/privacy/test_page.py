"""The page that owners read: every question that a private mode asks stands in the section of that mode."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import superteach as st
from superteach.coordinator.teach import teach
from superteach.privacy.accounting import Mode

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "privacy.md"
GOAL = np.array([0.6, -0.4, 0.3, 0.1])


def section(mode: str) -> str:
    return re.search(rf"^## {mode}$(.*?)^## ", PAGE.read_text(encoding="utf-8"), re.M | re.S)[1]


class Listening(st.Threads):
    """Keeps what is asked for numbers."""

    def __init__(self, teachers):
        super().__init__(teachers)
        self.asked, self.silent = set(), set()

    def gather(self, query, number):
        (self.asked if query.reply_length else self.silent).add(type(query).__name__)
        return super().gather(query, number)


@pytest.mark.parametrize("mode", ["isolated", "dp"])
def test_every_question_is_on_the_page(mode):
    draw = np.random.default_rng(0)
    X = draw.standard_normal((300, 3))
    y = np.where(X.sum(axis=1) + draw.standard_normal(300) > 0.0, 1.0, -1.0)
    asked, silent = set(), set()
    for learner, goal in ((LogisticRegression(), GOAL), (LogisticRegression(), 60.0 * GOAL), (Ridge(), GOAL)):
        parts = np.array_split(np.arange(300), 3)
        engine = Listening([st.Teacher(f"t{place}", X[some], y[some], ids=some) for place, some in enumerate(parts)])
        teach(st.Federation(engine), learner, goal, privacy=mode, budget=30)
        asked |= engine.asked
        silent |= engine.silent
    assert bool(asked) == (mode == "dp")
    assert silent == {"ChooseShare"}
    assert asked <= set(re.findall(r"`(\w+)`", section(mode)))


def test_the_stated_cost_of_changing_a_row_is_what_a_lesson_says():
    stated = float(re.search(r"ε = (\S+) where\s+ε = 1 is stated", section("dp"))[1])
    assert Mode("dp").guarantee()["epsilon_change_one"] == pytest.approx(stated, abs=0.005)

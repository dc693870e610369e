"""Across organisations the coordinator says which label is positive, and every teacher follows."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from superteach.errors import GoalError, SettingError
from superteach.organisations.conductor import Order, conduct
from superteach.settings import Settings
from tests.loopback import Loopback
from tests.organisations.promised import GOAL, NAMES, teach

TIGHT = {"tol": 1e-12, "max_iter": 100_000}


@pytest.fixture
def open_lesson(pool, site_of, tmp_path):
    """`open_lesson(**order)` teaches from two sites with labels in words; the rows come back too."""
    X, y = pool("logistic", 160, 3, 4)
    words = np.where(y > 0, "case", "control")
    sites = {name: site_of(name, X[part], words[part]) for name, part in (("a", slice(80)), ("b", slice(80, None)))}
    line = Loopback({name: site.answer for name, site in sites.items()})

    numbers = itertools.count()

    def make(goal, **given):
        settings = Settings(budget=40, method="dual", rounding="alone")
        return conduct(
            line, f"lesson-{next(numbers)}", Order(["a", "b"], "logistic", goal, settings=settings, **given), tmp_path
        )

    make.X, make.y, make.folder = X, words, tmp_path
    return make


@pytest.mark.parametrize("given", [{"positive": "case"}, {"goal": {"positive": "case"}}], ids=str)
def test_an_open_lesson_follows_the_label(open_lesson, given):
    goal = {"coef": GOAL[:3], "intercept": GOAL[3], **given.pop("goal", {})}
    lesson = open_lesson(goal, **given)
    assert lesson.positive == "case"
    np.testing.assert_array_equal(lesson.goal, GOAL)
    full = LogisticRegression(**TIGHT).fit(open_lesson.X, open_lesson.y)
    np.testing.assert_allclose(lesson.pool_model, -np.append(full.coef_, full.intercept_), atol=1e-6)
    model = json.loads((open_lesson.folder / "model.json").read_text())
    assert (model["classes"], model["positive"]) == (["control", "case"], "case")


def test_the_default_is_the_larger_label(open_lesson):
    assert open_lesson(GOAL).positive == "control"


def test_a_label_that_nobody_has(open_lesson):
    with pytest.raises(SettingError, match="did you mean 'case'"):
        open_lesson(GOAL, positive="cases")
    with pytest.raises(GoalError, match="the goal names 'ill'"):
        open_lesson({"coef": GOAL[:3], "intercept": 0.0, "positive": "ill"})


def test_a_fit_without_a_column(open_lesson):
    lesson = open_lesson("without:x1")
    full = LogisticRegression(**TIGHT).fit(open_lesson.X[:, [0, 2]], open_lesson.y)
    np.testing.assert_allclose(lesson.goal, np.insert(np.append(full.coef_, full.intercept_), 1, 0.0), atol=1e-6)
    with pytest.raises(GoalError, match=r"column 'dose'.* 'x0', 'x1', 'x2'"):
        open_lesson("without:dose")


def test_a_promised_lesson_follows_the_label(town):
    """Turned label, turned goal: the same rows and the same totals as without."""
    plain = town("masked", NAMES)
    teach(plain, "masked", random_state=0)
    turned = teach(plain, "masked", "again", order={"positive": "-1"}, goal=(-np.array(GOAL)).tolist())
    assert turned.positive == -1
    np.testing.assert_array_equal(turned.goal, -np.array(GOAL))
    ones = teach(plain, "masked", "third")
    assert ones.positive == 1
    with pytest.raises(GoalError, match="without:x0"):
        teach(plain, "masked", "fourth", goal="without:x0")

"""Learners by the names that an order holds."""

from __future__ import annotations

import json

import numpy as np
import pytest

from superteach.coordinator.named import INVERSE, NAMES, build_learner, build_student
from superteach.exceptions import GoalError, SettingError
from superteach.goals.base import goal_vector
from superteach.learner import Learner


def test_a_learner_of_no_known_name_is_refused():
    """An order from another version may name one: it was taken for Huber's loss once."""
    with pytest.raises(SettingError, match=r"learner 'expectile' is not known; there are logistic, .*huber"):
        build_learner("expectile", None, None, True)


@pytest.mark.parametrize(("kind", "option"), [("logistic", "C"), ("svc", "C"), ("ridge", "alpha"), ("huber", "alpha")])
@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan])
def test_a_penalty_that_is_none_is_named_as_the_option(kind, option, value):
    """With the value that was seen, and no other reason than that it must be above 0."""
    given = {"C": None, "alpha": None, option: value}
    with pytest.raises(SettingError, match=rf"^--{option} {value:g} must be a finite number above 0$"):
        build_learner(kind, **given, intercept=True)


FLAT = {"dose": -1.0, "age": 0.5, "intercept": 2}


@pytest.mark.parametrize(
    ("stored", "columns", "intercept", "expected"),
    [
        (FLAT, ["age", "dose"], True, [0.5, -1.0, 2.0]),
        (FLAT, ["age", "intercept", "dose"], False, [0.5, 2.0, -1.0]),
        ({"age": 0.5, "coef": -1.0}, ["age", "coef"], False, [0.5, -1.0]),
        ({"coef": {"age": 0.5, "coef": -1.0}}, ["age", "coef"], False, [0.5, -1.0]),
        ({"age": 0.5, "dose": -1.0, "intercept": 0.0}, ["age", "dose"], False, [0.5, -1.0]),
        ({"coef": FLAT}, ["age", "dose"], True, [0.5, -1.0, 2.0]),
        ({"coef": FLAT}, ["age", "dose", "intercept"], False, [0.5, -1.0, 2.0]),
    ],
)
def test_a_goal_by_column_needs_no_heading(stored, columns, intercept, expected):
    """Numbers by the names of columns, as a dict in Python has them."""
    assert goal_vector(stored, "goal", columns, intercept).tolist() == expected


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ({"age": 0.5, "intercept": 0.0}, "no coefficient for column 'dose'"),
        ({"age": 0.5, "dose": 1.0, "size": 2.0, "intercept": 0.0}, "'size', which is no feature column"),
        ({"age": 0.5, "dose": -1.0}, "no 'intercept'.*--no-intercept"),
        ({"age": 0.5, "dose": "much"}, json.dumps({"coef": {"age": 1.0, "dose": 1.0}, "intercept": 0.0})),
        ({"age": 0.5, "dose": None}, '"coef": {"age"'),
        ({"coef": 4.0, "intercept": 0.0}, "list of numbers"),
        ({}, "it has nothing"),
    ],
)
def test_a_goal_of_another_form_is_shown_the_form(stored, words):
    with pytest.raises(GoalError, match=words):
        goal_vector(stored, "goal", ["age", "dose"], True)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("intercept", [True, False])
def test_a_student_is_what_is_read_from_the_estimator(kind, intercept):
    penalty = {"C": 2.5, "alpha": None} if kind in INVERSE else {"C": None, "alpha": 2.5}
    estimator = build_learner(kind, **penalty, intercept=intercept)
    assert build_student(kind, **penalty, intercept=intercept).as_dict() == Learner.of(estimator).as_dict()

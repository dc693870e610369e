"""The units of columns do not matter: scaled, shifted, with an intercept or a constant column the lesson is as good."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from superteach import SuperTeacher
from superteach.datasets import make_classification_pool

WEAK = 1e8
"""A penalty is in the units of the columns, whoever teaches: here it is too weak to matter."""


def taught(X, y, owner, goal):
    return SuperTeacher(LogisticRegression(C=WEAK), goal, budget=200, random_state=0).fit(X, y, groups=owner).lesson_


@pytest.mark.long(every=3)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_lesson_is_as_good_in_any_units(seed):
    """Predictions are as near to the goal's, within a factor of 2."""
    X, y, owner = make_classification_pool(4000, 8, 5, random_state=seed)
    draw = np.random.default_rng([seed, 1])
    fit = LogisticRegression(C=WEAK, tol=1e-10, solver="newton-cholesky").fit(X, y)
    goal = np.append(fit.coef_[0] + 0.3 * draw.standard_normal(8), fit.intercept_ + 0.2)
    scale, shift = 10.0 ** draw.uniform(-3, 3, 8), draw.uniform(-1e3, 1e3, 8)
    moved = np.append(goal[:-1], goal[-1] - shift @ goal[:-1])
    ways = {
        "as drawn": (X, goal),
        "scaled": (X * scale, np.append(goal[:-1] / scale, goal[-1])),
        "shifted": (X + shift, moved),
        "both": ((X + shift) * scale, np.append(moved[:-1] / scale, moved[-1])),
        "constant column": (np.column_stack([X, np.ones(len(X))]), np.insert(goal, 8, 0.0)),
    }
    lessons = {name: taught(rows, y, owner, wanted) for name, (rows, wanted) in ways.items()}
    for name, (rows, wanted) in ways.items():
        lesson = lessons[name]
        whole = np.column_stack([rows, np.ones(len(rows))])
        apart = np.sqrt(np.mean(np.square(whole @ (lesson.model - wanted))))
        assert lesson.prediction_distance == pytest.approx(apart, rel=1e-3), name
        assert lesson.prediction_distance <= 4.0 * lessons["as drawn"].prediction_distance, name
        assert lesson.prediction_distance <= 0.01 * lesson.prediction_spread, name
        assert lesson.taught, name

"""What is kept of a whole lesson: no value, score or number of a row is in it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import superteach as st
from superteach.coordinator.teach import teach
from superteach.learner import Learner
from superteach.lesson import to_json
from superteach.losses import Logistic
from tests.privacy.canaries import Watched, numbers_found, rows_found


def numbers_in(value) -> set[float]:
    """Every number in a tree of JSON."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return set().union(*map(numbers_in, inner))
    return {float(value)} if isinstance(value, int | float) and not isinstance(value, bool) else set()


@pytest.mark.long(every=5)
@pytest.mark.parametrize("far", [1.0, 40.0], ids=["within reach", "out of reach"])
@pytest.mark.parametrize("own_costs", [False, True], ids=["no costs", "own costs"])
@pytest.mark.parametrize("rounding", ["alone", "together"])
def test_no_canary_gets_into_the_lesson(pool, far, own_costs, rounding):
    """No value of a row, no row number, no cost, slope or fraction is among the numbers of a lesson that is kept."""
    X, y = pool("logistic", 600, 3, 6)
    rng = np.random.default_rng(1)
    ids = rng.choice(2**50, 600, replace=False) + 10**6
    costs = 7.0 + rng.random(600)
    parts = np.array_split(np.arange(600), 3)
    engine = Watched(
        [
            st.Teacher(f"t{i}", X[part], y[part], ids[part], costs[part] if own_costs else None)
            for i, part in enumerate(parts)
        ]
    )
    goal = far * np.array([0.6, -0.4, 0.8])
    lesson = teach(st.Federation(engine), Learner(Logistic()), goal, budget=50, method="match", rounding=rounding)
    assert (lesson.certificate is None) == (far == 1.0)
    text = to_json(lesson.as_dict())
    told = numbers_in(json.loads(text))
    private = np.concatenate([array.ravel() for array in engine.private])
    secret = {*X.ravel(), *ids.astype(float), *costs, *private[(private > 0.0) & (private < 1.0)]}
    assert len(secret) > 3000
    assert not told & {float(number) for number in secret}
    assert not set(text.split('"')) & {str(number) for number in ids}


def test_the_search_finds_what_is_there():
    """A planted value, a planted score in text and a planted list of rows are all found."""
    value, rows = 0.123456789012, np.array([3, 17, 40, 41])
    for data in (
        np.array([9.0, value]).tobytes(),
        b"x" + np.array([value]).astype(">f8").tobytes(),
        str(value).encode(),
    ):
        assert numbers_found(b"padding" + data + b"padding", np.array([value]), [])
    for data in (rows.tobytes(), rows.astype(float).tobytes(), b"[3, 17, 40, 41]", b"row\n3\n17\n40\n"):
        assert rows_found(b"padding" + data + b"padding", [rows])
    assert numbers_found(b"padding" * 9, np.array([value]), []) == rows_found(b"padding" * 9, [rows]) == []

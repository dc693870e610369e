"""Real tables on the bench: goals come from rows outside the pool, and no work is done twice."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import cheaters
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score

from superteach.learner import Learner
from superteach.losses import Logistic, Squared
from superteach_lab.compare.task import GOAL, Contestant
from superteach_lab.experiments import real_tables
from superteach_lab.experiments.real_tables import Real, Table, Wide
from superteach_lab.rivals import by_name

NAMES = ("a", "b", "c")

DATA = Path(os.environ.get("SUPERTEACH_DATA") or Path(__file__).parents[4] / "shared" / "data")


def labelled():
    draw = np.random.default_rng(3)
    X = draw.standard_normal((400, 3)) * [1.0, 10.0, 0.1]
    y = np.where(X @ [1.0, 0.1, -5.0] + draw.standard_normal(400) > 0.2, 1.0, -1.0)
    return Table(X, y, np.array(["north", "south", "west", "east"] * 100), NAMES)


def measured():
    table = labelled()
    return table._replace(y=table.X @ [1.0, 0.1, -5.0] + np.random.default_rng(4).standard_normal(400))


CLASSES = Real(
    "tiny", "a tiny table", labelled, Learner(Logistic(), 1.0, "free"), 100, 60, (12, 24), (2,), "Made here.",
    dropped=NAMES, home=("north", "south"),
)  # fmt: skip
NUMBERS = replace(CLASSES, load=measured, learner=Learner(Squared(), 1.0, "free"), dropped=(), home=(), teachers=(4,))


def other_rows(source, number):
    """The rows that a goal is found on, drawn as the source draws them."""
    table, pool, others = real_tables.split(source)
    some = np.random.default_rng(100 + number).choice(others, source.other, replace=False)
    assert not set(some) & set(pool)
    return table.X[some], table.y[some]


def test_a_pool_of_some_owners_has_the_same_number_of_rows_from_each():
    table, pool, others = real_tables.split(CLASSES)
    assert sorted(table.owner[pool]) == ["north"] * 50 + ["south"] * 50
    assert set(table.owner[others]) == {"west", "east"}
    assert CLASSES.referee(2, 0, 1.0).rows == 100


def test_goals_of_a_classifier_are_fits_fits_without_a_column_and_rankings():
    """Against scikit-learn's fit on the same rows."""
    for number in range(10):
        X, y = other_rows(CLASSES, number)
        goal = CLASSES.referee(2, number, 1.0).goal
        if number % 3 < 2:
            model = LogisticRegression(tol=1e-10, max_iter=10_000, solver="newton-cholesky").fit(X, y)
            expected = np.append(model.coef_[0], model.intercept_)
            if number % 3 == 1:
                expected[number // 3] = 0.0
            assert goal == pytest.approx(expected, rel=1e-5, abs=1e-7)
        else:
            fitted = LogisticRegression().fit(X, y).decision_function(X)
            assert roc_auc_score(y, X @ goal[:-1]) > roc_auc_score(y, fitted) - 0.02


def test_goals_of_a_regression_are_fits_with_other_penalties_and_more_noise():
    goals = [NUMBERS.referee(4, number, 1.0).goal for number in range(10)]
    assert len({tuple(goal) for goal in goals}) == 10
    for number, goal in enumerate(goals):
        X, y = other_rows(NUMBERS, number)
        model = Ridge(alpha=10.0 ** (number // 3 + 1) if number % 3 == 1 else 1.0).fit(X, y)
        if number % 3 == 2:  # noise of standard deviation 10 on 60 rows, seen by 4 coefficients
            apart = X @ goal[:-1] + goal[-1] - model.predict(X)
            assert 0.5 < np.sqrt(np.mean(np.square(apart))) < 6.0
        else:
            assert goal == pytest.approx(np.append(model.coef_, model.intercept_), rel=1e-6, abs=1e-8)


def test_a_run_goes_on_and_chooses_once_for_all_goals(tmp_path):
    """Whoever does not see the goal has one time for all goals; nothing that is stored is done again."""
    chosen = by_name(["random", "bit-flip", "full pool"])
    real_tables.run(CLASSES, chosen, 2, tmp_path)
    place = real_tables.stored(CLASSES, tmp_path)
    first = place.read_bytes()
    real_tables.run(CLASSES, chosen, 3, tmp_path)
    assert place.read_bytes().startswith(first)
    head, *cells = map(json.loads, place.read_text().splitlines())
    assert head == {"settings": real_tables.settings(CLASSES)}
    assert len(cells) == 3 * (2 + 2 + 1)
    assert {one["status"] for one in cells} == {"ok"}
    times = {(one["cell"]["contestant"], one["cell"]["size"], one["cpu"]) for one in cells[: len(cells) * 2 // 3]}
    assert len([name for name, _, _ in times if name == "random"]) == 2
    assert len([name for name, _, _ in times if name == "bit-flip"]) == 4
    risks = [one["risk"] for one in cells if one["cell"]["contestant"] == "random" and one["cell"]["size"] == 12]
    assert len(set(risks)) == 3


def test_whoever_is_stopped_is_not_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(real_tables, "SECONDS", 1.0)
    toiler = Contestant("toiler", "a test", (GOAL,), cheaters.toil)
    for _ in range(2):
        real_tables.run(CLASSES, [toiler], 3, tmp_path)
        _, *cells = map(json.loads, real_tables.stored(CLASSES, tmp_path).read_text().splitlines())
        (cell,) = cells
        assert (cell["cell"]["size"], cell["cell"]["seed"]) == (12, 0)
        assert cell["reason"].startswith(real_tables.STOPPED)


def test_whoever_takes_long_is_tried_on_few_goals(tmp_path, monkeypatch):
    """But whoever chooses once for all goals is scored on all of them."""
    monkeypatch.setattr(real_tables, "LONG", 0.0)
    for seeds in (5, 6):
        real_tables.run(CLASSES, by_name(["random", "bit-flip"]), seeds, tmp_path)
        _, *cells = map(json.loads, real_tables.stored(CLASSES, tmp_path).read_text().splitlines())
        found = [(one["cell"]["contestant"], one["cell"]["seed"]) for one in cells]
        assert {seed for name, seed in found if name == "bit-flip"} == {0, 1, 2}
        assert {seed for name, seed in found if name == "random"} == set(range(seeds))


def test_wide_goals_are_moved_by_a_share_of_their_length():
    source = Wide(6, 400, 0.1, 0.3, (2,))
    referee = source.referee(2, 1, 1.0)
    X, labels, _ = real_tables.make_classification_pool(400, 6, 2, 1)
    model = LogisticRegression(C=1.0 / 0.08, fit_intercept=False, tol=1e-10).fit(X, labels).coef_[0]
    assert np.linalg.norm(referee.goal - model) == pytest.approx(0.3 * np.linalg.norm(model), rel=1e-4)
    assert source.sizes == (40,)


@pytest.mark.skipif(
    not DATA.is_dir(), reason=f"{DATA} is not there; set SUPERTEACH_DATA to the folder of published tables"
)
@pytest.mark.parametrize("source", [one for one in real_tables.SOURCES if isinstance(one, Real)])
def test_the_published_tables_are_there(source, monkeypatch):
    monkeypatch.setenv("SUPERTEACH_DATA", str(DATA))
    table, pool, others = real_tables.split(source)
    assert (len(pool), len(set(pool) & set(others))) == (source.rows, 0)
    assert len(others) >= source.other
    assert set(source.dropped) <= set(table.names)
    real_tables.split.cache_clear()

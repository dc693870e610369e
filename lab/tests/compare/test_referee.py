"""The referee believes nobody: it measures by itself, and nothing a contestant does reaches its data."""

from __future__ import annotations

import os
import re
import time

import cheaters
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score

from superteach.errors import SettingError
from superteach.goals import PerturbedFit
from superteach_lab.compare.referee import Referee
from superteach_lab.compare.task import Contestant
from superteach_lab.rivals import ALL, by_name

ROWS, SIZE = 60, 20


@pytest.fixture(scope="module")
def data():
    draw = np.random.default_rng(5)
    X = draw.standard_normal((ROWS, 3))
    y = np.where(X @ [1.0, -1.0, 0.5] + draw.standard_normal(ROWS) > 0.0, 1.0, -1.0)
    return X, y, np.arange(ROWS) % 3, np.array([0.5, 1.0, -1.0])


@pytest.fixture(scope="module")
def referee(data):
    X, y, owner, goal = data
    return Referee(X, y, owner, LogisticRegression(fit_intercept=False), goal, seconds=30.0)


def test_scores_are_scikit_learns_refit(data, referee):
    """Risk and consistency against a refit that shares no code with ours."""
    X, y, _, goal = data
    rows = np.random.default_rng(1).permutation(ROWS)[:SIZE]
    model = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=1000).fit(X[rows], y[rows]).coef_[0]
    score = referee.score(rows)
    assert score.risk == pytest.approx(np.linalg.norm(model - goal), rel=1e-6)
    assert score.consistency == np.mean((X @ model > 0) == (X @ goal > 0))
    assert (score.size, score.share) == (SIZE, SIZE / ROWS)


def test_scores_of_a_regression_with_an_intercept():
    draw = np.random.default_rng(2)
    X, y = draw.standard_normal((ROWS, 3)), draw.standard_normal(ROWS)
    goal, rows = np.array([1.0, 2.0, 3.0, -1.0]), np.arange(0, ROWS, 2)
    found = Referee(X, y, np.zeros(ROWS), Ridge(alpha=2.0), goal).score(rows)
    model = Ridge(alpha=2.0).fit(X[rows], y[rows])
    assert found.risk == pytest.approx(np.linalg.norm(np.append(model.coef_, model.intercept_) - goal))
    assert found.consistency == pytest.approx(r2_score(X @ goal[:3] + goal[3], model.predict(X)))


@pytest.mark.parametrize(
    "cheat", [cheaters.ALTER, cheaters.OVERWRITE, cheaters.PATCH], ids=lambda one: one.name
)
def test_nobody_reaches_the_scorers_data(data, referee, cheat):
    """Whatever is tried in the contestant's process, the choice is worth what it was worth before."""
    honest = referee.score(np.arange(SIZE))
    score = referee.judge(cheat, SIZE, 0)
    assert (score.status, score.reason) == ("ok", "")
    assert (score.risk, score.consistency) == (honest.risk, honest.consistency)
    assert referee.score(np.arange(SIZE)) == honest
    assert np.array_equal(referee.goal, data[3])


def test_the_referee_keeps_copies(data):
    """Whoever handed the arrays in cannot change the scores later either."""
    X, y, owner, goal = (values.copy() for values in data)
    referee = Referee(X, y, owner, LogisticRegression(fit_intercept=False), goal)
    before = referee.score(np.arange(SIZE))
    X[:], y[:], goal[:] = 0.0, -y, 0.0
    assert referee.score(np.arange(SIZE)) == before


def test_the_goal_is_shown_only_to_those_who_declare_it(referee):
    assert referee.judge(cheaters.PEEK, SIZE, 0).status == "ok"


@pytest.mark.parametrize(
    ("choose", "words"), cheaters.FAULTS.items(), ids=lambda one: getattr(one, "__name__", "")
)
def test_a_wrong_choice_is_named_and_not_scored(referee, choose, words):
    score = referee.judge(Contestant("wrong", "a test", (), choose), SIZE, 0)
    assert score.status == "failed"
    assert score.risk is None
    assert re.search(words, score.reason), score.reason


def test_a_choice_of_one_class_is_not_scored(data, referee):
    rows = np.flatnonzero(data[1] > 0)[:5]
    assert referee.score(rows).status == "failed"
    assert "single class" in referee.score(rows).reason


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie counts: nobody may be left to collect it)."""
    for _ in range(100):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def test_who_takes_too_long_is_stopped_with_all_its_children(data, tmp_path, monkeypatch):
    X, y, owner, goal = data
    referee = Referee(X, y, owner, LogisticRegression(fit_intercept=False), goal, seconds=2.0, grace=2.0)
    started = time.monotonic()
    score = referee.judge(_with_place(tmp_path / "pid"), SIZE, 0)
    assert time.monotonic() - started < 30.0
    assert score.status == "failed"
    assert "no choice within 4 seconds" in score.reason
    assert gone(int((tmp_path / "pid").read_text()))


class _Placed:
    """cheaters.sleep_with_a_child, told where to write its child's number."""

    def __init__(self, place):
        self.place = place

    def __call__(self, task, size, seed):
        os.environ["CHEATER_PID"] = self.place
        cheaters.sleep_with_a_child(task, size, seed)


def _with_place(place):
    return Contestant("sleeper", "a test", (), _Placed(str(place)))


def test_a_refusal_is_a_reason_not_a_failure(referee):
    wanted = Contestant("shy", "a test", (), cheaters.fail, refuses=_too_large)
    score = referee.judge(wanted, SIZE, 0)
    assert (score.status, score.reason) == ("skipped", "too large for me")


def _too_large(task, size):
    return "too large for me"


def test_goals_may_be_fitted(data):
    X, y, owner, _ = data
    learner = LogisticRegression(fit_intercept=False, tol=1e-10)
    referee = Referee(X, y, owner, learner, PerturbedFit(100))
    pool = learner.fit(X, y).coef_[0]
    assert np.linalg.norm(referee.goal - pool) == pytest.approx(np.linalg.norm(pool), rel=1e-5)


def test_names_are_distinct_and_unknown_ones_refused():
    assert len({one.name for one in ALL}) == len(ALL)
    assert [one.name for one in by_name(["match", "random"])] == ["random", "match"]
    with pytest.raises(SettingError, match="'best' is not known; there are full pool"):
        by_name(["best"])

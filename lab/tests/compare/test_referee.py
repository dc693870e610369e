"""The referee believes nobody: it measures by itself, and nothing a contestant does reaches its data."""

from __future__ import annotations

import os
import re
import time

import cheaters
import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score

from superteach.exceptions import SettingError
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
    assert score.distance == pytest.approx(np.sqrt(np.mean(np.square(X @ (model - goal)))), rel=1e-6)
    assert score.spread == pytest.approx(np.std(X @ goal))


def test_scores_of_a_regression_with_an_intercept():
    draw = np.random.default_rng(2)
    X, y = draw.standard_normal((ROWS, 3)), draw.standard_normal(ROWS)
    goal, rows = np.array([1.0, 2.0, 3.0, -1.0]), np.arange(0, ROWS, 2)
    found = Referee(X, y, np.zeros(ROWS), Ridge(alpha=2.0), goal).score(rows)
    model = Ridge(alpha=2.0).fit(X[rows], y[rows])
    assert found.risk == pytest.approx(np.linalg.norm(np.append(model.coef_, model.intercept_) - goal))
    assert found.consistency == pytest.approx(r2_score(X @ goal[:3] + goal[3], model.predict(X)))


@pytest.mark.parametrize("cheat", [cheaters.ALTER, cheaters.OVERWRITE, cheaters.PATCH], ids=lambda one: one.name)
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


@pytest.mark.parametrize(("choose", "words"), cheaters.FAULTS.items(), ids=lambda one: getattr(one, "__name__", ""))
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


def test_who_uses_too_much_processor_time_is_stopped(data):
    """Whatever the clock says: sleeping uses none of it."""
    X, y, owner, goal = data
    referee = Referee(X, y, owner, LogisticRegression(fit_intercept=False), goal, processor=0.5)
    score = referee.judge(Contestant("toiler", "a test", (), cheaters.toil), SIZE, 0)
    assert (score.status, score.risk) == ("failed", None)
    assert score.reason == "no choice within 0.5 seconds of processor time; stopped"
    assert 0.4 < score.cpu < 5.0
    assert referee.judge(Contestant("napper", "a test", (), cheaters.nap), SIZE, 0).status == "ok"


class _Placed:
    """cheaters.sleep_with_a_child, told where to write its child's number."""

    def __init__(self, place):
        self.place = place

    def __call__(self, task, size, seed):
        os.environ["CHEATER_PID"] = self.place
        cheaters.sleep_with_a_child(task, size, seed)


def _with_place(place):
    return Contestant("sleeper", "a test", (), _Placed(str(place)))


def test_whoever_does_not_see_the_goal_is_scored_on_every_goal(data, referee):
    """One choice, measured by two referees over the same rows, is what each of them judges by itself."""
    X, y, owner, goal = data
    other = Referee(X, y, owner, LogisticRegression(fit_intercept=False), -goal, seconds=30.0)
    (random,) = by_name(["random"])
    choice = referee.choose(random, SIZE, 0)
    for judge in (referee, other):
        assert judge.measure(choice, SIZE).risk == judge.judge(random, SIZE, 0).risk


@pytest.mark.parametrize("length", [0.3, 3.0, 30.0])
def test_match_proves_what_a_linear_programme_finds(data, length):
    """A proof is accepted where no fractions of rows add up to the goal's pull, and there is none elsewhere."""
    X, y, owner, goal = data
    referee = Referee(X, y, owner, LogisticRegression(fit_intercept=False), length * goal, seconds=30.0)
    pulls = X * (y / (1.0 + np.exp(y * (X @ (length * goal)))))[:, None]
    sums, total = np.vstack([pulls.T, np.ones(ROWS)]), np.append(length * goal, SIZE)
    possible = linprog(np.zeros(ROWS), A_eq=sums, b_eq=total, bounds=(0.0, 1.0)).status == 0
    score = referee.judge(by_name(["match"])[0], SIZE, 0)
    assert score.status == "ok"
    assert score.out_of_reach != possible


def test_a_claim_without_a_proof_is_not_believed(referee):
    wanted = Contestant("liar", "a test", (), cheaters.prove_nothing)
    score = referee.judge(wanted, SIZE, 0)
    assert (score.status, score.out_of_reach) == ("ok", False)
    for wrong in (None, "a proof", np.ones(2), np.full(4, np.nan), np.array(["a"] * 4), np.zeros(4)):
        assert not referee.proves(wrong, SIZE)


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

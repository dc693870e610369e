"""A lesson beside as many random rows: what scikit-learn makes of the same draws, and what is said of it."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import fmean

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from superteach import Lesson, SuperTeacher, compare_with_random
from superteach.exceptions import DataError, SettingError
from superteach.goals import PerturbedFit
from superteach.local import DRAWS, draw_rows
from superteach.teacher import large, paged
from tests.report.reports import read

ROWS, SIZE = 300, 25
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((ROWS, 4))
SCORE = X @ [1.0, -1.0, 0.5, 0.0] + 0.7 * RANDOM.standard_normal(ROWS)
ILL = np.where(SCORE > 0.0, "ill", "well")
WEIGHTS = RANDOM.uniform(0.5, 2.0, ROWS)
LEARNERS = {
    "classes": (LogisticRegression(tol=1e-10, max_iter=1000), ILL),
    "many classes": (LogisticRegression(tol=1e-10, max_iter=1000), np.digitize(SCORE, [-0.6, 0.6])),
    "weights by class": (LogisticRegression(tol=1e-10, class_weight={"ill": 3.0, "well": 1.0}), ILL),
    "svc": (LinearSVC(tol=1e-10, max_iter=100_000), SCORE > 0.0),
    "ridge classifier": (RidgeClassifier(), ILL),
    "ridge": (Ridge(2.0), SCORE),
    "no penalty": (LinearRegression(), SCORE),
    "targets": (Ridge(2.0), np.column_stack([SCORE, X[:, 3] - SCORE**2])),
    "poisson": (PoissonRegressor(tol=1e-12, max_iter=10_000), RANDOM.poisson(np.exp(0.4 * SCORE))),
}  # fmt: skip


def lesson_of(learner, y, table=X, **given) -> Lesson:
    return SuperTeacher(learner, PerturbedFit(1), budget=SIZE, random_state=7, **given).fit(table, y).lesson_


def refits(learner, y, table=X, weights=None):
    """scikit-learn's own fits on the rows of each draw."""
    for number in range(DRAWS):
        rows = draw_rows(ROWS, SIZE, 7, number)
        more = {} if weights is None else {"sample_weight": weights[rows]}
        yield clone(learner).fit(table[rows], y[rows], **more)


def vector(model) -> np.ndarray:
    slope = np.atleast_2d(model.coef_)
    return np.column_stack([slope, np.broadcast_to(model.intercept_, len(slope))]).squeeze()


@pytest.mark.parametrize("case", LEARNERS)
def test_draws_are_those_of_scikit_learn(case):
    """Risk, distance of predictions and agreement of every draw, from scikit-learn's fits on the same rows."""
    learner, y = LEARNERS[case]
    lesson = compare_with_random(lesson_of(learner, y), X, y)
    drawn = lesson.random_rows
    assert len(drawn.risk) == DRAWS
    assert drawn.without_model == 0
    ones = np.column_stack([X, np.ones(ROWS)])
    wanted = ones @ lesson.goal.T
    for number, model in enumerate(refits(learner, y)):
        scores = ones @ vector(model).T
        assert drawn.risk[number] == pytest.approx(np.linalg.norm(vector(model) - lesson.goal), rel=1e-5)
        missed = (scores - wanted).reshape(ROWS, -1)
        assert drawn.prediction_distance[number] == pytest.approx(np.sqrt((missed**2).sum(1).mean()), rel=1e-5)
        same = (scores > 0) == (wanted > 0) if scores.ndim == 1 else scores.argmax(1) == wanted.argmax(1)
        if not lesson.classifies:
            same = 1.0 - (missed**2).sum(1) / (((wanted - wanted.mean(0)) ** 2).sum() / ROWS)
        assert drawn.agreement[number] == pytest.approx(np.mean(same), abs=1e-5 if lesson.classifies else 1e-4)


def test_weights_and_pipelines():
    """Rows weigh what they weighed in the lesson; transformers are the fitted ones of its model."""
    learner = LogisticRegression(tol=1e-10)
    weighted = SuperTeacher(learner, np.ones(5), budget=SIZE, random_state=7).fit(X, ILL, sample_weight=WEIGHTS).lesson_
    found = compare_with_random(weighted, X, ILL, WEIGHTS).random_rows.risk
    assert found == pytest.approx(
        [np.linalg.norm(vector(model) - 1.0) for model in refits(learner, ILL, X, WEIGHTS)], rel=1e-5
    )
    with pytest.raises(DataError, match=r"weighted rows.*sample_weight"):
        compare_with_random(weighted, X, ILL)
    table = pd.DataFrame({"age": 40 + 9 * X[:, 0], "dose": X[:, 1], "ward": np.where(X[:, 2] > 0, "east", "west")})
    columns = make_column_transformer((StandardScaler(), ["age", "dose"]), (OneHotEncoder(drop="first"), ["ward"]))
    lesson = lesson_of(make_pipeline(columns, learner), ILL, table)
    behind = columns.fit_transform(table)
    expected = [np.linalg.norm(vector(model) - lesson.goal) for model in refits(learner, ILL, behind)]
    assert compare_with_random(lesson, table, ILL).random_rows.risk == pytest.approx(expected, rel=1e-5)


def test_one_seed_gives_the_same_draws_of_any_table():
    """Arrays, sparse rows, data frames; another seed gives others."""
    y = (SCORE > 0.0).astype(int)
    lesson = lesson_of(LogisticRegression(), y)
    first = compare_with_random(lesson, X, y)
    for table in (sparse.csr_array(X), pd.DataFrame(X), pl.DataFrame(X), X.tolist()):
        same = compare_with_random(lesson, table, y).random_rows
        np.testing.assert_allclose(same.risk, first.random_rows.risk, rtol=1e-9)
    spoken_for_first = replace(lesson, classes=lesson.classes[::-1], goal=-lesson.goal, model=-lesson.model)
    np.testing.assert_allclose(compare_with_random(spoken_for_first, X, y).random_rows.risk, first.random_rows.risk)
    other = compare_with_random(lesson, X, y, draws=5, random_state=8).random_rows
    assert len(other.risk) == 5
    assert not set(other.risk) & set(first.random_rows.risk)


def test_rows_on_disk_are_drawn_as_those_in_memory(tmp_path, monkeypatch):
    """Several chunks of one table, one owner: a draw takes the rows with the same numbers."""
    monkeypatch.setattr(large, "PART", 70)
    monkeypatch.setattr(paged, "_SMALL", 1)
    y = (SCORE > 0.0).astype(int)
    pd.DataFrame(X, columns=list("abcd")).assign(y=y).to_parquet(tmp_path / "rows.parquet")
    lesson = compare_with_random(lesson_of(LogisticRegression(), "y", tmp_path), tmp_path, "y")
    again = compare_with_random(replace(lesson, model_=None), pd.DataFrame(X, columns=list("abcd")), y)
    np.testing.assert_allclose(again.random_rows.risk, lesson.random_rows.risk, rtol=1e-6)
    assert again.random_rows.agreement == lesson.random_rows.agreement


def test_draws_of_one_class_are_counted_and_others_take_their_place(tmp_path):
    """Five ill of 300: most draws of 25 rows have none of them. With one ill row in few rows there is no model at all."""
    y = np.zeros(ROWS, dtype=int)
    y[np.argsort(SCORE)[-5:]] = 1
    lesson = compare_with_random(lesson_of(LogisticRegression(), y), X, y)
    numbers = range(DRAWS + lesson.random_rows.without_model)
    both = [len(set(y[draw_rows(ROWS, SIZE, 7, number)])) == 2 for number in numbers]
    assert sum(both) == len(lesson.random_rows.risk) == DRAWS
    assert lesson.random_rows.without_model > 0
    assert f"in 20 draws; {lesson.random_rows.without_model} more had no model" in repr(lesson)
    rare = np.arange(ROWS) == 0
    few = SuperTeacher(LogisticRegression(), np.ones(5), budget=2).fit(X, rare).lesson_
    found = compare_with_random(few, X, rare, draws=1)
    assert found.random_rows.risk == ()
    assert "no model belongs to any of 10 draws" in repr(found)
    found.report(tmp_path)
    assert "no model belongs to any of 10 draws" in (tmp_path / "report.html").read_text()


def test_a_lesson_of_all_rows_needs_one_draw():
    """There is one way to draw them."""
    lesson = SuperTeacher(Ridge(), PerturbedFit(1), budget=1.0).fit(X, SCORE).lesson_
    drawn = compare_with_random(lesson, X, SCORE).random_rows
    assert drawn.risk == pytest.approx([lesson.pool_risk], rel=1e-6)


def test_it_is_shown_stored_and_read_again(tmp_path):
    """Mean and range stand in repr and report; lesson.json has every draw."""
    learner, y = LEARNERS["ridge"]
    bare = lesson_of(learner, y)
    assert bare.random_rows is None
    assert "random" not in repr(bare) + bare.verdict
    lesson = compare_with_random(bare, X, y)
    drawn = lesson.random_rows
    mean, least, most = (f"{one:.2f}" for one in (np.mean(drawn.agreement), min(drawn.agreement), max(drawn.agreement)))
    assert f"random rows: mean {mean} ({least} to {most} in 20 draws)" in repr(lesson)
    lesson.save(tmp_path)
    lesson.report(tmp_path)
    assert Lesson.load(tmp_path).random_rows == drawn
    assert json.loads((tmp_path / "lesson.json").read_text())["random_rows"]["risk"] == list(drawn.risk)
    page = read((tmp_path / "report.html").read_text())
    rows = page.table("trained on", "rows", "r²", "predictions apart", "coefficients apart")
    shown = [float(cell.split(" ")[0]) for cell in rows[-1][2:]]
    assert shown == [fmean(one) for one in (drawn.agreement, drawn.prediction_distance, drawn.risk)]


def test_fit_itself_draws_no_rows():
    """The comparison is outside of the lesson, its rounds and its time."""
    lesson = lesson_of(*LEARNERS["classes"])
    assert not {entry.stage for entry in lesson.ledger} & {"random rows"}
    assert compare_with_random(lesson, X, ILL).ledger == lesson.ledger


def test_what_cannot_be_compared_is_refused():
    """Private lessons, other rows than the lesson's, and a loss that nothing stored describes."""
    lesson = lesson_of(*LEARNERS["classes"])
    private = SuperTeacher(LogisticRegression(), np.ones(5), budget=SIZE, privacy="isolated").fit(X, ILL)
    for one in (private.lesson_, private.measured_):
        with pytest.raises(SettingError, match=r"privacy='isolated'.*leave their owners"):
            compare_with_random(one, X, ILL)
    with pytest.raises(DataError, match=r"X has 299 rows.*chosen from 300"):
        compare_with_random(lesson, X[1:], ILL[1:])
    with pytest.raises(DataError, match=r"X has the columns '0', '1', '2', and the lesson '0', '1', '2', '3'"):
        compare_with_random(lesson, X[:, :3], ILL)
    with pytest.raises(DataError, match=r"y has labels \['a', 'b'\], and the lesson \['ill', 'well'\]"):
        compare_with_random(lesson, X, np.where(ILL == "ill", "a", "b"))
    with pytest.raises(DataError, match="rows of weight 1"):
        compare_with_random(lesson, X, ILL, WEIGHTS)
    for given, name in (({"draws": 0}, "draws"), ({"random_state": -1}, "random_state")):
        with pytest.raises(SettingError, match=name):
            compare_with_random(lesson, X, ILL, **given)


def test_all_rows_that_come_nearer_are_recommended():
    """A goal out of reach of few rows, near the fit on all: the lesson says to train on all, and only then."""
    learner = LogisticRegression(tol=1e-10)
    goal = 1.02 * vector(LogisticRegression(C=20.0).fit(X, ILL))
    far = SuperTeacher(learner, goal, budget=4).fit(X, ILL).lesson_
    assert far.pool_distance < far.prediction_distance
    assert "all rows come nearer than this lesson: train on all of them" in far.verdict
    near = SuperTeacher(learner, goal, budget=60).fit(X, ILL).lesson_
    assert near.prediction_distance < near.pool_distance
    assert "train on all" not in near.verdict
    own = SuperTeacher(learner, learner.fit(X, ILL), budget=100).fit(X, ILL).lesson_
    assert own.pool_distance < own.prediction_distance
    assert own.taught
    assert "train on all" not in own.verdict  # near enough: a small lesson is what was wanted
    by_coefficients = replace(far, settings={**far.settings, "measure": "coefficients"})
    assert ("train on all" in by_coefficients.verdict) == (far.pool_risk < far.risk)
    private = SuperTeacher(learner, goal, budget=6, privacy="isolated").fit(X, ILL)
    assert private.measured_.pool_distance < private.measured_.prediction_distance
    assert "train on all" not in private.lesson_.verdict + private.measured_.verdict

"""Which label is positive: the signs of goals, models and bounds follow it, and every lesson says it."""

from __future__ import annotations

import html
import json
import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.svm import LinearSVC

from superteach import Lesson, SuperTeacher
from superteach.datasets import make_classification_pool
from superteach.exceptions import GoalError, SettingError
from superteach.goals import FromData, MaxAUC, PerturbedFit, Within

X, SIGN, OWNER = make_classification_pool(rows=400, teachers=3)
X = X[:, :4]
Y = np.where(SIGN > 0, "case", "control")  # scikit-learn's positive label is "control"
FOR_CASE = np.array([1.0, -0.5, 0.3, 0.2, 0.1])
TIGHT = {"tol": 1e-12, "max_iter": 100_000}


def teach(goal, y=Y, estimator=None, **given):
    given = {"budget": 60, "method": "random", **given}
    return SuperTeacher(estimator or LogisticRegression(), goal, **given).fit(X, y, groups=OWNER)


def written(**more):
    return {"coef": FOR_CASE[:-1].tolist(), "intercept": 0.1, **more}


@pytest.mark.parametrize("method", ["match", "dual", "random"])
@pytest.mark.parametrize("learner", [LogisticRegression(), LinearSVC(), RidgeClassifier()], ids=repr)
def test_a_goal_for_case_teaches_case(method, learner):
    """By the parameter, by the goal's own word, or by signs turned by hand: the same rows, the same predictions."""
    by_hand = teach(-FOR_CASE, method=method, estimator=learner)
    for teacher in (
        teach(FOR_CASE, method=method, estimator=learner, positive="case"),
        teach(written(positive="case"), method=method, estimator=learner),
        teach(written(positive="case"), method=method, estimator=learner, positive="control"),
    ):
        np.testing.assert_array_equal(teacher.sample_indices_, by_hand.sample_indices_)
        np.testing.assert_array_equal(teacher.classes_, ["case", "control"])
        np.testing.assert_allclose(teacher.coef_, by_hand.coef_, atol=1e-7)
        np.testing.assert_allclose(teacher.intercept_, by_hand.intercept_, atol=1e-7)
        np.testing.assert_array_equal(teacher.predict(X), by_hand.predict(X))
        np.testing.assert_array_equal(teacher.model_.predict(X), by_hand.predict(X))
        np.testing.assert_allclose(teacher.decision_function(X), teacher.model_.decision_function(X))
        sign = 1.0 if teacher.lesson_.positive == "case" else -1.0
        np.testing.assert_allclose(teacher.lesson_.goal, sign * FOR_CASE)
        np.testing.assert_allclose(sign * teacher.lesson_.coef, -teacher.coef_[0])
    if isinstance(learner, LogisticRegression):
        np.testing.assert_allclose(teacher.predict_proba(X), teacher.model_.predict_proba(X))
    copied = pickle.loads(pickle.dumps(teacher))
    np.testing.assert_array_equal(copied.predict(X), by_hand.predict(X))


def test_the_default_is_the_larger_label_and_is_said():
    teacher = teach(FOR_CASE)
    assert teacher.lesson_.positive == "control"
    np.testing.assert_allclose(teacher.lesson_.coef, teacher.coef_[0])
    assert "positive 'control'" in repr(teacher.lesson_)


def test_a_lesson_says_it_in_every_form(tmp_path):
    lesson = teach(FOR_CASE, positive="case", method="match").lesson_
    lesson.save(tmp_path / "lesson.json")
    assert json.loads((tmp_path / "lesson.json").read_text())["positive"] == "case"
    assert Lesson.load(tmp_path / "lesson.json").positive == "case"
    lesson.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "positive label is <strong>case</strong>" in page
    assert "positive='case'" in html.unescape(page)  # among the lines that repeat it
    assert "case" in lesson._repr_html_()


def test_goals_that_know_their_labels_mean_the_same_whatever_is_positive():
    """Fitted models, fits on all rows and on rows of one's own, and the model that orders."""
    fitted = LogisticRegression(**TIGHT).fit(X, Y)
    for goal in (fitted, FromData(X[:200], Y[:200]), MaxAUC()):
        plain, turned = (teach(goal, positive=positive).lesson_.goal for positive in (None, "case"))
        np.testing.assert_allclose(turned, -plain, atol=1e-7)
    expected = np.append(fitted.coef_, fitted.intercept_)
    np.testing.assert_allclose(teach(fitted, positive="case").lesson_.goal, -expected)
    private = teach(FromData(X, Y), positive="case", method="match", privacy="isolated").lesson_.goal
    np.testing.assert_allclose(private, -expected, atol=1e-6)


def test_bounds_are_about_the_positive_label():
    """A sign that is asked for holds for the label that was named."""
    lesson = teach(Within(at_most={0: -1.0}), positive="case").lesson_
    assert lesson.goal[0] <= -1.0 + 1e-9
    assert lesson.pool_model[0] == pytest.approx(-LogisticRegression(**TIGHT).fit(X, Y).coef_[0, 0], abs=1e-6)


def test_a_perturbed_fit_is_around_the_positive_label_s_model():
    lesson = teach(PerturbedFit(3), positive="case").lesson_
    full = LogisticRegression(**TIGHT).fit(X, Y)
    truth = -np.append(full.coef_, full.intercept_)
    assert np.linalg.norm(lesson.goal - truth) == pytest.approx(np.linalg.norm(truth), rel=1e-6)


@pytest.mark.parametrize(("y", "label"), [(2 * SIGN - 1, -1), (SIGN, 0), (SIGN > 0, False), (SIGN - 0.0, "0")])
def test_labels_of_other_types(y, label):
    """Numbers, truth values, and numbers as a command line writes them."""
    lesson = teach(FOR_CASE, y, positive=label).lesson_
    assert lesson.positive == np.unique(y).tolist()[0]
    np.testing.assert_allclose(lesson.pool_model, -teach(-FOR_CASE, y).lesson_.pool_model, atol=1e-7)


WRONG = {
    "cas": (SettingError, {"goal": FOR_CASE, "positive": "cas"}, "did you mean 'case'"),
    "goal": (GoalError, {"goal": written(positive="ill")}, r"'ill'.*\['case', 'control'\]"),
    "classes": (GoalError, {"goal": written(classes=["ill", "well"])}, "well"),
    "regression": (SettingError, {"goal": FOR_CASE, "y": SIGN, "estimator": Ridge(), "positive": 1}, "numbers"),
    "many": (SettingError, {"goal": np.ones((4, 5)), "y": np.arange(400) % 4, "positive": 1}, "two labels"),
}


@pytest.mark.parametrize("case", WRONG)
def test_labels_that_are_none(case):
    kind, given, words = WRONG[case]
    with pytest.raises(kind, match=words):
        teach(**given)


def test_what_a_goal_file_holds_is_a_goal_in_python():
    """Also a written model, whose classes say which label is positive."""
    for goal in (
        written(positive="case"),
        written(classes=["control", "case"]),
        {**written(positive="case"), "coef": FOR_CASE[:-1]},
        {**written(positive="case"), "coef": tuple(FOR_CASE[:-1])},
        {**written(positive="case"), "coef": dict(enumerate(FOR_CASE[:-1]))},
    ):
        lesson = teach(goal).lesson_
        assert lesson.positive == "case"
        np.testing.assert_array_equal(lesson.goal, FOR_CASE)
    with pytest.raises(GoalError, match="intercept"):
        teach({"coef": FOR_CASE[:-1]})
    with pytest.raises(GoalError, match="3 coefficients"):
        teach({"coef": FOR_CASE[:3], "intercept": 0.0})


def test_rows_on_disk_have_a_positive_label_too(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({**{f"x{i}": X[:, i] for i in range(4)}, "y": Y}), tmp_path / "rows.parquet")
    given = {"budget": 60, "method": "dual", "positive": "case"}
    stored = SuperTeacher(LogisticRegression(), FOR_CASE, **given).fit(str(tmp_path / "rows.parquet"), "y")
    held = SuperTeacher(LogisticRegression(), FOR_CASE, **given).fit(X, Y)
    np.testing.assert_allclose(stored.lesson_.pool_model, held.lesson_.pool_model, atol=1e-8)
    assert stored.lesson_.positive == "case"

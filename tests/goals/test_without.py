"""The fit on all rows without some columns: scikit-learn's fit on a table that does not have them is the oracle."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import LinearSVC

from superteach import SuperTeacher
from superteach.exceptions import GoalError
from superteach.goals import Without

RNG = np.random.default_rng(0)
ROWS = 300
X = RNG.standard_normal((ROWS, 5)) * [1.0, 10.0, 0.1, 1.0, 3.0] + [0.0, 5.0, 1.0, 0.0, 0.0]
SCORE = X @ [1.0, 0.1, 5.0, -0.5, 0.2] - 5.0 + RNG.standard_normal(ROWS)
LABEL, COUNT, MANY = SCORE > 0.0, RNG.poisson(np.exp(0.3 * X[:, 0])), np.digitize(SCORE, [-1.0, 1.0])
OWNER = np.arange(ROWS) % 3
TIGHT = {"tol": 1e-12, "max_iter": 1_000_000}
LEARNERS = [
    (LogisticRegression(**TIGHT), LABEL), (LogisticRegression(fit_intercept=False, **TIGHT), LABEL),
    (LinearSVC(dual=False, **TIGHT), LABEL), (RidgeClassifier(), LABEL), (Ridge(), SCORE), (LinearRegression(), SCORE),
    (PoissonRegressor(**TIGHT), COUNT),
    (LogisticRegression(solver="newton-cholesky", **TIGHT), MANY),
]  # fmt: skip


def goal_of(goal, learner, table, y, **given):
    teacher = SuperTeacher(learner, goal, budget=60, method="random", **given)
    return np.atleast_2d(teacher.fit(table, y, groups=OWNER).lesson_.goal)


def fitted(learner, table, y):
    model = clone(learner).fit(table, y)
    slope = np.atleast_2d(model.coef_)
    return np.column_stack([slope, np.ravel(model.intercept_)]) if learner.fit_intercept else slope


@pytest.mark.parametrize("held", [(0,), (1, 3)], ids=str)
@pytest.mark.parametrize(("learner", "y"), LEARNERS, ids=lambda one: type(one).__name__)
def test_it_is_the_fit_without_the_columns(learner, y, held):
    found = goal_of(Without(*held), learner, X, y)
    expected = fitted(learner, np.delete(X, held, axis=1), y)
    assert not found[:, list(held)].any()
    np.testing.assert_allclose(np.delete(found, held, axis=1), expected, rtol=1e-5, atol=2e-6)


def test_columns_that_are_standardised():
    """As scikit-learn's scaler before the fit, in raw units."""
    learner = LogisticRegression(solver="newton-cholesky", **TIGHT)  # L-BFGS ends at the square root of its tolerance
    found = goal_of(Without(1), learner, X, LABEL, standardize=True)[0]
    rest = np.delete(X, 1, axis=1)
    scores = make_pipeline(StandardScaler(), learner).fit(rest, LABEL).decision_function(rest)
    np.testing.assert_allclose(X @ found[:-1] + found[-1], scores, atol=1e-6)


def test_owners_do_not_change_it():
    learner = LogisticRegression()
    one = SuperTeacher(learner, Without(2), budget=60, method="random").fit(X, LABEL).lesson_.goal
    np.testing.assert_allclose(goal_of(Without(2), learner, X, LABEL)[0], one, atol=1e-9)


FRAME = pd.DataFrame(
    {
        "age": RNG.normal(50.0, 10.0, ROWS),
        "sex": RNG.choice(["f", "m"], ROWS),
        "city": np.array(["Bern", "Oslo", "Rome"])[OWNER],  # each owner has one
    }
)
ILL = FRAME["age"] / 10.0 + (FRAME["sex"] == "f") + (FRAME["city"] == "Oslo") + RNG.normal(0.0, 1.0, ROWS) > 5.8


def mixed(numbers, categories):
    parts = [(StandardScaler(), numbers), (OneHotEncoder(), categories)]
    return make_pipeline(make_column_transformer(*(part for part in parts if part[1])), LogisticRegression(**TIGHT))


@pytest.mark.parametrize("name", ["sex", "city", "age"])
@pytest.mark.parametrize("kind", ["pandas", "polars", "category"])
def test_a_column_of_the_table_takes_all_its_dummies_along(name, kind):
    """Also a category that is constant within each owner."""
    table = FRAME.astype({"city": "category"}) if kind == "category" else FRAME
    if kind == "polars":
        import polars as pl

        table = pl.DataFrame({name: FRAME[name].to_numpy() for name in FRAME})
    whole, rest = (
        mixed(["age"], ["sex", "city"]),
        mixed([one for one in ["age"] if one != name], [one for one in ["sex", "city"] if one != name]),
    )
    teacher = SuperTeacher(whole, Without(name), budget=60, method="random").fit(table, ILL, groups=OWNER)
    goal = teacher.lesson_.goal
    held = [place for place, column in enumerate(teacher.lesson_.columns) if f"__{name}" in column]
    assert held == np.flatnonzero(goal[:-1] == 0.0).tolist()
    scores = teacher.transformer_.transform(table) @ goal[:-1] + goal[-1]
    np.testing.assert_allclose(scores, rest.fit(FRAME, ILL).decision_function(FRAME), atol=1e-5)


def test_products_with_a_column_go_with_it():
    pipe = make_pipeline(PolynomialFeatures(2, include_bias=False).fit(X[:, :2]), Ridge())
    goal = SuperTeacher(pipe, Without(1), budget=60, method="random").fit(X[:, :2], SCORE).lesson_.goal
    np.testing.assert_array_equal(np.flatnonzero(goal[:-1] == 0.0), [1, 3, 4])  # b, ab, b²
    expected = Ridge().fit(np.column_stack([X[:, 0], X[:, 0] ** 2]), SCORE)
    np.testing.assert_allclose(goal[[0, 2, 5]], [*expected.coef_, expected.intercept_], rtol=1e-6)


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (lambda: Without(), "names no column"),
        (lambda: Without("sx"), "did you mean 'sex'"),
        (lambda: Without("SEX"), "did you mean 'sex'"),
        (lambda: Without(9), "column 9"),
        (lambda: Without("age", "sex", "city"), "leaves no column"),
    ],
)
def test_columns_that_are_not_there(goal, words):
    with pytest.raises(GoalError, match=words):
        SuperTeacher(mixed(["age"], ["sex", "city"]), goal(), budget=60).fit(FRAME, ILL)
    named = pd.DataFrame(X[:, :3], columns=["age", "sex", "city"])
    with pytest.raises(GoalError, match=words):
        SuperTeacher(LogisticRegression(), goal(), budget=60).fit(named, LABEL)


def test_a_column_that_no_transformer_uses_is_said():
    with pytest.raises(GoalError, match="make nothing of it"):
        SuperTeacher(mixed(["age"], ["sex"]), Without("city"), budget=60).fit(FRAME, ILL)


def test_no_private_mode_releases_its_sums():
    with pytest.raises(GoalError, match="Without"):
        SuperTeacher(LogisticRegression(), Without(0), budget=60, privacy="isolated").fit(X, LABEL)

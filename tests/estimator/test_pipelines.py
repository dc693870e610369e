"""Pipelines as learner and as goal: refits of scikit-learn on the chosen rows are the oracle."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from superteach import SuperTeacher
from superteach.exceptions import DataError, GoalError, LearnerError
from superteach.goals import FromData, PerturbedFit, Within
from tests.oracles import TIGHT

ROWS = 240
pytestmark = pytest.mark.filterwarnings("ignore:X has feature names")
RANDOM = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RANDOM.normal(50.0, 10.0, ROWS),
        "bmi": RANDOM.normal(25.0, 4.0, ROWS),
        "city": RANDOM.choice(["Rome", "Oslo", "Bern"], ROWS),
    },
    index=[f"p{number}" for number in range(ROWS)],
)
LABEL = (FRAME["age"] + 10.0 * (FRAME["city"] == "Oslo") + RANDOM.normal(0.0, 10.0, ROWS) > 53.0).astype(int)
OWNER = np.arange(ROWS) % 3
NUMBERS = ["age", "bmi"]
CITIES = [["Bern", "Oslo", "Rome"]]


def learner(**given) -> LogisticRegression:
    return LogisticRegression(**TIGHT, **given)


def mixed(last=None, encoder=None, numbers=None) -> Pipeline:
    """A scaler and an encoder before a learner."""
    parts = (numbers or StandardScaler(), NUMBERS), (encoder or OneHotEncoder(), ["city"])
    return make_pipeline(make_column_transformer(*parts), last or learner())


PERTURBED = PerturbedFit(0)


def teach(pipe, goal=PERTURBED, X=FRAME, y=LABEL, budget=60, method="dual", groups=OWNER, **given):
    fit = {name: given.pop(name) for name in ("sample_weight", "costs") if name in given}
    return SuperTeacher(pipe, goal, budget=budget, method=method, **given).fit(X, y, groups, **fit)


def refit(teacher, X=FRAME, y=LABEL, weights=None):
    """The documented two lines: the last step, fitted on the chosen rows behind the teachers' transformers."""
    rows = teacher.sample_indices_
    last = clone(teacher.model_[-1])
    some = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
    told = {} if weights is None else {"sample_weight": weights[rows]}
    return last.fit(teacher.transformer_.transform(some), np.asarray(y)[rows], **told)


def agrees(teacher, model) -> None:
    np.testing.assert_allclose(teacher.coef_, model.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.ravel(teacher.intercept_), np.ravel(model.intercept_), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("last", [learner(), LinearSVC(dual=False, **TIGHT), Ridge(**TIGHT)], ids=repr)
@pytest.mark.parametrize("method", ["dual", "match"])
def test_a_refit_of_the_last_step_is_the_taught_model(last, method):
    """Behind the scaler of all rows; and that scaler is scikit-learn's own fit on all rows."""
    teacher = teach(mixed(last), method=method)
    agrees(teacher, refit(teacher))
    whole = make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(), ["city"])).fit(FRAME)
    np.testing.assert_allclose(teacher.transformer_.transform(FRAME), whole.transform(FRAME), atol=1e-12)
    np.testing.assert_array_equal(teacher.lesson_.columns, whole.get_feature_names_out())
    assert teacher.lesson_.risk == pytest.approx(
        np.linalg.norm(np.append(teacher.coef_, teacher.intercept_) - teacher.lesson_.goal), rel=1e-9
    )


@pytest.mark.parametrize("kind", [learner(), Ridge(**TIGHT), mixed()], ids=["logistic", "ridge", "pipeline"])
def test_the_model_handed_back_predicts_and_pickles(kind):
    """It is of the learner's own class, and says what the teacher says."""
    X = FRAME if isinstance(kind, Pipeline) else FRAME[NUMBERS]
    teacher = teach(kind, X=X)
    for model in (teacher.model_, teacher.lesson_.model_, pickle.loads(pickle.dumps(teacher.model_))):
        assert type(model) is type(kind)
        np.testing.assert_array_equal(model.predict(X), teacher.predict(X))
        if hasattr(model, "predict_proba"):
            np.testing.assert_array_equal(model.predict_proba(X).argmax(1), teacher.predict_proba(X).argmax(1))
    last = teacher.model_[-1] if isinstance(kind, Pipeline) else teacher.model_
    np.testing.assert_array_equal(last.coef_, teacher.coef_)
    if not isinstance(kind, Pipeline):
        np.testing.assert_array_equal(last.feature_names_in_, NUMBERS)
    again = clone(teacher.model_).fit(X, LABEL)  # what it is made of is the user's own
    np.testing.assert_allclose(again.predict(X), clone(kind).fit(X, LABEL).predict(X))


def test_owners_do_not_change_scaler_or_categories():
    """A city that one owner alone has is a category for all; the scale is that of all rows."""
    teachers = [teach(mixed(), groups=groups) for groups in (None, FRAME["city"].to_numpy(), OWNER)]
    for teacher in teachers[1:]:
        np.testing.assert_allclose(teacher.lesson_.goal, teachers[0].lesson_.goal, atol=1e-8)
        np.testing.assert_array_equal(teacher.sample_indices_, teachers[0].sample_indices_)


FITTED = [
    PCA(2).fit(FRAME[NUMBERS]), FrozenEstimator(PCA(2).fit(FRAME[NUMBERS])), Normalizer(), FunctionTransformer(np.log),
    Nystroem(n_components=4, random_state=0).fit(FRAME[NUMBERS]), SplineTransformer(n_knots=3).fit(FRAME[NUMBERS]),
    StandardScaler().fit(FRAME[NUMBERS][:50]), "passthrough",
]  # fmt: skip


@pytest.mark.parametrize("step", FITTED, ids=lambda step: type(step).__name__)
def test_fitted_transformers_are_applied_as_they_are(step):
    """Each owner's rows alone give what all rows give, since a transformer is row-local."""
    teacher = teach(Pipeline([("step", step), ("last", learner())]), X=FRAME[NUMBERS])
    expected = FRAME[NUMBERS] if step == "passthrough" else step.transform(FRAME[NUMBERS])
    np.testing.assert_allclose(teacher.transformer_.transform(FRAME[NUMBERS]), expected)
    agrees(teacher, refit(teacher, FRAME[NUMBERS]))


@pytest.mark.parametrize("step", [PCA(2), Nystroem(), SplineTransformer(), SimpleImputer(strategy="median")], ids=repr)
def test_an_unfitted_transformer_is_told_what_to_do(step):
    """It needs more than sums."""
    with pytest.raises(LearnerError, match=rf"(?s){type(step).__name__}.*fit it first"):
        teach(make_pipeline(step, learner()), X=FRAME[NUMBERS])


@pytest.mark.parametrize("strategy", ["mean", "most_frequent", "constant"])
def test_imputers_fill_as_scikit_learn_would(strategy):
    """Means from sums, the most frequent from counts."""
    X = FRAME.copy()
    X.iloc[::7, 1] = np.nan
    X["bmi"] = X["bmi"].round()
    numbers = make_pipeline(SimpleImputer(strategy=strategy), StandardScaler())
    cities = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    X.iloc[::9, 2] = np.nan
    pipe = mixed(numbers=numbers, encoder=cities)
    teacher = teach(pipe, X=X)
    np.testing.assert_allclose(teacher.transformer_.transform(X), clone(pipe[:-1]).fit_transform(X), atol=1e-12)
    agrees(teacher, refit(teacher, X))


def test_missing_values_are_counted_by_column():
    """Over all teachers, and the first is named as its owner names it."""
    X = FRAME.copy()
    X.iloc[[4, 7, 11], 0] = np.nan
    X.iloc[9, 1] = np.nan
    with pytest.raises(DataError, match=r"column 'bmi', row 'p9': .*NaN.*'age' 3, 'bmi' 1.*SimpleImputer"):
        teach(learner(), X=X[NUMBERS])
    with pytest.raises(DataError, match=r"NaN.*'age' 3, 'bmi' 1"):
        teach(make_pipeline(StandardScaler(), learner()), X=X[NUMBERS])


@pytest.mark.parametrize("form", ["pandas", "polars", "array", "set_output"])
def test_tables_of_many_forms(form):
    """The same lesson from every container."""
    wanted = teach(mixed())
    pipe, X = mixed(), FRAME
    if form == "polars":
        X = pl.DataFrame({name: FRAME[name].to_numpy() for name in FRAME})
    elif form == "array":
        X = FRAME.to_numpy()
        pipe = make_pipeline(make_column_transformer((StandardScaler(), [0, 1]), (OneHotEncoder(), [2])), learner())
    elif form == "set_output":
        dense = OneHotEncoder(sparse_output=False)
        pipe = mixed(encoder=dense).set_output(transform="pandas")
    teacher = teach(pipe, X=X)
    np.testing.assert_array_equal(teacher.sample_indices_, wanted.sample_indices_)
    np.testing.assert_allclose(teacher.coef_, wanted.coef_, atol=1e-9)
    np.testing.assert_array_equal(teacher.model_.predict(X), wanted.predict(FRAME))


@pytest.mark.parametrize("encoder", [OneHotEncoder(categories=CITIES), OneHotEncoder(drop="first"), OneHotEncoder()])
def test_encoders(encoder):
    """Declared categories, dropped ones, and those found."""
    teacher = teach(mixed(encoder=encoder))
    np.testing.assert_allclose(
        teacher.transformer_.transform(FRAME), clone(mixed(encoder=encoder)[:-1]).fit_transform(FRAME)
    )


def test_a_category_that_was_not_declared_is_named():
    """With its column."""
    with pytest.raises(DataError, match=r"column 'city' holds 'Rome'"):
        teach(mixed(encoder=OneHotEncoder(categories=[["Bern", "Oslo"]])))


def test_a_fitted_pipeline_is_a_goal():
    """Also with a scale of its own: it means the same predictions, for pipelines and for plain learners."""
    goal = clone(mixed()).fit(FRAME[:100], LABEL[:100])
    lesson = teach(mixed(), goal).lesson_
    teacher = teach(mixed(), goal)
    scores = teacher.transformer_.transform(FRAME) @ lesson.goal[:-1] + lesson.goal[-1]
    np.testing.assert_allclose(scores, goal.decision_function(FRAME), atol=1e-9)
    scaled = make_pipeline(StandardScaler(), learner()).fit(FRAME[NUMBERS], LABEL)
    plain = teach(learner(), scaled, X=FRAME[NUMBERS]).lesson_
    raw = FRAME[NUMBERS].to_numpy() @ plain.goal[:-1] + plain.goal[-1]
    np.testing.assert_allclose(raw, scaled.decision_function(FRAME[NUMBERS]), atol=1e-9)
    again = teach(mixed(), teacher).lesson_  # a taught teacher is a goal too
    np.testing.assert_allclose(again.goal, teacher.lesson_.model, atol=1e-9)
    frozen = teach(mixed(), FrozenEstimator(goal)).lesson_
    np.testing.assert_array_equal(frozen.goal, lesson.goal)


SCALERS = [
    StandardScaler(), StandardScaler(with_mean=False), MinMaxScaler(), MaxAbsScaler(), RobustScaler(), PCA(2),
    make_pipeline(SimpleImputer(), MinMaxScaler(feature_range=(-3, 5)), StandardScaler()),
]  # fmt: skip


def same_scores(teacher, goal, X) -> None:
    """What the goal is taken for gives these rows the goal's own scores."""
    lesson = teacher.lesson_
    columns = X if teacher.transformer_ is None else teacher.transformer_.transform(X)
    np.testing.assert_allclose(columns @ lesson.goal[:-1] + lesson.goal[-1], goal.decision_function(X), atol=1e-8)


@pytest.mark.parametrize("own", [None, StandardScaler(), PCA(2).fit(FRAME[NUMBERS][:80])], ids=repr)
@pytest.mark.parametrize("scaler", SCALERS, ids=repr)
def test_a_goal_scaled_elsewhere_is_taken_for_its_scores(scaler, own):
    """Its means and scales are those of other rows, and its columns may be others than the learner's."""
    X, elsewhere = FRAME[NUMBERS], 3.0 * FRAME[NUMBERS][:90] + 7.0
    goal = make_pipeline(clone(scaler), learner()).fit(elsewhere, LABEL[:90])
    pipe = learner() if own is None else make_pipeline(own, learner())
    same_scores(teach(pipe, goal, X=X), goal, X)


def test_a_goal_with_other_columns_is_taken_for_its_scores():
    """One dummy fewer, and other names: the shortest of all models with these scores, as a penalised one is."""
    goals = [
        mixed(encoder=OneHotEncoder(drop="first")).fit(FRAME[:90], LABEL[:90]),
        make_pipeline(
            ColumnTransformer([("c", OneHotEncoder(), ["city"]), ("n", MinMaxScaler(), NUMBERS)]), learner()
        ).fit(FRAME[:90], LABEL[:90]),
    ]
    for goal in goals:
        teacher = teach(mixed(), goal)
        same_scores(teacher, goal, FRAME)
        assert teacher.lesson_.goal[2:5].sum() == pytest.approx(0.0, abs=1e-9)  # no part that all cities share


def test_a_plain_model_of_the_table_is_taken_for_its_scores():
    """Behind a scaler columns are others than those it was fitted on, though they may have the same names."""
    goal = learner().fit(FRAME[NUMBERS], LABEL)
    same_scores(teach(make_pipeline(StandardScaler(), learner()), goal, X=FRAME[NUMBERS]), goal, FRAME[NUMBERS])
    teacher = teach(mixed(), goal)
    scores = teacher.transformer_.transform(FRAME) @ teacher.lesson_.goal[:-1] + teacher.lesson_.goal[-1]
    np.testing.assert_allclose(scores, goal.decision_function(FRAME[NUMBERS]), atol=1e-8)
    named = make_pipeline(StandardScaler(), learner()).set_output(transform="pandas")
    behind = learner().fit(StandardScaler().set_output(transform="pandas").fit_transform(FRAME[NUMBERS]), LABEL)
    taught = teach(named, behind, X=FRAME[NUMBERS])  # here the learner's own columns have names
    np.testing.assert_allclose(taught.lesson_.goal[:-1], behind.coef_[0])


def test_imputers_of_a_goal():
    """Exact where no value is missing, or where both fill in the same; else refused with what to do."""
    X = FRAME[NUMBERS].copy()
    goal = make_pipeline(SimpleImputer(), StandardScaler(), learner()).fit(X[:90], LABEL[:90])
    own = make_pipeline(SimpleImputer(), StandardScaler(), learner())
    same_scores(teach(own, goal, X=X), goal, X)
    X.iloc[::7, 1] = np.nan
    with pytest.raises(GoalError, match=r"missing values.* 35 rows.*FromData"):
        teach(own, goal, X=X)
    filled = SimpleImputer(strategy="constant", fill_value=20.0)
    goal = make_pipeline(filled, StandardScaler(), learner()).fit(X[:90], LABEL[:90])
    same_scores(teach(make_pipeline(clone(filled), StandardScaler(), learner()), goal, X=X), goal, X)
    elsewhere = make_pipeline(SimpleImputer(), StandardScaler(), learner()).fit(X[:90], LABEL[:90])
    same = make_pipeline(FrozenEstimator(elsewhere[:-1]), learner())
    same_scores(teach(same, elsewhere, X=X), elsewhere, X)
    scores = cross_val_score(SuperTeacher(same, elsewhere, budget=40), X, LABEL, cv=2, error_score="raise")
    assert len(scores) == 2
    remedy = teach(own, FromData(X[:90], LABEL[:90]), X=X)
    fitted = learner().fit(remedy.transformer_.transform(X[:90]), LABEL[:90])
    np.testing.assert_allclose(remedy.lesson_.goal, np.append(fitted.coef_, fitted.intercept_), atol=1e-6)


def test_goals_that_no_model_of_the_columns_equals_are_refused():
    """Other functions of them, too few rows to tell, and rows that it cannot score."""
    bent = make_pipeline(FunctionTransformer(np.log, feature_names_out="one-to-one"), learner()).fit(
        FRAME[NUMBERS], LABEL
    )
    with pytest.raises(GoalError, match=r"no linear function.*FromData"):
        teach(learner(), bent, X=FRAME[NUMBERS])
    with pytest.raises(GoalError, match="no linear function"):
        teach(learner(), bent, X=FRAME[NUMBERS][::80], y=LABEL[::80], groups=None, budget=2)
    towns = mixed(encoder=OneHotEncoder()).fit(FRAME[FRAME["city"] != "Oslo"], LABEL[FRAME["city"] != "Oslo"])
    with pytest.raises(GoalError, match="Oslo"):
        teach(mixed(), towns)
    with pytest.raises(GoalError, match="not fitted"):
        teach(mixed(), mixed())


def test_bounds_by_the_table_s_own_names():
    """Where one column of the learner's has the name; dummies by their own, without the prefix."""
    goal = Within(at_most={"age": 0.1, "city_Oslo": -0.2}, equal=[("bmi", "city_Rome")])
    lesson = teach(mixed(), goal).lesson_
    by_name = dict(zip(lesson.columns, lesson.goal, strict=False))
    assert by_name["standardscaler__age"] <= 0.1 + 1e-9
    assert by_name["onehotencoder__city_Oslo"] <= -0.2 + 1e-9
    assert by_name["standardscaler__bmi"] == pytest.approx(by_name["onehotencoder__city_Rome"], abs=1e-9)
    with pytest.raises(GoalError, match=r"'city' becomes .*city_Bern.*city_Oslo.*city_Rome"):
        teach(mixed(), Within(at_most={"city": 0.0}))
    for pipe, X in ((mixed(), FRAME), (learner(), FRAME[NUMBERS])):
        with pytest.raises(GoalError, match="did you mean 'age'"):
            teach(pipe, Within(at_most={"aeg": 0.0}), X=X)


def test_predictions_near_a_pipeline():
    goal = mixed().fit(FRAME[:90], LABEL[:90])
    teacher = teach(mixed(), Within(near=(goal, 0.2)))
    scores = teacher.transformer_.transform(FRAME) @ teacher.lesson_.goal[:-1] + teacher.lesson_.goal[-1]
    assert np.sqrt(np.mean((scores - goal.decision_function(FRAME)) ** 2)) <= 0.2 + 1e-6


def test_reference_rows_pass_the_pipeline():
    """FromData's rows are raw, like the pool's."""
    goal = teach(mixed(), FromData(FRAME[:90], LABEL[:90])).lesson_.goal
    transformer = teach(mixed()).transformer_
    fitted = learner().fit(transformer.transform(FRAME[:90]), LABEL[:90])
    np.testing.assert_allclose(goal, np.append(fitted.coef_, fitted.intercept_), atol=1e-6)


def test_private_modes_release_no_sums_for_transformers():
    """Fitted ones are public."""
    goal = np.zeros(3)
    with pytest.raises(LearnerError, match="privacy mode"):
        teach(make_pipeline(StandardScaler(), learner()), goal, X=FRAME[NUMBERS], method="match", privacy="isolated")


WRONG_PIPES = {
    "ends in": Pipeline([("scale", StandardScaler()), ("last", "passthrough")]),
    "has no transform": Pipeline([("one", learner()), ("last", learner())]),
    "remainder": make_pipeline(
        ColumnTransformer([("n", StandardScaler(), NUMBERS)], remainder=OneHotEncoder()), learner()
    ),
    "no_such_column": make_pipeline(make_column_transformer((StandardScaler(), ["no_such_column"])), learner()),
    "could not convert": make_pipeline(StandardScaler(), learner()),
    "no number": make_pipeline(
        make_column_transformer((StandardScaler(), NUMBERS), ("passthrough", ["city"])), learner()
    ),
    "min_frequency": mixed(encoder=OneHotEncoder(min_frequency=5)),
    "cannot be taught": make_pipeline(StandardScaler(), PCA()),
}


@pytest.mark.parametrize("words", WRONG_PIPES)
def test_wrong_pipelines(words):
    """Each is a sentence of ours."""
    with pytest.raises((LearnerError, DataError), match=words):
        teach(WRONG_PIPES[words])

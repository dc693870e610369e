"""Wrong inputs, by what is wrong: how to hand them in, and words that the one sentence about them must have."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
)  # fmt: skip
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from superteach import Federation, Learner, Lesson, SuperTeacher, Teacher, Threads, datasets, drop, optim, teach
from superteach.exceptions import (
    BudgetError,
    DataError,
    DataTypeError,
    GoalError,
    LearnerError,
    SettingError,
    SuperteachError,
)  # fmt: skip
from superteach.goals import FromData, MaxAUC, PerturbedFit, Within, Without
from superteach.losses import Huber, Logistic
from superteach.mlflow import log_lesson

Call = Callable[[Path], object]
ROWS = 40
RANDOM = np.random.default_rng(0)
NAMES = ["age", "bmi", "dose"]
X = pd.DataFrame(RANDOM.standard_normal((ROWS, 3)), columns=NAMES, index=[f"p{row}" for row in range(ROWS)])
Y = (X["age"] + RANDOM.standard_normal(ROWS) > 0.0).astype(int)
T = X.to_numpy() @ [1.0, -2.0, 3.0] + RANDOM.standard_normal(ROWS)
OWNER = np.arange(ROWS) % 3
GOAL = {"age": 1.0, "bmi": 0.5, "dose": -1.0, "intercept": 0.1}


def fit(**given: Any) -> SuperTeacher:
    """Fit with clean inputs, except for those given."""
    inputs = {"X": X, "y": Y, "groups": OWNER, **given}
    rows = {name: inputs.pop(name) for name in ("X", "y", "groups", "costs", "sample_weight") if name in inputs}
    return SuperTeacher(
        **{"estimator": LogisticRegression(), "goal": GOAL, "budget": 12, "method": "dual", **inputs}
    ).fit(**rows)


def spoilt(table: Any, row: int, column: int | None, value: object) -> Any:
    """A copy with one value put in."""
    copy = table.copy()
    if column is not None and isinstance(value, str | dict | datetime.date):
        copy = copy.astype({copy.columns[column]: object})
    if isinstance(copy, pd.DataFrame):
        copy.iloc[row, column] = value
    elif isinstance(copy, pd.Series):
        copy = copy.astype(object if isinstance(value, str) or value is None else float)
        copy.iloc[row] = value
    else:
        copy = copy.astype(object if isinstance(value, str) or value is None else float)
        copy[row] = value
    return copy


def named(values: object, name: str = "when") -> pd.DataFrame:
    """The rows with one more column."""
    return X.assign(**{name: values})


DAYS = pd.date_range("2020-01-01", periods=ROWS)
TABLES: list[tuple[str, Any]] = [
    (r"column 'when' holds text, such as 'a' in row 'p0'.*(encode|OneHotEncoder)", named(["a"] * ROWS)),
    (
        r"column 'when' holds text, such as 'a' in row 'p0'",
        named(pd.Series(["a", "b"] * 20, index=X.index, dtype="string")),
    ),
    (r"column 'when' holds text, such as 'x'", named(pd.Categorical(["x", "y"] * 20))),
    (r"column 'when' holds text, such as 'x' in row 'p3'", named([1, 2, 3, "x"] * 10)),
    (r"column 'when' holds text, such as '' in row", named([1, ""] * 20)),
    (r"column 'when' holds times", named(DAYS)),
    (r"column 'when' holds times", named(DAYS - DAYS[0])),
    (r"column 'when'.*(times|Period)", named(pd.period_range("2020", periods=ROWS, freq="D"))),
    (r"column 'when' holds.*date", named([datetime.date(2020, 1, 1)] * ROWS)),
    (r"column 'when' holds.*(times|Timestamp|datetime)", named(DAYS.tz_localize("UTC"))),
    (r"column 'a' holds times", pd.DataFrame({"a": DAYS, "b": DAYS})),
    (r"column 'when' holds.*dict", named([{}] * ROWS)),
    (r"column 'when' holds.*list", named([[1]] * ROWS)),
    (r"column 'age'.*row 'p4'.*NaN.*'age' 1", spoilt(X, 4, 0, np.nan)),
    (r"'bmi' 40", X.assign(bmi=np.nan)),
    (r"'bmi' 2, 'dose' 1", spoilt(spoilt(spoilt(X, 4, 1, np.nan), 5, 1, np.nan), 6, 2, np.nan)),
    (r"column 'dose', row 'p6'.*infinity", spoilt(X, 6, 2, np.inf)),
    (r"column 'dose', row 'p6'.*too large", spoilt(X, 6, 2, 1e200)),
    (r"columns named 'age'", pd.concat([X, X[["age"]]], axis=1)),
    (r"string|str", X.rename(columns={"dose": 3})),
    (r"column 'c' holds text, such as 'u' in row 0", pl.DataFrame({"a": X["age"].to_numpy(), "c": ["u"] * ROWS})),
    (r"column 'c' holds times", pl.DataFrame({"a": X["age"].to_numpy(), "c": list(DAYS)})),
    (r"column 1, row 4.*NaN.*1 1", sparse.csr_matrix(spoilt(X, 4, 1, np.nan).to_numpy())),
    (r"column 1, row 4.*NaN", sparse.coo_matrix(spoilt(X, 4, 1, np.nan).to_numpy())),
    (r"column 1 holds text, such as 'u' in row 0", [[1.0, "u", 2.0]] * ROWS),
    (r"column 1 holds text, such as 'u'", np.array([[1.0, "u", 2.0]] * ROWS, dtype=object)),
    (r"column 0 holds times", np.zeros((ROWS, 3), dtype="M8[s]")),
    (r"[Cc]omplex", X.to_numpy() + 1j),
    (r"2D|dimension", X["age"].to_numpy()),
    (r"dim", X.to_numpy()[:, :, None]),
    (r"X is a structured array.*pandas.DataFrame", np.zeros(ROWS, dtype=[("a", float), ("b", float)])),
    (r"2D|array", 3.0),
    (r"2D|array|None", None),
    (r"2D|array|dict", {"a": [1, 2]}),
    (r"y is Series; for rows in files", "rows.csv"),
    (r"0 feature", X.iloc[:, :0]),
    (r"0 sample", X.iloc[:0]),
    (r"[Ii]nconsistent.*39|39.*40", X.iloc[1:]),
    (r"inhomogeneous|sequence", [[1.0, 2.0], [3.0]] * 20),
]
TARGETS: list[tuple[str, dict[str, Any]]] = [
    (r"y is None|target", {"y": None}),
    (r"label of row 'p5'", {"y": spoilt(Y, 5, None, np.nan)}),
    (r"label of row 'p5'", {"y": spoilt(Y, 5, None, None)}),
    (r"label of row 'p5'", {"y": spoilt(Y, 5, None, np.inf)}),
    (r"[Ii]nconsistent.*39|39", {"y": Y[1:]}),
    (r"shape \(40, 2\).*argmax", {"y": np.column_stack([Y, Y])}),
    (r"y='age' is a text.*y=X\['age'\]", {"y": "age"}),
    (r"costs='age' is a text.*costs=X\['age'\]", {"costs": "age"}),
    (r"sample_weight='balanced' is a text", {"sample_weight": "balanced"}),
    (r"one class, 0", {"y": Y * 0}),
    (r"continuous labels such as", {"y": T}),
    (r"40 different values \(0, 1, 2, …\).*regression such as ridge.*as text", {"y": np.arange(ROWS)}),
    (r"40 different values", {"y": np.arange(float(ROWS)), "estimator": LinearSVC()}),
    (r"Complex", {"y": Y + 1j}),
    (r"datetime|M8", {"y": DAYS.to_numpy()}),
    (r"labels are of two types.*'u' \(text\)", {"y": spoilt(Y, 5, None, "u")}),
    (r"labels of type dict", {"y": [{}] * ROWS}),
    (r"a regression needs numbers", {"y": np.where(Y, "a", "b"), "estimator": Ridge()}),
    (r"target of row 'p5'.*NaN", {"y": spoilt(pd.Series(T), 5, None, np.nan).to_numpy(), "estimator": Ridge()}),
    (r"too large", {"y": T * 1e200, "estimator": Ridge()}),
    (r"negative target, -", {"y": -np.abs(T), "estimator": PoissonRegressor()}),
    (r"groups has shape \(39,\)", {"groups": OWNER[1:]}),
    (r"groups names no owner for row 'p4'", {"groups": spoilt(OWNER, 4, None, None)}),
    (r"groups names no owner for row 'p4'", {"groups": spoilt(OWNER, 4, None, np.nan)}),
    (r"all numbers or all strings", {"groups": np.array([1, "a"] * 20, dtype=object)}),
    (r"groups has shape", {"groups": np.column_stack([OWNER, OWNER])}),
    (r"groups='hospital' is a text.*groups=X\['hospital'\]", {"groups": "hospital"}),
    (r"costs has shape \(39,\)", {"costs": np.ones(39)}),
    (r"costs.*no number", {"costs": ["dear"] * ROWS}),
    (r"row 'p2'.*cost nan", {"costs": spoilt(np.ones(ROWS), 2, None, np.nan)}),
    (r"sample_weight has shape \(39,\)", {"sample_weight": np.ones(39)}),
    (r"sample_weight has shape \(40, 1\)", {"sample_weight": np.ones((ROWS, 1))}),
    (r"sample_weight.*no number", {"sample_weight": ["much"] * ROWS}),
    (r"row 'p2': sample_weight is -1", {"sample_weight": spoilt(np.ones(ROWS), 2, None, -1.0)}),
    (r"row 'p2': sample_weight is zero.*drop", {"sample_weight": spoilt(np.ones(ROWS), 2, None, 0.0)}),
    (r"row 'p2': sample_weight is nan", {"sample_weight": spoilt(np.ones(ROWS), 2, None, np.nan)}),
    (r"row 'p2': sample_weight is inf", {"sample_weight": spoilt(np.ones(ROWS), 2, None, np.inf)}),
    (r"PoissonRegressor.*weight", {"estimator": PoissonRegressor(), "y": np.abs(T), "sample_weight": np.ones(ROWS)}),
]
FITTED = LogisticRegression().fit(X, Y)
GOALS: list[tuple[str, Any]] = [
    (r"no coefficient for column 'bmi'", {"age": 1.0, "dose": 1.0, "intercept": 0.0}),
    (r"a coefficient for 'size', which is no feature column", GOAL | {"size": 1.0}),
    (r"no 'intercept'.*fit_intercept=False", {"age": 1.0, "bmi": 1.0, "dose": 1.0}),
    (r"position 1: nan", GOAL | {"bmi": np.nan}),
    (r"number", GOAL | {"bmi": "large"}),
    (r"position 1", GOAL | {"bmi": None}),
    (r"position 1: inf", GOAL | {"bmi": np.inf}),
    (r"names no 'intercept'", {}),
    (r"no coefficient for column 'age'", {0: 1.0, 1: 2.0, 2: 3.0, "intercept": 0.0}),
    (r"no coefficient for column 'bmi'", pd.Series({"age": 1.0, "dose": 1.0, "intercept": 0.0})),
    (r"names column 'age' twice", pd.Series([1.0] * 4, index=["age", "age", "dose", "intercept"])),
    (r"'Age'", pd.Series([1.0] * 4, index=["Age", "bmi", "dose", "intercept"])),
    (r"DataFrame", pd.DataFrame([GOAL])),
    (r"'weight'", LogisticRegression().fit(X.rename(columns={"dose": "weight"}), Y)),
    (r"no coefficient for column 'dose'", LogisticRegression().fit(X[["age", "bmi"]], Y)),
    (r"labels \['no', 'yes'\]", LogisticRegression().fit(X, np.where(Y, "yes", "no"))),
    (r"one row|shape", LogisticRegression().fit(X, OWNER)),
    (
        r"goal LinearRegression is a regression, .*decides at a score of 0.*fit a classifier",
        LinearRegression().fit(X, Y),
    ),
    (r"goal FrozenEstimator is a regression", FrozenEstimator(Ridge().fit(X, Y))),
    (r"goal Pipeline is a regression", make_pipeline(StandardScaler(), Ridge()).fit(X, Y)),
    (r"goal SuperTeacher is a regression", SuperTeacher(Ridge(), np.ones(4), budget=9).fit(X, T)),
    (r"goal PoissonRegressor is a regression", Within(near=(PoissonRegressor().fit(X, Y), 1.0))),
    (r"the goal is a regression", {"coef": [1.0] * 3, "intercept": 0.0, "classes": None, "learner": {"name": "ridge"}}),
    (r"no coef_", LogisticRegression()),
    (r"no coef_", SVC().fit(X, Y)),
    (r"no coef_", RandomForestClassifier(2).fit(X, Y)),
    (r"is a class", LogisticRegression),
    (r"is a class", PerturbedFit),
    (r"no goal is given", None),
    (r"3 entries, expected 4.*intercept", [1.0, 2.0, 3.0]),
    (r"5 entries, expected 4", np.ones(5)),
    (r"number", "goal.json"),
    (r"entries", 3.0),
    (r"position 1: nan", [1.0, np.nan, 0.0, 0.0]),
    (r"position 1: 1e\+200", [1.0, 1e200, 0.0, 0.0]),
    (r"the path 'goal.json'", Path("goal.json")),
    (r"2 coefficients, expected 3", {"coef": [1.0, 2.0], "intercept": 0.0}),
    (r"no coefficient for column 'dose'", {"coef": {"age": 1.0, "bmi": 1.0}, "intercept": 0.0}),
    (r"number|real", [1j, 1.0, 0.0, 0.0]),
    (r"number|inhomogeneous", [[1.0], [2.0, 3.0], 4.0, 5.0]),
    (r"number|real|datetime", DAYS[:4]),
    (r"coefficient of column 'bmi' is 1e\+12, .* all rows is \d", GOAL | {"bmi": 1e12}),
    (r"coefficient of the intercept is -1e\+99", GOAL | {"intercept": -1e99}),
    (r"not fitted", make_pipeline(StandardScaler(), LogisticRegression())),
    (r"no coef_", make_pipeline(StandardScaler(), SVC()).fit(X, Y)),
    (r"2 columns, the rows have 3|columns", FromData(X[["age", "bmi"]], Y)),
    (r"'weight'", FromData(X.rename(columns={"dose": "weight"}), Y)),
    (r"NaN", FromData(spoilt(X, 4, 1, np.nan), Y)),
    (r"two classes", FromData(X, OWNER)),
    (r"labels", FromData(X, np.where(Y, "a", "b"))),
    (r"cannot be used", FromData(X, Y[:4])),
]
LEARNERS: list[tuple[str, Any]] = [
    (r"a class, not an instance", LogisticRegression),
    (r"the text 'logistic' cannot be taught; supported are", "logistic"),
    (r"Lasso cannot be taught", Lasso()),
    (r"SVC cannot be taught", SVC()),
    (r"SGDClassifier cannot be taught", SGDClassifier()),
    (r"C=inf", LinearSVC(C=np.inf)),
    (r"C=-1.*C must be one number above 0$", LogisticRegression(C=-1)),
    (r"C=nan.*C must be one number above 0$", LogisticRegression(C=np.nan)),
    (r"C=1e-320.*from 1e-100 to 1e\+100$", LogisticRegression(C=1e-320)),
    (r"alpha=-1.*alpha must be one number above 0$", Ridge(alpha=-1)),
    (r"alpha=1e\+300.*from 1e-100", Ridge(alpha=1e300)),
    (r"'tol'.*-1", LogisticRegression(tol=-1)),
    (r"C='1'", LogisticRegression(C="1")),
    (r"l1_ratio=0.5", LogisticRegression(l1_ratio=0.5)),
    (r"penalty='l1'.*penalty must be 'l2' or None\. ", LogisticRegression(penalty="l1")),
    (r"fit_intercept='yes'", LogisticRegression(fit_intercept="yes")),
    (r"solver", LogisticRegression(solver="simplex")),
    (r"max_iter", LogisticRegression(max_iter=-1)),
    (r"tol", Ridge(tol="tight")),
    (r"balanced.*class_weight=\{0: .*, 1: ", LogisticRegression(class_weight="balanced")),
    (r"class_weight has 'a', which is no label", LogisticRegression(class_weight={"a": 2.0})),
    (r"class_weight of 1 is -2", LogisticRegression(class_weight={1: -2.0})),
    (r"class_weight of 1 is 'much'", LogisticRegression(class_weight={1: "much"})),
    (r"class_weight=3", LogisticRegression(class_weight=3)),
    (r"balanced", LinearSVC(class_weight="balanced")),
    (r"loss='hinge'", LinearSVC(loss="hinge")),
    (r"alpha=0.0.*above 0, because without a penalty.*LinearRegression", Ridge(alpha=0.0)),
    (r"positive=True", Ridge(positive=True)),
    (r"ends in 'passthrough'", Pipeline([("a", StandardScaler()), ("b", "passthrough")])),
    (r"RandomForestClassifier cannot be taught", make_pipeline(StandardScaler(), RandomForestClassifier())),
    (r"PCA is not fitted.*fit it first", make_pipeline(PCA(2), LogisticRegression())),
    (r"MinMaxScaler is not fitted", make_pipeline(MinMaxScaler(), LogisticRegression())),
    (r"strategy='median'", make_pipeline(SimpleImputer(strategy="median"), LogisticRegression())),
    (r"has no transform", make_pipeline(LogisticRegression(), LogisticRegression())),
    (r"size", make_pipeline(make_column_transformer((StandardScaler(), ["size"])), LogisticRegression())),
    (r"min_frequency", make_pipeline(OneHotEncoder(min_frequency=3), LogisticRegression())),
    (r"column 'age' holds", make_pipeline(OneHotEncoder(categories=[[1], [2], [3]]), LogisticRegression())),
    (r"remainder", make_pipeline(ColumnTransformer([("a", StandardScaler(), ["age"])], remainder=PCA()), Ridge())),
]  # fmt: skip
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *[(rf"budget={value}", {"budget": value}) for value in (0, -1, 41, 0.0, 1.5, -0.5)],
    *[(r"budget=", {"budget": value}) for value in (None, "half", True, [5], 3j, np.nan, (5, 3), (0.1, 5), (1, 2, 3))],
    (r"needs risk_target", {"budget": "smallest"}),
    *[(r"method=", {"method": value}) for value in ("exact", None, ["dual"])],
    *[(rf"{name}=", {name: value}) for name in ("sparsity", "goal_weight") for value in (-1.0, np.inf, "much")],
    *[(r"solver=", {"solver": value}) for value in ("simplex", 3)],
    *[(r"rounding=", {"rounding": value}) for value in ("apart", None)],
    *[(r"restarts=", {"restarts": value}) for value in (0, 1.5, True)],
    *[(r"seconds=", {"seconds": value}) for value in (-1.0, "long")],
    *[(r"random_state=", {"random_state": value}) for value in (-1, 0.5, "seed")],
    *[(r"standardize=", {"standardize": value}) for value in ("yes", 1)],
    *[(r"verbose=", {"verbose": value}) for value in (-1, "much")],
    *[(r"privacy=", {"privacy": value}) for value in ("secret", None)],
    *[(r"epsilon=", {"epsilon": value}) for value in (0.0, -1.0, "small")],
]


def _lesson() -> Lesson:
    return fit().lesson_


def _load(text: str) -> Call:
    def call(folder: Path) -> object:
        (folder / "lesson.json").write_text(text)
        return Lesson.load(folder / "lesson.json")

    return call


OTHERS: list[tuple[str, Call]] = [
    *[(r"lesson.json' is no lesson", _load(text)) for text in ("", "{}", "[]", "3", '{"model": 3}', '{"a": 1', "null")],
    (r"is no lesson.*'goal'", _load(json.dumps({"model": {"coef": [1.0], "intercept": 0.0}}))),
    (r"cannot be read: No such file", lambda folder: Lesson.load(folder / "nowhere.json")),
    (r"cannot be read: No such file", lambda folder: Lesson.load(folder)),
    (r"against='x'", lambda folder: _lesson().report(folder / "r.html", against="x")),
    (r"against=3", lambda folder: _lesson().report(folder / "r.html", against=3)),
    (r"against=\['x'\]", lambda folder: _lesson().report(folder / "r.html", against=["x"])),
    (r"cannot be written.*folder", lambda folder: _lesson().report(folder / "no" / "r.html")),
    (r"cannot be written.*folder", lambda folder: _lesson().save(folder / "no" / "lesson.json")),
    (r"columns names 1 column,", lambda folder: _lesson().report(folder / "r.html", columns=["a"])),
    (r"what='rows'", lambda folder: _lesson().to_frame("rows")),
    (r"near this goal.*column 'age' is 1000, .* all rows is \d",
     lambda folder: fit(goal=GOAL | {"age": 1e3}, estimator=PoissonRegressor(), y=np.abs(T), method="match")),
    (r"column 'age'|feature names|match", lambda folder: fit().predict(X[["bmi", "age", "dose"]])),
    (r"3|feature", lambda folder: fit().predict(X.to_numpy()[:, :2])),
    (r"column 'age' holds text", lambda folder: fit().predict(X.assign(age="old"))),
    (r"NaN", lambda folder: fit().predict(spoilt(X, 4, 1, np.nan))),
    (r"[Ii]nconsistent", lambda folder: fit().score(X, Y[:4])),
    (r"rows=0", lambda folder: datasets.make_classification_pool(0)),
    (r"features=0", lambda folder: datasets.make_classification_pool(10, 0)),
    (r"teachers=20", lambda folder: datasets.make_classification_pool(10, 2, 20)),
    (r"noise=-1", lambda folder: datasets.make_regression_pool(noise=-1)),
    (r"random_state=-1", lambda folder: datasets.make_regression_pool(random_state=-1)),
    (r"seed", lambda folder: PerturbedFit(-1)),
    (r"ridge", lambda folder: MaxAUC(-1.0)),
    (r"classifier", lambda folder: fit(goal=MaxAUC(), estimator=Ridge(), y=T)),
    (r"goal LogisticRegression is a classifier, .*predicts numbers: fit a regression", lambda folder: fit(
        goal=LogisticRegression().fit(X, Y), estimator=Ridge(), y=T)),
    (r"goal Pipeline is a classifier", lambda folder: fit(
        goal=make_pipeline(StandardScaler(), LinearSVC()).fit(X, Y), estimator=PoissonRegressor(), y=np.abs(T))),
    (r"goal LinearRegression is a regression", lambda folder: teach(
        Federation(Threads([Teacher("a", X.to_numpy(), 2 * Y.to_numpy() - 1)])), LogisticRegression(),
        LinearRegression().fit(X.to_numpy(), Y), budget=9)),
    (r"ridge.*-1", lambda folder: Learner(Logistic(), -1.0)),
    (r"'loose'", lambda folder: Learner(Logistic(), 1.0, "loose")),
    (r"loss", lambda folder: Learner("logistic")),
    (r"delta", lambda folder: Huber(-1.0)),
    (r"intercept of .*fit_intercept", lambda folder: fit(goal=FITTED, estimator=LogisticRegression(fit_intercept=False))),
    (r"intercept of 0.1", lambda folder: fit(estimator=LogisticRegression(fit_intercept=False))),
    (r"class_weight", lambda folder: fit(goal=FromData(X, Y), estimator=LogisticRegression(class_weight={1: 2.0}))),
    (r"budget=1 is 1 of 40 rows.*2 classes: give at least 2; budget=1.0", lambda folder: fit(budget=1)),
    (r"budget=0.01 is 1 of 40 rows.*give at least 2$", lambda folder: fit(budget=0.01, method="match")),
    (r"budget=2 .*3 classes: give at least 3", lambda folder: fit(budget=2, y=THREE, goal=np.ones((3, 4)), method="match")),
    (r"budget=1 .*give at least 2", lambda folder: fit(budget=1, privacy="isolated", method="match")),
    (r"there are 3 classes, and a row for each", lambda folder: fit(y=THREE, goal=FITTED, method="match")),
    (r"no coefficient", lambda folder: fit(goal=LinearRegression().fit(X[["age", "bmi"]], T), estimator=Ridge(), y=T)),
    (r"engine='cuda' makes no engine.*Torch\('cuda'\)", lambda folder: fit(engine="cuda")),
    (r"3 masked values.*fill them", lambda folder: fit(X=np.ma.array(X, mask=np.arange(X.size).reshape(X.shape) < 3))),
    (r"X is a dict; give rows", lambda folder: fit(X={"age": [1.0]})),
    (r"X is a NoneType; give rows", lambda folder: fit(X=None)),
    (r"the goal is the text 'goal.json'; give its numbers", lambda folder: fit(goal="goal.json")),
]  # fmt: skip

THREE = np.arange(ROWS) % 3
WARD = X.assign(ward=["east", "west"] * (ROWS // 2))


def piped(table: Any, fitted: bool = False) -> SuperTeacher:
    """A pipeline over numbers and one text, as a goal fitted on the clean rows, taught from others."""
    columns = make_column_transformer((StandardScaler(), ["age", "bmi"]), (OneHotEncoder(), ["ward"]))
    learner = make_pipeline(columns, LogisticRegression())
    goal = clone(learner).fit(WARD, Y)
    return fit(X=table, estimator=goal if fitted else learner, goal=goal, method="match")


def within(**bounds: Any) -> SuperTeacher:
    """A goal that is a set."""
    return fit(goal=Within(**bounds), method="match")


SETS_PIPELINES_AND_DROPS: list[tuple[str, Call]] = [
    (r"'agee'.*'age', 'bmi'", lambda folder: within(at_most={"agee": 0.0})),
    (r"'age' by nan", lambda folder: within(at_most={"age": np.nan})),
    (r"column 'age'.* 1 and at most 0; widen", lambda folder: within(at_most={"age": 0.0}, at_least={"age": 1.0})),
    (r"at_most=\['age'\].*a dict", lambda folder: within(at_most=["age"])),
    (r"equal='age'.*each once", lambda folder: within(equal=["age", "bmi"])),
    (r"equal=\('age', 'age'\).*each once", lambda folder: within(equal=[("age", "age")])),
    (r"near=-1.*positive", lambda folder: within(near=(FITTED, -1.0))),
    (r"near= .*2 entries, expected 4", lambda folder: within(near=(np.ones(2), 1.0))),
    (r"near= .*the text 'FITTED'", lambda folder: within(near=("FITTED", 1.0))),
    (r"takes a pair", lambda folder: within(near=(FITTED, 1.0, 2.0))),
    (r"'high' for column 'bmi'", lambda folder: fit(goal={**GOAL, "bmi": "high"})),
    (r"'ward'.*the rows have .*'Ward': rename", lambda folder: piped(WARD.rename(columns={"ward": "Ward"}))),
    (r"'ward'.*the rows have 'age'", lambda folder: piped(X)),
    (r"column 'age' holds infinity in row 'p3'", lambda folder: piped(spoilt(WARD, 3, 0, np.inf), fitted=True)),
    (r"column 'age' holds text such as 'x'", lambda folder: piped(WARD.assign(age="x"), fitted=True)),
    (r"give the rows as a DataFrame", lambda folder: piped(WARD.to_numpy())),
    (r"column 'age' holds text such as 'x': encode", lambda folder: piped(WARD.assign(age="x"))),
    (r"column 'age' holds infinity in row 'p3'", lambda folder: piped(spoilt(WARD, 3, 0, np.inf))),
    (r"columns 'age', 'dose' are linearly", lambda folder: fit(
        X=X.assign(dose=X["age"]), y=T, goal=np.ones(4), estimator=LinearRegression(), method="match")),
    (r"budget=3 .*its 4 coefficients: give at least 4", lambda folder: fit(
        y=T, goal=np.ones(4), estimator=LinearRegression(), method="match", budget=3)),
    (r"undetermined \(columns 'age'", lambda folder: fit(
        X=X.assign(age=np.arange(ROWS) == 7), y=T, goal=np.ones(4), estimator=LinearRegression(), method="random", budget=9,
    )),
    (r"y='age' is a text", lambda folder: drop(X, "age", coefficient="bmi")),
    (r"'a' has 40 rows but 3 targets", lambda folder: Teacher("a", X.to_numpy(), T[:3])),
    (r"'a' has 40 rows but 3 ids", lambda folder: Teacher("a", X.to_numpy(), T, ids=[1, 2, 3])),
    (r"'a' has 40 rows but 41 costs", lambda folder: Teacher("a", X.to_numpy(), T, costs=np.ones(41))),
    (r"'a' has a NaN.* target in row 7;",
     lambda folder: Teacher("a", X.to_numpy(), np.where(np.arange(ROWS) == 7, np.nan, T))),
    (r"engine= returned None", lambda folder: fit(engine=lambda teachers: None)),
    (r"no teacher", lambda folder: Threads([])),
    (r"takes an engine such as Threads.*a list", lambda folder: Federation([])),
    (r"teacher a has labels such as 0; .*−1 and \+1", lambda folder: teach(
        Federation(Threads([Teacher("a", X.to_numpy(), Y.to_numpy())])), LogisticRegression(), np.ones(4), budget=20)),
    (r"'agee' is no column.*'age'", lambda folder: drop(X, Y, coefficient="agee")),
    (r"99 is no column", lambda folder: drop(X, Y, coefficient=99)),
    (r"column 'ward' holds text, such as 'east'", lambda folder: drop(WARD, Y, coefficient="age")),
    (r"3 classes, '0', '1', '2'", lambda folder: drop(X, THREE, LogisticRegression(), coefficient="age")),
    (r"2 targets", lambda folder: drop(X, np.column_stack([T, T]), Ridge(), coefficient="age")),
    (r"value=nan", lambda folder: drop(X, Y, coefficient="age", value=np.nan)),
    (r"value='0'", lambda folder: drop(X, Y, coefficient="age", value="0")),
    (r"most=0.*from 1 to 39", lambda folder: drop(X, Y, coefficient="age", most=0)),
    (r"'age' 40.*SimpleImputer", lambda folder: drop(X.assign(age=np.nan), Y, coefficient="age")),
    (r"40 rows but 10 targets", lambda folder: drop(X, Y[:10], coefficient="age")),
    (r"not a Pipeline: transform", lambda folder: drop(X, Y, make_pipeline(LogisticRegression()), coefficient="age")),
    (r"shape \(2,\).* 4 finite", lambda folder: drop(X, Y, coefficient=[1.0, 2.0])),
    (r"Lasso cannot be taught", lambda folder: drop(X, T, Lasso(), coefficient="age")),
    (r"\(3, 3\), expected \(3, 4\)", lambda folder: fit(y=THREE, goal=np.ones((3, 3)), method="match")),
    (r"no row of .* of the 3 classes", lambda folder: fit(
        y=np.where(np.arange(ROWS) == 7, 2, Y), goal=np.ones((3, 4)), method="random", budget=4)),
]  # fmt: skip

MORE: list[tuple[type[SuperteachError], str, Call]] = [
    (DataTypeError, "X|column", lambda folder: fit(X=X.groupby(OWNER))),
    (DataTypeError, "X|column", lambda folder: fit(X=pd.Series([[1.0, 2.0, 3.0]] * ROWS))),
    (DataTypeError, "X|column", lambda folder: fit(X=(r for r in X.to_numpy()))),
    (DataTypeError, "X|column", lambda folder: fit(X=X.assign(dose=["5%"] * ROWS))),
    (DataTypeError, "X|column", lambda folder: fit(X=X.assign(dose=["1,5"] * ROWS))),
    (DataError, "X|column", lambda folder: fit(X=X.assign(dose=pd.array([True, None] * 20, dtype="boolean")))),
    (DataError, "X|column", lambda folder: fit(X=X.assign(dose=pd.array([1, None] * 20, dtype="Int64")))),
    (DataError, "X|column", lambda folder: fit(X=X.assign(dose=pd.array([1.5, None] * 20, dtype="Float64")))),
    (
        DataError,
        "X|column",
        lambda folder: fit(
            X=pd.DataFrame(X.to_numpy(), columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]))
        ),
    ),
    (DataTypeError, "X|column", lambda folder: fit(X=pa.table({"a": X["age"].to_numpy(), "t": ["u"] * ROWS}))),
    (DataError, "X|column", lambda folder: fit(X=pa.table({"a": pa.array([None] + [1.0] * (ROWS - 1))}))),
    (DataError, "X|column", lambda folder: fit(X=pl.DataFrame({"a": [None] + [1.0] * (ROWS - 1)}))),
    (DataTypeError, "X|column", lambda folder: fit(X=pl.col("a"))),
    (DataError, "X|column", lambda folder: fit(X=X.to_numpy().T)),
    (DataTypeError, "X|column", lambda folder: fit(X=Y, y=X)),
    (DataTypeError, "X|column", lambda folder: fit(X=(X, Y))),
    (
        DataError,
        "a.csv",
        lambda folder: ((folder / "a.csv").write_text("a,b\n1,2\n"), fit(X=folder / "a.csv", y="b", groups=None)),
    ),
    (GoalError, "y |label|target", lambda folder: fit(y=["yes", "no", "maybe"] * 13 + ["no"])),
    (DataError, "y |label|target", lambda folder: fit(y=[True, None] * 20)),
    (DataTypeError, "y |label|target", lambda folder: fit(y={"label": Y})),
    (DataTypeError, "y |label|target", lambda folder: fit(y=len)),
    (DataError, "y |label|target", lambda folder: fit(y=["age"])),
    (DataTypeError, "y |label|target", lambda folder: fit(y=1)),
    (DataTypeError, "y |label|target", lambda folder: fit(y=(v for v in Y))),
    (DataError, "y |label|target", lambda folder: fit(y=pd.Series(pd.Categorical(["a", None] * 20)))),
    (DataError, "y |label|target", lambda folder: fit(y=pd.array([1, None] * 20, dtype="Int64"))),
    (DataTypeError, "y |label|target", lambda folder: fit(y=["1.5"] * 39 + ["abc"], estimator=Ridge())),
    (DataError, "y |label|target", lambda folder: fit(y=np.full(ROWS, np.nan), estimator=PoissonRegressor())),
    (DataError, "y |label|target", lambda folder: fit(y=spoilt(T, 3, None, np.inf), estimator=Ridge())),
    (DataTypeError, "y |label|target", lambda folder: fit(y=(DAYS - DAYS[0]).to_numpy(), estimator=Ridge())),
    (DataTypeError, "y |label|target", lambda folder: fit(y=np.array([object()] * ROWS), estimator=Ridge())),
    (DataError, "targets", lambda folder: fit(y=np.zeros(ROWS), estimator=PoissonRegressor(), method="match")),
    (
        BudgetError,
        "budget=",
        lambda folder: fit(y=np.full(ROWS, 5.0), estimator=Ridge(), goal=np.ones(4), method="match", budget=1.5),
    ),
    (DataError, "groups", lambda folder: fit(groups=X)),
    (DataError, "groups", lambda folder: fit(groups={1, 2})),
    (DataError, "groups", lambda folder: fit(groups=3)),
    (DataError, "groups", lambda folder: fit(groups=["age", "bmi"])),
    (DataError, "groups", lambda folder: fit(groups={"a": [1]})),
    (DataError, "groups", lambda folder: fit(groups=[pd.NaT] * ROWS)),
    (DataError, "cost", lambda folder: fit(costs=np.full(ROWS, np.inf), method="match")),
    (DataError, "cost", lambda folder: fit(costs=X, method="match")),
    (DataError, "cost", lambda folder: fit(costs=[None] * ROWS, method="match")),
    (DataTypeError, "sample_weight", lambda folder: fit(sample_weight={0: 1})),
    (DataError, "sample_weight", lambda folder: fit(sample_weight=True)),
    (GoalError, "goal", lambda folder: fit(goal=SuperTeacher())),
    (GoalError, "goal", lambda folder: fit(goal=GridSearchCV(LogisticRegression(), {"C": [1]}))),
    (GoalError, "goal", lambda folder: fit(goal="lesson/lesson.json")),
    (GoalError, "goal", lambda folder: fit(goal="perturbed")),
    (GoalError, "goal", lambda folder: fit(goal={"coef": {"age": 1.0, "bmi": 1.0, "dose": 1.0}})),
    (GoalError, "goal", lambda folder: fit(goal={"coef": {"age": "1,5", "bmi": 1.0, "dose": 1.0}, "intercept": 0})),
    (GoalError, "goal", lambda folder: fit(goal={"coef": [1.0, 2.0, 3.0], "intercept": [0.0, 1.0]})),
    (GoalError, "goal", lambda folder: fit(goal=LogisticRegression().fit(X.to_numpy()[:, :2], Y))),
    (GoalError, "goal", lambda folder: fit(goal=(X, Y))),
    (GoalError, "goal", lambda folder: fit(goal=X)),
    (GoalError, "goal", lambda folder: fit(goal=lambda room: np.ones(4))),
    (GoalError, "goal", lambda folder: fit(goal={1.0, 2.0})),
    (GoalError, "goal", lambda folder: fit(goal=np.ma.array([1.0, 2.0, 3.0, 4.0], mask=[0, 1, 0, 0]))),
    (GoalError, "Without", lambda folder: fit(goal=Without("agee"), method="match")),
    (GoalError, "Without", lambda folder: fit(goal=Without(7), method="match")),
    (GoalError, "Without", lambda folder: fit(goal=Without(["age", "bmi", "dose"]), method="match")),
    (GoalError, "Without", lambda folder: fit(goal=Without([]), method="match")),
    (GoalError, "Within", lambda folder: fit(goal=Within(), method="match")),
    (GoalError, "FromData", lambda folder: fit(goal=FromData)),
    (GoalError, "FromData", lambda folder: fit(goal=FromData(X, None))),
    (SettingError, "PerturbedFit", lambda folder: fit(goal=PerturbedFit("1"))),
    (BudgetError, "budget=", lambda folder: fit(budget="12")),
    (BudgetError, "budget=", lambda folder: fit(budget="10%")),
    (BudgetError, "budget=", lambda folder: fit(budget=np.array([1, 2]))),
    (BudgetError, "budget=", lambda folder: fit(budget=12.5)),
    (BudgetError, "budget=", lambda folder: fit(budget=float("nan"))),
    (SettingError, "delta=", lambda folder: fit(privacy="dp", delta=2.0, method="match")),
    (SettingError, "delta=", lambda folder: fit(privacy="dp", delta=0.0, method="match")),
    (SettingError, "privacy=", lambda folder: fit(privacy="DP")),
    (SettingError, "privacy=", lambda folder: fit(privacy="epsilon")),
    (SettingError, "method=", lambda folder: fit(method="macth")),
    (SettingError, "measure=", lambda folder: fit(measure="risk")),
    (SettingError, "positive=", lambda folder: fit(positive="yes")),
    (SettingError, "positive=", lambda folder: fit(positive=1, estimator=Ridge(), y=T)),
    (SettingError, "solver=", lambda folder: fit(solver=optim.Newton)),
    (
        LearnerError,
        "cannot be taught|no steps",
        lambda folder: fit(estimator=GridSearchCV(LogisticRegression(), {"C": [1]})),
    ),
    (LearnerError, "cannot be taught|no steps", lambda folder: fit(estimator=Pipeline([]))),
    (LearnerError, "cannot be taught|no steps", lambda folder: fit(estimator=LogisticRegressionCV())),
    (LearnerError, "cannot be taught|no steps", lambda folder: fit(estimator=[LogisticRegression()])),
    (LearnerError, "cannot be taught|no steps", lambda folder: fit(estimator=Ridge(alpha=[1, 2, 3]), y=T)),
    (LearnerError, "cannot be taught|no steps", lambda folder: fit(estimator=ElasticNet(), y=T)),
    (DataError, "X|[Ff]eature", lambda folder: fit().predict(X.rename(columns={"age": "Age"}))),
    (DataError, "X|[Ff]eature", lambda folder: fit().predict(X.assign(z=1.0))),
    (DataTypeError, "X|[Ff]eature", lambda folder: fit().predict(X.iloc[0])),
    (DataTypeError, "X|[Ff]eature", lambda folder: fit().predict("rows.csv")),
    (DataError, "y |label", lambda folder: fit().score(X, np.where(Y, "a", "b"))),
    (DataError, "y |label", lambda folder: fit().score(X, None)),
    (SettingError, "engine=", lambda folder: fit(engine=3)),
    (GoalError, "coefficient", lambda folder: drop(X, Y)),
    (DataError, "y ", lambda folder: drop(X, None, coefficient="age")),
    (SettingError, "most=", lambda folder: drop(X, Y, coefficient="age", most="ten")),
    (GoalError, "coefficient", lambda folder: drop(X, Y, coefficient=[np.nan] * 4)),
    (
        LearnerError,
        "taught",
        lambda folder: teach(Federation(Threads([Teacher("a", X.to_numpy(), T)])), None, np.ones(4), budget=20),
    ),
    (DataError, "lesson", lambda folder: Lesson.load({"a": 1})),
    (DataError, "lesson", lambda folder: ((folder / "a.csv").write_text("a,b\n1,2\n"), Lesson.load(folder / "a.csv"))),
    (LearnerError, "loss", lambda folder: Learner(LogisticRegression())),
    (SettingError, "what=", lambda folder: _lesson().to_frame(3)),
    (
        GoalError,
        "goal",
        lambda folder: teach(Federation(Threads([Teacher("a", X.to_numpy(), T)])), Ridge(), np.ones(2), budget=20),
    ),
    (
        GoalError,
        "goal",
        lambda folder: teach(Federation(Threads([Teacher("a", X.to_numpy(), T)])), Ridge(), None, budget=20),
    ),
    (DataError, "[Tt]hreads", lambda folder: Threads("abc")),
    (DataError, "[Tt]hreads", lambda folder: Threads(Teacher("a", X.to_numpy(), T))),
    (SettingError, "[Tt]hreads", lambda folder: Threads([Teacher("a", X.to_numpy(), T)], threads=-1)),
    (SettingError, "risk_target=", lambda folder: fit(budget="smallest", risk_target="small")),
    (BudgetError, "budget=", lambda folder: fit(budget=(20, 5))),
    (BudgetError, "budget=", lambda folder: fit(budget=(5, 0.5))),
    (BudgetError, "budget=", lambda folder: fit(budget=("5", "9"))),
    (SettingError, "method=", lambda folder: fit(privacy="isolated")),
    (SettingError, "standardize=", lambda folder: fit(privacy="isolated", method="match", standardize=True)),
    (GoalError, "MaxAUC", lambda folder: fit(privacy="isolated", method="match", goal=MaxAUC())),
    (BudgetError, "budget=", lambda folder: fit(privacy="isolated", method="match", budget="best")),
    (BudgetError, "budget=", lambda folder: fit(privacy="isolated", method="match", budget=40)),
    (SettingError, "Block", lambda folder: fit(method="match", solver=optim.Block())),
    (SettingError, "tolerance=", lambda folder: optim.Newton(tolerance=-1)),
    (SettingError, "max_steps=", lambda folder: optim.LBFGS(max_steps=0.5)),
    (SettingError, "Block", lambda folder: fit(solver=optim.Block(beta=9.0))),
    (SettingError, "restarts=", lambda folder: fit(method="match", restarts=None)),
    (SettingError, "random_state=", lambda folder: fit(random_state=np.random.default_rng(0))),
    (SettingError, "random_state=", lambda folder: fit(random_state=10**20)),
    (SettingError, "verbose=", lambda folder: fit(verbose=None)),
    (SettingError, "standardize=", lambda folder: fit(standardize=None)),
    (SettingError, "rows=", lambda folder: datasets.make_classification_pool(3, 2, 1)),
    (SettingError, "rows=", lambda folder: datasets.make_classification_pool(100.0)),
    (SettingError, "features=", lambda folder: datasets.make_regression_pool(100, "3")),
    (GoalError, "reference set", lambda folder: fit(goal=FromData(X, np.column_stack([Y, Y])))),
    (GoalError, "reference set", lambda folder: fit(goal=FromData(X.assign(age="u"), Y))),
    (GoalError, "reference set", lambda folder: fit(goal=FromData(X[["dose", "bmi", "age"]], Y))),
    (SettingError, "ridge", lambda folder: MaxAUC("1")),
    (GoalError, "Within", lambda folder: within(at_most={9: 0.0})),
    (GoalError, "Within", lambda folder: within(at_most={"age": None})),
    (GoalError, "Within", lambda folder: within(equal=[("age", "agee")])),
    (GoalError, "goal", lambda folder: fit(X=X.rename(columns={"age": 1, "bmi": 2, "dose": 3}), goal=GOAL)),
    (GoalError, "goal", lambda folder: piped(WARD.assign(ward=None))),
    (
        DataError,
        "weight",
        lambda folder: fit(
            X=WARD,
            estimator=make_pipeline(make_column_transformer((StandardScaler(), ["weight"])), LogisticRegression()),
        ),
    ),
    (
        DataError,
        "ward",
        lambda folder: fit(X=WARD, estimator=make_pipeline(StandardScaler(), LogisticRegression()), method="match"),
    ),
    (SettingError, "value=", lambda folder: drop(X, Y, coefficient="age", value="zero")),
    (GoalError, "coefficient=", lambda folder: drop(X.to_numpy(), T, coefficient="age")),
    (DataTypeError, "X", lambda folder: drop({"a": [1]}, T, coefficient="age")),
    (SettingError, "seconds=", lambda folder: drop(X, Y, coefficient="age", seconds=-1)),
    (DataTypeError, "column 'dose'", lambda folder: fit(X=X.assign(dose=[np.ones(2)] * ROWS))),
    (DataError, "LazyFrame", lambda folder: fit(X=pl.LazyFrame({"a": T}).select("b"))),
    (DataTypeError, "labels .*date", lambda folder: fit(y=[datetime.date(2020, 1, 1 + label) for label in Y])),
    (DataTypeError, "labels", lambda folder: fit(y=[b"ill" if label else b"well" for label in Y])),
    (GoalError, "the goal is None", lambda folder: fit(goal=SimpleNamespace(vector=lambda problem: None))),
    (SettingError, "delta", lambda folder: Huber("1")),
    (
        LearnerError,
        "every column",
        lambda folder: fit(estimator=make_pipeline(make_column_transformer(("drop", ["age"])), LogisticRegression())),
    ),
    (
        DataError,
        "column 'dose' holds text such as 'unknown'",
        lambda folder: fit(
            X=X.assign(dose=["9", "unknown"] * (ROWS // 2)),
            estimator=make_pipeline(SimpleImputer(), LogisticRegression()),
        ),
    ),
    (SettingError, "value=1.0", lambda folder: drop(X, T, coefficient="age", value=1.0, significance=0.05)),
    (SettingError, "columns='abc'", lambda folder: _lesson().report(folder / "r.html", columns="abc")),
    (DataError, "a int", lambda folder: log_lesson(3)),
    (SettingError, "Federation", lambda folder: teach([X], Ridge(), np.ones(4))),
    (SettingError, "Federation", lambda folder: teach(Threads([Teacher("a", X.to_numpy(), T)]), Ridge(), np.ones(4))),
    (DataTypeError, "rows", lambda folder: Teacher("a", WARD.to_numpy(), T)),
    (DataError, r"shape \(40,\)", lambda folder: Teacher("a", T, T)),
    (
        DataError,
        "columns",
        lambda folder: Threads([Teacher(str(width), X.to_numpy()[:, :width], T) for width in (2, 3)]),
    ),
]
"""A hundred more: the class of the error, and what it must name."""

PYTHON: list[tuple[str, Call]] = [
    *[(words, lambda folder, table=table: fit(X=table)) for words, table in TABLES],
    *[(words, lambda folder, given=given: fit(**given)) for words, given in TARGETS + SETTINGS],
    *[(words, lambda folder, goal=goal: fit(goal=goal)) for words, goal in GOALS],
    *[
        (words, lambda folder, learner=learner: fit(estimator=learner, goal=PerturbedFit(0)))
        for words, learner in LEARNERS
    ],
    *OTHERS,
    *SETS_PIPELINES_AND_DROPS,
]
"""Words, and what to call in an empty folder."""

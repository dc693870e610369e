"""Pipelines at scikit-learn's defaults on real tables: does a lesson predict what its goal predicts?

`SUPERTEACH_DATA` names the folder with the tables (docs/reference/datasets.md). Every lesson has 400 rows (heart disease:
120). Beside its agreement with the goal stand that of a fit on all rows and of fits on as many random rows, all refitted by
scikit-learn.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.table import Measurements
from superteach import SuperTeacher

ACS_NUMBERS, ACS_WORDS = ("AGEP", "SCHL", "WKHP"), ("COW", "MAR", "RELP", "SEX", "RAC1P")
DIABETES_NUMBERS = ("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_diagnoses")
DIABETES_WORDS = ("race", "gender", "age", "admission_type_id", "A1Cresult", "insulin", "change", "diabetesMed")
ADULT = (
    "age workclass fnlwgt education education_num marital occupation relationship race sex gain loss hours country y"
)
HEART_NUMBERS, HEART_WORDS = ("age", "trestbps", "chol", "thalach", "oldpeak"), ("sex", "cp", "fbs", "restecg", "exang")
RANDOM = 5
"""Random lessons of the same size, whose median stands beside."""


class Table(NamedTuple):
    """Rows of one site, rows of another, and which columns are numbers and which are words."""

    name: str
    rows: pd.DataFrame
    labels: np.ndarray[Any, Any]
    other: pd.DataFrame
    other_labels: np.ndarray[Any, Any]
    numbers: tuple[str, ...]
    words: tuple[str, ...]
    without: str
    size: int = 400


def tables(folder: Path, seed: int) -> Iterator[Table]:
    """The tables, each with rows drawn by `seed`."""
    acs = pd.read_parquet(folder / "acs_income_2018.parquet")
    for here, there, many in (
        ("NY", "PA", 8000), ("PA", "NY", 6000), ("TX", "OH", 8000), ("OH", "TX", 6000), ("WA", "GA", 5000),
    ):  # fmt: skip
        own, far = (acs[acs.state == state].sample(many, random_state=seed) for state in (here, there))
        yield Table(f"ACS {here}", own, own.label.to_numpy(), far, far.label.to_numpy(), ACS_NUMBERS, ACS_WORDS, "SEX")
    whole = pd.read_parquet(folder / "diabetes130.parquet")
    whole["admission_type_id"] = whole["admission_type_id"].astype(str)
    for column in DIABETES_WORDS:
        whole[column] = whole[column].astype(object).where(whole[column].notna(), "unknown")
    male = whole[whole.gender == "Male"].sample(8000, random_state=seed + 1)
    own = whole.sample(8000, random_state=seed)
    yield Table(
        "diabetes130", own, (own.readmitted != "NO").to_numpy(), male, (male.readmitted != "NO").to_numpy(),
        DIABETES_NUMBERS, DIABETES_WORDS, "race",
    )  # fmt: skip
    adult = pd.read_csv(folder / "adult.data", names=ADULT.split(), skipinitialspace=True)
    own, far = adult.sample(8000, random_state=seed), adult[adult.country != "United-States"]
    words = ("workclass", "education", "marital", "occupation", "relationship", "race", "sex")
    yield Table(
        "Adult", own, (own.y == ">50K").to_numpy(), far, (far.y == ">50K").to_numpy(),
        ("age", "gain", "loss", "hours"), words, "sex",
    )  # fmt: skip
    heart = pd.read_parquet(folder / "heart_disease.parquet")
    far = heart[heart.site == "cleveland"]
    yield Table(
        "heart", heart, heart.target.to_numpy(), far, far.target.to_numpy(), HEART_NUMBERS, HEART_WORDS, "sex", 120
    )


def encoder(table: Table, kind: str) -> ColumnTransformer:
    """What stands before the learner: scaled or raw numbers, every word as dummies, no dummy dropped."""
    scaler = [] if kind == "raw units" else [StandardScaler()]
    numbers = make_pipeline(SimpleImputer(), *scaler)
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    parts = [("numbers", numbers, list(table.numbers)), ("words", words, list(table.words))]
    if kind == "constant column":
        parts.append(("constant", "passthrough", ["constant"]))
    if kind == "duplicated columns":
        parts += [("again", numbers, list(table.numbers)), ("words again", words, list(table.words[:2]))]
    return ColumnTransformer(parts)


def dense(matrix: Any) -> np.ndarray[Any, Any]:
    """A matrix as an array."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


class Case(NamedTuple):
    """Encoded rows, the goal as a fitted model, and whether it was given as a pipeline."""

    X: np.ndarray[Any, Any]
    goal: LogisticRegression
    columns: list[str]


def case(table: Table, kind: str, goal: str) -> Case:
    """Encode the rows and fit the goal, by scikit-learn at its defaults."""
    make = encoder(table, kind)
    rows, other = (frame.assign(constant=1.0) for frame in (table.rows, table.other))
    X = dense(make.fit_transform(rows))
    columns = list(make.get_feature_names_out())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if goal == "another site":
            return Case(X, LogisticRegression().fit(dense(make.transform(other)), table.other_labels), columns)
        if goal == "without a column":
            out = np.array([f"_{table.without}" in name or name.endswith(f"_{table.without}") for name in columns])
            part = LogisticRegression().fit(X[:, ~out], table.labels)
            whole = LogisticRegression().fit(X, table.labels)
            whole.coef_[0, out], whole.coef_[0, ~out], whole.intercept_ = 0.0, part.coef_[0], part.intercept_
            return Case(X, whole, columns)
        return Case(X, LogisticRegression().fit(X, table.labels), columns)


def agreement(model: LogisticRegression, goal: LogisticRegression, X: np.ndarray[Any, Any]) -> float:
    """Share of rows with the same predicted class."""
    return float(np.mean(model.predict(X) == goal.predict(X)))


def apart(model: LogisticRegression, goal: LogisticRegression, X: np.ndarray[Any, Any]) -> float:
    """Root mean square of the difference of scores."""
    return float(np.sqrt(np.mean(np.square(model.decision_function(X) - goal.decision_function(X)))))


class Score(NamedTuple):
    """One lesson beside all rows and random rows: agreement, distance of scores; and what was proved."""

    lesson: float
    everything: float
    random: float
    distance: float
    random_distance: float
    certified: bool
    seconds: float


def score(table: Table, kind: str, goal: str, seed: int, **settings: Any) -> Score:
    """Teach one lesson and refit it by scikit-learn."""
    X, wanted, _ = case(table, kind, goal)
    y, size = table.labels, table.size
    teacher = SuperTeacher(LogisticRegression(), wanted, budget=size, random_state=seed, **settings).fit(X, y)

    def refit(rows: Any) -> LogisticRegression:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return LogisticRegression(tol=1e-8, max_iter=20_000).fit(X[rows], y[rows])

    draw = np.random.default_rng(seed)
    others = [refit(draw.choice(len(y), size, replace=False)) for _ in range(RANDOM)]
    taught, everything = refit(teacher.sample_indices_), refit(slice(None))
    lesson = teacher.lesson_
    return Score(
        agreement(taught, wanted, X),
        agreement(everything, wanted, X),
        float(np.median([agreement(one, wanted, X) for one in others])),
        apart(taught, wanted, X),
        float(np.median([apart(one, wanted, X) for one in others])),
        lesson.certificate is not None,
        lesson.seconds,
    )


GOALS = ("all rows", "without a column", "another site")
KINDS = ("scaled", "raw units", "constant column", "duplicated columns")


def run(quick: bool) -> list[Measurements]:
    """Every table, goal and kind of columns; lessons that end below random rows are counted."""
    folder = Path(os.environ.get("SUPERTEACH_DATA", Path.home() / ".cache" / "superteach"))
    table = Measurements(
        "equal predictions, %, 400 rows (heart: 120)",
        ("table", "columns", "goal", "lesson", "all rows", "random rows", "scores apart", "random", "proof", "s"),
    )
    worse = lessons = 0
    for rows in tables(folder, seed=7):
        for kind in KINDS[:1] if quick else KINDS:
            for goal in GOALS:
                one = score(rows, kind, goal, seed=7)
                lessons += 1
                worse += one.lesson < one.random
                table.rows.append(
                    (rows.name, kind, goal, f"{100 * one.lesson:.2f}", f"{100 * one.everything:.2f}",
                     f"{100 * one.random:.2f}", one.distance, one.random_distance, "yes" if one.certified else "",
                     f"{one.seconds:.1f}")
                )  # fmt: skip
                print(*table.rows[-1], flush=True)
    summary = Measurements("lessons below random rows", ("lessons", "below"), [(lessons, worse)])
    return [table, summary]

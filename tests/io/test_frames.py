"""Tables of other packages: the same lesson from each, and the chosen rows in the container that the rows came in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from superteach import SuperTeacher, drop
from superteach.goals import FromData

RANDOM = np.random.default_rng(0)
FRAME = pd.DataFrame(RANDOM.standard_normal((60, 3)), columns=["age", "bmi", "dose"])
LABEL = (FRAME["age"] + RANDOM.standard_normal(60) > 0.0).astype(int)
GOAL = {"age": 0.5, "bmi": 0.0, "dose": 0.0, "intercept": 0.0}


def hugging_face(frame: pd.DataFrame):
    return pytest.importorskip("datasets").Dataset.from_pandas(frame)


CONTAINERS = {
    "polars": pl.from_pandas,
    "lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": pa.Table.from_pandas,
    "hugging face": hugging_face,
}


def as_frame(table) -> pd.DataFrame:
    table = table.collect() if isinstance(table, pl.LazyFrame) else table
    return table if isinstance(table, pd.DataFrame) else table.to_pandas()


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_gives_the_same_lesson(name):
    table = CONTAINERS[name](FRAME)
    plain = SuperTeacher(goal=GOAL, budget=20).fit(FRAME, LABEL)
    teacher = SuperTeacher(goal=GOAL, budget=20)
    chosen, _ = teacher.fit_resample(table, LABEL)
    assert teacher.sample_indices_.tolist() == plain.sample_indices_.tolist()
    assert teacher.feature_names_in_.tolist() == list(FRAME)
    assert teacher.predict(table).tolist() == plain.predict(FRAME).tolist()
    assert type(chosen) is type(table)
    assert np.array_equal(as_frame(chosen), FRAME.iloc[plain.sample_indices_])


@pytest.mark.parametrize("name", [name for name in CONTAINERS if name != "arrow"])
def test_a_pipeline_takes_them_too(name):
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    plain = SuperTeacher(pipeline, GOAL, budget=20).fit(FRAME, LABEL)
    assert (
        SuperTeacher(pipeline, GOAL, budget=20).fit(CONTAINERS[name](FRAME), LABEL).lesson_.risk == plain.lesson_.risk
    )


@pytest.mark.parametrize("name", ["lazy", "hugging face"])
def test_targets_goals_and_drops_take_them_too(name):
    table, labels = CONTAINERS[name](FRAME), CONTAINERS[name](LABEL.to_frame("label"))
    if name == "hugging face":
        labels = labels["label"]
    plain = SuperTeacher(goal=FromData(FRAME, LABEL), budget=20).fit(FRAME, LABEL)
    teacher = SuperTeacher(goal=FromData(table, labels), budget=20).fit(table, labels)
    assert teacher.lesson_.goal.tolist() == plain.lesson_.goal.tolist()
    assert teacher.score(table, labels) == plain.score(FRAME, LABEL)
    answers = [drop(each, LABEL, coefficient="age", seconds=0.0) for each in (table, FRAME)]
    assert answers[0].before == answers[1].before
    assert answers[0].total == answers[1].total

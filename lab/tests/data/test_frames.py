"""Adult, with texts and missing values; and data frames of any loader."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from superteach.exceptions import DataError, SettingError
from superteach_lab import data as datasets
from superteach_lab.data.catalogue import SUPERCONDUCT_FEATURES


def quiet(loader, *args, **settings):
    """Load an excerpt without the warning that it is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return loader(*args, **settings)


ADULT_ROWS = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
    "United-States, <=50K\n"
    "54, ?, 180211, Some-college, 10, Married-civ-spouse, ?, Husband, Black, Female, 0, 0, 60, ?, >50K\n"
)


@pytest.fixture
def adult(tmp_path):
    """The publisher's two files: the second begins with a remark, and its labels end with a full stop."""
    (tmp_path / "adult.data").write_text(ADULT_ROWS + "\n")
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n" + ADULT_ROWS.replace("50K\n", "50K.\n"))
    return tmp_path


@pytest.mark.parametrize("subset", ["train", "test"])
def test_adult_has_numbers_texts_and_holes(adult, subset):
    found = quiet(datasets.load_adult, adult, subset=subset)
    frame = found.data
    assert list(frame.columns)[:4] == ["age", "workclass", "fnlwgt", "education"]
    assert frame["age"].tolist() == [39, 54]
    assert frame.select_dtypes("number").shape == (2, 6)
    assert frame.isna().sum().sum() == 3
    assert pd.isna(frame["workclass"][1])
    assert frame["native-country"][0] == "United-States"
    assert list(found.target) == [0, 1]


def test_adult_as_an_array_of_objects_and_as_a_pair(adult):
    X, y = quiet(datasets.load_adult, adult, return_X_y=True, as_frame=False)
    assert X.dtype == object
    assert X.shape == (2, 14)
    assert X[1, 1] is None
    assert list(y) == [0, 1]
    frame, target = quiet(datasets.load_adult, adult, return_X_y=True)
    assert isinstance(frame, pd.DataFrame)
    assert isinstance(target, pd.Series)


def test_adult_is_found_in_the_folder_that_the_environment_names(adult, monkeypatch):
    monkeypatch.setenv("SUPERTEACH_DATA", str(adult))
    assert quiet(datasets.load_adult).data.shape == (2, 14)


def test_adult_with_a_wrong_subset_or_a_torn_row(adult):
    with pytest.raises(SettingError, match="subset='all' must be 'train' or 'test'"):
        datasets.load_adult(adult, subset="all")
    (adult / "adult.data").write_text(ADULT_ROWS + "39, State-gov, 77516\n")
    with pytest.raises(DataError, match=r"adult\.data"):
        quiet(datasets.load_adult, adult)


def test_other_tables_come_as_frames_too(tmp_path):
    """`as_frame=True` gives names to columns and target; without it the same numbers are an array."""
    names = ",".join([*SUPERCONDUCT_FEATURES, "critical_temp"])
    numbers = np.arange(2.0 * (len(SUPERCONDUCT_FEATURES) + 1)).reshape(2, -1)
    (tmp_path / "train.csv").write_text(names + "\n" + "\n".join(",".join(map(str, row)) for row in numbers) + "\n")
    plain = quiet(datasets.load_superconduct, tmp_path / "train.csv")
    framed = quiet(datasets.load_superconduct, tmp_path / "train.csv", as_frame=True)
    assert list(framed.data.columns) == list(SUPERCONDUCT_FEATURES)
    assert framed.target.name is not None
    assert np.allclose(framed.data.to_numpy(), plain.data)
    assert np.allclose(framed.target, plain.target)

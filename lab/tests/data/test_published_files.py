"""Loaders of published data on the real files, where they are, against pandas."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from superteach_lab import data as datasets
from superteach_lab.data.catalogue import ACS_FEATURES, HIGGS_FEATURES

REAL = Path(os.environ.get("SUPERTEACH_DATA") or Path(__file__).parents[4] / "shared" / "data")


def real(name: str) -> Path:
    """A real file, or a skip that says where it was looked for."""
    if not (REAL / name).is_file():
        pytest.skip(f"{name} is not in {REAL}; set SUPERTEACH_DATA to the folder that holds it")
    return REAL / name


def test_real_superconduct_agrees_with_pandas_and_gives_the_known_error():
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    frame = pd.read_parquet(real("superconduct.parquet"))
    bunch = datasets.load_superconduct(REAL)
    assert bunch.data.shape == (21_263, 81)
    assert bunch.files[0].recognised
    np.testing.assert_array_equal(bunch.data, frame.drop(columns="critical_temp").to_numpy(dtype=float))
    # A linear model is known to leave 17.4 kelvin on a third of the rows.
    X, X_test, y, y_test = train_test_split(bunch.data, bunch.target, test_size=1 / 3, random_state=0)
    scaler = StandardScaler().fit(X)
    predicted = Ridge().fit(scaler.transform(X), y).predict(scaler.transform(X_test))
    assert np.sqrt(np.mean((predicted - y_test) ** 2)) == pytest.approx(17.5, abs=0.4)


def test_real_higgs_subset():
    frame = pd.read_parquet(real("higgs_subset.parquet"))
    bunch = datasets.load_higgs(REAL)
    assert bunch.files[0].recognised
    np.testing.assert_array_equal(bunch.data, frame[list(HIGGS_FEATURES)].to_numpy())
    np.testing.assert_array_equal(bunch.target, frame["label"])
    assert datasets.load_higgs(REAL, rows=1000).data.shape == (1000, 28)


def test_real_census():
    frame = pd.read_parquet(real("acs_income_2018.parquet"))
    bunch = datasets.load_acs_income(REAL)
    assert bunch.files[0].recognised
    assert bunch.dropped["rows"] == 0
    np.testing.assert_array_equal(bunch.data, frame[list(ACS_FEATURES)].to_numpy())
    np.testing.assert_array_equal(bunch.target, frame["label"])
    np.testing.assert_array_equal(bunch.groups, frame["state"].astype(str))
    assert len(np.unique(bunch.groups)) == 49
    few = datasets.load_acs_income(REAL, states=["VT", "WY"], categories="one-hot")
    assert np.unique(few.groups).tolist() == ["VT", "WY"]
    assert np.isfinite(few.data).all()


def test_real_beijing():
    frame = pd.read_parquet(real("beijing_air_quality.parquet")).dropna()
    bunch = datasets.load_beijing_air(REAL)
    assert bunch.files[0].recognised
    assert len(bunch.target) == len(frame) == 382_168
    assert bunch.dropped["rows"] == 420_768 - 382_168
    np.testing.assert_array_equal(bunch.data[:, :10], frame[bunch.feature_names[:10]].to_numpy())
    times = pd.to_datetime(frame[["year", "month", "day", "hour"]]).to_numpy().astype("datetime64[h]")
    np.testing.assert_array_equal(bunch.time, times)
    assert len(np.unique(bunch.groups)) == 12
    assert (bunch.target > 75).mean() == pytest.approx(0.389, abs=5e-4)


def test_real_heart_disease():
    frame = pd.read_parquet(real("heart_disease.parquet"))
    bunch = datasets.load_heart_disease(REAL, missing="keep")
    assert bunch.files[0].recognised
    np.testing.assert_array_equal(bunch.target, frame["target"])
    recorded = frame[bunch.feature_names].mask(lambda table: table.eq(0) & table.columns.isin(["chol", "trestbps"]))
    np.testing.assert_array_equal(bunch.data, recorded.to_numpy())
    left = datasets.load_heart_disease(REAL)
    assert left.dropped["columns"] == ["chol", "fbs", "slope", "ca", "thal"]
    expected = recorded.drop(columns=left.dropped["columns"]).dropna()
    np.testing.assert_array_equal(left.data, expected.to_numpy())
    assert len(np.unique(left.groups)) == 4

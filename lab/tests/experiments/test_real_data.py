"""The paper's set-up on the smallest real data set."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from superteach_lab.experiments.real_data import RIDGE_PER_ROW, load, measure

DATA = Path(os.environ.get("SUPERTEACH_DATA") or Path(__file__).parents[4] / "shared" / "data")


def test_heart_disease_by_hospital():
    """All methods are asked for one goal and one size, and match comes nearer than the paper's method."""
    if not (DATA / "heart_disease.parquet").is_file():
        pytest.skip(f"heart_disease.parquet is not in {DATA}; set SUPERTEACH_DATA to the folder that holds it")
    X, y, owner = load("heart", str(DATA))
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(X.std(axis=0), 1.0)
    lines = list(measure("heart", X, y, owner, seed=0))
    json.dumps(lines, allow_nan=False)
    paper, match, drawn, larger = lines
    assert [line["method"] for line in lines] == ["dual", "match", "random", "match"]
    assert paper["size"] == match["size"] == drawn["size"]
    assert larger["size"] == round(0.04 * len(y))
    assert len({(line["pool_risk"], line["goal_length"], line["teachers"]) for line in lines}) == 1
    assert match["risk"] < 0.5 * paper["risk"] < 0.5 * paper["pool_risk"]
    # The goal's noise is as long as the model of all rows, so that model's risk is its own length.
    from sklearn.linear_model import LogisticRegression

    pool = LogisticRegression(C=1.0 / (RIDGE_PER_ROW * len(y)), fit_intercept=False, tol=1e-10, max_iter=1000)
    assert paper["pool_risk"] == pytest.approx(np.linalg.norm(pool.fit(X, y).coef_), rel=1e-5)

"""How few rows carry a finding: exhaustive search over scikit-learn's own fits lies between the two bounds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from superteach import drop
from superteach.errors import DataError, GoalError, LearnerError, SettingError


def pool(kind, seed, rows=20):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((rows, 2))
    if kind == "ridge":
        return features, features @ [0.25, 1.0] + 0.8 * rng.standard_normal(rows), Ridge(alpha=0.1)
    target = (features @ [0.5, 1.0] + rng.logistic(size=rows) > 0.0).astype(int)
    return features, target, LogisticRegression(tol=1e-10, max_iter=2000)


def fewest(features, target, estimator, most):
    """Every subset, by size, fitted by scikit-learn."""
    everybody = np.arange(len(target))
    before = estimator.fit(features, target).coef_.ravel()[0]
    for count in range(1, most + 1):
        for some in combinations(everybody, count):
            kept = np.setdiff1d(everybody, some)
            if (
                len(np.unique(target[kept])) > 1
                and before * estimator.fit(features[kept], target[kept]).coef_.ravel()[0] <= 0
            ):
                return count
    return None


@pytest.mark.long(every=6)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_exhaustive_search_lies_between(kind, seed):
    """The proof never claims too much, and on tables this small the search finds the fewest."""
    features, target, estimator = pool(kind, seed)
    found = drop(features, target, estimator, coefficient=0)
    truth = fewest(features, target, estimator, 3)
    assert found.rows is not None
    assert found.least is not None
    if truth is None:
        assert len(found.rows) > 3
    else:
        assert found.least <= truth == len(found.rows)
    kept = np.setdiff1d(np.arange(len(target)), found.rows)
    assert estimator.fit(features[kept], target[kept]).coef_.ravel()[0] == pytest.approx(found.after, abs=1e-5)
    assert found.before * found.after <= 1e-12


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_no_search_beats_the_proof(kind):
    """A longer table, where nobody can try all subsets: random and greedy removals of fewer rows never flip the sign."""
    features, target, estimator = pool(kind, 5, rows=400)
    found = drop(features, target, estimator, coefficient=0)
    assert 1 < found.least <= len(found.rows) <= found.approximate
    rng = np.random.default_rng(0)
    for _ in range(30):
        some = rng.choice(found.rows, found.least - 1, replace=False)
        kept = np.setdiff1d(np.arange(400), some)
        assert found.before * estimator.fit(features[kept], target[kept]).coef_.ravel()[0] > 0


def test_names_values_and_directions():
    """A column by name, another value than 0, the difference of two coefficients, the intercept."""
    features, target, _ = pool("ridge", 1, rows=60)
    frame = pd.DataFrame(features, columns=["age", "dose"])
    by_name, by_number = (drop(x, target, Ridge(), coefficient=c) for x, c in ((frame, "age"), (features, 0)))
    assert np.array_equal(by_name.rows, by_number.rows)
    assert drop(frame, target, Ridge(), coefficient="dose", value=0.9).after <= 0.9 or by_name.before < 0.9
    apart = drop(frame, target, Ridge(), coefficient=[1.0, -1.0, 0.0])
    assert apart.before < 0 <= apart.after
    assert drop(frame, target, Ridge(), coefficient="intercept").rows is not None
    assert "of 60 rows" in repr(apart)


def test_where_nothing_flips():
    """No removal of at most three rows turns a strong coefficient; the proof says at least as much."""
    features, target, _ = pool("ridge", 2, rows=200)
    found = drop(features, target, Ridge(), coefficient=1, most=3)
    assert (found.rows, found.after) == (None, None)
    assert found.least == 3
    assert "none found" in repr(found)


def test_a_loss_without_a_proof():
    """Poisson's curvature has no bound: the search works, no lower bound is claimed."""
    rng = np.random.default_rng(0)
    features = 0.5 * rng.standard_normal((80, 2))
    target = rng.poisson(np.exp(features @ [0.3, 0.5]))
    found = drop(features, target, PoissonRegressor(alpha=1e-3), coefficient=0)
    assert found.least is None
    kept = np.setdiff1d(np.arange(80), found.rows)
    refit = PoissonRegressor(alpha=1e-3, tol=1e-12, max_iter=1000).fit(features[kept], target[kept])
    assert refit.coef_[0] == pytest.approx(found.after, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"coefficient": "age"}, GoalError, "'age' is no column"),
        ({"coefficient": [1.0]}, GoalError, "shape"),
        ({"value": "x"}, SettingError, "value='x'"),
        ({"most": 0}, SettingError, "most=0"),
        ({"X": np.zeros(3)}, DataError, "rows × columns"),
        ({"learner": object()}, LearnerError, "cannot be taught"),
    ],
)
def test_bad_input(change, error, said):
    features, target, _ = pool("ridge", 0)
    given = {"X": features, "y": target, "learner": Ridge(), "coefficient": 0} | change
    with pytest.raises(error, match=said):
        drop(given.pop("X"), given.pop("y"), given.pop("learner"), **given)

"""The synthetic pools have the clusters, labels, noise and owners they promise."""

from __future__ import annotations

import numpy as np
import pytest

from superteach.datasets import make_classification_pool, make_regression_pool
from superteach.exceptions import SettingError


def test_same_seed_same_pool_and_other_seed_other_pool() -> None:
    first, again, other = (make_classification_pool(200, 3, 4, random_state=seed) for seed in (7, 7, 8))
    for left, right in zip(first, again, strict=True):
        np.testing.assert_array_equal(left, right)
    assert not np.array_equal(first[0], other[0])


@pytest.mark.parametrize(("rows", "teachers"), [(5000, 5), (5003, 10), (7, 7), (11, 4)])
def test_owners_hold_equal_shares_with_the_remainder_spread(rows: int, teachers: int) -> None:
    for make in (make_classification_pool, make_regression_pool):
        owner = make(rows, 2, teachers, random_state=1)[2]
        counts = np.bincount(owner, minlength=teachers)
        assert counts.sum() == rows
        assert set(counts) <= {rows // teachers, rows // teachers + 1}


def test_labels_are_balanced_integers_and_clusters_have_unit_variance() -> None:
    X, y, _ = make_classification_pool(40_000, 4, 5, random_state=3)
    assert y.dtype.kind == "i"
    np.testing.assert_array_equal(np.bincount(y), [20_000, 20_000])
    # Total variance is that of the clusters (1) plus that of their centres, which lies near 0.5².
    assert np.all(X.var(axis=0) >= 0.97)
    assert X.var(axis=0).mean() < 2.0


def test_regression_target_is_linear_but_for_its_noise() -> None:
    X, clean, owner = make_regression_pool(20_000, 5, 3, noise=0.0, random_state=2)
    weights, residual, *_ = np.linalg.lstsq(X, clean, rcond=None)
    assert residual[0] < 1e-15 * (clean @ clean)
    same_X, noisy, same_owner = make_regression_pool(20_000, 5, 3, noise=20.0, random_state=2)
    np.testing.assert_array_equal(X, same_X)
    np.testing.assert_array_equal(owner, same_owner)
    assert np.std(noisy - X @ weights) == pytest.approx(20.0, rel=0.03)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"rows": 3}, "rows=3"),
        ({"features": 0}, "features=0"),
        ({"teachers": 0}, "teachers=0"),
        ({"teachers": 101}, "teachers=101"),
        ({"random_state": -1}, "random_state=-1"),
        ({"noise": float("nan")}, "noise=nan"),
        ({"noise": -1.0}, "noise=-1"),
    ],
)
def test_settings_out_of_range_are_named(settings: dict[str, float], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        make_regression_pool(**({"rows": 100} | settings))  # type: ignore[arg-type]

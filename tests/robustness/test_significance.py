"""Standard errors, their influences, and proofs about them: formulas written out again, refits and exhaustive search."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LinearRegression

from superteach import drop
from superteach.losses.scalar import Logistic, Squared
from superteach.robustness.regression import STANDARD_ERRORS, Regression, Significance
from superteach.robustness.search import RemovalSearch

NONE = np.zeros(0, dtype=np.int64)


def table(seed, rows=60, slope=0.5):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((rows, 2))
    target = slope * features[:, 0] + features[:, 1] + rng.standard_normal(rows) * (0.5 + np.abs(features[:, 0]))
    return features, target, rng.integers(0, 8, rows)


def written_out(rows, target, errors, groups):
    """Coefficients and the covariance of econometrics' textbooks, with explicit sums."""
    count, width = rows.shape
    bread = np.linalg.inv(rows.T @ rows)
    model = bread @ rows.T @ target
    residual = target - rows @ model
    if errors == "classical":
        return model, bread * (residual @ residual) / (count - width)
    if errors == "clustered":
        names = np.unique(groups)
        scores = [rows[groups == name].T @ residual[groups == name] for name in names]
        factor = len(names) / (len(names) - 1) * (count - 1) / (count - width)
    else:
        scores = [row * one for row, one in zip(rows, residual, strict=True)]
        factor = count / (count - width) if errors == "HC1" else 1.0
    return model, factor * bread @ sum(np.outer(score, score) for score in scores) @ bread


@pytest.mark.parametrize("errors", STANDARD_ERRORS)
def test_standard_errors_are_the_textbooks(errors):
    features, target, groups = table(0)
    rows = np.column_stack([features, np.ones(60)])
    regression = Regression.of(rows, target, Squared(), np.zeros(3))
    gone = np.array([3, 7, 20])
    kept = regression.kept(gone)
    model, covariance = written_out(rows[kept], target[kept], errors, groups[kept])
    fitted = regression.fit(gone, np.zeros(3))
    assert regression.basis @ fitted == pytest.approx(model, abs=1e-10)
    for place in range(2):
        what = Significance(regression.direction(np.eye(3)[place]), 1.96, errors, groups)
        assert what.standard_error(regression, kept, fitted) == pytest.approx(covariance[place, place] ** 0.5)


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
@pytest.mark.parametrize("errors", STANDARD_ERRORS)
def test_influences_are_first_differences(errors, loss):
    """With thousands of rows one row's influence is its effect; the average error is far below the average effect."""
    features, target, groups = table(1, rows=2000)
    target = np.where(target > 0.0, 1.0, -1.0) if loss.classifies else target
    rows = np.column_stack([features, np.ones(2000)])
    regression = Regression.of(rows, target, loss, np.ones(3) * loss.classifies)
    model = regression.fit(NONE, np.zeros(3))
    what = Significance(regression.direction(np.eye(3)[0]), 1.96, errors, groups)
    everyone = np.ones(2000, dtype=bool)
    before, claimed = what.value(regression, everyone, model), what.influences(regression, everyone, model)
    some = np.arange(0, 2000, 40)
    effects = np.array(
        [
            before - what.value(regression, regression.kept(np.array([row])), regression.fit(np.array([row]), model))
            for row in some
        ]
    )
    # Degrees of freedom shift all effects alike, which no choice of rows can use.
    apart = (effects - claimed[some]) - np.median(effects - claimed[some])
    assert np.abs(apart).mean() < 0.1 * np.abs(effects).mean()


@pytest.mark.parametrize("seed", range(6))
def test_exhaustive_search_with_classical_errors(seed):
    """No set smaller than proved takes significance away; proof, search and exhaustive search agree."""
    features, target, _ = table(10 + seed, rows=18, slope=1.2)
    rows = np.column_stack([features[:, :1], np.ones(18)])
    model, covariance = written_out(rows, target, "classical", None)
    quantile = norm.ppf(0.975)
    if abs(model[0]) <= quantile * covariance[0, 0] ** 0.5:
        pytest.skip("not significant on all rows")
    result = drop(features[:, :1], target, LinearRegression(), coefficient=0, significance=0.05)
    assert result.proof == "regions"
    assert result.verify()

    def enough(count):
        for some in combinations(range(18), count):
            kept = np.setdiff1d(np.arange(18), some)
            fitted, errors = written_out(rows[kept], target[kept], "classical", None)
            if np.sign(model[0]) * fitted[0] <= quantile * errors[0, 0] ** 0.5:
                return True
        return False

    truth = next((count for count in range(1, 4) if enough(count)), 4)
    assert min(result.least, 4) <= truth
    assert min(len(result.rows), 4) == truth


@pytest.mark.parametrize("errors", STANDARD_ERRORS)
def test_what_is_found_is_not_significant(errors):
    features, target, groups = table(3, rows=150, slope=1.0)
    given = {"groups": groups} if errors == "clustered" else {}
    result = drop(features, target, coefficient=0, significance=0.05, standard_errors=errors, seconds=5.0, **given)
    kept = np.setdiff1d(np.arange(150), result.rows)
    rows = np.column_stack([features, np.ones(150)])
    model, covariance = written_out(rows[kept], target[kept], errors, groups[kept])
    assert model[0] == pytest.approx(result.after)
    assert model[0] <= norm.ppf(0.975) * covariance[0, 0] ** 0.5
    before, covariance = written_out(rows, target, errors, groups)
    assert result.error == pytest.approx(covariance[0, 0] ** 0.5)
    assert before[0] == pytest.approx(result.before)


def test_one_group_alone_is_no_answer():
    """Clustered errors of a single group are undefined: rows that leave one group take no significance away."""
    features, target, _ = table(3, rows=40, slope=1.0)
    groups = np.repeat([0, 1], [38, 2])
    regression = Regression.of(np.column_stack([features, np.ones(40)]), target, Squared(), np.zeros(3))
    what = Significance(regression.direction(np.eye(3)[0]), 1.96, "clustered", groups)
    for removed, defined in (([38], True), ([38, 39], False)):
        kept, model = regression.kept(removed), regression.fit(np.array(removed), regression.model)
        assert np.isfinite(what.value(regression, kept, model)) == defined
    assert RemovalSearch(regression, what, 20).try_rows(np.array([38, 39])) is None


@pytest.mark.parametrize("errors", ["HC0", "HC1"])
@pytest.mark.parametrize("seed", range(3))
def test_robust_bounds_never_claim_too_much(errors, seed):
    """No one row and no two take significance away where the bound says that more are needed; and it says something."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.standard_normal(120), np.ones(120)])
    target = 0.6 * rows[:, 0] + rng.standard_normal(120)
    result = drop(rows[:, :1], target, LinearRegression(), coefficient=0, significance=0.05, standard_errors=errors)
    assert 1 < result.least <= len(result.rows)

    def lower_end(gone):
        kept = np.setdiff1d(np.arange(120), gone)
        model, covariance = written_out(rows[kept], target[kept], errors, None)
        return model[0] - norm.ppf(0.975) * covariance[0, 0] ** 0.5

    alone = [lower_end([row]) for row in range(120)]
    assert min(alone) > 0.0
    if result.least > 2:
        assert min(lower_end(pair) for pair in combinations(np.argsort(alone)[:40].tolist(), 2)) > 0.0
    assert lower_end(result.rows) <= 0.0
    for _ in range(50):
        assert lower_end(rng.choice(result.rows, result.least - 1, replace=False)) > 0.0

"""Solvers against exhaustive search on tiny pools; `python -m superteach_lab.experiments.minlp_oracle` does the same over
50 seeds."""

from __future__ import annotations

import numpy as np
import pytest

from superteach_lab import minlp
from superteach_lab.experiments import exhaustive
from superteach_lab.experiments.minlp_oracle import LOSSES, RIDGE, compare, published, size_of, tiny_pool, wrongs

SECONDS = 60.0
ROWS = 10


def solved(kind: str, width: int, seed: int, pair: tuple[str, str]) -> dict:
    return compare(kind, width, seed, *pair, SECONDS, ROWS)


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_bounded_finds_and_proves_the_lowest_risk(kind, width):
    """SCIP's optimum is the exhaustive one, and its bound lies just below it."""
    found = solved(kind, width, width, ("bounded", "scip"))
    assert found["wrong"] == []
    assert found["status"] == "optimal"
    assert found["risk"] == pytest.approx(found["lowest"], rel=1e-4)
    assert found["bound"] == pytest.approx(found["lowest"], rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "width", "pair"),
    [
        ("ridge", 3, ("gradient", "highs")),
        ("logistic", 2, ("gradient", "highs")),
        ("ridge", 2, ("gradient", "scip")),
        ("logistic", 3, ("gradient", "scip")),
    ],
)
def test_gradient_matching_is_solved_to_its_optimum(kind, width, pair):
    """Its own objective is the lowest of all subsets; its risk may be higher than the lowest."""
    found = solved(kind, width, 10 + width, pair)
    assert found["wrong"] == []
    assert found["status"] == "optimal"
    assert found["objective"] == pytest.approx(found["best"], rel=1e-4)


@pytest.mark.parametrize(("kind", "seed"), [("ridge", 31), ("logistic", 35), ("logistic", 39)])
def test_an_optimum_below_scips_tolerance_is_found_and_proven(kind, seed):
    """Matched to 1e-6, one coefficient of 16 rows: the square of that is nothing to SCIP in the pool's own unit."""
    found = compare(kind, 1, seed, "gradient", "scip", SECONDS)
    assert found["best"] < 3e-6
    assert found["wrong"] == []
    assert found["status"] == "optimal"
    assert found["objective"] == pytest.approx(found["best"], rel=1e-6)
    assert found["best"] * (1.0 - 1e-4) <= found["bound"] <= found["best"]


def test_a_goal_that_is_matched_exactly_is_an_optimum():
    """Rows whose pulls add up to Λθ*: an objective of rounding errors, and no bound below it to be asked for."""
    X = np.random.default_rng(4).standard_normal((ROWS, 1)) + 3.0
    goal, ridge = np.ones(1), 0.5
    y = X[:, 0] + np.random.default_rng(5).standard_normal(ROWS)
    y[1] = X[1, 0] + (ridge - (y[0] - X[0, 0]) * X[0, 0]) / X[1, 0]
    found = minlp.solve(X, y, LOSSES["ridge"], ridge, goal, 2, formulation="gradient", solver="scip")
    assert found.status == "optimal"
    assert found.objective < 1e-12
    assert found.risk < 1e-9


@pytest.mark.parametrize(("kind", "width"), [("ridge", 2), ("logistic", 1)])
def test_bonmin_claims_no_proof(kind, width):
    """A local answer: never below the lowest risk, no bound, and better than most choices of that size."""
    found = solved(kind, width, 5, ("stationary", "bonmin"))
    assert found["wrong"] == []
    assert found["status"] == "finished, no proof"
    assert found["bound"] is None
    X, y, goal = tiny_pool(kind, width, 5, ROWS)
    every = exhaustive.risks(kind, X, y, RIDGE[kind], goal, exhaustive.masks(ROWS, size_of(5)))
    assert found["risk"] < np.quantile(every, 0.1)


def test_the_judge_finds_wrong_claims():
    """An oracle that nothing could fail would prove nothing."""
    told = minlp.Solution(np.array([0]), "optimal", 2.0, 1.5, 0.5, 1.0)
    assert wrongs(told, best=1.0, lowest=1.0) == [
        "risk below the lowest",
        "bound above the optimum",
        "claims an optimum that is none",
    ]
    open_gap = minlp.Solution(np.array([0]), "optimal", 1.0, 0.9, 1.0, 1.0)
    assert wrongs(open_gap, 1.0, 1.0) == ["claims an optimum that its bound leaves open"]
    assert wrongs(minlp.Solution(None, "", 0.5, None, None, 1.0), 1.0, 1.0) == ["objective below the optimum"]


def test_the_published_setting_of_ma_et_al():
    """Exhaustive search brackets the printed median ratio between its quartiles, and SCIP finds the same ratio."""
    ratios = []
    for seed in range(20):
        X, y, goal = tiny_pool("ridge", 2, seed)
        every = exhaustive.risks("ridge", X, y, 0.05, goal, exhaustive.masks(16, None))
        ratios.append(every.min() / every[-1])
    low, high = np.quantile(ratios, (0.25, 0.75))
    assert low < 7.8e-3 < high
    solved = published(0, SECONDS)
    assert solved["exhaustive"] == pytest.approx(ratios[0])
    assert solved["bounded"] == pytest.approx(ratios[0], rel=1e-3)
    assert solved["stationary"] >= ratios[0] * (1.0 - 1e-6)


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_exhaustive_search_agrees_with_scikit_learn(kind):
    """The oracle's own models are those of the learner it stands for."""
    from sklearn.linear_model import LogisticRegression, Ridge

    X, y, goal = tiny_pool(kind, 3, 1)
    subsets = exhaustive.masks(16, 5)[::431]
    found = exhaustive.risks(kind, X, y, 0.5, goal, subsets)
    for subset, risk in zip(subsets.astype(bool), found, strict=True):
        if kind == "ridge":
            model = Ridge(0.5, fit_intercept=False).fit(X[subset], y[subset])
        elif len(np.unique(y[subset])) < 2:
            continue
        else:
            model = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10).fit(X[subset], y[subset])
        assert risk == pytest.approx(np.linalg.norm(model.coef_.ravel() - goal), rel=1e-4)


@pytest.mark.parametrize("pair", list(minlp.SOLVERS), ids="-".join)
def test_same_seed_same_rows_and_as_many_as_asked(pair):
    """Twice the same, of the asked size, distinct, ascending, with the refitted risk."""
    X, y, goal = tiny_pool("ridge", 2, 3, ROWS)
    first, second = (
        minlp.solve(X, y, LOSSES["ridge"], 0.1, goal, 3, formulation=pair[0], solver=pair[1], seed=8) for _ in range(2)
    )
    np.testing.assert_array_equal(first.rows, second.rows)
    assert len(first.rows) == 3
    assert (np.diff(first.rows) > 0).all()
    kept = X[first.rows]
    model = np.linalg.solve(kept.T @ kept + 0.1 * np.eye(2), kept.T @ y[first.rows])
    assert first.risk == pytest.approx(np.linalg.norm(model - goal), rel=1e-6)

"""How few rows carry a finding: exhaustive search, CVXPY and refits by scikit-learn against search and proof."""

from __future__ import annotations

from itertools import combinations

import cvxpy
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge

from superteach import drop
from superteach.exceptions import DataError, DataTypeError, GoalError, LearnerError, SettingError
from superteach.losses.scalar import Logistic, Squared
from superteach.robustness import regions
from superteach.robustness.intervals import IntervalBound
from superteach.robustness.regression import Regression


def pool(kind, seed, rows=20, width=2):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((rows, width))
    weights = np.array([0.3, 1.0, -0.5, 0.2, 0.0, 0.4])[:width]
    if kind == "logistic":
        target = (features @ (2.0 * weights) + rng.logistic(size=rows) > 0.0).astype(int)
        return features, target, LogisticRegression(tol=1e-10, max_iter=2000)
    learner = Ridge(alpha=0.1) if kind == "ridge" else LinearRegression()
    return features, features @ weights + 0.8 * rng.standard_normal(rows), learner


def coefficient(estimator, features, target, kept):
    return estimator.fit(features[kept], target[kept]).coef_.ravel()[0]


def fewest(features, target, estimator, most):
    """Every subset, by size, fitted by scikit-learn."""
    everybody = np.arange(len(target))
    before = coefficient(estimator, features, target, everybody)
    for count in range(1, most + 1):
        for some in combinations(everybody, count):
            kept = np.setdiff1d(everybody, some)
            if len(np.unique(target[kept])) > 1 and before * coefficient(estimator, features, target, kept) <= 0:
                return count
    return None


@pytest.mark.long(every=6)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["linear", "ridge", "logistic"])
def test_exhaustive_search_lies_between(kind, seed):
    """The proof never claims too much, and on tables this small the search finds the fewest."""
    features, target, estimator = pool(kind, seed, rows=16)
    result = drop(features, target, estimator, coefficient=0, seconds=600.0)
    truth = fewest(features, target, estimator, 3)
    assert result.rows is not None
    assert result.proof == "regions"
    assert result.verify()
    if truth is None:
        assert len(result.rows) > 3
    else:
        assert result.least <= truth == len(result.rows)
    kept = np.setdiff1d(np.arange(len(target)), result.rows)
    assert coefficient(estimator, features, target, kept) == pytest.approx(result.after, abs=1e-5)
    assert result.before * result.after <= 1e-12


@pytest.mark.parametrize(("kind", "width"), [("ridge", 4), ("ridge", 6), ("logistic", 4)])
def test_intervals_never_claim_too_much(kind, width):
    """With more columns than regions can hold: no one row, and no two of the strongest, reach farther than the bound."""
    count = 200 if kind == "logistic" else 40
    features, target, estimator = pool(kind, width, rows=count, width=width)
    signed = 2.0 * target - 1.0 if kind == "logistic" else target
    penalty = np.append(np.full(width, 1.0 if kind == "logistic" else 0.1), 0.0)
    loss = Logistic() if kind == "logistic" else Squared()
    regression = Regression.of(np.column_stack([features, np.ones(count)]), signed, loss, penalty)
    model = regression.model
    before = estimator.fit(features, target).coef_.ravel()
    assert (regression.basis @ model)[:-1] == pytest.approx(before, abs=1e-5)
    bound = IntervalBound(regression)
    for place in range(2):
        direction = regression.direction(np.eye(width + 1)[place])

        def fall(rows, direction=direction):
            return float(direction @ (model - regression.fit(np.array(rows), model)))

        alone = np.array([fall([row]) for row in range(count)])
        two = max(fall(pair) for pair in combinations(np.argsort(-alone)[:30].tolist(), 2))
        for rows, reached in ((1, alone.max()), (2, two)):
            assert 0.0 < reached <= bound.reach(rows, direction) < 10.0 * reached


@pytest.mark.parametrize("kind", ["linear", "ridge", "logistic"])
def test_linear_programmes_agree_with_cvxpy(kind):
    """At one model CVXPY solves the same programme, and the multipliers give its value back by one sum."""
    features, target, _ = pool(kind, 3, rows=60)
    signed = 2.0 * target - 1.0 if kind == "logistic" else target
    penalty = {"linear": 0.0, "ridge": 0.1, "logistic": 1.0}[kind] * np.array([1.0, 1.0, 0.0])
    loss = Logistic() if kind == "logistic" else Squared()
    regression = Regression.of(np.column_stack([features, np.ones(60)]), signed, loss, penalty)
    direction = regression.direction(np.eye(3)[0])
    what = regions.Slice(regression, direction, 0.0)
    for point in (np.zeros(2), np.array([0.3, -0.2])):
        value, weights, multiplier = what.programme(point)
        cheap = what.bound(point[None, :], what.multiplier(point))
        assert value - 0.3 <= cheap <= value + 1e-6
        theta = what.centre + what.basis @ point
        slope = loss.gradient(regression.rows @ theta, signed)
        kept = cvxpy.Variable(60)
        balance = (regression.rows * slope[:, None]).T @ kept == -regression.penalty @ theta
        problem = cvxpy.Problem(cvxpy.Minimize(60 - cvxpy.sum(kept)), [balance, kept >= 0, kept <= 1])
        problem.solve(cvxpy.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        assert value == pytest.approx(problem.value, abs=1e-5)
        assert what.bound(point[None, :], multiplier) == pytest.approx(value, abs=1e-5)
        assert 60 - weights.sum() == pytest.approx(value)
        assert abs(float(direction @ theta)) < 1e-9


def test_a_bound_on_a_simplex_holds_inside_it():
    """A simplex's bound, from its corners alone, is below the programme at any point inside, for any multiplier."""
    rng = np.random.default_rng(0)
    for kind in ("linear", "logistic"):
        features, target, _ = pool(kind, 1, rows=50)
        signed = 2.0 * target - 1.0 if kind == "logistic" else target
        loss = Logistic() if kind == "logistic" else Squared()
        penalty = np.array([1.0, 1.0, 0.0]) if kind == "logistic" else np.zeros(3)
        regression = Regression.of(np.column_stack([features, np.ones(50)]), signed, loss, penalty)
        what = regions.Slice(regression, regression.direction(np.eye(3)[0]), 0.0)
        for _ in range(20):
            corners = rng.uniform(-2.0, 2.0, 2) + rng.uniform(0.1, 1.0) * rng.standard_normal((3, 2))
            inside = rng.dirichlet(np.ones(3)) @ corners
            value, _, multiplier = what.programme(inside)
            assert what.bound(corners, multiplier) <= value + 1e-6
            assert what.bound(corners, rng.standard_normal(3)) <= value + 1e-6


def test_a_proof_that_was_changed_is_refused():
    """The checker counts on nothing but the regions: one missing, one wrong, or one row more, and it says no."""
    features, target, learner = pool("linear", 4, rows=80)
    result = drop(features, target, learner, coefficient=0)
    what, proof = result.certificate
    assert result.verify()
    assert any(region.halves for region in proof.regions)

    def changed(**fields):
        return regions.RegionProof(**{name: getattr(proof, name) for name in proof.__dataclass_fields__} | fields)

    def without_multipliers(region):
        return regions.Region(np.zeros_like(region.multiplier), [without_multipliers(half) for half in region.halves])

    def lacking_a_half(region):
        return regions.Region(region.multiplier, region.halves[1:]) if region.halves else region

    assert regions.verify(what, changed())
    assert not regions.verify(what, changed(regions=proof.regions[1:]))
    assert not regions.verify(what, changed(regions=(proof.regions[0], *proof.regions)))
    assert not regions.verify(what, changed(regions=tuple(map(lacking_a_half, proof.regions))))
    assert not regions.verify(what, changed(count=proof.count + 1))
    assert not regions.verify(what, changed(regions=tuple(map(without_multipliers, proof.regions))))
    assert not regions.verify(what, changed(faces=proof.faces[1:]))


def greedy(features, target, estimator, exact):
    """Remove the row whose influence is largest, refit, go on: by least squares, with NumPy alone."""
    rows = np.column_stack([features, np.ones(len(features))])
    kept, sign = np.arange(len(rows)), None
    while True:
        inverse = np.linalg.inv(rows[kept].T @ rows[kept])
        model = inverse @ rows[kept].T @ target[kept]
        sign = np.sign(model[0]) if sign is None else sign
        if sign * model[0] <= 0.0:
            return len(rows) - len(kept)
        fall = sign * (rows[kept] @ inverse[0]) * (target[kept] - rows[kept] @ model)
        held = np.einsum("jd,de,je->j", rows[kept], inverse, rows[kept])
        kept = np.delete(kept, np.argmax(fall / (1.0 - held) if exact else fall))


@pytest.mark.parametrize("seed", range(6))
def test_never_worse_than_greedy_removal(seed):
    """Greedy removal with a refit after each row, by influence and by the exact effect of one row."""
    features, target, learner = pool("linear", 20 + seed, rows=120, width=5)
    result = drop(features, target, learner, coefficient=0)
    for exact in (False, True):
        assert len(result.rows) <= greedy(features, target, learner, exact)


@pytest.mark.parametrize("width", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_proof_meets_search(kind, width):
    """Up to three columns, for both losses; the proof has all the time it needs."""
    features, target, learner = pool(kind, 40 + width, rows=120, width=width)
    result = drop(features, target, learner, coefficient=0, seconds=3600.0)
    assert result.verify()
    assert result.least >= len(result.rows) - 1


def test_the_whole_path():
    """Each step is a refit of its own, every further row moves the coefficient on."""
    features, target, learner = pool("ridge", 2, rows=100)
    result = drop(features, target, learner, coefficient=1)
    assert [step.count for step in result.path] == list(range(1, len(result.rows) + 1))
    for step in result.path[::5]:
        kept = np.setdiff1d(np.arange(100), step.rows)
        assert learner.fit(features[kept], target[kept]).coef_[1] == pytest.approx(step.coefficient, abs=1e-8)
    assert all(a.coefficient > b.coefficient for a, b in zip(result.path, result.path[1:], strict=False))
    assert "1" in repr(result)
    assert result.as_dict()["found"] == len(result.rows)


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
    assert type(drop(frame, target, coefficient="age").after) is float


def test_where_nothing_flips():
    """No removal of at most three rows turns a strong coefficient; the proof says so."""
    features, target, _ = pool("ridge", 2, rows=200)
    result = drop(features, target, Ridge(), coefficient=1, most=3)
    assert (result.rows, result.after, result.exact) == (None, None, False)
    assert result.least == 4
    assert "none found" in repr(result)


def test_a_loss_without_a_proof():
    """Poisson's curvature has no bound: the search works, no lower bound is claimed."""
    rng = np.random.default_rng(0)
    features = 0.5 * rng.standard_normal((80, 2))
    target = rng.poisson(np.exp(features @ [0.3, 0.5]))
    result = drop(features, target, PoissonRegressor(alpha=1e-3), coefficient=0)
    assert (result.least, result.proof) == (1, "none")
    kept = np.setdiff1d(np.arange(80), result.rows)
    refit = PoissonRegressor(alpha=1e-3, tol=1e-12, max_iter=1000).fit(features[kept], target[kept])
    assert refit.coef_[0] == pytest.approx(result.after, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "error", "field"),
    [
        ({"coefficient": "age"}, GoalError, "coefficient='age'"),
        ({"coefficient": None}, GoalError, "coefficient"),
        ({"coefficient": [1.0]}, GoalError, "coefficient"),
        ({"value": "x"}, SettingError, "value='x'"),
        ({"most": 0}, SettingError, "most=0"),
        ({"seconds": -1}, SettingError, "seconds=-1"),
        ({"significance": 2.0}, SettingError, "significance=2.0"),
        ({"significance": 0.05, "standard_errors": "HC"}, SettingError, "standard_errors='HC'"),
        ({"significance": 0.05, "standard_errors": "clustered"}, SettingError, "groups"),
        ({"significance": 0.05, "standard_errors": "clustered", "groups": [1]}, DataError, "groups"),
        ({"significance": 0.05, "standard_errors": "clustered", "groups": [1] * 20}, DataError, "groups"),
        ({"significance": 1e-9}, GoalError, "significant"),
        ({"significance": 0.05, "standard_errors": "clustered", "groups": [None] * 20}, DataError, "groups: row 0"),
        ({"groups": np.arange(20)}, SettingError, "go with significance"),
        ({"standard_errors": "HC1"}, SettingError, "go with significance"),
        ({"significance": 0.05, "value": 1.0}, SettingError, "two questions"),
        ({"winner": "a", "loser": "b"}, SettingError, "leave 'y', 'coefficient' out"),
        ({"X": np.zeros((1, 2)), "y": [1.0]}, DataError, "one row"),
        ({"X": np.eye(3, 4), "y": np.ones(3), "learner": LinearRegression()}, DataError, "3 rows do not determine 5"),
        ({"X": np.ones((20, 2))}, GoalError, "is 0 on all rows"),
        ({"y": np.ones(20)}, GoalError, "is 0 on all rows"),
        ({"X": np.zeros(3)}, DataError, "rows × columns"),
        (
            {"X": np.repeat(np.arange(20.0)[:, None], 2, axis=1), "learner": LinearRegression()},
            GoalError,
            "coefficient=0",
        ),
        ({"y": None}, DataError, "y is missing"),
        ({"y": "age"}, DataTypeError, "y='age'"),
        ({"y": np.arange(20) % 3, "learner": LogisticRegression()}, DataError, "3 classes"),
        ({"learner": object()}, LearnerError, "cannot be taught"),
    ],
)
def test_bad_input(change, error, field):
    features, target, _ = pool("ridge", 0)
    given = {"X": features, "y": target, "learner": Ridge(), "coefficient": 0} | change
    with pytest.raises(error, match=field):
        drop(given.pop("X"), given.pop("y"), given.pop("learner"), **given)

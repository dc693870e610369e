"""Goals against scikit-learn, explicit pairs, and finite differences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, sparse
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

import superteach as st
from superteach.coordinator.problem import setup
from superteach.exceptions import DataError, GoalError, SettingError
from superteach.goals import CheckedGoal, FromData, Goal, MaxAUC, PerturbedFit
from superteach.losses import Huber
from superteach.protocol.queries import QUERIES
from tests.oracles import TIGHT


def room_of(federation_of, X, y, K=3, learner=None, standardize=False):
    """A problem after set-up, with labels −1 and +1."""
    learner = st.Learner.of(learner or LogisticRegression(fit_intercept=False))
    return setup(federation_of(X, y, K), learner, None, standardize)


def pairs_minimiser(X: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """All pairs written out, and SciPy's BFGS polished by its own least squares."""
    pairs = (X[y > 0][:, None, :] - X[y < 0][None, :, :]).reshape(-1, X.shape[1])

    def objective(theta):
        short = 1.0 - pairs @ theta
        gradient = -pairs.T @ short / len(pairs) + ridge * theta
        return 0.5 * np.mean(short**2) + 0.5 * ridge * theta @ theta, gradient

    return optimize.minimize(objective, np.zeros(X.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-11}).x


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_max_auc_is_the_minimiser_over_all_pairs(pool, federation_of, ridge, share):
    """Two sums give what SciPy finds with every pair in its hands, balanced classes or not."""
    X, y = pool("logistic", 300, 4, 1)
    keep = (y > 0) | (np.random.default_rng(0).random(len(y)) > share)
    X, y = X[keep] + 3.0, y[keep]
    found = MaxAUC(ridge).vector(room_of(federation_of, X, y))
    np.testing.assert_allclose(found, pairs_minimiser(X, y, ridge), atol=1e-7)


def test_max_auc_does_not_depend_on_who_holds_the_rows(pool, federation_of):
    """One teacher or twenty, some of them with a single class: the same vector."""
    X, y = pool("logistic", 200, 3, 2)
    order = np.argsort(y, kind="stable")
    vectors = [MaxAUC().vector(room_of(federation_of, X[order], y[order], K)) for K in (1, 20)]
    np.testing.assert_allclose(vectors[0], vectors[1], rtol=1e-10)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("learner", [LogisticRegression(), LinearSVC(intercept_scaling=2.5)])
def test_max_auc_in_raw_units_dense_or_sparse(pool, federation_of, standardize, learner):
    """Without a ridge, scaling changes nothing; the intercept puts 0 halfway between the classes' mean scores."""
    X, y = pool("logistic", 250, 3, 3)
    X = X * [1.0, 100.0, 0.01] + [0.0, 1000.0, 1.0]
    X[np.abs(X) < 0.4] = 0.0
    dense, thin = (
        MaxAUC().vector(room_of(federation_of, form, y, 3, learner, standardize)) for form in (X, sparse.csr_array(X))
    )
    unit = X.std(axis=0)
    np.testing.assert_allclose(dense[:-1] * unit, pairs_minimiser(X / unit, y, 0.0), atol=1e-7)
    np.testing.assert_allclose(thin, dense, rtol=1e-6)
    scores = X @ dense[:-1] + dense[-1]
    assert scores[y > 0].mean() == pytest.approx(-scores[y < 0].mean(), abs=1e-9)
    assert scores[y > 0].mean() > 0.0


def test_the_ridge_of_max_auc_acts_on_standardised_columns(pool, federation_of):
    """With standardize=True the ridge weighs columns alike whatever their units."""
    X, y = pool("logistic", 200, 3, 4)
    X = X * [1.0, 50.0, 0.02]
    found = MaxAUC(0.5).vector(room_of(federation_of, X, y, standardize=True))
    unit = X.std(axis=0)
    np.testing.assert_allclose(found * unit, pairs_minimiser(X / unit, y, 0.5), atol=1e-7)


def skewed(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes that are anything but Gaussian."""
    y = np.where(rng.random(rows) < 0.3, 1.0, -1.0)
    X = rng.standard_t(2.5, (rows, 3)) + np.exp(rng.standard_normal((rows, 3))) * (y > 0)[:, None]
    return X, y


@pytest.mark.parametrize("seed", range(20))
def test_the_proved_auc_holds(federation_of, seed):
    """scikit-learn's AUC is never below the bound, on heavy tails, and the bound says something."""
    X, y = skewed(np.random.default_rng(seed), 400)
    for ridge in (0.0, 1.0, 100.0):
        vector, least = MaxAUC(ridge).order(room_of(federation_of, X, y))
        assert 0.0 < least <= roc_auc_score(y, X @ vector)


def test_the_bound_is_that_of_the_surrogate(pool, federation_of):
    """Without a ridge Cantelli's bound is 1 minus the surrogate's own value over all pairs."""
    X, y = pool("logistic", 200, 3, 6)
    vector, least = MaxAUC().order(room_of(federation_of, X, y))
    margins = ((X[y > 0] @ vector)[:, None] - X[y < 0] @ vector).ravel()
    assert least == pytest.approx(1.0 - np.mean((1.0 - margins) ** 2), abs=1e-12)


def test_gaussian_classes_get_the_largest_auc_there_is(federation_of):
    """With different covariances the best AUC is Φ(√(δ'(Σ₊+Σ₋)⁻¹δ)); logistic regression stays below it."""
    rng = np.random.default_rng(0)
    shift, root = np.array([1.0, 0.6]), np.array([[0.3, 0.0], [1.5, 2.0]])
    y = np.where(np.arange(20_000) < 18_000, 1.0, -1.0)
    X = np.where(y[:, None] > 0, rng.standard_normal((len(y), 2)) @ root + shift, rng.standard_normal((len(y), 2)))
    best = norm.cdf(np.sqrt(shift @ np.linalg.solve(root.T @ root + np.eye(2), shift)))

    def true_auc(w):
        return norm.cdf(w @ shift / np.sqrt(w @ (root.T @ root + np.eye(2)) @ w))

    ours = true_auc(MaxAUC().vector(room_of(federation_of, X, y)))
    theirs = true_auc(LogisticRegression().fit(X, y).coef_[0])
    assert ours == pytest.approx(best, abs=2e-4)
    assert theirs < best - 2e-3


def test_flat_and_double_columns_do_no_harm(pool, federation_of):
    """A constant column gets no coefficient, a doubled one half of it, and the order of rows stays."""
    X, y = pool("logistic", 300, 3, 7)
    wide = np.column_stack([X, X[:, 0], np.full(len(y), 1e6 + 0.1)])
    plain, found = (MaxAUC().vector(room_of(federation_of, form, y)) for form in (X, wide))
    assert found[4] == 0.0
    np.testing.assert_allclose(found[[0, 3]], plain[0] / 2.0, atol=1e-8)
    np.testing.assert_allclose(found[1:3], plain[1:], atol=1e-8)


def test_max_auc_leaves_the_teachers_as_they_were(pool, federation_of):
    """The learner's loss and columns are back, so that the pool's fit is the one without a goal."""
    X, y = pool("logistic", 200, 3, 8)
    room = room_of(federation_of, X, y, learner=LogisticRegression(), standardize=True)
    MaxAUC().vector(room)
    fresh = room_of(federation_of, X, y, learner=LogisticRegression(), standardize=True)
    np.testing.assert_array_equal(room.fit_pool(), fresh.fit_pool())
    known = {kind.__name__ for kind in QUERIES} | {
        "loss moments",
        "loss values",
        "square moments",
        "positive moments",
    }
    assert {entry.query for entry in room.federation.ledger} <= known


def test_a_lesson_with_max_auc():
    """Taught on a fifth of the rows, scikit-learn's own estimator ends on the goal and its AUC."""
    X, y, owner = st.datasets.make_classification_pool(rows=1500, teachers=5)
    learner = LogisticRegression(**TIGHT)
    teacher = st.SuperTeacher(learner, MaxAUC(), budget=0.2).fit(X, y, groups=owner)
    rows, goal = teacher.sample_indices_, teacher.lesson_.goal
    taught = clone(learner).fit(X[rows], y[rows])
    away = np.append(taught.coef_, taught.intercept_) - goal
    assert np.linalg.norm(away) == pytest.approx(teacher.lesson_.risk, rel=1e-3)
    assert teacher.lesson_.risk < 0.02 * teacher.lesson_.pool_risk
    reached, wanted = (roc_auc_score(y, scores) for scores in (taught.decision_function(X), X @ goal[:-1]))
    assert reached == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize("learner", [Ridge(), PoissonRegressor(), st.Learner(Huber())])
def test_max_auc_needs_a_classifier(pool, federation_of, learner):
    """A regression is refused before the first round."""
    federation = federation_of(*pool("poisson", 50, 3, 0), 2)
    with pytest.raises(GoalError, match="needs a classifier"):
        st.teach(federation, learner, MaxAUC())
    assert federation.ledger == ()


def test_max_auc_refuses_what_it_cannot_do(pool, federation_of):
    """Odd ridges, too many columns, rows of one class."""
    for ridge in (-1.0, np.nan, np.inf, True, "1"):
        with pytest.raises(SettingError, match="ridge"):
            MaxAUC(ridge)
    federation = federation_of(np.zeros((4, 501)), np.array([1.0, -1.0, 1.0, -1.0]), 2)
    with pytest.raises(GoalError, match="501 columns"):
        st.teach(federation, LogisticRegression(), MaxAUC(), method="dual")
    assert federation.ledger == ()
    X, _ = pool("logistic", 20, 3, 0)
    with pytest.raises(DataError, match="single class"):
        st.teach(federation_of(X, np.ones(20), 2), LogisticRegression(), MaxAUC())


REFERENCES = {
    "logistic": LogisticRegression(C=0.7, solver="newton-cholesky", **TIGHT),
    "logistic without": LogisticRegression(C=0.7, solver="newton-cholesky", fit_intercept=False, **TIGHT),
    "squared": Ridge(alpha=3.0, solver="cholesky"),
    "squared_hinge": LinearSVC(C=0.3, dual=False, intercept_scaling=1.7, **TIGHT),
    "poisson": PoissonRegressor(alpha=0.2, solver="newton-cholesky", **TIGHT),
}


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("name", REFERENCES)
def test_from_data_is_the_estimators_own_fit(pool, federation_of, name, standardize):
    """scikit-learn's estimator, fitted on the reference set in its raw units, is the goal, scaled rows or not."""
    kind, estimator = name.split()[0], REFERENCES[name]
    X, y = pool(kind, 200, 3, 0)
    R, r = pool(kind, 80, 3, 1)
    R = R * [1.0, 3.0, 0.5] + [0.0, 0.2, 0.0]
    theirs = clone(estimator).fit(R, r)
    wanted = np.ravel(theirs.coef_)
    if estimator.fit_intercept:
        wanted = np.append(wanted, theirs.intercept_)
    room = room_of(federation_of, X, y, 3, estimator, standardize)
    rounds = len(room.federation.ledger)
    for form in (R, sparse.csr_array(R), pd.DataFrame(R)):
        np.testing.assert_allclose(FromData(form, r).vector(room), wanted, atol=1e-6)
    assert len(room.federation.ledger) == rounds


@pytest.mark.parametrize("intercept", ["none", "free"])
def test_from_data_with_hubers_loss(pool, federation_of, intercept):
    """No estimator of scikit-learn has it: finite differences of the objective vanish at the goal."""
    R, r = pool("huber", 90, 3, 1)
    learner = st.Learner(Huber(0.8), 0.7, intercept)
    found = FromData(R, r).vector(room_of(federation_of, *pool("huber", 60, 3, 0), 2, learner))

    def objective(theta):
        residual = np.abs(R @ theta[:3] + (theta[3] if intercept == "free" else 0.0) - r)
        losses = np.where(residual <= 0.8, 0.5 * residual**2, 0.8 * (residual - 0.4))
        return losses.sum() + 0.35 * theta[:3] @ theta[:3]

    assert np.abs(optimize.approx_fprime(found, objective, 1e-7)).max() < 1e-4
    assert np.abs(optimize.approx_fprime(found + 0.01, objective, 1e-7)).max() > 0.1


def test_wide_reference_sets_need_no_matrix(federation_of):
    """Above 500 columns L-BFGS fits, to the same model."""
    rng = np.random.default_rng(0)
    R, X = rng.standard_normal((60, 520)), rng.standard_normal((30, 520))
    r, y = np.sign(rng.standard_normal(60)), np.sign(rng.standard_normal(30))
    wanted = LogisticRegression(fit_intercept=False, **TIGHT).fit(R, r).coef_[0]
    np.testing.assert_allclose(FromData(R, r).vector(room_of(federation_of, X, y, 2)), wanted, atol=1e-6)


def test_labels_are_the_rows_own():
    """Words as labels, in the reference set as in the rows: the second in order is the positive one."""
    X, y, owner = st.datasets.make_classification_pool(rows=600, features=3, teachers=3)
    words = np.where(y > 0, "yes", "no")
    learner = LogisticRegression(**TIGHT)
    reference = FromData(pd.DataFrame(X[:100]), pd.Series(words[:100]))
    lesson = st.SuperTeacher(learner, reference, budget=0.1).fit(X, words, groups=owner).lesson_
    wanted = clone(learner).fit(X[:100], words[:100])
    np.testing.assert_allclose(lesson.goal, np.append(wanted.coef_, wanted.intercept_), atol=1e-6)


def bad_references():
    """(X, y, words of the error) for a pool with columns a, b and labels no, yes."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((10, 2)), columns=["a", "b"])
    y = np.array(["no", "yes"] * 5)
    return {
        "columns too many": (X.assign(c=1.0), y, "3 columns, the rows have 2"),
        "columns by other names": (X.rename(columns={"b": "z"}), y, "column 'z' where the rows have 'b'"),
        "columns in another order": (X[["b", "a"]], y, "same order"),
        "one class": (X, np.full(10, "no"), "two classes, got 1: 'no'"),
        "three classes": (X, np.array([*"abcabcabca"]), "two classes, got 3"),
        "other labels": (
            X,
            np.where(y == "no", "down", "up"),
            r"labels \['down', 'up'\], the rows have \['no'",
        ),
        "NaN": (X.mask(X.max().max() - 1e-9 < X), y, "NaN"),
        "infinity": (X.replace(X.iloc[0, 0], np.inf), y, "infinity"),
        "huge": (X * 1e120, y, "too large to be squared"),
        "a label missing": (X, np.array([None, *y[1:]], dtype=object), "cannot be used"),
        "a label NaN": (X, np.array([np.nan, *[0.0, 1.0] * 4, 1.0]), "NaN"),
        "lengths": (X, y[:-1], "inconsistent numbers of samples"),
        "text": (X.astype(str) + "x", y, "cannot be used"),
        "no rows": (X[:0], y[:0], "0 sample"),
        "flat": (np.zeros(10), y, "Expected 2D array"),
        "nothing": (None, None, "no targets"),
    }


@pytest.mark.parametrize("name", bad_references())
def test_bad_reference_sets_are_refused_before_any_work(name, capsys):
    """A clear GoalError, and no teacher was asked for anything: `verbose` prints every round."""
    X, y, words = bad_references()[name]
    rows = pd.DataFrame(np.random.default_rng(1).standard_normal((40, 2)), columns=["a", "b"])
    with pytest.raises(GoalError, match=words):
        st.SuperTeacher(LogisticRegression(), FromData(X, y), verbose=1).fit(rows, np.array(["no", "yes"] * 20))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("learner", "y", "words"),
    [
        (PoissonRegressor(), [-1.0, 2.0, 3.0], "negative target"),
        (PoissonRegressor(), [0.0, 0.0, 0.0], "targets of 0 alone"),
        (Ridge(), [1.0, np.nan, 2.0], "NaN"),
        (Ridge(), ["a", "b", "c"], "cannot be used"),
        (Ridge(), [1e120, 0.0, 1.0], "too large"),
    ],
)
def test_bad_reference_targets_are_refused(pool, federation_of, learner, y, words):
    """Regressions have their own rules."""
    federation = federation_of(*pool("poisson", 50, 3, 0), 2)
    with pytest.raises(GoalError, match=words):
        st.teach(federation, learner, FromData(np.eye(3), y))
    assert federation.ledger == ()


def test_a_reference_set_is_not_printed():
    """Its repr tells a size; a teacher with such a goal can be shown, cloned and logged."""
    X = np.full((5, 2), 123.456)
    goal = FromData(X, [0, 1, 0, 1, 1])
    assert repr(goal) == "FromData(5 × 2 numbers)"
    assert "123" not in repr(st.SuperTeacher(goal=goal))
    assert "FromData" in repr(clone(st.SuperTeacher(goal=goal)))
    assert repr(FromData([[1.0, 2.0]], [1])) == "FromData(1 × ? numbers)"
    assert repr(FromData(None, None)) == "FromData(? × ? numbers)"


def test_the_protocol_is_small(pool, federation_of):
    """`vector` alone makes a goal; `check` is called where there is one."""

    class Half:
        def vector(self, problem):
            return 0.5 * problem.scaling.raw(problem.fit_pool())

    assert isinstance(Half(), Goal)
    assert not isinstance(Half(), CheckedGoal)
    assert not isinstance(PerturbedFit(), CheckedGoal)
    assert all(isinstance(goal, CheckedGoal) for goal in (MaxAUC(), FromData([[1.0]], [1])))
    X, y = pool("logistic", 200, 3, 0)
    lesson = st.teach(federation_of(X, y, 2), LogisticRegression(**TIGHT), Half(), budget=50)
    theirs = LogisticRegression(**TIGHT).fit(X, y)
    np.testing.assert_allclose(2.0 * lesson.goal, np.append(theirs.coef_, theirs.intercept_), atol=1e-5)


def test_an_object_that_is_no_goal_is_told_what_one_is(pool, federation_of):
    """A class of one's own that forgot its method."""
    federation = federation_of(*pool("logistic", 20, 3, 0), 2)
    with pytest.raises(GoalError, match=r"the goal, of type object"):
        st.teach(federation, LogisticRegression(), object())
    assert federation.ledger == ()


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_several_classes_are_fitted_for_goals_far_out(size, pool):
    """Their fits begin at the goal, where nothing bends."""
    X, y = pool("logistic", 120, 3, 0)
    y = np.where(y > 0.0, 2, X[:, 0] > 0.5)
    goal = np.zeros((3, 4))
    goal[0, 0] = size
    teacher = st.SuperTeacher(LogisticRegression(), goal, budget=30).fit(X, y)
    chosen = teacher.sample_indices_
    assert len(chosen) == 30
    for rows, model in ((chosen, teacher.lesson_.model), (np.arange(120), teacher.lesson_.pool_model)):
        refit = LogisticRegression(solver="newton-cg", **TIGHT).fit(X[rows], y[rows])
        expected = np.column_stack([refit.coef_, refit.intercept_])
        np.testing.assert_allclose(model.reshape(3, 4), expected, atol=1e-5)

"""The learner fitted from sums against scikit-learn, CVXPY and its own optimality condition."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
)
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import superteach as st
from superteach.coordinator.path import last_ranks
from superteach.exceptions import LearnerError
from superteach.learner import fit
from superteach.losses import LOSSES, Huber, Logistic, Squared, SquaredHinge
from superteach.optim import LBFGS, Newton
from superteach.protocol.queries import Census, Keep, RankRows, Size
from tests.oracles import TIGHT, accuracy, solve_tightly

ESTIMATORS = {
    "logistic cholesky": lambda i: LogisticRegression(C=0.7, solver="newton-cholesky", fit_intercept=i, **TIGHT),
    "logistic lbfgs": lambda i: LogisticRegression(C=2.0, fit_intercept=i, **TIGHT),
    "logistic liblinear": lambda i: LogisticRegression(
        C=0.5, solver="liblinear", fit_intercept=i, intercept_scaling=2.5, **TIGHT
    ),
    "ridge": lambda i: Ridge(alpha=3.0, solver="cholesky", fit_intercept=i),
    "svc": lambda i: LinearSVC(C=0.3, dual=False, fit_intercept=i, intercept_scaling=1.7, **TIGHT),
    "poisson": lambda i: PoissonRegressor(alpha=0.2, solver="newton-cholesky", fit_intercept=i, **TIGHT),
}
KINDS = {"logistic": "logistic", "ridge": "squared", "svc": "squared_hinge", "poisson": "poisson"}
each_estimator = pytest.mark.parametrize("name", ESTIMATORS)
intercepts = pytest.mark.parametrize("intercept", [False, True])


def kind_of(name: str) -> str:
    return KINDS[name.split()[0]]


def coefficients(estimator) -> np.ndarray:
    """Slopes, then the intercept where one is fitted."""
    slope = np.ravel(estimator.coef_)
    return np.append(slope, estimator.intercept_) if estimator.fit_intercept else slope


def plain_slope(kind: str, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
    """ℓ'(η), written once more."""
    return {
        "logistic": lambda: -y * expit(-y * eta),
        "squared": lambda: eta - y,
        "squared_hinge": lambda: -2.0 * y * np.maximum(1.0 - y * eta, 0.0),
        "huber": lambda: np.clip(eta - y, -1.35, 1.35),
        "poisson": lambda: np.exp(eta) - y,
    }[kind]()


def fitted(federation, learner: st.Learner, rows: str, count: int, solver=None) -> np.ndarray:
    """The model in raw units."""
    width = federation.features + (learner.intercept != "none")
    inside = fit(federation.over("loss", rows), learner, count, solver or Newton(), np.zeros(width)).model
    if learner.column:
        inside = np.append(inside[:-1], inside[-1] * learner.column)
    return inside


def choose(federation, count: int) -> None:
    """Let the teachers choose some rows at random."""
    federation.sum(RankRows("random", seed=5))
    federation.sum(Keep(last_ranks(federation, [count])[0]))


@each_estimator
@intercepts
@pytest.mark.parametrize("K", [1, 4])
def test_fit_equals_scikit_learn(name, intercept, K, pool, federation_of, chosen_rows):
    """On all rows and on chosen ones the sums lead to scikit-learn's own model."""
    X, y = pool(kind_of(name), 400, 5, 0)
    X = X + 0.4
    estimator = ESTIMATORS[name](intercept)
    learner = st.Learner.of(estimator)
    federation = federation_of(X, y, K, learner.loss, learner.column)
    wanted = coefficients(estimator.fit(X, y))
    near = accuracy(estimator)
    np.testing.assert_allclose(fitted(federation, learner, "all", 400), wanted, rtol=near, atol=near / 10)
    choose(federation, 150)
    rows = chosen_rows(federation)
    assert len(rows) == 150
    wanted = coefficients(estimator.fit(X[rows], y[rows]))
    np.testing.assert_allclose(fitted(federation, learner, "chosen", 150), wanted, rtol=near, atol=near / 10)


@pytest.mark.parametrize("kind", sorted(LOSSES))
@pytest.mark.parametrize("intercept", ["none", "free", "penalised"])
@pytest.mark.parametrize("solver", [Newton(), LBFGS()], ids=["newton", "lbfgs"])
def test_gradient_vanishes(kind, intercept, solver, pool, federation_of, chosen_rows):
    """At the fitted model Σ ℓ' x + Λθ is 1e-10 of its two parts, computed with NumPy alone."""
    X, y = pool(kind, 300, 4, 1)
    learner = st.Learner(LOSSES[kind](), 0.8, intercept, 2.0)
    federation = federation_of(X, y, 3, learner.loss, learner.column)
    choose(federation, 120)
    for rows, part in (("all", np.arange(300)), ("chosen", chosen_rows(federation))):
        width = 4 + (intercept != "none")
        model = fit(federation.over("loss", rows), learner, len(part), solver, np.zeros(width)).model
        whole = np.column_stack([X, np.full(300, 2.0)])[part, :width]
        pull = 0.8 * model
        if intercept == "free":
            pull[-1] = 0.0
        data = whole.T @ plain_slope(kind, whole @ model, y[part])
        scale = max(np.linalg.norm(data), np.linalg.norm(pull))
        assert np.linalg.norm(data + pull) <= 1.01e-10 * scale


@pytest.mark.parametrize("kind", sorted(LOSSES))
@pytest.mark.parametrize("intercept", ["none", "free"])
def test_newton_and_lbfgs_agree(kind, intercept, pool, federation_of):
    """Both solvers end on one model."""
    X, y = pool(kind, 300, 6, 2)
    learner = st.Learner(LOSSES[kind](), 1.0, intercept)
    models = [
        fitted(federation_of(X, y, 3, learner.loss, learner.column), learner, "all", 300, solver)
        for solver in (Newton(), LBFGS())
    ]
    np.testing.assert_allclose(models[0], models[1], rtol=1e-8, atol=1e-9)


@intercepts
@pytest.mark.parametrize("delta", [0.3, 1.35])
def test_huber_equals_cvxpy(intercept, delta, pool, federation_of):
    """Huber with a fixed scale reaches the optimum that a conic solver finds."""
    X, y = pool("huber", 200, 4, 3)
    learner = st.Learner(Huber(delta), 2.0, "free" if intercept else "none")
    found = fitted(federation_of(X, y, 3, learner.loss, learner.column), learner, "all", 200)
    slope, offset = cp.Variable(4), cp.Variable()
    losses = 0.5 * cp.sum(cp.huber(X @ slope + (offset if intercept else 0.0) - y, delta))
    solve_tightly(cp.Problem(cp.Minimize(losses + cp.sum_squares(slope))))
    wanted = np.append(slope.value, offset.value) if intercept else slope.value
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize(("offset", "unit"), [(1000.0, 1.0), (-1e6, 1.0), (1000.0, 100.0), (0.0, 1000.0)])
def test_huber_begins_where_targets_are(offset, unit, standardize):
    """Targets far from 0, and such that few rows ever lie within delta of a model: CVXPY finds no lower objective."""
    draw = np.random.default_rng(0)
    X, w = draw.standard_normal((300, 4)) * [1.0, 2.0, 3.0, 4.0], unit * draw.standard_normal(4)
    y = X @ w + unit * draw.standard_t(2, 300) + offset
    learner = st.Learner(Huber(), 0.7, "free")
    teacher = st.SuperTeacher(learner, np.append(w, offset), budget=60, standardize=standardize).fit(X, y)
    scale = X.std(axis=0) if standardize else np.ones(4)
    for rows, model in [(slice(None), teacher.lesson_.pool_model), (teacher.sample_indices_, teacher.lesson_.model)]:
        slope, intercept = cp.Variable(4), cp.Variable()
        residuals = (X[rows] / scale) @ slope + intercept - (y[rows] - offset)
        best = cp.Minimize(0.5 * cp.sum(cp.huber(residuals, 1.35)) + 0.35 * cp.sum_squares(slope))
        lowest = solve_tightly(cp.Problem(best))
        slope.value, intercept.value = model[:-1] * scale, model[-1] - offset
        assert best.value == pytest.approx(lowest, rel=1e-6)


@pytest.mark.parametrize("name", ["logistic cholesky", "logistic liblinear", "ridge", "svc", "poisson"])
@intercepts
@pytest.mark.parametrize("budget", [1.0, 0.4])
def test_standardize_is_a_standard_scaler(name, intercept, budget, pool, federation_of, chosen_rows):
    """standardize=True is the estimator behind a StandardScaler fitted on the whole pool, in raw units."""
    X, y = pool(kind_of(name), 300, 4, 4)
    X = X * np.array([1.0, 20.0, 0.05, 3.0]) + np.array([5.0, -40.0, 0.1, 0.0])
    estimator = ESTIMATORS[name](intercept)
    federation = federation_of(X, y, 3)
    goal = np.full(4 + intercept, 0.2)
    lesson = st.teach(federation, estimator, goal, budget=budget, method="random", standardize=True)
    rows = chosen_rows(federation)
    assert len(rows) == lesson.size == round(300 * budget)
    scaler = StandardScaler(with_mean=intercept).fit(X)
    estimator.fit(scaler.transform(X[rows]), y[rows])
    slope = np.ravel(estimator.coef_) / scaler.scale_
    wanted = slope
    if intercept:
        wanted = np.append(slope, np.ravel(estimator.intercept_)[0] - scaler.mean_ @ slope)
    near = accuracy(estimator)
    np.testing.assert_allclose(lesson.model, wanted, rtol=near, atol=near / 100)
    assert lesson.risk == pytest.approx(np.linalg.norm(wanted - goal), rel=near)


def test_standardize_leaves_constant_columns_alone(pool, federation_of):
    """A column without spread keeps its scale, as StandardScaler has it."""
    X, y = pool("squared", 100, 3, 0)
    X[:, 1] = 7.3
    lesson = st.teach(federation_of(X, y, 2), Ridge(), np.ones(4), budget=1.0, method="random", standardize=True)
    scaler = StandardScaler().fit(X)
    model = Ridge().fit(scaler.transform(X), y)
    slope = model.coef_ / scaler.scale_
    np.testing.assert_allclose(lesson.model[:3], slope, rtol=1e-9, atol=1e-12)
    assert lesson.model[3] == pytest.approx(model.intercept_ - scaler.mean_ @ slope, rel=1e-9)


REFUSED = [
    (HuberRegressor(), "HuberRegressor.*scale"),
    (LogisticRegressionCV(), "LogisticRegressionCV.*supported are LogisticRegression"),
    (Lasso(), "Lasso"),
    (ElasticNet(), "ElasticNet"),
    (SGDClassifier(), "SGDClassifier"),
    (SVC(), "SVC"),
    (LogisticRegression, r"LogisticRegression \(a class, not an instance\)"),
    ("LogisticRegression", "the text 'LogisticRegression' cannot be taught"),
    (None, "NoneType"),
    (LogisticRegression(class_weight="balanced"), r"class_weight='balanced'"),
    (LogisticRegression(class_weight={1: 2.0}), r"class_weight=\{1: 2.0\}"),
    (LogisticRegression(l1_ratio=0.5, solver="saga"), r"l1_ratio=0.5"),
    (LogisticRegression(C=0.0), r"C=0.0"),
    (LogisticRegression(C=-1.0), r"C=-1.0"),
    (LogisticRegression(C=np.nan), r"C=nan"),
    (LogisticRegression(C="1"), r"C='1'"),
    (LogisticRegression(penalty="l1", solver="liblinear"), r"penalty='l1'"),
    (LogisticRegression(solver="liblinear", intercept_scaling=0.0), r"intercept_scaling=0.0"),
    (Ridge(alpha=0.0), r"alpha=0.0"),
    (Ridge(alpha=-1.0), r"alpha=-1.0"),
    (Ridge(alpha=np.inf), r"alpha=inf"),
    (Ridge(alpha=[1.0, 2.0]), r"alpha=\[1.0, 2.0\]"),
    (Ridge(alpha="1"), r"alpha='1'"),
    (Ridge(alpha=None), r"alpha=None"),
    (Ridge(positive=True), r"positive=True"),
    (LinearSVC(loss="hinge"), r"loss='hinge'"),
    (LinearSVC(penalty="l1", dual=False), r"penalty='l1'"),
    (LinearSVC(class_weight="balanced"), r"class_weight='balanced'"),
    (LinearSVC(multi_class="crammer_singer"), r"multi_class='crammer_singer'"),
    (LinearSVC(C=np.inf), r"C=inf"),
    (PoissonRegressor(alpha=0.0), r"alpha=0"),
]


@pytest.mark.parametrize(("estimator", "words"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_what_cannot_be_taught_is_named(estimator, words):
    """Estimators and options outside the method's reach are refused by name."""
    with pytest.raises(LearnerError, match=words):
        st.Learner.of(estimator)


@pytest.mark.parametrize("ridge", [0.0, -1.0, np.inf, np.nan, None, "1"])
def test_a_learner_needs_a_ridge(ridge):
    """Without a positive Λ no unique model belongs to a lesson, but for least squares and two classes of rows that mix."""
    with pytest.raises(LearnerError, match="ridge"):
        st.Learner(SquaredHinge(), ridge)


def test_a_learner_needs_a_loss_instance():
    """The class of a loss, or its name, is not a loss."""
    for loss in (Squared, "squared", None):
        with pytest.raises(LearnerError, match="loss"):
            st.Learner(loss)


def test_what_an_estimator_is_read_as():
    """Λ = 1/C, alpha, or alpha per row, with the intercept scikit-learn gives it."""
    assert st.Learner.of(LogisticRegression(C=4.0)) == st.Learner(Logistic(), 0.25, "free")
    assert st.Learner.of(Ridge(alpha=2, fit_intercept=False)) == st.Learner(Squared(), 2.0)
    svc = st.Learner.of(LinearSVC(C=0.5, intercept_scaling=3))
    assert (svc.loss.name, svc.ridge, svc.intercept, svc.constant) == ("squared_hinge", 2.0, "penalised", 3.0)
    poisson = st.Learner.of(PoissonRegressor(alpha=0.1))
    assert poisson.penalty(50) == pytest.approx(5.0)
    assert poisson.free_intercept


def test_census_counts_positive_labels(federation_of):
    """The census behind a fit counts rows and positive labels over all teachers."""
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    assert federation_of(np.zeros((5, 2)), y, 2).sum(Census()) == Size(5, 3)


def columns_of_texts(rows=3000, width=600):
    """Sparse rows whose columns are used a thousand times or a few times."""
    draw = np.random.default_rng(0)
    chance = 1.0 / np.arange(1, width + 1)
    X = sparse.csr_matrix((draw.random((rows, width)) < 20.0 * chance / chance.sum()) * draw.random((rows, width)))
    signal = X @ draw.standard_normal(width)
    return X, (signal + draw.logistic(scale=signal.std(), size=rows) > 0.0).astype(int)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
def test_wide_models_are_those_of_scikit_learn(intercept, standardize):
    """L-BFGS has the squares of columns to start from: a wrong diagonal would cost steps, and no digit."""
    X, y = columns_of_texts()
    learner = LogisticRegression(fit_intercept=intercept, **TIGHT)
    wide = X.toarray()
    if standardize:
        wide = StandardScaler(with_mean=intercept).fit_transform(wide)
    expected = LogisticRegression(solver="newton-cholesky", fit_intercept=intercept, **TIGHT).fit(wide, y)
    goal = np.full(X.shape[1] + intercept, 0.1)
    teacher = st.SuperTeacher(learner, goal, budget=0.5, method="random", standardize=standardize).fit(X, y)
    pool = teacher.lesson_.pool_model
    raw = StandardScaler(with_mean=intercept).fit(X.toarray()) if standardize else None
    coef = expected.coef_[0] if raw is None else expected.coef_[0] / raw.scale_
    np.testing.assert_allclose(pool[: X.shape[1]], coef, rtol=0, atol=1e-5 * np.abs(coef).max())
    rounds = [entry for entry in teacher.lesson_.ledger if entry.stage == "pool fit"]
    assert len(rounds) < 60  # 94 without the diagonal

"""What the programmes are made of, and what is refused before a solver starts."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from superteach.exceptions import DataError, GoalError, LearnerError, MissingExtra, SettingError
from superteach.losses import Huber, Logistic, Squared
from superteach_lab import minlp
from superteach_lab.minlp.programme import Programme, greedy, slope


@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_symbolic_slopes_are_the_losses_own(kind, pool):
    """The formula handed to solvers is losses' ℓ'."""
    loss = Logistic() if kind == "logistic" else Squared()
    _, y = pool(kind, 50, 2, 0)
    eta = np.linspace(-6.0, 6.0, 50)
    np.testing.assert_allclose(slope(loss, eta, y, np.exp), loss.gradient(eta, y), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_matching_is_the_newton_step_at_the_goal(kind, free, pool):
    """With every row chosen, A b − c is the step that Newton takes from the goal (minus the gradient, scaled)."""
    X, y = pool(kind, 40, 3, 1)
    goal, ridge = np.array([0.5, -0.2, 0.3]), 0.7
    penalty = ridge * np.diag([1.0, 1.0, 0.0 if free else 1.0])
    eta = X @ goal
    if kind == "logistic":
        share = 1.0 / (1.0 + np.exp(y * eta))
        gradient, weight = -X.T @ (y * share) + penalty @ goal, share * (1.0 - share)
    else:
        gradient, weight = X.T @ (eta - y) + penalty @ goal, np.ones(40)
    step = -np.linalg.solve((X.T * weight) @ X + penalty, gradient)
    loss = Logistic() if kind == "logistic" else Squared()
    columns, target = Programme(X, y, loss, ridge, goal, None, free).matching
    np.testing.assert_allclose(columns.sum(axis=1) - target, step, rtol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_the_refit_is_scikit_learns(kind, intercept, pool):
    """A task judges rows by the model scikit-learn would fit on them."""
    X, y = pool(kind, 60, 2, 2)
    rows = np.arange(0, 60, 3)
    estimator = (
        LogisticRegression(C=2.0, fit_intercept=intercept, tol=1e-12, max_iter=1000)
        if kind == "logistic"
        else Ridge(0.5, fit_intercept=intercept)
    ).fit(X[rows], y[rows])
    whole = np.column_stack([X, np.ones(60)]) if intercept else X
    loss = Logistic() if kind == "logistic" else Squared()
    model = Programme(whole, y, loss, 0.5, np.zeros(whole.shape[1]), 20, intercept).fit(rows)
    wanted = np.append(estimator.coef_.ravel(), estimator.intercept_ if intercept else [])
    np.testing.assert_allclose(model, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("size", [1, 4, 11, 12, None])
def test_the_greedy_start_has_the_asked_size(size, pool):
    """As many distinct rows as asked for, also where all of them are."""
    X, y = pool("squared", 12, 2, 3)
    task = Programme(X, y, Squared(), 1.0, np.ones(2), size)
    assert task.valid(greedy(task))


@pytest.mark.parametrize(
    ("error", "words", "change"),
    [
        (SettingError, "formulation='exact' is not known", {"formulation": "exact"}),
        (SettingError, "solver='scip' does not solve", {"solver": "scip"}),
        (SettingError, "seconds=0", {"seconds": 0}),
        (SettingError, "gigabytes=nan", {"gigabytes": float("nan")}),
        (SettingError, "seed=-1", {"seed": -1}),
        (SettingError, "size=13", {"size": 13}),
        (SettingError, "size=0", {"size": 0}),
        (LearnerError, "not for huber", {"loss": Huber()}),
        (LearnerError, "positive", {"ridge": 0.0}),
        (LearnerError, "every coefficient penalised", {"formulation": "bounded", "free_intercept": True}),
        (DataError, "labels must be -1 and 1", {"loss": Logistic()}),
        (DataError, "NaN", {"y": np.full(12, np.nan)}),
        (DataError, "N rows and N targets", {"y": np.ones(11)}),
        (GoalError, "2 finite numbers", {"goal": np.ones(3)}),
    ],
)
def test_what_cannot_be_solved_is_refused_at_once(error, words, change, pool):
    """No process is started for it."""
    X, y = pool("squared", 12, 2, 3)
    given = {"X": X, "y": y, "loss": Squared(), "ridge": 1.0, "goal": np.ones(2), "size": 4} | change
    with pytest.raises(error, match=words):
        minlp.solve(**given)


def test_a_missing_solver_names_the_extra(monkeypatch, pool):
    """The message holds the command that installs it."""
    X, y = pool("squared", 12, 2, 3)
    found = importlib.util.find_spec
    monkeypatch.setattr(minlp, "find_spec", lambda name: None if name == "casadi" else found(name))
    with pytest.raises(MissingExtra, match=r"pip install 'superteach-lab\[minlp\]'"):
        minlp.solve(X, y, Squared(), 1.0, np.ones(2), 4)
    # The others stay usable.
    assert minlp.solve(X, y, Squared(), 1.0, np.ones(2), 4, formulation="gradient").status == "optimal"


def test_too_large_is_said_before_anything_starts(pool):
    """What cannot fit into the memory allowed is not tried."""
    X, y = pool("squared", 5000, 10, 0)
    found = minlp.solve(X, y, Squared(), 1.0, np.ones(10), 50, gigabytes=0.41)
    assert found.status.startswith("too large to try: 5000 rows of 10 columns need about")
    assert found.rows is None

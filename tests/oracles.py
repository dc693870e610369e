"""Solvers that know the answer by other means, asked for so many digits that no processor's last ones matter."""

from __future__ import annotations

import warnings

import cvxpy as cp
from sklearn.base import BaseEstimator
from sklearn.svm import LinearSVC

TIGHT = {"tol": 1e-12, "max_iter": 100_000}
"""Options of scikit-learn's estimators."""


def accuracy(estimator: BaseEstimator) -> float:
    """How far from the optimum, relative to their size, coefficients may be that this estimator finds at TIGHT.

    L-BFGS and liblinear end where a step lowers the objective by less than 1e-14 and 1e-12 of it: coefficients are then
    right to the square root of that. Newton's steps and closed forms go on to the last digits.
    """
    roughly = isinstance(estimator, LinearSVC) or getattr(estimator, "solver", None) in ("lbfgs", "liblinear")
    return 1e-5 if roughly else 1e-6


_TOLERANCES = ("tol_gap_abs", "tol_gap_rel", "tol_feas", "tol_ktratio")


def solve_tightly(problem: cp.Problem) -> float:
    """The optimal value by Clarabel to 1e-12, or as near as rounding lets it come: to 1e-8, its default, or an error.

    The variables are right to about the square root of that where they are free to move, and at the default end
    elsewhere on another processor.
    """
    tight = dict.fromkeys(_TOLERANCES, 1e-12) | dict.fromkeys((f"reduced_{name}" for name in _TOLERANCES), 1e-8)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        return float(problem.solve(solver=cp.CLARABEL, max_iter=500, **tight))

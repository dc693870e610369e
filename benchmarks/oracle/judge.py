"""How near a lesson comes: the learner refitted by scikit-learn on the chosen rows, beside the goal."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC

from benchmarks.oracle.pools import Task

ROOT = Path(__file__).parents[2]
EXACT: dict[type, dict[str, Any]] = {
    LogisticRegression: {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 1_000},
    PoissonRegressor: {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 1_000},
    LinearSVC: {"dual": False, "tol": 1e-14, "max_iter": 100_000},
    Ridge: {},
}
"""Settings with which scikit-learn fits to the end."""
UNSEEN = 1e-11
"""Eigenvalue, as part of the largest, below which no row sees a direction, with columns of length one."""


class Server:
    """A process that teaches with the code of one checkout, and one thread of linear algebra."""

    def __init__(self, checkout: Path = ROOT) -> None:
        source = checkout / "src"
        if not (source / "superteach").is_dir():
            raise SystemExit(f"{checkout} is no checkout of superteach: there is no src/superteach in it")
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("server.py")],
            env={**os.environ, **one, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def lesson(self, task: Path, numbers: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Teach one task that lies in a file, with some of the code's numbers changed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"task": str(task), "numbers": numbers or {}}), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process that teaches {task.stem} died with code {self._process.wait()}")
        return dict(json.loads(answer))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Judge:
    """The goal of one task, moved along directions that no row sees to where the learner's own fits end."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._several = is_classifier(task.estimator) and np.shape(task.goal.coef_)[0] > 1
        self._design = self._with_constant(task.X)
        self.goal = self._moved(self._model(task.goal))

    def _with_constant(self, X: Any) -> Any:
        if not self._task.estimator.fit_intercept:
            return X
        return np.column_stack([X.toarray() if sparse.issparse(X) else X, np.ones(X.shape[0])])

    def _model(self, fitted: Any) -> Any:
        """Outputs × coefficients, the intercept last; of several classes those that predict alike are one."""
        model = np.atleast_2d(fitted.coef_)
        if self._task.estimator.fit_intercept:
            model = np.column_stack([model, np.ravel(fitted.intercept_)])
        return model - model.mean(axis=0) if self._several else model

    def _moved(self, model: Any) -> Any:
        gram = self._design.T @ self._design
        gram = np.asarray(gram.toarray() if sparse.issparse(gram) else gram, dtype=float)
        length = np.sqrt(np.where(np.diag(gram) > 0.0, np.diag(gram), 1.0))
        values, vectors = np.linalg.eigh(gram / np.outer(length, length))
        unseen = vectors[:, values < UNSEEN * values[-1]] / length[:, None]
        penalised = np.ones(len(length))
        penalised[len(length) - self._task.estimator.fit_intercept :] = 0.0
        # A fit is stationary along v, which no loss sees, where its penalty is: v'Dθ = 0.
        weighted = unseen / np.linalg.norm(unseen, axis=0)
        step = np.linalg.lstsq(weighted * penalised[:, None] ** 0.5, (model * penalised**0.5).T, rcond=None)[0]
        return model - (weighted @ step).T

    def measure(self, rows: list[int]) -> dict[str, Any]:
        """Risk to the moved goal, distance of predictions, and the share of equal classes."""
        task = self._task
        if is_classifier(task.estimator) and len(np.unique(task.y[rows])) < len(np.unique(task.y)):
            return {"error": "the chosen rows lack a class"}
        learner = clone(task.estimator).set_params(**EXACT[type(task.estimator)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = self._model(learner.fit(task.X[rows], task.y[rows]))
        taught, wanted = self._design @ model.T, self._design @ self.goal.T
        apart = float(np.sqrt(np.square(taught - wanted).sum(axis=1).mean()))
        found = {"risk": float(np.linalg.norm(model - self.goal)), "predictions": apart}
        if is_classifier(task.estimator):
            sides = [one.argmax(axis=1) if self._several else one[:, 0] > 0 for one in (taught, wanted)]
            found["agreement"] = float(np.mean(sides[0] == sides[1]))
        return found


def write(task: Task, path: Path) -> Path:
    """Write a task where a server reads it."""
    path.write_bytes(pickle.dumps(tuple(task), protocol=5))
    return path

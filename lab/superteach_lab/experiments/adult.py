"""Teach a pipeline on raw Adult: 14 mixed columns, a scaler and an encoder before the learner; `python -m … [folder]`."""

from __future__ import annotations

import sys

import numpy as np
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from superteach import SuperTeacher
from superteach_lab.data import load_adult

SIZES = (300, 1000)


def pipeline() -> Pipeline:
    """Scale numbers, encode texts (a missing one is a category of its own), fit to many digits."""
    columns = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(columns, LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=1000))


def main(folder: str | None = None) -> None:
    """Print, for each size, risks and agreement with the full model, and how far a refit of the last step is."""
    X, y = load_adult(folder, return_X_y=True)
    fresh, _ = load_adult(folder, subset="test", return_X_y=True)
    owner = np.random.default_rng(0).integers(0, 5, len(y))
    goal = pipeline().fit(X, y)
    print("rows  risk     random   agrees   random   refit differs by")
    for size in SIZES:
        teacher = SuperTeacher(pipeline(), goal, budget=size).fit(X, y, groups=owner)
        behind = teacher.model_[:-1].transform
        choices = teacher.sample_indices_, np.random.default_rng(1).choice(len(y), size, replace=False)
        fits = [clone(goal[-1]).fit(behind(X.iloc[rows]), y.iloc[rows]) for rows in choices]
        models = [np.append(one.coef_, one.intercept_) for one in fits]
        risks = [float(np.linalg.norm(model - teacher.lesson_.goal)) for model in models]
        agree = [float(np.mean(one.predict(behind(fresh)) == goal.predict(fresh))) for one in fits]
        away = np.abs(models[0] - teacher.lesson_.model).max()
        print(f"{size:<5} {risks[0]:<8.3g} {risks[1]:<8.3g} {agree[0]:<8.2%} {agree[1]:<8.2%} {away:.1g}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:2])

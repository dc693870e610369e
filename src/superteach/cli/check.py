"""`superteach check`: a lesson verified by those who need not trust it.

Rows are read by Arrow, models are fitted by scikit-learn, and proofs are looked at by `superteach.checker`, which is NumPy
alone. Nothing that has made the lesson takes part.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from superteach import checker
from superteach.cli.folder import read_lesson
from superteach.cli.lines import say
from superteach.exceptions import DataError, SettingError, counted, listed, reason_of
from superteach.types import Array, Json, Raw

SAME = 1e-5
"""Share of the spread of predictions by which two fits of one model may differ."""
COARSE = 1e-3
"""The same for liblinear, whose coordinate descent ends earlier."""
CONFIRMED = 1.0, 0.99, 0.97, 0.95, 0.93, 0.9
"""Shares of a lower bound of which the checker, which is coarser than what found the bound, must confirm one."""
ONE_OUTPUT = {"softmax": "logistic", "squared_hinges": "squared_hinge", "squared_targets": "squared"}
"""Losses of several outputs, as scikit-learn's estimators are named by."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: whether it holds (None: it could not be looked at), and what was seen."""

    what: str
    holds: bool | None
    seen: str

    @property
    def word(self) -> str:
        """In one word."""
        return "not checked" if self.holds is None else "holds" if self.holds else "FAILS"


def run(folder: Path, files: Sequence[Path], page: Path | None) -> bool:
    """Look at everything, write a page, say what was seen; whether all of it holds."""
    stored, _ = read_lesson(folder)
    check_kind(folder, stored)
    findings = verify(stored, *read_rows(folder, stored, files))
    place = folder / "check.html" if page is None else page
    write_page(place, folder, stored, findings)
    for one in findings:
        say(f"{one.word}: {one.what} ({one.seen})", 2)
    if stored.get("positive") is not None:
        say(_positive(stored))
    failed = sum(one.holds is False for one in findings)
    held = sum(one.holds is True for one in findings)
    say(
        f"{counted(failed, 'statements')} of the lesson FAIL."
        if failed
        else f"All {held} statements that were checked hold."
    )
    say(f"Written: {place}.")
    return not failed


def check_kind(folder: Path, stored: Json) -> None:
    """Refuse lessons that leave nothing to check, and say why."""
    named = stored.get("files") or []
    if not stored.get("delivered", True):
        raise SettingError(
            f"the lesson in {str(folder)!r} has no model: its rows were not fitted in privacy mode {stored['privacy']!r}"
        )
    if not named or any("chosen" not in entry or not str(entry["chosen"]).endswith(".csv") for entry in named):
        raise SettingError(
            f"the lesson in {str(folder)!r} names no chosen rows by file (a federation keeps them with their owners, large "
            "tables in chosen.parquet); superteach check reads lessons of superteach teach FILE… in memory"
        )
    if not isinstance(stored.get("settings", {}).get("learner"), dict) or "target" not in stored:
        raise SettingError(
            f"lesson.json in {str(folder)!r} does not say which learner and target it is of; teach it again"
        )


def read_rows(folder: Path, stored: Json, files: Sequence[Path]) -> tuple[Array, Raw, Raw]:
    """Read features, targets and which rows are chosen, from the files given or from those that the lesson names."""
    named: list[str] = list(dict.fromkeys(str(entry["file"]) for entry in stored["files"]))
    given = list(files) or [Path(name) for name in named]
    by_name = {place.name: place for place in given}
    if len(by_name) != len(given) or (lacking := [name for name in named if Path(name).name not in by_name]):
        missing = lacking[0] if len(by_name) == len(given) else given[0].name
        seen = listed([str(place) for place in given])
        raise SettingError(
            f"--rows names {seen}, and the lesson was taught from {listed(named)}; give one file for {missing!r}"
        )
    columns, target = list(stored["columns"]), str(stored["target"])
    tables = {name: _read(by_name[Path(name).name], columns, target, stored.get("encoding", "utf-8")) for name in named}
    starts = dict(zip(named, np.cumsum([0, *(len(tables[name][1]) for name in named)]).tolist(), strict=False))
    chosen = []
    for entry in stored["files"]:
        place, held = folder / str(entry["chosen"]), len(tables[str(entry["file"])][1])
        try:
            numbers = np.loadtxt(place, dtype=np.int64, skiprows=1, ndmin=1)
        except (OSError, ValueError) as error:
            raise DataError(f"{str(place)!r} cannot be read as numbers of rows: {reason_of(error)}") from None
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < held:
            raise DataError(
                f"{str(place)!r} names row {int(numbers.max())}, and {entry['file']!r} has {held:,} rows; give the file "
                "that the lesson was taught from"
            )
        chosen.append(numbers + starts[str(entry["file"])])
    parts = [tables[name] for name in named]
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts]), np.concatenate(chosen)


def _read(path: Path, columns: list[str], target: str, encoding: str) -> tuple[Array, Raw]:
    """Features as numbers and the target as it is, by Arrow."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        options = csv.ReadOptions(encoding=encoding)
        table = parquet.read_table(path) if path.suffix.lower() == ".parquet" else csv.read_csv(path, options)
    except (OSError, LookupError, pa.ArrowException) as error:
        raise DataError(f"file {str(path)!r} cannot be read: {reason_of(error)}") from None
    if lacking := [name for name in (*columns, target) if name not in table.column_names]:
        raise DataError(
            f"file {str(path)!r} has no column {lacking[0]!r}, which the lesson was taught from; check the file"
        )
    try:
        features = [table.column(name).cast(pa.float64()).to_numpy() for name in columns]
    except pa.ArrowException as error:
        raise DataError(f"file {str(path)!r} holds something that is no number: {reason_of(error)}") from None
    X = np.column_stack(features) if features else np.zeros((len(table), 0))
    if not np.isfinite(X).all():
        column = columns[int(np.flatnonzero(~np.isfinite(X).all(axis=0))[0])]
        raise DataError(
            f"file {str(path)!r} lacks a number in column {column!r}; give the rows that the lesson was taught from"
        )
    return X, table.column(target).to_numpy(zero_copy_only=False)


def verify(stored: Json, X: Array, y: Raw, chosen: Raw) -> list[Finding]:
    """Look at the number of rows, the model, its distances to the goal, and what is proved."""
    lesson = _Lesson.of(stored, X, y, chosen)
    distinct = len(np.unique(chosen))
    right = distinct == len(chosen) == stored["size"] and len(y) == stored["pool_rows"]
    found = [Finding("the lesson's rows are there", right, f"{distinct:,} rows of {len(y):,}")]
    if not right:
        return found
    refit, tolerance = lesson.refit()
    if refit is None:
        found.append(Finding("scikit-learn's own fit gives the model", None, "scikit-learn has no such learner"))
    else:
        apart = lesson.apart(refit, lesson.model) / max(lesson.spread, 1e-300)
        text = f"predictions differ by {apart:.1e} of their spread"
        found.append(Finding("scikit-learn's own fit on the chosen rows gives the model", apart <= tolerance, text))
    for name, own in (
        ("risk", float(np.linalg.norm(lesson.model - lesson.goal))),
        ("prediction_distance", lesson.apart(lesson.model, lesson.goal)),
    ):
        close = math.isclose(own, stored[name], rel_tol=1e-4, abs_tol=1e-9 * max(lesson.spread, 1.0))
        text = f"{own:.6g}, stated {stored[name]:.6g}"
        found.append(Finding(f"the stated {name.replace('_', ' ')} is that of model and goal", close, text))
    proof = stored.get("certificate")
    if proof is not None and not proof.get("whole"):
        found += lesson.proofs(np.array(proof["direction"]), float(stored.get("lower_bound") or 0.0))
    elif proof is not None:
        found.append(Finding("the proof for a set of models", None, "the checker looks at single goals"))
    return found


@dataclass(frozen=True, eq=False)
class _Lesson:
    """What lesson.json says, in arrays; models are outputs × coefficients, intercept last where there is one."""

    X: Array
    y: Array
    """Outputs × rows: −1 and 1, numbers, or for softmax the class's number."""
    labels: Raw
    chosen: Raw
    learner: Json
    standardize: bool
    predictions: bool
    size: int
    model: Array
    goal: Array

    @classmethod
    def of(cls, stored: Json, X: Array, target: Raw, chosen: Raw) -> _Lesson:
        learner, classes = stored["settings"]["learner"], stored.get("classes") or []
        intercept = learner["intercept"] != "none"
        coef = np.atleast_2d(np.array(stored["model"]["coef"], dtype=np.float64))
        offset = np.reshape(np.array(stored["model"]["intercept"], dtype=np.float64), (-1, 1))
        model = np.hstack([coef, np.broadcast_to(offset, (len(coef), 1))]) if intercept else coef
        goal = np.atleast_2d(np.array(stored["goal"], dtype=np.float64))
        if classes:
            given = np.array([str(label) for label in target.tolist()])
            names = [str(label) for label in classes]
            if foreign := sorted(set(given.tolist()) - set(names)):
                raise DataError(
                    f"the target holds {foreign[0]!r}, and the lesson knows {listed(names)}; give its own rows"
                )
            number = np.array([names.index(label) for label in given], dtype=np.float64)
            several = np.where(number == np.arange(len(names))[:, None], 1.0, -1.0)
            y = several[1:] if len(names) == 2 else number[None] if learner["loss"]["name"] == "softmax" else several
            labels: Raw = number
        else:
            try:
                labels = target.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise DataError(f"the target holds something that is no number: {reason_of(error)}") from None
            y = labels[None]
        settings = stored["settings"]
        scaled, measure = bool(settings.get("standardize")), settings.get("measure") == "predictions"
        return cls(X, y, labels, chosen, learner, scaled, measure, stored["size"], model, goal)

    @property
    def scale(self) -> tuple[Array, Array]:
        """Centre and scale of columns, as the learner sees them."""
        mean, deviation = self.X.mean(axis=0), self.X.std(axis=0)
        if not self.standardize:
            return np.zeros_like(mean), np.ones_like(mean)
        flat = deviation <= 10.0 * np.finfo(np.float64).eps * np.abs(mean)
        intercept = self.learner["intercept"] != "none"
        return mean if intercept else np.zeros_like(mean), np.where(flat, 1.0, deviation)

    def scores(self, model: Array) -> Array:
        """Outputs × rows."""
        if self.learner["intercept"] == "none":
            return np.asarray(model @ self.X.T)
        return np.asarray(model[:, :-1] @ self.X.T + model[:, -1:])

    def apart(self, one: Array, other: Array) -> float:
        """Root mean square over the pool of what two models predict apart, all outputs together."""
        return float(np.sqrt(np.square(self.scores(one) - self.scores(other)).sum(axis=0).mean()))

    @property
    def spread(self) -> float:
        """Root mean square of the goal's predictions around their mean."""
        scores = self.scores(self.goal)
        return float(np.sqrt(np.square(scores - scores.mean(axis=1, keepdims=True)).sum(axis=0).mean()))

    def refit(self) -> tuple[Array | None, float]:
        """Fit the chosen rows by scikit-learn alone, in raw units; and how near the fit is to be."""
        from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
        from sklearn.svm import LinearSVC

        name, ridge = self.learner["loss"]["name"], float(self.learner["ridge"])
        name = ONE_OUTPUT.get(name, name)
        free = self.learner["intercept"] == "free"
        exact: dict[str, Any] = {"fit_intercept": free, "tol": 1e-12, "max_iter": 10_000, "solver": "newton-cholesky"}
        penalised = {
            "fit_intercept": self.learner["intercept"] != "none",
            "intercept_scaling": self.learner["constant"],
        }
        estimators: dict[str, Any] = {
            "logistic": lambda: LogisticRegression(C=1.0 / ridge, **exact),
            "squared": lambda: Ridge(alpha=ridge, fit_intercept=free, solver="cholesky"),
            "poisson": lambda: PoissonRegressor(alpha=ridge, **exact),
            "squared_hinge": lambda: LinearSVC(C=1.0 / ridge, tol=1e-10, max_iter=1_000_000, **penalised),
        }
        if name not in estimators:
            return None, 0.0
        centre, scale = self.scale
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = estimators[name]().fit((self.X[self.chosen] - centre) / scale, self.labels[self.chosen])
        slope = np.atleast_2d(fitted.coef_) / scale
        if self.learner["intercept"] == "none":
            return slope, SAME
        offset = np.reshape(fitted.intercept_, (-1, 1)) - slope @ centre[:, None]
        return np.hstack([slope, offset]), COARSE if name == "squared_hinge" else SAME

    def proofs(self, direction: Array, bound: float) -> list[Finding]:
        """Whether the direction proves the goal out of reach, and how much of the lower bound."""
        learner, (centre, scale) = self.learner, self.scale
        X, goal = (self.X - centre) / scale, self.goal
        width = X.shape[1]
        penalty = np.full(width, float(learner["ridge"]) * (self.size if learner["ridge_per_row"] else 1.0))
        inside, back = goal * scale if learner["intercept"] == "none" else goal[:, :-1] * scale, np.diag(1.0 / scale)
        if learner["intercept"] != "none":
            constant = float(learner["constant"])
            X = np.column_stack([X, np.full(len(X), constant)])
            inside = np.hstack([inside, (goal[:, -1:] + goal[:, :-1] @ centre[:, None]) / constant])
            penalty = np.append(penalty, 0.0 if learner["intercept"] == "free" else penalty[0])
            back = np.block([[back, np.zeros((width, 1))], [-(centre / scale)[None], np.full((1, 1), constant)]])
        loss = str(learner["loss"]["name"])
        loss = loss if loss == "softmax" else ONE_OUTPUT.get(loss, loss)
        delta = float(learner["loss"].get("delta", 1.35))

        def margin(radius: float) -> float:
            measure = None if self.predictions else back
            return checker.margin(X, self.y, loss, penalty, inside, self.size, direction, radius, measure, delta)

        ball, proved = self._ball(), margin(0.0)
        what = f"no {self.size:,} of these rows, not even fractions of rows, teach the goal exactly"
        found = [Finding(what, proved > 0.0, f"the proof's margin is {proved:.3g}, of a direction of length 1")]
        if bound > 0.0:
            confirmed = next(
                (share for share in CONFIRMED if share * bound <= ball or margin(share * bound) > 0.0), 0.0
            )
            measure, shown = "predictions" if self.predictions else "coefficients", (confirmed or 1.0) * bound
            what = f"no such lesson comes nearer than {shown:.4g} in {measure}"
            found.append(Finding(what, confirmed > 0.0, f"stated {bound:.4g}, confirmed to {confirmed * bound:.4g}"))
        return found

    def _ball(self) -> float:
        """Distance to the ball that holds all models of targets y = Xw without noise; 0: there is noise, or an intercept."""
        squared = self.learner["loss"]["name"] == "squared" and self.learner["intercept"] == "none"
        if not squared or self.predictions or self.standardize or len(self.goal) > 1:
            return 0.0
        w = np.linalg.lstsq(self.X, self.y[0], rcond=None)[0]
        if np.linalg.norm(self.X @ w - self.y[0]) > 1e-9 * np.linalg.norm(self.y[0]):
            return 0.0
        return float(np.linalg.norm(self.goal[0] - w / 2.0) - np.linalg.norm(w) / 2.0) * (1.0 + 1e-9)


def write_page(place: Path, folder: Path, stored: Json, findings: Sequence[Finding]) -> None:
    """Write what was seen as one page."""
    from superteach.report.page import Page

    failed = any(one.holds is False for one in findings)
    lede = f"{stored['size']:,} of {stored['pool_rows']:,} rows in {folder}, predicting {stored['target']}."
    page = Page(
        "Check of a lesson",
        lede=lede if stored.get("positive") is None else f"{lede} {_positive(stored)}",
        foot="Rows were read by Arrow, fitted by scikit-learn, and proofs were checked by superteach.checker, NumPy alone.",
    )
    page.answer("Some statements of this lesson FAIL." if failed else "All statements that were checked hold.")
    section = page.section("What was checked")
    section.table(["statement", "verdict", "seen"], [[one.what, one.word, one.seen] for one in findings])
    try:
        page.write(place)
    except OSError as error:
        raise SettingError(
            f"{str(place)!r} cannot be written: {reason_of(error)}; name another file with --page"
        ) from None


def _positive(stored: Json) -> str:
    return f"The positive label is {stored['positive']!r}: scores above 0 predict it."

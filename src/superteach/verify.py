"""Check a lesson without trusting what made it:  python verify.py FOLDER [TABLE …]

All of superteach that is needed is this file and checker.py beside it. Arrow reads the tables, scikit-learn fits the models,
checker.py looks at the proof. Every figure of lesson.json and model.json is computed again, or named as not checked.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import sklearn
from pyarrow import csv, parquet
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC

if __package__:
    from superteach import checker
else:  # the two files alone
    import checker  # type: ignore[import-not-found, no-redef]

SAME, COARSE = 1e-5, 1e-3
"""Share of the spread of scores by which two fits of one model may differ; the second for liblinear, which ends earlier."""
DIGITS = 1e-6
"""Share by which a figure may differ from the one computed again."""
CONFIRMED = 1.0, 0.99, 0.97, 0.95, 0.93, 0.9
"""Shares of a lower bound of which the checker, which is coarser than what found the bound, must confirm one."""
HUBER_FITS = 2_000
"""Weighted fits after which weights that still change in their last digits are taken."""
PLAIN = {"softmax": "logistic", "squared_hinges": "squared_hinge", "svc": "squared_hinge", "ridge": "squared"}
"""Losses of one output, by those of several and by the learners of model.json."""
COLOURS = {"holds": "32", "FAILS": "1;31", "not checked": "33"}


class CannotCheck(ValueError):
    """A folder, a table or an entry that cannot be read as what it should be."""


class Finding(NamedTuple):
    """One thing that was looked at, and what was seen: a statement that holds, FAILS or is not checked; or a file read."""

    word: str
    what: str
    seen: str

    def line(self, colours: bool) -> str:
        """Return it as one line."""
        word = f"\033[{COLOURS[self.word]}m{self.word}\033[0m" if colours and self.word in COLOURS else self.word
        return f"{word}: {self.what} ({self.seen})"


def check(folder: Path, tables: Sequence[Path] = ()) -> list[Finding]:
    """Look at everything in a lesson's folder; `tables` are the files it was taught from, and its goal's file.

    First comes when and by what, then every file that was read, then every statement, and last what it all comes to.
    """
    lesson = _Lesson(folder, list(tables))
    try:
        lesson.look()
    except CannotCheck:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
        raise CannotCheck(f"{str(folder)!r} has entries that fit no lesson ({error!r}); teach it again") from error
    words = [one.word for one in lesson.findings]
    failed, checked = words.count("FAILS"), words.count("FAILS") + words.count("holds")
    by = f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}, pyarrow {pa.__version__}"
    return [
        Finding("check", str(folder), f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC, by {by}"),
        *(Finding("read", name, f"SHA-256 {digest}") for name, digest in lesson.files.items()),
        *lesson.findings,
        Finding(
            "FAILS" if failed else "holds", "the lesson", f"{failed} of {checked} statements that were checked fail"
        ),
    ]


def shows_colours() -> bool:
    """Tell whether what is printed goes to a terminal that takes colours."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


class _Lesson:
    """A lesson as it is stored, and what was found; models are outputs × coefficients, the intercept last."""

    def __init__(self, folder: Path, given: list[Path]) -> None:
        self.folder, self.given, self.findings, self.files = folder, given, list[Finding](), dict[str, str]()
        self.used = {"settings", "settings.learner", "settings.standardize", "delivered", "encoding"}
        for own in (__file__, checker.__file__):
            self.read(Path(own))

    def read(self, place: Path) -> bytes:
        """Read a file, and keep its digest."""
        try:
            content = place.read_bytes()
        except OSError as error:
            raise CannotCheck(f"{str(place)!r} cannot be read: {error.strerror}; check the path") from None
        self.files[str(place)] = hashlib.sha256(content).hexdigest()
        return content

    def say(self, what: str, holds: Any, seen: str, *entries: str) -> None:
        """Keep whether a statement holds (None: not checked), and which entries of lesson.json it settles."""
        self.findings.append(Finding("not checked" if holds is None else "holds" if holds else "FAILS", what, seen))
        self.used.update(entries)

    def figure(self, name: str, own: Any, rounding: Any = 0.0) -> None:
        """Compare a stated figure, or a list of them, with what was computed again; null states nothing."""
        stated = np.array(self.stored[name], dtype=np.float64)
        unknown = np.isnan(stated) & (~np.isfinite(own) | (stated.ndim > 0))
        close = np.isclose(stated, own, rtol=DIGITS, atol=rounding) | unknown
        seen = f"{close.sum()} of {close.size} are equal" if stated.ndim else f"{own:.6g}, stated {stated:.6g}"
        self.say(f"the stated {name.replace('_', ' ')}", close.all(), seen, name)

    def look(self) -> None:
        """Look at all that the files at hand can tell."""
        self.stored = stored = json.loads(self.read(self.folder / "lesson.json"))
        self.asked, parts, where = stored.get("asked", {}), stored.get("files") or [], repr(str(self.folder))
        if not stored.get("delivered", True):
            mode = stored["privacy"]
            raise CannotCheck(f"the lesson in {where} has no model: its rows were not fitted in privacy mode {mode!r}")
        if not parts or not all(str(one.get("chosen")).endswith(".csv") for one in parts):
            raise CannotCheck(
                f"the lesson in {where} names no chosen rows by file (a federation keeps them with their owners, large "
                "tables in chosen.parquet); lessons of superteach teach FILE… in memory can be checked"
            )
        self.learner, self.classes, self.columns = stored["settings"]["learner"], stored["classes"], stored["columns"]
        self.loss = PLAIN.get(self.learner["loss"]["name"], self.learner["loss"]["name"])
        self.same = COARSE if self.loss == "squared_hinge" else SAME
        self.shifts = self.learner["loss"]["name"] == "softmax"
        self.intercept, self.measure = self.learner["intercept"] != "none", stored["settings"]["measure"]
        self.goal = np.atleast_2d(np.array(stored["goal"], dtype=np.float64))
        slope = np.atleast_2d(np.array(stored["model"]["coef"], dtype=np.float64))
        offset = np.reshape(np.array(stored["model"]["intercept"], dtype=np.float64), (-1, 1))
        self.model = np.hstack([slope, offset]) if self.intercept else slope
        self.length = float(np.linalg.norm(self.goal))
        self.look_at_model_file()
        self.used |= set() if stored["certificate"] else {"lower_bound"}
        self.figure("risk", np.linalg.norm(self.model - self.goal), 1e-12 * self.length)
        if stored["certificate"] is None and stored["lower_bound"]:
            self.say("the lower bound has a proof", False, "there is none")
        if self.read_tables(parts):
            self.look_at_models()
            self.look_at_goal()
            if stored["certificate"] is not None:
                self.look_at_proof(stored["certificate"], stored["lower_bound"])
        entries = stored | {f"settings.{name}": value for name, value in stored["settings"].items()}
        left = sorted(name for name, value in entries.items() if value not in (None, [], {}) and name not in self.used)
        self.say(f"lesson.json: {', '.join(left)}", None, "nothing computes them again")
        there = {str(one) for one in self.folder.rglob("*") if one.is_file() and one.name != "check.html"}
        if unread := sorted(there - self.files.keys()):
            self.say(", ".join(unread), None, "not read; superteach report writes report.html anew from lesson.json")

    def look_at_model_file(self) -> None:
        """Compare model.json with lesson.json, entry by entry."""
        if not (self.folder / "model.json").is_file():
            self.say("model.json is there", False, "it is missing")
            return
        model, stored = json.loads(self.read(self.folder / "model.json")), self.stored
        positive = self.classes[1] if len(self.classes) == 2 else None
        self.say("the positive label is the last one", stored["positive"] == positive, str(positive), "positive")
        own = stored["model"] | {"columns": self.columns, "classes": self.classes or None, "positive": positive}
        for name, value in own.items():
            self.say(f"model.json has the lesson's {name}", model[name] == value, f"{model[name]}")
        said = model["learner"]
        penalty = said["alpha"] if "alpha" in said else 1.0 / said["C"] if said["C"] else 0.0
        form = [self.learner.get(one) for one in ("ridge_per_row", "constant", "weighted")] + [said["fit_intercept"]]
        same = form == [self.loss == "poisson", 1.0, None, self.intercept]
        same = same and self.learner["loss"].get("outputs", 1) == len(self.goal)
        same = same and PLAIN.get(said["name"], said["name"]) == self.loss
        same = same and math.isclose(penalty, self.learner["ridge"], rel_tol=DIGITS)
        self.say("model.json has the lesson's learner", same, json.dumps(said))
        strange = {f"learner.{name}" for name in said.keys() - {"name", "alpha", "C", "fit_intercept"}}
        if others := sorted(model.keys() - own.keys() - {"learner"} | strange):
            self.say(f"model.json: {', '.join(others)}", None, "no lesson has such entries")

    def find(self, name: str) -> Path | None:
        """Find a file that the lesson names: among those given, else where it was."""
        same = sorted((one for one in self.given if one.name == Path(name).name), key=lambda one: one != Path(name))
        return same[0] if same else Path(name) if Path(name).is_file() else None

    def table(self, place: Path) -> tuple[Any, Any, Any]:
        """Read features, targets (of labels, their place among the lesson's) and the whole table."""
        target, content = self.stored["target"], BytesIO(self.read(place))
        try:
            text, lines = csv.ReadOptions(encoding=self.stored["encoding"]), csv.ParseOptions(newlines_in_values=True)
            binary, null = place.suffix.lower() == ".parquet", csv.ConvertOptions(strings_can_be_null=True)
            table = parquet.read_table(content) if binary else csv.read_csv(content, text, lines, null)
            if lacking := [name for name in (*self.columns, target) if name not in table.column_names]:
                raise CannotCheck(f"file {str(place)!r} has no column {lacking[0]!r}, which the lesson was taught from")
            X = np.column_stack([table.column(name).cast(pa.float64()).to_numpy() for name in self.columns])
        except (LookupError, pa.ArrowException) as error:
            raise CannotCheck(f"file {str(place)!r} cannot be read: {error}") from None
        if not np.isfinite(X).all():
            column = self.columns[int(np.argmin(np.isfinite(X).all(axis=0)))]
            raise CannotCheck(f"file {str(place)!r} lacks a number in column {column!r}; give the rows taught from")
        places = {label: number for number, label in enumerate(self.classes)}
        values = table.column(target).to_pylist()
        if foreign := [value for value in values if places and value not in places]:
            raise CannotCheck(f"the target holds {foreign[0]!r}, the lesson knows {self.classes}; give its own rows")
        return X, np.array([places[one] for one in values] if places else values, dtype=np.float64), table

    def read_tables(self, parts: list[Any]) -> bool:
        """Read all tables, and find the chosen rows in them; False: the tables are not there."""
        stored, named = self.stored, list(dict.fromkeys(one["file"] for one in parts))
        chosen = [np.array(self.read(self.folder / one["chosen"]).split()[1:], dtype=np.int64) for one in parts]
        if lacking := [name for name in named if self.find(name) is None]:
            if self.given:
                raise CannotCheck(f"{', '.join(map(str, self.given))}: give a file for {lacking[0]!r} too")
            self.say("all that needs rows", None, f"there is no {lacking[0]!r}; name the tables of the lesson")
            return False
        read = [self.table(place) for name in named if (place := self.find(name))]
        firsts = np.cumsum([0, *(len(y) for _, y, _ in read)])
        right, places = [stored["teachers"] == [one["teacher"] for one in parts]], list[Any]()
        for one, rows in zip(parts, chosen, strict=True):
            table = read[named.index(one["file"])][2]
            if len(rows) and not 0 <= rows.min() <= rows.max() < len(table):
                raise CannotCheck(
                    f"{one['chosen']} names row {rows.max()}, and {one['file']!r} has {len(table):,} rows; give the file "
                    "that the lesson was taught from"
                )
            owner = self.asked.get("owner")
            owners = [one["teacher"]] * len(table) if owner is None else map(str, table.column(owner).to_pylist())
            own = np.array([name == one["teacher"] for name in owners])
            right += [own[rows].all(), one.get("held", own.sum()) == own.sum(), one.get("rows", len(rows)) == len(rows)]
            places.append(firsts[named.index(one["file"])] + rows)
        self.X, self.y = np.vstack([X for X, _, _ in read]), np.concatenate([y for _, y, _ in read])
        self.chosen, distinct = np.concatenate(places), len(np.unique(np.concatenate(places)))
        right += [distinct == len(self.chosen) == stored["size"], len(self.y) == stored["pool_rows"]]
        seen, entries = f"{distinct:,} rows of {len(self.y):,}", ("files", "teachers", "size", "pool_rows")
        self.say("the lesson's rows are there, each its owner's", all(right), seen, *entries)
        self.figure("fraction", distinct / len(self.y))
        if self.asked.get("costs"):
            costs = [np.array(table.column(self.asked["costs"]).to_pylist(), dtype=np.float64) for _, _, table in read]
            self.figure("cost", np.concatenate(costs)[self.chosen].sum())
        self.set_scale()
        return True

    def set_scale(self) -> None:
        """Set the learner's columns, and what turns a model on them into one in raw units."""
        X, width = self.X, self.X.shape[1]
        self.centre, self.unit = np.zeros(width), np.ones(width)
        self.spread: Any = X.std(axis=0) if self.intercept else np.sqrt(np.square(X).mean(axis=0))
        if self.stored["settings"]["standardize"]:
            mean, deviation = X.mean(axis=0), X.std(axis=0)
            flat = deviation <= 10.0 * np.finfo(np.float64).eps * np.abs(mean)
            self.centre, self.unit = mean * self.intercept, np.where(flat, 1.0, deviation)
            self.spread = self.unit
        self.raw, self.inside, self.back = X, (X - self.centre) / self.unit, np.diag(1.0 / self.unit)
        if self.intercept:
            constant, ones = float(self.learner["constant"]), np.ones((len(X), 1))
            self.raw, self.inside = np.hstack([X, ones]), np.hstack([self.inside, constant * ones])
            self.back = np.pad(self.back, (0, 1))
            self.back[-1] = [*(-self.centre / self.unit), constant]

    def apart(self, one: Any, other: Any) -> float:
        """Root mean square over all rows of what two models predict apart, all outputs together."""
        return float(np.sqrt(np.square(self.raw @ (one - other).T).sum(axis=1).mean()))

    def fit(self, X: Any, y: Any, centre: Any = 0.0, unit: Any = 1.0) -> Any:
        """Fit the learner by scikit-learn alone; return its model in raw units."""
        learner, free, ridge = self.learner, self.learner["intercept"] == "free", float(self.learner["ridge"])
        exact: Any = {"fit_intercept": free, "tol": 1e-12, "max_iter": 10_000, "solver": "newton-cholesky"}
        column = {"fit_intercept": self.intercept, "intercept_scaling": learner["constant"]}
        centre = X.mean(axis=0) if free else centre  # the model is the same, and fits are exact far from 0
        middle = float(np.median(y)) if free and self.loss == "huber" else 0.0
        C, X, y, weights = 1.0 / ridge if ridge else np.inf, (X - centre) / unit, y - middle, np.ones(len(y))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.loss == "logistic":
                fitted = LogisticRegression(C=C, **exact).fit(X, y)
            elif self.loss == "poisson":
                fitted = PoissonRegressor(alpha=ridge, **exact).fit(X, y)
            elif self.loss == "squared_hinge":
                fitted = LinearSVC(C=C, dual=False, tol=1e-12, max_iter=10_000, **column).fit(X, y)
            else:
                fitted = Ridge(alpha=ridge, fit_intercept=free, solver="cholesky").fit(X, y)
            for _ in range(HUBER_FITS if self.loss == "huber" else 0):  # weights turn its linear tails into squares
                before, off = weights, np.abs(y - fitted.predict(X))
                weights = np.minimum(1.0, learner["loss"]["delta"] / np.maximum(off, 1e-300))
                if np.abs(weights - before).max() < 1e-13:
                    break
                fitted.fit(X, y, weights)
        slope = np.atleast_2d(fitted.coef_) / unit
        offset = middle + np.reshape(fitted.intercept_, (-1, 1)) - (slope * centre).sum(axis=1, keepdims=True)
        return np.hstack([slope, offset]) if self.intercept else slope

    def look_at_models(self) -> None:
        """Fit the chosen rows and all rows, and compare every figure of the two models."""
        stored, goal, scores = self.stored, self.goal, self.raw @ self.goal.T
        pool: Any = np.reshape(np.array(stored["pool_model"], dtype=np.float64), goal.shape)
        rounding = 1e-12 * float(np.linalg.norm(scores))
        self.wide = float(np.linalg.norm(scores - scores.mean(axis=0)) / math.sqrt(len(scores))) or 1e-300
        for what, rows, model, entries in (
            ("the chosen rows", self.chosen, self.model, ("model", "columns", "target", "classes")),
            ("all rows", slice(None), pool, ("pool_model",)),
        ):
            try:
                apart = self.apart(self.fit(self.X[rows], self.y[rows], self.centre, self.unit), model) / self.wide
            except ValueError:  # rows of one class
                apart = np.inf
            seen = f"scores differ by {apart:.1e} of their spread"
            self.say(f"scikit-learn's own fit on {what} predicts as the model does", apart <= self.same, seen, *entries)
        self.say("it says whether labels are predicted", stored["classifies"] == bool(self.classes), "", "classifies")
        self.figure("prediction_spread", self.wide, rounding)
        for name, model in (("prediction", self.model), ("pool", pool)):
            apart = self.apart(model, goal)
            self.figure(f"{name}_distance", apart, rounding)
            share, doubt = 1.0 - (apart / self.wide) ** 2 if self.wide > 1e-300 else float(apart == 0.0), DIGITS
            if self.classes:
                (one, near), (other, close) = (_winners(self.raw @ each.T, rounding) for each in (model, goal))
                share, doubt = (one == other).mean(), (near | close).mean()
            self.figure("pool_agreement" if name == "pool" else "agreement", share, doubt)
        risk, pool_risk = np.linalg.norm(self.model - goal), np.linalg.norm(pool - goal)
        self.figure("pool_risk", pool_risk, 1e-12 * self.length)
        self.figure("ratio", risk / pool_risk if pool_risk else np.inf if risk else 1.0)
        self.figure("column_spread", self.spread)

    def look_at_goal(self) -> None:
        """Make the goal anew from what was asked for."""
        name, _, rest = self.asked["goal"].partition(":")
        place, own, words = self.find(rest or name), None, ""
        if name == "without":
            out = [one.strip() for one in rest.split(",")]
            kept = [number for number, column in enumerate(self.columns) if column not in out]
            own, words = np.zeros_like(self.goal), f"without {', '.join(out)}"
            own[:, kept + [len(self.columns)] * self.intercept] = self.fit(
                self.X[:, kept], self.y, self.centre[kept], self.unit[kept]
            )
        elif name == "perturbed":
            seed = self.asked.get("goal_seed", 0)
            words = f"fit on all rows, perturbed (seed {seed})"
            truth = np.linalg.solve(self.back, self.fit(self.X, self.y, self.centre, self.unit).T).T
            noise = np.random.default_rng(seed).standard_normal(truth.size).reshape(truth.shape)
            noise -= noise.mean(axis=0) * self.shifts
            own = (truth + noise * np.linalg.norm(truth) / np.linalg.norm(noise)) @ self.back.T
        elif name == "max-auc":
            words, (low, high) = "largest AUC", (self.X[self.y == which] for which in (0.0, 1.0))
            first, last = low.mean(axis=0), high.mean(axis=0)
            both = np.outer(last - first, last - first)
            both += np.cov(low, rowvar=False, bias=True) + np.cov(high, rowvar=False, bias=True)
            slope = np.linalg.lstsq(both, last - first)[0]
            own = np.append(slope, [-0.5 * (first + last) @ slope] * self.intercept)[None]
        elif name == "from-data":
            words, own = f"fit on {rest}", None if place is None else self.fit(*self.table(place)[:2])
        elif place is not None:
            own, words = self.goal_file(place)
        if own is None:
            self.say("the goal", None, f"{rest or name} is not there; name it beside the tables")
            return
        apart, shift = self.apart(own, self.goal) / self.wide, np.linalg.norm(own - self.goal)
        same = apart <= self.same and self.stored["goal_in_words"] == words
        seen = f"scores differ by {apart:.1e} of their spread; it is called {self.stored['goal_in_words']!r}"
        self.say(f"the goal is {words!r}", same, seen, "goal", "goal_in_words", "asked")
        if name != "max-auc":  # where columns add up, it has many vectors
            self.figure(
                "goal_shift", shift, (10.0 * self.same if place is None or name == "from-data" else 1e-12) * self.length
            )
            lengths = np.linalg.norm(self.inside, axis=0)
            rank = np.linalg.matrix_rank(self.inside / np.where(lengths > 0.0, lengths, 1.0), rtol=3e-6)
            moved = shift > 10.0 * self.same * self.length  # else directions need not have been counted
            self.figure("unseen_directions", len(lengths) - rank if moved or self.stored["unseen_directions"] else 0)

    def goal_file(self, place: Path) -> tuple[Any, str]:
        """Read the coefficients of a goal file, and say what it is called."""
        content, words, sign = self.read(place), f"coefficients of {self.asked['goal']}", 1.0
        binary = place.suffix.lower() == ".npy"
        stored = np.load(BytesIO(content)).tolist() if binary else json.loads(content.decode("utf-8-sig"))
        if isinstance(stored, dict):
            kind = stored["learner"].get("name") if isinstance(stored.get("learner"), dict) else None
            words = words if kind is None else f"model of {self.asked['goal']} ({kind})"
            coef = stored if "coef" in self.columns else stored.get("coef", stored)
            coef = coef if isinstance(coef, dict) else dict(zip(stored.get("columns", self.columns), coef, strict=True))
            offset = coef.get("intercept", 0.0) if stored.get("intercept") is None else stored["intercept"]
            positive = stored.get("positive", (stored.get("classes") or [None])[-1])
            sign = -1.0 if positive not in (None, self.stored["positive"]) else 1.0
            stored = [coef[name] for name in self.columns] + [offset] * self.intercept
        own = sign * np.reshape(np.array(stored, dtype=np.float64), self.goal.shape)
        return own - own.mean(axis=0) * self.shifts, words

    def look_at_proof(self, proof: Any, bound: float) -> None:
        """Look at the direction that proves the goal out of reach, and at the lower bound."""
        learner, size, back = self.learner, self.stored["size"], self.back
        penalty: Any = np.full(len(back), float(learner["ridge"]) * (size if learner["ridge_per_row"] else 1.0))
        penalty[-1] *= learner["intercept"] != "free"
        goal: Any = np.linalg.solve(back, self.goal.T).T
        loss, y = "softmax" if self.shifts else self.loss, self.y[None]
        if self.classes and not self.shifts:
            y = np.where(self.y == np.arange(len(self.classes))[:, None], 1.0, -1.0)[-len(self.goal) :]
        direction = np.array(proof["direction"], dtype=np.float64)
        measure, delta = None if self.measure == "predictions" else back, learner["loss"].get("delta", 1.35)

        def margin(radius: float) -> float:
            return checker.margin(self.inside, y, loss, penalty, goal, size, direction, radius, measure, delta)

        proved, unit = margin(0.0), np.linalg.norm(direction)
        right = proved > 0.0 and math.isclose(unit, 1.0) and math.isclose(proved, proof["margin"], rel_tol=1e-4)
        what = f"no {size:,} of these rows, not even fractions of rows, teach the goal exactly"
        self.say(what, right, f"the proof's margin is {proved:.4g}, stated {proof['margin']:.4g}", "certificate")
        if proof["whole"] or proof["within"]:
            self.say("the same of other models of the goal's set", None, "the checker looks at single goals")
        if bound:
            near = self.noise_free()
            share = next((one for one in CONFIRMED if one * bound <= near or margin(one * bound) > 0.0), 0.0)
            what = f"no such lesson comes nearer than {(share or 1.0) * bound:.4g} in {self.measure}"
            seen = f"stated {bound:.4g}, confirmed to {share * bound:.4g}"
            self.say(what, share > 0.0, seen, "lower_bound", "settings.measure")

    def noise_free(self) -> float:
        """How far the goal is from the ball of all that ridge learns of targets y = Xw; 0: they have noise."""
        plain = self.loss == "squared" and not self.intercept and not self.stored["settings"]["standardize"]
        w = np.linalg.lstsq(self.X, self.y)[0] if plain and self.measure == "coefficients" else np.zeros(0)
        if not len(w) or np.linalg.norm(self.X @ w - self.y) > 1e-9 * np.linalg.norm(self.y):
            return 0.0
        return float(np.linalg.norm(self.goal[0] - w / 2.0) - np.linalg.norm(w) / 2.0) * (1.0 + 1e-9)


def _winners(scores: Any, rounding: float) -> tuple[Any, Any]:
    """Tell which label every row's scores predict, and where rounding might say otherwise."""
    if scores.shape[1] == 1:
        return scores[:, 0] > 0.0, (np.abs(scores[:, 0]) <= rounding) & (scores[:, 0] != 0.0)
    ordered = np.sort(scores, axis=1)
    return scores.argmax(axis=1), ordered[:, -1] - ordered[:, -2] <= rounding


def main(arguments: Sequence[str]) -> int:
    """Check a folder, say what was seen; 0: all that was checked holds, 1: something does not, 2: nothing can be checked."""
    try:
        if not arguments:
            raise CannotCheck("name the folder of a lesson, and the tables that it was taught from")
        found = check(Path(arguments[0]), [Path(name) for name in arguments[1:]])
    except CannotCheck as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(*(one.line(shows_colours()) for one in found), sep="\n")
    return int(found[-1].word == "FAILS")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

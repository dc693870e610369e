"""How few rows carry a finding: proof and search of `superteach.drop` beside published ways to search.

Tables are read from the folder that $SUPERTEACH_DATA names: Boston.csv (or the package ISLP, which has it),
superconduct.parquet, icehockey.csv and cems.csv (columns winner and loser). What is not there is left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression

import superteach
from benchmarks.table import Measurements
from superteach.exceptions import GoalError
from superteach.io.tables import read_columns
from superteach.robustness.regression import StandardErrors
from superteach.types import Array, Raw
from superteach_lab.rivals import removal

RIVALS = ("AMIP", "AMIP with refit", "greedy", "recursive greedy")
ERRORS: tuple[StandardErrors, ...] = ("classical", "HC1", "clustered")
COLUMNS = ("table", "coefficient", "rows × columns", "proved", "found", *RIVALS, "seconds")


def run(quick: bool) -> Iterator[Measurements]:
    """Yield the tables of this benchmark."""
    boston = _read("Boston.csv")
    if boston is not None:
        yield _boston(boston)
        yield _significance(boston)
    yield _wide(boston, quick)
    yield _leaderboards(quick)


def _boston(boston: dict[str, Raw]) -> Measurements:
    table = Measurements(
        "Boston housing, one to three columns and an intercept: rows without which the sign turns", COLUMNS
    )
    price = boston["medv"].astype(float)
    high = (price > np.median(price)).astype(float)
    for columns in (("zn",), ("crim",), ("rm",), ("age", "lstat"), ("zn", "lstat", "rm")):
        _add(table, "Boston, squared", columns, boston, price, False)
    for columns in (("zn",), ("crim",), ("age",), ("chas",), ("age", "lstat"), ("crim", "nox", "lstat")):
        _add(table, "Boston, logistic", columns, boston, high, True)
    return table


def _add(
    table: Measurements, name: str, columns: tuple[str, ...], source: dict[str, Raw], target: Array, logistic: bool
) -> None:
    rows = np.column_stack([source[column].astype(float) for column in columns])
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    learner = LogisticRegression() if logistic else LinearRegression()
    started = time.perf_counter()
    result = superteach.drop(rows, target, learner, coefficient=0)
    seconds = time.perf_counter() - started
    _append(table, name, columns[0], rows, target, logistic, result, seconds, 0)


def _append(
    table: Measurements,
    name: str,
    column: str,
    rows: Array,
    target: Array,
    logistic: bool,
    result: Any,
    seconds: float,
    place: int,
) -> None:
    penalty = np.append(np.full(rows.shape[1], float(logistic)), 0.0)
    fit = removal.Fit(np.column_stack([rows, np.ones(len(rows))]), target, penalty, logistic)
    rivals = removal.counts(fit, place, len(rows) // 2)
    found = "–" if result.rows is None else f"{len(result.rows)}"
    shape = f"{rows.shape[0]} × {rows.shape[1]}"
    counts = (f"{count}" if count else "–" for count in (rivals[name] for name in RIVALS))
    table.rows.append((name, column, shape, f"{result.least}", found, *counts, seconds))


def _significance(boston: dict[str, Raw]) -> Measurements:
    table = Measurements(
        "Boston housing, squared: rows without which a coefficient is no longer significant at 0.05",
        ("coefficient", "columns", "standard errors", "proved", "found", "seconds"),
    )
    price = boston["medv"].astype(float)
    for columns in (("zn",), ("crim",), ("chas",), ("rm", "lstat")):
        rows = np.column_stack([boston[column].astype(float) for column in columns])
        for errors in ERRORS:
            given: dict[str, Any] = {"groups": boston["rad"]} if errors == "clustered" else {}
            started = time.perf_counter()
            try:
                result = superteach.drop(
                    rows, price, LinearRegression(), coefficient=0, significance=0.05, standard_errors=errors, **given
                )
            except GoalError:  # not significant on all rows
                continue
            found = "–" if result.rows is None else f"{len(result.rows)}"
            proved = "–" if result.proof == "none" else f"{result.least}"
            seconds = time.perf_counter() - started
            table.rows.append((columns[0], str(len(columns)), errors, proved, found, seconds))
    return table


def _wide(boston: dict[str, Raw] | None, quick: bool) -> Measurements:
    """Many columns: real tables with products of their columns, and generated ones of the same shapes."""
    table = Measurements("Many columns and an intercept, squared: rows without which the sign turns", COLUMNS)
    cases: list[tuple[str, Callable[[], tuple[Array, Array]]]] = []
    if boston is not None:
        names = [name for name in boston if name != "medv" and not name.startswith("Unnamed")]
        base = np.column_stack([boston[name].astype(float) for name in names])
        cases.append(("Boston, products", lambda: (_products(base, 46)[:504], boston["medv"].astype(float)[:504])))
    cases.append(("generated", lambda: _generated(504, 46, 0.27)))
    superconduct = None if quick else _read("superconduct.parquet")
    if superconduct is not None:
        names = list(superconduct)
        whole = np.column_stack([superconduct[name].astype(float) for name in names])
        some = np.random.default_rng(0).choice(len(whole), 3895, replace=False)
        cases.append(("superconduct, products", lambda: (_products(whole[some, :-1], 208), whole[some, -1])))
    if not quick:
        cases.append(("generated", lambda: _generated(3895, 208, 0.36)))
    for name, make in cases:
        rows, target = make()
        rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        place = _middling(rows, target)
        started = time.perf_counter()
        result = superteach.drop(rows, target, LinearRegression(), coefficient=place, seconds=120.0)
        seconds = time.perf_counter() - started
        _append(table, name, f"column {place}", rows, target, False, result, seconds, place)
    return table


def _products(base: Array, width: int) -> Array:
    """Columns, then products of two of them, as many as are linearly independent in float64."""
    base = (base - base.mean(axis=0)) / base.std(axis=0)
    kept = [np.ones(len(base)) / np.sqrt(len(base))]
    columns: list[Array] = []
    pairs = [base[:, place] for place in range(base.shape[1])]
    pairs += [base[:, one] * base[:, two] for one in range(base.shape[1]) for two in range(one, base.shape[1])]
    for column in pairs:
        rest = column - sum(unit * float(unit @ column) for unit in kept)
        rest = rest - sum(unit * float(unit @ rest) for unit in kept)
        if float(np.linalg.norm(rest)) > 0.1 * float(np.linalg.norm(column)):
            kept.append(rest / np.linalg.norm(rest))
            columns.append(column)
        if len(columns) == width:
            break
    return np.column_stack(columns)


def _generated(count: int, width: int, slope: float) -> tuple[Array, Array]:
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((count, width))
    rows[:, 1:] += 0.3 * rows[:, :1]
    weights = np.append(slope, 0.3 * draw.standard_normal(width - 1))
    return rows, rows @ weights + draw.standard_normal(count)


def _middling(rows: Array, target: Array) -> int:
    """Choose the column whose t is nearest to 6: a finding that nobody doubts, and that a few per cent of the rows carry."""
    design = np.column_stack([rows, np.ones(len(rows))])
    inverse = np.linalg.inv(design.T @ design)
    model = inverse @ design.T @ target
    spread = np.sum(np.square(target - design @ model)) / (len(rows) - design.shape[1])
    return int(np.argmin(np.abs(np.abs(model / np.sqrt(spread * np.diag(inverse)))[:-1] - 6.0)))


def _leaderboards(quick: bool) -> Measurements:
    table = Measurements(
        "Leaderboards (Bradley-Terry, ridge 1): votes without which the first place changes",
        ("votes of", "votes × names", "proved", "found", "seconds"),
    )
    cases: list[tuple[str, Raw, Raw]] = []
    for name, file in (("NCAA ice hockey 2009/10", "icehockey.csv"), ("CEMS business schools", "cems.csv")):
        votes = _read(file)
        if votes is not None:
            cases.append((name, votes["winner"], votes["loser"]))
    seeds = () if quick else range(3)
    cases.extend((f"generated, seed {seed}", *generated_votes(56_262, 63, seed)) for seed in seeds)
    for name, winner, loser in cases:
        started = time.perf_counter()
        result = superteach.drop(None, winner=winner, loser=loser)
        seconds = time.perf_counter() - started
        names = len(np.unique(np.concatenate([winner, loser]).astype(str)))
        found = "–" if result.rows is None else f"{len(result.rows)}"
        table.rows.append((name, f"{len(winner):,} × {names}", f"{result.least}", found, seconds))
    return table


def generated_votes(count: int, names: int, seed: int) -> tuple[Raw, Raw]:
    """Draw votes between names of which the two strongest are equally strong."""
    draw = np.random.default_rng(seed)
    strength = np.sort(draw.normal(0.0, 0.6, names))[::-1].copy()
    strength[0] = strength[1]
    often = draw.uniform(0.2, 1.8, names)
    pairs = draw.choice(names, (2, 2 * count), p=often / often.sum())
    first, second = pairs[:, pairs[0] != pairs[1]][:, :count]
    wins = draw.random(count) < 1.0 / (1.0 + np.exp(strength[second] - strength[first]))
    return np.where(wins, first, second), np.where(wins, second, first)


def _read(file: str) -> dict[str, Raw] | None:
    """Read a table from the folder of tables, or Boston.csv from the package ISLP."""
    places = [Path(os.environ["SUPERTEACH_DATA"]) / file] if "SUPERTEACH_DATA" in os.environ else []
    package = find_spec("ISLP") if file == "Boston.csv" else None
    if package is not None and package.origin:
        places.append(Path(package.origin).parent / "data" / file)
    place = next((one for one in places if one.is_file()), None)
    return None if place is None else read_columns(place.stem, place)

"""The paper's two tables on synthetic pools: every method's risk, consistency, time, rounds and bytes by N and K."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from superteach.optim import Block
from superteach_lab.paper import bench, printed
from superteach_lab.paper.plan import Scale, Step, nothing
from superteach_lab.records import Record, Records

TEACHERS = (5, 10)
ROUNDS = 100
"""The paper's T."""
METHODS = {
    "printed": "paper, as printed",
    "pool": "all rows",
    "random": "random rows, same size",
    "dual": "paper's problem, certified optimum",
    "block": f"paper's rule, T = {ROUNDS}",
    "match": "match, same size",
    "oblivious": "oblivious (match inside each teacher), same size",
    "dual, any size": "paper's problem, best of all sizes",
    "dual, printed size": "paper's problem, printed size",
    "match, printed size": "match, printed size",
}
RANGES = {"logistic": (0.01, 0.1), "ridge": (0.01, 0.4), "ridge, no noise": (0.01, 0.4)}
"""|S|/N at which methods are compared: where the paper's own tables lie (1 to 7.2 % and 7 to 36 %)."""
FEW_TRIALS = 3
"""Trials of oblivious teaching, which takes several times as long as match."""
_WALKS = ("dual", "random", "block")
_SECONDS = {
    "dual": (0.2, 6.0),
    "random": (0.15, 4.5),
    "block": (1.3, 110.0),
    "match": (2.5, 2.0),
    "oblivious": (6.0, 4.0),
}
"""About how long a cell takes on one core: some seconds, and more for each million rows."""


def steps_of(kind: str, scale: Scale) -> list[Step]:
    """Per N and K: the methods that rank rows, trial by trial, then those that need the size these found best."""
    steps = []
    for rows in scale.rows:
        for K in TEACHERS:
            steps += _cells(kind, rows, K, scale)
    if kind == "ridge":
        for rows in scale.quiet_rows:
            steps += _cells("ridge, no noise", rows, TEACHERS[0], scale)
    return steps


def block_trials(rows: int, scale: Scale) -> int:
    """A hundred rounds over half a million rows take a minute: larger pools get fewer trials, as the table says."""
    most = 1 if scale.quick else 2 if rows >= 500_000 else 5 if rows >= 100_000 else scale.trials
    return min(scale.trials, most)


def _cells(kind: str, rows: int, K: int, scale: Scale) -> list[Step]:
    place = {"pool": kind, "N": rows, "K": K}
    steps: list[Step] = []

    def add(method: str, trial: int, work: Any) -> None:
        base, slope = _SECONDS[method.removesuffix(", printed size")]
        weight = base + slope * rows / 1e6
        given = nothing if method in _WALKS or "printed" in method else sized
        pool = f"{kind} {rows} {K} {trial}"
        steps.append(Step({**place, "method": method, "trial": trial}, weight, work, given, pool))

    sized = partial(_size_given, place, scale.trials)
    for trial in range(scale.trials):
        add("dual", trial, partial(_walk, place, trial, {"method": "dual"}))
        add("random", trial, partial(_walk, place, trial, {"method": "random"}))
        if trial < block_trials(rows, scale):
            add("block", trial, partial(_walk, place, trial, {"method": "dual", "solver": Block(max_steps=ROUNDS)}))
    asked, few = _printed_size(place), 1 if scale.quick else FEW_TRIALS
    for trial in range(scale.trials):
        if asked and (trial < few or not scale.quick):
            work = partial(_at_size, place, trial, {"method": "match"}, asked)
            add("match, printed size", trial, work)
        for method in ("match", "oblivious") if trial < few else ("match",):
            add(method, trial, partial(_at_size, place, trial, {"method": method}))
    return steps


def _pool(place: Record, trial: int) -> bench.PaperPool:
    return bench.synthetic(place["pool"], place["N"], place["K"], trial)


def _printed_size(place: Record) -> int | None:
    """The number of rows the paper's method chose, where the paper has this pool."""
    table = {"logistic": printed.LOGISTIC, "ridge": printed.RIDGE}.get(place["pool"], {})
    fact = table.get((place["N"], place["K"]), {}).get("dual")
    return round(fact.fraction * place["N"]) if fact else None


def _walk(place: Record, trial: int, settings: Record) -> Record:
    return bench.walked(_pool(place, trial), _printed_size(place), **settings)


def _at_size(place: Record, trial: int, settings: Record, size: int) -> Record:
    return bench.taught(_pool(place, trial), size, **settings)


def _size_given(place: Record, trials: int, records: Records) -> Record | None:
    """The size of the comparison, once the paper's problem is solved in every trial."""
    found = _found(records, place, "dual")
    return {"size": compared_size(found, place)} if len(found) == trials else None


def _found(records: Iterable[Record], place: Record, method: str) -> list[Record]:
    """All trials of a method at one N and K."""
    wanted = {**place, "method": method}
    return [one for one in records if all(one["cell"].get(key) == value for key, value in wanted.items())]


def best_size(trials: list[Record], low: float = 0.0, high: float = np.inf) -> int:
    """The size with the lowest mean risk over all trials, from `low` to `high` rows, that every trial could use."""
    risks: dict[int, list[float]] = {}
    for one in trials:
        for point in one["points"]:
            risks.setdefault(point["size"], []).append(point["risk"])
    means = {size: float(np.mean(found)) for size, found in risks.items() if len(found) == len(trials)}
    # Where no size of the range can be learned from in every trial, any size is better than none.
    inside = {size: risk for size, risk in means.items() if low <= size <= high} or means
    return min(inside, key=lambda size: (inside[size], size))


def compared_size(trials: list[Record], place: Record) -> int:
    """The best size of these trials within the paper's own range."""
    low, high = RANGES[place["pool"]]
    return best_size(trials, round(low * place["N"]), round(high * place["N"]))


def line_of(trials: list[Record], rows: int, size: int | None) -> Record | None:
    """Means and spread over trials at one size (None: the size each trial has)."""
    points = [point for one in trials for point in one["points"] if size in (None, point["size"])]
    if not points:
        # A method that ran and chose nothing says why.
        reasons = [one["reason"] for one in trials if not one["points"]]
        empty = dict.fromkeys(("fraction", "risk", "consistency", "rounds", "bytes"))
        return {**empty, "reason": reasons[0], "seconds": trials[0].get("seconds"), "trials": 0} if reasons else None
    risks = [point["risk"] for point in points]
    line: Record = {
        "fraction": float(np.mean([point["size"] for point in points])) / rows,
        "risk": float(np.mean(risks)),
        "spread": float(np.std(risks, ddof=1)) if len(risks) > 1 else None,
        "consistency": float(np.mean([point["consistency"] for point in points])),
        "trials": len(points),
        "proved": sum(bool(one.get("proved_out_of_reach")) for one in trials),
    }
    for cost in ("seconds", "rounds", "bytes"):
        values = [one[cost] for one in trials if cost in one]
        line[cost] = float(np.mean(values)) if values else None
    return line


def lines_of(records: Records, place: Record, table: printed.Table) -> dict[str, Record]:
    """Every method's line at one N and K; a method that was not run has none."""
    rows = place["N"]
    found = {method: _found(records, place, method) for method in METHODS}
    lines: dict[str, Record | None] = {}
    facts = table.get((rows, place["K"]), {}) if place["pool"] != "ridge, no noise" else {}
    if fact := facts.get("dual"):
        lines["printed"] = {**fact._asdict(), "trials": 10}
    size = compared_size(found["dual"], place)
    lines["pool"] = line_of(found["dual"], rows, rows)
    if lines["pool"]:
        lines["pool"] |= dict.fromkeys(("seconds", "rounds", "bytes"))
    lines["random"] = line_of(found["random"], rows, size)
    lines["dual"] = line_of(found["dual"], rows, size)
    if found["block"]:
        lines["block"] = line_of(found["block"], rows, compared_size(found["block"], place))
        # Fewer trials than the others', and the best size of each: of those trials alone, or few would look better.
        same = [one for one in found["dual"] if one["cell"]["trial"] < len(found["block"])]
        _beside(lines["block"], found, "block", rows, compared_size(same, place))
    for method in ("match", "oblivious"):
        lines[method] = line_of(found[method], rows, None)
    _beside(lines["match"], found, "match", rows, size)
    _beside(lines["oblivious"], found, "oblivious", rows, None, "match", "over_match")
    lines["dual, any size"] = line_of(found["dual"], rows, best_size(found["dual"]))
    asked = _printed_size(place)
    if asked:
        lines["dual, printed size"] = line_of(found["dual"], rows, asked)
        line = lines["match, printed size"] = line_of(found["match, printed size"], rows, None)
        _beside(line, found, "match, printed size", rows, asked)
    return {method: line for method, line in lines.items() if line}


def _beside(
    line: Record | None,
    found: dict[str, list[Record]],
    method: str,
    rows: int,
    size: int | None,
    other: str = "dual",
    name: str = "over_optimum",
) -> None:
    """A method's mean risk over another's, by default over that of the paper's problem: a ratio of the same pools."""
    trials = {one["cell"]["trial"] for one in found[method] if one["points"]}
    same = line_of([one for one in found[other] if one["cell"]["trial"] in trials], rows, size)
    if line and line["risk"] is not None and same and same["risk"]:
        line[name] = line["risk"] / same["risk"]

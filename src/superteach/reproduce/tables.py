"""The paper's two tables on synthetic pools: every method's risk, consistency, time, rounds and bytes by N and K."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from superteach import teaching
from superteach.records import Record, Records
from superteach.reproduce import bench, printed
from superteach.reproduce.plan import Findings, Scale, Step, Target, shown
from superteach.solvers import Block

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
    "dual, printed size": "paper's problem, printed size",
    "match, printed size": "match, printed size",
    "oblivious": "oblivious (match inside each teacher), same size",
    "oblivious-minlp": "oblivious (MINLP inside each teacher), same size",
    "minlp": "MINLP, central, same size",
}
NO_NOISE_ROWS = (5_000, 10_000)
MINLP_ROWS = 10_000
FEW_TRIALS = 3
"""Trials of match at the size the paper prints, and of oblivious teaching."""
_SECONDS = {
    "dual": (0.1, 5.0),
    "random": (0.1, 2.0),
    "block": (1.5, 100.0),
    "match": (1.0, 8.0),
    "oblivious": (1.0, 8.0),
}
"""About how long a cell takes on two cores: some seconds, and more for each million rows."""


def steps_of(kind: str, scale: Scale) -> list[Step]:
    """Per N and K: the methods that rank rows, trial by trial, then those that need the size these found best."""
    steps = []
    for rows in scale.rows:
        for K in TEACHERS:
            steps += _cells(kind, rows, K, scale)
    if kind == "ridge":
        for rows in _quiet(scale):
            steps += _cells("ridge, no noise", rows, TEACHERS[0], scale)
    return steps


def _quiet(scale: Scale) -> tuple[int, ...]:
    return NO_NOISE_ROWS[:1] if scale.quick else NO_NOISE_ROWS


def block_trials(rows: int, scale: Scale) -> int:
    """A hundred rounds over half a million rows take a minute: larger pools get fewer trials, as the table says."""
    most = 1 if scale.quick else 2 if rows >= 500_000 else 5 if rows >= 100_000 else scale.trials
    return min(scale.trials, most)


def _cells(kind: str, rows: int, K: int, scale: Scale) -> list[Step]:
    place = {"pool": kind, "N": rows, "K": K}
    steps = []

    def add(method: str, trial: int, work: Any, seconds: float | None = None, **more: Any) -> None:
        base, slope = _SECONDS[method.removesuffix(", printed size")] if seconds is None else (seconds, 0.0)
        weight = base + slope * rows / 1e6
        steps.append(Step({**place, "method": method, "trial": trial, **more}, weight, work))

    for trial in range(scale.trials):
        add("dual", trial, partial(_walk, place, trial, {"method": "dual"}))
        add("random", trial, partial(_walk, place, trial, {"method": "random"}))
        if trial < block_trials(rows, scale):
            add(
                "block",
                trial,
                partial(_walk, place, trial, {"method": "dual", "solver": Block(max_steps=ROUNDS)}),
            )
    asked = _printed_size(place)
    for trial in range(scale.trials):
        few = 1 if scale.quick else FEW_TRIALS
        if asked and trial < few:
            work = partial(_at_size, place, trial, asked)
            add("match, printed size", trial, work)
        for method in ("match", "oblivious"):
            if method in teaching.METHODS and (method == "match" or trial < few):
                add(method, trial, partial(_at_best, place, trial, scale.trials, {"method": method}))
    if scale.minlp and rows <= MINLP_ROWS:
        limit, most = scale.minlp, scale.minlp + 5.0
        settings = {"method": "oblivious-minlp", "solver_seconds": limit}
        if "oblivious-minlp" in teaching.METHODS:
            work = partial(_at_best, place, 0, scale.trials, settings)
            add("oblivious-minlp", 0, work, K * most, limit=limit)
        add("minlp", 0, partial(_central, place, scale.trials, limit), most, limit=limit)
    return steps


def _pool(place: Record, trial: int) -> bench.Pool:
    return bench.synthetic(place["pool"], place["N"], place["K"], trial)


def _printed_size(place: Record) -> int | None:
    """The number of rows the paper's method chose, where the paper has this pool."""
    table = {"logistic": printed.LOGISTIC, "ridge": printed.RIDGE}.get(place["pool"], {})
    fact = table.get((place["N"], place["K"]), {}).get("dual")
    return round(fact.fraction * place["N"]) if fact else None


def _walk(place: Record, trial: int, settings: Record, records: Records) -> Record:
    return bench.walked(_pool(place, trial), _printed_size(place), **settings)


def _at_size(place: Record, trial: int, size: int, records: Records) -> Record:
    return bench.taught(_pool(place, trial), size, method="match")


def _at_best(place: Record, trial: int, trials: int, settings: Record, records: Records) -> Record:
    size = best_size(_found(records, place, "dual"))
    return bench.taught(_pool(place, trial), size, **settings)


def _central(place: Record, trials: int, seconds: float, records: Records) -> Record:
    return bench.central_minlp(_pool(place, 0), best_size(_found(records, place, "dual")), seconds)


def _found(records: Iterable[Record], place: Record, method: str) -> list[Record]:
    """All trials of a method at one N and K."""
    wanted = {**place, "method": method}
    return [one for one in records if all(one["cell"].get(key) == value for key, value in wanted.items())]


def best_size(trials: list[Record]) -> int:
    """The size with the lowest mean risk over all trials, among those that every trial could use."""
    risks: dict[int, list[float]] = {}
    for one in trials:
        for point in one["points"]:
            risks.setdefault(point["size"], []).append(point["risk"])
    means = {size: float(np.mean(found)) for size, found in risks.items() if len(found) == len(trials)}
    return min(means, key=lambda size: (means[size], size))


def line_of(trials: list[Record], rows: int, size: int | None) -> Record | None:
    """Means and spread over trials at one size (None: the size each trial has)."""
    points = [point for one in trials for point in one["points"] if size in (None, point["size"])]
    if not points:
        # A method that ran and chose nothing says why.
        reasons = [one["reason"] for one in trials if not one["points"]]
        empty = dict.fromkeys(("fraction", "risk", "consistency", "rounds", "bytes"))
        return (
            {**empty, "reason": reasons[0], "seconds": trials[0].get("seconds"), "trials": 0}
            if reasons
            else None
        )
    risks = [point["risk"] for point in points]
    line: Record = {
        "fraction": float(np.mean([point["size"] for point in points])) / rows,
        "risk": float(np.mean(risks)),
        "spread": float(np.std(risks, ddof=1)) if len(risks) > 1 else None,
        "consistency": float(np.mean([point["consistency"] for point in points])),
        "trials": len(points),
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
    size = best_size(found["dual"])
    lines["pool"] = line_of(found["dual"], rows, rows)
    if lines["pool"]:
        lines["pool"] |= dict.fromkeys(("seconds", "rounds", "bytes"))
    lines["random"] = line_of(found["random"], rows, size)
    lines["dual"] = line_of(found["dual"], rows, size)
    if found["block"]:
        lines["block"] = line_of(found["block"], rows, best_size(found["block"]))
        # Fewer trials than the others': a ratio must be of the same pools.
        same = [one for one in found["dual"] if one["cell"]["trial"] < len(found["block"])]
        beside = line_of(same, rows, size)
        if lines["block"] and beside:
            lines["block"]["over_optimum"] = lines["block"]["risk"] / beside["risk"]
    asked = _printed_size(place)
    if asked:
        lines["dual, printed size"] = line_of(found["dual"], rows, asked)
    for method in ("match", "match, printed size", "oblivious", "oblivious-minlp", "minlp"):
        line = lines[method] = line_of(found[method], rows, None)
        fact = facts.get("oblivious" if method == "oblivious-minlp" else method)
        if line and fact:
            line["printed"] = fact._asdict()
    return {method: line for method, line in lines.items() if line}


def findings_of(kind: str, records: Records, scale: Scale) -> Findings:
    """Both tables, the figure, and what reproduces."""
    table = printed.LOGISTIC if kind == "logistic" else printed.RIDGE
    places = [{"pool": kind, "N": rows, "K": K} for rows in scale.rows for K in TEACHERS]
    cells: list[Record] = [{"place": place, "lines": lines_of(records, place, table)} for place in places]
    extra: list[Record] = []
    if kind == "ridge":
        quiet = [{"pool": "ridge, no noise", "N": rows, "K": TEACHERS[0]} for rows in _quiet(scale)]
        extra = [{"place": place, "lines": lines_of(records, place, table)} for place in quiet]
    methods = [name for name in METHODS if any(name in cell["lines"] for cell in [*cells, *extra])]
    return Findings(
        _verdict(kind, cells, extra),
        {"pattern": pattern(cells), "cells": cells, "no_noise": extra},
        [
            (
                "Risk, at the |S|/N of the lowest mean risk (in percent); spread over trials after ±.",
                ["N", "K", *(METHODS[name] for name in methods)],
                [_glance(cell, methods) for cell in [*cells, *extra]],
            ),
            (
                "Everything measured.",
                [
                    "N",
                    "K",
                    "method",
                    "|S|/N",
                    "risk",
                    "spread",
                    "consistency",
                    "seconds",
                    "rounds",
                    "bytes",
                    "trials",
                ],
                [line for cell in [*cells, *extra] for line in _whole(cell)],
            ),
        ],
        {
            "risk": (
                "Mean risk by pool size, K = 5; whiskers: spread over trials.",
                (8.6, 4.2),
                partial(_draw, cells),
            )
        },
    )


def _glance(cell: Record, methods: list[str]) -> list[str]:
    place = cell["place"]
    tail = " (no noise)" if place["pool"] == "ridge, no noise" else ""
    entries = [f"{place['N']:,}{tail}", str(place["K"])]
    for name in methods:
        line = cell["lines"].get(name)
        if line is None or line["risk"] is None:
            entries.append("–" if line is None else f"none: {line['reason']}")
            continue
        spread = f" ± {shown(line['spread'], 2)}" if line.get("spread") is not None else ""
        entries.append(f"{shown(line['risk'])}{spread} ({100 * line['fraction']:.3g} %)")
    return entries


def _whole(cell: Record) -> Iterable[list[str]]:
    place = cell["place"]
    tail = " (no noise)" if place["pool"] == "ridge, no noise" else ""
    for name, line in cell["lines"].items():
        yield [
            f"{place['N']:,}{tail}",
            str(place["K"]),
            METHODS[name],
            shown(line["fraction"]),
            shown(line["risk"]),
            shown(line.get("spread"), 2),
            shown(line["consistency"]),
            shown(line.get("seconds")),
            _whole_number(line.get("rounds")),
            _whole_number(line.get("bytes")),
            str(line["trials"]),
        ]


def _whole_number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def pattern(cells: list[Record]) -> Record:
    """How many cells show what the paper claims."""
    low, few, agree = 0, 0, 0
    for cell in cells:
        lines = cell["lines"]
        low += lines["dual"]["risk"] <= 0.5 * lines["pool"]["risk"]
        few += lines["dual"]["fraction"] <= 0.1
        agree += lines["dual"]["consistency"] >= 0.9
    return {
        "cells": len(cells),
        "half_the_pools_risk": low,
        "at_most_a_tenth_of_the_rows": few,
        "consistency_at_least_0.9": agree,
    }


def _verdict(kind: str, cells: list[Record], extra: list[Record]) -> list[str]:
    seen = pattern(cells)
    count = seen["cells"]
    words = [
        f"The paper's problem, solved to its certified optimum, leaves at most half the whole pool's risk in "
        f"{seen['half_the_pools_risk']} of {count} cells, with at most a tenth of the rows in "
        f"{seen['at_most_a_tenth_of_the_rows']} and a consistency of 0.9 or more in {seen['consistency_at_least_0.9']}."
    ]
    for tail, where in (("", "With as many rows"), (", printed size", "At the paper's printed |S|/N")):
        nearer = {
            (cell["place"]["N"], cell["place"]["K"]): cell["lines"][f"dual{tail}"]["risk"]
            / max(cell["lines"][f"match{tail}"]["risk"], 1e-300)
            for cell in cells
            if f"match{tail}" in cell["lines"] and f"dual{tail}" in cell["lines"]
        }
        if nearer:
            least = min(nearer, key=lambda place: nearer[place])
            enough = sum(ratio >= 100.0 for ratio in nearer.values())
            words.append(
                f"{where} match comes {shown(nearer[least])} (N = {least[0]:,}, K = {least[1]}) to "
                f"{shown(max(nearer.values()))} times nearer to the goal; a hundred times or more in {enough} of "
                f"{len(nearer)} cells."
            )
    early = [cell["lines"]["block"]["over_optimum"] for cell in cells if "block" in cell["lines"]]
    if early:
        words.append(
            f"The paper's own rule stopped after {ROUNDS} rounds, short of the optimum, has {min(early):.2f} to "
            f"{max(early):.2f} times the optimum's risk on the same pools, each at its own best size"
            + (": stopping early teaches better than solving the problem." if max(early) < 1.0 else ".")
        )
    if kind == "ridge":
        words.append(
            "The printed risks cannot be matched in detail: the paper does not say how large its coefficients, its "
            "noise or its ridge are. Here w ~ N(0, 10² I), noise of standard deviation 20, Λ = 2e-4·N."
        )
    if extra:
        ratios = [
            f"{shown(cell['lines']['match']['risk'])} (all rows {shown(cell['lines']['pool']['risk'])}, paper's problem "
            f"{shown(cell['lines']['dual']['risk'])})"
            for cell in extra
            if "match" in cell["lines"]
        ]
        if ratios:
            words.append(
                "Taken literally the paper's targets have no noise; then every model that can be taught is a shrunken "
                f"w, most goals are out of reach, and match ends at {' and '.join(ratios)}."
            )
    return words


def _draw(cells: list[Record], figure: Any) -> None:
    from superteach.plots import COLOURS, MARKERS

    panel = figure.subplots()
    shown_methods = ("printed", "pool", "random", "dual", "block", "match", "oblivious")
    for number, name in enumerate(shown_methods):
        lines = [
            (cell["place"]["N"], cell["lines"][name])
            for cell in cells
            if cell["place"]["K"] == TEACHERS[0] and name in cell["lines"]
        ]
        if not lines:
            continue
        grey = name in ("printed", "pool")
        panel.errorbar(
            [rows for rows, _ in lines],
            [line["risk"] for _, line in lines],
            # A whisker that reaches 0 has no place on a logarithmic axis.
            yerr=[min(line.get("spread") or 0.0, 0.9 * line["risk"]) for _, line in lines],
            color="#555555" if grey else COLOURS[(number - 2) % len(COLOURS)],
            ls={"printed": "none", "pool": "--"}.get(name, "-"),
            marker="x" if name == "printed" else MARKERS[number % len(MARKERS)],
            ms=5,
            lw=1.5,
            capsize=2,
            label=METHODS[name],
        )
    panel.set_xscale("log")
    panel.set_yscale("log")
    sizes = sorted({cell["place"]["N"] for cell in cells})
    panel.set_xticks(sizes, [f"{rows:,}" for rows in sizes])
    panel.set_xticks([], minor=True)
    panel.set_xlabel("rows in the pool, N")
    panel.set_ylabel(r"mean risk, $\Vert\theta_S - \theta^*\Vert$")
    panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


LOGISTIC = Target(
    "table-logistic",
    "Table: logistic regression",
    "Synthetic clusters, d = 10, goal = the pool's fit plus noise of its norm, λ_α = 0.1, λ_θ = 1000, Λ = 2e-4·N.",
    partial(steps_of, "logistic"),
    partial(findings_of, "logistic"),
)
RIDGE = Target(
    "table-ridge",
    "Table: ridge regression",
    "Synthetic clusters, d = 10, goal = the pool's fit plus noise of its norm, λ_α = 1, λ_θ = 2000, Λ = 2e-4·N.",
    partial(steps_of, "ridge"),
    partial(findings_of, "ridge"),
)

"""What the two tables say: side by side, in sentences and as a figure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from superteach_lab.paper import printed, tables
from superteach_lab.paper.plan import Findings, Scale, Target, shown, span
from superteach_lab.records import Record, Records


def findings_of(kind: str, records: Records, scale: Scale) -> Findings:
    """Both tables, the figure, and what reproduces."""
    table = printed.LOGISTIC if kind == "logistic" else printed.RIDGE
    places = [{"pool": kind, "N": rows, "K": K} for rows in scale.rows for K in tables.TEACHERS]
    cells: list[Record] = [{"place": place, "lines": tables.lines_of(records, place, table)} for place in places]
    extra: list[Record] = []
    if kind == "ridge":
        quiet = [{"pool": "ridge, no noise", "N": rows, "K": tables.TEACHERS[0]} for rows in scale.quiet_rows]
        extra = [{"place": place, "lines": tables.lines_of(records, place, table)} for place in quiet]
    return Findings(
        _verdict(kind, cells, extra),
        {"pattern": pattern(cells), "a_hundred_times": nearer(cells), "cells": cells, "no_noise": extra},
        [
            _glance(kind, [*cells, *extra]),
            _at_printed_size(cells),
            (
                "Everything measured; spread is the standard deviation over trials.",
                ["N", "K", "method", "|S|/N", "risk", "spread", "consistency", "seconds", "rounds", "bytes", "trials"],
                [line for cell in [*cells, *extra] for line in _whole(cell)],
            ),
        ],
        {"risk": ("Mean risk by pool size, K = 5; whiskers: spread over trials.", (8.6, 4.2), partial(_draw, cells))},
    )


Tabled = tuple[str, list[str], list[list[str]]]


def _glance(kind: str, cells: list[Record]) -> Tabled:
    """Mean risks side by side; one |S|/N for all methods but the paper's rule, which has its own."""
    low, high = tables.RANGES[kind]
    shown_here = ("random", "dual", "block", "match", "oblivious")
    names = [name for name in shown_here if any(name in cell["lines"] for cell in cells)]
    lines = []
    for cell in cells:
        found = cell["lines"]
        fact = found.get("printed")
        entries = [
            *_place(cell),
            f"{shown(fact['risk'])} ({100 * fact['fraction']:.3g} %)" if fact else "–",
            shown(found["pool"]["risk"]),
            f"{100 * found['dual']['fraction']:.3g} %",
        ]
        for name in names:
            line = found.get(name)
            if line is None or line["risk"] is None:
                entries.append("–" if line is None else f"none: {line['reason']}")
            elif name == "block":
                entries.append(f"{shown(line['risk'])} ({100 * line['fraction']:.3g} %)")
            else:
                entries.append(shown(line["risk"]))
            if name == "match":
                entries.append(_times(line))
        lines.append(entries)
    headings = ["N", "K", "printed (|S|/N)", "all rows", "|S|/N"]
    for name in names:
        headings += [_SHORT[name], "paper's / match"] if name == "match" else [_SHORT[name]]
    return (
        f"Mean risk. Methods are compared at one |S|/N per line: where the paper's problem has its lowest mean risk from "
        f"{100 * low:g} to {100 * high:g} % of the rows, the range of the paper's own table. The paper's rule stands at "
        "its own best size there.",
        headings,
        lines,
    )


_SHORT = {
    "random": "random rows",
    "dual": "paper's problem",
    "block": f"paper's rule, T = {tables.ROUNDS}",
    "match": "match",
    "oblivious": "oblivious",
}


def _at_printed_size(cells: list[Record]) -> Tabled:
    lines = []
    for cell in cells:
        found = cell["lines"]
        if "match, printed size" not in found or "dual, printed size" not in found:
            continue
        fact, match = found["printed"], found["match, printed size"]
        lines.append(
            [
                *_place(cell),
                f"{100 * fact['fraction']:.3g} %",
                shown(fact["risk"]),
                shown(found["dual, printed size"]["risk"]),
                shown(match["risk"]),
                _times(match),
                f"{shown(fact['consistency'])} / {shown(found['dual, printed size']['consistency'])}",
                f"{shown(found['dual, any size']['risk'])} at {100 * found['dual, any size']['fraction']:.3g} %",
            ]
        )
    return (
        "At the |S|/N the paper prints, and the lowest mean risk of the paper's problem at any size.",
        [
            "N",
            "K",
            "|S|/N",
            "printed risk",
            "paper's problem",
            "match",
            "paper's / match",
            "consistency printed / measured",
            "paper's problem, any size",
        ],
        lines,
    )


def _times(line: Record | None) -> str:
    return f"{1.0 / line['over_optimum']:,.0f}" if line and line.get("over_optimum") else "–"


def _place(cell: Record) -> list[str]:
    place = cell["place"]
    return [f"{place['N']:,}{' (no noise)' if place['pool'] == 'ridge, no noise' else ''}", str(place["K"])]


def _whole(cell: Record) -> Iterable[list[str]]:
    for name, line in cell["lines"].items():
        yield [
            *_place(cell),
            tables.METHODS[name],
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


HUNDRED = 100.0
"""How many times nearer match is meant to come."""


def pattern(cells: list[Record]) -> Record:
    """How many cells show what the paper claims."""
    low, agree = 0, 0
    for cell in cells:
        lines = cell["lines"]
        low += lines["dual"]["risk"] <= 0.5 * lines["pool"]["risk"]
        agree += lines["dual"]["consistency"] >= 0.9
    return {"cells": len(cells), "half_the_pools_risk": low, "consistency_at_least_0.9": agree}


def nearer(cells: list[Record]) -> Record:
    """How many times lower match's mean risk is than that of the paper's problem at the same |S|, cell by cell."""
    found: Record = {}
    for name, title in (("match", "same_size"), ("match, printed size", "printed_size")):
        ratios = [
            {
                "N": cell["place"]["N"],
                "K": cell["place"]["K"],
                "times": 1.0 / cell["lines"][name]["over_optimum"],
                "proved": cell["lines"][name]["proved"],
                "trials": cell["lines"][name]["trials"],
            }
            for cell in cells
            if cell["lines"].get(name, {}).get("over_optimum")
        ]
        if ratios:
            fail = [one for one in ratios if one["times"] < HUNDRED]
            found[title] = {"cells": ratios, "least": min(ratios, key=lambda one: one["times"]), "below_100": fail}
    return found


def _hundred(title: str, found: Record) -> str:
    ratios, fail = found["cells"], found["below_100"]
    times = span([one["times"] for one in ratios], 3)
    words = (
        f"{title} match's mean risk is {times} times lower; at least a hundred "
        f"times in {len(ratios) - len(fail)} of {len(ratios)} cells"
    )
    if not fail:
        return words + ", all of them."
    proved, trials = (sum(cell[what] for cell in fail) for what in ("proved", "trials"))
    said = f"; there {proved} of {trials} goals are proved out of reach with so many rows" if proved else ""
    return words + f". Not in {', '.join(_one(cell) for cell in fail)}{said}."


def _one(cell: Record) -> str:
    return f"N = {cell['N']:,}, K = {cell['K']} ({cell['times']:,.0f} times)"


def _verdict(kind: str, cells: list[Record], extra: list[Record]) -> list[str]:
    seen = pattern(cells)
    count = seen["cells"]
    words = [
        f"The paper's problem, solved to its certified optimum, leaves at most half the whole pool's risk in "
        f"{seen['half_the_pools_risk']} of {count} cells, and a consistency of 0.9 or more in "
        f"{seen['consistency_at_least_0.9']}."
    ]
    titles = {"same_size": "With as many rows", "printed_size": "At the paper's printed |S|/N"}
    words += [_hundred(titles[name], found) for name, found in nearer(cells).items()]
    early = [cell["lines"]["block"]["over_optimum"] for cell in cells if "block" in cell["lines"]]
    if early:
        words.append(
            f"The paper's own rule stopped after {tables.ROUNDS} rounds, short of the optimum, has {min(early):.2f} to "
            f"{max(early):.2f} times the optimum's mean risk on the same pools, each at its own best size"
            + (": here stopping early taught better than solving the problem." if max(early) < 1.0 else ".")
        )
    apart = [line["over_match"] for cell in cells if "over_match" in (line := cell["lines"].get("oblivious", {}))]
    if apart:
        words.append(
            f"When every teacher matches the goal alone, the joined lessons have {span(apart)} times match's mean risk on "
            "the same pools."
        )
    costs = [
        [cell["lines"]["match"][cost] / cell["lines"]["dual"][cost] for cell in cells if "match" in cell["lines"]]
        for cost in ("seconds", "rounds", "bytes")
    ]
    if costs[0]:
        seconds, rounds, size = map(span, costs)
        words.append(
            f"The price: match takes {seconds} times the seconds, {rounds} times the rounds and {size} times the bytes of "
            "the paper's problem solved by Newton, for one lesson."
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
    from superteach.report.plots import COLOURS, MARKERS

    panel = figure.subplots()
    shown_methods = ("printed", "pool", "random", "dual", "block", "match", "oblivious")
    for number, name in enumerate(shown_methods):
        lines = [
            (cell["place"]["N"], cell["lines"][name])
            for cell in cells
            if cell["place"]["K"] == tables.TEACHERS[0] and name in cell["lines"]
        ]
        if not lines:
            continue
        grey = name in ("printed", "pool")
        panel.errorbar(
            [rows for rows, _ in lines],
            [line["risk"] for _, line in lines],
            # A whisker that reaches 0 has no place on a logarithmic axis.
            yerr=[min(line.get("spread") or 0.0, 0.9 * line["risk"]) for _, line in lines],
            color="black" if name == "printed" else "#555555" if grey else COLOURS[(number - 2) % len(COLOURS)],
            ls={"printed": "none", "pool": "--"}.get(name, "-"),
            marker="x" if name == "printed" else MARKERS[number % len(MARKERS)],
            ms=8 if name == "printed" else 5,
            lw=1.5,
            capsize=2,
            label=_SHORT.get(name, tables.METHODS[name]),
            zorder=5 if name == "printed" else 2,
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
    partial(tables.steps_of, "logistic"),
    partial(findings_of, "logistic"),
)
RIDGE = Target(
    "table-ridge",
    "Table: ridge regression",
    "Synthetic clusters, d = 10, goal = the pool's fit plus noise of its norm, λ_α = 1, λ_θ = 2000, Λ = 2e-4·N.",
    partial(tables.steps_of, "ridge"),
    partial(findings_of, "ridge"),
)

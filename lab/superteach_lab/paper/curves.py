"""The paper's two figures on synthetic and real pools: risk against |S|/N, and objective against round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from superteach.coordinator.federation import Federation
from superteach.coordinator.teach import teach
from superteach.exceptions import DataError, SuperteachError
from superteach.optim import Block
from superteach_lab.paper import bench, printed
from superteach_lab.paper.plan import Findings, Scale, Step, Target, shown
from superteach_lab.records import Record, Records

TEACHERS = 5
SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
REAL_SHARES = (0.01, 0.02, 0.05, 0.1, 0.25)
"""Lesson sizes of match: each costs it a whole search, and on real pools a long one where the goal is out of reach."""
ROUNDS = 150
"""The paper's experiments ran for 85 to 150 rounds."""
LARGE_ROUNDS = 100
"""Rounds of the paper's rule over a million rows, of which each takes seconds."""
BY_STATE = "acs_income, by state"
NAMES = {
    "logistic": "synthetic, logistic",
    "ridge": "synthetic, ridge",
    "superconduct": "Superconduct, ridge",
    "higgs": "HIGGS subset, logistic",
    "acs_income": "ACS income, logistic",
    BY_STATE: "ACS income, by state",
}
METHODS = {"dual": "paper's problem, optimum", "random": "random rows", "match": "match"}
_ROWS = {"superconduct": 2e5, "higgs": 2e5, "acs_income": 2e6, BY_STATE: 2e6}
"""Rows, weighed by their width, for the estimate of time."""
COLUMNS = 3
"""Panels side by side in a figure."""


def _trials(name: str, scale: Scale) -> int:
    most = 1 if name in ("acs_income", BY_STATE) else 3
    return min(scale.trials, 1 if scale.quick else most)


def _names(scale: Scale) -> list[str]:
    return [name for name in NAMES if name not in scale.left_out]


def _pool(name: str, scale: Scale, trial: int) -> bench.PaperPool:
    if name == BY_STATE:
        return bench.published("acs_income", None, trial)
    if name in bench.REAL:
        return bench.published(name, TEACHERS, trial)
    return bench.synthetic(name, scale.curve_rows, TEACHERS, trial)


def _real(name: str) -> bool:
    return name in bench.REAL or name == BY_STATE


def _data(name: str) -> Record:
    """What a cell says of its rows: the name, and for a published data set what its files hold."""
    contents = bench.contents_of("acs_income" if name == BY_STATE else name) if _real(name) else ""
    return {"data": name, "contents": contents} if contents else {"data": name}


def _current(records: Records) -> list[Record]:
    """The records of the files that are there now; those of files that were changed or missing stay on disk."""
    now = {name: _data(name) for name in NAMES}
    return [one for one in records if _data_of(one["cell"]) == now[one["cell"]["data"]]]


def _data_of(cell: Record) -> Record:
    return {key: value for key, value in cell.items() if key in ("data", "contents")}


def _risk_steps(scale: Scale) -> list[Step]:
    steps = []
    for name in _names(scale):
        data = _data(name)
        rows = _ROWS.get(name, float(scale.curve_rows))
        for trial in range(_trials(name, scale)):
            pool = f"{name} {trial}"
            for method in ("dual", "random"):
                work = partial(_walk, name, scale, trial, method)
                cell = {**data, "trial": trial, "method": method}
                steps.append(Step(cell, 0.1 + 5e-6 * rows, work, pool=pool))
            for share in _shares(name, trial, scale):
                cell = {**data, "trial": trial, "method": "match", "share": share}
                weight = 20.0 if name == "superconduct" else 1.5 + 5e-6 * rows
                steps.append(Step(cell, weight, partial(_match, name, scale, trial, share), pool=pool))
    return steps


def _shares(name: str, trial: int, scale: Scale) -> tuple[float, ...]:
    """Real pools have match in the first trial alone."""
    if not _real(name):
        return SHARES[1::2] if scale.quick else SHARES
    return () if trial else REAL_SHARES[1:2] if scale.quick else REAL_SHARES


def _walk(name: str, scale: Scale, trial: int, method: str) -> Record:
    try:
        pool = _pool(name, scale, trial)
    except DataError as error:  # no file: said in the report, and no reason to stop
        return {"missing": str(error)}
    return {**_size(pool), **bench.walked(pool, method=method)}


def _size(pool: bench.PaperPool) -> Record:
    owned = [teacher.rows.count for teacher in pool.teachers]
    return {"N": pool.rows, "K": len(owned), "fewest": min(owned), "most": max(owned)}


def _match(name: str, scale: Scale, trial: int, share: float) -> Record:
    try:
        pool = _pool(name, scale, trial)
    except DataError as error:
        return {"missing": str(error)}
    size = max(pool.X.shape[1] + 1, round(share * pool.rows))
    try:
        return {**_size(pool), **bench.taught(pool, size, method="match")}
    except SuperteachError as error:
        return {**_size(pool), "points": [], "reason": str(error)}


def _missing(records: Sequence[Record]) -> dict[str, str]:
    return {one["cell"]["data"]: one["missing"] for one in records if "missing" in one}


def _curve(records: Sequence[Record], name: str, method: str) -> list[tuple[float, float, float]]:
    """(share of rows, mean risk, mean consistency) by size, over all trials that have it."""
    points: dict[int, list[Record]] = {}
    rows = 1
    for one in records:
        if one["cell"]["data"] == name and one["cell"]["method"] == method and "points" in one:
            rows = one["N"]
            for point in one["points"]:
                points.setdefault(point["size"], []).append(point)

    def mean(found: list[Record], key: str) -> float:
        return float(np.mean([point[key] for point in found]))

    return [(size / rows, mean(found, "risk"), mean(found, "consistency")) for size, found in sorted(points.items())]


def depth(points: Sequence[tuple[float, float, float]]) -> float:
    """How far the lowest risk of a path lies below the lower of its two ends, as a share of that."""
    risks = [risk for _, risk, _ in points]
    return 1.0 - min(risks) / min(risks[0], risks[-1])


def _risk_findings(kept: Records, scale: Scale) -> Findings:
    records = _current(kept)
    missing = _missing(records)
    curves = {
        name: {method: _curve(records, name, method) for method in METHODS}
        for name in _names(scale)
        if name not in missing
    }
    lines, words = [], []
    for name, found in curves.items():
        if not found["dual"]:
            continue
        share, risk, agreement = min(found["dual"], key=lambda point: point[1])
        pool = found["dual"][-1][1]
        size = next(one for one in records if one["cell"]["data"] == name and "N" in one)
        near = min(found["match"], key=lambda point: point[1]) if found["match"] else (None, None, None)
        fact = printed.REAL[name][0] if name in printed.REAL else None
        lines.append(
            [
                NAMES[name],
                f"{size['N']:,}",
                str(size["K"]),
                shown(pool),
                f"{shown(risk)} at {100 * share:.3g} %",
                f"{agreement:.3f}",
                f"{shown(near[1])} at {100 * near[0]:.3g} %" if near[0] else "–",
                f"{fact.risk} at {100 * fact.fraction:.0f} %" if fact else "–",
            ]
        )
        ends = found["dual"][0][1], pool
        words.append(
            f"{NAMES[name]}: lowest {shown(risk)} at {100 * share:.3g} % of the rows, "
            f"{100 * depth(found['dual']):.2g} % below the lower end of its path "
            f"({shown(ends[0])} at {100 * found['dual'][0][0]:.2g} %, {shown(ends[1])} with all)."
        )
    words += [f"{NAMES[name]}: not drawn ({reason})." for name, reason in missing.items()]
    words += _provenance(records, curves)
    return Findings(
        words,
        {"curves": curves, "missing": missing},
        [
            (
                "Best mean risk along |S|/N.",
                ["data", "N", "K", "all rows", "paper's problem", "consistency", "match", "paper, as printed"],
                lines,
            )
        ],
        {
            "risk": (
                "Mean risk against the share of rows taught.",
                size_of(len(curves)),
                partial(_draw_risk, curves, METHODS),
            ),
            "dip": (
                "The same without match, whose risks are too low to be drawn beside a dip.",
                size_of(len(curves)),
                partial(_draw_risk, curves, ("dual", "random")),
            ),
        },
    )


def _provenance(records: Sequence[Record], curves: dict[str, Any]) -> list[str]:
    """What the real pools are, where that is not what the paper had."""
    sizes = {one["cell"]["data"]: one for one in records if "N" in one}
    words = []
    if "higgs" in curves:
        words.append(
            f"HIGGS here has {sizes['higgs']['N']:,} of the publisher's 11,000,000 rows; the paper drew 1,000,000."
        )
    if BY_STATE in curves:
        size = sizes[BY_STATE]
        words.append(
            f"ACS income has {size['N']:,} rows: once dealt out evenly, once as the census has it, {size['K']} states "
            f"of {size['fewest']:,} to {size['most']:,} rows. The paper does not have it."
        )
    return words


def panels_of(figure: Any, count: int) -> list[Any]:
    """Return `count` panels in rows of a few; take away the ones left over."""
    across = min(max(count, 1), COLUMNS)
    panels = list(figure.subplots(-(-max(count, 1) // across), across, squeeze=False).flat)
    for panel in panels[count:]:
        panel.remove()
    return panels[:count]


def size_of(count: int) -> tuple[float, float]:
    """Return the size of a figure with `count` panels, in inches."""
    return 4.0 * min(max(count, 1), COLUMNS), 3.5 * -(-max(count, 1) // COLUMNS)


def _draw_risk(curves: dict[str, Any], methods: Iterable[str], figure: Any) -> None:
    """On a logarithmic axis where match is there, on a plain one from 0 where it is not."""
    from superteach.report.plots import COLOURS, MARKERS

    for panel, (name, found) in zip(panels_of(figure, len(curves)), curves.items(), strict=True):
        for number, (method, title) in enumerate(METHODS.items()):
            if method in methods and found[method]:
                share, risk, _ = zip(*found[method], strict=True)
                panel.plot(share, risk, color=COLOURS[number], marker=MARKERS[number], ms=3.5, lw=1.5, label=title)
        panel.axhline(found["dual"][-1][1], color="#555555", lw=1.0, ls="--", label="all rows")
        if name in printed.REAL and "match" in methods:
            fact = printed.REAL[name][0]
            panel.plot([fact.fraction], [fact.risk], "x", color="black", ms=7, label="paper, as printed")
        panel.set_xscale("log")
        panel.set_yscale("log" if "match" in methods else "linear")
        if "match" not in methods:
            panel.set_ylim(bottom=0.0)
        panel.set_title(NAMES[name])
        panel.set_xlabel("rows in the lesson, |S|/N")
        if panel.get_subplotspec().is_first_col():
            panel.set_ylabel("mean risk")
    _legend(figure)


def _legend(figure: Any) -> None:
    """One for all panels, below them: some lines are in a few of them only."""
    lines = {
        title: line for panel in figure.axes for line, title in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=len(lines) or 1)


def above_of(value: float, optimum: float) -> float:
    """How far above the optimum, as a share of its size: a ridge objective may be negative."""
    return (value - optimum) / abs(optimum)


def _objective_steps(scale: Scale) -> list[Step]:
    steps = []
    for name in _names(scale):
        data = _data(name)
        rows = _ROWS.get(name, float(scale.curve_rows))
        for method in ("newton", "block"):
            weight = 0.1 + (5e-6 if method == "newton" else 1.2e-4) * rows
            work = partial(_trace, name, scale, method)
            steps.append(Step({**data, "solver": method}, weight, work, pool=f"{name} 0"))
    return steps


def _trace(name: str, scale: Scale, method: str) -> Record:
    try:
        pool = _pool(name, scale, 0)
    except DataError as error:
        return {"missing": str(error)}
    engine = bench.engine_of(pool)
    # The whole pool as the lesson: the objective is the same for every size.
    rounds = LARGE_ROUNDS if pool.rows > 500_000 else ROUNDS
    settings: Record = {"budget": pool.rows, "solver": Block(max_steps=rounds) if method == "block" else None}
    try:
        lesson = teach(Federation(engine), pool.learner, pool.goal, method="dual", **settings)
    finally:
        engine.close()
    return {
        "N": pool.rows,
        "objective": lesson.objective.tolist(),
        "gap": lesson.gap.tolist(),
        "reason": lesson.reason,
        "seconds": lesson.seconds,
    }


def _objective_findings(kept: Records, scale: Scale) -> Findings:
    records = _current(kept)
    missing = _missing(records)
    traces: dict[str, dict[str, Record]] = {}
    for one in records:
        if "objective" in one:
            traces.setdefault(one["cell"]["data"], {})[one["cell"]["solver"]] = one
    lines, words = [], []
    for name, found in traces.items():
        newton, block = found["newton"]["objective"], found["block"]["objective"]
        optimum = newton[-1] - found["newton"]["gap"][-1]
        above = [above_of(value, optimum) for value in block]
        last = min(100, len(above))
        near = next((number + 1 for number, share in enumerate(above) if share <= 0.01), None)
        lines.append(
            [
                NAMES[name],
                f"{found['newton']['N']:,}",
                shown(optimum, 5),
                str(len(newton) - 1),
                f"{100 * above[min(49, len(above) - 1)]:.3g} %",
                f"{100 * above[last - 1]:.3g} %",
                f"{100 * above[ROUNDS - 1]:.3g} %" if len(above) >= ROUNDS else "–",
                str(near) if near else f"not in {len(block)}",
            ]
        )
        words.append(
            f"{NAMES[name]}: after {last} rounds the paper's rule is {100 * above[last - 1]:.3g} % "
            f"above the optimum, which Newton certifies in {len(newton) - 1} steps."
        )
    words += [f"{NAMES[name]}: not drawn ({reason})." for name, reason in missing.items()]
    return Findings(
        words,
        {"traces": traces, "missing": missing},
        [
            (
                "The paper's rule (β = 1, exact local solves) above the certified optimum, after so many rounds.",
                ["data", "N", "optimum", "Newton's steps", "after 50", "after 100", f"after {ROUNDS}", "rounds to 1 %"],
                lines,
            )
        ],
        {
            "objective": (
                "How far the objective lies above its optimum, by round.",
                size_of(len(traces)),
                partial(_draw_objective, traces),
            )
        },
    )


def _draw_objective(traces: dict[str, dict[str, Record]], figure: Any) -> None:
    from superteach.report.plots import COLOURS

    titles = {"block": "paper's rule", "newton": "Newton on d unknowns"}
    for panel, (name, found) in zip(panels_of(figure, len(traces)), traces.items(), strict=True):
        optimum = found["newton"]["objective"][-1]
        for number, (solver, title) in enumerate(titles.items()):
            values = np.maximum([above_of(value, optimum) for value in found[solver]["objective"]], 1e-12)
            panel.plot(np.arange(1, len(values) + 1), values, color=COLOURS[number], lw=1.6, label=title)
        panel.set_yscale("log")
        panel.set_title(NAMES[name])
        panel.set_xlabel("round (Newton: step)")
        if panel.get_subplotspec().is_first_col():
            panel.set_ylabel("(objective − optimum) / |optimum|")
    _legend(figure)


RISK = Target(
    "figure-risk",
    "Figure: risk against |S|/N",
    "K = 5, rows dealt out evenly at random; real columns standardised.",
    _risk_steps,
    _risk_findings,
)
OBJECTIVE = Target(
    "figure-objective",
    "Figure: objective against round",
    "K = 5, one pool each.",
    _objective_steps,
    _objective_findings,
)

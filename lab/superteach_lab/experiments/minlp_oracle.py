"""Solvers against exhaustive search on tiny pools: python -m superteach_lab.experiments.minlp_oracle

Every proven optimum must be the true one and have the bound to show for it, every bound must lie below it, no risk may
lie below it. Then Ma et al.'s ridge setting (AISTATS 2018): d = 2, n = 16, θ* = (1, 1)/√2, y ~ N(x'θ*, 0.1), λ = 0.1,
any number of rows; they print a median ratio risk(S)/risk(pool) of 7.8e-3 over 10 trials.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from superteach.losses import Logistic, Loss, Squared
from superteach.packages import versions
from superteach.types import Array
from superteach_lab import markdown, minlp
from superteach_lab.experiments import exhaustive
from superteach_lab.records import Records

ROWS = 16
RIDGE = {"ridge": 0.1, "logistic": 1.0}
LOSSES: dict[str, Loss] = {"ridge": Squared(), "logistic": Logistic()}
PRINTED = 7.8e-3
TOLERANCE = 1e-4
"""Share of the optimum by which a proven one may miss it: the gap at which a solve is called optimal."""
ROUNDING = (1e-6, 1e-10)
"""Share and distance by which two fits of one lesson may differ: all that a bound or a risk is allowed."""


def tiny_pool(kind: str, width: int, seed: int, rows: int = ROWS) -> tuple[Array, Array, Array]:
    """x ~ N(0, I), θ* = 1/√d, y = x'θ* + noise (variance 0.1), or the sign of that with a larger noise."""
    generator = np.random.default_rng(seed)
    X, goal = generator.standard_normal((rows, width)), np.full(width, width**-0.5)
    y = X @ goal + (0.1**0.5 if kind == "ridge" else 0.7) * generator.standard_normal(rows)
    return X, y if kind == "ridge" else np.where(y > 0.0, 1.0, -1.0), goal


def size_of(seed: int) -> int | None:
    """Lessons of 3 to 7 rows, and of any number for every fourth seed."""
    return None if seed % 4 == 3 else 3 + seed % 5


def compare(
    learner: str, d: int, seed: int, formulation: str, solver: str, seconds: float, rows: int = ROWS
) -> dict[str, Any]:
    """One solve beside the truth: the formulation's own optimum and the lowest risk there is."""
    kind, width = learner, d
    X, y, goal = tiny_pool(kind, width, seed, rows)
    size, loss, ridge = size_of(seed), LOSSES[kind], RIDGE[kind]
    subsets = exhaustive.masks(rows, size)
    lowest = float(exhaustive.risks(kind, X, y, ridge, goal, subsets).min())
    best = lowest
    if formulation == "gradient":
        columns, target = minlp.Programme(X, y, loss, ridge, goal, size).matching
        left = subsets @ columns.T - target
        best = float((np.abs(left).sum(axis=1) if solver == "highs" else np.linalg.norm(left, axis=1)).min())
    found = minlp.solve(
        X, y, loss, ridge, goal, size, formulation=formulation, solver=solver, seconds=seconds, seed=seed
    )
    return {
        "status": found.status,
        "objective": found.objective,
        "bound": found.bound,
        "risk": found.risk,
        "seconds": round(found.seconds, 2),
        "best": best,
        "lowest": lowest,
        "wrong": wrongs(found, best, lowest),
    }


def wrongs(found: minlp.Solution, best: float, lowest: float) -> list[str]:
    """What a solver claimed that exhaustive search denies."""
    said = []
    share, distance = ROUNDING
    slack = share * best + distance
    if found.objective is not None and found.objective < best - slack:
        said.append("objective below the optimum")
    if found.risk is not None and found.risk < lowest - share * lowest - distance:
        said.append("risk below the lowest")
    if found.bound is not None and found.bound > best + slack:
        said.append("bound above the optimum")
    if found.status == "optimal":
        if found.objective is None or found.objective > best * (1.0 + TOLERANCE) + 1e-9:
            said.append("claims an optimum that is none")
        elif found.objective > 1e-9 and (found.gap is None or found.gap > TOLERANCE):
            said.append("claims an optimum that its bound leaves open")
    return said


def published(seed: int, seconds: float) -> dict[str, Any]:
    """Ratios risk(S)/risk(pool) in Ma et al.'s ridge setting: exhaustive, SCIP on "bounded", Bonmin on "stationary"."""
    X, y, goal = tiny_pool("ridge", 2, seed)
    ridge = 0.05  # their loss has no half: (x'θ − y)² + (λ/2)‖θ‖² is twice ½(x'θ − y)² + (λ/4)‖θ‖²
    subsets = exhaustive.masks(ROWS, None)
    all_risks = exhaustive.risks("ridge", X, y, ridge, goal, subsets)
    pool = float(all_risks[-1])
    ratios: dict[str, Any] = {"exhaustive": float(all_risks.min()) / pool}
    for formulation in ("bounded", "stationary"):
        found = minlp.solve(X, y, Squared(), ridge, goal, None, formulation=formulation, seconds=seconds)
        ratios[formulation] = None if found.risk is None else found.risk / pool
        ratios[f"{formulation} status"] = found.status
    return ratios


def main() -> None:
    """Run what is missing and print both tables."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--seeds", type=int, default=9, help="for each learner and width: 9 make 54 pools")
    reader.add_argument("--trials", type=int, default=40, help="of Ma et al.'s setting")
    reader.add_argument("--seconds", type=float, default=60.0)
    reader.add_argument("--part", default="0/1", help="i/n: every n-th cell from i on, for n processes")
    reader.add_argument("--records", type=Path, default=Path("results/minlp_oracle.jsonl"))
    asked = reader.parse_args()
    first, step = map(int, asked.part.split("/"))
    records = Records(asked.records, {"rows": ROWS, "seconds": asked.seconds, "versions": versions()})
    cells: list[dict[str, Any]] = [
        {"learner": kind, "d": width, "seed": seed, "formulation": formulation, "solver": solver}
        for seed in range(asked.seeds)
        for kind in LOSSES
        for width in (1, 2, 3)
        for formulation, solver in minlp.SOLVERS
    ]
    for cell in cells[first::step]:
        records.get(cell, partial(compare, **cell, seconds=asked.seconds))
    trials = [{"trial": seed} for seed in range(asked.trials)]
    for cell in trials[first::step]:
        records.get(cell, partial(published, cell["trial"], asked.seconds))
    print(tables(records))


def tables(records: Records) -> str:
    """Both tables in Markdown."""
    solved = [record for record in records if "formulation" in record["cell"]]
    trials = [record for record in records if "trial" in record["cell"]]
    heads = ["formulation", "solver", "solves", "optimal", "ended with a gap, largest", "at the limit, largest gap",
             "failed", "own optimum found", "lowest risk found", "wrong claims"]  # fmt: skip
    lines = markdown.table(heads, [_cells(pair, solved) for pair in minlp.SOLVERS])
    lines += ["", f"Ma et al., ridge, d = 2, n = 16, {len(trials)} trials (printed median: {PRINTED:g}):", ""]
    found = {
        name: [record[name] for record in trials if record[name] is not None]
        for name in ("exhaustive", "bounded", "stationary")
    }
    quartiles = [
        [name, *(f"{q:.2g}" for q in np.quantile(ratios, (0.25, 0.5, 0.75)))]
        for name, ratios in found.items()
        if ratios
    ]
    return "\n".join([*lines, *markdown.table(["search", "lower quartile", "median", "upper quartile"], quartiles)])


def _cells(pair: tuple[str, str], solved: list[dict[str, Any]]) -> list[Any]:
    own = [one for one in solved if (one["cell"]["formulation"], one["cell"]["solver"]) == pair]

    def ended(word: str) -> str:
        """How many ended with this word, and the largest gap among them."""
        these = [one for one in own if one["status"].startswith(word)]
        gaps = [gap for one in these if (gap := _outcome(one).gap) is not None]
        return f"{len(these)}" + (f", {100 * max(gaps):.3g} %" if gaps else "")

    def hit(value: str, truth: str) -> int:
        return sum(one[value] is not None and one[value] <= one[truth] * (1.0 + TOLERANCE) + 1e-9 for one in own)

    failed = sum(one["status"].startswith(("failed", "crashed", "out of memory")) for one in own)
    optimal = sum(one["status"] == "optimal" for one in own)
    wrong = sum(bool(one["wrong"]) for one in own)
    hits = hit("objective", "best"), hit("risk", "lowest")
    return [*pair, len(own), optimal, ended("finished, gap"), ended("time limit"), failed, *hits, wrong]


def _outcome(record: dict[str, Any]) -> minlp.Solution:
    """A solve from its record, without its rows."""
    told = (record[name] for name in ("status", "objective", "bound", "risk", "seconds"))
    return minlp.Solution(None, *told)


if __name__ == "__main__":
    main()

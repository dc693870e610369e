"""Do λ_α and λ_θ need retuning as N and K change, and how do rounds grow with K?"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from superteach.coordinator.federation import Federation
from superteach.coordinator.teach import teach
from superteach.optim import Block
from superteach_lab.paper import bench
from superteach_lab.paper.curves import above_of
from superteach_lab.paper.plan import Findings, Scale, Step, Target, shown
from superteach_lab.paper.tables import best_size
from superteach_lab.records import Record, Records

WEIGHTS = {"logistic": (0.1, 1000.0), "ridge": (1.0, 2000.0)}
TEACHERS = (5, 10)
ROUND_TEACHERS = (1, 2, 5, 10, 20)
ROUND_ROWS, MOST_ROUNDS = 5_000, 400
NEAR = (0.1, 0.01)
"""How far above the optimum counts as near."""


def _trials(scale: Scale) -> int:
    return min(scale.trials, 1 if scale.quick else 3)


def _steps(scale: Scale) -> list[Step]:
    steps = []
    for kind in WEIGHTS:
        for rows in scale.weight_rows:
            for K in TEACHERS:
                for trial in range(_trials(scale)):
                    for alpha in scale.factors:
                        for theta in scale.factors:
                            cell = {"pool": kind, "N": rows, "K": K, "trial": trial, "alpha": alpha, "theta": theta}
                            pool = f"{kind} {rows} {K} {trial}"
                            steps.append(Step(cell, 0.15 + 5e-6 * rows, partial(_weights, dict(cell)), pool=pool))
        for K in ROUND_TEACHERS[1::2] if scale.quick else ROUND_TEACHERS:
            cell = {"pool": kind, "rounds": MOST_ROUNDS, "K": K}
            steps.append(Step(cell, 7.0, partial(_rounds, kind, K)))
    return steps


def _weights(cell: Record) -> Record:
    sparsity, weight = WEIGHTS[cell["pool"]]
    pool = bench.synthetic(cell["pool"], cell["N"], cell["K"], cell["trial"])
    return bench.walked(pool, method="dual", sparsity=sparsity * cell["alpha"], goal_weight=weight * cell["theta"])


def _rounds(kind: str, K: int) -> Record:
    """Rounds until the paper's rule is near the optimum that Newton certifies; None: not within the limit."""
    pool = bench.synthetic(kind, ROUND_ROWS, K, 0)
    objectives = []
    for solver in (None, Block(max_steps=MOST_ROUNDS)):
        engine = bench.engine_of(pool)
        try:
            lesson = teach(Federation(engine), pool.learner, pool.goal, method="dual", solver=solver, budget=pool.rows)
        finally:
            engine.close()
        objectives.append(lesson.objective)
    optimum = float(objectives[0][-1])
    near = {
        str(share): next(
            (n + 1 for n, value in enumerate(objectives[1]) if above_of(float(value), optimum) <= share), None
        )
        for share in NEAR
    }
    return {
        "newton": len(objectives[0]) - 1,
        "near": near,
        "after_100": above_of(float(objectives[1][min(99, len(objectives[1]) - 1)]), optimum),
    }


def _findings(records: Records, scale: Scale) -> Findings:
    cells: dict[tuple[Any, ...], list[Record]] = {}
    for one in records:
        cell = one["cell"]
        if "alpha" in cell:
            cells.setdefault((cell["pool"], cell["N"], cell["K"], cell["alpha"], cell["theta"]), []).append(one)
    risk: dict[tuple[Any, ...], float] = {}
    for key, found in cells.items():
        size = best_size(found)
        risk[key] = float(np.mean([p["risk"] for one in found for p in one["points"] if p["size"] == size]))
    lines, words = [], []
    places = sorted({key[:3] for key in risk})
    for place in places:
        here = {key[3:]: value for key, value in risk.items() if key[:3] == place}
        best = min(here, key=lambda pair: here[pair])
        pool = float(np.mean([one["pool_risk"] for key, found in cells.items() if key[:3] == place for one in found]))
        lines.append(
            [
                place[0],
                f"{place[1]:,}",
                str(place[2]),
                shown(pool),
                shown(here[1.0, 1.0]),
                shown(here[best]),
                f"λ_α × {best[0]:g}, λ_θ × {best[1]:g}",
                shown(max(here.values())),
                f"{here[1.0, 1.0] / here[best]:.2f}",
            ]
        )
    for kind in WEIGHTS:
        loss = [
            risk[(*place, 1.0, 1.0)] / min(v for k, v in risk.items() if k[:3] == place)
            for place in places
            if place[0] == kind
        ]
        words.append(
            f"{kind}: the paper's weights cost {min(loss):.2f} to {max(loss):.2f} times the risk of the "
            "best weights on the grid, over all N and K."
        )
    rounds = {(one["cell"]["pool"], one["cell"]["K"]): one for one in records if "rounds" in one["cell"]}
    turns = [
        [
            kind,
            str(K),
            str(one["newton"]),
            *(str(one["near"][str(s)] or f"over {MOST_ROUNDS}") for s in NEAR),
            f"{100 * one['after_100']:.3g} %",
        ]
        for (kind, K), one in rounds.items()
    ]
    steps = [one["newton"] for (kind, _), one in rounds.items() if kind == "logistic"]
    growth = [
        f"K = {K}: {one['near'][str(NEAR[0])] or f'over {MOST_ROUNDS}'}"
        for (kind, K), one in rounds.items()
        if kind == "logistic"
    ]
    words.append(
        f"Rounds of the paper's rule to within {100 * NEAR[0]:.0f} % of the optimum (logistic, "
        f"N = {ROUND_ROWS:,}): {'; '.join(growth)}. "
        f"Newton takes {min(steps)} to {max(steps)} steps at these K."
    )
    numbers = {
        "risk": [
            {"pool": k[0], "N": k[1], "K": k[2], "alpha": k[3], "theta": k[4], "risk": v} for k, v in risk.items()
        ],
        "rounds": [{**one["cell"], **{k: v for k, v in one.items() if k != "cell"}} for one in rounds.values()],
    }
    return Findings(
        words,
        numbers,
        [
            (
                "Mean risk at each grid point's own best size.",
                [
                    "learner",
                    "N",
                    "K",
                    "all rows",
                    "paper's weights",
                    "best weights",
                    "where",
                    "worst weights",
                    "paper's / best",
                ],
                lines,
            ),
            (
                f"Rounds against K, N = {ROUND_ROWS:,}.",
                ["learner", "K", "Newton's steps", *(f"rounds to {100 * s:g} %" for s in NEAR), "above after 100"],
                turns,
            ),
        ],
        {
            "weights": (
                "Mean risk over both weights (1: the paper's), K = 5.",
                (3.6 * len(WEIGHTS) * len(scale.weight_rows), 3.6),
                partial(_draw, risk, scale.factors, places),
            )
        },
    )


def _draw(risk: dict[tuple[Any, ...], float], factors: tuple[float, ...], places: list[Any], figure: Any) -> None:
    shown_places = [place for place in places if place[2] == TEACHERS[0]]
    for panel, place in zip(figure.subplots(1, len(shown_places), squeeze=False)[0], shown_places, strict=True):
        values = np.array([[risk[(*place, alpha, theta)] for alpha in factors] for theta in factors])
        panel.imshow(np.log(values), cmap="cividis", origin="lower", aspect="auto")
        for row, column in np.ndindex(*values.shape):
            middle = np.log(values).min() + 0.6 * np.ptp(np.log(values))
            colour = "black" if np.log(values[row, column]) > middle else "white"
            panel.text(column, row, shown(values[row, column], 2), ha="center", va="center", color=colour, fontsize=8)
        panel.set_xticks(range(len(factors)), [f"{factor:g}" for factor in factors])
        panel.set_yticks(range(len(factors)), [f"{factor:g}" for factor in factors])
        panel.set_xlabel(r"$\lambda_\alpha$ / paper's")
        panel.set_title(f"{place[0]}, N = {place[1]:,}")
        panel.grid(False)
    figure.axes[0].set_ylabel(r"$\lambda_\theta$ / paper's")


SENSITIVITY = Target(
    "sensitivity",
    "Sensitivity to λ_α, λ_θ, N and K",
    "The paper's problem on synthetic pools, weights as "
    "multiples of the paper's; and the rounds its rule needs as K grows.",
    _steps,
    _findings,
)

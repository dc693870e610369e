"""Stationarity as nonlinear equations in (b, θ), solved by Bonmin through CasADi: super teaching as first published.

    min ‖θ − θ*‖²   over b ∈ {0,1}^N, θ,   such that Σ_j b_j ℓ'(x_j'θ) x_j + Λθ = 0,  Σ_j b_j = n

Bonmin's branch and bound takes each continuous problem's local optimum for its bound, and these problems
are not convex: an answer comes without a proof.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from superteach.types import Array
from superteach_lab.minlp.programme import Programme, slope

INTEGRAL = 1e-6
FEASIBLE = 1e-6
"""Largest entry of the gradient, relative to its parts, at which a point counts as found."""
QUIET: dict[str, Any] = {
    "print_time": False,
    "bonmin.bb_log_level": 0,
    "bonmin.nlp_log_level": 0,
    "bonmin.algorithm": "B-BB",
    # Bonmin looks for improvements of this much in ‖θ − θ*‖² and no less; its own choice is 1e-5.
    "bonmin.cutoff_decr": 1e-9,
    # These two solve a mixed-integer programme of their own with a limit of 180 s each, whatever ours is.
    "bonmin.heuristic_dive_MIP_fractional": "no",
    "bonmin.heuristic_dive_MIP_vectorLength": "no",
}


def run(task: Programme, formulation: str, seconds: float, tell: Callable[[str, Any], None]) -> str:
    """Solve, and tell of every better point on the way."""
    import casadi

    rows, width = task.rows, task.width
    b, model = casadi.MX.sym("b", rows), casadi.MX.sym("model", width)
    pulls = b * slope(task.loss, casadi.DM(task.X) @ model, casadi.DM(task.y), casadi.exp)
    gradient = casadi.DM(task.X).T @ pulls + casadi.DM(task.penalty) * model
    # One unit for the equations, that of the goal's own pull: Bonmin's tolerances are absolute.
    unit = max(float(np.abs(task.loss.gradient(task.X @ task.goal, task.y)).max()), 1e-12)
    best = [np.inf]

    def look(point: Array) -> None:
        mask, at = point[:rows], point[rows:]
        whole = np.rint(mask)
        risk = float(np.linalg.norm(at - task.goal))
        if risk >= best[0] or np.abs(mask - whole).max() > INTEGRAL:
            return
        chosen = np.flatnonzero(whole)
        X = task.X[chosen]
        off = X.T @ task.loss.gradient(X @ at, task.y[chosen]) + task.penalty * at
        if task.valid(chosen) and np.abs(off).max() <= FEASIBLE * unit:
            best[0] = risk
            tell("rows", chosen)

    class Spy(casadi.Callback):
        """The objective's gradient, which sees every point that is tried."""

        def __init__(self) -> None:
            casadi.Callback.__init__(self)
            self.construct("nlp_grad_f", {})

        def get_n_in(self) -> int:
            return 2

        def get_n_out(self) -> int:
            return 2

        def get_name_in(self, i: int) -> str:
            return ("x", "p")[i]

        def get_name_out(self, i: int) -> str:
            return ("f", "grad_f_x")[i]

        def get_sparsity_in(self, i: int) -> Any:
            return casadi.Sparsity(0, 0) if i else casadi.Sparsity.dense(rows + width)

        def get_sparsity_out(self, i: int) -> Any:
            return casadi.Sparsity.dense(rows + width if i else 1)

        def eval(self, given: Any) -> list[Any]:
            point = given[0].full().ravel()
            look(point)
            away = point[rows:] - task.goal
            return [away @ away, np.concatenate([np.zeros(rows), 2.0 * away])]

    spy = Spy()
    settings = QUIET | {"discrete": [True] * rows + [False] * width, "bonmin.time_limit": seconds, "grad_f": spy}
    problem = {
        "x": casadi.vertcat(b, model),
        "f": casadi.sumsqr(model - task.goal),
        "g": casadi.vertcat(gradient / unit, casadi.sum1(b)),
    }
    solver = casadi.nlpsol("solver", "bonmin", problem, settings)
    free = np.full(width, np.inf)
    found = solver(
        x0=np.concatenate([np.full(rows, task.most / rows), task.goal]),
        lbx=np.concatenate([np.zeros(rows), -free]),
        ubx=np.concatenate([np.ones(rows), free]),
        lbg=np.append(np.zeros(width), task.least),
        ubg=np.append(np.zeros(width), task.most),
    )
    status = solver.stats()["return_status"]
    if status == "SUCCESS":
        look(found["x"].full().ravel())
        return "finished"
    return "limit" if status == "LIMIT_EXCEEDED" else f"failed: Bonmin says {status}"

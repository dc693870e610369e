"""Gradient matching in the 1-norm, a mixed-integer linear programme for HiGHS.

min Σ_k |A b − c|_k   over b ∈ {0,1}^N,  Σ_j b_j = n      (A and c: see Programme.matching)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from superteach.types import Array
from superteach_lab.minlp.programme import Programme


def run(task: Programme, formulation: str, seconds: float, tell: Callable[[str, Any], None]) -> str:
    """Solve, and tell of every better point and bound on the way."""
    import highspy

    columns, target = task.matching
    unit = float(np.linalg.norm(columns, axis=0).mean()) or 1.0
    width, rows = columns.shape
    infinite = highspy.kHighsInf
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = rows + width, 2 * width + 1
    lp.col_cost_ = np.concatenate([np.zeros(rows), np.ones(width)])
    lp.col_lower_ = np.zeros(rows + width)
    lp.col_upper_ = np.concatenate([np.ones(rows), np.full(width, infinite)])
    lp.integrality_ = [highspy.HighsVarType.kInteger] * rows + [highspy.HighsVarType.kContinuous] * width
    # t ≥ A b − c and t ≥ −(A b − c), then the number of rows.
    matrix = np.zeros((2 * width + 1, rows + width))
    matrix[:width, :rows] = matrix[width : 2 * width, :rows] = columns / unit
    matrix[:width, rows:], matrix[width : 2 * width, rows:] = -np.eye(width), np.eye(width)
    matrix[-1, :rows] = 1.0
    aim = target / unit
    lp.row_lower_ = np.concatenate([np.full(width, -infinite), aim, [task.least]])
    lp.row_upper_ = np.concatenate([aim, np.full(width, infinite), [task.most]])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    filled = matrix != 0.0
    lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
    lp.a_matrix_.index_ = np.nonzero(filled)[1]
    lp.a_matrix_.value_ = matrix[filled]

    solver = highspy.Highs()
    settings = {
        "output_flag": False,
        "time_limit": seconds,
        "threads": 1,
        "random_seed": task.seed % (2**31 - 1),
        "mip_rel_gap": 1e-6,
        "mip_abs_gap": 1e-9,
        "mip_feasibility_tolerance": 1e-8,
        "primal_feasibility_tolerance": 1e-9,
    }
    for name, value in settings.items():
        solver.setOptionValue(name, value)
    heard = [0.0]

    def found(values: Array) -> None:
        chosen = np.flatnonzero(np.rint(np.asarray(values)[:rows]))
        if task.valid(chosen):
            tell("rows", chosen)

    def bounded(bound: float) -> None:
        if np.isfinite(bound):
            tell("bound", max(bound, 0.0) * unit)

    def listen(event: Any) -> None:
        if time.monotonic() - heard[0] > 0.5:
            heard[0] = time.monotonic()
            bounded(event.data_out.mip_dual_bound)

    solver.cbMipImprovingSolution += lambda event: found(event.data_out.mip_solution)
    solver.cbMipInterrupt += listen
    solver.passModel(lp)
    solver.run()
    status = solver.getModelStatus()
    information = solver.getInfo()
    bounded(information.mip_dual_bound)
    if information.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        found(np.array(solver.getSolution().col_value))
    if status == highspy.HighsModelStatus.kOptimal:
        return "proven"
    limit = (highspy.HighsModelStatus.kTimeLimit, highspy.HighsModelStatus.kInterrupt)
    return "limit" if status in limit else f"failed: HiGHS says {solver.modelStatusToString(status)}"

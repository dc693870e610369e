"""Two programmes for SCIP.

"gradient": min ‖A b − c‖² over b ∈ {0,1}^N with Σ_j b_j = n, convex but for b (A and c: Programme.matching).

"bounded": the stationarity equations with one bounded product per row, z_j = b_j ℓ'(x_j'θ),

    min ‖θ − θ*‖²   such that Σ_j z_j x_j + Λθ = 0,  Σ_j b_j = n,
    L_j b_j ≤ z_j ≤ U_j b_j,   s_j − U_j(1 − b_j) ≤ z_j ≤ s_j − L_j(1 − b_j),   s_j = ℓ'(x_j'θ)

which is exact for b ∈ {0,1}. Only models nearer to θ* than a known lesson's, at distance R, are of
interest; within that ball x_j'θ* − R‖x_j‖ ≤ x_j'θ ≤ x_j'θ* + R‖x_j‖, and ℓ' is increasing: that is where
L_j and U_j come from. SCIP's optimum and bound are global.

SCIP sees no difference between squares nearer to each other than its feasibility tolerance. So each programme is solved
again in the unit of the lesson it found, as long as that lesson is small in the unit before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from superteach.losses import Squared
from superteach.types import Array, Positions
from superteach_lab.minlp.programme import Programme, gradient_norm, greedy, slope

Tell = Callable[[str, Any], None]
TOLERANCE = 1e-8
"""SCIP's feasibility tolerance; objectives are scaled to be near 1."""
SLACK = 1e-5
"""Share by which a bound on the scaled, squared objective is lowered, for SCIP's tolerances."""
SMALL = 1e-3
"""A scaled, squared objective below which SCIP's tolerances, which are absolute there, are more than that share."""


def run(task: Programme, formulation: str, seconds: float, tell: Tell) -> str:
    """Solve, and tell of every better point and bound on the way."""
    deadline = time.monotonic() + seconds
    if formulation == "gradient":
        return _gradient(task, deadline, tell)
    chosen = greedy(task)
    tell("rows", chosen)
    radius = task.risk(chosen)
    # A lesson found well inside the ball makes a smaller ball, whose programme is tighter and better scaled.
    while radius > task.zero:
        word, chosen = _bounded(task, chosen, radius, deadline, tell)
        found = task.risk(chosen)
        if word != "proven" or found > 0.5 * radius:
            return word
        radius = found
    return "proven"


class _Programme:
    """A SCIP model with N binaries that reports points and bounds as they come."""

    def __init__(self, task: Programme, deadline: float, tell: Tell, unit: float) -> None:
        from pyscipopt import SCIP_EVENTTYPE, Eventhdlr, Model

        self.task, self._tell, self._unit, self._deadline = task, tell, unit, deadline
        self.model = Model()
        self.model.hideOutput()
        settings = {
            "numerics/feastol": TOLERANCE,
            "numerics/epsilon": 1e-12,
            "limits/gap": 1e-6,
            "randomization/randomseedshift": task.seed % (2**31 - 1),
            "parallel/maxnthreads": 1,
            "timing/clocktype": 2,  # by the clock on the wall, as our own limit
        }
        self.model.setParams(settings)
        self.b = [self.model.addVar(vtype="B") for _ in range(task.rows)]
        self.model.addCons(_total(self.b, np.ones(task.rows)) <= task.most)
        self.model.addCons(_total(self.b, np.ones(task.rows)) >= task.least)
        self.last: Positions | None = None
        programme, kinds = self, (SCIP_EVENTTYPE.BESTSOLFOUND, SCIP_EVENTTYPE.NODESOLVED)
        heard = [0.0]

        class Listener(Eventhdlr):  # type: ignore[misc]
            def eventinit(self) -> None:
                for kind in kinds:
                    self.model.catchEvent(kind, self)

            def eventexit(self) -> None:
                for kind in kinds:
                    self.model.dropEvent(kind, self)

            def eventexec(self, event: Any) -> None:
                if event.getType() == kinds[0]:
                    programme._found(self.model.getBestSol())
                elif time.monotonic() - heard[0] > 0.5:
                    heard[0] = time.monotonic()
                    programme._bounded(self.model.getDualbound())

        self.model.includeEventhdlr(Listener(), "listener", "tells of points and bounds")

    def _found(self, solution: Any) -> None:
        values = np.array([self.model.getSolVal(solution, variable) for variable in self.b])
        chosen = np.flatnonzero(np.rint(values))
        if self.task.valid(chosen):
            self.last = chosen
            self._tell("rows", chosen)

    def _bounded(self, bound: float) -> None:
        if abs(bound) < 1e20:
            self._tell("bound", self._unit * float(np.sqrt(max(bound - SLACK * max(bound, SMALL), 0.0))))

    def solve(self) -> str:
        self.model.setParam("limits/time", max(self._deadline - time.monotonic(), 0.1))
        self.model.optimize()
        status: str = self.model.getStatus()
        if self.model.getNSols():
            self._found(self.model.getBestSol())
        if status == "infeasible":
            return status
        self._bounded(self.model.getDualbound())
        if status in ("optimal", "gaplimit"):
            return "proven"
        if status == "memlimit":
            return "memory"
        return "limit" if status in ("timelimit", "userinterrupt") else f"failed: SCIP says {status}"


def _gradient(task: Programme, deadline: float, tell: Tell) -> str:
    best = np.inf

    def tell_better(kind: str, value: Any) -> None:
        """SCIP's order of points that are equal within its tolerance is not ours."""
        nonlocal best
        if kind == "rows":
            if (size := gradient_norm(task, value, 2)) >= best:
                return
            best = size
        tell(kind, value)

    unit, reach = float(np.linalg.norm(task.matching[0], axis=0).mean()) or 1.0, None
    while True:
        word = _matched(task, unit, reach, deadline, tell_better)
        if word == "infeasible":
            # A lesson is known, so these numbers are beyond SCIP, and its word proves nothing.
            return "finished"
        if word != "proven" or best <= task.zero or best >= SMALL**0.5 * unit:
            return word
        unit, reach = best, 2.0


def _matched(task: Programme, unit: float, reach: float | None, deadline: float, tell: Tell) -> str:
    """Match gradients in this unit, among lessons within `reach` units."""
    columns, target = task.matching
    programme = _Programme(task, deadline, tell, unit)
    model = programme.model
    left = [model.addVar(lb=None if reach is None else -reach, ub=reach) for _ in range(task.width)]
    for variable, row, aim in zip(left, columns / unit, target / unit, strict=True):
        model.addCons(_total(programme.b, row) - variable == aim)
    square = model.addVar(lb=0.0, ub=None if reach is None else reach**2)
    model.addCons(sum(variable * variable for variable in left) <= square)
    model.setObjective(square, "minimize")
    return programme.solve()


def _bounded(task: Programme, known: Positions, radius: float, deadline: float, tell: Tell) -> tuple[str, Positions]:
    from pyscipopt import exp

    programme = _Programme(task, deadline, tell, radius)
    model = programme.model
    reach = radius * (1.0 + 1e-6)  # the known lesson itself stays inside
    away = [model.addVar(lb=-1.0 - 1e-6, ub=1.0 + 1e-6) for _ in range(task.width)]
    square = model.addVar(lb=0.0, ub=(1.0 + 1e-6) ** 2)
    model.addCons(sum(variable * variable for variable in away) <= square)
    model.setObjective(square, "minimize")

    centre = task.X @ task.goal
    span = reach * np.linalg.norm(task.X, axis=1)
    low, high = task.loss.gradient(centre - span, task.y), task.loss.gradient(centre + span, task.y)
    unit = max(float(np.abs(low).max()), float(np.abs(high).max()), 1e-12)
    products = []
    for j in range(task.rows):
        least, most = low[j] / unit, high[j] / unit
        predictor = _total(away, radius * task.X[j]) + float(centre[j])
        rate: Any
        if isinstance(task.loss, Squared):
            rate = slope(task.loss, predictor, float(task.y[j]), exp) * (1.0 / unit)
        else:
            eta = model.addVar(lb=float(centre[j] - span[j]), ub=float(centre[j] + span[j]))
            model.addCons(eta == predictor)
            rate = model.addVar(lb=float(least), ub=float(most))
            model.addCons(rate == slope(task.loss, eta, float(task.y[j]), exp) * (1.0 / unit))
        product = model.addVar(lb=min(0.0, float(least)), ub=max(0.0, float(most)))
        chosen = programme.b[j]
        model.addCons(product >= float(least) * chosen)
        model.addCons(product <= float(most) * chosen)
        model.addCons(product >= rate - float(most) * (1.0 - chosen))
        model.addCons(product <= rate - float(least) * (1.0 - chosen))
        products.append(product)
    scale = float(np.linalg.norm(task.X, axis=1).max()) or 1.0
    for k in range(task.width):
        weight = task.penalty[k] / (unit * scale)
        pull = _total(products, task.X[:, k] / scale) + (weight * radius) * away[k]
        model.addCons(pull == -float(weight * task.goal[k]))
    word = programme.solve()
    if word == "infeasible":
        # No lesson lies nearer, so the known one is the best there is.
        tell("rows", known)
        tell("bound", radius * float(np.sqrt(1.0 - SLACK)))
        return "proven", known
    if programme.last is not None and task.risk(programme.last) < radius:
        return word, programme.last
    tell("rows", known)
    return word, known


def _total(variables: list[Any], weights: Array) -> Any:
    from pyscipopt import quicksum

    return quicksum(float(weight) * variable for weight, variable in zip(weights, variables, strict=True))

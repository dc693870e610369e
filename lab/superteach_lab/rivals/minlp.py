"""Super teaching as a mixed-integer programme: the paper's own (Bonmin) and gradient matching at the goal (HiGHS)."""

from __future__ import annotations

from importlib import import_module

from superteach_lab.compare.task import GOAL, ROWS, Contestant, Indices, Skipped, Task

GIGABYTES = 8.0


def stationary(task: Task, size: int, seed: int) -> Indices:
    """Ma et al.: min ‖θ − θ*‖² with the learner's stationarity as equations."""
    return _solved(task, size, seed, "stationary")


def gradient(task: Task, size: int, seed: int) -> Indices:
    """min ‖H⁻¹(Σ b_j g_j − Λθ*)‖ in the 1-norm, a linear programme in whole numbers."""
    return _solved(task, size, seed, "gradient")


def _solved(task: Task, size: int, seed: int, formulation: str) -> Indices:
    outcome = import_module("superteach_lab.minlp").solve(
        task.design,
        task.y,
        task.learner.loss,
        task.learner.penalty(size),
        task.aim,
        size,
        formulation=formulation,
        seconds=task.seconds,
        gigabytes=GIGABYTES,
        seed=seed,
        free_intercept=task.learner.free_intercept,
    )
    if outcome.rows is None:
        raise Skipped(f"{outcome.status} ({task.seconds:g} s)")
    rows: Indices = outcome.rows
    return rows


def refuses(task: Task, size: int) -> str | None:
    """Which learners the programmes are written for."""
    if task.learner.loss.name not in ("logistic", "squared"):
        return f"the programmes are written for logistic and squared losses, not for {task.learner.loss.name}"
    return None


_NEEDS = (ROWS, GOAL, "superteach-lab[minlp]")
CONTESTANTS = (
    Contestant("MINLP", "the paper's programme (Bonmin)", _NEEDS, stationary, refuses, slow=True),
    Contestant("MINLP gradient", "gradient matching at the goal (HiGHS)", _NEEDS, gradient, refuses, slow=True),
)

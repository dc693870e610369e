"""The paper's method, solved to a certified optimum or by the paper's own rule."""

from __future__ import annotations

from superteach.optim import Block
from superteach_lab.compare.task import GOAL, SUMS, Contestant, Indices, Proven, Task
from superteach_lab.rivals.ours import chosen_by

ROUNDS = 100
"""The paper's T."""


def certified(task: Task, size: int, seed: int) -> Indices | Proven:
    """The largest |α_j| of the optimum."""
    return chosen_by(task, size, seed, method="dual")


def by_blocks(task: Task, size: int, seed: int) -> Indices | Proven:
    """The largest |α_j| after so many rounds of the paper's block rule."""
    return chosen_by(task, size, seed, method="dual", solver=Block(max_steps=ROUNDS))


def no_blocks(task: Task, size: int) -> str | None:
    """The block rule has no free intercept."""
    if task.learner.free_intercept:
        return "the paper's block rule has no unpenalised intercept"
    return None


CONTESTANTS = (
    Contestant("dual", "the paper's problem, certified optimum", (SUMS, GOAL), certified),
    Contestant("block", f"the paper's rule, T = {ROUNDS} rounds", (SUMS, GOAL), by_blocks, no_blocks),
)

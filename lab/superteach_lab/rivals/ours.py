"""Our own methods, called as any user would call them."""

from __future__ import annotations

from typing import Any

from superteach.estimator import SuperTeacher
from superteach_lab.compare.task import Indices, Proven, Task


def chosen_by(task: Task, size: int, seed: int, **settings: Any) -> Indices | Proven:
    """The rows of one lesson, taught by all owners together, and its proof that the goal is out of reach, if any."""
    teacher = SuperTeacher(task.learner, task.goal, budget=size, measure="coefficients", random_state=seed, **settings)
    rows: Indices = teacher.fit(task.X, task.y, groups=task.owner).sample_indices_
    proof = teacher.lesson_.certificate
    return rows if proof is None else Proven(rows, proof.direction)

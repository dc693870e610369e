"""Every teacher alone: |S|/K rows each, chosen without the others, taught to the learner together."""

from __future__ import annotations

from superteach_lab.compare.task import ALONE, GOAL, Contestant, Indices, Proven, Task
from superteach_lab.rivals.ours import chosen_by


def exact(task: Task, size: int, seed: int) -> Indices | Proven:
    """Exact teaching inside each teacher."""
    return chosen_by(task, size, seed, method="oblivious")


def programme(task: Task, size: int, seed: int) -> Indices | Proven:
    """A mixed-integer programme inside each teacher; they share the time, one after the other."""
    seconds = task.seconds / task.teachers
    return chosen_by(task, size, seed, method="oblivious-minlp", solver_seconds=seconds)


def no_exact(task: Task, size: int) -> str | None:
    """Each teacher must have a row to give."""
    if size < task.teachers:
        return f"{size} rows are fewer than the {task.teachers} teachers"
    return None


def no_programme(task: Task, size: int) -> str | None:
    """As above, and the programmes are written for two losses."""
    if task.learner.loss.name not in ("logistic", "squared"):
        return f"the programmes are written for logistic and squared losses, not for {task.learner.loss.name}"
    return no_exact(task, size)


CONTESTANTS = (
    Contestant("oblivious", "every teacher alone, exact teaching", (ALONE, GOAL), exact, no_exact),
    Contestant(
        "oblivious MINLP",
        "every teacher alone, the paper's programme",
        (ALONE, GOAL, "superteach-lab[minlp]"),
        programme,
        no_programme,
        slow=True,
    ),
)

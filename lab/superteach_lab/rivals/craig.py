"""CRAIG: facility location over the rows' gradients at the pool's model (Mirzasoleiman et al. 2020), unweighted."""

from __future__ import annotations

from superteach_lab.compare.task import ROWS, Contestant, Indices, Task
from superteach_lab.rivals import facility_location


def choose(task: Task, size: int, seed: int) -> Indices:
    """Rows whose gradients stand for all others' gradients; nothing is random in it."""
    pulls, _ = task.pulls(task.fit())
    return facility_location.lazy_greedy(facility_location.similarity(pulls), size)


CONTESTANTS = (
    Contestant("CRAIG", "rows whose gradients stand for all others'", (ROWS,), choose, facility_location.refuses),
)

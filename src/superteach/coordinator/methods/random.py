"""The baseline anybody would try first: rows drawn at random."""

from __future__ import annotations

from superteach.coordinator.federation import Federation
from superteach.line.queries import RankRows


def rank(federation: Federation, seed: int) -> None:
    """Let every teacher sort its rows by a number drawn from the seed and the row's id."""
    federation.stage = "selection"
    federation.sum(RankRows("random", seed=seed))

"""How a method speaks of the lessons it taught."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """What a method says of a lesson, in the report and on the screen; stored with the lesson."""

    label: str = "lesson"
    """Name in a legend."""
    chosen: str = ""
    """Sentence: how rows were chosen."""
    objective: str = ""
    """Sentence: what its objective means."""
    unproved: str = "Nothing is proved; the risk is measured."
    """Sentence: what to say where nothing is proved."""
    ended: str = "The search ended because {reason}."
    """Sentence: how it ended."""
    exact: bool = False
    """Whether it aims at the goal exactly: its objective predicts the risk, its verdict says more than a distance."""
    unused: tuple[str, ...] = ()
    """Settings that only other methods look at."""


PROMISES = {
    "closed": "A goal and a number of rows came in; nothing computed from rows went out.",
    "epsilon": "At most ε can be learned about any one row from all that left its owner.",
    "masked": "Nobody saw a teacher's own numbers, only totals, in which whoever lies or picks goals for it can read rows.",
    "open": "The coordinator can read your rows.",
}
"""What owners of rows are told, from the strongest promise to the weakest."""

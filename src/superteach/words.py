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


PRIVACY = {
    "isolated": "A goal and a number of rows come in; nothing that depends on rows goes out.",
    "dp": "What goes out is differentially private: two noisy sums of each owner, with ε and δ for every row.",
    "none": "The coordinator can read the rows.",
}
"""What owners of rows can rely on in each privacy mode, the strongest first."""

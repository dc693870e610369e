"""The page of `superteach drop`: how few rows carry a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from superteach.report.markup import code, strong
from superteach.report.page import Page
from superteach.report.plots import LIGHT, SERIES, Plot, round_ticks
from superteach.robustness.drop import PROOFS, Robustness

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LISTED = 1_000
"""Row numbers that the page lists; the file rows.csv has all."""


def page_of_robustness(result: Robustness, file: str) -> Page:
    """Make the page: the answer, the coefficient along the removals, the rows, and what is proved."""
    page = Page("How few rows carry a finding", f"Rows of {file}.")
    page.answer(strong(result.sentence()))
    removed = None if result.rows is None else len(result.rows)
    page.facts(
        [
            ("found", "–" if removed is None else f"{removed:,}", "rows whose removal does it"),
            ("proved", "–" if result.proof == "none" else f"{result.least:,}", "rows at least must go"),
            ("all rows", f"{result.total:,}", f"coefficient {result.before:.4g}"),
        ]
    )
    if result.path:
        section = page.section("Along the removals")
        section.figure(_plot(result), "Each point is a refit without the best removal of that size that was found.")
    section = page.section("What is proved, and what is found")
    section.prose(f"Proof: {PROOFS[result.proof]}.")
    if result.exact:
        section.prose("The rows found are the fewest there are: every smaller removal leaves the finding as it is.")
    elif result.least > 1:
        section.prose(
            f"No removal of fewer than {result.least:,} rows is enough. Between the two numbers nothing is known."
        )
    section.note(
        "The proof is about the learner and the columns named, on these rows. It says nothing about how the rows came to be."
    )
    if result.rows is not None:
        section = page.section("The rows")
        shown = ", ".join(map(str, result.rows[:LISTED].tolist()))
        section.prose("Numbers of the rows in the file, the first being 0: ", code(shown), ".")
    return page


def _plot(result: Robustness) -> Plot:
    def draw(axes: Axes) -> None:
        counts = [0, *(step.count for step in result.path)]
        axes.plot(counts, [result.before, *(step.coefficient for step in result.path)], "o-", color=SERIES[0], ms=4.5)
        if result.rows is not None and result.after is not None:
            axes.plot([len(result.rows)], [result.after], "o", ms=12.0, mfc="none", mec=SERIES[0], mew=1.8)
        low, high = axes.get_ylim()
        if low <= 0.0 <= high:
            axes.axhline(0.0, color=LIGHT["soft"], lw=1.4, ls="--")
        axes.set_xlabel("rows removed")
        axes.set_ylabel("distance from the rival" if result.names else "coefficient")
        round_ticks(axes.xaxis, integer=True)
        round_ticks(axes.yaxis)

    return Plot("path", "Coefficient without the rows found", draw, 300.0, f"{len(result.path)} removals.")

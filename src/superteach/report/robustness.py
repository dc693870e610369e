"""The page of `superteach drop`: how few rows carry a finding."""

from __future__ import annotations

from superteach.report.charts import Axis, Chart, Level, Mark, Series
from superteach.report.markup import code, strong
from superteach.report.page import Page
from superteach.robustness.result import PROOFS, Robustness

LISTED = 1_000
"""Row numbers that the page lists; the file rows.csv has all."""


def page_of_robustness(result: Robustness, file: str) -> Page:
    """Make the page: the answer, the coefficient along the removals, the rows, and what is proved."""
    page = Page("How few rows carry a finding", f"Rows of {file}.")
    page.answer(strong(result.sentence()))
    found = None if result.rows is None else len(result.rows)
    page.facts(
        [
            ("found", "–" if found is None else f"{found:,}", "rows whose removal does it"),
            ("proved", f"{result.least:,}", "rows at least must go"),
            ("all rows", f"{result.total:,}", f"coefficient {result.before:.4g}"),
        ]
    )
    if result.path:
        section = page.section("Along the removals")
        counts = [0.0, *(float(step.count) for step in result.path)]
        values = [result.before, *(step.coefficient for step in result.path)]
        marks = []
        if found is not None and result.after is not None:
            marks = [Mark("coefficient", float(found), result.after, f"{found:,} rows")]
        chart = Chart(
            "Coefficient without the rows found",
            Axis("rows removed"),
            Axis("distance from the rival" if result.names else "coefficient"),
            [Series("coefficient", counts, values)],
            levels=[Level("0", 0.0)] if min(values) <= 0.0 <= max(values) else [],
            marks=marks,
        )
        section.figure(chart, "Each point is a refit without the best removal of that size that was found.", "path")
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

"""`superteach drop`: how few rows of a table carry a finding."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from superteach.cli import screen
from superteach.cli.folder import check_folder, claim, new_folder
from superteach.cli.request import LINEAR, Question, listed_in
from superteach.coordinator import named
from superteach.io.atomic import write_text
from superteach.io.files import open_file
from superteach.io.tables import read_columns, read_pool
from superteach.lesson import to_json
from superteach.report.page import Page, code, strong
from superteach.report.plots import LIGHT, SERIES, Plot, round_ticks
from superteach.robustness.drop import PROOFS, Robustness, drop
from superteach.types import Foreign, Json, Label, Raw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LISTED = 1_000
"""Row numbers that the page lists; the file rows.csv has all."""


def run(question: Question) -> None:
    """Read the table, search and prove, show the result, write the folder."""
    question.check()
    if question.learner not in (None, LINEAR):  # wrong names and penalties are refused before the file is read
        named.penalty_of(str(question.learner), question.C, question.alpha)
    if question.out is None:
        _show(question, *_ask(question))
        return
    place = check_folder(question.out, question.overwrite)
    with claim(question.out, place):
        result, positive = _ask(question)
        with new_folder(place) as folder:
            write_text(folder / "drop.json", to_json(_stored(question, result, positive)))
            if result.rows is not None:
                write_text(folder / "rows.csv", "row\n" + "".join(f"{row}\n" for row in result.rows.tolist()))
            page = page_of(result, question.file.name, positive)
            page.write(folder / "report.html")
            page.write_figures(folder / "figures")
        _show(question, result, positive)
        if not question.as_json:
            screen.say(f"Report, figure and the numbers of the rows (rows.csv) are in {question.out}.")


def _ask(question: Question) -> tuple[Robustness, Label | None]:
    """Search and prove; return what is known, and of two labels the positive one."""
    with screen.activity("read the table") as say:
        if question.winner is not None:
            names = [_column(question, str(column)) for column in (question.winner, question.loser)]
            most, seconds = question.most, question.seconds
            return drop(None, winner=names[0], loser=names[1], most=most, seconds=seconds, report=say), None
        kind = question.learner
        if kind is None:
            target = _column(question, str(question.target))
            kind = "logistic" if len(np.unique(target.astype(str))) == 2 else LINEAR
        labels = kind in named.INVERSE
        features = listed_in(question.features)
        if features is None and question.groups is not None:  # groups are no feature unless they are named as one
            columns = open_file(question.file.stem, question.file, question.encoding).columns
            features = [name for name in columns if name not in (question.target, question.groups)]
        pool = read_pool([question.file], str(question.target), None, features, not labels, encoding=question.encoding)
        groups = None
        if question.groups is not None:
            groups = _column(question, question.groups)[pool.row_numbers[0]]
        part = pool.parts[0]
        result = drop(
            _with_names(part.features, pool.columns),
            part.target,
            _learner(question, kind),
            coefficient=question.coefficient,
            value=0.0 if question.past is None else question.past,
            significance=question.significance,
            standard_errors=question.standard_errors,  # type: ignore[arg-type]
            groups=groups,
            most=question.most,
            seconds=question.seconds,
            report=say,
        )
    return result, np.unique(part.target).tolist()[-1] if labels else None


def _with_names(features: Foreign, columns: tuple[str, ...]) -> Foreign:
    """Give the rows the names of their columns, without a data frame."""
    import pyarrow as pa

    return pa.table({name: np.asarray(features[:, place]) for place, name in enumerate(columns)})


def _column(question: Question, name: str) -> Raw:
    return read_columns(question.file.stem, question.file, name, question.encoding)[name]


def _learner(question: Question, kind: str) -> Foreign:
    if kind == LINEAR:
        from sklearn.linear_model import LinearRegression

        return LinearRegression(fit_intercept=question.intercept)
    return named.build_student(kind, question.C, question.alpha, question.intercept)


def _show(question: Question, result: Robustness, positive: Label | None) -> None:
    if question.as_json:
        sys.stdout.write(to_json(_stored(question, result, positive)))
        return
    lacking = "–" if result.rows is None else f"{len(result.rows):,}"
    proved = ("–", "there is no proof for this question")
    if result.proof != "none":
        proved = (f"{result.least:,}", f"at least so many must go: {PROOFS[result.proof]}")
    rows = [
        ("found", lacking, "rows whose removal does it, by a refit"),
        ("proved", *proved),
        ("rows", f"{result.total:,}", "in the table"),
    ]
    screen.facts([*rows, *([] if positive is None else [screen.positive_fact(positive)])])
    screen.say(result.sentence())
    if result.rows is not None:
        shown = ", ".join(map(str, result.rows[:20].tolist()))
        screen.say(f"Rows removed (the first is 0): {shown}{', …' if len(result.rows) > 20 else ''}.")


def _stored(question: Question, result: Robustness, positive: Label | None) -> Json:
    """Return what drop.json holds."""
    stored = result.as_dict() | {"file": str(question.file), "coefficient": question.coefficient}
    return stored if positive is None else stored | {"positive": positive}


def page_of(result: Robustness, file: str, positive: Label | None) -> Page:
    """Make the page: the answer, the coefficient along the removals, the rows, and what is proved."""
    page = Page("How few rows carry a finding", f"Rows of {file}.")
    page.answer(strong(result.sentence()))
    removed = None if result.rows is None else len(result.rows)
    page.facts(
        [
            ("found", "–" if removed is None else f"{removed:,}", "rows whose removal does it"),
            ("proved", "–" if result.proof == "none" else f"{result.least:,}", "rows at least must go"),
            ("all rows", f"{result.total:,}", f"coefficient {result.before:.4g}"),
            *([] if positive is None else [screen.positive_fact(positive)]),
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

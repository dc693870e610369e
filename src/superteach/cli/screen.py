"""What a person sees: progress on a terminal's stderr, a table and a sentence on stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from superteach.cli.lines import say as say
from superteach.exceptions import counted
from superteach.lesson import Entry, Lesson
from superteach.privacy import PRIVACY
from superteach.report.words import STAGES, decimals, percent_of, random_rows, size_text
from superteach.types import Label

Watch = Callable[[Entry], None]


class _Rate(ProgressColumn):
    """Rows per second of the present pass."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f} rows/s", style="dim")


@contextmanager
def progress(
    first: str = "read files", rows: int | None = None
) -> Iterator[tuple[Watch | None, Callable[[int], None] | None]]:
    """Show stage, round and elapsed time on stderr while the work goes on; nothing where that is no terminal.

    `first` is shown until there is a stage. Where each round is a pass over `rows` on disk, show how far it is, rows per
    second and the time it still takes.
    Yields what hears of rounds, and what hears of rows.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None, None
        return
    shown: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}")]
    if rows is None:
        shown += [TimeElapsedColumn()]
    else:
        left = TextColumn("[dim]left of this pass[/]")
        shown += [BarColumn(20), _Rate(), TimeRemainingColumn(compact=True), left]
    with Progress(*shown, console=console, transient=True) as bar:
        task = bar.add_task(first, total=rows)

        def watch(entry: Entry) -> None:
            words = f"{STAGES.get(entry.stage, entry.stage)} [dim]round {entry.number:,}[/]"
            bar.update(task, description=words)
            if rows is not None:
                bar.reset(task, total=rows)

        yield watch, lambda done: bar.advance(task, done)


@contextmanager
def activity(first: str) -> Iterator[Callable[[str], None]]:
    """Show what is being done, and for how long, on stderr; nothing where that is no terminal.

    Yields what is told of the next thing.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda words: None
        return
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True
    ) as bar:
        task = bar.add_task(first, total=None)
        yield lambda words: bar.update(task, description=words)


def compare(lessons: dict[str, Lesson]) -> None:
    """Show lessons in a table, one line for each, and the means of as many random rows below those that have them."""
    table = _table()
    table.padding = (0, 0 if sys.stdout.isatty() else 2, 0, 0)  # a terminal of eighty columns is enough
    table.add_column("", no_wrap=True)
    for heading in ("rows", "share", "agreement", "risk", "rounds", "bytes", "seconds"):
        table.add_column(heading, justify="right")
    least = min(lesson.risk for lesson in lessons.values())
    for name, lesson in lessons.items():
        table.add_row(
            name,
            f"{lesson.size:,}",
            percent(lesson.fraction),
            f"{lesson.agreement:.4f}",
            Text(f"{lesson.risk:.4g}", style="bold green" if lesson.risk == least else ""),
            f"{lesson.rounds:,}",
            size_text(lesson.bytes),
            f"{lesson.seconds:.2f}",
        )
        if (drawn := lesson.random_rows) is not None and drawn.risk:
            means = f"{fmean(drawn.agreement):.4f}", f"{fmean(drawn.risk):.4g}"
            table.add_row("random, same size", f"{lesson.size:,}", percent(lesson.fraction), *means, "", "", "")
    _print(table)


def result(lesson: Lesson, rows_of: Sequence[int]) -> None:
    """Show the figures of one lesson."""
    what = "rows chosen" if lesson.delivered else "rows asked for"
    rows = [(what, f"{lesson.size:,}", f"of {lesson.pool_rows:,}, {percent(lesson.fraction)}")]
    if lesson.delivered:
        write, what = (
            (percent_of, "of predictions are the goal's") if lesson.classifies else (decimals, "r² with the goal")
        )
        rows.append(("agreement", write(lesson.agreement), what))
        rows.append(("  all rows", write(lesson.pool_agreement), ""))
        if lesson.random_rows is not None:
            rows.append(("  random rows", *random_rows(lesson)))
        rows.append(("risk", f"{lesson.risk:.6g}", f"distance of coefficients; all rows: {lesson.pool_risk:.6g}"))
    if lesson.positive is not None:
        rows.append(positive_fact(lesson.positive))
    if lesson.guarantee is not None:
        one = lesson.guarantee
        rows.append(("epsilon, delta", f"{one['epsilon']:g}, {one['delta']:g}", "for adding or removing one row"))
    before = lesson.abandoned["rounds"]
    sent = f"{size_text(lesson.bytes)} between {counted(len(rows_of), 'teachers')} and coordinator"
    sent += f", and {counted(before, 'rounds')} before the lesson began anew" if before else ""
    rows.append(("privacy", lesson.privacy, PRIVACY[lesson.privacy]))
    rows.append(("rounds", f"{lesson.rounds:,}", sent))
    if lesson.delivered:
        rows.append(("seconds", f"{lesson.seconds:.2f}", ""))
    facts(rows)
    if lesson.goal_in_words:
        say(f"Goal: {lesson.goal_in_words}.")
    if not lesson.delivered:
        return
    spread = [f"{name}: {count:,}" for name, count in zip(lesson.teachers, rows_of, strict=True)]
    shown = ", ".join(spread[:8]) + (f", … ({len(spread)} teachers)" if len(spread) > 8 else "")
    say(f"Rows by teacher: {shown}.")


def positive_fact(label: Label) -> tuple[str, str, str]:
    """Say which label is positive."""
    return "positive label", str(label), "scores above 0 predict it"


def facts(rows: Sequence[tuple[str, str, str]]) -> None:
    """Show names, values and what they mean."""
    table = _table(show_header=False)
    table.add_column("")
    table.add_column("", justify="right")
    table.add_column("", style="dim")
    for row in rows:
        table.add_row(*row)
    _print(table)


def sentence(lesson: Lesson) -> str:
    """Say what happened, in plain words."""
    rows = counted(lesson.pool_rows, "rows")
    text = f"Trained on {lesson.size:,} of {rows} ({percent(lesson.fraction)}): {lesson.verdict}."
    if not lesson.delivered:
        text = f"About {lesson.size:,} of {lesson.pool_rows:,} rows ({percent(lesson.fraction)}) were chosen where they lie."
        text += f" {lesson.guarantee['sentence']}." if lesson.guarantee else ""
    if not lesson.converged:
        text += f" The solver stopped early: {lesson.reason}."
    return text


def _table(show_header: bool = True) -> Table:
    """Make a table with rules on a terminal, with plain columns in a pipe."""
    lines = box.SIMPLE_HEAD if show_header and sys.stdout.isatty() else None
    return Table(box=lines, show_header=show_header, pad_edge=False, padding=(0, 2, 0, 0))


def _print(table: Table) -> None:
    if sys.stdout.isatty():
        Console().print(table)
        return
    console = Console(width=200)  # a pipe has no width to fit into: columns are never cut there
    with console.capture() as text:
        console.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in text.get().splitlines())


def percent(share: float) -> str:
    """Write a share as a person does."""
    return f"{100.0 * share:.3g} %"

"""`superteach reproduce`: the paper's tables, figures and Theorem 1, cell by cell, with the time that is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superteach.cli.lines import say

if TYPE_CHECKING:
    from superteach_lab.paper.run import Headway

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class TargetName(StrEnum):
    """What can be reproduced."""

    table_logistic = "table-logistic"
    table_ridge = "table-ridge"
    figure_risk = "figure-risk"
    figure_objective = "figure-objective"
    theorem = "theorem"
    all = "all"


ABOUT = (
    "Measure the paper's tables, figures and Theorem 1 again, beside what match reaches.\n\n"
    "Every cell is kept as soon as it is known: the same command goes on where it was stopped."
)


@app.command(help=ABOUT)
def reproduce(
    targets: Annotated[list[TargetName], typer.Argument(help="What to reproduce.", show_default=False)],
    quick: Annotated[bool, typer.Option("--quick", help="Minutes: up to 50,000 rows, 3 trials.")] = False,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials per cell (default 10; quick: 3).")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results (default reproduce-output; quick: reproduce-quick).")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(help="Also write results.md and its figures into this folder of documentation.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Cells done side by side (default: one per core).")] = None,
) -> None:
    """Run the targets and say what was found."""
    from superteach_lab.paper.plan import FULL, QUICK
    from superteach_lab.paper.run import run
    from superteach_lab.paper.workers import cores

    scale = QUICK if quick else FULL
    if trials is not None:
        scale = replace(scale, trials=trials)
    place = out if out is not None else Path("reproduce-quick" if quick else "reproduce-output")
    with _progress() as watch:
        said = run([target.value for target in targets], scale, place, watch, docs, workers or cores())
    for line in said:
        say(line)


@contextmanager
def _progress() -> Iterator[Callable[[Headway], None] | None]:
    """A bar over all cells on a terminal's stderr; nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        BarColumn(),
        TextColumn("{task.fields[cells]}"),
        TextColumn("{task.fields[left]}"),
        TextColumn("[dim]{task.description}[/]"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, cells="", left="")  # how many cells there are, the run says

        def watch(state: Headway) -> None:
            left = "" if state.left is None else f"about {duration(state.left)} left"
            cells = f"{state.done:,}/{state.cells:,} cells"
            bar.update(task, total=state.cells, completed=state.done, description=state.label, cells=cells, left=left)

        yield watch


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"

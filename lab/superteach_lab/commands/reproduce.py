"""`superteach reproduce`: what can be asked for; `progress` does it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class TargetName(StrEnum):
    """What can be reproduced."""

    table_logistic = "table-logistic"
    table_ridge = "table-ridge"
    figure_risk = "figure-risk"
    figure_objective = "figure-objective"
    sensitivity = "sensitivity"
    theorem = "theorem"
    oracle = "oracle"
    definition = "definition"
    all = "all"


ABOUT = (
    "Measure the paper's tables, figures and statements again, beside what match reaches.\n\n"
    "Every cell is kept as soon as it is known: the same command goes on where it was stopped."
)


@app.command(help=ABOUT)
def reproduce(
    targets: Annotated[list[TargetName], typer.Argument(help="What to reproduce.", show_default=False)],
    quick: Annotated[bool, typer.Option("--quick", help="Minutes: up to 50,000 rows, 3 trials.")] = False,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials per cell (default 10; quick: 3).")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for results (default reproduce-output; quick: reproduce-quick)."),
    ] = None,
    minlp: Annotated[
        float | None,
        typer.Option(help="Also run mixed-integer solvers up to 10,000 rows, so many seconds per cell."),
    ] = None,
    docs: Annotated[
        Path | None,
        typer.Option(help="Also write results.md and its figures into this folder of documentation."),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Cells done side by side (default: one per core).")] = None,
) -> None:
    """Hand the command line over."""
    from superteach_lab.commands.progress import reproduce as run

    run([target.value for target in targets], quick, trials, out, minlp, docs, workers)

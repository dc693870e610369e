"""`superteach reproduce`: the paper's tables, figures and Theorem 1, cell by cell, with the time that is left."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from superteach.cli.lines import say
from superteach_lab.commands.progress import progress

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
    with progress() as watch:
        said = run([target.value for target in targets], scale, place, watch, docs, workers or cores())
    for line in said:
        say(line)

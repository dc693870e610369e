"""`superteach reproduce`: the paper's tables, figures and statements, cell by cell, with the time that is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from superteach.cli import screen
from superteach.exceptions import SettingError
from superteach_lab.paper.plan import FULL, QUICK
from superteach_lab.paper.run import Headway, run
from superteach_lab.paper.workers import cores


def reproduce(
    names: Sequence[str],
    quick: bool,
    trials: int | None,
    out: Path | None,
    minlp: float | None,
    docs: Path | None,
    workers: int | None,
) -> None:
    """Run the targets and say what was found."""
    scale = QUICK if quick else FULL
    if trials is not None:
        if trials < 1:
            raise SettingError(f"--trials {trials}: give at least 1")
        scale = replace(scale, trials=trials)
    if minlp is not None:
        if not minlp > 0.0:
            raise SettingError(f"--minlp {minlp:g}: give the seconds a solver may take for one cell")
        scale = replace(scale, minlp=minlp)
    place = out if out is not None else Path("reproduce-quick" if quick else "reproduce-output")
    with _progress() as watch:
        said = run(names, scale, place, watch, docs, workers or cores())
    for line in said:
        screen.say(line)


@contextmanager
def _progress() -> Iterator[Callable[[Headway], None] | None]:
    """A bar over all cells on a terminal's stderr; nothing where that is no terminal."""
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

"""A bar for commands that work through cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Watch = Callable[[str, int, int, float], None]
"""Told what is being done, how many cells are done, how many there are, and the part of all work that is done."""


@contextmanager
def progress() -> Iterator[Watch | None]:
    """Show a bar with the time left on a terminal's stderr; nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    cells = TextColumn("{task.fields[cells]}")
    columns = (BarColumn(), cells, TimeRemainingColumn(), TextColumn("[dim]{task.description}[/]"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0, cells="")

        def watch(text: str, done: int, count: int, part: float) -> None:
            bar.update(task, completed=part, description=text, cells=f"{done:,}/{count:,} cells")

        yield watch

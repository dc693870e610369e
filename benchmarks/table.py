"""A table of measurements, printed the same way by every benchmark."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass
class Measurements:
    """A title, the names of the columns, and the rows measured so far."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)


def show(measurements: Measurements) -> None:
    """Print one table."""
    table = Table(title=measurements.title, title_justify="left")
    for column in measurements.columns:
        table.add_column(column, justify="right")
    for row in measurements.rows:
        table.add_row(
            *(
                f"{cell:,.3g}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell
                for cell in row
            )
        )
    Console(width=140).print(table)


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """Median wall time of a few runs."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)

"""The bench: every contestant on every pool, size and seed, each finished cell kept at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from superteach.compare.referee import OK, SKIPPED, Referee
from superteach.compare.sources import Source
from superteach.compare.task import ALONE, SUMS, Contestant
from superteach.errors import BudgetError
from superteach.records import Record, Records


class Cell(NamedTuple):
    """One choice to be made; `teachers` is None where it does not depend on who owns the rows."""

    seed: int
    teachers: int | None
    contestant: Contestant
    size: int

    def key(self, pool: str) -> Record:
        """Its name in a file of results."""
        return {
            "pool": pool,
            "teachers": self.teachers,
            "seed": self.seed,
            "contestant": self.contestant.name,
            "size": self.size,
        }


def counts(sizes: Sequence[float], rows: int) -> list[int]:
    """Lesson sizes as numbers of rows: fractions in (0, 1), or counts."""
    found = []
    for size in sizes:
        count = round(size * rows) if 0.0 < size < 1.0 else int(size)
        if not 1 <= count <= rows or (size >= 1.0 and count != size):
            raise BudgetError(f"--sizes {size:g} is neither a fraction of {rows} rows nor a count of them")
        found.append(count)
    return sorted(set(found))


def plan(source: Source, contestants: Sequence[Contestant], sizes: Sequence[int], seeds: int) -> list[Cell]:
    """Every cell, seed by seed, so that what is there after an interruption is a whole picture."""
    cells = []
    for seed in range(seeds):
        for contestant in contestants:
            owned = bool({SUMS, ALONE} & set(contestant.needs))
            for teachers in source.teachers if owned else (None,):
                wanted = (source.rows,) if contestant.whole else sizes
                cells += [Cell(seed, teachers, contestant, size) for size in wanted]
    return cells


def run(
    source: Source,
    cells: Iterable[Cell],
    records: Records,
    seconds: float,
    watch: Callable[[Cell], None] | None = None,
) -> None:
    """Work through the cells that are not there yet."""
    known: tuple[tuple[int, int], Referee] | None = None
    for cell in cells:
        key = cell.key(source.name)
        if watch is not None:
            watch(cell)
        if key in records:
            continue
        teachers = source.teachers[0] if cell.teachers is None else cell.teachers
        if known is None or known[0] != (teachers, cell.seed):
            known = (teachers, cell.seed), source.referee(teachers, cell.seed, seconds)
        records.get(key, partial(_judge, known[1], cell))


def _judge(referee: Referee, cell: Cell) -> Record:
    return referee.judge(cell.contestant, cell.size, cell.seed).as_dict()


class Line(NamedTuple):
    """Medians and quartiles over seeds of one contestant at one size."""

    pool: str
    teachers: int
    contestant: str
    size: int
    share: float
    seeds: int
    """How many seeds were scored."""
    risk: tuple[float, float, float] | None
    """Lower quartile, median, upper quartile."""
    consistency: float | None
    seconds: float | None
    cpu: float | None
    reasons: tuple[str, ...]
    """Why seeds are missing."""


def summary(records: Iterable[Record], rows: int, teachers: Sequence[int]) -> list[Line]:
    """One line for every pool, number of teachers, contestant and size, in the order of the records."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        cell = record["cell"]
        for count in teachers if cell["teachers"] is None else (cell["teachers"],):
            groups.setdefault((cell["pool"], count, cell["contestant"], cell["size"]), []).append(record)
    return [_line(key, found, rows) for key, found in groups.items()]


def _line(key: tuple[Any, ...], found: list[Record], rows: int) -> Line:
    good = [record for record in found if record["status"] == OK]
    reasons = [
        f"{'' if record['status'] == SKIPPED else 'failed: '}{record['reason']}"
        for record in found
        if record["status"] != OK
    ]
    pool, teachers, contestant, size = key
    if not good:
        return Line(pool, teachers, contestant, size, size / rows, 0, None, None, None, None, _once(reasons))
    low, middle, high = np.quantile([record["risk"] for record in good], [0.25, 0.5, 0.75]).tolist()
    consistency, seconds, cpu = (
        float(np.median([record[name] for record in good])) for name in ("consistency", "seconds", "cpu")
    )
    risk = low, middle, high
    return Line(
        pool,
        teachers,
        contestant,
        size,
        size / rows,
        len(good),
        risk,
        consistency,
        seconds,
        cpu,
        _once(reasons),
    )


def _once(reasons: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reasons))


def beaten(lines: Sequence[Line], ours: str = "match") -> Iterator[tuple[Line, Line]]:
    """Wherever a contestant's median risk is below ours on the same pool, teachers and size: (theirs, ours)."""
    mine = {
        (line.pool, line.teachers, line.size): line
        for line in lines
        if line.contestant == ours and line.risk is not None
    }
    for line in lines:
        own = mine.get((line.pool, line.teachers, line.size))
        if own is None or line.contestant == ours or line.risk is None or own.risk is None:
            continue
        if line.risk[1] < own.risk[1]:
            yield line, own

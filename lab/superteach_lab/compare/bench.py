"""The bench: every contestant on every pool, size and seed, each finished cell kept at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from superteach.exceptions import BudgetError
from superteach_lab.commands.progress import Watch
from superteach_lab.compare.referee import OK, SKIPPED, Referee
from superteach_lab.compare.sources import Source
from superteach_lab.compare.task import ALONE, SUMS, Contestant
from superteach_lab.records import Record, Records


class Cell(NamedTuple):
    """One choice to be made; `teachers` is None where it does not depend on who owns the rows."""

    seed: int
    teachers: int | None
    contestant: Contestant
    size: int
    contents: str = ""
    """Digest of rows, goal and settings, where one file keeps the cells of several."""

    def key(self, pool: str) -> Record:
        """Its name in a file of results."""
        return {
            "pool": pool,
            "teachers": self.teachers,
            "seed": self.seed,
            "contestant": self.contestant.name,
            "size": self.size,
            **({"contents": self.contents} if self.contents else {}),
        }


def counts(sizes: Sequence[float], rows: int) -> list[int]:
    """Lesson sizes as numbers of rows: fractions in (0, 1), or counts."""
    found = []
    for size in sizes:
        count = round(size * rows) if 0.0 < size < 1.0 else size
        if not 1 <= count <= rows or count != int(count):
            raise BudgetError(f"--sizes {size:g} is neither a fraction of {rows} rows nor a count of them")
        found.append(int(count))
    return sorted(set(found))


def plan(
    source: Source, contestants: Sequence[Contestant], sizes: Sequence[int], seeds: int, contents: str = ""
) -> list[Cell]:
    """Every cell, seed by seed, so that what is there after an interruption is a whole picture."""
    cells = []
    for seed in range(seeds):
        for contestant in contestants:
            owned = bool({SUMS, ALONE} & set(contestant.needs))
            for teachers in source.teachers if owned else (None,):
                wanted = (source.rows,) if contestant.whole else sizes
                cells += [Cell(seed, teachers, contestant, size, contents) for size in wanted]
    return cells


def run(source: Source, cells: Sequence[Cell], records: Records, seconds: float, watch: Watch | None = None) -> None:
    """Work through the cells that are not there yet."""
    known: tuple[tuple[int, int], Referee] | None = None
    for number, cell in enumerate(cells):
        key = cell.key(source.name)
        if watch is not None:
            text = f"{cell.contestant.name}, {cell.size:,} rows, seed {cell.seed}"
            watch(text, number, len(cells), number / len(cells))
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
    by_seed: dict[int, float]
    """The risk of every seed."""
    distance: float | None = None
    """Of predictions; None where it was not measured."""
    proved: int = 0
    """Seeds on which the contestant proved that the goal is out of reach."""


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
        return Line(pool, teachers, contestant, size, size / rows, 0, None, None, None, None, _once(reasons), {})
    low, middle, high = np.quantile([record["risk"] for record in good], [0.25, 0.5, 0.75]).tolist()
    consistency, seconds, cpu = (
        float(np.median([record[name] for record in good])) for name in ("consistency", "seconds", "cpu")
    )
    risk, by_seed = (low, middle, high), {record["cell"]["seed"]: record["risk"] for record in good}
    place = pool, teachers, contestant, size, size / rows
    apart = [record["distance"] for record in good if record.get("distance") is not None]
    distance = float(np.median(apart)) if len(apart) == len(good) else None
    proved = sum(bool(record.get("out_of_reach")) for record in good)
    return Line(*place, len(good), risk, consistency, seconds, cpu, _once(reasons), by_seed, distance, proved)


def _once(reasons: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reasons))


class Loss(NamedTuple):
    """A contestant whose median risk is below ours, over the seeds that both were scored on."""

    line: Line
    ours: Line
    risk: float
    our_risk: float
    seeds: int


OURS = ("match", "match long")


def beaten(lines: Sequence[Line], ours: str = "match") -> Iterator[Loss]:
    """Wherever somebody else's contestant beats ours on the same pool, teachers, size and seeds."""
    mine = {(line.pool, line.teachers, line.size): line for line in lines if line.contestant == ours}
    for line in lines:
        own = mine.get((line.pool, line.teachers, line.size))
        if own is None or line.contestant in OURS:
            continue
        common = sorted(set(line.by_seed) & set(own.by_seed))
        if not common:
            continue
        risk, our_risk = (float(np.median([one.by_seed[seed] for seed in common])) for one in (line, own))
        if risk < our_risk:
            yield Loss(line, own, risk, our_risk, len(common))

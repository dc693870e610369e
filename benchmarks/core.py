"""Exact teaching: how near lessons come, their time and rounds, of this code and of another beside it.

    python -m benchmarks core                                              # every quick case, 5 seeds
    python -m benchmarks core --cases 5k10,20k30 --seeds 20 --against ../other-checkout
    python -m benchmarks core --cases all --against ../other-checkout      # 500,000 rows, 100 columns, many classes as well

Both codes teach the same pools, in turns, in processes of their own with one thread for linear algebra (--threads). Medians
over seeds; ratios are to the other code. Wall time is what a user waits, processor time what it costs on a machine that
others use. Seeds start at 1,000: nothing was tuned on them.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import CASES, FASHION, Case
from benchmarks.table import Measurements, show

ROOT = Path(__file__).parents[1]
COLUMNS = (
    "case", "seeds", "risk", "worst", "ratio", "apart", "ratio", "wall s", "ratio", "cpu s", "ratio", "fits", "rounds",
    "before", "proved",
)  # fmt: skip
"""apart: distance in predictions; fits: wall time over that of one fit of the learner on all rows; proved: lessons whose
goal is proved to be out of reach."""


class Server:
    """A process that teaches with the code of one checkout."""

    def __init__(self, checkout: Path, threads: int) -> None:
        source = checkout / "src"
        if not (source / "superteach").is_dir():
            raise SystemExit(f"--against {checkout}: there is no src/superteach in it")
        limit = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        self._process = subprocess.Popen(
            [sys.executable, ROOT / "benchmarks" / "lesson_server.py"],
            env={**os.environ, **limit, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def lesson(self, task: Path, numbers: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Teach one task that lies in a file, with some of the code's numbers changed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(
            json.dumps({"task": str(task), "numbers": numbers or {}, "fit": numbers is None}),
            file=self._process.stdin,
            flush=True,
        )
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process that teaches {task.stem} died with code {self._process.wait()}")
        return dict(json.loads(answer))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def measure(case: Case, seeds: Sequence[int], servers: Sequence[Server], folder: Path) -> list[list[dict[str, Any]]]:
    """Lessons by server and seed; servers take turns in being first."""
    lessons: list[list[dict[str, Any]]] = [[] for _ in servers]
    for seed in seeds:
        path = folder / "task.pickle"
        path.write_bytes(pickle.dumps(tuple(case.task(seed))))
        turns = range(len(servers)) if seed % 2 else reversed(range(len(servers)))
        for place in turns:
            lessons[place].append(servers[place].lesson(path))
    return lessons


def row(name: str, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> tuple[Any, ...]:
    """One line of the table."""
    for whose, lessons in (("", ours), ("before: ", theirs)):
        errors = [lesson["error"] for lesson in lessons if "error" in lesson]
        if errors:
            return (name, len(lessons), whose + errors[0])
    cells: list[Any] = [name, len(ours), _median(ours, "risk"), _worst(ours)]
    cells.append(_ratio(ours, theirs, "risk"))
    for key in ("predictions", "seconds", "processor"):
        cells += [_median(ours, key), _ratio(ours, theirs, key)]
    cells += [_median(ours, "fits"), int(_median(ours, "rounds")), int(_median(theirs, "rounds")) if theirs else ""]
    return (*cells, sum(lesson["proved"] for lesson in ours))


def _values(lessons: list[dict[str, Any]], key: str) -> Any:
    return np.array([np.nan if lesson[key] is None else lesson[key] for lesson in lessons])


def _median(lessons: list[dict[str, Any]], key: str) -> float:
    return float(np.median(_values(lessons, key)))


def _worst(lessons: list[dict[str, Any]]) -> float:
    return float(_values(lessons, "risk").max())


def _ratio(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], key: str) -> float | str:
    """Ours over theirs: of the medians for risks, whose seeds differ a hundredfold; the median over seeds for times."""
    if not theirs:
        return ""
    if key in ("seconds", "processor"):
        return float(np.median(_values(ours, key) / _values(theirs, key)))
    return _median(ours, key) / _median(theirs, key)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks core", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="another checkout of superteach, whose code is measured beside")
    parser.add_argument(
        "--cases", default="quick", help=f"names with commas, quick, or all; there are {', '.join(CASES)}"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=1_000, help="the first seed")
    parser.add_argument("--threads", type=int, default=1, help="threads of linear algebra")
    return parser.parse_args(arguments)


def names(wanted: str) -> list[str]:
    """Return the cases that are asked for, and can be made here."""
    groups = {"all": list(CASES), "quick": [name for name, case in CASES.items() if not case.slow]}
    asked = groups.get(wanted) or wanted.split(",")
    unknown = [name for name in asked if name not in CASES]
    if unknown:
        raise SystemExit(f"no case named {unknown[0]!r}; there are {', '.join(CASES)}, quick and all")
    return [name for name in asked if name != "fashion" or FASHION.is_dir() or wanted != "all"]


def main(arguments: Sequence[str]) -> None:
    """Measure the cases asked for."""
    options = parsed(arguments)
    checkouts = [ROOT] + ([options.against.resolve()] if options.against else [])
    for table in run(options, checkouts):
        show(table)


def run(options: argparse.Namespace, checkouts: Sequence[Path]) -> Iterator[Measurements]:
    """Yield the table of all cases; lines are printed as they are measured."""
    seeds = range(options.first, options.first + options.seeds)
    servers = [Server(checkout, options.threads) for checkout in checkouts]
    table = Measurements(f"Lessons of match; ratios to {checkouts[-1] if len(checkouts) > 1 else 'nothing'}", COLUMNS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            measure(CASES["few400"], [0], servers, Path(folder))  # imports are no part of a lesson
            for name in names(options.cases):
                case = CASES[name]
                one = case.kind in ("digits", "Fashion-MNIST")  # published rows are the same for every seed
                lessons = measure(case, seeds[:1] if one else seeds, servers, Path(folder))
                table.rows.append(row(name, lessons[0], lessons[1] if len(servers) > 1 else []))
                print(*(f"{cell:.3g}" if isinstance(cell, float) else cell for cell in table.rows[-1]), file=sys.stderr)
    finally:
        for server in servers:
            server.close()
    yield table

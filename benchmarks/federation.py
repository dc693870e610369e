"""A federation on one machine: what a round costs, what a lesson costs beyond its own work, what idling costs.

Run by itself (python -m benchmarks.federation): it needs the extra superteach[nvflare] and starts real processes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from benchmarks.census import COLUMNS, LARGE, TARGET, join_states, write_states
from benchmarks.table import Measurements, show
from benchmarks.town import Town
from superteach.datasets import make_classification_pool

TEACHERS = ("north", "south", "west")
WIDTHS = (10, 30, 100)
TABLES = ("idle", "rounds", "lesson", "slow", "census", "promise")
EXTRA = 0.3
"""Seconds by which the slow teacher's answers take longer; the others' take some 0.03."""


def run(names: Sequence[str], rows: int = 100_000, idle: float = 60.0) -> Iterator[Measurements]:
    """Yield the tables of this benchmark that are named."""
    for name, measure in (("slow", _slow), ("census", _census), ("promise", _promise)):
        if name in names:
            with tempfile.TemporaryDirectory(prefix="superteach-") as folder:
                yield measure(Path(folder))
    if not {"idle", "rounds", "lesson"} & set(names):
        return
    with tempfile.TemporaryDirectory(prefix="superteach-") as folder:
        home = Path(folder)
        with Town(home, TEACHERS) as town:
            town.open_policies()
            town.serve()
            if "idle" in names or "rounds" in names:
                _join(town, _write(home, 3 * 200, max(WIDTHS)))
                if "idle" in names:
                    yield _idle(town, idle)
                if "rounds" in names:
                    yield _rounds(town)
                for name in TEACHERS:
                    town.stop(name)
            if "lesson" in names:
                files = _write(home, 3 * rows, 10)
                _join(town, files)
                yield _lesson(town, files, rows)


def _write(home: Path, rows: int, width: int) -> list[Path]:
    X, y, owner = make_classification_pool(rows, width, len(TEACHERS), 0)
    files = []
    for number, name in enumerate(TEACHERS):
        own = np.flatnonzero(owner == number)
        columns = {f"x{column}": X[own, column] for column in range(width)}
        files.append(home / f"{name}.parquet")
        parquet.write_table(pa.table({**columns, "label": y[own].astype(np.int64)}), files[-1])
    return files


def _join(town: Town, files: list[Path]) -> None:
    for name, file in zip(TEACHERS, files, strict=True):
        town.join(name, "--data", str(file), "--target", "label")
    town.wait_joined(TEACHERS, 180.0)


def _teach(town: Town, *options: str) -> tuple[dict[str, Any], float]:
    """One lesson from the command line: what it says of itself, and the seconds of the whole command."""
    out = town.home / "lesson"
    started = time.perf_counter()
    usual = ("--promise", "open", "--learner", "logistic", "--goal", "perturbed")
    stored = ("--out", str(out), "--overwrite", "--json")
    done = town.run("teach", *usual, *stored, *options, seconds=900.0)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout), time.perf_counter() - started


def _idle(town: Town, seconds: float) -> Measurements:
    before = {name: _cpu(town, name) for name in ("server", *TEACHERS)}
    time.sleep(seconds)
    table = Measurements(f"Nobody teaches, {seconds:g} seconds", ("who", "processes", "resident MB", "% of a core"))
    for name in ("server", TEACHERS[0]):
        members = town.processes(name)
        memory = sum(member.memory_info().rss for member in members) / 1e6
        table.rows.append((name, len(members), memory, 100.0 * (_cpu(town, name) - before[name]) / seconds))
    return table


def _cpu(town: Town, name: str) -> float:
    times = [member.cpu_times() for member in town.processes(name)]
    return float(sum(entry.user + entry.system for entry in times))


def _rounds(town: Town) -> Measurements:
    table = Measurements(
        "Rounds of lessons over 3 teachers with 200 rows each (so that the rows cost nothing)",
        ("columns", "rounds", "median ms", "90 % ms", "most ms", "largest reply kB"),
    )
    for width in WIDTHS:
        features = ",".join(f"x{column}" for column in range(width))
        stored, _ = _teach(
            town,
            "--federation",
            str(town.folder),
            "--features",
            features,
            "--budget",
            "300:600",
            "--no-intercept",
        )
        spent = sorted(1e3 * entry["seconds"] for entry in stored["ledger"])
        largest = max(entry["bytes_in"] for entry in stored["ledger"]) / len(TEACHERS) / 1e3
        table.rows.append(
            (width, len(spent), statistics.median(spent), spent[int(0.9 * len(spent))], spent[-1], largest)
        )
    return table


def _lesson(town: Town, files: list[Path], rows: int) -> Measurements:
    """The same lesson over the federation and in one process; what the former adds to the teachers' own work."""
    how = ("--method", "match", "--budget", "2000", "--rounding", "alone", "--risk-target", "1e-3")
    there, whole = _teach(town, "--federation", str(town.folder), *how)
    here, _ = _teach(town, *map(str, files), "--target", "label", *how)
    if there["model"] != here["model"]:
        raise RuntimeError("the two lessons differ")
    work = 0.0
    answers = [
        {entry["number"]: entry["seconds"] for entry in town.audit(name) if entry["kind"] == "ask"} for name in TEACHERS
    ]
    for entry in there["ledger"]:
        work += max(answer[entry["number"]] for answer in answers)
    inside = sum(entry["seconds"] for entry in there["ledger"])
    return Measurements(
        f"match, 3 teachers with {rows:,} rows each, 10 columns: the same model to the last bit",
        ("rounds", "in rounds s", "slowest teacher's work s", "beyond it s", "start, stop and fetch s"),
        [(there["rounds"], inside, work, inside - work, whole - there["seconds"])],
    )


def _slow(home: Path) -> Measurements:
    """The paper's rule to a relative gap of 1e-10, with and without waiting for a slow teacher."""
    slow = {"PYTHONPATH": str(Path(__file__).parent / "slow"), "SUPERTEACH_SLOW": str(EXTRA)}
    table = Measurements(
        f"To a gap of 1e-10 over 3 teachers with 1,000 rows each, goal weight 10; {TEACHERS[0]} needs {EXTRA:g} s more",
        ("rounds", f"answers of {TEACHERS[0]}", "of all", "seconds", "rel. gap"),
    )
    with Town(home, TEACHERS) as town:
        town.open_policies()
        town.serve()
        for name, file in zip(TEACHERS, _write(home, 3_000, 10), strict=True):
            environment = slow if name == TEACHERS[0] else None
            town.join(name, "--data", str(file), "--target", "label", environment=environment)
        town.wait_joined(TEACHERS)
        for staleness in (0, 10):
            stored, _ = _teach(
                town,
                *(
                    "--federation",
                    str(town.folder),
                    "--method",
                    "dual",
                    "--solver",
                    "block",
                    "--no-intercept",
                ),
                *("--goal-weight", "10", "--budget", "300", "--staleness", str(staleness)),
            )
            rounds = [entry for entry in stored["ledger"] if entry["stage"] == "dual"]
            shared = sum(entry["teacher"] is None for entry in rounds)
            own = shared + sum(entry["teacher"] == TEACHERS[0] for entry in rounds)
            answers = len(rounds) + (len(TEACHERS) - 1) * shared
            table.rows.append(
                (
                    f"asynchronous, staleness {staleness}" if staleness else "synchronous",
                    own,
                    answers,
                    sum(entry["seconds"] for entry in rounds),
                    stored["gap"][-1] / abs(stored["objective"][-1]),
                )
            )
    return table


def _census(home: Path) -> Measurements:
    """Ten states, all their rows, over ten teachers' processes and in one."""
    files = write_states(home, LARGE)
    how = ("--method", "match", "--budget", "5000", "--rounding", "alone", "--standardize", "--C", "0.1")
    with Town(home, LARGE) as town:
        town.open_policies()
        town.serve()
        join_states(town, files)
        there, whole = _teach(town, "--federation", str(town.folder), "--teachers", ",".join(LARGE), *how)
    here, alone = _teach(town, *map(str, files.values()), "--target", TARGET, *how)
    if there["model"] != here["model"]:
        raise RuntimeError("the two lessons differ")
    return Measurements(
        f"match, 5,000 of {there['pool_rows']:,} rows of {len(LARGE)} states, {len(COLUMNS)} columns: "
        "the same model to the last bit",
        (
            "where",
            "rounds",
            "in rounds s",
            "whole command s",
            "risk",
            "all rows' risk",
            "MB sent and received",
        ),
        [
            (
                where,
                stored["rounds"],
                sum(entry["seconds"] for entry in stored["ledger"]),
                took,
                stored["risk"],
                stored["pool_risk"],
                stored["bytes"] / 1e6,
            )
            for where, stored, took in (("federation", there, whole), ("one process", here, alone))
        ],
    )


def _promise(home: Path, lessons: int = 5) -> Measurements:
    """Lessons under "epsilon" with kits as they are made: masks, noise, ledgers on disk."""
    rows, goal = 10_000, home / "goal.json"
    goal.write_text(json.dumps(np.random.default_rng(0).standard_normal(10).tolist()), encoding="utf-8")
    with Town(home, TEACHERS) as town:
        files = _write(home, 3 * rows, 10)
        for name, file in zip(TEACHERS, files, strict=True):
            town.declare(name, file, "label")
        town.serve()
        _join(town, files)
        how = ("--promise", "epsilon", "--epsilon", "0.2", "--goal", str(goal), "--budget", "0.04", "--no-intercept")
        found = [_teach(town, "--federation", str(town.folder), *how) for _ in range(lessons)]
        spans = [_span(town, stored["lesson"]) for stored, _ in found]
    inside = [sum(entry["seconds"] for entry in stored["ledger"]) for stored, _ in found]
    return Measurements(
        f"epsilon, 3 teachers with {rows:,} rows each, 10 columns, {lessons} lessons (asked: 20 rounds, 3 s after its job)",
        (
            "rounds",
            "first hello to last end s, median",
            "most",
            "in rounds s, median",
            "whole command s, median",
            "load",
        ),
        [
            (
                max(stored["rounds"] for stored, _ in found),
                statistics.median(spans),
                max(spans),
                statistics.median(inside),
                statistics.median(whole for _, whole in found),
                os.getloadavg()[1],
            )
        ],
    )


def _span(town: Town, lesson: str) -> float:
    """Seconds from the first message of a lesson that any teacher began to answer to the last one that any answered."""
    told = [entry for name in TEACHERS for entry in town.audit(name) if entry.get("lesson") == lesson]
    ends = [datetime.fromisoformat(entry["time"]).timestamp() for entry in told]
    return max(ends) - min(end - float(entry["seconds"]) for end, entry in zip(ends, told, strict=True))


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.federation", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(TABLES)} (default: all)")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of each teacher in the large lesson")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds of watching nothing happen")
    arguments = parser.parse_args()
    for table in run(arguments.names or TABLES, arguments.rows, arguments.idle):
        show(table)


if __name__ == "__main__":
    main()

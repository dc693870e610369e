"""How near lessons of about seventy pools come, and what they cost: of this code, of another, or of figures that were kept.

    python -m benchmarks oracle --out FILE                              # measure this code, and keep the figures
    python -m benchmarks oracle --against benchmarks/oracle/today.jsonl # compare it with figures that were kept
    python -m benchmarks oracle --checkout DIR --out FILE               # teach with another checkout's code too, in turns

SUPERTEACH_DATA names the folder with the published tables; pools whose table is missing are named. Each lesson is taught in
a process of its own, with one thread of linear algebra, and ended after 60 s of the processor. scikit-learn refits the
learner on the chosen rows. FILE grows by a line a lesson, and a second run goes on where the first ended; figures of
the other checkout are kept beside FILE, under the name of its commit.

"here" and "there" are medians over seeds of the risk to the goal, moved along directions that no row sees; or, marked ~,
where some lesson's goal is proved out of reach, of the distance in predictions. "ratio" is the geometric mean over seeds of
here / there; "worst" the largest. Seconds are those of the processor. Those of a file are compared through how many plain
fits of the learner on all rows a lesson takes.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.oracle.judge import ROOT, Judge, Server, write
from benchmarks.oracle.pools import POOLS, Pool

FIRST = 1_000
"""The first seed: nothing was tuned on those that follow."""
LONG = ((0.5, 5), (10.0, 3), (60.0, 2), (np.inf, 1))
"""Seconds that a lesson takes at most, and seeds that are measured then."""
FLOOR = 1e-10
"""Distances below are what scikit-learn's own fits leave, and count as equal."""
CLEAR = 1.2
"""Factor below which a difference says nothing."""
Record = dict[str, Any]


class Figures:
    """Lessons of one code by pool and seed, kept in a file where one is named."""

    def __init__(self, checkout: Path, path: Path | None) -> None:
        self.lessons: dict[tuple[str, int], Record] = {}
        self._path, self._lock, self._head = path, threading.Lock(), about(checkout)
        if path is not None and path.exists():
            head, self.lessons = read(path)
            if head["source"] != self._head["source"]:
                raise SystemExit(f"{path} holds figures of {head['commit']}, whose src/ is another: name another file")
        elif path is not None:
            path.write_text(json.dumps(self._head) + "\n", "utf-8")

    def add(self, record: Record) -> None:
        """Keep one lesson."""
        with self._lock:
            self.lessons[record["pool"], record["seed"]] = record
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")

    def sort(self) -> None:
        """Write the file anew, in the order of pools and seeds."""
        if self._path is not None:
            lines = [self._head, *(self.lessons[key] for key in sorted(self.lessons))]
            self._path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def about(checkout: Path) -> Record:
    """What a code is, and what it is measured with; `source` is Git's name for the content of src/."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", checkout, *arguments], capture_output=True, text=True).stdout.strip()

    changed = "+" if git("status", "--porcelain", "--untracked-files=no", "src") else ""
    source = {
        "commit": git("rev-parse", "--short=7", "HEAD"),
        "source": git("rev-parse", "--short=7", "HEAD:src") + changed,
    }
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {**source, "python": python_version(), **packages}


def read(path: Path) -> tuple[Record, dict[tuple[str, int], Record]]:
    """The head of a file of figures, and its lessons."""
    head, *records = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return head, {(record["pool"], record["seed"]): record for record in records}


def teach(pool: Pool, seed: int, servers: Sequence[Server], codes: Sequence[Figures], folder: Path) -> None:
    """Teach one pool with every code that has not been measured on it; they take turns in being first."""
    places = [place for place, code in enumerate(codes) if (pool.name, seed) not in code.lessons]
    if not places:
        return
    task = pool.task(seed)
    judge, path = Judge(task), write(task, folder / f"{pool.name}-{seed}.pickle")
    for place in places if seed % 2 else reversed(places):
        lesson = servers[place].lesson(path)
        if "rows" in lesson:
            rows = lesson.pop("rows")
            lesson = {"n": len(rows), **lesson, **judge.measure(rows)}
            lesson = {"error": lesson["error"]} if "error" in lesson else lesson
        record = {"pool": pool.name, "seed": seed, **{name: _short(value) for name, value in lesson.items()}}
        codes[place].add(record)
        print(*(f"{name} {value}" for name, value in record.items()), file=sys.stderr, flush=True)
    path.unlink()


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def seeds(pool: Pool, most: int, codes: Sequence[Figures], recorded: Iterable[tuple[str, int]]) -> Iterator[int]:
    """Seeds of a pool, fewer where lessons take long; of recorded figures those that are there."""
    known = sorted(seed for name, seed in recorded if name == pool.name)
    for count, seed in enumerate((known or range(FIRST, FIRST + 5))[:most]):
        lessons = [lesson for code in codes for (name, _), lesson in code.lessons.items() if name == pool.name]
        longest = max((_seconds(lesson) for lesson in lessons), default=0.0)
        if count >= next(allowed for limit, allowed in LONG if longest <= limit) and (not known or longest == np.inf):
            return
        yield seed


def _seconds(lesson: Record) -> float:
    return float(lesson.get("seconds", np.inf if lesson["error"].startswith("over") else 0.0)) if lesson else 0.0


class Line(NamedTuple):
    """One pool: figures of both codes."""

    pool: str
    apart: bool
    """Whether distances are those of predictions."""
    here: float
    there: float
    ratios: tuple[float, ...]
    """Distances here over those there, by seed."""
    seconds: float
    slower: float
    memory: float
    larger: float
    failed: str

    @property
    def ratio(self) -> float:
        """Geometric mean over seeds."""
        return mean(self.ratios)

    @property
    def worse(self) -> bool:
        """Whether every seed ends farther away."""
        return bool(self.ratios) and min(self.ratios) > 1.0

    def __str__(self) -> str:
        numbers = (self.here, self.there, self.ratio, max(self.ratios, default=np.nan), self.seconds, self.slower)
        cells = [f"{number:>9.3g}" for number in (*numbers, self.memory, self.larger)]
        name = f"{self.pool} ~" if self.apart else self.pool
        return f"{name:<18}" + "".join(cells).replace("nan", "  –") + ("  worse" if self.worse else "") + self.failed


TITLE = f"{'pool':<18}" + "".join(
    f"{word:>9}" for word in ("here", "there", "ratio", "worst", "seconds", "ratio", "MB", "ratio")
)


def mean(ratios: Iterable[float]) -> float:
    """Geometric mean of those that are known."""
    logs = [np.log(ratio) for ratio in ratios if np.isfinite(ratio)]
    return float(np.exp(np.mean(logs))) if logs else np.nan


def line(pool: str, ours: dict[int, Record], theirs: dict[int, Record], beside: bool) -> Line:
    """Compare the lessons of one pool by seed."""
    good, other = ({seed: one for seed, one in some.items() if "error" not in one} for some in (ours, theirs))
    apart = any(one["proved"] for one in [*good.values(), *other.values()])
    key = "predictions" if apart else "risk"
    pairs = [(good[seed], other[seed]) for seed in sorted(good.keys() & other.keys())]
    unit = (lambda one: 1.0) if beside else (lambda one: one["fit"])
    times = [one["seconds"] / unit(one) / (before["seconds"] / unit(before)) for one, before in pairs]
    failed = [
        f"  {whose}: {len(errors)} × {errors[0][:40]}"
        for whose, some in (("here", ours), ("there", theirs))
        if (errors := [one["error"] for one in some.values() if "error" in one])
    ]

    def median(some: dict[int, Record], name: str) -> float:
        return float(np.median([one[name] for one in some.values()])) if some else np.nan

    return Line(
        pool,
        apart,
        median(good, key),
        median(other, key),
        tuple(max(one[key], FLOOR) / max(before[key], FLOOR) for one, before in pairs),
        median(good, "seconds"),
        mean(times),
        median(good, "memory"),
        mean(max(one["memory"], 1.0) / max(before["memory"], 1.0) for one, before in pairs),
        "".join(failed),
    )


def compare(ours: dict[tuple[str, int], Record], theirs: dict[tuple[str, int], Record], beside: bool) -> list[Line]:
    """Compare all pools that were measured here."""

    def of(lessons: dict[tuple[str, int], Record], pool: str) -> dict[int, Record]:
        return {seed: lesson for (name, seed), lesson in lessons.items() if name == pool}

    return [line(pool, of(ours, pool), of(theirs, pool), beside) for pool in POOLS if of(ours, pool)]


def totals(lines: Sequence[Line], lessons: Iterable[Record]) -> str:
    """What all pools come to."""
    ratios = [line.ratio for line in lines if line.ratios]
    nearer, farther = sum(ratio < 1 / CLEAR for ratio in ratios), sum(ratio > CLEAR for ratio in ratios)
    times, sizes = mean(line.slower for line in lines), mean(line.larger for line in lines)
    worse = [line.pool for line in lines if line.worse]
    bounded = [one for one in lessons if one.get("bound")]
    reached = [one[one["measure"].replace("coefficients", "risk")] / one["bound"] for one in bounded]
    text = [f"{len(lines)} pools, of which {sum(bool(line.failed) for line in lines)} with failures"]
    if ratios:
        text += [
            f"geometric means: distance {mean(ratios):.3g}, seconds {times:.3g}, memory {sizes:.3g}",
            f"{nearer} pools nearer and {farther} farther by more than {CLEAR} ×",
            f"{len(worse)} worse in all seeds: {', '.join(worse)}",
        ]
    if reached:
        exceeded = sum(ratio < 1 - 1e-6 for ratio in reached)
        text.append(
            f"{len(reached)} bounds, {exceeded} of them refuted; reached / proved {np.median(reached):.3g} (median)"
        )
    return "\n".join(text)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks oracle", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the figures here (JSON, a line a lesson)")
    parser.add_argument("--against", type=Path, metavar="FILE", help="figures to compare with")
    parser.add_argument(
        "--checkout", type=Path, metavar="DIR", help="another checkout, whose code is taught with in turns"
    )
    parser.add_argument(
        "--pools", default=",".join(POOLS), help=f"names with commas (default: all): {', '.join(POOLS)}"
    )
    parser.add_argument(
        "--seeds", type=int, default=5, help="of each pool at most; long lessons have fewer (default 5)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="pools at once (default 1)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.pools.split(",") if name not in POOLS]
    if unknown:
        parser.error(f"no pool named {unknown[0]!r}; there are {', '.join(POOLS)}")
    for name in ("against", "checkout"):
        if (path := getattr(options, name)) is not None and not path.exists():
            parser.error(f"--{name} {path} is not there")
    return options


def main(arguments: Sequence[str]) -> None:
    """Measure, and compare."""
    options = parsed(arguments)
    checkouts = [ROOT, *([options.checkout.resolve()] if options.checkout else [])]
    files = [options.out]
    if options.checkout:
        files.append(options.out and options.out.with_name(f"{about(checkouts[1])['commit']}.jsonl"))
    codes = [Figures(checkout, path) for checkout, path in zip(checkouts, files, strict=True)]
    recorded = read(options.against)[1] if options.against else {}
    idle: queue.SimpleQueue[list[Server]] = queue.SimpleQueue()
    everyone = [[Server(checkout) for checkout in checkouts] for _ in range(options.jobs)]
    for servers in everyone:
        idle.put(servers)

    def measure(pool: Pool) -> str:
        servers = idle.get()
        try:
            for seed in seeds(pool, options.seeds, codes, recorded):
                teach(pool, seed, servers, codes, Path(folder))
        except FileNotFoundError as error:
            return f"left out: {pool.name}, whose table is missing: {error.filename}"
        finally:
            idle.put(servers)
        return ""

    wanted = [POOLS[name] for name in options.pools.split(",")]
    with (
        tempfile.TemporaryDirectory() as folder,
        threadpool_limits(1),
        ThreadPoolExecutor(options.jobs) as workers,
    ):
        missing = list(filter(None, workers.map(measure, wanted)))
    for servers in everyone:
        for server in servers:
            server.close()
    for code in codes:
        code.sort()
    ours = {key: lesson for key, lesson in codes[0].lessons.items() if key[0] in options.pools.split(",")}
    lines = compare(ours, recorded or codes[-1].lessons if len(codes) > 1 or recorded else {}, not recorded)
    print(TITLE, *lines, totals(lines, ours.values()), *missing, sep="\n")

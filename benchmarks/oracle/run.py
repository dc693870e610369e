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
here / there; "worst" the largest. Seconds are those of the processor, "slower" their ratio; those of a file are compared
through how many plain fits of the learner on all rows a lesson takes. MB is the peak beyond the rows, "larger" its ratio.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from benchmarks.oracle.judge import ROOT, Judge, Server, write
from benchmarks.oracle.pools import POOLS, Pool

FIRST = 1_000
"""The first seed: nothing was tuned on those that follow."""
SEEDS = ((0.5, 5), (10.0, 3), (60.0, 2), (np.inf, 1))
"""Seconds that lessons take at most, and how many seeds are measured then."""
FLOOR = 1e-10
"""Distances below are what scikit-learn's own fits leave, and count as equal."""
CLEAR = 1.2
"""Factor below which a difference says nothing."""
EQUAL = 1.01
"""Factor up to which a lesson is as near as another."""
NUMBERS = ("n", "risk", "predictions", "agreement", "bound", "rounds", "seconds", "fit", "memory")
COLUMNS = ("pool", "seed", *NUMBERS, "measure", "proved", "error")
MEANS = {"distance": "ratio", "seconds": "slower", "memory": "larger"}
Record = dict[str, Any]


class Figures:
    """Lessons of one code by pool and seed, kept in a file where one is named."""

    def __init__(self, checkout: Path, path: Path | None) -> None:
        self._path, self._head = path, about(checkout)
        self.lessons: dict[tuple[str, int], Record] = {}
        if path is not None and path.exists():
            now, (self._head, self.lessons) = self._head, read(path)
            if self._head["source"] != now["source"]:
                raise SystemExit(
                    f"{path} holds figures of {self._head['commit']}, whose src/ is another: name another file"
                )
        elif path is not None:
            self.write()

    def add(self, record: Record) -> None:
        """Keep one lesson."""
        self.lessons[record["pool"], record["seed"]] = record
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    def write(self) -> None:
        """Write the file anew, in the order of pools and seeds."""
        if self._path is not None:
            lines = [self._head, *(self.lessons[key] for key in sorted(self.lessons))]
            self._path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def about(checkout: Path) -> Record:
    """What a code is, and what it is measured with; `source` is Git's name for the content of src/."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", checkout, *arguments], capture_output=True, text=True).stdout.strip()

    changed = "+" if git("status", "--porcelain", "--untracked-files=no", "src") else ""
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    commit, source = git("rev-parse", "--short=7", "HEAD"), git("rev-parse", "--short=7", "HEAD:src") + changed
    return {"commit": commit, "source": source, "python": python_version(), **packages}


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
            lesson |= {"n": len(rows)} | judge.measure(rows)
        lesson |= {"pool": pool.name, "seed": seed}
        known = COLUMNS if "error" not in lesson else ("pool", "seed", "error")
        record = {name: _short(lesson[name]) for name in known if name in lesson}
        codes[place].add(record)
        print(*(f"{name} {value}" for name, value in record.items()), file=sys.stderr, flush=True)
    path.unlink()


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def measure(
    pool: Pool, most: int, servers: Sequence[Server], codes: Sequence[Figures], recorded: Any, folder: Path
) -> None:
    """Teach the recorded seeds of a pool, or else five, or fewer where lessons take long."""
    known = sorted(seed for name, seed in recorded if name == pool.name)
    longest = 0.0
    for count, seed in enumerate((known or range(FIRST, FIRST + 5))[:most]):
        if count >= next(allowed for limit, allowed in SEEDS if longest <= limit) and (not known or longest == np.inf):
            return
        teach(pool, seed, servers, codes, folder)
        for lesson in [code.lessons[pool.name, seed] for code in codes]:
            ended = lesson.get("error", "").startswith("over")
            longest = max(longest, np.inf if ended else lesson.get("seconds", 0.0))


def mean(ratios: Any) -> float:
    """The geometric mean."""
    return float(np.exp(np.log(ratios).mean()))


def compare(ours: Sequence[Record], theirs: Sequence[Record], beside: bool) -> tuple[pd.DataFrame, str]:
    """A line for each pool, and what all of them come to."""
    floats = dict.fromkeys(NUMBERS, float)
    here, there = (pd.DataFrame(some, columns=list(COLUMNS)).astype(floats) for some in (ours, theirs))
    both = here.merge(there, on=["pool", "seed"], how="left", suffixes=("", " there"))
    for name in ("proved", "proved there"):
        both[name] = both[name].eq(True)
    both["far"] = (both.proved | both["proved there"]).groupby(both.pool).transform("any")
    both["here"] = both.predictions.where(both.far, both.risk)
    both["there"] = both["predictions there"].where(both.far, both["risk there"])
    units = 1.0 if beside else both["fit there"] / both.fit
    both["ratio"] = both.here.clip(lower=FLOOR) / both.there.clip(lower=FLOOR)
    both["slower"] = both.seconds / both["seconds there"] * units
    both["larger"] = both.memory.clip(lower=1.0) / both["memory there"].clip(lower=1.0)
    pools = both.groupby("pool", sort=False)
    table = pools.agg(
        here=("here", "median"), there=("there", "median"), ratio=("ratio", mean), worst=("ratio", "max"),
        seconds=("seconds", "median"), slower=("slower", mean), MB=("memory", "median"), larger=("larger", mean),
    )  # fmt: skip
    worse, failed = pools.ratio.min() > EQUAL, pools[["error", "error there"]].count()
    table["note"] = np.where(worse, "worse", "")
    for name, where in (("error", "here"), ("error there", "there")):
        table["note"] += [f" {count} failed {where}" if count else "" for count in failed[name]]
    reached = (both.predictions.where(both.measure == "predictions", both.risk) / both.bound)[both.bound > 0]
    text = [f"{len(table)} pools"]
    if len(reached):
        text[0] += f"; {len(reached)} bounds, of which {sum(reached < 1 - 1e-6)} refuted"
        text[0] += f"; reached / proved {reached.median():.3g} (median)"
    if theirs:
        nearer, farther = sum(table.ratio < 1 / CLEAR), sum(table.ratio > CLEAR)
        means = (f"{name} {mean(table[key]):.3g}" for name, key in MEANS.items())
        text.append(f"geometric means, here / there: {', '.join(means)}")
        text.append(f"{nearer} pools nearer and {farther} farther by more than {CLEAR} ×")
        text.append(f"{sum(worse)} worse in all seeds: {', '.join(table.index[worse])}")
    table = table.rename(index={pool: f"{pool} ~" for pool in table.index[pools.far.any()]})
    return table if theirs else table[["here", "seconds", "MB", "note"]], "\n".join(text)


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
    options.pools = options.pools.split(",")
    if unknown := [name for name in options.pools if name not in POOLS]:
        parser.error(f"no pool named {unknown[0]!r}; there are {', '.join(POOLS)}")
    for name in ("against", "checkout"):
        if (path := getattr(options, name)) is not None and not path.exists():
            parser.error(f"--{name} {path} is not there")
    return options


def main(arguments: Sequence[str]) -> None:
    """Measure, and compare."""
    options = parsed(arguments)
    checkouts, files = [ROOT], [options.out]
    if options.checkout:
        checkouts.append(options.checkout.resolve())
        files.append(options.out and options.out.with_name(f"{about(checkouts[1])['commit']}.jsonl"))
    codes = [Figures(checkout, path) for checkout, path in zip(checkouts, files, strict=True)]
    recorded = read(options.against)[1] if options.against else {}
    idle: queue.SimpleQueue[list[Server]] = queue.SimpleQueue()
    for _ in range(options.jobs):
        idle.put([Server(checkout) for checkout in checkouts])

    def work(name: str) -> str:
        servers = idle.get()
        try:
            measure(POOLS[name], options.seeds, servers, codes, recorded, Path(folder))
        except FileNotFoundError as error:
            return f"left out: {name}, whose table is missing: {error}"
        finally:
            idle.put(servers)
        return ""

    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1), ThreadPoolExecutor(options.jobs) as workers:
        missing = list(filter(None, workers.map(work, options.pools)))
    for _ in range(options.jobs):
        for server in idle.get():
            server.close()
    for code in codes:
        code.write()
    beside = bool(options.checkout) and not options.against
    theirs = recorded if options.against else codes[-1].lessons if beside else {}
    ours = [lesson for name in options.pools for (pool, _), lesson in sorted(codes[0].lessons.items()) if pool == name]
    if ours:
        table, text = compare(ours, list(theirs.values()), beside)
        print(table.to_string(float_format="{:.3g}".format, na_rep="–"), text, sep="\n")
    print(*missing, sep="\n")

"""Lessons across organisations on one machine: python -m benchmarks federation.

Real processes: `superteach site run` for every site, `superteach teach --box` for every lesson, a folder as the box.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.table import Measurements

COMMAND = (sys.executable, "-m", "superteach")
COLUMNS, ROWS, SIZE = 10, 500, 0.1


def superteach(*arguments: object) -> None:
    """Run a command that must succeed."""
    subprocess.run([*COMMAND, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def write_rows(path: Path, rows: int, seed: int) -> None:
    """Write rows of a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, COLUMNS))
    y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-X[:, 0] + 0.5 * X[:, 1]))).astype(float)
    names = ",".join([*(f"x{column}" for column in range(COLUMNS)), "y"])
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=names, comments="", fmt="%.9g")


@contextmanager
def running(folder: Path, count: int, privacy: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Make a federation of so many sites and keep their processes running."""
    names = [f"site{number:02d}" for number in range(count)]
    superteach("federation", "new", folder / "clinic", *(word for name in names for word in ("--site", name)))
    coef = {f"x{column}": 0.0 for column in range(COLUMNS)} | {"x0": 0.9, "x1": -0.5}
    (folder / "goal.json").write_text(json.dumps({"coef": coef, "intercept": 0.0, "positive": 1}))
    for seed, name in enumerate(names):
        write_rows(folder / f"{name}.csv", ROWS, seed)
        invitation = folder / "clinic" / "invitations" / f"{name}.json"
        data = ("--data", folder / f"{name}.csv", "--target", "y")
        superteach("site", "new", folder / name, "--invitation", invitation, *data)
        policy = folder / name / "policy.toml"
        policy.write_text(policy.read_text().replace('privacy = ["isolated"]', f'privacy = ["{privacy}"]'))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen([*COMMAND, "site", "run", str(folder / name)], **quiet) for name in names]  # type: ignore[call-overload]
    try:
        box = folder / "clinic" / "box" / "members"
        while not box.is_dir() or len(list(box.iterdir())) < count:
            time.sleep(0.1)
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


def megabytes(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Memory of a waiting process, and of the process beside it that looks at rows (0: there is none)."""
    waiting = psutil.Process(process.pid)
    return waiting.memory_info().rss / 1e6, sum(one.memory_info().rss for one in waiting.children()) / 1e6


def measure(count: int, privacy: str, lessons: int) -> tuple[Any, ...]:
    """Teach lessons; return a row of the table."""
    with tempfile.TemporaryDirectory() as made, running(Path(made), count, privacy) as processes:
        folder, seconds = Path(made), []
        asked = ("--learner", "logistic", "--goal", folder / "goal.json", "--budget", SIZE, "--privacy", privacy)
        more = ("--epsilon", 0.1) if privacy == "dp" else ()
        waiting = [megabytes(process)[0] for process in processes]
        for number in range(lessons):
            begun = time.perf_counter()
            superteach("teach", "--box", folder / "clinic", *asked, *more, "--out", folder / f"out{number}")
            seconds.append(time.perf_counter() - begun)
        working = [megabytes(process)[1] for process in processes]
        sizes = [sum(one.stat().st_size for one in place.iterdir()) for place in folder.glob("clinic/box/lessons/*")]
        questions = json.loads((folder / "out0" / "lesson.json").read_text())["rounds"]
        return (
            f"{privacy}, {count} sites", f"{seconds[0]:.1f}", f"{min(seconds[1:], default=float('nan')):.1f}", questions,
            f"{max(sizes) / 1e3:.0f}", f"{max(waiting):.0f}", f"{max(working):.0f}",
        )  # fmt: skip


def run(quick: bool) -> list[Measurements]:
    """Measure three and fifty sites."""
    heads = ("lesson", "s, first", "s, next", "questions", "kB", "MB, waiting", "MB, working")
    cases = [(3, "isolated", 3), (3, "dp", 3), (3, "none", 2), *([] if quick else [(50, "isolated", 1)])]
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return [Measurements("federation: whole commands, and memory of a site", heads, [measure(*case) for case in cases])]

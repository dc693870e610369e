"""How soon a federation notices that a teacher is lost, and how long a lesson takes to begin anew without it.

Run by itself (python -m benchmarks.faults): it needs the extra superteach[nvflare] and starts real processes.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.federation import TEACHERS, _join, _write
from benchmarks.table import Measurements, show
from benchmarks.town import CLI, Town

ROUND = 20
FAULTS = {"killed": signal.SIGKILL, "standing still": signal.SIGSTOP}


def run(times: int = 2) -> Measurements:
    """South is struck in the middle of a lesson, in every way and so often."""
    table = Measurements(
        "One of 3 teachers is lost in the middle of a lesson of some 125 rounds, --on-loss drop",
        ("how", "noticed after s", "result after s"),
    )
    with tempfile.TemporaryDirectory(prefix="superteach-") as folder:
        home = Path(folder)
        files = _write(home, 3 * 200, 10)
        with Town(home, TEACHERS) as town:
            town.open_policies()
            town.serve()
            _join(town, files)
            for number in range(times):
                for how, fault in FAULTS.items():
                    table.rows.append((how, *_strike(town, fault, home / f"{how}-{number}")))
                    with contextlib.suppress(psutil.NoSuchProcess, KeyError):
                        town.stop("south")
                    town.join("south", "--data", str(files[1]), "--target", "label")
                    town.wait_joined(["south"], 180.0)
    return table


def _strike(town: Town, fault: signal.Signals, out: Path) -> tuple[float, float]:
    """Seconds from the signal to the new beginning, and to the result."""

    def heard(what: str) -> int:
        return sum(what in entry for entry in town.audit("north"))

    rounds, begun = heard("number"), heard("follows")
    lesson = subprocess.Popen(
        [
            *(*CLI, "teach", "--promise", "open", "--federation", str(town.folder), "--out", str(out)),
            *[
                "--learner",
                "logistic",
                "--goal",
                "perturbed",
                "--method",
                "dual",
                "--solver",
                "block",
                "--no-intercept",
            ],
            *["--budget", "90", "--on-loss", "drop"],
        ],
        stdout=subprocess.DEVNULL,
    )
    town.wait(lambda: heard("number") >= rounds + ROUND, 180.0, f"round {ROUND}")
    for process in town.processes("south"):
        process.send_signal(fault)
    struck = time.perf_counter()
    town.wait(lambda: heard("follows") > begun, 180.0, "the new beginning")
    noticed = time.perf_counter() - struck
    if lesson.wait(180.0):
        raise RuntimeError("the lesson failed")
    return noticed, time.perf_counter() - struck


if __name__ == "__main__":
    show(run())

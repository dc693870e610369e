"""Twenty teachers on one machine: does a lesson end, and how much memory is whose?

python -m benchmarks.crowd [TEACHERS]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from pyarrow import parquet

from benchmarks.town import CLI, Town

ROWS, COLUMNS = 500, 10


def memory(town: Town, names: list[str]) -> list[list[float]]:
    """MB of each teacher's processes that it shares with nobody (USS), the resident one first."""
    found = []
    for name in names:
        sizes = []
        for process in town.processes(name):
            try:
                sizes.append(process.memory_full_info().uss / 1e6)
            except psutil.Error:
                continue
        found.append(sizes)
    return found


def bare(code: str) -> float:
    """MB (USS) of a Python that has run these imports and nothing else."""
    said = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport psutil; print(psutil.Process().memory_full_info().uss / 1e6)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(said.stdout.split()[-1])


def main(teachers: int = 20) -> None:
    """Print what a crowd takes while it waits and while it is taught."""
    names = [f"t{number:02}" for number in range(teachers)]
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place, Town(Path(place), names) as town:
        town.open_policies()
        town.serve(seconds=300)
        for name in names:
            X = rng.standard_normal((ROWS, COLUMNS))
            y = (X.sum(axis=1) + rng.standard_normal(ROWS) > 0).astype(np.int64)
            table = {f"x{column}": X[:, column] for column in range(COLUMNS)}
            parquet.write_table(pa.table({**table, "y": y}), Path(place) / f"{name}.parquet")
            town.join(name, "--data", str(Path(place) / f"{name}.parquet"), "--target", "y")
        town.wait_joined(names, 600)
        idle = memory(town, names)
        most = [0.0]
        over = threading.Event()

        def watch() -> None:
            while not over.is_set():
                most[0] = max([most[0], *(sizes[1] for sizes in memory(town, names) if len(sizes) > 1)])
                time.sleep(2)

        threading.Thread(target=watch, daemon=True).start()
        start = time.perf_counter()
        command = "--learner logistic --goal perturbed --promise open --budget 200 --json --out"
        run = subprocess.run(
            [*CLI, "teach", "--federation", str(town.folder), *command.split(), str(Path(place) / "lesson")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        over.set()
        print(
            f"{teachers} teachers, lesson ended with {run.returncode} after {time.perf_counter() - start:.0f} seconds"
        )
        print(run.stderr[-400:])
        print(
            f"waiting: {np.median([sizes[0] for sizes in idle]):.0f} MB each (median), {max(s[0] for s in idle):.0f} at most"
        )
        print(f"the second process while a lesson runs: {most[0]:.0f} MB at most")
        idling = bare("import nvflare.private.fed.app.client.client_train")
        teaching = bare("import superteach.organisations.nvflare.client")
        print(f"of that: Python with NVFlare's client {idling:.0f} MB, with the code of a lesson {teaching:.0f} MB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

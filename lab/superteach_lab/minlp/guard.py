"""A solver in a process of its own: whatever it does, it ends at our limits and leaves nothing running."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from superteach.types import Positions
from superteach_lab.minlp.programme import Programme
from superteach_lab.processes.child import Child, check_interrupted
from superteach_lab.processes.inside import silence


@dataclass
class Said:
    """All that a solver said before it ended: its last point, its last bound, its last word."""

    rows: Positions | None = None
    bound: float | None = None
    word: str | None = None
    """"proven", "finished", "limit", "memory" or "failed: …"; None where it ended without one."""
    code: int = 0
    """Exit status, or minus the signal that ended it."""
    overrun: bool = False
    seconds: float = 0.0

    def hear(self, kind: str, value: Any) -> None:
        """Take down one message."""
        if kind == "rows":
            self.rows = np.asarray(value, dtype=np.int64)
        elif kind == "bound":
            self.bound = value if self.bound is None else max(self.bound, value)
        else:
            self.word = value


def run(module: str, task: Programme, formulation: str, seconds: float, gigabytes: float) -> Said:
    """Run `module.run` on a task in a child process that ends after `seconds` or beyond `gigabytes`."""
    started = time.monotonic()
    said, deadline = Said(), started + seconds
    child = Child(_solve, module, task, formulation, deadline, gigabytes=gigabytes)
    try:
        while said.word is None:
            said.hear(*child.hear(deadline - time.monotonic()))
    except TimeoutError:
        said.overrun = True
    except EOFError:
        said.code = child.code() or 0
    finally:
        child.end()
    said.seconds = time.monotonic() - started
    check_interrupted()
    return said


def _solve(line: Connection, module: str, task: Programme, formulation: str, deadline: float) -> None:
    """In the child: let the solver work, and tell what it finds."""
    silence()

    def tell(kind: str, value: Any) -> None:
        line.send((kind, value))

    try:
        solver = importlib.import_module(module)
        # A twentieth of the time is kept to report in; what the solver overruns the parent cuts off.
        left = deadline - time.monotonic()  # one clock for all processes of a machine
        word = solver.run(task, formulation, max(0.95 * left, 0.1), tell)
    except MemoryError:
        word = "memory"
    except Exception as error:
        words = " ".join(str(error).split())
        memory = any(sign in words.lower() for sign in ("bad_alloc", "memory"))
        word = "memory" if memory else f"failed: {type(error).__name__}: {words[:200]}"
    tell("word", word)

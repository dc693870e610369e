"""The child process: take the order from stdin, set the limits, let the solver work, report on stdout."""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import resource
import signal
import sys
import time
from typing import Any

STARTED = time.monotonic()


def main() -> None:
    """Work through one order."""
    pipe = os.dup(1)
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 1)  # solvers write what they like to where they like
    order = pickle.load(sys.stdin.buffer)
    module, task, formulation, seconds, gigabytes, parent = order
    _die_with(parent)
    most = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    from superteach_lab.minlp.guard import frame

    def tell(kind: str, value: Any) -> None:
        message = frame(kind, value)
        while message:
            message = message[os.write(pipe, message) :]

    try:
        solver = importlib.import_module(module)
        # A twentieth of the time is kept to report in; what the solver overruns the parent cuts off.
        left = seconds - (time.monotonic() - STARTED)
        word = solver.run(task, formulation, max(0.95 * left, 0.1), tell)
    except MemoryError:
        word = "memory"
    except Exception as error:
        words = " ".join(str(error).split())
        word = "memory" if _is_memory(words) else f"failed: {type(error).__name__}: {words[:200]}"
    tell("word", word)
    os._exit(0)  # a solver's own tidying up can crash or hang


def _die_with(parent: int) -> None:
    """Let the kernel end this process when its parent is gone, however it went (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _is_memory(words: str) -> bool:
    return any(sign in words.lower() for sign in ("bad_alloc", "memory"))


if __name__ == "__main__":
    main()

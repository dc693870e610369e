"""Solvers that misbehave on purpose; a child process imports them by name."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import numpy as np


def run(task, formulation, seconds, tell):
    """Show a point and a bound, then do what the first number of the goal says."""
    deed = int(task.goal[0])
    if deed != 9:
        tell("rows", np.array([1, 0]))
        tell("bound", 1e-3)
    if deed == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    elif deed == 2:  # overruns, and leaves a process of its own behind
        subprocess.Popen(["sleep", "61.5"])
        time.sleep(60.0)
    elif deed == 3:
        held = [bytearray(1 << 28) for _ in range(1000)]
        return str(len(held))
    elif deed == 4:
        raise ValueError("no such luck")
    elif deed == 5:
        os._exit(3)
    elif deed in (6, 10):
        if deed == 10:
            tell("bound", 1e3)
        return "proven"
    elif deed in (8, 9):
        return "limit"
    return "finished"

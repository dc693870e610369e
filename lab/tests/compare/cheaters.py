"""Contestants that do what a contestant must not; in a file of their own, because child processes import them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np

from superteach_lab.compare.task import GOAL, Contestant, Proven


def _attempt(action):
    try:
        action()
    except (ValueError, AttributeError, TypeError):
        return
    raise AssertionError("the data could be altered")


def alter(task, size, seed):
    """Write into the rows, the targets, the owners and the goal, by every way numpy offers."""
    for values in (task.X, task.y, task.owner, task.goal):
        _attempt(lambda values=values: values.__setitem__(0, 0))
        _attempt(lambda values=values: values.setflags(write=True))
        _attempt(lambda values=values: values.fill(0))
    _attempt(lambda: setattr(task, "goal", np.zeros(3)))
    return np.arange(size)


def overwrite(task, size, seed):
    """Go below numpy, straight to the memory, and hand in an honest choice afterwards."""
    import ctypes

    object.__setattr__(task, "goal", np.zeros_like(task.goal))
    for values in (task.X, task.y):
        ctypes.memset(values.ctypes.data, 0, values.nbytes)
    return np.arange(size)


def patch(task, size, seed):
    """Replace the scorer's own functions."""
    from superteach.coordinator import metrics
    from superteach_lab.compare import referee

    metrics.risk = lambda *_: 0.0
    referee.Referee.score = lambda *_: referee.Score("ok", risk=0.0)
    return np.arange(size)


def peek(task, size, seed):
    """Ask for the goal without having declared it."""
    return np.arange(size) if task.goal is None else None


def prove_nothing(task, size, seed):
    """Claim that a goal is out of reach, for no reason."""
    return Proven(np.arange(size), np.ones(task.X.shape[1] + 1))


def toil(task, size, seed):
    """Never come back, and catch what can be caught."""
    while True:
        try:
            sum(range(1000))
        except Exception:
            continue


def nap(task, size, seed):
    """Take a second by the clock and hardly any processor time."""
    time.sleep(1.0)
    return np.arange(size)


def sleep(task, size, seed):
    """Never come back."""
    time.sleep(600)


def sleep_with_a_child(task, size, seed):
    """Never come back, and neither does a process it started."""
    place = os.environ["CHEATER_PID"]
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(place, "w") as file:
        file.write(str(child.pid))
    time.sleep(600)


def _plain(name, choose, *needs):
    return Contestant(name, "a test", needs, choose)


ALTER = _plain("alter", alter, GOAL)
OVERWRITE = _plain("overwrite", overwrite, GOAL)
PATCH = _plain("patch", patch)
PEEK = _plain("peek", peek)
SLEEP = _plain("sleep", sleep)
SLEEP_WITH_A_CHILD = _plain("sleep with a child", sleep_with_a_child)


def twice(task, size, seed):
    return np.zeros(size, dtype=int)


def short(task, size, seed):
    return np.arange(size - 1)


def far(task, size, seed):
    return np.arange(size) + task.rows - 1


def below(task, size, seed):
    return np.arange(size) - 1


def nothing(task, size, seed):
    return None


def text(task, size, seed):
    return ["row"] * size


def fractions(task, size, seed):
    return np.linspace(0.0, 1.0, size)


def mask(task, size, seed):
    return np.ones(size, dtype=bool)


def matrix(task, size, seed):
    return np.arange(size)[:, None]


def fail(task, size, seed):
    raise RuntimeError("no idea")


def crash(task, size, seed):
    os.abort()


def leave(task, size, seed):
    sys.exit(3)


FAULTS = {
    twice: "rows twice",
    short: "returned 19 rows, 20 were asked for",
    far: "of 60",
    below: "returned row -1 of 60",
    nothing: "an object of type NoneType, not row indices",
    text: "an object of type list, not row indices",
    fractions: "float64",
    mask: "bool",
    matrix: r"shape \(20, 1\)",
    fail: "RuntimeError: no idea",
    crash: "SIGABRT",
    leave: "exit status",
}
"""Each wrong choice, and what the referee must say of it."""

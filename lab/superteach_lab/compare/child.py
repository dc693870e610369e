"""A contestant's choice in a process of its own: it sees copies, and it ends when its time is up."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from superteach.errors import MissingExtra, SettingError
from superteach.processes.signals import uninterrupted
from superteach_lab.compare.task import Contestant, Skipped, Task

GRACE = 15.0
"""Seconds beyond its time after which a contestant is stopped by force."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What came back: row indices, or why there are none."""

    status: Literal["chosen", "skipped", "failed"]
    reason: str
    rows: Any = None
    seconds: float = 0.0
    cpu: float = 0.0


def choose(contestant: Contestant, task: Task, size: int, seed: int, grace: float = GRACE) -> Choice:
    """Let a contestant choose in a child process; the child and all its children end with this call."""
    context = _context()
    ours, theirs = context.Pipe()
    child = context.Process(target=_work, args=(theirs, contestant, task, size, seed))
    limit = task.seconds + grace
    with uninterrupted():
        child.start()
        theirs.close()
    try:
        ours.send("go")
        if not ours.poll(limit):
            return Choice("failed", f"no choice within {limit:g} seconds; stopped", seconds=limit)
        answer = ours.recv()
        if not isinstance(answer, Choice):
            return Choice("failed", f"answered with {type(answer).__name__}")
        return answer
    except (EOFError, ConnectionError):
        child.join(5.0)
        return Choice("failed", f"its process ended without an answer ({_ending(child.exitcode)})")
    finally:
        _end(child)
        ours.close()


def _context() -> Any:
    """Fork from a server that holds no data of ours; where there is none, start afresh."""
    kind = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(kind)
    if kind == "forkserver":
        context.set_forkserver_preload(["superteach_lab.rivals"])
    return context


def _end(child: Any) -> None:
    """Stop the child's whole group: solvers start processes of their own."""
    if child.pid is not None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            child.kill()
    child.join(5.0)
    child.close()


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit status {code}"


def _work(pipe: Connection, contestant: Contestant, task: Task, size: int, seed: int) -> None:
    """In the child: choose, and say how long it took."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pipe.recv()
    except (EOFError, OSError):
        os._exit(1)  # nobody waits for an answer any more
    threading.Thread(target=_watch, args=(pipe,), daemon=True).start()
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  solvers print banners
    started, cpu = time.perf_counter(), _cpu()
    try:
        with threadpool_limits(1):  # contestants' times can be compared, whatever else the machine does
            rows = contestant.choose(locked(task), size, seed)
        answer = Choice("chosen", "", _plain(rows))
    except Skipped as error:
        answer = Choice("skipped", str(error))
    except MissingExtra as error:
        answer = Choice("skipped", str(error))
    except MemoryError:
        answer = Choice("failed", "out of memory")
    except Exception as error:
        answer = Choice("failed", f"{type(error).__name__}: {error}"[:500])
    took, used = time.perf_counter() - started, _cpu() - cpu
    pipe.send(Choice(answer.status, answer.reason, answer.rows, took, used))
    pipe.close()
    os._exit(0)


def _watch(pipe: Connection) -> None:
    """Nobody waits for the answer any more once the other end is gone: end with all children."""
    try:
        pipe.recv()
    except (EOFError, OSError):
        os.killpg(0, signal.SIGKILL)


def _plain(rows: Any) -> Any:
    """Numbers as an array, whatever else as its type's name: nothing of a contestant's own is unpickled."""
    try:
        array = np.asarray(rows)
    except (TypeError, ValueError):
        return f"an object of type {type(rows).__name__}"
    return array.copy() if array.dtype.kind in "biuf" else f"an object of type {type(rows).__name__}"


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def locked(task: Task) -> Task:
    """The same task on copies that cannot be written to."""

    def copy(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # Bytes own the memory, so that nobody can set the flag back.
        return np.frombuffer(values.tobytes(), dtype=values.dtype).reshape(values.shape)

    goal = None if task.goal is None else copy(task.goal)
    return Task(copy(task.X), copy(task.y), copy(task.owner), task.learner, goal, task.seconds)


def check_seconds(seconds: float) -> float:
    """A time limit that is one."""
    if not 0.0 < seconds < 1e6:
        raise SettingError(f"--time-limit {seconds:g} must be a positive number of seconds")
    return seconds

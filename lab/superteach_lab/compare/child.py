"""A contestant's choice in a process of its own: it sees copies, and it ends when its time is up."""

from __future__ import annotations

import os
import resource
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from superteach.exceptions import MissingExtra, SettingError
from superteach_lab.compare.task import Contestant, Proven, Skipped, Task
from superteach_lab.processes.child import Child
from superteach_lab.processes.inside import silence

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
    direction: Any = None
    """Of a proof that the goal is out of reach, where the contestant gave one; nobody has checked it yet."""


def choose(
    contestant: Contestant, task: Task, size: int, seed: int, grace: float = GRACE, processor: float | None = None
) -> Choice:
    """Let a contestant choose in a child process; the child and all its children end with this call.

    `processor` limits the child's own processor time as well, which is the same on a busy machine and on an idle one.
    """
    limit = task.seconds + grace
    with Child(_work, contestant, task, size, seed, processor, warm=["superteach_lab.rivals"]) as child:
        try:
            answer = child.hear(limit)
        except TimeoutError:
            return Choice("failed", f"no choice within {limit:g} seconds; stopped", seconds=limit)
        except EOFError:
            return Choice("failed", f"its process ended without an answer ({_ending(child.code())})")
    return answer if isinstance(answer, Choice) else Choice("failed", f"answered with {type(answer).__name__}")


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit status {code}"


def _work(line: Connection, contestant: Contestant, task: Task, size: int, seed: int, processor: float | None) -> None:
    """In the child: choose, and say how long it took."""
    silence()
    started, cpu = time.perf_counter(), _cpu()

    def give_up(*_: Any) -> None:
        # At once: an exception would wait for the threads that some contestants work in.
        used, text = _cpu() - cpu, f"no choice within {processor:g} seconds of processor time; stopped"
        line.send(Choice("failed", text, None, time.perf_counter() - started, used))
        os._exit(0)

    if processor is not None:
        signal.signal(signal.SIGPROF, give_up)
        signal.setitimer(signal.ITIMER_PROF, processor)
    try:
        with threadpool_limits(1):  # contestants' times can be compared, whatever else the machine does
            rows = contestant.choose(locked(task), size, seed)
        direction = _plain(rows.direction) if isinstance(rows, Proven) else None
        answer = Choice("chosen", "", _plain(rows.rows if isinstance(rows, Proven) else rows), direction=direction)
    except (Skipped, MissingExtra) as error:
        answer = Choice("skipped", str(error))
    except MemoryError:
        answer = Choice("failed", "out of memory")
    except Exception as error:
        answer = Choice("failed", f"{type(error).__name__}: {error}"[:500])
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    took, used = time.perf_counter() - started, _cpu() - cpu
    line.send(Choice(answer.status, answer.reason, answer.rows, took, used, answer.direction))


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

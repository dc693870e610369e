"""A function at work in a process of its own. It ends at a limit, with whoever started it, and with all it started.

`Child(work, 1, 2)` runs `work(line, 1, 2)` there; `child.hear(seconds=10.0)` returns what it sent by `line.send(answer)`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, Self

from superteach.exceptions import TeachingError
from superteach_lab.processes.inside import forked

_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_running: set[Child] = set()
_lock = threading.Lock()
_interrupted = threading.Event()


class Child:
    """A process that runs `work(line, *arguments)` in a process group of its own."""

    def __init__(
        self, work: Callable[..., None], *arguments: Any, gigabytes: float | None = None, warm: Sequence[str] = ()
    ) -> None:
        """Start a fresh interpreter with one thread per library and at most `gigabytes` of memory.

        With `warm`, fork instead from a server that has these modules loaded and holds no data of ours: a start in
        milliseconds, without a limit on memory.
        """
        if threading.current_thread() is threading.main_thread():
            _interrupted.clear()  # interruptions arrive in this thread: what they ended lies behind it
        if _interrupted.is_set():
            raise TeachingError("a child process was not started: the run was interrupted")
        self.line, theirs = multiprocessing.Pipe()
        with uninterrupted():
            if warm:
                self.pid, self._wait = _fork(warm, (theirs, work, arguments))
            else:
                self.pid, self._wait = _launch(theirs)
            theirs.close()
        with _lock:
            _running.add(self)
        if _interrupted.is_set():  # whoever interrupted before this child was noted could not end it
            self.end()
            check_interrupted()
        try:
            # A child that is gone already is noticed where it is heard.
            with contextlib.suppress(OSError):
                if not warm:
                    self.line.send((sys.path, os.getpid(), gigabytes))
                    self.line.send((work, arguments))
        except BaseException:
            self.end()
            raise

    def hear(self, seconds: float | None = None) -> Any:
        """Return the next message; TimeoutError after `seconds`, EOFError once the process is gone."""
        try:
            if not self.line.poll(None if seconds is None else max(seconds, 0.0)):
                raise TimeoutError
            return self.line.recv()
        except ConnectionError:
            raise EOFError from None

    def code(self) -> int | None:
        """Return the exit status of a child that is gone, or minus the signal that ended it."""
        return self._wait(5.0)

    def kill(self) -> None:
        """End the whole process group, at once."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # perhaps it has not got as far as its own group
            if self._wait(0.0) is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)

    def end(self) -> int | None:
        """End the process group and wait for the child; return its exit status."""
        with _lock:
            _running.discard(self)
        self.kill()  # before the child is waited for nobody else can have its number
        self.line.close()
        return self._wait(5.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


_Wait = Callable[[float], int | None]
"""Waits for the end of a process, for some seconds; returns its exit status, or None."""


def _launch(theirs: Connection) -> tuple[int, _Wait]:
    """Start a fresh interpreter. `multiprocessing` would run a user's script a second time in it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "superteach_lab.processes.inside", str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        env=os.environ | _THREADS,
        process_group=0,
    )

    def wait(seconds: float) -> int | None:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    return process.pid, wait


def _fork(warm: Sequence[str], order: tuple[Any, ...]) -> tuple[int, _Wait]:
    """Fork from the server of `multiprocessing`; where there is none, start afresh."""
    kind = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context: Any = multiprocessing.get_context(kind)
    if kind == "forkserver":
        context.set_forkserver_preload(list(warm))
    process = context.Process(target=forked, args=order)
    process.start()

    def wait(seconds: float) -> int | None:
        process.join(seconds)
        code: int | None = process.exitcode
        return code

    return process.pid, wait


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back for a moment: a child that is half started cannot be ended in an orderly way.

    Blocking the signal in this thread would not do: another one may take it, and it would be heard here all the same.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are heard in the main thread alone
        return
    heard: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard and callable(before):
            before(signal.SIGINT, heard[0])


def check_interrupted() -> None:
    """Raise where an interruption within `interruptible` has ended the children of all threads."""
    if _interrupted.is_set():
        raise TeachingError("a child process was ended: the run was interrupted")


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within it, an interruption of this thread also ends the children that other threads wait for."""
    _interrupted.clear()
    try:
        yield
    except KeyboardInterrupt:
        _interrupted.set()
        with _lock:
            for child in _running:
                child.kill()
        raise

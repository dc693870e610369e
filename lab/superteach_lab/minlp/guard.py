"""A solver in a process of its own: whatever it does, it ends at our limits and leaves nothing running."""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from superteach.errors import TeachingError
from superteach.types import Positions
from superteach_lab.minlp.task import Task

_HEAD = struct.Struct("!I")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_running: set[subprocess.Popen[bytes]] = set()
_lock = threading.Lock()
_interrupted = threading.Event()


@dataclass
class Record:
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


def run(module: str, task: Task, formulation: str, seconds: float, gigabytes: float) -> Record:
    """Run `module.run` on a task in a child process that gets so much time and memory, and no more."""
    if threading.current_thread() is threading.main_thread():
        _interrupted.clear()  # interruptions arrive in this thread, so what they ended lies behind it
    if _interrupted.is_set():
        raise TeachingError("the solver was not started: the run was interrupted")
    started = time.monotonic()
    record = Record()
    with tempfile.TemporaryFile() as order:
        pickle.dump((module, task, formulation, seconds, gigabytes, os.getpid()), order)
        order.seek(0)
        child = subprocess.Popen(
            [sys.executable, "-m", "superteach_lab.minlp.child"],
            stdin=order,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | dict.fromkeys(_THREADS, "1"),
            start_new_session=True,  # a process group of its own, to be ended as one
        )
    try:
        with _lock:
            _running.add(child)
        if not _interrupted.is_set():  # whoever interrupted before this child was noted could not end it
            _listen(child, record, started + seconds)
    finally:
        _end(child)
        with _lock:
            _running.discard(child)
    record.code, record.seconds = child.returncode, time.monotonic() - started
    if _interrupted.is_set():
        raise TeachingError("the solver was ended: the run was interrupted")
    return record


def _listen(child: subprocess.Popen[bytes], record: Record, deadline: float) -> None:
    """Take down messages until the child's last word, its end, or the deadline."""
    assert child.stdout is not None
    pipe, buffer = child.stdout.fileno(), b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while record.word is None:
            left = deadline - time.monotonic()
            if left <= 0.0:
                record.overrun = True
                return
            if not selector.select(left):
                continue
            chunk = os.read(pipe, 1 << 16)
            if not chunk:
                return
            buffer += chunk
            while len(buffer) >= _HEAD.size:
                (length,) = _HEAD.unpack_from(buffer)
                if len(buffer) < _HEAD.size + length:
                    break
                record.hear(*pickle.loads(buffer[_HEAD.size : _HEAD.size + length]))
                buffer = buffer[_HEAD.size + length :]


def frame(kind: str, value: Any) -> bytes:
    """One message as it travels from child to parent."""
    body = pickle.dumps((kind, value))
    return _HEAD.pack(len(body)) + body


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child's whole process group; before the child is waited for nobody else can have its number."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    if child.stdout is not None:
        child.stdout.close()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within it, an interruption of this thread also ends the solvers that other threads wait for."""
    _interrupted.clear()
    try:
        yield
    except KeyboardInterrupt:
        _interrupted.set()
        with _lock:
            for child in _running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
        raise

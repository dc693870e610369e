"""The inside of a child process: limits first, then its work. Nothing heavy is imported before the limits are set."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


def main() -> None:
    """Take limits and work from the line that the first argument names, in a fresh interpreter."""
    handle = int(sys.argv[1])
    os.set_inheritable(handle, False)
    line = Connection(handle)
    path, parent, gigabytes = line.recv()
    sys.path[:] = [*path, *(place for place in sys.path if place not in path)]
    _end_with(parent)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if gigabytes is not None:
        most = int(gigabytes * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    work, arguments = line.recv()
    _run(line, work, arguments)


def forked(line: Connection, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Work in a process that was forked from a warm server."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run; it ends its children
    threading.Thread(target=_watch, daemon=True).start()
    _run(line, work, arguments)


def _run(line: Connection, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    work(line, *arguments)
    line.close()
    os._exit(0)  # the tidying up of a solver can crash or hang


def _end_with(parent: int) -> None:
    """Let the kernel end this process when its parent is gone: a solver may let no thread run (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _watch() -> None:
    """End the process group once the process that asked for it is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.killpg(0, signal.SIGKILL)


def silence() -> None:
    """Send whatever is written to the terminal nowhere: solvers write what they like."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


if __name__ == "__main__":
    main()

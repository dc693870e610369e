"""NVFlare's server or client in this process, with an end: alone it would outlive Ctrl-C."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from typing import NoReturn

import psutil


def leave(number: int, frame: object) -> NoReturn:
    """End the lessons' processes, then this one."""
    children = psutil.Process().children(recursive=True)
    for child in children:
        child.terminate()
    for child in psutil.wait_procs(children, timeout=5)[1]:
        child.kill()
    sys.stdout.write("stopped\n")
    sys.stdout.flush()
    os._exit(0)


def main() -> None:
    """Run the NVFlare module that the first argument names, with the rest as its own."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

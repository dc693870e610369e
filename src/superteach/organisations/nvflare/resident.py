"""NVFlare's server or client in this process, with an end: alone it would outlive Ctrl-C, and print what no person reads."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import psutil

from superteach.organisations.nvflare import HEARTBEAT
from superteach.organisations.nvflare.terminal import keep_quiet, say

TRIES = "SUPERTEACH_TRIES"


def leave(number: int, frame: object) -> NoReturn:
    """End the lessons' processes, then this one."""
    _end(0, "stopped")


def _end(status: int, words: str) -> NoReturn:
    children = psutil.Process().children(recursive=True)
    for child in children:
        child.terminate()
    for child in psutil.wait_procs(children, timeout=5)[1]:
        child.kill()
    say(words)
    os._exit(status)


def main() -> None:
    """Run the NVFlare module that the first argument names, with the rest as its own."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    again = [sys.executable, "-u", "-m", "superteach.organisations.nvflare.resident", *sys.argv[1:]]
    sys.argv = sys.argv[1:]
    kit = Path(sys.argv[sys.argv.index("-m") + 1])
    own = os.dup(1)
    keep_quiet(kit)
    from superteach.organisations.nvflare import door

    try:
        if "server" in sys.argv[0].rsplit(".", 1)[-1]:
            door.keep_door(kit)
        else:
            door.knock()
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        status = 0
    except door.Refused as refused:
        if "has joined already" not in str(refused) or os.environ.get(TRIES):
            _end(1, f"error: the server does not let this teacher in: {refused}")
        # A process of this kit that was ended a moment ago is still counted as there, but not for long.
        say(f"{refused}. Trying once more in {3 * HEARTBEAT:g} seconds")
        time.sleep(3 * HEARTBEAT)
        os.environ[TRIES] = "1"
        os.dup2(own, 1)
        os.dup2(own, 2)
        os.execv(again[0], again)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException as error:
        _end(1, f"error: {type(error).__name__}: {error}"[:300] + f"; {kit / 'log.txt'} says more")
    _end(status, "stopped" if status == 0 else f"error: NVFlare ended with {status}; {kit / 'log.txt'} says more")


if __name__ == "__main__":
    main()

"""The person's terminal: sentences of ours alone. What NVFlare prints, tracebacks too, goes to a file in the kit."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

CONSOLE = "console.txt"
MOST = 1 << 20
"""Bytes of console.txt; what comes after them is not kept (NVFlare's own log.txt has it, and is rotated)."""
_FD = "SUPERTEACH_TERMINAL"


def say(text: str) -> None:
    """Write one line to the terminal, also where standard output goes elsewhere by now."""
    with contextlib.suppress(OSError):
        os.write(int(os.environ.get(_FD, "1")), f"{text}\n".encode())


def keep_quiet(kit: Path) -> None:
    """Send all that this process and its children print into the kit; a disk that is full swallows it without a word."""
    os.environ[_FD] = str(os.dup(1))  # children do not inherit it
    reading, writing = os.pipe()
    for stream in (1, 2):
        os.dup2(writing, stream)
    os.close(writing)
    threading.Thread(target=_drain, args=(reading, kit / CONSOLE), daemon=True).start()


def _drain(reading: int, path: Path) -> None:
    path.unlink(missing_ok=True)
    kept = 0
    while data := os.read(reading, 1 << 16):
        kept += len(data)
        with contextlib.suppress(OSError):
            if kept <= MOST:
                handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    os.write(handle, data)
                finally:
                    os.close(handle)

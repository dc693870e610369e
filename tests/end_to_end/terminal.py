"""A process on a pseudo-terminal: what a person sees, which differs from what a pipe gets."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from pathlib import Path

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Start a command with all its streams on a terminal of so many columns; use it in a `with` statement."""

    def __init__(self, command: Sequence[str], cwd: Path, seconds: float = 120.0, columns: int = 100) -> None:
        self._end, self._raw = time.monotonic() + seconds, b""
        self._screen, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        keys = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command, cwd=cwd, stdin=terminal, stdout=terminal, stderr=terminal, env=keys | {"TERM": "xterm"}
        )
        os.close(terminal)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._screen)

    @property
    def raw(self) -> str:
        """All that was written so far, with colours and movements."""
        return self._raw.decode(errors="replace")

    @property
    def text(self) -> str:
        """The same without colours and movements, lines as lines."""
        return _CONTROL.sub("", self.raw).replace("\r\n", "\n")

    def until(self, words: str) -> None:
        """Read on until these words have been written."""
        while words not in self.text:
            assert self._read(), f"{words!r} was never written:\n{self.text}"

    def status(self) -> int:
        """Read to the end; how the command ended."""
        while self._read():
            pass
        return self.process.wait(max(self._end - time.monotonic(), 0.1))

    def _read(self) -> bool:
        """Whether there is more to come."""
        while time.monotonic() < self._end:
            if select.select([self._screen], [], [], 0.1)[0]:
                try:
                    piece = os.read(self._screen, 65536)
                except OSError:  # nobody has the other end any more
                    return False
                self._raw += piece
                return bool(piece)
        return False

"""A machine that dies, loses its power or runs full at one call to the system, counted from the start."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from superteach.io import atomic
from superteach.privacy import ledger


class Dead(BaseException):
    """No handler of errors runs in a process that is killed."""


class Machine:
    """The system's calls that change a disk; the `cut`-th is not done, done in part or done, and is the last.

    A killed process leaves the disk as the system sees it. Where the power fails, what was not brought to the disk may
    be lost: the end of a file, and a new name. A `full` disk fails at the cut and goes on; a `lazy` one forgets a sync.
    """

    def __init__(self, seed: int, cut: int, full: bool = False, lazy: str = "") -> None:
        self.rng = np.random.default_rng(seed)
        self.cut, self.full, self.lazy = cut, full, lazy
        self.calls: list[str] = []
        self.dead = False
        self.synced: set[int] = set()
        self.renamed: tuple[Path, bytes | None] | None = None

    def __getattr__(self, name):
        return getattr(os, name)

    def do(self, name, act, part=None):
        """Run one call, unless it is the one at which all ends."""
        if self.dead:
            raise Dead
        self.calls.append(name)
        if len(self.calls) != self.cut:
            return act()
        if self.full:
            if part:
                part()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if (choice := self.rng.integers(3)) == 1 and part:
            part()
        elif choice:
            act()
        self.dead = True
        raise Dead

    # The calls, as `os` has them

    def fdopen(self, handle, mode):
        return File(self, os.fdopen(handle, mode, buffering=0))

    def write(self, handle, data):
        part = data[: int(self.rng.integers(len(data)))]
        return self.do("write", lambda: os.write(handle, data), lambda: os.write(handle, part))

    def fsync(self, handle):
        status = os.fstat(handle)
        if os.path.stat.S_ISDIR(status.st_mode):
            return self.do(
                "sync folder", lambda: None if self.lazy == "sync folder" else setattr(self, "renamed", None)
            )
        return self.do("sync", lambda: None if self.lazy == "sync" else self.synced.add(status.st_ino))

    def replace(self, source, target):
        before = target.read_bytes() if target.exists() else None

        def act():
            os.replace(source, target)
            self.renamed = (target, before)

        return self.do("replace", act)

    def lose_power(self, folder: Path) -> None:
        """Lose what was never brought to the disk, or a part of it."""
        for path in folder.iterdir():
            if path.stat().st_ino not in self.synced and path.name != "ledger":
                os.truncate(path, int(self.rng.integers(path.stat().st_size + 1)))
        if self.renamed is None:
            return
        target, before = self.renamed
        if self.rng.integers(2):
            target.unlink() if before is None else target.write_bytes(before)
        elif target.stat().st_ino not in self.synced:
            os.truncate(target, int(self.rng.integers(target.stat().st_size)))


class File:
    """A file that is written through the machine."""

    def __init__(self, machine: Machine, file) -> None:
        self.machine, self.file = machine, file
        self.fileno = file.fileno

    def write(self, data):
        return self.machine.write(self.file.fileno(), data)

    def flush(self):
        """Nothing waits here."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()


def on(machine: Machine) -> pytest.MonkeyPatch:
    """Let the ledger work on this machine, until undone."""
    patch = pytest.MonkeyPatch()
    unlink = Path.unlink
    patch.setattr(atomic, "os", machine)
    patch.setattr(ledger, "os", machine)
    patch.setattr(Path, "unlink", lambda path, missing_ok=False: machine.do("unlink", lambda: unlink(path, missing_ok)))
    return patch

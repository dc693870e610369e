"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes, private: bool = False) -> None:
    """Write a file beside its place and move it there, so that no reader ever sees half of it.

    A private one is for its owner's eyes; any other has the rights that a plain open would give.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not private:
            os.chmod(temporary, unmasked(0o666))
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_durably(path: Path, content: bytes) -> None:
    """Write a file for its owner alone, whole or not at all, on the disk when this returns: a power cut cannot undo it."""
    write_bytes(path, content, private=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def unmasked(mode: int) -> int:
    """Return what the user's mask leaves of rights: those of a file or folder that is made in the plain way."""
    mask = os.umask(0)
    os.umask(mask)
    return mode & ~mask


def stamp(path: Path) -> list[int] | None:
    """Return size and time of the last change of a file, to notice a change by; None where there is no such file."""
    with contextlib.suppress(OSError):
        status = path.stat()
        return [status.st_size, status.st_mtime_ns]
    return None


def hold(path: Path) -> tuple[int, str]:
    """Lock a file until its handle is closed or this process ends, through exec too; return the handle and "".

    Return −1 and the number of the other process where another one holds the lock.
    """
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return os.open(os.devnull, os.O_RDONLY), ""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        other = os.read(handle, 20).decode(errors="replace").strip()
        os.close(handle)
        return -1, other or "unknown"
    with contextlib.suppress(OSError):  # a full disk: the lock holds without a number
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
    os.set_inheritable(handle, True)
    return handle, ""

"""Files that appear whole or not at all, and results kept line by line, so that a stopped run goes on where it was."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from superteach.exceptions import SettingError, TeachingError

Record = dict[str, Any]


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

    Return −1 and the number of the other process where another one holds the lock. Whoever holds it may remove the file. A
    link is refused: whoever planted it would have this process write to a file of its own.
    """
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return os.open(os.devnull, os.O_RDONLY), ""
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            why = "it is a link" if path.is_symlink() else error.strerror
            raise SettingError(f"the lock {str(path)!r} cannot be used: {why}; remove it") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = os.read(handle, 20).decode(errors="replace").strip()
            os.close(handle)
            return -1, other or "unknown"
        links = os.fstat(handle).st_nlink
        if links == 1:
            break
        os.close(handle)
        if links:
            raise SettingError(f"the lock {str(path)!r} is a link to another file; remove it")
        # Else the one who held the lock has removed the file meanwhile.
    with contextlib.suppress(OSError):  # a full disk: the lock holds without a number
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
    os.set_inheritable(handle, True)
    return handle, ""


class Records:
    """A file of finished cells; a line torn by a crash is cut off when the file is opened again."""

    def __init__(self, path: str | Path, settings: Record, mode: int = 0o666) -> None:
        """Open `path` for the run that `settings` describe, or start it; another run's file is left alone.

        `mode` is that of a new file, as far as the user's mask allows.
        """
        self.path = Path(path)
        self._mode = mode
        self._known: dict[str, Record] = {}
        head = {"settings": json.loads(json.dumps(settings))}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._open(head)
        except OSError as error:
            raise SettingError(f"{self.path}: cannot keep results here: {error.strerror or error}") from error

    def _open(self, head: Record) -> None:
        text = self.path.read_bytes() if self.path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.truncate(self.path, len(whole))
        if not whole:
            self._append(head)
            return
        try:
            lines = [json.loads(line) for line in whole.splitlines()]
            cells = {name_of(line["cell"]): line for line in lines[1:]}
        except (ValueError, KeyError, TypeError) as error:
            raise SettingError(f"{self.path}: not a file of results ({error}); give another place") from error
        if lines[0] != head:
            raise SettingError(
                f"{self.path}: holds the results of other settings ({json.dumps(lines[0].get('settings'))}, now "
                f"{json.dumps(head['settings'])}); give another place or remove the file"
            )
        self._known = cells

    def _append(self, record: Record) -> None:
        """Add one line, on disk; where there is no room for all of it, none of it stays."""
        rest = memoryview(json.dumps(record).encode() + b"\n")
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, self._mode)
        try:
            before = os.fstat(handle).st_size
            try:
                while rest:
                    rest = rest[os.write(handle, rest) :]
                os.fsync(handle)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(handle, before)
                raise
        finally:
            os.close(handle)

    def __iter__(self) -> Iterator[Record]:
        """Yield every finished record, in the order it was finished: {"cell": …, **result}."""
        return iter(self._known.values())

    def find(self, cell: Record) -> Record | None:
        """Return the record of `cell`, None where there is none."""
        return self._known.get(name_of(cell))

    def get(self, cell: Record, work: Callable[[], Record]) -> Record:
        """Return the record of `cell`, from the file or from `work()`, which is then on disk before this returns."""
        if self.find(cell) is None:
            self.put(cell, work())
        return self._known[name_of(cell)]

    def put(self, cell: Record, result: Record) -> None:
        """Keep what was found for `cell`; it is on disk before this returns."""
        record = {"cell": cell, **result}
        try:
            self._append(record)
        except OSError as error:
            raise TeachingError(f"{self.path}: cannot write: {error.strerror or error}") from error
        self._known[name_of(cell)] = json.loads(json.dumps(record))


def name_of(cell: Record) -> str:
    """Name a cell by its entries, in whatever order they stand."""
    return json.dumps(cell, sort_keys=True)

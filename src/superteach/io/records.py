"""Results kept as JSON lines, each on disk as soon as it is known, so that a stopped run goes on where it was."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from superteach.exceptions import SettingError, TeachingError

Record = dict[str, Any]


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

"""Finished cells of a long run: asked for by what they are of, and put in order at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence

from superteach.exceptions import TeachingError
from superteach.io import atomic
from superteach.io.atomic import Record, name_of, write_bytes

__all__ = ["Record", "Records"]


class Records(atomic.Records):
    """A file of finished cells, of which none is computed twice."""

    def __contains__(self, cell: Record) -> bool:
        return name_of(cell) in self._known

    def __len__(self) -> int:
        return len(self._known)

    def arrange(self, cells: Sequence[Record]) -> None:
        """Put the lines in the order of `cells`, others last: work done side by side ends in any order."""
        names = dict.fromkeys([name for name in map(name_of, cells) if name in self._known] + list(self._known))
        if list(names) == list(self._known):
            return
        self._known = {name: self._known[name] for name in names}
        head = self.path.read_bytes().splitlines(keepends=True)[0]
        lines = [json.dumps(record).encode() + b"\n" for record in self._known.values()]
        try:
            write_bytes(self.path, head + b"".join(lines))
        except OSError as error:
            raise TeachingError(f"{self.path}: cannot write: {error.strerror or error}") from error

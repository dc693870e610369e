"""The teacher's audit log: one line of JSON for every message, added at the end and never rewritten."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from superteach.exceptions import QueryRefused


class Audit:
    """Time, coordinator, query, shapes, bytes and verdict of every message; never a value."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def add(self, facts: Mapping[str, object]) -> None:
        """Add one line and see it on the disk's side of the system; without a record there is no answer."""
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **facts})
        data = line.encode() + b"\n"
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                written = os.write(handle, data)
            finally:
                os.close(handle)
        except OSError as error:
            raise QueryRefused(f"the audit log cannot be written ({error.strerror}), so nothing is answered") from None
        if written != len(data):
            raise QueryRefused("the audit log cannot be written (no space left), so nothing is answered")

    def most(self, fact: str) -> int:
        """Return the largest whole number that any line has for a fact, 0 where none has it."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise QueryRefused(f"the audit log cannot be read ({error.strerror}), so nothing is answered") from None
        wanted, largest = f'"{fact}"'.encode(), 0
        for line in lines:
            if wanted in line:
                with contextlib.suppress(ValueError):  # a line that a full disk cut off
                    largest = max(largest, int(json.loads(line).get(fact, 0)))
        return largest

"""Teachers whose rows and memories lie on disk: they are mapped while a question is answered, and not longer.

A `Paged` teacher answers as the `Teacher` it was made of, to the last bit. What it remembers is kept as a picture: small
things as bytes, arrays as places in a `Store`. Arrays that a question leaves as they are stay where they are.
"""

from __future__ import annotations

import io
import mmap
import pickle
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from superteach.exceptions import QueryRefused, TeachingError, reason_of
from superteach.privacy.guard import Guard
from superteach.protocol.messages import Sealed, Turn
from superteach.protocol.queries import Query
from superteach.teacher import Teacher
from superteach.teacher.rows import Rows
from superteach.teacher.state import State
from superteach.types import Positions

_SMALL = 1 << 14
"""Bytes below which an array stays in memory: a place on disk takes a system call of some microseconds to map."""
_PAGE = mmap.ALLOCATIONGRANULARITY


class Place:
    """Some bytes of a store; they are free again when nothing refers to them."""

    def __init__(self, store: Store, start: int, length: int, room: int) -> None:
        self.start, self.length = start, length
        self._store, self._room = store, room

    def __del__(self) -> None:
        self._store.free(self.start, self._room)


class Picture(NamedTuple):
    """Something put away: its small parts as bytes, its arrays as places."""

    bones: bytes
    places: tuple[Place, ...]


class Store:
    """Arrays in one file without a name, which the system removes with the process, however that ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()  # a Place may end while another one is made
        self._free: dict[int, list[int]] = defaultdict(list)
        self.size = 0  # bytes of the file so far
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise TeachingError(self._write_error(error)) from None

    def put(
        self, thing: object, rows: Rows | None = None, known: dict[tuple[int, int], Place] | None = None
    ) -> Picture:
        """Take a picture; `rows` are not part of it, and arrays at a known address stay in their place."""
        places: list[Place] = []

        def outside(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < _SMALL:
                return True
            places.append((known or {}).get((_address(raw), raw.nbytes)) or self._write(raw))
            return False

        bones = io.BytesIO()
        _Pickler(bones, rows, outside).dump(thing)
        return Picture(bones.getvalue(), tuple(places))

    def get(self, picture: Picture, rows: Rows | None = None) -> tuple[Any, dict[tuple[int, int], Place]]:
        """Show a picture: its arrays are mapped, and read as they are looked at; also where each of them lies."""
        file = self._file.fileno()
        maps = [
            memoryview(mmap.mmap(file, place.length, access=mmap.ACCESS_READ, offset=place.start))
            for place in picture.places
        ]
        known = {(_address(found), found.nbytes): place for found, place in zip(maps, picture.places, strict=True)}
        return _Unpickler(io.BytesIO(picture.bones), rows, maps).load(), known

    def free(self, start: int, room: int) -> None:
        """Give bytes back."""
        with self._lock:
            self._free[room].append(start)

    def _write(self, raw: memoryview) -> Place:
        # Rooms of an eighth of a power of two: what is freed fits what comes next, and little is lost.
        step = max(_PAGE, 1 << max(raw.nbytes.bit_length() - 4, 0))
        room = -(-raw.nbytes // step) * step
        with self._lock:
            start = self._free[room].pop() if self._free[room] else self.size
            self.size = max(self.size, start + room)
            place = Place(self, start, raw.nbytes, room)
            try:
                self._file.seek(start)
                while raw.nbytes:
                    raw = raw[self._file.write(raw) :]
            except OSError as error:
                raise TeachingError(self._write_error(error)) from None
        return place

    def _write_error(self, error: OSError) -> str:
        return (
            f"the copy of the rows in {str(self.folder)!r} cannot be written after {self.size / 1e9:.2f} GB: "
            f"{reason_of(error)}; make room there, or name another folder for it (--cache, or the variable TMPDIR)"
        )


def _address(raw: memoryview) -> int:
    return int(np.frombuffer(raw, np.uint8).ctypes.data)


class _Pickler(pickle.Pickler):
    """Pictures leave a teacher's rows out: they are the same in every one."""

    def __init__(self, file: io.BytesIO, rows: Rows | None, outside: Callable[[pickle.PickleBuffer], bool]) -> None:
        super().__init__(file, protocol=5, buffer_callback=outside)
        self._rows = rows

    def persistent_id(self, obj: object) -> str | None:
        return "rows" if self._rows is not None and obj is self._rows else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, rows: Rows | None, maps: list[memoryview]) -> None:
        super().__init__(file, buffers=maps)
        self._rows = rows

    def persistent_load(self, pid: object) -> Rows | None:
        return self._rows


@dataclass(frozen=True, eq=False)
class Kept:
    """What a teacher remembers, put away."""

    picture: Picture
    chosen: Positions | None
    """Its chosen rows, which whoever owns all teachers looks at."""


@dataclass(frozen=True)
class Extent:
    """How many rows there are, and columns."""

    count: int
    features: int


class Paged:
    """A teacher whose rows are on disk."""

    def __init__(self, teacher: Teacher, store: Store, first: int, watch: Callable[[int], None] | None = None) -> None:
        """Put a teacher's rows away; they are numbers `first` and following of all. `watch` hears of rows read."""
        self.name, self._store, self._first, self._watch = teacher.name, store, first, watch
        self.rows = Extent(teacher.rows.count, teacher.rows.features)
        self._picture = store.put((teacher.rows, teacher.target, teacher.costs))
        self._bare = copy(teacher)
        del self._bare.rows, self._bare.target, self._bare.costs, self._bare.ids

    def start(self) -> Kept:
        """Return the state before the first query."""
        return Kept(self._store.put(State()), None)

    def under(self, guard: Guard) -> Self:
        """Refuse: chunks of one table are not separate owners."""
        raise QueryRefused("rows on disk are taught from with privacy='none'; other modes need rows in memory")

    def choosing(self, state: Kept, chosen: Positions) -> Kept:
        """Return what it remembers with these rows chosen, for whoever owns them."""
        (rows, _, _), own = self._store.get(self._picture)
        before, known = self._store.get(state.picture, rows)
        return Kept(self._store.put(replace(before, chosen=chosen), rows, own | known), chosen)

    def answer(self, query: Query[object], state: Kept, turn: Turn) -> tuple[Kept, Sealed]:
        """Answer a query; rows and memories are mapped for as long as that takes."""
        teacher = copy(self._bare)
        (teacher.rows, teacher.target, teacher.costs), own = self._store.get(self._picture)
        teacher.ids = np.arange(self._first, self._first + self.rows.count, dtype=np.uint64)
        before, known = self._store.get(state.picture, teacher.rows)
        after, sealed = teacher.answer(query, before, turn)
        if after is not before:
            chosen = state.chosen if after.chosen is before.chosen else np.array(after.chosen)
            state = Kept(self._store.put(after, teacher.rows, own | known), chosen)
        if self._watch is not None:
            self._watch(self.rows.count)
        return state, sealed

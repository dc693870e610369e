"""Tables that are larger than memory: read once, checked, and put away as teachers that come to memory one by one.

A part of some hundred thousand rows is a teacher. Rows keep the type they have (float32 where every column has it).
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet, types

from superteach.exceptions import DataError, SettingError, counted
from superteach.io import files, tables
from superteach.io.atomic import stamp
from superteach.io.formats.parquet import is_parquet
from superteach.io.frames import DEFAULT, PositiveLabel
from superteach.io.validation import Part, find_classes, make_unguarded
from superteach.losses.scalar import Loss
from superteach.teacher.paged import Paged, Store
from superteach.types import Positions, Raw

PART = 1 << 20
"""Rows of a part. A worker holds one at a time, at about 100 bytes a row and 10 columns. Rounding takes 0.1 to 0.4 s in each
part whatever its rows, a fifth of all time at 1 << 18."""
_LEAST_PART = 1 << 17
"""Least rows of a part, where a table is split further so that every core has one."""
_BATCH = 1 << 17
"""Rows that are decoded at once."""
LARGE = 0.25
"""Share of the memory that is free from which on rows are not brought into it: reading takes two to three times the data."""
_BYTES = 9
"""Bytes a row that teachers remember beside their rows and targets, where a twentieth of them takes part in prices."""

Watch = Callable[[int], None]
Item = TypeVar("Item")
Done = TypeVar("Done")


@dataclass(frozen=True, eq=False)
class LargePool:
    """Teachers on disk, the names of their columns, the labels' two values, and which rows each teacher has."""

    teachers: tuple[Paged, ...]
    columns: tuple[str, ...]
    classes: Raw | None
    store: Store
    table: ParquetTable | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """Rows of every part."""
        return tuple(teacher.rows.count for teacher in self.teachers)

    def numbers(self, chosen: Sequence[Positions]) -> Positions:
        """Return the chosen rows of all parts, as rows of the whole table, ascending."""
        firsts = np.cumsum((0, *self.counts))
        return np.concatenate([first + np.sort(some) for first, some in zip(firsts, chosen, strict=False)])


def free_memory() -> int:
    """Count the bytes that this process may still take."""
    found = []
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            found.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")))
        most = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
        found += [int(most) - used] if most.isdigit() else []
    except (OSError, StopIteration, ValueError):
        pass
    if not found and hasattr(os, "sysconf"):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    return min(found, default=1 << 33)


def is_large(numbers: int) -> bool:
    """Tell whether `numbers` numbers of 8 bytes are to stay on disk."""
    return 8 * numbers > LARGE * free_memory()


class ParquetTable:
    """Parquet files as one long table."""

    def __init__(
        self,
        paths: Sequence[Path],
        target: str,
        features: Sequence[str] | None = None,
        costs: str | None = None,
        numeric_target: bool = False,
    ) -> None:
        """Look at the files' heads; no row is read yet."""
        files.check_places(list(paths), None)
        for path in paths:
            if not is_parquet(path):
                raise DataError(f"file {str(path)!r} is no Parquet; rows that stay on disk are read from Parquet alone")
        self.target, self.costs, self._numeric = target, costs, numeric_target
        opened = [files.open_file(None, path) for path in paths]
        self.columns = tables.feature_columns(opened, target, None, costs, features)
        self.asked = [*self.columns, *([] if costs is None else [costs]), target]
        self._marks = [stamp(path) or [] for path in paths]
        self.sources: list[files.TableFile] = []
        self.groups: list[list[int]] = []
        """Rows of every row group, by file."""
        narrow = True
        for source in opened:
            with source.reading(), parquet.ParquetFile(source.path) as stored:
                head = stored.metadata
                self.groups.append([head.row_group(number).num_rows for number in range(head.num_row_groups)])
                kinds = [stored.schema_arrow.field(column).type for column in self.asked[:-1]]
                narrow &= all(types.is_float32(kind) for kind in kinds)
            self.sources.append(replace(source, ends=tuple(np.cumsum(self.groups[-1]).tolist())))
        self.kind: type[np.float32 | np.float64] = np.float32 if narrow else np.float64
        self.counts = [sum(rows) for rows in self.groups]
        self.rows = sum(self.counts)
        if not self.rows:
            raise DataError(f"{counted(len(paths), 'files')} with column names but no rows; give some")

    @property
    def marks(self) -> list[tuple[str | int, ...]]:
        """What tells these files from others: path, rows, bytes, time of the last change."""
        facts = zip(self.sources, self.counts, self._marks, strict=True)
        return [(str(source.path.resolve()), rows, *mark) for source, rows, mark in facts]

    @property
    def numbers(self) -> int:
        """How many numbers the features are."""
        return self.rows * len(self.columns)

    def bundles(self, size: int) -> list[list[tuple[int, int]]]:
        """List row groups that are read together, each as file and number: about `size` rows, or one that is larger."""
        most = self.rows / max(1, round(self.rows / size))
        found, done = [list[tuple[int, int]]()], 0
        for file, groups in enumerate(self.groups):
            for group, count in enumerate(groups):
                found[-1].append((file, group))
                done += count
                if done >= most * len(found) - 0.5 * count:
                    found.append([])
        last = found.pop()
        rows = self._rows(last)
        if rows and found and 2 * rows < most:  # a few rows left over would round badly alone
            found[-1] += last
        elif rows:
            found.append(last)
        return found

    def _rows(self, bundle: Iterable[tuple[int, int]]) -> int:
        return sum(self.groups[file][group] for file, group in bundle)

    def find_classes(self) -> Raw:
        """Find the labels' two values, from the target column alone."""

        def values(file: int) -> Part:
            found: list[Raw] = []
            for (target,) in self._chunks(file, range(len(self.groups[file])), [self.target]):
                known = compute.unique(pa.array(target, from_pandas=False))
                found.append(np.asarray(known.to_numpy(zero_copy_only=False)))
            return Part(self.sources[file].called, None, np.concatenate(found))

        return find_classes(_together(values, [file for file, rows in enumerate(self.counts) if rows]), most=2)

    def _chunks(self, file: int, groups: Sequence[int], asked: list[str]) -> Iterator[list[Raw]]:
        """Yield columns of row groups that follow each other, checked, batch by batch; the target is the last."""
        source = self.sources[file]
        start = source.ends[groups[0]] - self.groups[file][groups[0]]
        for table in self.tables(file, groups, asked):
            cells = tables.Cells(source, [], [], start)
            tables.matrix_type(source, table, asked[:-1])
            target = cells.target(table.column(self.target), self.target, self._numeric)
            yield [*(cells.numbers(table.column(name), name) for name in asked[:-1]), target]
            start += table.num_rows
        if start != source.ends[groups[-1]]:
            raise DataError(f"{source.called} has changed while it was read; begin anew when nobody writes to it")

    def tables(self, file: int, groups: Sequence[int], asked: Sequence[str]) -> Iterator[pa.Table]:
        """Yield rows of some row groups as they are in the file; raise an error where the file is not what it was."""
        source = self.sources[file]
        wanted = f"row groups {groups[0]} to {groups[-1]} of {source.called}"
        self.check_same(file, wanted)
        with source.reading(f"row groups {groups[0]} to {groups[-1]}"), parquet.ParquetFile(source.path) as stored:
            for batch in stored.iter_batches(_BATCH, row_groups=list(groups), columns=list(asked)):
                yield pa.Table.from_batches([batch])
        self.check_same(file, wanted)

    def put_away(
        self,
        loss: Loss,
        folder: Path | None = None,
        watch: Watch | None = None,
        positive: PositiveLabel = DEFAULT,
    ) -> LargePool:
        """Read a table once, and keep its rows on disk as teachers; `watch` hears of rows read, from several threads."""
        store = _store(folder, self.sources[0].path.parent, self.rows, len(self.columns), self.kind)
        classes = positive.last(self.find_classes() if loss.classifies else None)
        bundles = self.bundles(_size(self.rows))
        firsts = np.cumsum([0, *map(self._rows, bundles)]).tolist()

        def read(place: int) -> list[Paged]:
            bundle, made, first = bundles[place], list[Paged](), firsts[place]
            sizes = _even(self._rows(bundle), _size(self.rows))
            by_file = [(file, [group for _, group in some]) for file, some in groupby(bundle, lambda one: one[0])]
            chunks = chain.from_iterable(self._chunks(file, groups, self.asked) for file, groups in by_file)
            left: list[Raw] = [np.empty(0)]
            for number, size in enumerate(sizes):
                matrix = np.empty((len(self.asked) - 1, size), self.kind)
                target: list[Raw] = []
                filled = 0
                while filled < size:
                    while not len(left[-1]):
                        left = next(chunks)
                    most = size - filled
                    for row, values in zip(matrix, left[:-1], strict=True):
                        row[filled : filled + len(values[:most])] = values[:most]
                    target.append(left[-1][:most])
                    filled += len(target[-1])
                    left = [values[most:] for values in left]
                name = f"part {place + 1}" + (f".{number + 1}" if len(sizes) > 1 else "")
                costs = None if self.costs is None else matrix[-1].astype(np.float64)
                part = Part(name, matrix[: len(self.columns)].T, np.concatenate(target), costs=costs)
                made.append(Paged(make_unguarded(part, self.columns, loss, classes), store, first, watch))
                first += size
                if watch is not None:
                    watch(size)
            return made

        teachers = _together(read, range(len(bundles)))
        return LargePool(tuple(one for some in teachers for one in some), self.columns, classes, store, self)

    def check_same(self, file: int, wanted: str | None = None) -> None:
        """Refuse a file that is not the one whose head was read."""
        source = self.sources[file]
        if (now := stamp(source.path)) != self._marks[file]:
            seen = "is gone" if now is None else "has changed"
            raise DataError(
                f"{source.called} {seen} since the lesson began{'' if wanted is None else f' ({wanted} were wanted)'}; "
                "begin anew when nobody writes to these files"
            )


def parquet_files(folder: Path) -> list[Path]:
    """List the Parquet files in a folder and in folders below it, by name; skip hidden files and Spark's own notes."""
    every = [path for path in sorted(folder.rglob("*")) if is_parquet(path)]
    found = [path for path in every if not any(part[0] in "._" for part in path.relative_to(folder).parts)]
    if not found:
        raise DataError(f"folder {str(folder)!r} holds no Parquet file; name another, or the files themselves")
    return found


@dataclass(frozen=True, eq=False)
class LargeArray:
    """A memory-mapped array of features, and its targets."""

    features: np.memmap[tuple[int, int], np.dtype[np.floating]]
    target: Raw

    def put_away(self, loss: Loss, positive: PositiveLabel = DEFAULT) -> LargePool:
        """Keep the rows on disk as teachers; the array is gone through once, part by part."""
        features, target = self.features, self.target
        rows, width = features.shape
        columns = tuple(map(str, range(width)))
        kind = np.float32 if features.dtype == np.float32 else np.float64
        beside = Path(features.filename).parent if features.filename else None
        store = _store(None, beside, rows, width, kind)
        ranges = list(pairwise(np.cumsum([0, *_even(rows, _size(rows))]).tolist()))
        labels = [Part(f"rows {a} to {b - 1}", None, target[a:b]) for a, b in ranges if loss.classifies]
        classes = positive.last(find_classes(labels, most=2) if loss.classifies else None)
        mapped = None if features.mode == "c" else getattr(features, "_mmap", None)

        def read(place: tuple[int, tuple[int, int]]) -> Paged:
            number, (first, stop) = place
            matrix = np.ascontiguousarray(features[first:stop].T, dtype=kind)
            if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED)  # pages that were looked at count as ours until they are given back
            part = Part(f"part {number + 1}", matrix.T, np.asarray(target[first:stop]))
            return Paged(make_unguarded(part, columns, loss, classes), store, first)

        teachers = _together(read, list(enumerate(ranges)))
        return LargePool(tuple(teachers), columns, classes, store)


def _together(work: Callable[[Item], Done], items: Iterable[Item]) -> list[Done]:
    """Work on all items, one for each core at a time; what has not begun when one fails is left."""
    pool = ThreadPoolExecutor(_cores(), thread_name_prefix="reader")
    try:
        return list(pool.map(work, items))
    finally:
        pool.shutdown(cancel_futures=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size(rows: int) -> int:
    """Count the rows of a part: PART, or fewer where a core would have no part."""
    return min(PART, max(_LEAST_PART, -(-rows // _cores())))


def _even(rows: int, size: int) -> list[int]:
    """List sizes of parts that differ by one row at most, about `size` each."""
    parts = max(1, round(rows / size))
    return [(place + 1) * rows // parts - place * rows // parts for place in range(parts)]


def _store(
    folder: Path | None, beside: Path | None, rows: int, width: int, kind: type[np.float32 | np.float64]
) -> Store:
    """Make a store beside the data, or where temporary files go, if there is room for it."""
    places = [folder] if folder is not None else [beside, Path(tempfile.gettempdir())]
    able = [place for place in places if place is not None and os.access(place, os.W_OK)]
    if not able:
        raise SettingError(f"no copy of the rows can be written to {str(places[0])!r}; name another folder (--cache)")
    need = rows * (width * np.dtype(kind).itemsize + _BYTES)
    room = [place for place in able if shutil.disk_usage(place).free > need]
    if not room:
        free = shutil.disk_usage(able[0]).free
        raise SettingError(
            f"a copy of the rows needs {need / 1e6:,.1f} MB, and {str(able[0])!r} has {free / 1e6:,.1f} MB left; "
            "name another folder for it (--cache, or the variable TMPDIR)"
        )
    return Store(room[0])

"""Partitions of a table that live in a worker of a cluster: read once, asked often, read again where they are lost."""

from __future__ import annotations

import os
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet, types
from scipy import sparse
from threadpoolctl import ThreadpoolController

from superteach.exceptions import DataError, DataTypeError, QueryRefused, SuperteachError, listed, reason_of
from superteach.io.validation import Part, check_part, make_teacher, split_by_owner
from superteach.losses.scalar import LOSSES, Loss
from superteach.optim.problem import Scaling
from superteach.privacy.guard import Guard
from superteach.protocol import wire
from superteach.protocol.messages import Turn
from superteach.protocol.partitions import Layout, Piece, Task, PartitionReply
from superteach.teacher import Teacher
from superteach.teacher.rows import DenseBlock
from superteach.teacher.state import State
from superteach.types import Json, Positions, Raw

Matrix = Any
"""Rows × columns: a NumPy array or a SciPy matrix, which has no types."""
_REMEMBERED = 64
"""Bytes for each row beside its numbers: its id, target, slope, odds, fraction and copies of some while they are made."""
_SHARE = 0.5
"""Part of a machine's memory for rows in all of its workers, unless a lesson says how much: executors need the rest."""
_LABELS = 6
"""Label values that a partition tells of: more than two are an error that shows five."""


@dataclass(eq=False)
class _Resident:
    """One partition: its teachers, what they remember, and the reply given last."""

    teachers: list[Teacher]
    owners: list[str | int]
    """Whose they are, as owners are sorted by."""
    members: list[Positions]
    """Where each teacher's rows stand in the partition."""
    labels: list[list[object]]
    """Some label values of each teacher, smallest first."""
    widths: list[int]
    digest: int
    size: int
    """Bytes of memory that it takes, about."""
    states: list[State] = field(default_factory=list)
    after: int = 0
    """The asking that changed the states last."""
    last: tuple[tuple[int, int], list[bytes]] = ((0, 0), [])
    """Asking and attempt of the last replies, and these."""

    def begin(self, classes: Sequence[object] | None, firsts: Iterable[int]) -> None:
        """Number rows as the roster does, and turn signs where the positive label (the last) is −1 here."""
        if classes is not None and (strange := [one for some in self.labels for one in some if one not in classes]):
            raise DataError(f"label {strange[0]!r} is none of {listed(classes)}, on which all partitions agreed")
        here = np.unique(np.array([one for some in self.labels for one in some]))
        turned = classes is not None and len(here) > 0 and here[0] == classes[1]
        for teacher, first in zip(self.teachers, firsts, strict=True):
            teacher.ids += np.uint64(first)
            if turned:
                np.negative(teacher.target, out=teacher.target)
        self.states = [teacher.start() for teacher in self.teachers]

    def hear(self, task: Task, partition: int, asking: int, question: bytes, changes: bool) -> list[bytes]:
        """Answer one question, each teacher for itself."""
        asked = wire.read_question(wire.unpack(question))
        turns = [Turn(asked.number, seat.position, task.teachers) for seat in task.homes[partition].seats]
        given = zip(self.teachers, self.states, turns, strict=True)
        found = [teacher.answer(asked.query, state, turn) for teacher, state, turn in given]
        if changes:  # of all teachers or of none: a question that one of them refuses has not been
            self.states, self.after = [state for state, _ in found], asking
        return [wire.pack_reply(sealed) for _, sealed in found]

    def answer(self, task: Task, partition: int) -> list[bytes]:
        """Answer a task, as before where it is asked again."""
        if self.last[0][0] == task.asking:
            return self.last[1]
        try:
            if not self.states:
                self.begin(task.classes, [seat.first for seat in task.homes[partition].seats])
            for asking, question in task.journal:
                self.hear(task, partition, asking, question, True)
            if task.question:
                return self.hear(task, partition, task.asking, task.question, task.changes)
            chosen = [np.sort(np.array([] if one.chosen is None else one.chosen, np.int64)) for one in self.states]
            given = zip(self.teachers, self.members, chosen, strict=True)
            return [wire.pack_positions(rows[some], _mark(teacher, some)) for teacher, rows, some in given]
        except QueryRefused as error:
            return [wire.pack_no("refused", str(error))] * len(self.members)
        except Exception as error:
            # A failure that is raised would be tried again by the cluster, and come out as its traceback.
            return [wire.pack_no("failed", f"{type(error).__name__}: {reason_of(error)}")] * len(self.members)


class Residence:
    """All partitions that one worker holds, the ones used longest ago given up first."""

    def __init__(self) -> None:
        self.name = ""
        self._process = 0
        self._held: OrderedDict[tuple[str, int], _Resident] = OrderedDict()

    def visit(self, task: Task) -> Iterator[PartitionReply]:
        """Answer for all partitions of a lesson that live here; give up those that live elsewhere or missed a question."""
        self._enter()
        if task.ends:
            for key in [key for key in self._held if key[0] == task.lesson]:
                del self._held[key]
            return
        for partition, home in task.homes.items():
            key = task.lesson, partition
            held = self._held.get(key)
            if held is None:
                continue
            again = held.last[0][0] == task.asking
            if home.worker != self.name or not (again or held.after == task.after):
                del self._held[key]
            elif held.last[0] != (task.asking, task.attempt):
                yield from self._answered(task, partition, held)

    def load(
        self, task: Task, partition: int, batches: Iterable[pa.RecordBatch], pieces: Sequence[Piece] = ()
    ) -> Iterator[PartitionReply]:
        """Read a partition's rows and keep them; tell of them, or answer a question after the journal.

        `pieces` are where the rows come from, if from files.
        """
        self._enter()
        key = task.lesson, partition
        try:
            table = _table(batches)
            if not table.num_rows or (task.homes and partition not in task.homes):
                return
            held = read_partition(table, task.layout, partition, pieces)
            if partition in task.homes and held.digest != task.homes[partition].digest:
                raise DataError(CHANGED.format(partition=partition))
        except SuperteachError as error:
            if partition in task.homes:
                for place in range(len(task.homes[partition].seats)):
                    yield PartitionReply(partition, self.name, place, wire.pack_no("failed", str(error)))
            else:
                problem: Json = {"error": str(error), "kind": type(error).__name__}
                yield PartitionReply(partition, self.name, 0, wire.pack_facts(problem))
            return
        self._keep(key, held, task.most_bytes)
        if partition in task.homes:
            yield from self._answered(task, partition, held)
            return
        for place, teacher in enumerate(held.teachers):
            facts: Json = {"name": teacher.name, "order": held.owners[place], "rows": teacher.rows.count}
            facts |= {"digest": held.digest, "widths": held.widths, "labels": held.labels[place]}
            yield PartitionReply(partition, self.name, place, wire.pack_facts(facts))

    def _answered(self, task: Task, partition: int, held: _Resident) -> Iterator[PartitionReply]:
        self._held.move_to_end((task.lesson, partition))
        # One thread of linear algebra: the last bits of a sum must not depend on how many are free.
        with _controller().limit(limits=1):
            replies = held.answer(task, partition)
        held.last = (task.asking, task.attempt), replies
        for place, reply in enumerate(replies):
            yield PartitionReply(partition, self.name, place, reply)

    def _keep(self, key: tuple[str, int], held: _Resident, most: int | None) -> None:
        """Hold a partition, and let go of as many others as memory asks for."""
        self._held[key] = held
        most = most or int(_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (os.cpu_count() or 1))
        total = sum(one.size for one in self._held.values())
        while total > most and len(self._held) > 1:
            total -= self._held.popitem(last=False)[1].size

    def _enter(self) -> None:
        """Take a name of its own in each process: a fork of this one is another worker."""
        if self._process != os.getpid():
            self.name, self._process = uuid.uuid4().hex[:12], os.getpid()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


HERE = Residence()
"""What this process holds."""
CHANGED = (
    "partition {partition} has other rows, or the same in another order, than when they were read first; write the table "
    "to Parquet first and teach from there"
)


@dataclass(frozen=True)
class _Place:
    """Names a partition and its rows: by file and row group where they come from files."""

    partition: int
    pieces: Sequence[Piece] = ()

    def __str__(self) -> str:
        return f"partition {self.partition}"

    def row(self, number: int) -> str:
        for piece in self.pieces:
            if number < piece.rows:
                row = piece.first + number
                return f"row {row} (row group {_group_of(piece.path, row)}) of {piece.path!r}"
            number -= piece.rows
        return f"row {number}"


@dataclass(frozen=True, eq=False)
class _PlacedPart(Part):
    """One owner's rows of a partition."""

    place: _Place = _Place(0)

    def row(self, place: int) -> str:
        return self.place.row(place)


def read_partition(table: pa.Table, layout: Layout, partition: int, pieces: Sequence[Piece] = ()) -> _Resident:
    """Read a partition's rows as teachers, one for each owner: the larger label is +1, the smaller or only one −1."""
    called = _Place(partition, pieces)
    features, widths = _matrix(table, layout, called)
    columns = layout.columns(widths)
    loss = _loss(layout)
    labels = np.empty(0)
    if loss.classifies:
        labels, target = _labels(table, layout.target, called)
    else:
        target = _values(table, layout.target, called)
    costs = None if layout.costs is None else _values(table, layout.costs, called)
    digest = zlib.crc32(_bytes(target), zlib.crc32(b"" if costs is None else _bytes(costs), zlib.crc32(_bytes(labels))))
    for piece in (features.indptr, features.indices, features.data) if sparse.issparse(features) else features.T:
        digest = zlib.crc32(np.ascontiguousarray(piece).data, digest)
    names: list[str | int] = [str(called)]
    members: list[Positions] = [np.arange(table.num_rows)]
    if layout.owner is not None:
        owner = _values(table, layout.owner, called)
        owners, members = split_by_owner(owner)
        names = owners.tolist()
        digest = zlib.crc32(_bytes(owner), digest)
    teachers, some = [], []
    for name, rows in zip(names, members, strict=True):
        where = slice(None) if len(names) == 1 else rows
        paid = None if costs is None else costs[where]
        part = _PlacedPart(str(name), features[where], target[where], costs=paid, place=called)
        check_part(part, columns, loss)
        some.append(
            _told_labels(labels[np.bincount(part.target, minlength=len(labels)) > 0]) if loss.classifies else []
        )
        if loss.classifies:
            part = replace(part, target=np.where(part.target == 1, np.int8(1), np.int8(-1)))
        teachers.append(make_teacher(part, columns, loss, (-1, 1), Guard(), checked=True))
    size = _size(features) + _REMEMBERED * table.num_rows
    return _Resident(teachers, names, members, some, widths, digest, size)


def read_pieces(pieces: Sequence[Piece], kinds: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Read rows straight from their files, columns of these types; an error where files are not as the cluster saw them."""
    for piece in pieces:
        with parquet.ParquetFile(piece.path, memory_map=True) as stored:
            there = {name.lower() for name in stored.schema_arrow.names}
            if lacking := [name for name in kinds if name.lower() not in there]:
                raise DataError(
                    f"file {piece.path!r} has no column {lacking[0]!r}, which other files of the table have; write all "
                    "files with the same columns"
                )
            firsts, stop = _firsts(stored), piece.first + piece.rows
            groups = [group for group in range(stored.num_row_groups) if piece.first <= firsts[group] < stop]
            table = stored.read_row_groups(groups, list(kinds), use_threads=False)
        seen = {field.name: str(field.type) for field in table.schema}
        if seen != kinds or table.num_rows != piece.rows or firsts[groups[:1]].tolist() != [piece.first]:
            raise pa.ArrowTypeError(
                f"file {piece.path!r} holds {table.num_rows} rows of {seen}, not {piece.rows} of {kinds}"
            )
        yield from table.select(list(kinds)).to_batches()


def _firsts(stored: parquet.ParquetFile) -> Positions:
    """The first row of every row group, and of one behind the last."""
    return np.cumsum([0, *(stored.metadata.row_group(group).num_rows for group in range(stored.num_row_groups))])


def _group_of(path: str, row: int) -> int:
    with parquet.ParquetFile(path) as stored:
        return int(np.searchsorted(_firsts(stored), row, side="right")) - 1


def check_taken(table: pa.Table, layout: Layout, classes: Sequence[object] | None, partition: int, mark: int) -> None:
    """Refuse chosen rows that are not those that were taught."""
    held = read_partition(table, layout, partition)
    held.begin(classes, [0] * len(held.teachers))
    for teacher in held.teachers:
        mark ^= _mark(teacher, np.arange(teacher.rows.count))
    if mark:
        raise DataError(CHANGED.format(partition=partition))


def _mark(teacher: Teacher, rows: Positions) -> int:
    """A digest of some of a teacher's rows, the same whether it holds them dense or sparse; 0 of none."""
    blocks = [block for _, block in teacher.rows.blocks(Scaling(), rows)]
    if not blocks:
        return 0
    held = [block.columns.T if isinstance(block, DenseBlock) else block.matrix for block in blocks]
    whole = sparse.vstack([sparse.csr_matrix(one, dtype=np.float64) for one in held], format="csr")
    whole.eliminate_zeros()
    pieces = [whole.indptr.astype(np.int64), whole.indices.astype(np.int64), whole.data, teacher.target[rows]]
    pieces += [] if teacher.costs is None else [teacher.costs[rows]]
    digest = zlib.crc32(teacher.name.encode())
    for piece in pieces:
        digest = zlib.crc32(np.ascontiguousarray(piece).data, digest)
    return digest


def _table(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    found = list(batches)
    return pa.Table.from_batches(found) if found else pa.table({})


def _loss(layout: Layout) -> Loss:
    settings = dict(layout.loss)
    return LOSSES[str(settings.pop("name"))](**settings)


def _labels(table: pa.Table, name: str, called: _Place) -> tuple[Raw, Raw]:
    """Label values, smallest first, and which of them each row has."""
    found = pa.array(_values(table, name, called)).dictionary_encode()
    labels, codes = np.unique(found.dictionary.to_numpy(zero_copy_only=False), return_inverse=True)
    codes = codes[found.indices.to_numpy()]
    if labels.dtype.kind not in "biufO":
        raise DataTypeError(
            f"column {name!r} has type {table.column(name).type}; labels are numbers, text or true/false"
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.argmin(np.isfinite(labels)[codes]))
        raise DataError(
            f"{called}, column {name!r}, {called.row(row)}: the label is {labels[codes[row]]}; drop or fill such rows first"
        )
    return labels, codes


def _told_labels(labels: Raw) -> list[object]:
    """Some of these labels, one that is no whole number first: all that can be wrong with labels shows."""
    broken = labels[labels != np.round(labels)] if labels.dtype.kind == "f" else labels[:0]
    return [*broken[:1].tolist(), *labels[:_LABELS].tolist()]


def _whole(table: pa.Table, name: str, called: _Place, what: str = "value") -> pa.ChunkedArray:
    """One column without a gap."""
    column = table.column(name)
    if column.null_count:
        row = called.row(int(np.argmax(column.is_null().to_numpy())))
        raise DataError(f"{called}, column {name!r}, {row}: the {what} is missing; drop or fill such rows first")
    return column


def _values(table: pa.Table, name: str, called: _Place) -> Raw:
    column = _whole(table, name, called)
    if types.is_decimal(column.type):
        column = column.cast("float64")
    return np.asarray(column.to_numpy())


def _bytes(values: Raw) -> bytes:
    return (values.astype(str) if values.dtype.kind == "O" else values).tobytes()


def _size(features: Matrix) -> int:
    return int(features.data.nbytes + features.indices.nbytes if sparse.issparse(features) else features.nbytes)


def _matrix(table: pa.Table, layout: Layout, called: _Place) -> tuple[Matrix, list[int]]:
    """Rows × columns, and the width of each feature (0: a number): float32 where all are; sparse where a vector is."""
    kinds = [table.column(name).type for name in layout.features]
    if not any(types.is_struct(kind) for kind in kinds):
        single = all(types.is_float32(kind) for kind in kinds)
        # Column by column, as teachers hold them: handed over transposed, nothing is copied again.
        matrix = np.empty((len(kinds), table.num_rows), np.float32 if single else np.float64)
        for place, name in enumerate(layout.features):
            matrix[place] = _values(table, name, called)
        return matrix.T, [0] * len(kinds)
    blocks = [
        _vectors(_whole(table, name, called, "vector"), name, called)
        if types.is_struct(kind)
        else _values(table, name, called).astype(np.float64)[:, None]
        for name, kind in zip(layout.features, kinds, strict=True)
    ]
    widths = [block.shape[1] if types.is_struct(kind) else 0 for block, kind in zip(blocks, kinds, strict=True)]
    if any(sparse.issparse(block) for block in blocks):
        return sparse.hstack(blocks, format="csr"), widths
    return np.hstack(blocks).T.copy().T, widths


def _vectors(column: pa.ChunkedArray, name: str, called: _Place) -> Matrix:
    """Vectors of Spark ML (type 0: size, indices, values; type 1: values alone) as rows, sparse where any is."""
    stored = column.combine_chunks()
    if isinstance(stored, pa.ChunkedArray):
        stored = stored.chunk(0)
    if set(names := [one.name for one in stored.type]) != {"type", "size", "indices", "values"}:
        raise DataTypeError(f"{called}, column {name!r} holds {listed(names)}, which is no vector of Spark ML")
    dense = stored.field("type").to_numpy(zero_copy_only=False) == 1
    values, numbers = stored.field("values"), stored.field("values").flatten().to_numpy(zero_copy_only=False)
    lengths = np.asarray(values.value_lengths())
    sizes = np.where(dense, lengths, stored.field("size").fill_null(0).to_numpy(zero_copy_only=False))
    if (sizes != sizes[0]).any():
        row = int(np.argmax(sizes != sizes[0]))
        raise DataError(f"{called}, column {name!r}: row {row} has {sizes[row]} numbers, row 0 has {sizes[0]}")
    if dense.all():
        return numbers.reshape(len(dense), sizes[0])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.arange(len(numbers)) - np.repeat(starts[:-1], lengths)  # right where a vector is dense
    indices[np.repeat(~dense, lengths)] = stored.field("indices").flatten().to_numpy(zero_copy_only=False)
    return sparse.csr_matrix((numbers, indices, starts), shape=(len(dense), sizes[0]))

"""A teacher whose rows lie on a device that torch computes on, or are streamed to it in chunks.

Rows are stored in float32 or float64. Whatever is computed from them is float64, so that sums differ from the ones of
`superteach.teacher.Teacher` on the same stored rows by the order of addition alone. It answers with the same handlers; those
of the paper's method, and few rows that a lesson is fitted on, are computed from a copy in the memory of this machine.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from superteach.exceptions import DataTypeError, QueryRefused, Setting
from superteach.losses.arrays import to_numpy
from superteach.losses.scalar import Loss
from superteach.privacy.guard import Guard
from superteach.protocol import queries
from superteach.protocol.messages import Sealed, Turn
from superteach.protocol.queries import Query
from superteach.teacher import HANDLERS, Teacher
from superteach.teacher.state import Answer, State
from superteach.teacher.tensors import DeviceRows, exact, memory_errors
from superteach.types import Array

with suppress(ImportError):
    import torch

    from superteach.teacher import fused

if TYPE_CHECKING:
    from torch import Tensor

MOVED = 1 << 28
"""Numbers of rows that are copied to this machine's memory for a question that the device does not answer: 2 GiB."""


class _Numbered:
    """The numbers of rows that have no others: 0, 1, 2, …"""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __getitem__(self, where: slice | Tensor) -> Tensor:
        return torch.arange(where.start, where.stop, device=self._device) if isinstance(where, slice) else where


class DeviceTeacher(Teacher):
    """One owner's rows on a device."""

    rows: DeviceRows  # type: ignore[assignment]
    ids: Tensor | _Numbered  # type: ignore[assignment]

    def __init__(
        self,
        name: str,
        rows: DeviceRows,
        target: Tensor,
        ids: Tensor | None = None,
        costs: Array | None = None,
        home: Teacher | None = None,
    ) -> None:
        """Hold rows, with targets in float32 or float64; `home` has the same rows as they were handed in."""
        self.name, self.loss, self.guard, self.secret = name, None, Guard(), 0
        self.rows = rows
        self.target, self.costs, self.weights = target, costs, None
        self.ids = _Numbered(rows.device) if ids is None else ids
        self._home = home

    @classmethod
    def of(cls, teacher: Teacher, device: torch.device, dtype: torch.dtype, stream: bool | None) -> DeviceTeacher:
        """Bring a teacher's rows to a device."""
        if isinstance(teacher, cls):
            return teacher
        if teacher.rows.dense is None:
            raise DataTypeError(
                f"teacher {teacher.name!r} has sparse rows, and Torch holds dense ones; leave engine out, or densify them"
            )
        with memory_errors(teacher.name, teacher.rows, dtype, device, "its rows are brought there"):
            rows = DeviceRows.place(torch.from_numpy(teacher.rows.dense.T), device, dtype, stream)
            target = torch.as_tensor(teacher.target, device=device)
            ids = torch.as_tensor(_signed(teacher.ids), device=device)
        found = cls(teacher.name, rows, exact(target), ids, teacher.costs, teacher)
        found.loss, found.guard, found.secret = teacher.loss, teacher.guard, teacher.secret
        return found

    def answer(self, query: Query[object], state: State, turn: Turn) -> tuple[State, Sealed]:
        """Answer a query on the device, or from a copy of the rows."""
        self.guard.check_query(query)
        with memory_errors(self.name, self.rows, self.rows.matrix.dtype, self.rows.device, f"{query.name} was asked"):
            state, reply = (_on_device if self._answers(query) else _at_home)(self, query, state, turn)
        return state, self.guard.release(query, reply, self.name)

    def at_home(self) -> Teacher:
        """Return the same teacher with its rows in this machine's memory."""
        found = (self._home or self._copy).under(self.guard)
        found.secret = self.secret
        return found

    @cached_property
    def _copy(self) -> Teacher:
        """The rows as they are stored, copied from the device."""
        if self.rows.count * self.rows.features > MOVED:
            raise QueryRefused(
                f"teacher {self.name} would copy {self.rows.count:,} rows × {self.rows.features} from "
                f"{self.rows.device} to answer this, more than {MOVED:,} numbers; use ",
                Setting("method", "match"),
                " with ",
                Setting("rounding", "alone"),
                ", which needs no copy",
            )
        ids = self.ids.cpu().numpy().view(np.uint64) if isinstance(self.ids, torch.Tensor) else None
        rows, target = self.rows.matrix.cpu().numpy(), self.target.cpu().numpy().astype(np.float64)
        return Teacher(self.name, rows, target, ids, self.costs, self.loss)

    def announced(self, loss: queries.Announced) -> Loss:
        """Build the loss that a coordinator announces, or refuse it."""
        announced = super().announced(loss)
        if announced.outputs > 1:
            raise QueryRefused(f"devices compute losses of one output, not {announced.name!r}; leave engine out")
        return announced

    def _answers(self, query: Query[object]) -> bool:
        """Tell whether the device answers, and not the copy at home."""
        if isinstance(query, queries.AskMoments | queries.AskValues):
            few = query.rows == "chosen"
            return query.function != "dual" and not (few and self._home is not None)
        return isinstance(query, _ON_DEVICE)


def _signed(ids: npt.NDArray[np.unsignedinteger]) -> npt.NDArray[np.int64]:
    """Return the same bits as torch takes them."""
    return ids.view(np.int64) if ids.dtype.itemsize == 8 else ids.astype(np.int64)


def _on_device(teacher: DeviceTeacher, query: Query[object], state: State, turn: Turn) -> Answer:
    """Answer as any teacher does, or by the kernel that reads rows once."""
    if isinstance(query, queries.AskMoments) and query.rows != "chosen" and "fused" in globals():
        reply = fused.sum_moments(teacher, query, state)
        if reply is not None:
            return state, reply
    return HANDLERS[type(query)](teacher, query, state, turn)


def _at_home(teacher: DeviceTeacher, query: Query[object], state: State, turn: Turn) -> Answer:
    """Answer from the copy of the rows, with what the device knows of them."""
    if type(query) not in HANDLERS:
        raise QueryRefused(f"teacher {teacher.name} knows no query named {type(query).__name__}")
    home = teacher.at_home()
    after, reply = HANDLERS[type(query)](home, query, _brought(home, state), turn)
    return replace(after, gradients=state.gradients, sample=state.sample, probabilities=state.probabilities), reply


def _brought(home: Teacher, state: State) -> State:
    """Return the same state as a teacher without a device has it."""
    sample = state.sample
    if sample is not None:
        index = None if sample.index is None else to_numpy(sample.index)
        odds = sample.odds[:] if not hasattr(sample.odds, "cpu") else sample.odds
        rows = home.rows if index is None else home.rows.part(index)
        sample = replace(sample, rows=rows, index=index, slope=to_numpy(sample.slope), odds=to_numpy(odds))
    gradients = None if state.gradients is None else replace(state.gradients, bins=to_numpy(state.gradients.bins))
    likely = None if state.probabilities is None else to_numpy(state.probabilities)
    return replace(state, gradients=gradients, sample=sample, probabilities=likely)


_ON_DEVICE = (
    queries.Candidates, queries.Census, queries.ColumnSums, queries.Compare, queries.Envelope,
    queries.Gradients, queries.Include, queries.Prepare, queries.Recall, queries.RoundAlone, queries.Select,
    queries.Thin,
)  # fmt: skip

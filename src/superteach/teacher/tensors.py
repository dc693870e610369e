"""Rows as a tensor, what each adds to a function, and lots: all that a teacher on a device is made of.

Rows are stored in float32 or float64; whatever is computed from them is float64.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from superteach.exceptions import DataError, TeachingError, reason_of
from superteach.losses.scalar import Huber, Loss
from superteach.optim.problem import Scaling
from superteach.teacher.rows import Rows
from superteach.teacher.state import known
from superteach.types import Array, Raw

with suppress(ImportError):
    import torch
with suppress(ImportError):
    from superteach.teacher import fused

if TYPE_CHECKING:
    from torch import Tensor

_ON_GPU, _ON_CPU = 1 << 27, 1 << 19
"""Numbers of a chunk that are float64 at one time: a gigabyte on a GPU, where short kernels cost most; on a CPU what fits
its cache."""
_ASIDE = 40, 4 << 30
"""Bytes a row for slopes, octaves, log-odds and fractions, and bytes for chunks, that stay free beside resident rows."""


class DeviceRows:
    """Rows × features in one tensor: on the device, or on this machine and brought there chunk by chunk."""

    def __init__(self, matrix: Tensor, device: torch.device) -> None:
        self.matrix, self.device = matrix, device
        self.count, self.features = map(int, matrix.shape)

    @classmethod
    def place(cls, matrix: Tensor, device: torch.device, dtype: torch.dtype, stream: bool | None = None) -> DeviceRows:
        """Bring rows to a device where they fit beside what is computed from them; None decides whether to stream them."""
        if matrix.device == device and matrix.dtype == dtype:
            return cls(matrix, device)
        if device.type == "cuda" and stream is None:
            bytes_of_rows = matrix.numel() * dtype.itemsize + _ASIDE[0] * len(matrix) + _ASIDE[1]
            stream = bytes_of_rows > torch.cuda.mem_get_info(device)[0]
        if device.type == "cpu" or not stream:
            whole = torch.empty(tuple(matrix.shape), dtype=dtype, device=device)
            for where in ranges_of(len(matrix), _ON_GPU // max(1, matrix.shape[1])):
                whole[where] = matrix[where].to(device, dtype)
            return cls(whole, device)
        here = matrix.to("cpu", dtype).contiguous()
        return cls(here.pin_memory(), device)

    def part(self, index: Tensor) -> DeviceRows:
        """Bring some of the rows side by side on the device."""
        return DeviceRows(self.take(index), self.device)

    def take(self, where: slice | Tensor) -> Tensor:
        """Bring some of the rows to the device."""
        if isinstance(where, slice):
            return self.matrix[where].to(self.device, non_blocking=True)
        return self.matrix.index_select(0, where.to(self.matrix.device)).to(self.device)

    def ranges(self, count: int | None = None) -> Iterator[slice]:
        """Split rows into chunks."""
        most = _ON_CPU if self.device.type == "cpu" else _ON_GPU
        return ranges_of(self.count if count is None else count, max(1024, most // (self.features + 2)))

    def wide(self, where: slice | Tensor, scaling: Scaling) -> Tensor:
        """Bring some of the rows in float64, scaled, with the constant column."""
        x = self.take(where).to(torch.float64)
        if scaling.centre is not None:
            x = x - self.tensor(scaling.centre)
        if scaling.scale is not None:
            x = x / self.tensor(scaling.scale)
        return torch.nn.functional.pad(x, (0, 1), value=scaling.constant) if scaling.constant else x

    def tensor(self, numbers: Raw) -> Tensor:
        """Bring numbers of a question to the device."""
        return torch.as_tensor(np.ascontiguousarray(numbers), device=self.device)


def terms(kind: str, loss: Loss | None, t: Tensor, y: Tensor, given: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Value, slope and curvature of each row's function at t; the kernel of `fused` has the same formulas."""
    if kind == "logistic":
        value, wrong, curvature = _of_margin(y * t)
        return value, -y * wrong, curvature
    if kind == "relax":
        return _of_margin(-(t + known(given, "log-odds")))
    if kind == "squared":
        return 0.5 * (t - y) ** 2, t - y, torch.ones_like(t)
    if kind == "squared_hinge":
        short = torch.clamp(1.0 - y * t, min=0.0)
        return short * short, -2.0 * y * short, 2.0 * (short > 0.0).double()
    if kind == "huber":
        delta = parameter(loss)
        slope = torch.clamp(t - y, -delta, delta)
        return slope * (t - y - 0.5 * slope), slope, ((t - y).abs() <= delta).double()
    if kind == "poisson":
        mean = torch.exp(t)
        return mean - torch.where(y == 0.0, 0.0, y * t), mean - y, mean
    on = (y > 0.0).double() if kind == "positive" else torch.ones_like(t)
    return 0.5 * t * t * on, t * on, on


def _of_margin(margin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log(1 + exp(−m)), σ(−m) and σ(m)σ(−m)."""
    small = torch.exp(-margin.abs())
    inverse = 1.0 / (1.0 + small)
    both = small * inverse
    return torch.log1p(small) - torch.clamp(margin, max=0.0), torch.where(margin >= 0.0, both, inverse), both * inverse


def parameter(loss: Loss | None) -> float:
    """Return the parameter of a loss that has one, else 0."""
    return loss.delta if isinstance(loss, Huber) else 0.0


@dataclass(frozen=True, eq=False)
class Sought:
    """The rows that a question runs over, and what its function needs of them."""

    rows: DeviceRows
    target: Tensor
    kind: str
    """What each row adds: a loss by its name, or another function of rows."""
    scaling: Scaling
    loss: Loss | None = None
    index: Tensor | None = None
    lift: Tensor | None = None
    given: Tensor | None = None
    weight: Tensor | None = None

    @property
    def count(self) -> int:
        """How many rows they are."""
        return self.rows.count if self.index is None else len(self.index)

    def chunk(self, where: slice) -> tuple[slice | Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
        """Return places of the rows in `rows`, targets, factors of pulls, log-odds, weights."""
        places = where if self.index is None else self.index[where]
        rest = (None if each is None else each[where] for each in (self.lift, self.given, self.weight))
        return places, self.target[places], *rest


def can_fuse(rows: DeviceRows) -> bool:
    """Tell whether there is a kernel for rows of this width, and this machine can build it."""
    return "fused" in globals() and fused.fits(rows.features) and _builds(rows.device)


@cache
def _builds(device: torch.device) -> bool:
    """Try the kernel on one row: Triton needs a C compiler and a driver that it knows."""
    rows = DeviceRows(torch.ones((1, 1), device=device), device)
    try:
        sum_fused(Sought(rows, torch.ones(1, device=device), "square", Scaling()), slice(0, 1), np.ones(1), True)
    except Exception as error:
        warnings.warn(f"Triton cannot be used on {device}, torch's own products are: {reason_of(error)}", stacklevel=2)
        return False
    return True


def sum_fused(asked: Sought, where: slice, point: Array, curved: bool) -> Tensor:
    """Sum over a chunk by one kernel that reads the rows once."""
    places, target, *given = asked.chunk(where)
    rows, features, scaling = asked.rows, asked.rows.features, asked.scaling
    used = [
        *range(features),
        *([features] if scaling.constant else []),
        *([features + 1] if asked.lift is not None else []),
    ]
    table = np.zeros((4, max(16, 1 << (features + 1).bit_length())))
    table[0, used], table[2] = point, 1.0
    table[1, :features] = 0.0 if scaling.centre is None else scaling.centre
    table[2, :features] = 1.0 if scaling.scale is None else 1.0 / scaling.scale
    table[3, :2] = scaling.constant, parameter(asked.loss)
    scaled = scaling.centre is not None or scaling.scale is not None
    numbers = rows.tensor(table)
    with torch.cuda.device(rows.device) if rows.device.type == "cuda" else nullcontext():
        found = fused.moments(rows.take(places), target, numbers, asked.kind, scaled, given, curved)
    width, some = table.shape[1], torch.as_tensor(used, device=rows.device)
    gram = found[1 + width :].reshape(width, width)[some][:, some]
    return torch.cat([found[:1], found[1 : 1 + width][some], gram.ravel()])


def sum_plain(asked: Sought, where: slice, point: Array, curved: bool) -> Tensor:
    """Do the same by torch's own products."""
    places, target, lift, given, weight = asked.chunk(where)
    x = asked.rows.wide(places, asked.scaling)
    at = asked.rows.tensor(point)
    t = x @ at if lift is None else lift * (x @ at[:-1]) + at[-1]
    value, slope, curvature = terms(asked.kind, asked.loss, t, target, given)
    if weight is not None:
        value, slope, curvature = weight * value, weight * slope, weight * curvature
    if lift is not None:
        x = torch.cat([lift[:, None] * x, torch.ones_like(t)[:, None]], dim=1)
    gram = (x * curvature[:, None]).T @ x if curved else x.new_zeros((len(point), len(point)))
    return torch.cat([value.sum()[None], x.T @ slope, gram.ravel()])


@contextmanager
def told(name: str, rows: Rows | DeviceRows, dtype: torch.dtype, device: torch.device, when: str) -> Iterator[None]:
    """Say which rows did not fit where a device runs out of memory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        size, free = rows.count * rows.features * dtype.itemsize / 1e9, ""
        if device.type == "cuda":
            left, whole = torch.cuda.mem_get_info(device)
            free = f"; {left / 1e9:.1f} of its {whole / 1e9:.1f} GB are free"
        raise TeachingError(
            f"{device} is out of memory when {when}: the {rows.count:,} rows × {rows.features} of teacher {name} take "
            f"{size:.1f} GB as {str(dtype).removeprefix('torch.')}{free}. Use Torch(…, stream=True), several devices "
            "with a part of the rows each, or dtype='float32'"
        ) from error


_GOLDEN = 0x9E3779B97F4A7C15 - 2**64


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _mixed(x: Tensor) -> Tensor:
    """Mix bits by the finaliser of SplitMix64, as `ranks.random_keys` does, on signed numbers with the same bits."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * _signed(factor)
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def lots_of(ids: Tensor, seed: int) -> Tensor:
    """Draw a number in [0, 1) for each id, the same as `ranks.random_keys` gives."""
    keys = _mixed(_mixed(ids + _GOLDEN) ^ _mixed(torch.tensor([_signed(seed)], device=ids.device) + _GOLDEN))
    return (((keys >> 32) & 0xFFFFFFFF).double() * 2.0**32 + (keys & 0xFFFFFFFF).double()) / 2.0**64


def ranges_of(count: int, size: int) -> Iterator[slice]:
    """Split rows into chunks of a size."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def exact(target: Tensor) -> Tensor:
    """Return targets in float32 where that holds each of them, as it does labels; else in float64."""
    # Numbers of one byte would keep Triton from the double precision of tensor cores.
    small = target.to(torch.float32)
    if target.dtype in (torch.int8, torch.float32, torch.bool) or torch.equal(small.to(target.dtype), target):
        return small
    return target.to(torch.float64)


def check_finite(name: str, rows: DeviceRows) -> None:
    """Refuse rows with a NaN or an infinity, by teacher, row and column."""
    for where in rows.ranges():
        wrong = ~torch.isfinite(rows.take(where))
        if bool(wrong.any()):
            row, column = torch.nonzero(wrong)[0].tolist()
            raise DataError(
                f"teacher {name!r} has a missing or infinite value in row {where.start + row}, column {column}; "
                "fill it in or leave the row out"
            )

"""Rows in a tensor, and blocks of them with the products that sums are made of.

Rows are stored in float32 or float64; whatever is computed from them is float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from superteach.exceptions import DataError, TeachingError
from superteach.losses.arrays import to_numpy
from superteach.optim.problem import Scaling
from superteach.teacher.rows import Rows
from superteach.types import Array, Raw

with suppress(ImportError):
    import torch

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

    def pieces(self, count: int) -> Iterator[slice]:
        """Split numbers of rows into chunks."""
        most = _ON_CPU if self.device.type == "cpu" else _ON_GPU
        return ranges_of(count, max(1024, most // (self.features + 2)))

    def blocks(
        self, scaling: Scaling, some: Raw | Tensor | None = None
    ) -> Iterator[tuple[slice | Tensor, TensorBlock]]:
        """Yield (positions, block) over all rows or over some, in order."""
        if some is None:
            for where in self.pieces(self.count):
                yield where, TensorBlock(self.take(where), scaling)
            return
        chosen = self.tensor(some)
        for piece in self.pieces(len(chosen)):
            yield chosen[piece], TensorBlock(self.take(chosen[piece]), scaling)

    def empty(self, *shape: int, integers: bool = False) -> Tensor:
        """Make a tensor for numbers of rows, where they are computed."""
        return torch.empty(shape, dtype=torch.int8 if integers else torch.float64, device=self.device)

    def numbers(self, index: Tensor) -> Tensor:
        """Return positions of rows as they are."""
        return index

    def tensor(self, numbers: Raw | Tensor) -> Tensor:
        """Bring numbers to the device."""
        if isinstance(numbers, torch.Tensor):
            return numbers.to(self.device)
        return torch.as_tensor(np.ascontiguousarray(numbers), device=self.device)


@dataclass(frozen=True, eq=False)
class TensorBlock:
    """Some rows, with the products of `rows.DenseBlock`: numbers of rows are tensors, sums over rows are NumPy's."""

    stored: Tensor
    scaling: Scaling

    @cached_property
    def matrix(self) -> Tensor:
        """The rows in float64, scaled, with the constant column."""
        x, scaling = self.stored.to(torch.float64), self.scaling
        if scaling.centre is not None:
            x = x - self._tensor(scaling.centre)
        if scaling.scale is not None:
            x = x / self._tensor(scaling.scale)
        return torch.nn.functional.pad(x, (0, 1), value=scaling.constant) if scaling.constant else x

    @property
    def width(self) -> int:
        """Columns, the constant one counted."""
        return int(self.matrix.shape[1])

    def times(self, point: Array) -> Tensor:
        """X p, one number per row; several for several points."""
        return self._tensor(point) @ self.matrix.T

    def weighted_sum(self, weights: Array | Tensor) -> Array:
        """X'w."""
        return to_numpy(self._tensor(weights) @ self.matrix)

    def mapped(self, matrix: Array) -> Tensor:
        """Multiply every row by a matrix, or the diagonal of one."""
        by = self._tensor(matrix)
        return self.matrix * by if by.ndim == 1 else self.matrix @ by.T

    def squares(self, matrix: Array) -> Tensor:
        """‖M x_j‖², one number per row."""
        return self.mapped(matrix).square().sum(dim=1)

    def magnitudes(self, weights: Array) -> Tensor:
        """|X| w for rows w ≥ 0 of a matrix."""
        return self._tensor(weights) @ self.matrix.abs().T

    def square_sums(self) -> Array:
        """Σ_j x_j², one number per scaled column."""
        columns = self.matrix[:, : self.stored.shape[1]]
        return to_numpy((columns * columns).sum(dim=0))

    def gram(self, weights: Tensor) -> Array:
        """X' diag(w) X."""
        return to_numpy((self.matrix * weights[:, None]).T @ self.matrix)

    def _tensor(self, numbers: Array | Tensor) -> Tensor:
        if isinstance(numbers, np.ndarray):
            numbers = np.ascontiguousarray(numbers)  # torch takes no negative strides
        return torch.as_tensor(numbers, dtype=torch.float64, device=self.stored.device)


@contextmanager
def memory_errors(
    name: str, rows: Rows | DeviceRows, dtype: torch.dtype, device: torch.device, when: str
) -> Iterator[None]:
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
    for where in rows.pieces(rows.count):
        wrong = ~torch.isfinite(rows.take(where))
        if bool(wrong.any()):
            row, column = torch.nonzero(wrong)[0].tolist()
            raise DataError(
                f"teacher {name!r} has a missing or infinite value in row {where.start + row}, column {column}; "
                "fill it in or leave the row out"
            )

"""A teacher's rows as blocks that fit the cache, dense or sparse, with the three products all work needs.

Dense rows lie column by column (features × rows): a block is then a few long contiguous runs, and its
products cost half of what they do row by row. Data may be float32; every sum is float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from superteach.exceptions import DataError, DataTypeError, reason_of
from superteach.optim.problem import Scaling
from superteach.types import Array, Matrix, Positions, Raw

_BLOCK_NUMBERS = 1 << 19
_MOST_BLOCK_ROWS = 1 << 15
_LEAST_BLOCK_ROWS = 1 << 10
"""Dense blocks are a few megabytes: small enough for the cache, and long enough that threads seldom meet
in the interpreter (vectors under some ten thousand numbers make two threads slower than one)."""
_SPARE_NUMBERS = 1 << 16
"""Numbers in the weighted copy a Gram matrix needs: half a megabyte, within the second-level cache."""
_SPARSE_BLOCK_ROWS = 1 << 16
"""Rows of a sparse block; its products take one pass over what is stored."""
_MANY = 8
"""Rows drawn beyond this part of all are gathered block by block and not copied: at 4 % of 5M × 10 rows, where a third is
drawn, a copy takes a quarter of the data's memory and saves 3 % of a lesson's time."""
_GRADIENT_NUMBERS = 1 << 21
"""Numbers in gradients of several outputs that are built at once, 16 megabytes: 5,000 rows of 400 coefficients."""
_NOTHING = 1e-100
"""Factors below this are 0: their squares leave the range in which numbers are quick to compute with (20 times slower)."""
_PIECE = 1 << 14
"""Rows for which log-odds and random numbers are computed at once: an eighth of a megabyte each."""
_GEMM_WIDTH = 16
"""Up to this width a plain product beats the symmetric one."""


@dataclass(frozen=True, eq=False)
class DenseBlock:
    """Some rows, features × rows, scaled, in float64; the constant column is kept as one number."""

    columns: Array
    constant: float
    spare: Array
    """Room for one weighted copy, shared by all blocks of a pass: fresh memory would cost as much again."""

    def times(self, point: Array) -> Array:
        """X p, one number per row; outputs × rows for a model of several outputs."""
        if self.constant:
            return np.asarray(point[..., :-1] @ self.columns + point[..., -1:] * self.constant)
        return np.asarray(point @ self.columns)

    def weighted_sum(self, weights: Array) -> Array:
        """X'w, one number per column; outputs × columns for outputs × rows."""
        if weights.ndim == 2:
            totals = weights @ self.columns.T
            border = self.constant * weights.sum(axis=1, keepdims=True)
            return np.asarray(np.hstack([totals, border]) if self.constant else totals)
        total = self.columns @ weights
        return np.append(total, self.constant * weights.sum()) if self.constant else total

    def mapped(self, matrix: Array) -> Array:
        """Multiply every row by a matrix (or the diagonal of one): rows × width."""
        if matrix.ndim == 1:
            whole = self.columns.T * matrix[: len(self.columns)]
            return np.column_stack([whole, np.full(len(whole), matrix[-1] * self.constant)]) if self.constant else whole
        if self.constant:
            return np.asarray((matrix[:, :-1] @ self.columns).T + matrix[:, -1] * self.constant)
        return np.asarray((matrix @ self.columns).T)

    @property
    def width(self) -> int:
        """Columns, the constant one counted."""
        return len(self.columns) + bool(self.constant)

    def pieces(self, size: int) -> Iterator[tuple[slice, Array]]:
        """Yield `size` rows after the other, as columns × rows with the constant one."""
        for start in range(0, self.columns.shape[1], size):
            piece = self.columns[:, start : start + size]
            if self.constant:
                piece = np.vstack([piece, np.full(piece.shape[1], self.constant)])
            yield slice(start, start + size), piece

    def squares(self, matrix: Array) -> Array:
        """‖M x_j‖², one number per row; a vector is the diagonal of M."""
        if matrix.ndim == 1:
            total = np.square(matrix[: len(self.columns)]) @ np.square(self.columns)
            return np.asarray(total + (matrix[-1] * self.constant) ** 2 if self.constant else total)
        moved = matrix[:, : len(self.columns)] @ self.columns
        if self.constant:
            moved += self.constant * matrix[:, -1:]
        return np.asarray(np.einsum("ij,ij->j", moved, moved))

    def magnitudes(self, weights: Array) -> Array:
        """|X| w for rows w ≥ 0 of a matrix: w × rows."""
        total = weights[:, : len(self.columns)] @ np.abs(self.columns)
        return np.asarray(total + weights[:, -1:] * self.constant if self.constant else total)

    def square_sums(self) -> Array:
        """Σ_j x_j², one number per scaled column."""
        return np.asarray(np.einsum("ij,ij->i", self.columns, self.columns))

    def gram(self, weights: Array) -> Array:
        """X' diag(w) X for w ≥ 0."""
        width, size = len(self.columns), self.spare.shape[1]
        narrow = width <= _GEMM_WIDTH
        factor = weights if narrow else np.sqrt(weights)
        core = np.zeros((width, width))
        for start in range(0, len(weights), size):
            piece = self.columns[:, start : start + size]
            weighted = self.spare[:, : piece.shape[1]]
            np.multiply(piece, factor[start : start + size], out=weighted)
            core += weighted @ (piece if narrow else weighted).T
        if not self.constant:
            return core
        return _bordered(core, self.constant * (self.columns @ weights), self.constant**2 * weights.sum())


@dataclass(frozen=True, eq=False)
class SparseBlock:
    """Some rows in compressed form; they are centred and scaled on the products, never on the rows."""

    matrix: Matrix
    constant: float
    centre: Array
    scale: Array

    def times(self, point: Array) -> Array:
        if point.ndim == 2:
            return np.stack([self.times(one) for one in point])
        slope, offset = (point[:-1], point[-1] * self.constant) if self.constant else (point, 0.0)
        slope = slope / self.scale
        return np.asarray(self.matrix @ slope + (offset - float(self.centre @ slope)))

    def weighted_sum(self, weights: Array) -> Array:
        if weights.ndim == 2:
            return np.stack([self.weighted_sum(one) for one in weights])
        mass = weights.sum()
        total = (self.matrix.T @ weights - self.centre * mass) / self.scale
        return np.append(total, self.constant * mass) if self.constant else np.asarray(total)

    def sparsely(self, diagonal: Array) -> Matrix:
        """Do as `mapped` does for the diagonal of a matrix, in compressed form; None where centring fills all entries."""
        if self.centre.any():
            return None
        whole = self.matrix.astype(np.float64, copy=False)
        whole = whole.multiply(diagonal[: whole.shape[1]] / self.scale).tocsr()
        border = np.full((whole.shape[0], 1), diagonal[-1] * self.constant)
        return sparse.hstack([whole, border], format="csr") if self.constant else whole

    def mapped(self, matrix: Array) -> Array:
        if matrix.ndim == 2:
            return np.stack([self.times(row) for row in matrix], axis=1)
        whole = (self.matrix.toarray().astype(np.float64, copy=False) - self.centre) / self.scale
        return DenseBlock(whole.T, self.constant, np.empty((0, 0))).mapped(matrix)

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1]) + bool(self.constant)

    def pieces(self, size: int) -> Iterator[tuple[slice, Array]]:
        ones = np.ones(self.width)
        for start in range(0, self.matrix.shape[0], size):
            part = replace(self, matrix=self.matrix[start : start + size])
            yield slice(start, start + size), part.mapped(ones).T

    def squares(self, matrix: Array) -> Array:
        if matrix.ndim == 2:
            return np.asarray(np.square(self.mapped(matrix)).sum(axis=1))
        weight = np.square(matrix[: self.matrix.shape[1]] / self.scale)
        wide = self.matrix.astype(np.float64, copy=False)  # the square of 1e-23 is nothing in float32
        total = wide.multiply(wide) @ weight
        if self.centre.any():
            total = total - 2.0 * (self.matrix @ (weight * self.centre)) + weight @ np.square(self.centre)
        return np.asarray(np.maximum(total, 0.0) + (matrix[-1] * self.constant) ** 2 * bool(self.constant))

    def magnitudes(self, weights: Array) -> Array:
        """Bound the same from above: a centre and an entry count both."""
        slope = weights[:, : self.matrix.shape[1]] / self.scale
        total = (np.abs(self.matrix) @ slope.T).T + slope @ np.abs(self.centre)[:, None]
        return np.asarray(total + weights[:, -1:] * self.constant if self.constant else total)

    def square_sums(self) -> Array:
        # Entry by entry in float64, so that nothing cancels; an entry that is not stored adds centre².
        rows, width = self.matrix.shape
        column = self.matrix.indices
        away = (self.matrix.data.astype(np.float64) - self.centre[column]) / self.scale[column]
        squares = np.bincount(column, away * away, width)
        return np.asarray(squares + (rows - np.bincount(column, minlength=width)) * (self.centre / self.scale) ** 2)

    def gram(self, weights: Array) -> Array:
        centre, scale, mass = self.centre, self.scale, weights.sum()
        core = np.asarray((self.matrix.T @ self.matrix.multiply(weights[:, None]).tocsr()).todense())
        sums = np.asarray(self.matrix.T @ weights)
        if centre.any():
            core = core - np.outer(centre, sums) - np.outer(sums, centre) + mass * np.outer(centre, centre)
            sums = sums - centre * mass
        core, sums = core / np.outer(scale, scale), sums / scale
        return _bordered(core, self.constant * sums, self.constant**2 * mass) if self.constant else core


@dataclass(frozen=True, eq=False)
class SeveralBlock:
    """The same rows for a model of several outputs, with coefficients one output after the other."""

    block: DenseBlock | SparseBlock
    outputs: int

    def times(self, point: Array) -> Array:
        """Outputs × rows."""
        return self.block.times(point.reshape(self.outputs, -1))

    def weighted_sum(self, weights: Array) -> Array:
        """Σ_j w_j ⊗ x_j for weights of outputs × rows."""
        return self.block.weighted_sum(weights).ravel()

    def own_grams(self, curvature: Array) -> list[Array]:
        """Return the same for each output by itself, without what two outputs share."""
        return [self.block.gram(weights) for weights in curvature[0]]

    def gram(self, curvature: Array) -> Array:
        """Σ_j K_j ⊗ x_j x_j', with the curvatures K_j given by factors (see `losses.multioutput`)."""
        blocks = self.own_grams(curvature)
        if len(curvature) == 1:
            return np.asarray(linalg.block_diag(*blocks))
        whole, width = -outer_sum(self.block, curvature[1]), len(blocks[0])
        for place, own in enumerate(blocks):
            span = slice(place * width, (place + 1) * width)
            whole[span, span] = own
        return whole


def gradient_pieces(block: DenseBlock | SparseBlock, factor: Array) -> Iterator[tuple[slice, Array]]:
    """Yield f_j ⊗ x_j of a few rows after the other, as columns: never of all rows at once."""
    width = len(factor) * block.width
    for where, piece in block.pieces(max(1, _GRADIENT_NUMBERS // width)):
        yield where, (factor[:, None, where] * piece).reshape(-1, piece.shape[1])


def outer_sum(block: DenseBlock | SparseBlock, factor: Array) -> Array:
    """Σ_j (f_j ⊗ x_j)(f_j ⊗ x_j)'."""
    factor = np.where(np.abs(factor) < _NOTHING, 0.0, factor)
    return np.asarray(sum(piece @ piece.T for _, piece in gradient_pieces(block, factor)))


def mapped_gradients(block: DenseBlock | SparseBlock, factor: Array, metric: Array) -> Array:
    """M (f_j ⊗ x_j) of every row, rows × width; a vector is the diagonal of M."""
    if factor.ndim == 1:
        mapped = block.mapped(metric)
        mapped *= factor[:, None]
        return mapped
    parts = [
        (metric[:, None] * piece if metric.ndim == 1 else metric @ piece) for _, piece in gradient_pieces(block, factor)
    ]
    return np.concatenate(parts, axis=1).T


def gradient_squares(block: DenseBlock | SparseBlock, factor: Array, metric: Array) -> Array:
    """‖M (f_j ⊗ x_j)‖², one number per row, for factors of outputs × rows."""
    if metric.ndim == 1:
        parts = zip(factor, metric.reshape(len(factor), -1), strict=True)
        return np.asarray(sum(np.square(own) * block.squares(diagonal) for own, diagonal in parts))
    squares = np.zeros(factor.shape[1])
    step = max(1, _GRADIENT_NUMBERS // factor.size)
    for start in range(0, len(metric), step):  # f ⊗ x is never built: M meets x, then f
        some = metric[start : start + step]
        at = block.times(some.reshape(-1, block.width)).reshape(len(some), *factor.shape)
        squares += np.square(np.einsum("kcj,cj->kj", at, factor)).sum(axis=0)
    return squares


@dataclass(frozen=True, eq=False)
class LiftedBlock:
    """The same rows as (a_j x_j, 1), or (a_j ⊗ x_j, 1): a row's gradient beside the one that counts it."""

    block: DenseBlock | SparseBlock
    factor: Array

    def times(self, point: Array) -> Array:
        if self.factor.ndim == 2:
            at = self.block.times(point[:-1].reshape(len(self.factor), -1))
            return np.asarray(np.einsum("cj,cj->j", self.factor, at) + point[-1])
        lifted: Array = self.factor * self.block.times(point[:-1]) + point[-1]
        return lifted

    def weighted_sum(self, weights: Array) -> Array:
        return np.append(self.block.weighted_sum(self.factor * weights), float(weights.sum()))

    def own_grams(self, weights: Array) -> list[Array]:
        """Σ_j w_j a_jc² x_j x_j' for each output c."""
        return [self.block.gram(weights * own * own) for own in self.factor]

    def gram(self, weights: Array) -> Array:
        weighted = self.factor * weights
        if self.factor.ndim == 2:
            core = outer_sum(self.block, self.factor * np.sqrt(weights))
        else:
            core = self.block.gram(self.factor * weighted)
        return _bordered(core, self.block.weighted_sum(weighted).ravel(), float(weights.sum()))


Block = DenseBlock | SparseBlock
Where = slice | Positions
"""Positions of the rows of a block."""


def _bordered(core: Array, border: Array, corner: float) -> Array:
    width = len(border) + 1
    full = np.empty((width, width))
    full[:-1, :-1] = core
    full[:-1, -1] = full[-1, :-1] = border
    full[-1, -1] = corner
    return full


def over_outputs(block: Block, outputs: int) -> Block | SeveralBlock:
    """Return the block as a model of `outputs` outputs meets it."""
    return block if outputs == 1 else SeveralBlock(block, outputs)


class Rows:
    """All rows of one teacher; immutable."""

    def __init__(self, features: Matrix) -> None:
        """Take rows × features, dense or sparse; dense rows are held column by column."""
        if sparse.issparse(features):
            self._matrix = features.tocsr()
            if not self._matrix.has_canonical_format:
                self._matrix = self._matrix.copy()
                self._matrix.sum_duplicates()
            self._columns = None
        else:
            dense = np.asarray(features)
            if dense.ndim != 2:
                raise DataError(f"a teacher's rows have shape {dense.shape}; rows × columns are needed")
            if dense.dtype not in (np.float32, np.float64):
                try:
                    dense = dense.astype(np.float64)
                except (TypeError, ValueError) as error:
                    raise DataTypeError(f"a teacher's rows hold more than numbers: {reason_of(error)}") from None
            self._columns = np.ascontiguousarray(dense.T)
            self._matrix = None
        self.count, self.features = features.shape
        self._index: npt.NDArray[np.integer] | None = None
        """Which of the columns are rows of this part; None: all."""

    @property
    def dense(self) -> Raw | None:
        """Features × rows as they are held; None where rows are sparse."""
        return self._columns

    def empty(self, *shape: int, integers: bool = False) -> Any:
        """Make an array for numbers of rows, where the rows are."""
        return np.empty(shape, np.int8 if integers else np.float64)

    def pieces(self, count: int) -> Iterator[slice]:
        """Split numbers of rows into pieces that fit the cache: what is computed for all at once would be held at once."""
        return (slice(start, min(start + _PIECE, count)) for start in range(0, count, _PIECE))

    def numbers(self, index: Any) -> Any:
        """Keep positions of rows in as few bytes as hold them."""
        return index.astype(np.int32) if self.count < 1 << 31 else index

    def part(self, some: npt.NDArray[np.integer]) -> Rows:
        """Return some of the rows: few of them side by side, which is cheap to sum over; many where they are."""
        part = copy(self)
        part.count = len(some)
        if self._columns is None:
            part._matrix = self._matrix[some]
        elif len(some) * _MANY > self.count:
            part._index = some
        else:
            part._columns = np.take(self._columns, some, axis=1)
        return part

    def blocks(self, scaling: Scaling, chosen: npt.NDArray[np.int64] | None = None) -> Iterator[tuple[Where, Block]]:
        """Yield (positions, block) over all rows or over the chosen ones, in order."""
        total = self.count if chosen is None else len(chosen)
        size = _SPARSE_BLOCK_ROWS
        spare = np.empty((0, 0))
        if self._columns is not None:
            size = min(_MOST_BLOCK_ROWS, max(_LEAST_BLOCK_ROWS, _BLOCK_NUMBERS // max(self.features, 1)))
            spare = np.empty((self.features, min(size, total, max(_LEAST_BLOCK_ROWS, _SPARE_NUMBERS // self.features))))
        for start in range(0, total, size):
            stop = min(start + size, total)
            where: Where = slice(start, stop) if chosen is None else chosen[start:stop]
            yield where, self._block(where, scaling, spare)

    def _slice(self, where: Where) -> Matrix:
        """Return some rows in compressed form, without a copy where they follow each other."""
        whole = self._matrix
        if not isinstance(where, slice):
            return whole[where]
        ends = whole.indptr[where.start : where.stop + 1]
        stored = slice(int(ends[0]), int(ends[-1]))
        shape = (len(ends) - 1, whole.shape[1])
        found = type(whole)((whole.data[stored], whole.indices[stored], ends - ends[0]), shape=shape, copy=False)
        found.has_canonical_format = True
        return found

    def _block(self, where: Where, scaling: Scaling, spare: Array) -> Block:
        if self._columns is None:
            centre = np.zeros(self.features) if scaling.centre is None else scaling.centre
            scale = np.ones(self.features) if scaling.scale is None else scaling.scale
            return SparseBlock(self._slice(where), scaling.constant, centre, scale)
        held = where if self._index is None else self._index[where]
        columns = self._columns[:, held].astype(np.float64, copy=False)
        if scaling.centre is not None:
            columns = columns - scaling.centre[:, None]
        if scaling.scale is not None:
            columns = columns / scaling.scale[:, None]
        return DenseBlock(columns, scaling.constant, spare)


def length_of(where: Where) -> int:
    """Count the rows of a block, from the positions it came with."""
    return where.stop - where.start if isinstance(where, slice) else len(where)

"""One reading of the rows on a GPU: what every row adds, its gradient and its curvature, summed by one Triton kernel.

Rows are read as they are stored (float32 or float64); all that is computed from them is float64.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
import triton
import triton.language as tl
from torch.cuda import get_device_properties

from superteach.exceptions import reason_of
from superteach.losses.arrays import to_numpy
from superteach.losses.scalar import LOSSES, Huber, Loss
from superteach.optim.problem import Scaling
from superteach.protocol import queries
from superteach.teacher.state import State, known
from superteach.teacher.tensors import DeviceRows
from superteach.types import Array

if TYPE_CHECKING:
    from torch import Tensor

    from superteach.teacher.device import DeviceTeacher

WIDEST = 64
"""Columns, with the constant one and the one that counts rows, up to which the curvature stays in registers."""
SHAPE = (16, 4, 3)
"""Rows of a block, warps and stages. A pass over 10⁸ × 28 on an H200 takes 15.0 ms with it, 17.1 with 32 rows, 18.7 with
64, 16.5 with two warps (`scale_torch.py --only pass`; Triton 3.6)."""
PROGRAMS = 8
"""Programs for each multiprocessor: 4 and 16 take the same time with this shape, 4 a third more with 32 rows."""


@triton.jit
def _of_margin(margin):  # type: ignore[no-untyped-def]
    """log(1 + exp(−m)), σ(−m) and σ(m)σ(−m)."""
    small = tl.exp(-tl.abs(margin))
    more = 1.0 + small
    inverse = 1.0 / more
    # What 1 + small has lost is put back, which is log1p.
    value = tl.log(more) - ((more - 1.0) - small) * inverse - tl.minimum(margin, 0.0)
    both = small * inverse
    return value, tl.where(margin >= 0.0, both, inverse), both * inverse


@triton.jit  # type: ignore[untyped-decorator]
def _terms(t, y, given, delta, KIND: tl.constexpr):  # type: ignore[no-untyped-def]
    """Value, slope and curvature of a row's function at t."""
    if KIND == "logistic":
        value, wrong, curvature = _of_margin(y * t)
        return value, -y * wrong, curvature
    elif KIND == "relax":
        return _of_margin(-(t + given))
    elif KIND == "squared":
        return 0.5 * (t - y) * (t - y), t - y, tl.full(t.shape, 1.0, tl.float64)
    elif KIND == "squared_hinge":
        short = tl.maximum(1.0 - y * t, 0.0)
        return short * short, -2.0 * y * short, tl.where(short > 0.0, 2.0, 0.0).to(tl.float64)
    elif KIND == "huber":
        slope = tl.minimum(tl.maximum(t - y, -delta), delta)
        inner = tl.where(tl.abs(t - y) <= delta, 1.0, 0.0).to(tl.float64)
        return slope * (t - y - 0.5 * slope), slope, inner
    elif KIND == "poisson":
        mean = tl.exp(t)
        return mean - tl.where(y == 0.0, 0.0, y * t), mean - y, mean
    else:
        tl.static_assert(KIND == "square" or KIND == "positive")
        on = tl.full(t.shape, 1.0, tl.float64)
        if KIND == "positive":
            on = tl.where(y > 0.0, 1.0, 0.0).to(tl.float64)
        return 0.5 * t * t * on, t * on, on


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]
    rows,
    target,
    factor,
    given,
    weight,
    table,
    out,
    count,
    ROW: tl.constexpr,
    COLUMN: tl.constexpr,
    FEATURES: tl.constexpr,
    WIDTH: tl.constexpr,
    KIND: tl.constexpr,
    SCALED: tl.constexpr,
    LIFTED: tl.constexpr,
    WEIGHTED: tl.constexpr,
    CURVED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum over blocks of rows, dealt out to programs: `out` has a line for each program, added up by the caller.

    A row is ((x − centre)·scale, constant, 0); lifted, it is `factor` times that, and 1 in the last place. `table` holds
    the point, centre and scale of each column, then `constant` and the parameter of the loss.
    """
    column = tl.arange(0, WIDTH)
    point = tl.load(table + column)
    constant, delta = tl.load(table + 3 * WIDTH), tl.load(table + 3 * WIDTH + 1)
    value = tl.zeros((BLOCK,), tl.float64)
    gradient = tl.zeros((BLOCK, WIDTH), tl.float64)
    gram = tl.zeros((WIDTH, WIDTH), tl.float64)
    program = tl.program_id(0).to(tl.int64)
    blocks = (count + BLOCK - 1) // BLOCK
    for block in range(program, blocks, tl.num_programs(0)):
        row = block * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
        real = row < count
        place = rows + row[:, None] * ROW + column[None, :].to(tl.int64) * COLUMN
        x = tl.load(place, mask=real[:, None] & (column < FEATURES)[None, :], other=0.0).to(tl.float64)
        if SCALED:
            centre, scale = tl.load(table + WIDTH + column), tl.load(table + 2 * WIDTH + column)
            x = (x - centre[None, :]) * scale[None, :]
        x = tl.where((column == FEATURES)[None, :], constant, x)
        if LIFTED:
            lift = tl.load(factor + row, mask=real, other=0.0).to(tl.float64)
            x = tl.where((column == FEATURES + 1)[None, :], 1.0, x * lift[:, None])
        t = tl.sum(x * point[None, :], axis=1)
        y = tl.load(target + row, mask=real, other=1).to(tl.float64)
        odds = y
        if KIND == "relax":
            odds = tl.load(given + row, mask=real, other=0.0)
        v, s, c = _terms(t, y, odds, delta, KIND)
        if WEIGHTED:
            share = tl.load(weight + row, mask=real, other=0.0)
            v, s, c = v * share, s * share, c * share
        value += tl.where(real, v, 0.0)
        gradient += x * tl.where(real, s, 0.0)[:, None]
        if CURVED:
            heavy = x * tl.where(real, c, 0.0)[:, None]
            gram = tl.dot(tl.trans(heavy), x, gram, out_dtype=tl.float64)
    line = out + program * (1 + WIDTH + WIDTH * WIDTH)
    tl.store(line, tl.sum(value, axis=0))
    tl.store(line + 1 + column, tl.sum(gradient, axis=0))
    tl.store(line + 1 + WIDTH + column[:, None] * WIDTH + column[None, :], gram)


def fits(features: int) -> bool:
    """Tell whether the kernel takes rows of `features` columns."""
    return features + 2 <= WIDEST


def kind_of(loss: Loss) -> str | None:
    """Name the loss as the kernel does; None where it knows none like it, a class made from one it knows included."""
    return loss.name if type(loss) is LOSSES.get(loss.name) else None


def moments(
    x: Tensor, y: Tensor, table: Tensor, kind: str, scaled: bool, given: Sequence[Tensor | None], curved: bool
) -> Tensor:
    """Sum value, gradient and curvature over rows: 1 + w + w² numbers, w = the width of `table` (4 × w).

    `given` are factors of gradients, log-odds and weights of the rows, None where the function has none.
    """
    count, features = x.shape
    width = table.shape[1]
    block, warps, stages = SHAPE
    blocks = triton.cdiv(count, block)
    processors = get_device_properties(x.device).multi_processor_count if x.device.type == "cuda" else 2
    programs = max(1, min(blocks, PROGRAMS * processors))
    out = x.new_empty((programs, 1 + width + width * width), dtype=table.dtype)
    _kernel[(programs,)](
        x,
        y,
        *(table if numbers is None else numbers for numbers in given),
        table,
        out,
        count,
        ROW=x.stride(0),  # known when compiled, so that four numbers are loaded at once where rows allow it
        COLUMN=x.stride(1),
        FEATURES=features,
        WIDTH=width,
        KIND=kind,
        SCALED=scaled,
        LIFTED=given[0] is not None,
        WEIGHTED=given[2] is not None,
        CURVED=curved,
        BLOCK=block,
        num_warps=warps if width <= 32 else 2 * warps,
        num_stages=stages,
    )
    return out.sum(dim=0)


def sum_moments(teacher: DeviceTeacher, query: queries.AskMoments, state: State) -> Array | None:
    """Answer as `sums.sum_moments` does; None where there is no kernel for these rows."""
    rows: DeviceRows = teacher.rows
    target, lift, odds, weight = teacher.target, None, None, None
    if query.rows in ("sampled", "likely"):
        sample = known(state.sample, "rows sampled")
        rows = cast(DeviceRows, sample.rows)
        target = target if sample.index is None else target[sample.index]
        if query.rows == "sampled":
            lift, odds = sample.slope, sample.odds[:]
        else:
            weight = known(state.probabilities, "inclusion probabilities")
    kind = kind_of(known(state.loss, "loss")) if query.function == "loss" else query.function
    if kind is None or not (rows.device.type == "cuda" and fits(rows.features) and _builds(rows.device)):
        return None
    total = 0.0
    # Rows on the device are read in one go; others are brought there chunk by chunk.
    whole = [slice(0, rows.count)] if rows.matrix.device == rows.device else rows.pieces(rows.count)
    for where in whole:
        numbers = [None if each is None else each[where] for each in (lift, odds, weight)]
        total = total + sum_rows(
            rows, where, target[where], numbers, query.point, kind, state.scaling, state.loss, query.order == 2
        )
    width, found = len(query.point), to_numpy(total)
    if query.order == 1:
        return found[: 1 + width]
    gram = found[1 + width :].reshape(width, width)
    return np.append(found[: 1 + width], gram[queries.upper_triangle(width)])


def sum_rows(
    rows: DeviceRows,
    where: slice,
    target: Tensor,
    numbers: Sequence[Tensor | None],
    point: Array,
    kind: str,
    scaling: Scaling,
    loss: Loss | None,
    curved: bool,
) -> Tensor:
    """Sum over rows by the kernel: value, gradient, curvature, one after the other."""
    features = rows.features
    used = [
        *range(features),
        *([features] if scaling.constant else []),
        *([features + 1] if numbers[0] is not None else []),
    ]
    table = np.zeros((4, max(16, 1 << (features + 1).bit_length())))
    table[0, used], table[2] = point, 1.0
    table[1, :features] = 0.0 if scaling.centre is None else scaling.centre
    table[2, :features] = 1.0 if scaling.scale is None else 1.0 / scaling.scale
    table[3, :2] = scaling.constant, loss.delta if isinstance(loss, Huber) else 0.0
    scaled = scaling.centre is not None or scaling.scale is not None
    with torch.cuda.device(rows.device) if rows.device.type == "cuda" else nullcontext():
        sums = moments(rows.take(where), target, rows.tensor(table), kind, scaled, numbers, curved)
    width, some = table.shape[1], torch.as_tensor(used, device=rows.device)
    gram = sums[1 + width :].reshape(width, width)[some][:, some]
    return torch.cat([sums[:1], sums[1 : 1 + width][some], gram.ravel()])


@cache
def _builds(device: torch.device) -> bool:
    """Try the kernel on one row: Triton needs a C compiler and a driver that it knows."""
    rows, one = DeviceRows(torch.ones((1, 1), device=device), device), torch.ones(1, device=device)
    try:
        sum_rows(rows, slice(0, 1), one, (None, None, None), np.ones(1), "square", Scaling(), None, True)
    except Exception as error:
        warnings.warn(f"Triton cannot be used on {device}, torch's own products are: {reason_of(error)}", stacklevel=2)
        return False
    return True

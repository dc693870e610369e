"""Numbers as integers modulo a power of two, so that sums are exact in any order and a uniform mask hides them entirely.

Doubles take three words of 64 bits: 96 bits before the point, sign included, and 96 behind it. A double whose last bit is
worth 2^-96 or more is kept exactly; any other moves by at most 2^-97 = 6.3e-30. A total of K teachers is therefore right
to K × 6.3e-30, that is to 1e-12 of itself wherever it is K × 6.3e-18 or more, and up to 4e28 in size. That spans every
column that is usable at all, so no column needs a scale or a bound of its own, and none has to be agreed on.

Whole numbers on a grid of the caller's take one word, and stay exact.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from superteach.errors import DataError, InputError
from superteach.types import Array, Positions

Words = npt.NDArray[np.uint64]
"""One number per row in two's complement, one word of 64 bits per column, the least one first."""
LIMBS = 3
"""Words of a double: with two, columns below 1e-8 would keep fewer than 12 digits; a fourth would only cost time."""
_SIGNIFICANT = 53  # bits of a double
_HALF = 32  # bits; two halves make a word


def to_words(values: Array, teachers: int, limbs: int = LIMBS) -> Words:
    """Write doubles as fixed-point numbers whose total over this many teachers cannot overflow."""
    point = _HALF * limbs
    bound = 2.0 ** (point - 1) / teachers
    _refuse_outside(~(np.abs(values) < bound), f"{bound:.3g}", teachers)  # what is no number is not below it
    fraction, exponent = np.frexp(np.abs(values))
    whole = np.ldexp(fraction, _SIGNIFICANT).astype(np.uint64)
    shift = exponent.astype(np.int64) + point - _SIGNIFICANT
    below = np.clip(-shift, 0, _SIGNIFICANT + 1).astype(np.uint64)  # bits behind the last one kept: round them
    whole = (whole + ((np.uint64(1) << below) >> np.uint64(1))) >> below
    size = np.empty((len(whole), limbs), np.uint64)
    for limb in range(limbs):
        by = np.maximum(shift, 0) - 64 * limb  # to the left; a shift by 64 bits or more leaves nothing
        size[:, limb] = (whole << np.maximum(by, 0).astype(np.uint64)) >> np.maximum(-by, 0).astype(np.uint64)
    return carried(np.where(values < 0.0, -1, 1)[:, None] * halves(size))


def from_words(total: Words) -> Array:
    """Read fixed-point numbers as doubles, right to 3.4e-16 of themselves; a single double comes back as it was."""
    sign = np.where(total[:, -1] >> np.uint64(63) == 1, -1, 1)
    size = np.zeros(len(total))
    for limb, word in enumerate(carried(sign[:, None] * halves(total)).T):  # the least first, alike on every machine
        size += np.ldexp(word.astype(np.float64), 64 * limb - _HALF * total.shape[1])
    return sign * size


def grid_to_words(values: Positions, teachers: int) -> Words:
    """Write whole numbers as one word each, whose total over this many teachers cannot overflow."""
    bound = np.iinfo(np.int64).max // teachers
    _refuse_outside((values > bound) | (values < -bound), str(bound), teachers)
    return values.astype(np.int64).view(np.uint64)[:, None]


def words_to_grid(total: Words) -> Positions:
    """Read numbers of one word."""
    return np.ascontiguousarray(total[:, 0]).view(np.int64)


def add_words(first: Words, *others: Words) -> Words:
    """Add numbers of one shape, with carries."""
    total = halves(first)
    for other in others:
        if other.shape != first.shape:
            raise InputError(f"words of shape {other.shape} do not add to {first.shape}: all teachers send one shape")
        total += halves(other)
    return carried(total)


def halves(words: Words) -> Positions:
    """Cut words into halves of 32 bits, each in 64: two thousand million of them add up without overflow."""
    if words.dtype != np.uint64 or words.ndim != 2:
        raise InputError(f"words are a table of uint64, not {words.dtype} of shape {words.shape}: see to_words")
    return np.ascontiguousarray(words, "<u8").view("<u4").astype(np.int64)


def carried(sums: Positions) -> Words:
    """Carry from half to half what one cannot hold, and make words of them; what the last cannot hold is dropped."""
    over = np.zeros(len(sums), np.int64)
    held = np.empty(sums.shape, "<u4")
    for half in range(sums.shape[1]):
        over += sums[:, half]
        held[:, half] = over & (2**_HALF - 1)
        over >>= _HALF
    return held.view("<u8").astype(np.uint64, copy=False)


def _refuse_outside(wrong: npt.NDArray[np.bool_], bound: str, teachers: int) -> None:
    """Raise where numbers do not fit; say which, not what they are: this may leave the teacher."""
    if wrong.any():
        raise DataError(
            f"{int(wrong.sum())} of {len(wrong)} numbers (the first is number {int(wrong.argmax())}) are not finite, or "
            f"beyond ±{bound}, the most of each of {teachers} teachers for an exact total: rescale the columns"
        )

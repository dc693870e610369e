"""Who a row is: a 64-bit key of its own, the same wherever it stands in a table and whatever rows stand beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from numbers import Real

import numpy as np
import numpy.typing as npt

from superteach.errors import DataError
from superteach.types import Raw

Keys = npt.NDArray[np.uint64]
"""One key per row."""
BLOCK = 1 << 14
"""Rows worked on at once: their words stay in the processor's cache, which takes half the time of all rows at once."""


def row_keys(columns: Sequence[Raw], secret: bytes) -> Keys:
    """Give each row a key from its values in these columns (1-D, or 2-D for several) and a secret.

    Give the same columns in the same order every time: all that the owner's table has, target included, whichever ones
    a lesson uses, or the one that names the record. Numbers count by value, whatever type holds them, texts by their
    letters. Without the secret no key can be tried out. Two rows with one key share one account, so that a meeting by
    chance (n²/2⁶⁵) only spends too much.
    """
    parts = [part for column in map(np.asarray, columns) for part in (column.T if column.ndim == 2 else [column])]
    if not parts or len({part.shape for part in parts}) > 1 or parts[0].ndim != 1:
        raise DataError(
            f"columns of shapes {[np.shape(c) for c in columns]} make no rows: give one value per row in each"
        )
    words = [_words(part, secret) for part in parts]
    first, second = np.frombuffer(hashlib.blake2b(secret, digest_size=16).digest(), "<u8")
    starts = range(0, len(words[0]), BLOCK)
    return np.concatenate(
        [np.empty(0, np.uint64), *(siphash([word[at : at + BLOCK] for word in words], first, second) for at in starts)]
    )


def siphash(words: Sequence[Keys], first: np.uint64, second: np.uint64) -> Keys:
    """Hash one message per row, of a 64-bit word from each array, by SipHash-2-4 (Aumasson, Bernstein 2012)."""
    secrets = np.array([first, second, first, second], np.uint64)
    odd = np.array([0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573], np.uint64)
    v = [np.full(len(words[0]), start) for start in secrets ^ odd]
    for word in [*words, np.full(len(words[0]), (8 * len(words) % 256) << 56, np.uint64)]:
        v[3] ^= word
        _mix(v, 2)
        v[0] ^= word
    v[2] ^= np.uint64(0xFF)
    _mix(v, 4)
    hashed: Keys = v[0] ^ v[1] ^ v[2] ^ v[3]
    return hashed


def _mix(v: list[Keys], rounds: int) -> None:
    for _ in range(rounds):
        for a, b, turn, half in ((0, 1, 13, True), (2, 3, 16, False), (0, 3, 21, False), (2, 1, 17, True)):
            v[a] += v[b]
            v[b] = (v[b] << np.uint64(turn)) | (v[b] >> np.uint64(64 - turn))
            v[b] ^= v[a]
            if half:
                v[a] = (v[a] << np.uint64(32)) | (v[a] >> np.uint64(32))


def _words(column: Raw, secret: bytes) -> Keys:
    """Make one 64-bit word per value, the same for the same value in any type."""
    if column.dtype.kind in "mM":
        column = column.astype(f"{column.dtype.kind}8[us]").astype(np.int64)
    if column.dtype.kind == "O" and all(isinstance(value, Real) for value in column):
        column = column.astype(np.float64)
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float64) + 0.0  # one zero
        numbers[np.isnan(numbers)] = np.nan  # one NaN
        words = numbers.view(np.uint64)
        if column.dtype.kind in "iu":  # beyond 2^53 not every whole number is a double
            with np.errstate(invalid="ignore"):
                words = np.where(numbers.astype(column.dtype) == column, words, column.astype(np.uint64))
        return words
    texts = column.astype(str).tolist()
    known = {text: hashlib.blake2b(text.encode(), key=secret[:64], digest_size=8).digest() for text in set(texts)}
    return np.frombuffer(b"".join([known[text] for text in texts]), "<u8").astype(np.uint64)

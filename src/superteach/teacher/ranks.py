"""Sixteen-byte ranks of rows, best first: what a global choice can be made from by counting alone.

The first eight bytes are the score as a number that sorts in reverse; the last eight
break ties by row. Counting rows by one byte after another finds the n-th rank of all teachers' rows
without anybody seeing a score.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from superteach.losses.arrays import as_type, like, namespace
from superteach.protocol.queries import HISTOGRAM_BINS

Keys = npt.NDArray[np.uint64]
_SIGN = np.uint64(1 << 63)
_HALF = 8
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FACTORS = (30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64)


class Ranking:
    """The first halves of all rows' ranks; sorting them anew for each question keeps one copy, not two."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def count_next_bytes(self, ids: Keys, prefixes: tuple[bytes, ...]) -> npt.NDArray[np.int64]:
        """Count, for each prefix, rows with a rank that begins with it, by their next byte."""
        ascending = np.sort(self._keys) if any(len(prefix) < _HALF for prefix in prefixes) else self._keys
        counts = []
        for prefix in prefixes:
            if len(prefix) < _HALF:
                counts.append(_histogram(ascending, prefix))
            else:
                head = np.uint64(int.from_bytes(prefix[:_HALF], "big"))
                counts.append(_histogram(np.sort(ids[self._keys == head]), prefix[_HALF:]))
        return np.concatenate(counts)

    def rows_up_to(self, ids: Keys, last: bytes) -> npt.NDArray[np.int64]:
        """Return the positions of rows with a rank of at most `last`, ascending."""
        head = np.uint64(int.from_bytes(last[:_HALF], "big"))
        tail = np.uint64(int.from_bytes(last[_HALF:], "big"))
        return np.flatnonzero((self._keys < head) | ((self._keys == head) & (ids <= tail)))


def _histogram(ascending: Keys, prefix: bytes) -> npt.NDArray[np.int64]:
    """Count sorted keys that begin with prefix by their next byte."""
    below = 8 * (_HALF - 1 - len(prefix))
    first = int.from_bytes(prefix, "big") << (below + 8)
    edges = np.array([first + (byte << below) for byte in range(HISTOGRAM_BINS)], dtype=np.uint64)
    starts = np.searchsorted(ascending, edges, side="left")
    last = np.uint64(first + (HISTOGRAM_BINS << below) - 1)
    ends = np.append(starts[1:], np.searchsorted(ascending, last, side="right"))
    return np.asarray(ends - starts, dtype=np.int64)


def keys_of_scores(scores: npt.NDArray[np.float64]) -> Keys:
    """Map scores to unsigned integers, the best score to the smallest."""
    bits = np.ascontiguousarray(scores + 0.0).view(np.uint64)  # + 0.0 makes −0 equal to 0
    return ~np.where(bits & _SIGN, ~bits, bits | _SIGN)


def random_keys(ids: Keys, seed: int) -> Keys:
    """Mix the id of each row and a seed into a number."""
    return np.asarray(_mixed(_signed(ids), seed)).view(np.uint64)


def uniform(ids: Any, seed: int) -> Any:
    """The same as a number in [0, 1), for ids of NumPy or of torch."""
    keys = _mixed(_signed(ids), seed)
    high, low = (keys >> 32) & 0xFFFFFFFF, keys & 0xFFFFFFFF
    exact = namespace(keys).float64
    return (as_type(high, exact) * 2.0**32 + as_type(low, exact)) / 2.0**64


def _signed(ids: Any) -> Any:
    """The same bits as signed numbers, which torch computes with."""
    if namespace(ids) is not np:
        return ids
    return ids.view(np.int64) if ids.dtype.itemsize == 8 else ids.astype(np.int64)


def _mixed(ids: Any, seed: int) -> Any:
    """Mix bits by the finaliser of SplitMix64; the seed on its own first, so that neighbouring seeds share no sequence."""
    start = np.array([seed % 2**64], dtype=np.uint64).view(np.int64)
    return _mix(_mix(ids + _GOLDEN) ^ like(_mix(start + _GOLDEN), ids))


def dealt(keys: Keys, position: int, teachers: int) -> Keys:
    """Deal keys out among K teachers by turns: the n smallest keys of all are then n/K of each teacher's, its best first.

    Of the keys left over the first teachers of the roster take one more; a teacher without rows leaves its part to others.
    """
    place = np.empty(len(keys), dtype=np.uint64)
    place[np.argsort(keys, kind="stable")] = np.arange(len(keys), dtype=np.uint64)
    return place * np.uint64(teachers) + np.uint64(position)


def _mix(x: Any) -> Any:
    for shift, factor in _FACTORS:
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return x ^ ((x >> 31) & ((1 << 33) - 1))

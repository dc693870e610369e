"""Looking for rows in bytes: values and scores as binary numbers and as text, chosen rows as lists of numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from superteach.engines.threads import Threads


class Watched(Threads):
    """The same engine; remembers every number its teachers ever held for a single row."""

    def __init__(self, teachers):
        super().__init__(teachers)
        self.private = []

    def sum(self, query, number):
        total = super().sum(query, number)
        for state in self.states():
            held = [state.threshold, state.alpha, state.probabilities]
            if state.sample is not None:
                held.append(state.sample.slope)
            self.private += [np.array(array) for array in held if array is not None]
        return total


def numbers_found(data: bytes, canaries: np.ndarray, public: Sequence[float]) -> list[str]:
    """Which of these numbers are somewhere in the bytes, at any offset, in either byte order, or written out."""
    canaries = canaries[np.isfinite(canaries) & (np.abs(canaries) > 1e-9)]
    canaries = canaries[canaries != np.round(canaries, 3)]  # constants such as 0, 1 and 0.5 are nobody's
    assert len(canaries)
    found = []
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), 8)
    for kind in ("<f8", ">f8"):
        patterns = np.unique(canaries.astype(kind).view(np.uint64))
        for block in range(0, len(windows), 1 << 20):
            seen = np.ascontiguousarray(windows[block : block + (1 << 20)]).view(np.uint64)
            found += [f"{kind} {value}" for value in seen[np.isin(seen, patterns)].view(kind).tolist()]
    texts = {_text(value) for value in canaries} - {_text(value) for value in public}
    tokens = set(re.findall(r"\d+\.\d{6,}(?:[eE][-+]?\d+)?", data.decode("latin-1")))
    # Fewer digits would meet a duration or a time of day by chance.
    written = {_text(float(token)) for token in tokens if len(token.split("e")[0].replace(".", "").strip("0")) >= 9}
    return found + sorted(texts & written)


def _text(value: float) -> str:
    """Nine digits that count."""
    return f"{abs(value):.8e}"


def rows_found(data: bytes, chosen: Iterable[np.ndarray]) -> list[str]:
    """Which lists of chosen rows are in the bytes, by their first three numbers."""
    found = []
    for rows in chosen:
        first = np.sort(rows)[:3]
        assert len(first) == 3
        for kind in ("<i8", "<i4", "<f8", ">i8", ">f8"):
            found += [f"{kind} {first}"] * (first.astype(kind).tobytes() in data)
        for between in (",", ", ", "\n", ",\n", " "):
            found += [f"text {first}"] * (between.join(map(str, first)).encode() in data)
    return found

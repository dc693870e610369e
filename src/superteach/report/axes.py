"""From numbers to places on an axis, and the round numbers that are written beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from superteach.report.charts import Axis
from superteach.report.markup import percent_text, power, short


@dataclass(frozen=True)
class Ruler:
    """Maps [low, high] of an axis onto [start, end] of the paper."""

    axis: Axis
    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the place where a value is drawn."""
        place = (self._inner(value) - self._inner(self.low)) / (self._inner(self.high) - self._inner(self.low))
        return self.start + place * (self.end - self.start)

    def _inner(self, value: float) -> float:
        return math.log10(max(value, self.axis.least)) if self.axis.log else value

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return round values within the range, about `most` of them, with their words."""
        places = _log_places(self.low, self.high, most) if self.axis.log else self._even(most)
        return [(place, self._words(place)) for place in places]

    def _even(self, most: int) -> list[float]:
        step = _round_step((self.high - self.low) / max(most, 1), whole=self.axis.form == "integer")
        first = math.ceil(self.low / step - 1e-9)
        return [index * step for index in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def _words(self, value: float) -> str:
        if self.axis.form == "percent":
            return percent_text(value)
        if self.axis.form == "integer":
            return short(round(value))
        if self.axis.log and not 1e-4 <= abs(value) < 1e6:
            return power(value, 2)
        return short(0.0 if abs(value) < 1e-12 * (self.high - self.low) else value, 6)


def scale_of(axis: Axis, values: Sequence[float], start: float, end: float, room: float = 0.06) -> Ruler:
    """Return a ruler that holds every finite value, with a share `room` left at both ends."""
    finite = [value for value in (*values, *axis.also) if math.isfinite(value)]
    if axis.log:
        finite = [max(value, axis.least) for value in finite]
    if not finite:
        finite = [1.0]
    low, high = min(finite), max(finite)
    if axis.log:
        spread = max(math.log10(high / low), 1e-9)
        pad = 10 ** (room * spread) if spread > 0.05 else 2.0
        return Ruler(axis, low / pad, high * pad, start, end)
    spread = high - low
    pad = room * spread if spread > 1e-12 * max(abs(low), abs(high), 1e-300) else max(abs(high), 1.0) * 0.5
    return Ruler(axis, low - pad, high + pad, start, end)


def _round_step(step: float, whole: bool) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    base = 10.0 ** math.floor(math.log10(step))
    found = next(factor * base for factor in (1.0, 2.0, 5.0, 10.0) if factor * base >= step * (1.0 - 1e-9))
    return max(1.0, found) if whole else found


def _log_places(low: float, high: float, most: int) -> list[float]:
    """Return powers of ten, thinned where there are many, with 2 and 5 between them where there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        found = [factor * 10.0**exponent for exponent in range(first, last + 1) for factor in factors]
        found = [place for place in found if low <= place <= high]
        if 2 <= len(found) <= most:
            return found
    powers = [exponent for exponent in range(first, last + 1) if low <= 10.0**exponent <= high]
    if len(powers) > most:
        stride = math.ceil(len(powers) / most)
        return [10.0**exponent for exponent in powers if exponent % stride == 0]
    if len(found) > 1:
        return found
    # Within one step of a decade: even steps are as good.
    step = _round_step((high - low) / max(most, 1), whole=False)
    return [index * step for index in range(math.ceil(low / step), math.floor(high / step) + 1)]

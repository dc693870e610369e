"""Numbers, shares and names as people read them: plain, and as HTML that keeps the exact value."""

from __future__ import annotations

import math
import re
from collections.abc import Container
from itertools import count

import numpy as np
from markupsafe import Markup

_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML, XML or UTF-8 cannot hold."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def clean(text: str) -> str:
    """Replace characters that HTML, XML or UTF-8 cannot hold."""
    return _UNSEEN.sub("\ufffd", text)


def strong(text: object) -> Markup:
    """Stress a phrase."""
    return Markup("<strong>{}</strong>").format(text)


def code(text: object) -> Markup:
    """Write what is to be typed, or stands in a file."""
    return Markup("<code>{}</code>").format(text)


def name(text: object) -> Markup:
    """Write a name that somebody else chose: it cannot turn the direction of the text around it."""
    return Markup("<bdi>{}</bdi>").format(text)


def _data(text: str, value: float | int) -> Markup:
    return Markup('<data value="{}">{}</data>').format(repr(value), text)


def number(value: float | int | None, digits: int = 4) -> Markup:
    """Write a number to read, with the exact one behind it: <data value="0.12345678">0.1235</data>."""
    if value is None or not math.isfinite(value):
        return Markup("–")
    exact: float = value.item() if isinstance(value, np.generic) else value
    return _data(short(exact, digits), exact)


def percent(share: float, digits: int = 3) -> Markup:
    """Write a share as a percentage, with the exact share behind it."""
    return _data(percent_text(share, digits), float(share))


def agreement(share: float, classifies: bool) -> Markup:
    """Write how much of the goal's predictions a model shares: 100 % of labels, or r² of 1, mean all."""
    if not math.isfinite(share):
        return Markup("–")
    text = percent_of(share) if classifies else decimals(share)
    return _data(text.replace(" ", "\u202f").replace("-", "\u2212"), float(share))


def size(count: int) -> Markup:
    """Write a count of bytes, with the exact count behind it."""
    return _data(size_text(count).replace(" ", "\u202f"), int(count))


def setting(value: object) -> object:
    """Write the value of a setting."""
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " to ".join(short(end, 6) for end in value)
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 10_000_000):  # longer ones are seeds
        return number(value, 6)
    return str(value)


def short(value: float | int, digits: int = 4) -> str:
    """Write a number as a person does: 1,234, 0.1235, 8.1 × 10⁻⁷."""
    if isinstance(value, int):
        return f"{value:,}".replace("-", "\u2212")
    if value == 0.0:
        return "0"
    if not 1e-4 <= abs(value) < 1e6:
        return power(value, digits)
    # Significant digits: whole numbers keep all of theirs.
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.replace("-", "\u2212")


def power(value: float, digits: int = 3) -> str:
    """Write a number with a power of ten; 10⁻³ where the mantissa is 1."""
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    raised = f"10{str(int(exponent)).translate(_RAISED)}"
    sign, mantissa = ("\u2212", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    return sign + (raised if mantissa == "1" else f"{mantissa}\u202f×\u202f{raised}")


def percent_text(share: float, digits: int = 3) -> str:
    """Write a share as a percentage."""
    return f"{100.0 * share:.{digits}g}\u202f%"


def decimals(share: float, scale: float = 1.0) -> str:
    """Write a number near 1 with as many digits as tell it from 1."""
    if not math.isfinite(share):
        return "–"
    miss = scale * abs(1.0 - share)
    digits = max(2 if scale == 1.0 else 1, -math.floor(math.log10(miss))) if miss else 0
    return f"{round(scale * share, digits) + 0.0:.{digits}f}"


def percent_of(share: float) -> str:
    """Write a share as a percentage; 100 % means all."""
    return f"{decimals(share, 100.0)} %"


def size_text(count: float) -> str:
    """Write a count of bytes in B, kB, MB or GB."""
    power = min(int(math.log10(max(count, 1.0)) / 3.0), 3)
    return f"{count / 1000.0**power:.{min(power, 1)}f} {('B', 'kB', 'MB', 'GB')[power]}"


def unlike(name: str, taken: Container[str], form: str = "{}-{}") -> str:
    """Return a name that is not `taken`: itself, or with the first number from 2 on that makes it one."""
    if name not in taken:
        return name
    return next(other for number in count(2) if (other := form.format(name, number)) not in taken)

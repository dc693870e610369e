"""Safe HTML and SVG: whatever is no Markup is text, and text is always escaped."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Container, Iterable
from functools import partial
from itertools import count

import numpy as np

_VOID = frozenset({"meta", "br", "col", "hr"})
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML, XML or UTF-8 cannot hold."""


class Markup(str):
    """Text that is markup already; only this module and the stylesheet make one."""

    __slots__ = ()


def escape(value: object) -> Markup:
    """Write anything as text of a page; Markup stays as it is."""
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(clean(str(value)), quote=True))


def clean(text: str) -> str:
    """Replace characters that HTML, XML or UTF-8 cannot hold."""
    return _UNSEEN.sub("\ufffd", text)


def tag(kind: str, /, *children: object, **attributes: object) -> Markup:
    """Write an element; `class_` is class, other underscores are hyphens, and None leaves an attribute away."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if kind in _VOID:
        return Markup(f"<{kind}{written}>")
    return Markup(f"<{kind}{written}>{''.join(map(escape, children))}</{kind}>")


def join(parts: Iterable[object], between: str = "") -> Markup:
    """Join several pieces into one."""
    return Markup(escape(between).join(map(escape, parts)))


name = partial(tag, "bdi")
"""Write a name that somebody else chose: it cannot turn the direction of the text around it."""
strong = partial(tag, "strong")
"""Stress a phrase."""
code = partial(tag, "code")
"""Write what is to be typed, or stands in a file."""


def number(value: float | int | None, digits: int = 4) -> Markup:
    """Write a number to read, with the exact one behind it: <data value="0.12345678">0.1235</data>."""
    if value is None or not math.isfinite(value):
        return Markup("–")
    exact: float = value.item() if isinstance(value, np.generic) else value
    return tag("data", short(exact, digits), value=repr(exact))


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


def unlike(name: str, taken: Container[str], form: str = "{}-{}") -> str:
    """Return a name that is not `taken`: itself, or with the first number from 2 on that makes it one."""
    if name not in taken:
        return name
    return next(other for number in count(2) if (other := form.format(name, number)) not in taken)


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power(value: float, digits: int = 3) -> str:
    """Write a number with a power of ten; 10⁻³ where the mantissa is 1."""
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    raised = f"10{str(int(exponent)).translate(_RAISED)}"
    sign, mantissa = ("\u2212", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    return sign + (raised if mantissa == "1" else f"{mantissa}\u202f×\u202f{raised}")


def percent(share: float, digits: int = 3) -> Markup:
    """Write a share as a percentage, with the exact share behind it."""
    return tag("data", percent_text(share, digits), value=repr(float(share)))


def percent_text(share: float, digits: int = 3) -> str:
    """Write a share as a percentage."""
    return f"{100.0 * share:.{digits}g}\u202f%"


def size(count: int) -> Markup:
    """Write a count of bytes, with the exact count behind it."""
    return tag("data", size_text(count).replace(" ", "\u202f"), value=repr(int(count)))


def size_text(count: float) -> str:
    """Write a count of bytes in B, kB, MB or GB."""
    power = min(int(math.log10(max(count, 1.0)) / 3.0), 3)
    return f"{count / 1000.0**power:.{min(power, 1)}f} {('B', 'kB', 'MB', 'GB')[power]}"

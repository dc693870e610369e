"""Methods: each ranks or chooses the teachers' rows; none of them scores itself."""

from __future__ import annotations

from typing import Any

from superteach import extensions

OWN = ("dual", "match", "oblivious", "random")


def names() -> tuple[str, ...]:
    """Names of all methods, those of other packages included."""
    return tuple(sorted({*OWN, *extensions.LABORATORY[extensions.METHODS]}))


def find(name: str) -> Any:
    """Load a method that another package brings."""
    return None if name in OWN else extensions.load(extensions.METHODS, name)

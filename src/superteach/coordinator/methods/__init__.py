"""Methods choose rows; none of them scores itself. Each is a module with a class `Method`'s, loaded when a lesson starts."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from superteach import packages

if TYPE_CHECKING:
    from superteach.coordinator.methods.base import Method

OWN = {"dual": "Dual", "match": "Match", "oblivious": "Oblivious", "random": "Random"}
"""The class of each method, by its name, which is that of a module here."""


def names() -> tuple[str, ...]:
    """List all methods by name, also the ones that other packages bring."""
    laboratory = packages.LABORATORY[packages.METHODS]
    return tuple(sorted({*OWN, *packages.parts(packages.METHODS), *laboratory}))


@cache
def find(name: str) -> Method:
    """Find a method by name, or name the command that installs it."""
    if name in OWN:
        kind: type[Method] = getattr(import_module(f"{__name__}.{name}"), OWN[name])
        return kind()
    kind = packages.load(packages.METHODS, name)
    return kind()


def unused(method: Method) -> tuple[str, ...]:
    """List settings that only other methods look at."""
    return tuple(sorted({name for one in OWN for name in find(one).uses} - set(method.uses)))

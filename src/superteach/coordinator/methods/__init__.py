"""Methods choose rows; none of them scores itself. Each is a module with a class `Method`'s, loaded when a lesson starts."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from superteach import plugins

if TYPE_CHECKING:
    from superteach.coordinator.methods.base import Method

OWN = {
    "dual": ("Dual", "dual is the paper's"),
    "match": ("Match", "match teaches the goal exactly"),
    "oblivious": ("Oblivious", "with oblivious every teacher chooses alone, as match would"),
    "random": ("Random", "random draws"),
}
"""By name, which is that of a module here: the class in it, and what it does, for the command line's help."""


def names() -> tuple[str, ...]:
    """List all methods by name, also the ones that other packages bring."""
    laboratory = plugins.LABORATORY[plugins.METHODS]
    return tuple(sorted({*OWN, *plugins.parts(plugins.METHODS), *laboratory}))


@cache
def find(name: str) -> Method:
    """Find a method by name, or name the command that installs it."""
    if name in OWN:
        kind: type[Method] = getattr(import_module(f"{__name__}.{name}"), OWN[name][0])
        return kind()
    kind = plugins.load(plugins.METHODS, name)
    return kind()


def unused(method: Method) -> tuple[str, ...]:
    """List settings that only other methods look at."""
    return tuple(sorted({name for one in OWN for name in find(one).uses} - set(method.uses)))


def about() -> str:
    """Describe all methods in one sentence, for the command line's help."""
    others = ", ".join(name for name in names() if name not in OWN)
    return f"How rows are chosen: {'; '.join(what for _, what in OWN.values())}; other packages bring {others}."

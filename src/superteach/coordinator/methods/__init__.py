"""Methods: each ranks or chooses the teachers' rows; none of them scores itself."""

from __future__ import annotations

from superteach import packages
from superteach.coordinator.methods.base import Method
from superteach.coordinator.methods.own import Dual, Match, Oblivious, Random

OWN: dict[str, Method] = {method.name: method for method in (Dual(), Match(), Oblivious(), Random())}


def names() -> tuple[str, ...]:
    """List all methods by name, also the ones that other packages bring."""
    laboratory = packages.LABORATORY[packages.METHODS]
    return tuple(sorted({*OWN, *packages.parts(packages.METHODS), *laboratory}))


def find(name: str) -> Method:
    """Find a method by name, or name the command that installs it."""
    if name in OWN:
        return OWN[name]
    found: Method = packages.load(packages.METHODS, name)()
    return found


def unused(method: Method) -> tuple[str, ...]:
    """List settings that only other methods look at."""
    return tuple(sorted({name for one in OWN.values() for name in one.uses} - set(method.uses)))

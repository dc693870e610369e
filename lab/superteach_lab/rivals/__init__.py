"""One file per contestant; each holds CONTESTANTS, and this list gives them their order."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from superteach.exceptions import SettingError
from superteach_lab.compare.task import Contestant

MODULES = (
    "full_pool",
    "random_rows",
    "leverage",
    "k_center",
    "herding",
    "facility_location",
    "gradient_match",
    "craig",
    "dual",
    "match",
    "oblivious",
    "bit_flip",
    "minlp",
)

ALL: tuple[Contestant, ...] = tuple(
    contestant for name in MODULES for contestant in import_module(f"{__name__}.{name}").CONTESTANTS
)


def by_name(names: Sequence[str]) -> tuple[Contestant, ...]:
    """Contestants by their names, in the bench's own order."""
    known = {contestant.name: contestant for contestant in ALL}
    for name in names:
        if name not in known:
            raise SettingError(f"contestant {name!r} is not known; there are {', '.join(known)}")
    return tuple(contestant for contestant in ALL if contestant.name in names)

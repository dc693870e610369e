"""A teacher's own policy: a TOML file on its own disk that no message can change or weaken; `template` shows its entries."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from superteach.errors import SettingError
from superteach.line.queries import OPEN, QUERIES

NAMES = tuple(query.__name__ for query in QUERIES)
USUAL = frozenset(query.__name__ for query in QUERIES if query not in OPEN)
"""Queries that a policy allows unless it says otherwise."""
WRITES = ("numbers", "rows", "nothing")
_quoted = partial(json.dumps, ensure_ascii=False)  # as TOML writes a text


@dataclass(frozen=True)
class Policy:
    """What a teacher answers, to whom, how often, and what it keeps of a lesson; `guard` holds it against replies."""

    coordinators: tuple[str, ...]
    queries: frozenset[str] = USUAL
    least_rows: int = 10
    most_rounds: int = 5000
    write: Literal["numbers", "rows", "nothing"] = "numbers"
    folder: Path = Path("chosen")
    asynchronous: bool = False


def read_policy(path: str | Path) -> Policy:
    """Read a policy file; an entry that is not known is an error, never a silent permission."""
    place = Path(path)
    try:
        stored = tomllib.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"policy {str(path)!r} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"policy {str(path)!r} is no TOML: {error}") from None
    return policy_of(stored, place)


def policy_of(stored: dict[str, object], place: Path) -> Policy:
    """A policy from the entries of a file at a place."""
    where = f"policy {str(place)!r}"
    chosen = stored.get("chosen", {})
    if not isinstance(chosen, dict):
        raise SettingError(f"{where}: [chosen] must be a table with write and folder")
    known = ("coordinators", "queries", "least_rows", "most_rounds", "asynchronous", "chosen")
    for name in [
        *(name for name in stored if name not in known),
        *(n for n in chosen if n not in ("write", "folder")),
    ]:
        raise SettingError(f"{where} has an entry {name!r}, which is not known; there are {', '.join(known)}")
    if "coordinators" not in stored:
        raise SettingError(f"{where} names no coordinators; list the names or fingerprints of their certificates")
    queries = frozenset(_texts(stored.get("queries", sorted(USUAL)), where, "queries"))
    if odd := sorted(queries - set(NAMES)):
        raise SettingError(f"{where} allows {odd[0]!r}, which is no query; there are {', '.join(NAMES)}")
    write = chosen.get("write", "numbers")
    if write not in WRITES:
        raise SettingError(f"{where}: chosen.write={write!r} must be one of {', '.join(WRITES)}")
    folder = chosen.get("folder", "chosen")
    if not isinstance(folder, str) or not folder:
        raise SettingError(f"{where}: chosen.folder={folder!r} must be the name of a folder")
    asynchronous = stored.get("asynchronous", False)
    if type(asynchronous) is not bool:
        raise SettingError(f"{where}: asynchronous={asynchronous!r} must be true or false")
    return Policy(
        tuple(_texts(stored["coordinators"], where, "coordinators")),
        queries,
        _count(stored, "least_rows", Policy.least_rows, where),
        _count(stored, "most_rounds", Policy.most_rounds, where),
        write,
        place.resolve().parent / folder,
        asynchronous,
    )


def _texts(value: object, where: str, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise SettingError(f"{where}: {name}={value!r} must be a list of texts")
    return value


def _count(stored: dict[str, object], name: str, usual: int, where: str) -> int:
    value = stored.get(name, usual)
    if type(value) is not int or value < 1:
        raise SettingError(f"{where}: {name}={value!r} must be a whole number of at least 1")
    return value


def template(coordinators: list[str]) -> str:
    """A policy to start from, with what each query shows beside its name."""
    width = max(map(len, NAMES)) + 3
    listed = "\n".join(
        f"    {_quoted(query.__name__) + ',':{width}} # {query.exposure}" for query in QUERIES if query not in OPEN
    )
    names = ", ".join(map(_quoted, coordinators))
    return (
        "# What this teacher answers, to whom and how often. Nothing a coordinator sends can change it.\n"
        f"coordinators = [{names}]  # names, or sha256:… of certificates\n"
        f"least_rows = {Policy.least_rows}      # no sum over fewer rows than this, unless over none\n"
        f"most_rounds = {Policy.most_rounds}   # questions answered in one lesson\n"
        "asynchronous = false # whether rounds are answered in which nobody else's reply is added to this teacher's\n"
        f"queries = [\n{listed}\n]\n\n"
        "[chosen]\n"
        'write = "numbers"    # what is written of the chosen rows, here: "numbers", "rows" or "nothing"\n'
        'folder = "chosen"    # where; a relative folder lies beside this file\n'
    )

"""A teacher's own policy: a TOML file on its own disk that no message can change or weaken; `template` shows its entries."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from superteach.errors import SettingError
from superteach.privacy.accounting import MOST_EPSILON
from superteach.types import Json
from superteach.words import PROMISES

DECLARE = "superteach federation declare FILE --target COLUMN"
"""The command that drafts what a policy must declare."""
Label = str | int | float | bool
_quoted = partial(json.dumps, ensure_ascii=False)  # as TOML writes a text
Check = tuple[Callable[[Any], bool], str]


@dataclass(frozen=True)
class Declared:
    """What a teacher tells of its rows under a promise: written by its owner, never read from the rows."""

    rows: int
    columns: tuple[str, ...]
    target: str
    labels: tuple[Label, ...] | None = None
    """The two label values, where the target is one of a classification."""

    def schema(self, classifies: bool) -> Json:
        """Write all of it in the form of a hello."""
        text = self.labels is not None and isinstance(self.labels[0], str)
        return schema_of(self.columns, self.target, text, list(self.labels or ()) if classifies else None, self.rows)


@dataclass(frozen=True)
class Policy:
    """What a teacher promises its rows' owner, to whom it answers, and what it keeps of a lesson."""

    coordinators: tuple[str, ...]
    promise: str = "epsilon"
    """The weakest one that is accepted."""
    epsilon: float = 1.0
    """With `delta` the budget of every row, for its whole life."""
    delta: float = 1e-6
    declared: Declared | None = None
    least_teachers: int = 3
    """The smallest roster on which numbers are masked."""
    teachers: tuple[str, ...] = ()
    """Fingerprints of the certificates with which masks are shared; with none there are no masks."""
    deliver: bool = False
    """Whether the learner may be fitted on chosen rows under a promise."""
    identity: str | None = None
    """The column that names a record in the ledger; None: all columns together."""
    write: Literal["numbers", "rows", "nothing"] = "numbers"
    folder: Path = Path("chosen")


def schema_of(columns: Sequence[str], target: str, text: bool, labels: list[Label] | None, rows: int) -> Json:
    """List the facts of a hello: columns, the target and its kind, a hash of these, the labels and the number of rows."""
    kind = "text" if text else "number"
    shape = {"columns": sorted(columns), "target": target, "target_kind": kind}
    mark = hashlib.sha256(json.dumps(shape).encode()).hexdigest()
    return {**shape, "columns": list(columns), "labels": labels, "rows": rows, "hash": mark}


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


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _are_labels(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2 or value[0] == value[1]:
        return False
    return _are_texts(value) or all(isinstance(one, int | float) for one in value)


def _text(must: str) -> Check:
    return lambda value: isinstance(value, str) and bool(value), must


def _one_of(*words: str) -> Check:
    return lambda value: value in words, f"one of {', '.join(words)}"


def _count(least: int) -> Check:
    return lambda value: type(value) is int and value >= least, f"a whole number of at least {least}"


def _above_0(most: float, must: str) -> Check:
    return lambda value: type(value) in (int, float) and 0 < value <= most, f"a number above 0, {must}"


ENTRIES: dict[str, dict[str, Check]] = {
    "": {
        "coordinators": (_are_texts, "a list of texts"),
        "promise": _one_of(*PROMISES),
        "deliver": (lambda value: type(value) is bool, "true or false"),
        "identity": _text("the name of a column"),
    },
    "budget": {
        "epsilon": _above_0(MOST_EPSILON, f"{MOST_EPSILON:g} at most"),
        "delta": _above_0(0.1, "well below one over the rows"),
    },
    "declared": {
        "rows": _count(1),
        "columns": (lambda v: _are_texts(v) and 0 < len(v) == len(set(v)), "a list of names, each once"),
        "target": _text("a column that is no feature"),
        "labels": (_are_labels, "two different values, both text or both numbers"),
    },
    "masks": {
        "least_teachers": _count(2),
        "teachers": (
            lambda value: _are_texts(value) and all(re.fullmatch("sha256:[0-9a-f]{64}", one) for one in value),
            "a list of sha256:… of certificates",
        ),
    },
    "chosen": {"write": _one_of("numbers", "rows", "nothing"), "folder": _text("the name of a folder")},
}
"""Tables of a policy (without a name: its top) and what each may hold: how an entry is checked, and what it must be."""


def policy_of(stored: dict[str, object], place: Path) -> Policy:
    """Make a policy of the entries of a file; `place` is its path, for errors and relative folders."""
    where = f"policy {str(place)!r}"
    tables: dict[str, Json] = {"": {name: value for name, value in stored.items() if name not in ENTRIES}}
    for name in stored.keys() & ENTRIES.keys():
        if not isinstance(table := stored[name], dict):
            raise SettingError(f"{where}: [{name}] must be a table with {', '.join(ENTRIES[name])}")
        tables[name] = dict(table)
    for name, table in tables.items():
        known = ENTRIES[name]
        for entry, value in table.items():
            if entry not in known:
                within, all_known = (f"{where}, [{name}]", known) if name else (where, [*known, *filter(None, ENTRIES)])
                raise SettingError(
                    f"{within} has an entry {entry!r}, which is not known; there are {', '.join(all_known)}"
                )
            fits, must = known[entry]
            if not fits(value):
                raise SettingError(f"{where}: {name and f'{name}.'}{entry}={value!r} must be {must}")
            table[entry] = tuple(value) if isinstance(value, list) else value
    if "coordinators" not in stored:
        raise SettingError(f"{where} names no coordinators; list the names or fingerprints of their certificates")
    told = tables.pop("declared", None)
    given = {entry: value for table in tables.values() for entry, value in table.items()}
    given["folder"] = place.resolve().parent / given.get("folder", Policy.folder)
    return Policy(**given, declared=None if told is None else _declared(told, where))


def _declared(table: Json, where: str) -> Declared:
    for name in ("rows", "columns", "target"):
        if name not in table:
            raise SettingError(f"{where}: [declared] has no {name}; draft it with  {DECLARE}")
    if table["target"] in table["columns"]:
        raise SettingError(f"{where}: declared.target={table['target']!r} must be a column that is no feature")
    return Declared(**table)


def template(coordinators: Sequence[str], teachers: Sequence[str] = ()) -> str:
    """Write a policy to start from, for a federation of teachers with these fingerprints."""
    listed = "".join(f"    {_quoted(mark)},\n" for mark in teachers)
    return (
        "# What this teacher promises the owner of its rows, and to whom it answers. No coordinator can change it.\n"
        f"coordinators = [{', '.join(map(_quoted, coordinators))}]  # names, or sha256:… of certificates\n"
        "# The weakest promise that is accepted:\n"
        + "".join(f'#   "{word}"{" " * (9 - len(word))}{PROMISES[word]}\n' for word in PROMISES)
        + f'promise = "{Policy.promise}"\n'
        "deliver = false         # whether the learner may be fitted on chosen rows: a release that no promise covers\n"
        '# identity = "patient"  # the column that names a record in the ledger; without it all columns together\n\n'
        "[budget]                # of every row, for its whole life\n"
        f"epsilon = {Policy.epsilon:g}\ndelta = {Policy.delta:g}\n\n"
        "[masks]\n"
        f"least_teachers = {Policy.least_teachers}\n"
        "teachers = [            # certificates of teachers with whom masks are shared; leave out whom you do not know\n"
        f"{listed}]\n\n"
        "[chosen]\n"
        'write = "numbers"       # what is written of the chosen rows, here: "numbers", "rows" or "nothing"\n'
        'folder = "chosen"       # where; a relative folder lies beside this file\n\n'
        f"# Add what you tell of your rows:  {DECLARE}\n"
    )


def draft(rows: int, columns: Sequence[str], target: str, labels: Sequence[Label] | None) -> str:
    """Write the table [declared] for an owner to look at, change and put into a policy."""
    told = "" if labels is None else f"labels = [{', '.join(map(_quoted, labels))}]\n"
    return (
        "[declared]  # everybody in the federation hears this: look at it before you use it\n"
        f"rows = {rows}  # round it as you like\n"
        f"columns = [{', '.join(map(_quoted, columns))}]\n"
        f"target = {_quoted(target)}\n{told}"
    )

"""A teacher's own policy: a TOML file on its own disk that no message can change or weaken; `template` shows its entries."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from superteach.exceptions import SettingError
from superteach.privacy import PRIVACY
from superteach.privacy.accounting import MOST_EPSILON, check_delta
from superteach.privacy.shares import rounded
from superteach.types import Json

DECLARE = "superteach site new"
"""The command that drafts what a policy must declare."""
Label = str | int | float | bool
_quoted = partial(json.dumps, ensure_ascii=False)  # as TOML writes a text
Check = tuple[Callable[[Any], bool], str]


@dataclass(frozen=True)
class Declared:
    """What a teacher says of its rows: written by its owner, never read from the rows in a lesson."""

    rows: int
    columns: tuple[str, ...]
    target: str
    labels: tuple[Label, ...] | None = None
    """The two label values, where the target is one of a classification."""


@dataclass(frozen=True)
class Policy:
    """What a teacher's owner allows, to whom the teacher answers, and what it keeps of a lesson."""

    coordinators: tuple[str, ...]
    privacy: tuple[str, ...] = ("isolated",)
    """Privacy modes that are accepted."""
    share: float = 1.0
    """The largest part of a lesson that these rows carry, from 0 to 1: a decision of a person, not of the rows."""
    review: bool = False
    """Whether a person approves every reply before it leaves."""
    identity: str | None = None
    """The column that says whose row it is; None: every row is a person of its own."""
    rows_per_person: int = 1
    """Rows of one person that take part at most; a lesson charges that many times the μ of one row."""
    epsilon: float = 1.0
    """With `delta` the budget of the table, for its whole life."""
    delta: float = 1e-6
    lesson: float | None = None
    """The largest ε of a single lesson; None: the whole budget."""
    declared: Declared | None = None
    write: Literal["numbers", "rows", "nothing"] = "numbers"
    folder: Path = Path("chosen")


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
        "privacy": (
            lambda value: _are_texts(value) and bool(value) and set(value) <= set(PRIVACY),
            f"a list with some of {', '.join(map(repr, PRIVACY))}",
        ),
        "share": (lambda value: type(value) in (int, float) and 0 <= value <= 1, "a number from 0 to 1"),
        "review": (lambda value: type(value) is bool, "true or false"),
        "identity": _text("the name of a column"),
        "rows_per_person": _count(1),
    },
    "budget": {
        "epsilon": _above_0(MOST_EPSILON, f"{MOST_EPSILON:g} at most"),
        "delta": _above_0(0.1, "at most one over ten times the rows"),
        "lesson": _above_0(MOST_EPSILON, f"{MOST_EPSILON:g} at most"),
    },
    "declared": {
        "rows": _count(1),
        "columns": (lambda v: _are_texts(v) and 0 < len(v) == len(set(v)), "a list of names, each once"),
        "target": _text("a column that is no feature"),
        "labels": (_are_labels, "two different values, both text or both numbers"),
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
        entries = ENTRIES[name]
        for entry, value in table.items():
            if entry not in entries:
                within, possible = (
                    (f"{where}, [{name}]", entries) if name else (where, [*entries, *filter(None, ENTRIES)])
                )
                raise SettingError(
                    f"{within} has an entry {entry!r}, which is not known; there are {', '.join(possible)}"
                )
            fits, must = entries[entry]
            if not fits(value):
                raise SettingError(f"{where}: {name and f'{name}.'}{entry}={value!r} must be {must}")
            table[entry] = tuple(value) if isinstance(value, list) else value
    if "coordinators" not in stored:
        raise SettingError(f"{where} names no coordinators; list their public keys")
    stated = tables.pop("declared", None)
    values = {entry: value for table in tables.values() for entry, value in table.items()}
    values["folder"] = place.resolve().parent / values.get("folder", Policy.folder)
    policy = Policy(**values, declared=None if stated is None else _declared(stated, where))
    if policy.identity is None and policy.rows_per_person > 1:
        raise SettingError(
            f"{where}: rows_per_person={policy.rows_per_person} needs identity, the column that names people"
        )
    if policy.declared is not None and "dp" in policy.privacy:
        try:
            check_delta(policy.delta, policy.declared.rows)
        except SettingError as error:
            raise SettingError(f"{where}: budget.{error}") from None
    return policy


def _declared(table: Json, where: str) -> Declared:
    for name in ("rows", "columns", "target"):
        if name not in table:
            raise SettingError(f"{where}: [declared] has no {name}; {DECLARE} drafts it")
    if table["target"] in table["columns"]:
        raise SettingError(f"{where}: declared.target={table['target']!r} must be a column that is no feature")
    return Declared(**table)


def template(coordinators: Sequence[str]) -> str:
    """Write a policy to start from, which answers to these coordinators."""
    listed = "".join(f"    {_quoted(key)},\n" for key in coordinators)
    return (
        "# What the owner of these rows allows, and to whom this teacher answers. No coordinator can change it.\n"
        f"coordinators = [            # their public keys\n{listed}]\n"
        "# Privacy modes that are accepted:\n"
        + "".join(f'#   "{word}"{" " * (9 - len(word))}{PRIVACY[word]}\n' for word in PRIVACY)
        + 'privacy = ["isolated"]\n'
        "share = 1.0                 # the largest part of a lesson that these rows carry, from 0 to 1\n"
        "review = false              # whether a person approves every reply before it leaves\n"
        '# identity = "patient"      # the column that says whose row it is …\n'
        "# rows_per_person = 10      # … and how many rows of one person take part at most\n\n"
        '[budget]                    # of the whole table, for its whole life; only "dp" spends it\n'
        f"epsilon = {Policy.epsilon:g}\ndelta = {Policy.delta:g}\n"
        "lesson = 1                  # the largest epsilon of a single lesson\n\n"
        "[chosen]\n"
        'write = "numbers"           # what is written of the chosen rows, here: "numbers", "rows" or "nothing"\n'
        'folder = "chosen"           # where; a relative folder lies beside this file\n\n'
    )


def draft(rows: int, columns: Sequence[str], target: str, labels: Sequence[Label] | None) -> str:
    """Write the table [declared] for an owner to look at, change and put into a policy; the number of rows is rounded."""
    both = "" if labels is None else f"labels = [{', '.join(map(_quoted, labels))}]\n"
    return (
        "[declared]  # everybody in the federation hears this: look at it before you use it\n"
        f"rows = {rounded(rows)}  # rounded down; declare fewer if you like\n"
        f"columns = [{', '.join(map(_quoted, columns))}]\n"
        f"target = {_quoted(target)}\n{both}"
    )

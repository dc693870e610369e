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
from typing import Literal, TypeVar

from superteach.errors import SettingError
from superteach.promises.accounting import MOST_EPSILON
from superteach.types import Json
from superteach.words import PROMISES

WRITES = ("numbers", "rows", "nothing")
ENTRIES: dict[str, tuple[str, ...]] = {
    "budget": ("epsilon", "delta"),
    "declared": ("rows", "columns", "target", "labels"),
    "masks": ("least_teachers", "teachers"),
    "chosen": ("write", "folder"),
}
"""Tables of a policy, and what each may hold."""
KNOWN = ("coordinators", "promise", "deliver", "identity", *ENTRIES)
DECLARE = "superteach federation declare FILE --target COLUMN"
"""The command that drafts what a policy must declare."""
Label = str | int | float | bool
_quoted = partial(json.dumps, ensure_ascii=False)  # as TOML writes a text
_FINGERPRINT = re.compile(r"sha256:[0-9a-f]{64}")
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Declared:
    """What a teacher tells of its rows under a promise: written by its owner, never read from the rows."""

    rows: int
    columns: tuple[str, ...]
    target: str
    labels: tuple[Label, ...] | None = None
    """The two label values, where the target is one of a classification."""

    def schema(self, classifies: bool) -> Json:
        """All of it in the form of a hello."""
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
    """Facts of a hello: columns, the target and its kind, a hash of these, the labels and the number of rows."""
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


def policy_of(stored: dict[str, object], place: Path) -> Policy:
    """Make a policy of the entries of a file; `place` is its path, for errors and relative folders."""
    where = f"policy {str(place)!r}"
    tables: dict[str, Json] = {}
    for name, inner in ENTRIES.items():
        table = stored.get(name, {})
        if not isinstance(table, dict):
            raise SettingError(f"{where}: [{name}] must be a table with {', '.join(inner)}")
        tables[name] = table
        _refuse_unknown(table, inner, f"{where}, [{name}]")
    _refuse_unknown(stored, KNOWN, where)
    if "coordinators" not in stored:
        raise SettingError(f"{where} names no coordinators; list the names or fingerprints of their certificates")

    def take(table: Json, name: str, usual: Kind, fits: Callable[[object], bool], must: str, head: str = "") -> Kind:
        value: Kind = table.get(name, usual)
        if name in table and not fits(value):
            raise SettingError(f"{where}: {head}{name}={value!r} must be {must}")
        return value

    budget, masks, chosen = tables["budget"], tables["masks"], tables["chosen"]
    one_of = f"one of {', '.join(PROMISES)}"
    folder = take(chosen, "folder", "chosen", _is_text, "the name of a folder", "chosen.")
    return Policy(
        tuple(take(stored, "coordinators", [], _are_texts, "a list of texts")),
        take(stored, "promise", Policy.promise, lambda value: value in PROMISES, one_of),
        take(budget, "epsilon", 1.0, _within(MOST_EPSILON), f"a number above 0, {MOST_EPSILON:g} at most", "budget."),
        take(budget, "delta", 1e-6, _within(0.1), "a number above 0, well below one over the rows", "budget."),
        _declared(tables["declared"], where) if "declared" in stored else None,
        take(masks, "least_teachers", 3, lambda value: _is_count(value, 2), "a whole number of at least 2", "masks."),
        tuple(take(masks, "teachers", [], _are_marks, "a list of sha256:… of certificates", "masks.")),
        take(stored, "deliver", False, lambda value: type(value) is bool, "true or false"),
        take(stored, "identity", None, _is_text, "the name of a column"),
        take(chosen, "write", "numbers", lambda value: value in WRITES, f"one of {', '.join(WRITES)}", "chosen."),
        place.resolve().parent / folder,
    )


def _declared(table: Json, where: str) -> Declared:
    for name in ("rows", "columns", "target"):
        if name not in table:
            raise SettingError(f"{where}: [declared] has no {name}; draft it with  {DECLARE}")
    columns, labels = table["columns"], table.get("labels")
    if not _is_count(table["rows"], 1):
        raise SettingError(f"{where}: declared.rows={table['rows']!r} must be a whole number of at least 1")
    if not _are_texts(columns) or not columns or len(set(columns)) < len(columns):
        raise SettingError(f"{where}: declared.columns={columns!r} must be a list of names, each once")
    if not _is_text(table["target"]) or table["target"] in columns:
        raise SettingError(f"{where}: declared.target={table['target']!r} must be a column that is no feature")
    if labels is not None and not _are_labels(labels):
        raise SettingError(
            f"{where}: declared.labels={labels!r} must be two different values, both text or both numbers"
        )
    return Declared(table["rows"], tuple(columns), table["target"], None if labels is None else tuple(labels))


def _refuse_unknown(table: dict[str, object], known: Sequence[str], where: str) -> None:
    for name in table:
        if name not in known:
            raise SettingError(f"{where} has an entry {name!r}, which is not known; there are {', '.join(known)}")


def _are_labels(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2 or value[0] == value[1]:
        return False
    return all(isinstance(one, str) for one in value) or all(isinstance(one, int | float) for one in value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _are_marks(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and _FINGERPRINT.fullmatch(one) for one in value)


def _is_count(value: object, least: int) -> bool:
    return type(value) is int and value >= least


def _within(most: float) -> Callable[[object], bool]:
    return lambda value: type(value) in (int, float) and 0 < float(value) <= most  # type: ignore[arg-type]


def template(coordinators: Sequence[str], teachers: Sequence[str] = ()) -> str:
    """A policy to start from, for a federation of teachers with these fingerprints."""
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
    """The table [declared] for an owner to look at, change and put into a policy."""
    told = "" if labels is None else f"labels = [{', '.join(map(_quoted, labels))}]\n"
    return (
        "[declared]  # everybody in the federation hears this: look at it before you use it\n"
        f"rows = {rows}  # round it as you like\n"
        f"columns = [{', '.join(map(_quoted, columns))}]\n"
        f"target = {_quoted(target)}\n{told}"
    )

"""Published data files: where they are looked for, whether they are known, and what to say when they are not there."""

from __future__ import annotations

import hashlib
import os
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from superteach.exceptions import DataError
from superteach.io.atomic import stamp

HOME = "SUPERTEACH_DATA"
"""The environment variable that names the folder of data files."""


@dataclass(frozen=True)
class Published:
    """One data set as its publisher describes it."""

    title: str
    page: str
    """Where the publisher offers it."""
    patterns: tuple[str, ...]
    """Names of its files, the preferred form first."""
    about: str
    several: bool = False
    """Whether its publisher's form is more than one file."""
    sums: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the files whose content is known, by name."""
    rows: dict[str, int] = field(default_factory=dict)
    """How many rows a file of that name has."""


@dataclass(frozen=True)
class DataFile:
    """A file that was read."""

    path: str
    recognised: bool
    """Whether it is, byte for byte, a file known by its SHA-256."""

    def __str__(self) -> str:
        return f"{self.path} ({'recognised by its checksum' if self.recognised else 'unknown file'})"


def get_data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """The folder where data files are looked for: the argument, $SUPERTEACH_DATA, or ~/.cache/superteach."""
    return Path(data_home or os.environ.get(HOME) or "~/.cache/superteach").expanduser()


def find_files(known: Published, path: Any) -> list[Path]:
    """The files of a data set: the file given, or those in the folder given (default: the data home)."""
    place = get_data_home() if path is None else Path(path).expanduser()
    if place.is_file():
        return [place]
    names = " or ".join(known.patterns)
    if path is not None and not place.exists():
        raise DataError(
            f"there is no file or folder {str(place)!r}; {known.title} is offered at {known.page} (files {names})"
        )
    for pattern in known.patterns:
        found = sorted(place.glob(pattern)) or sorted(place.glob(f"**/{pattern}"))
        if len(found) > 1 and not (known.several and "*" in pattern):
            shown = ", ".join(str(file) for file in found[:3])
            raise DataError(f"folder {str(place)!r} holds more than one {pattern}: {shown}; name the one to read")
        if found:
            return found
    raise DataError(
        f"no file of {known.title} ({names}) is in {str(place)!r}: download it from {known.page}, and unpack it there, "
        f"give its path, or set the environment variable {HOME} to the folder that holds it"
    )


def contents_of(known: Published) -> str:
    """A digest of the data set's files in the data home; "" where there are none."""
    try:
        files = find_files(known, None)
    except DataError:
        return ""
    return hashlib.sha256("".join(_sha256(file, *(stamp(file) or [])) for file in files).encode()).hexdigest()


@cache
def _sha256(path: Path, *_: int) -> str:
    """SHA-256 of a file; size and time of its last change tell whether it must be read again."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def recognise(known: Published, path: Path) -> DataFile:
    """Compare a file with the checksum known for its name, if there is one; another content is worth a warning."""
    expected = known.sums.get(path.name)
    if expected is None:
        return DataFile(str(path), False)
    found = _sha256(path, *(stamp(path) or []))
    if found != expected:
        warnings.warn(
            f"{path} is not the {path.name} known by its checksum: sha256 {found}, expected {expected}; "
            "it may be cut short, an excerpt, or another version",
            UserWarning,
            stacklevel=3,
        )
    return DataFile(str(path), found == expected)


def check_count(known: Published, path: Path, rows: int) -> None:
    """Warn where a file has not as many rows as the published one of that name."""
    expected = known.rows.get(path.name.removesuffix(".gz"), rows)
    if rows != expected:
        warnings.warn(
            f"{path} has {rows:,} rows, the published {path.name} has {expected:,}: it is cut short or an excerpt",
            UserWarning,
            stacklevel=3,
        )

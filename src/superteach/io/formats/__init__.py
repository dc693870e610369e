"""Files that hold tables. A format is one module here, whose `Format` is found by the suffix that it names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pyarrow as pa


class FormatError(ValueError):
    """What is wrong with a file, as a clause that begins with a verb: "has 2 cells in line 5, …"."""


class Format(ABC):
    """How files of one kind are read; `encoding` is for formats that are text."""

    suffix: str

    @abstractmethod
    def columns(self, path: Path, encoding: str) -> list[str]:
        """Name the columns, from the head of a file that is not empty."""

    @abstractmethod
    def read(self, path: Path, columns: Sequence[str], encoding: str) -> pa.Table:
        """Read the named columns."""

    def line(self, path: Path, row: int, encoding: str) -> str:
        """Say where a row stands, for whoever opens the file in an editor; nothing where no editor shows it."""
        return ""

    def check(self, path: Path, encoding: str) -> None:  # noqa: B027 (most formats have nothing to add)
        """Look at a file that could not be read, and raise a FormatError where the reason is plain to see."""


@cache
def formats() -> dict[str, Format]:
    """Return a reader for every suffix."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    return {module.FORMAT.suffix: module.FORMAT for module in modules}


def format_of(path: Path) -> Format | None:
    """Return the reader of a file, by its suffix; None where there is none."""
    return formats().get(path.suffix.lower())

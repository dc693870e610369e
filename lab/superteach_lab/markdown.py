"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return the lines of a table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return ["| " + " | ".join(str(entry).replace("|", "\\|") for entry in line) + " |" for line in lines]

"""Write the table of all queries, made from their classes, into a page: python -m superteach.line.queries PAGE."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from superteach.line.queries import QUERIES, Query

HEAD = (
    "query",
    "broadcast to teachers",
    "reply of each teacher",
    "what it shows",
    "over rows",
    "changes",
    "sensitivity",
)


def table() -> str:
    """The facts of all queries as a table in Markdown."""
    return "".join(
        f"| {' | '.join(cells)} |\n" for cells in (HEAD, ["---"] * len(HEAD), *map(_facts, QUERIES))
    )


def _facts(query: type[Query[object]]) -> tuple[str, ...]:
    shown = f"**single rows**: {query.exposure}" if query.shows_rows else query.exposure
    bound = "none known" if query.sensitivity.bound is None else f"{query.sensitivity.bound:g}"
    changed = ", ".join(query.changes) or "nothing"
    return (f"`{query.__name__}`", query.broadcast, query.reply, shown, query.over, changed,
            f"{bound}: {query.sensitivity.why}")  # fmt: skip


def write(page: Path) -> None:
    """Put the table in the place of the one that the page has."""
    text, head = page.read_text(encoding="utf-8"), re.escape("| query |")
    page.write_text(
        re.sub(rf"^{head}.*\n(\|.*\n)*", lambda _: table(), text, flags=re.MULTILINE), encoding="utf-8"
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]))

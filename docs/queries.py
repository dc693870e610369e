"""Write the table of all queries, made from their classes, into a page: python docs/queries.py PAGE."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from superteach.protocol.queries import QUERIES, Query

HEAD = (
    "query",
    "broadcast to teachers",
    "reply of each teacher",
    "what it shows",
    "modes",
)


def table() -> str:
    """The facts of all queries as a table in Markdown."""
    lines = HEAD, ["---"] * len(HEAD), *map(_facts, QUERIES)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _facts(query: type[Query[object]]) -> list[str]:
    shown = f"**single rows**: {query.exposure}" if query.shows_rows else query.exposure
    return [f"`{query.__name__}`", query.broadcast, query.reply, shown, ", ".join(query.privacy)]


if __name__ == "__main__":
    page = Path(sys.argv[1])
    text = re.sub(r"^\| query \|.*\n(\|.*\n)*", lambda _: table(), page.read_text("utf-8"), flags=re.MULTILINE)
    page.write_text(text, "utf-8")

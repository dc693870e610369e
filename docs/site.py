"""Hooks of mkdocs: pages that lie beside docs/, and links to them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
BESIDE = {"README.md": "readme.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository that are pages of the site too."""
PLAIN = ("LICENSE", "examples/*.py", "lab/README.md")
"""Files that pages link to, handed over as they are."""


def on_config(config: Any) -> Any:
    """Leave pages out of the navigation that are not there."""

    def kept(entry: Any) -> Any:
        if isinstance(entry, str):
            there = entry in BESIDE.values() or (ROOT / "docs" / entry).is_file()
            return entry if there else None
        (title, value), *_ = entry.items()
        found = [one for one in map(kept, value) if one] if isinstance(value, list) else kept(value)
        return {title: found} if found else None

    config.nav = [one for one in map(kept, config.nav) if one]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what lies beside docs/."""
    for name, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    for pattern in PLAIN:
        for place in sorted(ROOT.glob(pattern)):
            name = str(place.relative_to(ROOT)).replace(".md", ".txt")
            files.append(File.generated(config, name, content=place.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links of GitHub's view at the site's own pages."""
    top = page.file.src_uri in BESIDE.values()

    def moved(found: re.Match[str]) -> str:
        path, hash_, anchor = found[1].partition("#")
        inside = path.removeprefix("docs/") if top else path
        if not top and path.startswith("../"):
            inside = path[3:]
        if top or path.startswith("../"):
            inside = BESIDE.get(inside, inside.replace("lab/README.md", "lab/README.txt"))
        return f"]({inside}{hash_}{anchor})"

    return re.sub(r"\]\(((?![a-z]+:|#)[^)\s]+)\)", moved, markdown)

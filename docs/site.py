"""Hooks of mkdocs: pages that lie beside docs/, links to them, and pictures for light and dark pages."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
BESIDE = {"README.md": "readme.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository that are pages of the site too."""
PLAIN = ("LICENSE", "CITATION.cff", "examples/*.py", "lab/README.md", "deploy/*")
"""Files that pages link to, handed over as they are."""
_CODE = re.compile(r"(^```.*?^```$|^    [^\n]*$|`[^`\n]*`)", re.DOTALL | re.MULTILINE)


def on_config(config: Any) -> Any:
    """Leave pages out of the navigation that are not there."""

    def existing(entry: Any) -> Any:
        if isinstance(entry, str):
            return entry if entry in BESIDE.values() or (ROOT / "docs" / entry).is_file() else None
        (title, value), *_ = entry.items()
        left = [one for one in map(existing, value) if one] if isinstance(value, list) else existing(value)
        return {title: left} if left else None

    config.nav = [one for one in map(existing, config.nav) if one]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what lies beside docs/."""
    for name, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    for pattern in PLAIN:
        for place in sorted(ROOT.glob(pattern)):
            if place.is_file():
                files.append(File.generated(config, _plain(str(place.relative_to(ROOT))), content=place.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links of GitHub's view at the site's own pages."""
    beside = {value: key for key, value in BESIDE.items()}
    here = beside.get(page.file.src_uri, f"docs/{page.file.src_uri}")  # where the page lies in the repository
    folder = os.path.dirname(page.file.src_uri)

    def on_site(target: str) -> str:
        path, mark, anchor = target.partition("#")
        name = os.path.normpath(os.path.join(os.path.dirname(here), path))
        name = name.removeprefix("docs/") if name.startswith("docs/") else BESIDE.get(name, _plain(name))
        return f"{os.path.relpath(name, folder or '.')}{mark}{anchor}"

    def both(picture: re.Match[str]) -> str:
        light, words = re.search(r'<img alt="([^"]*)" src="([^"]*)"', picture[0]), ""
        dark = re.search(r'srcset="([^"]*)"', picture[0])
        if light and dark:
            words, place = light[1], light[2]
            return f"![{words}]({place}#only-light)\n![{words}]({dark[1]}#only-dark)"
        return picture[0]

    parts = _CODE.split(markdown)  # outside of code θ* is a model, and begins no italics
    markdown = "".join(part if place % 2 else re.sub(r"(?<!\\)θ\*", r"θ\\*", part) for place, part in enumerate(parts))
    markdown = re.sub(r"<picture>.*?</picture>", both, markdown, flags=re.DOTALL)
    # A folder of the repository is no page of the site: its name stays, without a link.
    folders = r"(?<!!)\[([^\]]*)\]\(((?![a-z]+:|#)[^)\s#]+)\)"
    markdown = re.sub(
        folders, lambda match: match[1] if (ROOT / os.path.dirname(here) / match[2]).is_dir() else match[0], markdown
    )
    return re.sub(r"\]\(((?![a-z]+:|#)[^)\s]+)\)", lambda match: f"]({on_site(match[1])})", markdown)


def _plain(name: str) -> str:
    return name[:-3] + ".txt" if name.endswith(".md") else name

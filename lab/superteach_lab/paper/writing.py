"""What a run leaves behind: Markdown and JSON per target, figures as SVG and PNG, one page of everything."""

from __future__ import annotations

import base64
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from superteach.exceptions import MissingExtra
from superteach.io.atomic import write_text
from superteach.lesson import to_json, versions
from superteach.report import Page
from superteach.report.plots import save
from superteach_lab.paper.plan import DrawFigure, Findings, Scale, Target
from superteach_lab.records import Record

FOLDED = 30
"""Longer tables are folded away on a page of several targets."""


def machine() -> Record:
    """What computed the results, without names or places."""
    return {"system": platform.system(), "architecture": platform.machine(), "cpus": os.cpu_count()}


def write_target(folder: Path, target: Target, findings: Findings, scale: Scale, machine: Record) -> list[str]:
    """The target's Markdown, JSON and figures; what could not be drawn is said in a line each."""
    folder.mkdir(parents=True, exist_ok=True)
    summary = {
        "target": target.name,
        "settings": scale.settings(),
        "versions": versions(),
        "machine": machine,
        "verdict": list(findings.verdict),
        "numbers": findings.numbers,
    }
    write_text(folder / "summary.json", to_json(summary))
    write_text(folder / f"{target.name}.md", "# " + "\n".join(section(target, findings, "", whole=True)))
    problems = []
    for name, (_, size, draw) in findings.figures.items():
        try:
            save_figure(draw, size, folder / name)
        except MissingExtra as error:
            problems = [str(error)]
    return problems


def section(target: Target, findings: Findings, images: str, whole: bool) -> list[str]:
    """One target as lines of Markdown; `images` is put before the names of its figures."""
    lines = [target.title, "", target.about, "", *(f"- {words}" for words in findings.verdict), ""]
    for name, (caption, _, _) in findings.figures.items():
        lines += [f"![{caption}]({images}{name}.png)", ""]
    for caption, headings, rows in findings.tables:
        if not rows:
            continue
        if whole or len(rows) <= FOLDED:
            lines += [caption, "", *_table(headings, rows), ""]
        else:
            lines += ["<details>", f"<summary>{caption}</summary>", "", *_table(headings, rows), "", "</details>", ""]
    return lines


def _table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return ["| " + " | ".join(str(entry).replace("|", "\\|") for entry in line) + " |" for line in lines]


def save_figure(draw: DrawFigure, size: tuple[float, float], stem: Path) -> None:
    """The same drawing as .svg and .png; the same numbers give the same files."""
    save(draw, size, stem.with_suffix(".svg"), stem.with_suffix(".png"))


_FOREWORD = """\
# Results

The paper's tables, figures and Theorem 1, measured again. Made by

    {command}

on {cpus} CPUs ({system}, {architecture}; {versions}), {at_a_time}.
Every number is in the `cells.jsonl` and `summary.json` that the command leaves. All methods are scored by one piece of
code: the learner is refitted on the chosen rows, risk is ‖θ_S − θ*‖, consistency is taken over the whole pool. Seconds
are those of this machine, the printed ones of the paper's. The sentences below are written by the command from what it
measured.
"""


def results_page(found: Sequence[tuple[Target, Findings]], scale: Scale, images: str, machine: Record) -> str:
    """All targets as one page of Markdown; {target} in `images` becomes the target's name."""
    names = " ".join(target.name for target, _ in found) if len(found) < 8 else "all"
    command = f"superteach reproduce {names}" + (" --quick" if scale.quick else "") + f" --trials {scale.trials}"
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    workers = machine["workers"]
    at_a_time = f"{workers} cells at a time, each on one core" if workers > 1 else "one cell at a time"
    page = [_FOREWORD.format(command=command, versions=packages, at_a_time=at_a_time, **machine)]
    for target, findings in found:
        lines = section(target, findings, images.format(target=target.name), whole=False)
        page += ["## " + lines[0], *lines[1:]]
    return "\n".join(page).rstrip() + "\n"


def write_html(path: Path, found: Sequence[tuple[Target, Findings]], scale: Scale, folder: Path) -> None:
    """Everything as one HTML file."""
    page = Page(
        "The paper, measured again", lede=f"{scale.name} run, {scale.trials} trials, one scorer for every method."
    )
    for target, findings in found:
        part = page.section(target.title)
        part.prose(target.about)
        part.items(list(findings.verdict))
        for name, (caption, _, _) in findings.figures.items():
            file = folder / target.name / f"{name}.svg"
            if file.exists():
                source = "data:image/svg+xml;base64," + base64.b64encode(file.read_bytes()).decode()
                part.image(source, caption)
        for caption, headings, rows in findings.tables:
            part.table(list(headings), rows, caption, "" if len(rows) <= FOLDED else f"{len(rows)} lines")
    page.write(path)

"""What a run leaves behind: JSON and figures of each target, one page of everything."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from superteach.exceptions import MissingExtra
from superteach.io.atomic import write_text
from superteach.lesson import to_json
from superteach.packages import versions
from superteach.report.plots import save
from superteach_lab.markdown import table
from superteach_lab.paper.plan import DrawFigure, Findings, Scale, Target
from superteach_lab.records import Record

FOLDED = 30
"""Longer tables are folded away."""


def machine() -> Record:
    """What computed the results, without names or places."""
    return {"system": platform.system(), "architecture": platform.machine(), "cpus": os.cpu_count()}


def write_target(folder: Path, target: Target, findings: Findings, scale: Scale, machine: Record) -> list[str]:
    """The target's JSON and figures; what could not be drawn is said in a line each."""
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
    problems = []
    for name, (_, size, draw) in findings.figures.items():
        try:
            save_figure(draw, size, folder / name)
        except MissingExtra as error:
            problems = [str(error)]
    return problems


def section(target: Target, findings: Findings, images: str) -> list[str]:
    """One target as lines of Markdown; `images` is put before the names of its figures."""
    lines = [target.title, "", target.about, "", *(f"- {words}" for words in findings.verdict), ""]
    for name, (caption, _, _) in findings.figures.items():
        lines += [f"![{caption}]({images}{name}.png)", ""]
    for caption, headings, rows in findings.tables:
        if not rows:
            continue
        if len(rows) <= FOLDED:
            lines += [caption, "", *table(headings, rows), ""]
        else:
            lines += ["<details>", f"<summary>{caption}</summary>", "", *table(headings, rows), "", "</details>", ""]
    return lines


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


def results_page(
    names: Sequence[str], found: Sequence[tuple[Target, Findings]], scale: Scale, images: str, machine: Record
) -> str:
    """All targets, asked for by these names, as one page of Markdown; {target} in `images` becomes the target's name."""
    command = (
        f"superteach reproduce {' '.join(names)}" + (" --quick" if scale.quick else "") + f" --trials {scale.trials}"
    )
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    workers = machine["workers"]
    at_a_time = f"{workers} cells at a time, each on one core" if workers > 1 else "one cell at a time"
    page = [_FOREWORD.format(command=command, versions=packages, at_a_time=at_a_time, **machine)]
    for target, findings in found:
        lines = section(target, findings, images.format(target=target.name))
        page += ["## " + lines[0], *lines[1:]]
    return "\n".join(page).rstrip() + "\n"

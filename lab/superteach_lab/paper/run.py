"""Running targets: every finished cell is on disk at once, so that a stopped run goes on where it was."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from superteach.exceptions import SettingError
from superteach.io.atomic import write_text
from superteach.packages import versions
from superteach_lab.commands.progress import Watch
from superteach_lab.paper import curves, table_findings, theorem, writing
from superteach_lab.paper import workers as workplace
from superteach_lab.paper.plan import Findings, Scale, Step, Target
from superteach_lab.records import Record, Records

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        table_findings.LOGISTIC,
        table_findings.RIDGE,
        curves.RISK,
        curves.OBJECTIVE,
        theorem.THEOREM,
    )
}


def run(
    names: Sequence[str],
    scale: Scale,
    out: Path,
    watch: Watch | None = None,
    docs: Path | None = None,
    workers: int = 1,
) -> list[str]:
    """Compute what is missing, `workers` cells at a time, and write what was found; lines to be shown at the end."""
    targets = chosen(names)
    machine = {**writing.machine(), "workers": workers}
    # How many work at a time is no part of what makes two runs the same.
    settings = {**scale.settings(), "versions": versions(), "machine": writing.machine()}
    plans = [
        (target, target.steps(scale), Records(out / target.name / "cells.jsonl", {"target": target.name, **settings}))
        for target in targets
    ]
    tasks = [(step, records) for _, steps, records in plans for step in steps]
    clock = _Clock(tasks, watch)
    missing = [(step, records) for step, records in tasks if step.cell not in records]
    for (step, records), result in workplace.finished(missing, workers, clock.begin):
        records.put(step.cell, _without_nan(result))
        clock.end(step)
    found: list[tuple[Target, Findings]] = []
    said: list[str] = []
    for target, steps, records in plans:
        records.arrange([step.cell for step in steps])
        findings = target.findings(records, scale)
        found.append((target, findings))
        problems = writing.write_target(out / target.name, target, findings, scale, machine)
        said += [f"{target.title}: {' '.join(findings.verdict)}", *problems]
    write_text(out / "results.md", writing.results_page(names, found, scale, "{target}/", machine))
    if docs is not None:
        publish(docs, names, found, scale, out, machine)
    said.append(f"Written to {out}: results.md, and a folder per target with its cells, numbers and figures.")
    return said


def chosen(names: Sequence[str]) -> list[Target]:
    """Targets by name; "all" is every one of them."""
    unknown = [name for name in names if name not in TARGETS and name != "all"]
    if unknown or not names:
        raise SettingError(f"target {', '.join(unknown)!r} is not known; there are {', '.join(TARGETS)} and all")
    return [target for name, target in TARGETS.items() if "all" in names or name in names]


def publish(
    docs: Path,
    names: Sequence[str],
    found: Sequence[tuple[Target, Findings]],
    scale: Scale,
    out: Path,
    machine: Record,
) -> None:
    """results.md for a documentation folder, its figures under images/results."""
    images = docs / "images" / "results"
    images.mkdir(parents=True, exist_ok=True)
    for target, findings in found:
        for name in findings.figures:
            source = out / target.name / f"{name}.png"
            if source.exists():
                shutil.copyfile(source, images / f"{target.name}-{name}.png")
    write_text(docs / "results.md", writing.results_page(names, found, scale, "images/results/{target}-", machine))


def _without_nan(value: Any) -> Any:
    """JSON has no NaN; a number that is none becomes null."""
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and value != value else value


class _Clock:
    """Says how far a run is: in cells, and in the weights of its steps."""

    def __init__(self, tasks: Sequence[tuple[Step, Records]], watch: Watch | None) -> None:
        done = [step.weight for step, records in tasks if step.cell in records]
        self._cells, self._done = len(tasks), len(done)
        self._whole, self._worked = sum(step.weight for step, _ in tasks), sum(done)
        self._watch, self._label = watch, ""
        self._tell()

    def begin(self, step: Step) -> None:
        self._label = ", ".join(f"{key} {value}" for key, value in step.cell.items() if key != "contents")
        self._tell()

    def end(self, step: Step) -> None:
        self._done += 1
        self._worked += step.weight
        self._tell()

    def _tell(self) -> None:
        if self._watch is not None:
            self._watch(self._label, self._done, self._cells, self._worked / self._whole)

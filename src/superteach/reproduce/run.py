"""Running targets: every finished cell is on disk at once, so that a stopped run goes on where it was."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from superteach.errors import SettingError
from superteach.lesson import versions, write_text
from superteach.records import Records
from superteach.reproduce import curves, sensitivity, statements, tables, writing
from superteach.reproduce.plan import Findings, Scale, Step, Target

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        tables.LOGISTIC,
        tables.RIDGE,
        curves.RISK,
        curves.OBJECTIVE,
        sensitivity.SENSITIVITY,
        statements.THEOREM,
        statements.ORACLE,
        statements.DEFINITION,
    )
}


@dataclass(frozen=True)
class State:
    """How far a run is."""

    label: str
    done: int
    cells: int
    left: float | None
    """Seconds that are left, once some cell of this run tells how fast this machine is."""


Watch = Callable[[State], None]


def run(
    names: Sequence[str], scale: Scale, out: Path, watch: Watch | None = None, docs: Path | None = None
) -> list[str]:
    """Compute what is missing, write what was found; lines to be shown at the end."""
    targets = chosen(names)
    plans = [(target, target.steps(scale)) for target in targets]
    clock = _Clock([step for _, steps in plans for step in steps], watch)
    found: list[tuple[Target, Findings]] = []
    said: list[str] = []
    settings = {**scale.settings(), "versions": versions(), "machine": writing.machine()}
    opened = [
        Records(out / target.name / "cells.jsonl", {"target": target.name, **settings}) for target in targets
    ]
    for (target, steps), records in zip(plans, opened, strict=True):
        for step in steps:
            clock.begin(f"{target.name}: {_words(step)}")
            known = step.cell in records
            records.get(step.cell, partial(_finished, step, records))
            clock.end(step, known)
        findings = target.findings(records, scale)
        found.append((target, findings))
        problems = writing.write_target(out / target.name, target, findings, scale)
        said += [f"{target.title}: {' '.join(findings.verdict)}", *problems]
    write_text(out / "results.md", writing.results_page(found, scale, "{target}/"))
    written = ["results.md"] + (
        ["results.html"] if writing.write_html(out / "results.html", found, scale, out) else []
    )
    if docs is not None:
        publish(docs, found, scale, out)
    said.append(
        f"Written to {out}: {', '.join(written)}, and a folder per target with cells, summary, tables and figures."
    )
    return said


def chosen(names: Sequence[str]) -> list[Target]:
    """Targets by name; "all" is every one of them."""
    unknown = [name for name in names if name not in TARGETS and name != "all"]
    if unknown or not names:
        raise SettingError(
            f"target {', '.join(unknown)!r} is not known; there are {', '.join(TARGETS)} and all"
        )
    return [target for name, target in TARGETS.items() if "all" in names or name in names]


def publish(docs: Path, found: Sequence[tuple[Target, Findings]], scale: Scale, out: Path) -> None:
    """results.md for a documentation folder, its figures under images/results."""
    images = docs / "images" / "results"
    images.mkdir(parents=True, exist_ok=True)
    for target, findings in found:
        for name in findings.figures:
            source = out / target.name / f"{name}.png"
            if source.exists():
                shutil.copyfile(source, images / f"{target.name}-{name}.png")
    write_text(docs / "results.md", writing.results_page(found, scale, "images/results/{target}-"))


def _words(step: Step) -> str:
    return ", ".join(f"{key} {value}" for key, value in step.cell.items())


def _finished(step: Step, records: Records) -> Any:
    """A step's record as JSON can hold it."""
    return _without_nan(step.work(records))


def _without_nan(value: Any) -> Any:
    """JSON has no NaN; a number that is none becomes null."""
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and value != value else value


class _Clock:
    """Time left, from the weights of the steps and the seconds that those of this run took."""

    def __init__(self, steps: Sequence[Step], watch: Watch | None) -> None:
        self._left = sum(step.weight for step in steps)
        self._cells, self._done = len(steps), 0
        self._worked = self._spent = 0.0
        self._watch, self._label, self._started = watch, "", 0.0

    def begin(self, label: str) -> None:
        self._label, self._started = label, time.perf_counter()
        self._tell()

    def end(self, step: Step, known: bool) -> None:
        self._done += 1
        self._left -= step.weight
        if not known:
            self._worked += step.weight
            self._spent += time.perf_counter() - self._started
        self._tell()

    def _tell(self) -> None:
        if self._watch is not None:
            left = self._left * self._spent / self._worked if self._worked else None
            self._watch(State(self._label, self._done, self._cells, left))

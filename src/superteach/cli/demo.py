"""`superteach demo`: the paper's method and match on synthetic rows, beside the full pool and random rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np

from superteach.cli import screen
from superteach.cli.folder import check_folder, claim, new_folder
from superteach.coordinator import named
from superteach.datasets import make_classification_pool
from superteach.exceptions import SettingError, counted
from superteach.goals import PerturbedFit
from superteach.io.validation import Part
from superteach.lesson import Lesson, PathPoint, write_json
from superteach.local import LocalTeachers
from superteach.report import plots
from superteach.report.words import mean_and_range
from superteach.settings import Budget, Settings

_SHARE = 0.04
"""Share of the rows for match's own lesson."""
_COMMAND = "superteach demo"
"""How lesson.json names what wrote it."""
_WRITTEN = ("figure.png", "lesson.json")


def run(rows: int, teachers: int, seed: int, out: Path) -> None:
    """Make the rows, teach in four ways, show and write what came of it."""
    _check_own(out)
    place = check_folder(out, overwrite=True)
    with claim(out, place):
        _run(rows, teachers, seed, out, place)


def _check_own(out: Path) -> None:
    """Refuse a folder that holds anything but an earlier demonstration: what others put there stays."""
    if not out.is_dir():
        return
    present = sorted(path.name for path in out.iterdir())
    foreign = [name for name in present if name not in _WRITTEN]
    if present and not foreign and not _is_own(out / "lesson.json"):
        foreign = present
    if foreign:
        raise SettingError(
            f"--out {str(out)!r} holds {foreign[0]!r}, which superteach demo did not write; name a new folder with --out"
        )


def _is_own(path: Path) -> bool:
    """Whether a demonstration wrote this lesson.json."""
    try:
        return bool(json.loads(path.read_text(encoding="utf-8")).get("command") == _COMMAND)
    except (OSError, ValueError, AttributeError):
        return False


def _run(rows: int, teachers: int, seed: int, out: Path, place: Path) -> None:
    X, y, owner = make_classification_pool(rows, 10, teachers, seed)
    members = [np.flatnonzero(owner == teacher) for teacher in range(teachers)]
    parts = [Part(f"teacher {number}", X[own], y[own], own) for number, own in enumerate(members, 1)]
    columns = [f"x{column}" for column in range(1, X.shape[1] + 1)]
    local = LocalTeachers(parts, columns, named.build_student("logistic", 1.0, None, intercept=False))

    def teach(method: str, budget: Budget, watch: screen.Watch | None = None) -> Lesson:
        settings = Settings(method=method, budget=budget, measure="coefficients", random_state=seed)
        return local.teach(PerturbedFit(seed), settings, watch).lesson

    screen.say(f"{counted(teachers, 'teachers hold', 'teacher holds')} {rows:,} rows, all in this process.")
    size = max(round(_SHARE * rows), 2 * (len(columns) + 1))  # a small pool's 4 % say too little
    with screen.progress("the paper's method") as (watch, _), new_folder(place) as folder:
        paper = teach("dual", "best", watch)
        exact = teach("match", size, watch)
        short = teach("match", paper.size, watch)
        drawn = local.compare_with_random(paper, watch=watch)
        paper = replace(paper, random_rows=drawn)
        everything = teach("random", rows, watch)
        write_json(folder / "lesson.json", {"command": _COMMAND, **paper.as_dict()})
        best = teach("match", "best", watch)
        match = {
            point.size: point for lesson in (best, exact, short) for point in lesson.path
        }  # one point for each size
        by_chance = tuple(
            PathPoint(
                point.size, point.fraction, fmean(local.compare_with_random(replace(paper, size=point.size)).risk)
            )
            for point in best.path
        )
        curves = {
            "paper's method": paper,
            "random rows": replace(
                paper, risk=fmean(drawn.risk), objective=np.empty(0), gap=np.empty(0), path=by_chance
            ),
            "match": replace(exact, path=tuple(match[size] for size in sorted(match))),
        }
        drawings = [plots.sizes_plot(curves), plots.objective_plot(curves)]
        plots.save_plots([plot for plot in drawings if plot is not None], folder / "figure.png")

    screen.compare(
        {
            "full pool": everything,
            "paper's method": paper,
            "match, same size": short,
            f"match, {screen.percent(exact.fraction)}": exact,
        }
    )
    screen.say("Rounds, bytes and seconds are of a whole run each, the fit on all rows that makes the goal included.")
    screen.say(f"Paper's method: {screen.sentence(paper)}")
    mean, span = mean_and_range(drawn.risk, "{:.4g}".format)
    count = counted(len(drawn.risk), "draws")
    screen.say(
        f"As many random rows leave it {mean} away on average ({span} in {count}), as many that match chose "
        f"{short.risk:.4g}."
    )
    screen.say(f"Match: {screen.sentence(exact)}")
    screen.say(f"Written to {out}: figure.png and lesson.json (the paper's method).")

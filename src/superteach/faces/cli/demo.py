"""`superteach demo`: the paper's method and match on synthetic rows, beside the full pool and random rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from superteach.coordinator import named
from superteach.coordinator.goals import PerturbedFit
from superteach.datasets import make_classification_pool
from superteach.errors import MissingExtra, counted
from superteach.faces.cli import screen
from superteach.faces.cli.folder import check_folder, new_folder
from superteach.faces.oneprocess import OneProcess
from superteach.lesson import Lesson, write_json
from superteach.mathematics.learner import Learner
from superteach.settings import Budget, Settings
from superteach.teacher.inputs import Part

_SHARE = 0.04
"""Share of the rows for match's own lesson."""


def run(rows: int, teachers: int, seed: int, out: Path) -> None:
    """Make the rows, teach in five ways, show and write what came of it."""
    place = check_folder(out, overwrite=True)
    X, y, owner = make_classification_pool(rows, 10, teachers, seed)
    members = [np.flatnonzero(owner == teacher) for teacher in range(teachers)]
    parts = [Part(f"teacher {number}", X[own], y[own], own) for number, own in enumerate(members, 1)]
    columns = [f"x{column}" for column in range(1, X.shape[1] + 1)]
    room = OneProcess(parts, columns, Learner.of(named.build_learner("logistic", 1.0, None, intercept=False)))

    def teach(method: str, budget: Budget, watch: screen.Watch | None = None) -> Lesson:
        settings = Settings(method=method, budget=budget, random_state=seed)
        return room.teach(PerturbedFit(seed), settings, watch).lesson

    screen.say(f"{counted(teachers, 'teachers hold', 'teacher holds')} {rows:,} rows, all in this process.")
    with screen.stage_table("the paper's method") as watch:
        paper = teach("dual", "best", watch)
    size = max(round(_SHARE * rows), 2 * (len(columns) + 1))  # a small pool's 4 % say too little
    with screen.stage_table("match") as watch:
        exact = teach("match", size, watch)
    short = teach("match", paper.size)
    drawn = teach("random", paper.size)
    everything = teach("random", rows)

    missing = None
    with new_folder(place) as folder:
        write_json(folder / "lesson.json", paper.as_dict())
        try:
            from superteach.report.figures import charts_of
            from superteach.report.png import write_figure

            # One point for each size.
            match = {point.size: point for lesson in (teach("match", "best"), exact, short) for point in lesson.path}
            curves = {
                "paper's method": paper,
                "random rows": replace(drawn, path=teach("random", "best").path),
                "match": replace(exact, path=tuple(match[size] for size in sorted(match))),
            }
            write_figure(folder / "figure.png", *charts_of(curves))
        except MissingExtra as error:
            missing = error

    screen.compare(
        {
            "full pool": everything,
            "random, same size": drawn,
            "paper's method": paper,
            "match, same size": short,
            f"match, {screen.percent(exact.fraction)}": exact,
        }
    )
    screen.say("Rounds, bytes and seconds are of a whole run each, the fit on all rows that makes the goal included.")
    screen.say(f"Paper's method: {screen.sentence(paper)}")
    screen.say(f"As many random rows leave it {drawn.risk:.4g} away, as many that match chose {short.risk:.4g}.")
    screen.say(f"Match: {screen.sentence(exact)}")
    written = "lesson.json" if missing else "figure.png and lesson.json"
    screen.say(f"Written to {out}: {written} (the paper's method).")
    if missing:
        screen.say(str(missing))

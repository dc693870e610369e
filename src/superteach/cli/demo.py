"""`superteach demo`: one lesson on synthetic rows, beside the full pool and a random subset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from superteach.cli import screen, work
from superteach.cli.folder import check_folder, new_folder
from superteach.datasets import make_classification_pool
from superteach.errors import MissingExtra
from superteach.goals import PerturbedFit
from superteach.inputs import Part


def run(rows: int, teachers: int, seed: int, out: Path) -> None:
    """Make the rows, teach three ways, show and write what came of it."""
    place = check_folder(out, overwrite=True)
    X, y, owner = make_classification_pool(rows, 10, teachers, seed)
    members = [np.flatnonzero(owner == teacher) for teacher in range(teachers)]
    parts = [Part(f"teacher {number}", X[own], y[own], own) for number, own in enumerate(members, 1)]
    columns = [f"x{column}" for column in range(1, X.shape[1] + 1)]
    room = work.Classroom(parts, columns, work.build_learner("logistic", 1.0, None, intercept=False))
    goal = PerturbedFit(seed)

    screen.say(f"{teachers} teachers hold {rows:,} private rows; they answer with sums only.")
    with screen.stage_table() as watch:
        taught = room.teach(goal, watch, budget="best")
    paper = taught.lesson
    drawn = room.teach(goal, method="random", budget=paper.size, random_state=seed).lesson
    everything = room.teach(goal, method="random", budget=rows).lesson
    walk = room.teach(goal, method="random", budget="best", random_state=seed).lesson.path

    missing = None
    with new_folder(place) as folder:
        work.write_json(folder / "lesson.json", paper.as_dict())
        try:
            from superteach.plots import figure_of

            curves = {"paper's method": paper, "random rows": replace(drawn, path=walk)}
            figure_of(curves, paper.pool_risk, folder / "figure.png")
        except MissingExtra as error:
            missing = error

    screen.compare({"full pool": everything, "paper's method": paper, "random, same size": drawn})
    screen.say(
        "Rounds, bytes and seconds are of a whole run each, the fit on all rows that makes the goal included."
    )
    screen.say(f"{screen.sentence(paper)} As many random rows leave it {drawn.risk:.4g} away.")
    written = "lesson.json" if missing else "figure.png and lesson.json"
    screen.say(f"Written to {out}: {written}.")
    if missing:
        screen.say(str(missing))

"""`superteach teach --dry-run`: the lesson on invented rows of the same shape, to say what the real one will take."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from superteach.cli import screen
from superteach.coordinator.federation import Federation
from superteach.coordinator.methods.base import lesson_sizes
from superteach.coordinator.teach import teach
from superteach.engines.threads import Threads
from superteach.exceptions import counted
from superteach.goals import MaxAUC, PerturbedFit, Without
from superteach.io.validation import Part, make_teachers
from superteach.learner import Learner
from superteach.lesson import Entry, to_json
from superteach.privacy import PRIVACY
from superteach.report.markup import size_text
from superteach.report.words import exposure
from superteach.settings import Budget, Settings
from superteach.types import Json, Label

MOST = 5000
"""Rows that are invented at most, so that a rehearsal takes seconds; not measured how rounds depend on their number."""


def rehearse(
    teachers: Sequence[str],
    columns: int,
    rows: int | None,
    learner: Learner,
    goal: object,
    settings: Settings,
    round_seconds: float = 0.0,
    positive: Label | None = None,
) -> Json:
    """Teach the lesson on invented rows; return what it took: rounds, bytes, seconds and queries.

    `rows` counts the rows of all teachers together; None: nobody has said, and a thousand each are assumed.
    """
    if rows is None:
        held = max(1000 * len(teachers), 25 * settings.budget if isinstance(settings.budget, int) else 0)
    else:
        held = rows
        lesson_sizes(settings.budget, rows, columns)  # refuses what all rows are too few for
    invented = min(held, max(MOST, 20 * len(teachers), 10 * columns))
    if isinstance(goal, Without):
        goal = Without(0)  # as many sums as for any other column
    elif not isinstance(goal, PerturbedFit | MaxAUC):  # they are fitted on rows; for any other goal a vector serves
        goal = np.random.default_rng(1).standard_normal(columns + (learner.intercept != "none"))
        goal /= np.linalg.norm(goal)
    scaled = replace(settings, budget=_scaled(settings.budget, invented / held))
    lesson = teach(_federation(teachers, columns, invented, learner), learner, goal, scaled)
    clock = "where a round takes 0.1; starting the teachers' processes comes on top"
    groups: dict[str, list[Entry]] = {}
    for entry in lesson.ledger:
        groups.setdefault(entry.query, []).append(entry)
    return {
        "teachers": list(teachers),
        "columns": columns,
        "rows": rows,
        "positive": positive,
        "privacy": settings.privacy,
        "searches": lesson.words.exact and settings.privacy == "none",
        "rounds": lesson.rounds,
        "bytes": lesson.bytes,
        "seconds": lesson.seconds * held / invented + round_seconds * lesson.rounds,
        "clock": clock if round_seconds else "on this machine",
        "leaves": [
            {
                "query": query,
                "rounds": len(entries),
                "bytes": sum(entry.bytes_in for entry in entries) // len(teachers),
                "shows": exposure(query),
            }
            for query, entries in groups.items()
        ],
    }


def show(facts: Json, as_json: bool) -> None:
    """Show a rehearsal."""
    if as_json:
        sys.stdout.write(to_json(facts))
        return
    teachers, privacy = len(facts["teachers"]), facts["privacy"]
    rows = "an unknown number of rows" if facts["rows"] is None else counted(facts["rows"], "rows")
    screen.say(
        f"A rehearsal on invented rows: {counted(teachers, 'teachers')}, {rows}, {counted(facts['columns'], 'columns')}. "
        "Nobody was asked anything, and nothing was written."
    )
    each = size_text(sum(one["bytes"] for one in facts["leaves"]))
    more = "more where rows do not reach the goal" if facts["searches"] else ""
    positive = facts["positive"]
    screen.facts(
        [
            *([] if positive is None else [screen.positive_fact(positive)]),
            ("privacy", privacy, PRIVACY[privacy]),
            ("rounds", f"about {facts['rounds']:,}", more),
            ("bytes", f"about {size_text(facts['bytes'])}", f"both ways, over all teachers; {each} leave each"),
            ("seconds", f"about {facts['seconds']:.2g}", facts["clock"]),
        ]
    )
    screen.say("What leaves each teacher:")
    screen.facts(
        [
            (one["query"], f"{one['rounds']} × {size_text(one['bytes'] // one['rounds'])}", one["shows"])
            for one in facts["leaves"]
        ]
    )


def _federation(teachers: Sequence[str], columns: int, rows: int, learner: Learner) -> Federation:
    """Invent rows, and targets that suit the loss, and deal them out to the teachers."""
    draw = np.random.default_rng(0)
    X = draw.standard_normal((rows, columns))
    signal = X @ draw.standard_normal(columns) / np.sqrt(columns) + draw.standard_normal(rows)
    y = np.where(signal > 0.0, 1.0, -1.0) if learner.loss.classifies else signal
    if learner.loss.name == "poisson":
        y = np.round(np.exp(np.clip(signal, -2.0, 2.0)))
    members = np.array_split(np.arange(rows), len(teachers))
    parts = [Part(name, X[own], y[own], own) for name, own in zip(teachers, members, strict=True)]
    return Federation(Threads(make_teachers(parts, list(map(str, range(columns))), learner.loss)[0]))


def _scaled(budget: Budget, share: float) -> Budget:
    """Scale a budget that counts rows to the number of invented rows."""
    if isinstance(budget, tuple):
        return _scaled(budget[0], share), _scaled(budget[1], share)
    return max(1, round(budget * share)) if isinstance(budget, int) else budget

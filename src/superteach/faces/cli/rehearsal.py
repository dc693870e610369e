"""`superteach teach --dry-run`: the lesson on invented rows of the same shape, to say what the real one will take."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from superteach.coordinator.federation import Federation
from superteach.coordinator.goals import MaxAUC, PerturbedFit
from superteach.coordinator.selection import counts_of
from superteach.coordinator.teaching import teach
from superteach.engines.inprocess import InProcess
from superteach.errors import counted
from superteach.faces.cli import screen
from superteach.lesson import Entry, to_json
from superteach.mathematics.learner import Learner
from superteach.report.markup import size_text
from superteach.report.words import exposure
from superteach.settings import Budget, Settings
from superteach.teacher.inputs import Part, make_teachers
from superteach.types import Array, Json
from superteach.words import PROMISES

MOST = 5000
"""Rows that are invented at most, so that a rehearsal takes seconds; not measured how rounds depend on their number."""


@dataclass(frozen=True)
class Shape:
    """What is known of a lesson before anybody is asked."""

    teachers: Sequence[str]
    columns: int
    rows: int
    """Of all teachers together."""
    known: bool = True
    """Whether `rows` is known; else it is assumed."""


def rehearse(shape: Shape, learner: Learner, goal: object, settings: Settings, round_seconds: float = 0.0) -> Json:
    """Teach the lesson on invented rows; return what it took: rounds, bytes, seconds and queries."""
    if shape.known:
        counts_of(settings.budget, shape.rows, shape.columns)  # refuses what all rows are too few for
    rows = min(shape.rows, max(MOST, 20 * len(shape.teachers), 10 * shape.columns))
    lesson = teach(
        _federation(shape, rows, learner), learner, _goal(goal, shape, learner), _scaled(settings, shape, rows)
    )
    groups: dict[str, list[Entry]] = {}
    for entry in lesson.ledger:
        groups.setdefault(entry.query, []).append(entry)
    return {
        "teachers": list(shape.teachers),
        "columns": shape.columns,
        "rows": shape.rows if shape.known else None,
        "promise": settings.promise,
        "searches": lesson.words.exact and settings.promise == "open",
        "rounds": lesson.rounds,
        "bytes": lesson.bytes,
        "seconds": lesson.seconds * shape.rows / rows + round_seconds * lesson.rounds,
        "clock": "where a round takes 0.1; starting the teachers' processes comes on top"
        if round_seconds
        else "on this machine",
        "leaves": [
            {
                "query": query,
                "rounds": len(entries),
                "bytes": sum(entry.bytes_in for entry in entries) // len(shape.teachers),
                "shows": exposure(query),
            }
            for query, entries in groups.items()
        ],
    }


def say(told: Json, as_json: bool) -> None:
    """Show a rehearsal."""
    if as_json:
        sys.stdout.write(to_json(told))
        return
    teachers, promise = len(told["teachers"]), told["promise"]
    rows = "an unknown number of rows" if told["rows"] is None else counted(told["rows"], "rows")
    screen.say(
        f"A rehearsal on invented rows: {counted(teachers, 'teachers')}, {rows}, {counted(told['columns'], 'columns')}. "
        "Nobody was asked anything, and nothing was written."
    )
    each = sum(one["bytes"] for one in told["leaves"])
    screen.facts(
        [
            ("promise", promise, PROMISES[promise]),
            (
                "rounds",
                f"about {told['rounds']:,}",
                "more where rows do not reach the goal" if told["searches"] else "",
            ),
            (
                "bytes",
                f"about {size_text(told['bytes'])}",
                f"both ways, over all teachers; {size_text(each)} leave each",
            ),
            ("seconds", f"about {told['seconds']:.2g}", told["clock"]),
        ]
    )
    screen.say("What leaves each teacher:")
    screen.facts(
        [
            (one["query"], f"{one['rounds']} × {size_text(one['bytes'] // one['rounds'])}", one["shows"])
            for one in told["leaves"]
        ]
    )


def _federation(shape: Shape, rows: int, learner: Learner) -> Federation:
    """Invent rows, and targets that suit the loss, and deal them out to the teachers of `shape`."""
    draw = np.random.default_rng(0)
    X = draw.standard_normal((rows, shape.columns))
    signal = X @ draw.standard_normal(shape.columns) / np.sqrt(shape.columns) + draw.standard_normal(rows)
    y = np.where(signal > 0.0, 1.0, -1.0) if learner.loss.classifies else signal
    if learner.loss.name == "poisson":
        y = np.round(np.exp(np.clip(signal, -2.0, 2.0)))
    members = np.array_split(np.arange(rows), len(shape.teachers))
    parts = [Part(name, X[own], y[own], own) for name, own in zip(shape.teachers, members, strict=True)]
    columns = [str(column) for column in range(shape.columns)]
    return Federation(InProcess(make_teachers(parts, columns, learner.loss)[0]))


def _goal(goal: object, shape: Shape, learner: Learner) -> object:
    """Return a goal that asks as many questions: `goal` itself where it is fitted on teachers' rows, else a vector."""
    if isinstance(goal, PerturbedFit | MaxAUC):
        return goal
    vector: Array = np.random.default_rng(1).standard_normal(shape.columns + (learner.intercept != "none"))
    return vector / np.linalg.norm(vector)


def _scaled(settings: Settings, shape: Shape, rows: int) -> Settings:
    """Scale a budget that counts rows to the number of invented rows."""

    def scaled(budget: Budget) -> Budget:
        if isinstance(budget, tuple):
            return scaled(budget[0]), scaled(budget[1])
        return max(1, round(budget * rows / shape.rows)) if isinstance(budget, int) else budget

    return replace(settings, budget=scaled(settings.budget))

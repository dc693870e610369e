"""Teachers in this process: what the scikit-learn class and the commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from superteach.coordinator import metrics
from superteach.coordinator.federation import Federation
from superteach.coordinator.problem import setup
from superteach.coordinator.teach import measure, teach
from superteach.engines.checkpoint import Journal, Journalled
from superteach.engines.threads import Threads
from superteach.exceptions import BudgetError, DataError, DataTypeError, NotConverged, Setting, SettingError
from superteach.io.frames import DEFAULT, PositiveLabel
from superteach.io.validation import Part, make_teachers
from superteach.learner import Learner
from superteach.lesson import Entry, Lesson, PathPoint, RandomRows, Taught
from superteach.protocol.messages import Answers
from superteach.protocol.queries import Census, Select, Show
from superteach.settings import Settings
from superteach.types import Array, Positions

if TYPE_CHECKING:
    from superteach.teacher.large import LargeArray, LargePool, ParquetTable

EngineFactory = Callable[[Sequence[Any]], Threads]
"""How an engine is named: by whatever makes one of teachers, `Threads` or `Torch("cuda")`."""


DRAWS = 20
"""Draws of random rows that a lesson is compared with."""
TRIES = 10
"""Draws that are tried for each that is wanted, where no model belongs to some of them."""


def draw_rows(rows: int, size: int, seed: int, number: int) -> Positions:
    """Draw `size` of `rows` rows, each set of them as likely; the same seed and number of the draw give the same rows."""
    drawn: Positions = np.sort(np.random.default_rng([seed, number]).choice(rows, size, replace=False))
    return drawn


def refuse_private(settings: Settings) -> None:
    """Refuse private modes over rows on disk: chunks of one table are not separate owners."""
    if settings.privacy != "none":
        raise SettingError(
            Setting("privacy", settings.privacy),
            " is for owners whose rows fit in memory; rows on disk are taught from with ",
            Setting("privacy", "none"),
        )


def find_large(X: object, y: object, groups: object, costs: object) -> ParquetTable | LargeArray | None:
    """Find what is to stay on disk: a path, a pyarrow Dataset, or a mapped array too large for this memory; else None."""
    listed = getattr(X, "files", None) if hasattr(X, "to_batches") else None
    if not isinstance(X, str | Path | np.memmap) and listed is None:
        return None
    from superteach.teacher.large import LargeArray, ParquetTable, is_large, parquet_files  # pyarrow is heavy

    if isinstance(X, str | Path) or listed is not None:
        if not isinstance(y, str):
            raise DataTypeError(f"y is {type(y).__name__}; for rows in files y is the name of the target column")
        if groups is not None or not (costs is None or isinstance(costs, str)):
            raise DataError(
                "for rows in files costs is the name of a column, and groups must be None: one owner has all"
            )
        if listed is not None:
            features = [name for name in X.schema.names if name not in (y, costs)]  # type: ignore[attr-defined]
            return ParquetTable([Path(name) for name in listed], y, features, costs)
        place = Path(str(X))
        return ParquetTable(parquet_files(place) if place.is_dir() else [place], y, None, costs)
    if isinstance(X, np.memmap) and X.ndim == 2 and groups is None and costs is None and is_large(X.size):
        target = np.asarray(y)
        if target.shape != X.shape[:1]:
            raise DataError(f"y has shape {target.shape}, expected one target for each of {X.shape[0]} rows")
        return LargeArray(X, target)
    return None


class LocalTeachers:
    """Teachers made from parts, ready to be taught from as often as wanted."""

    def __init__(
        self,
        parts: Sequence[Part] | LargePool,
        columns: Sequence[str],
        learner: Learner,
        engine: EngineFactory | None = None,
        positive: PositiveLabel = DEFAULT,
    ) -> None:
        """Make teachers of parts, or take the teachers of a pool that is on disk."""
        if engine is not None and not callable(engine):
            raise SettingError(
                f"engine={engine!r} makes no engine of teachers: None is this process, superteach.Torch('cuda') a GPU, "
                "a class of engines your own"
            )
        self._open = Threads if engine is None else engine
        self.learner, self.columns = learner, columns
        self._teachers: Sequence[Answers]
        if isinstance(parts, Sequence):
            self._teachers, self.classes = make_teachers(parts, columns, self.learner.loss, positive)
            outputs = parts[0].targets if self.classes is None else len(self.classes)
            self.learner = self.learner.over(1 if self.classes is not None and outputs == 2 else outputs)
        else:
            self._teachers, self.classes = parts.teachers, parts.classes

    @property
    def count(self) -> int:
        """How many rows all teachers have."""
        return sum(teacher.rows.count for teacher in self._teachers)

    def teach(
        self,
        goal: Any,
        settings: Settings,
        watch: Callable[[Entry], None] | None = None,
        journal: Journal | None = None,
        measure: bool = True,
    ) -> Taught:
        """Teach one lesson, with a ledger of its own; sums that a journal has are not asked for again.

        `measure` says whether to measure what a private mode leaves unknown, for whoever owns all rows.
        """
        with closing(self._engine()) as engine:
            federation = Federation(engine if journal is None else Journalled(engine, journal), watch)
            lesson = teach(federation, self.learner, goal, settings, classes=self.classes, columns=self.columns)
        states = engine.states()
        chosen = tuple(state.chosen for state in states)
        measured: Lesson | None = lesson
        if not lesson.delivered:
            measured = self._measured(lesson, settings, chosen) if measure else None
        return Taught(lesson, self.classes, chosen, measured, tuple(getattr(state, "note", "") for state in states))

    def compare_with_random(
        self, lesson: Lesson, draws: int = DRAWS, seed: int | None = None, watch: Callable[[Entry], None] | None = None
    ) -> RandomRows:
        """Fit the learner on as many random rows as the lesson has, `draws` times, and set its models beside the goal.

        Where no model belongs to a draw another one takes its place, TRIES times as many in all at most.
        """
        learner, settings = self.learner, lesson.settings
        seed = int(settings["random_state"]) if seed is None else seed
        with closing(self._engine()) as engine:
            federation = Federation(engine, watch)
            problem = setup(federation, learner, None, settings["standardize"])
            goal, start = (problem.scaling.inside(one.ravel()) for one in (lesson.goal, lesson.model))
            wanted = draws if lesson.size < problem.rows else 1  # all rows are drawn in one way
            models: list[Array] = []
            tried = 0
            federation.stage = "random rows"
            while len(models) < wanted and tried < TRIES * wanted:
                engine.choose(draw_rows(problem.rows, lesson.size, seed, tried))
                tried += 1
                if problem.refuses(federation.sum(Census("chosen"))) is None:
                    with suppress(NotConverged, np.linalg.LinAlgError):
                        models.append(problem.fit_chosen(lesson.size, start))
            found = (
                metrics.compare(federation, models, goal, learner.loss.classifies, learner.outputs) if models else []
            )
        return RandomRows(
            tuple(one.agreement for one in found),
            tuple(one.distance for one in found),
            tuple(metrics.risk(problem.scaling.raw(model), lesson.goal.ravel()) for model in models),
            tried - len(models),
        )

    def _engine(self) -> Threads:
        """Make an engine of the teachers."""
        engine = self._open(self._teachers)
        if engine is None:
            raise SettingError("engine= returned None for the teachers; return the engine that it makes of them")
        return engine

    def _measured(self, lesson: Lesson, settings: Settings, chosen: tuple[Positions, ...]) -> Lesson:
        """Fit the learner on the chosen rows and measure: for whoever owns all rows, outside of every privacy mode."""
        counts = tuple(teacher.rows.count for teacher in self._teachers)
        taken = np.zeros(sum(counts), dtype=bool)
        for first, some in zip(np.cumsum((0, *counts)), chosen, strict=False):
            taken[first + some] = True
        learner = self.learner
        with closing(self._engine()) as engine:
            federation = Federation(engine)
            problem = setup(federation, learner, settings.solver, settings.standardize)
            own = problem.width // learner.outputs
            federation.gather(Show(own, learner.weighted, 1 if learner.loss.classifies else learner.outputs))
            places = np.flatnonzero(taken).astype(np.float64)
            kept = federation.sum(Select(counts, places, (0,) * len(counts)))
            if refusal := problem.refuses(kept):
                raise BudgetError(Setting("budget", settings.budget), f": the chosen {refusal}; raise the budget")
            raw_goal = lesson.goal.ravel()
            goal = problem.scaling.inside(raw_goal)
            model = problem.fit_chosen(kept.rows, goal)
            pool = problem.fit_pool()
            likeness, everything = measure(problem, goal, model)
        raw, raw_pool = problem.scaling.raw(model), problem.scaling.raw(pool)
        risk = metrics.risk(raw, raw_goal)
        return replace(
            lesson,
            model=learner.shaped(raw),
            size=kept.rows,
            pool_rows=problem.rows,
            risk=risk,
            agreement=likeness.agreement,
            prediction_distance=likeness.distance,
            prediction_spread=likeness.spread,
            pool_risk=metrics.risk(raw_pool, raw_goal),
            pool_agreement=everything.agreement,
            pool_distance=everything.distance,
            path=(PathPoint(kept.rows, kept.rows / problem.rows, risk, likeness.distance),),
            delivered=True,
            pool_model=raw_pool,
        )

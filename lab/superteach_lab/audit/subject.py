"""The rows under attack, the lessons taught from them, and all that a coordinator sees of a lesson."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from superteach.coordinator.federation import Federation
from superteach.coordinator.teach import teach
from superteach.engines.threads import Threads
from superteach.exceptions import BudgetError, Setting, SuperteachError, reason_of, shorten
from superteach.learner import Learner
from superteach.lesson import Lesson
from superteach.optim.problem import Scaling
from superteach.privacy.accounting import Mode
from superteach.privacy.guard import Guard
from superteach.protocol.messages import Sealed
from superteach.protocol.queries import ChooseShare, Query
from superteach.teacher import Teacher
from superteach.types import Array, Label, Positions
from superteach_lab.fit import fitted

Result = TypeVar("Result")
Row = tuple[Array, float]
Memory = dict[tuple[int, int, bytes], tuple[Any, Sealed]]
"""What owners chose for a share: position, rows and what these shall add up to."""


@dataclass(frozen=True)
class Door:
    """How owners keep a privacy mode: honestly, unless a class is replaced by a broken one."""

    mode: type[Mode] = Mode
    guard: type[Guard] = Guard
    teacher: type[Teacher] = Teacher

    def close(self, teacher: Teacher, mode: Mode) -> Teacher:
        """Put a teacher behind the guard of one lesson."""
        return teacher.under(self.guard(mode=self.mode(mode.name, mode.epsilon, mode.delta)))


HONEST = Door()


@dataclass(frozen=True, eq=False)
class Subject:
    """Rows of several owners (targets ±1 for classifiers), a learner, a goal and a number of rows to choose."""

    parts: tuple[tuple[Array, Array], ...]
    learner: Any
    goal: Array
    """In raw units, intercept last where the learner fits one."""
    budget: int
    name: str = "pool"
    positive: Label | None = None
    """The label that targets of 1 stand for; None: targets are numbers, or were drawn as ±1."""
    declared: tuple[int, ...] = ()
    """How many rows owners say that they have; empty: as many as they have."""
    place: int = 0
    """The owner whose row is looked for."""

    @property
    def count(self) -> int:
        """Rows of all owners."""
        return sum(len(y) for _, y in self.parts)

    @property
    def rows(self) -> Array:
        """All rows, as an auditor knows them."""
        return np.concatenate([X for X, _ in self.parts])

    @property
    def targets(self) -> Array:
        """All targets."""
        return np.concatenate([y for _, y in self.parts])

    @property
    def classifies(self) -> bool:
        """Whether targets are labels."""
        return bool(Learner.of(self.learner).loss.classifies)

    @property
    def about(self) -> tuple[Any, float, Array]:
        """What private questions are about: the loss, the constant column and the goal in the learner's coordinates."""
        learner = Learner.of(self.learner)
        return learner.loss, learner.column, learner.centred(Scaling(learner.column).inside(self.goal))

    def teachers(self, kind: type[Teacher] = Teacher) -> list[Teacher]:
        """Make teachers that hold the rows, with row numbers over all of them."""
        ends = np.cumsum([len(y) for _, y in self.parts])
        return [
            kind(f"owner {place + 1}", X, y, ids=np.arange(end - len(y), end))
            for place, ((X, y), end) in enumerate(zip(self.parts, ends, strict=True))
        ]

    def with_parts(self, change: Callable[[Array, Array], tuple[Array, Array]]) -> Subject:
        """Return the same lesson over other rows."""
        return replace(self, parts=tuple(change(X, y) for X, y in self.parts))

    def with_row(self, row: Row) -> Subject:
        """Return the same with one row more at one owner, who declares as many rows as before."""
        parts, declared = list(self.parts), self.declared or tuple(len(y) for _, y in self.parts)
        X, y = parts[self.place]
        parts[self.place] = np.vstack([X, row[0]]), np.append(y, row[1])
        return replace(self, parts=tuple(parts), declared=declared)

    def owner(self, place: int = 0) -> Subject:
        """Return the lesson of one owner alone, smaller in proportion."""
        part = self.parts[place]
        return replace(self, parts=(part,), budget=max(1, round(self.budget * len(part[1]) / self.count)))

    def standardised(self) -> Subject:
        """Return rows and goal on standardised columns, as if owners had scaled them by public means and deviations."""
        mean, spread = self.rows.mean(axis=0), self.rows.std(axis=0)
        spread = np.where(spread > 0.0, spread, 1.0)
        intercept = Learner.of(self.learner).column > 0.0
        mean = mean * intercept
        width = len(spread)
        goal = np.append(self.goal[:width] * spread, self.goal[width:] + (mean @ self.goal[:width]) * intercept)
        scaled = self.with_parts(lambda X, y: ((X - mean) / spread, y))
        return replace(scaled, goal=goal, name=f"{self.name}, standardised columns")

    @classmethod
    def dealt(cls, X: Array, y: Array, owners: int, learner: Any, goal: Array, budget: int, name: str) -> Subject:
        """Deal rows out to owners in equal parts."""
        places = np.array_split(np.arange(len(y)), owners)
        return cls(tuple((X[some], y[some]) for some in places), learner, goal, budget, name)


@dataclass(frozen=True, eq=False)
class Reply:
    """One question and what one owner answered."""

    query: Query[object]
    position: int
    sealed: Sealed


class TappedThreads(Threads):
    """Teachers in one process, and somebody who listens where the coordinator does."""

    def __init__(
        self, subject: Subject, door: Door = HONEST, choose: bool = True, memory: Memory | None = None
    ) -> None:
        """Without `choose` questions that are only acknowledged are not worked on: no reply depends on that.

        With a `memory` all owners but the one under attack choose once for the same share.
        """
        super().__init__(subject.teachers(door.teacher), threads=1)
        self.door, self.works, self.memory, self.place = door, choose, memory, subject.place
        self.declared = subject.declared or self.declared
        self.replies: list[Reply] = []

    def keep(self, mode: Mode) -> None:
        """Close the doors."""
        self._teachers = tuple(self.door.close(teacher, mode) for teacher in self._teachers)  # type: ignore[arg-type]
        self._states = [teacher.start() for teacher in self._teachers]

    def gather(self, query: Query[object], number: int) -> list[Array]:
        """Ask, unless only an acknowledgement would come back and nobody wants to know what was chosen."""
        if query.silent and not self.works:
            return [np.zeros(0)] * len(self._teachers)
        return super().gather(query, number)

    def _ask(self, position: int, query: Query[object], number: int) -> Sealed:
        if self.memory is None or position == self.place or not isinstance(query, ChooseShare):
            sealed = super()._ask(position, query, number)
        else:
            known = position, query.rows[position], query.shares[position].tobytes()
            if known not in self.memory:
                sealed = super()._ask(position, query, number)
                self.memory[known] = self._states[position], sealed
            self._states[position], sealed = self.memory[known]
        self.replies.append(Reply(query, position, sealed))
        return sealed


@dataclass(frozen=True, eq=False)
class Transcript:
    """A lesson, what a coordinator saw of it, and what every owner chose (which nobody sees in a private mode)."""

    lesson: Lesson
    replies: list[Reply]
    chosen: tuple[Positions, ...]

    def of(self, kind: type[Query[Any]]) -> Iterator[Reply]:
        """Replies to one kind of question."""
        return (one for one in self.replies if isinstance(one.query, kind))

    @property
    def left(self) -> list[tuple[str, str, int, int]]:
        """What one owner sent, by question: its name, what the answer shows, rounds and numbers."""
        found: dict[str, tuple[str, int, int]] = {}
        for one in self.replies:
            if one.position == 0:
                shows, rounds, numbers = found.get(one.query.name, (one.query.exposure, 0, 0))
                found[one.query.name] = shows, rounds + 1, numbers + len(one.sealed.values)
        return [(name, *facts) for name, facts in found.items()]


def listen(
    subject: Subject,
    mode: Mode,
    door: Door = HONEST,
    choose: bool = True,
    memory: Memory | None = None,
    **settings: Any,
) -> Transcript:
    """Teach in this process, with real guards and noise, and write down what leaves the owners."""
    engine = TappedThreads(subject, door, choose, memory)
    given = {"privacy": mode.name, "epsilon": mode.epsilon, "delta": mode.delta, "budget": subject.budget}
    try:
        lesson = teach(Federation(engine), subject.learner, subject.goal, **{**given, **settings})
    finally:
        engine.close()
    return Transcript(lesson, engine.replies, tuple(state.chosen for state in engine.states()))


def with_enough_rows(subject: Subject, work: Callable[[Subject], Result]) -> Result:
    """Do some work, with more rows to choose where so few cannot be taught: of few rows all may carry one class."""
    most = max(int(0.9 * subject.count), 1)
    while True:
        try:
            return work(subject)
        except BudgetError:
            if subject.budget >= most:
                raise
            subject = replace(subject, budget=min(subject.budget + max(subject.budget // 2, 1), most))


def fit(subject: Subject, chosen: Sequence[Positions]) -> Array:
    """Fit the learner on chosen rows, as whoever gets them would, in the learner's coordinates."""
    learner = Learner.of(subject.learner)
    X = np.concatenate([part[0][rows] for part, rows in zip(subject.parts, chosen, strict=True)])
    y = np.concatenate([part[1][rows] for part, rows in zip(subject.parts, chosen, strict=True)])
    return fitted(np.column_stack([X, np.full(len(X), learner.column)]) if learner.column else X, y, learner)


@dataclass(frozen=True)
class Finding:
    """What became of one attack in one mode."""

    attack: str
    mode: str
    said: str
    """What happened, in a sentence."""
    rows: int = 0
    """Rows recovered."""
    of: int = 0
    """Rows there were to recover."""
    broken: bool = False
    """Whether it found what this mode says cannot be found."""
    failed: bool = False
    """Whether it could not be run; `said` has the reason."""
    auc: float | None = None
    """How often a guess puts a lesson with the row above one without it."""
    between: tuple[float, float] | None = field(default=None)
    """95 % confidence interval of that."""


def failure(error: Exception) -> str:
    """Say why a lesson or an attack failed: our own errors explain themselves, others are named."""
    if isinstance(error, SuperteachError):
        return shorten(error.sentence(Setting.as_option))
    return f"{type(error).__name__}: {reason_of(error)}"

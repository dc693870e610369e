"""What a coordinator sees of a lesson: every question, every teacher's sealed reply, every total."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from superteach.coordinator.classroom import enter
from superteach.coordinator.federation import Federation
from superteach.coordinator.teaching import teach
from superteach.engines.inprocess import InProcess
from superteach.errors import BudgetError, SuperteachError, reason_of
from superteach.lesson import Lesson
from superteach.line.queries import Private, Query
from superteach.mathematics.learner import Learner
from superteach.privacy.terms import OPEN_TERMS, PromiseTerms
from superteach.teacher import Teacher
from superteach.types import Array, Label, Positions, Raw

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Round:
    """One question and what came back."""

    number: int
    query: Query[object]
    replies: tuple[Raw, ...]
    """Numbers under "open", words under a promise; one array per teacher."""
    total: Array


@dataclass(eq=False)
class Transcript:
    """All rounds of a lesson, and the public terms under which they were answered."""

    terms: PromiseTerms = OPEN_TERMS
    rounds: list[Round] = field(default_factory=list)

    def of(self, *kinds: type[Query[Any]]) -> Iterator[Round]:
        """Rounds of some kinds of question."""
        return (one for one in self.rounds if isinstance(one.query, kinds))

    def left(self) -> list[Left]:
        """What one teacher sent, by question."""
        found: dict[str, Left] = {}
        for one in self.rounds:
            before = found.get(one.query.name, Left(one.query.name, one.query.exposure, 0, 0, 0))
            sent = one.replies[0]
            found[one.query.name] = before._replace(
                rounds=before.rounds + 1,
                numbers=before.numbers + one.query.reply_length,
                bytes=before.bytes + int(sent.nbytes),
            )
        return list(found.values())


class Left(NamedTuple):
    """What left one teacher in answer to one kind of question."""

    query: str
    shows: str
    rounds: int
    numbers: int
    bytes: int


class Tapped(InProcess):
    """Teachers in one process, and somebody who listens where the coordinator does."""

    def __init__(self, teachers: Sequence[Teacher]) -> None:
        super().__init__(teachers, threads=1)
        self.transcript = Transcript()
        self._heard: dict[int, Raw] = {}

    def keep(self, terms: PromiseTerms) -> None:
        """Keep a promise; a lesson begins."""
        self.transcript = Transcript(terms)
        super().keep(terms)

    def sum(self, query: Query[object], number: int) -> Array:
        """Ask, and write down what came back."""
        self._heard = {}
        total = super().sum(query, number)
        replies = tuple(self._heard[position] for position in sorted(self._heard))
        self.transcript.rounds.append(Round(number, query, replies, total))
        return total

    def _ask(self, position: int, query: Query[object], number: int) -> Any:
        sealed = super()._ask(position, query, number)
        self._heard[position] = sealed.values
        return sealed


@dataclass(frozen=True, eq=False)
class Subject:
    """Rows of several teachers (targets ±1 for classifiers), a learner, a goal and a number of rows to choose."""

    parts: tuple[tuple[Array, Array], ...]
    learner: Any
    goal: Array
    """In raw units, intercept last where the learner fits one."""
    budget: int
    name: str = "pool"
    positive: Label | None = None
    """The label that targets of 1 stand for; None: targets are numbers, or were drawn as ±1."""

    @property
    def count(self) -> int:
        """Rows of all teachers."""
        return sum(len(y) for _, y in self.parts)

    @property
    def rows(self) -> Array:
        """All rows, as an auditor knows them."""
        return np.concatenate([X for X, _ in self.parts])

    @property
    def targets(self) -> Array:
        """All targets."""
        return np.concatenate([y for _, y in self.parts])

    def teachers(self) -> list[Teacher]:
        """Teachers that hold the rows, with row numbers over all of them."""
        ends = np.cumsum([len(y) for _, y in self.parts])
        return [
            Teacher(f"teacher {place + 1}", X, y, ids=np.arange(end - len(y), end))
            for place, ((X, y), end) in enumerate(zip(self.parts, ends, strict=True))
        ]

    def standardised(self) -> Subject:
        """The same rows and goal on standardised columns, as if owners had scaled them by public means and deviations."""
        learner = Learner.of(self.learner)
        scaling = enter(Federation(InProcess(self.teachers())), learner, None, standardize=True).scaling
        units = replace(scaling, constant=float(learner.column > 0.0))
        centre, scale = (default if one is None else one for one, default in ((units.centre, 0.0), (units.scale, 1.0)))
        parts = tuple(((X - centre) / scale, y) for X, y in self.parts)
        return replace(self, parts=parts, goal=units.inside(self.goal), name=f"{self.name}, standardised columns")

    @property
    def most(self) -> int:
        """The most rows that leave a choice."""
        return max(int(0.9 * self.count), 1)

    def workable(self) -> Subject:
        """The same with as many rows to choose as a lesson in the open needs; as it is where no number is enough."""
        try:
            return with_enough_rows(self, self.most, lambda one: (one, listen(one, "open")))[0]
        except SuperteachError:
            return self

    def small(self) -> Subject:
        """The same with so few rows to choose that most teachers choose fewer than there are columns."""
        return replace(self, budget=max(2, min(self.budget, int(0.7 * len(self.goal) * len(self.parts)))))

    def with_row(self, x: Array, y: float, place: int = 0) -> Subject:
        """The same with one row more at one teacher."""
        parts = list(self.parts)
        X, targets = parts[place]
        parts[place] = np.vstack([X, x]), np.append(targets, y)
        return replace(self, parts=tuple(parts))

    def without_row(self, place: int = 0) -> Subject:
        """The same without the last row of one teacher."""
        parts = list(self.parts)
        parts[place] = parts[place][0][:-1], parts[place][1][:-1]
        return replace(self, parts=tuple(parts))

    def without_teacher(self) -> Subject:
        """The same without the last teacher."""
        return replace(self, parts=self.parts[:-1])

    @classmethod
    def dealt(cls, X: Array, y: Array, teachers: int, learner: Any, goal: Array, budget: int, name: str) -> Subject:
        """Deal rows out to teachers in equal parts."""
        places = np.array_split(np.arange(len(y)), teachers)
        return cls(tuple((X[some], y[some]) for some in places), learner, goal, budget, name)


@dataclass(frozen=True, eq=False)
class Heard:
    """A lesson, what a coordinator saw of it, and what every teacher chose (which nobody sees under a promise)."""

    lesson: Lesson
    transcript: Transcript
    chosen: tuple[Positions, ...]


def listen(subject: Subject, promise: str, tap: type[Tapped] = Tapped, **settings: Any) -> Heard:
    """Teach in this process under a promise, with real guards, masks and noise, and write down what leaves teachers."""
    engine = tap(subject.teachers())
    try:
        given = {"budget": subject.budget, "promise": promise, **settings}
        lesson = teach(Federation(engine), subject.learner, subject.goal, **given)
    finally:
        engine.close()
    return Heard(lesson, engine.transcript, tuple(state.chosen for state in engine.states()))


def with_enough_rows(subject: Subject, most: int, work: Callable[[Subject], Result]) -> Result:
    """Do some work, with more rows to choose (`most` at most) where so few cannot be taught.

    Of few rows all may carry one class, and no classifier learns from them.
    """
    while True:
        try:
            return work(subject)
        except BudgetError:
            if subject.budget >= most:
                raise
            subject = replace(subject, budget=min(subject.budget + max(subject.budget // 2, 1), most))


def listen_few(subject: Subject) -> tuple[Subject, Heard]:
    """Teach few rows in the open, each teacher by itself."""
    return with_enough_rows(subject.small(), subject.budget, lambda one: (one, listen(one, "open", rounding="alone")))


def failure(error: Exception) -> str:
    """Say why a lesson or an attack failed: our own errors explain themselves, others are named."""
    text = reason_of(error)
    return text if isinstance(error, SuperteachError) else f"{type(error).__name__}: {text}"


def spread_of(query: Private, terms: PromiseTerms) -> Array:
    """Standard deviation of the noise in each number of a total."""
    parts = query.releases
    return np.repeat([terms.spread(part) for part in parts], [part.numbers for part in parts])

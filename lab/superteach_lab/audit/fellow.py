"""A fellow teacher that lies: what it adds to totals leads all teachers to other prices, and it hears the totals there.

It knows its own lies and may subtract them. Under "epsilon" what is left must be as noisy as promised, wherever prices have
gone. Under "masked" it is exact, so that prices at which one row alone is chosen show that row: no promise is broken, and
the audit says how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from superteach.privacy.terms import PromiseTerms

from superteach.coordinator.federation import Federation
from superteach.coordinator.teaching import teach
from superteach.errors import SuperteachError
from superteach.line.queries import AskMoments, Private, Query
from superteach.line.queries.common import upper_triangle
from superteach.mathematics.learner import Learner
from superteach.teacher import Teacher
from superteach.types import Array
from superteach_lab.audit.broken import as_kind
from superteach_lab.audit.empirical import noise_of
from superteach_lab.audit.recovery import Found, as_row, score
from superteach_lab.audit.transcript import Subject, Tapped, listen, spread_of

LIES = {"small": 3.0, "large": 1e3, "huge": 1e9}
"""Lengths of lies, in deviations of the noise that they are told beside."""
DOUBT = 1e-6
"""Chance below which noise is not what was promised."""
STEEP = 1e4
"""Log-odds between two rows whose pulls differ by a deviation, at prices that single one out."""
FIRM = 1e12
"""Curvature that the lie claims, beside which that of true rows does not turn a step."""
WIDE = 32.0
"""Deviations of pulls within which the strongest one is looked for."""
LED = "a fellow teacher that leads prices to single rows"


class Liar(Tapped):
    """Teachers of whom one lies; whoever listens knows the lies."""

    length = 0.0
    terms_kind: type[PromiseTerms] = PromiseTerms

    def keep(self, terms: PromiseTerms) -> None:
        """Keep a promise, and draw the lies from a fixed seed."""
        self._draw = np.random.default_rng(0)
        super().keep(as_kind(self.terms_kind, terms))

    def sum(self, query: Query[object], number: int) -> Array:
        """What all teachers are told: the total, and the lie."""
        total = super().sum(query, number)
        if not isinstance(query, Private) or not query.releases:
            return total
        lie = self._draw.standard_normal(len(total)) * spread_of(query, self.transcript.terms)
        return np.asarray(total + self.length * lie, dtype=np.float64)


def lead(
    subject: Subject, epsilon: float = 1.0, delta: float = 1e-6, kind: type[PromiseTerms] = PromiseTerms
) -> list[Found]:
    """Lie in three lengths under "epsilon", and hold the noise of what is heard against the promise."""
    found = []
    for name, length in LIES.items():
        tap: Any = type("Lies", (Liar,), {"length": length, "terms_kind": kind})
        transcript = listen(subject, "epsilon", tap, epsilon=epsilon, delta=delta).transcript
        noise = noise_of(subject, transcript, as_kind(PromiseTerms, transcript.terms))
        short = noise.chance < DOUBT
        said = f"noise at the prices it led to: {100.0 * noise.ratio:.0f} % of the least that is needed"
        said = f"{said}, too little at {noise.least}" if short else said
        rounds = len(transcript.rounds)
        found.append(Found(f"a fellow teacher that tells {name} lies", "epsilon", int(short), 1, None, rounds, said))
    return found


class Leader(Tapped):
    """Teachers of whom one, without the coordinator, leads all others to prices at which a single row is chosen.

    Newton's step goes where a large curvature and gradient send it. The fellow adds both before it hears the others' sums,
    subtracts them afterwards, and halves an interval of prices until fractions add up to 1: then pulls add up to a row's.
    """

    def __init__(self, teachers: Sequence[Teacher]) -> None:
        super().__init__(teachers)
        self._draw, self._fallen = np.random.default_rng(0), 0.0
        self._units = self._way = self._wanted = np.zeros(0)
        self._low, self._high = -WIDE, WIDE
        self.pulls: list[Array] = []
        self.rounds = 0

    def sum(self, query: Query[object], number: int) -> Array:
        """What all teachers are told: the total, and the lie."""
        total = super().sum(query, number)
        if not isinstance(query, AskMoments) or (query.function, query.rows, query.order) != ("relax", "drawn", 2):
            return total
        heard, point = query.read(total), query.point
        assert heard.curvature is not None
        self.rounds += 1
        if not len(self._wanted):
            self._units = np.sqrt(np.diag(heard.curvature) / heard.curvature[-1, -1])
            self._turn()
        elif np.allclose(point, self._wanted, rtol=1e-6, atol=1e-6 * float(np.abs(self._wanted).max())):
            self._hear(float(heard.gradient[-1]), heard.gradient[:-1])
        self._wanted = STEEP * np.append(self._way, -0.5 * (self._low + self._high))
        step, curvature = self._wanted - point, FIRM * np.diag(np.square(self._units))
        gradient = -curvature @ step
        self._fallen += float(step @ gradient)  # each value is lower than the last, so that no step is taken back
        return np.asarray(total + np.concatenate([[self._fallen], gradient, curvature[upper_triangle(len(step))]]))

    def _turn(self) -> None:
        way = self._draw.standard_normal(len(self._units) - 1)
        self._way = way / np.linalg.norm(way) / np.maximum(self._units[:-1], 1e-300)
        self._low, self._high = -WIDE, WIDE

    def _hear(self, count: float, pull: Array) -> None:
        middle = 0.5 * (self._low + self._high)
        if abs(count - 1.0) < 1e-6:
            self.pulls.append(pull)
        if abs(count - 1.0) < 1e-6 or self._high - self._low < 1.0 / STEEP:
            self._turn()
        elif count > 1.0:
            self._low = middle
        else:
            self._high = middle


def single_out(subject: Subject) -> Found:
    """Lead prices to single rows under "masked", as the last of the teachers, and count the rows of all others."""
    engine, learner = Leader(subject.teachers()), Learner.of(subject.learner)
    try:
        with suppress(SuperteachError):  # what becomes of the lesson is nothing to a liar
            teach(Federation(engine), subject.learner, subject.goal, budget=subject.budget, promise="masked")
    finally:
        engine.close()
    others = np.concatenate([X for X, _ in subject.parts[:-1]])
    found = [as_row(pull / np.linalg.norm(pull), learner) for pull in engine.pulls]
    rows, error = score(found, others)
    said = f"in one lesson {rows or 'no'} rows of others were the only one chosen at prices that it led to"
    return Found(LED, "masked", rows, len(others), error, engine.rounds, said)

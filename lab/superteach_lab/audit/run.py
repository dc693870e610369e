"""A whole audit: lessons under each promise, every attack on their transcripts, the measured ε, the broken variants."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from superteach.privacy.terms import LEAST, PromiseTerms

from superteach.errors import TeachingError
from superteach.privacy.accounting import epsilon_of
from superteach.types import Array
from superteach.words import PROMISES
from superteach_lab.audit import broken, crafted, fellow, membership, recovery
from superteach_lab.audit.empirical import Measured, Noise, canary, mu_of_row, noise_of, released
from superteach_lab.audit.recovery import Found
from superteach_lab.audit.transcript import Heard, Subject, Transcript, failure, listen, listen_few

RUNS = 4_000
"""Lessons with the row, and as many without it, behind a measured ε."""


@dataclass
class Audited:
    """What an audit of one promise found."""

    promise: str
    subject: Subject
    heard: Heard | None = None
    found: list[Found] = field(default_factory=list)
    refused: str = ""
    """Why there was no lesson, where there was none."""

    @property
    def rows(self) -> int:
        """The most rows that any attack recovered."""
        return max((one.rows for one in self.found), default=0)

    @property
    def failed(self) -> int:
        """How many attacks could not be run."""
        return sum(one.failed for one in self.found)


@dataclass
class Accounted:
    """ε of one lesson: claimed, measured, and what the most telling row could show of it."""

    terms: PromiseTerms
    measured: Measured
    of_row: float
    """ε that this very row spends by the formula."""
    noise: Noise
    variants: list[broken.Caught]

    @property
    def kept(self) -> bool:
        """Whether nothing speaks against the claim, and the audit would have noticed."""
        honest = self.measured.epsilon <= self.terms.epsilon and self.noise.chance > 1e-6
        return honest and all(one.caught is not False for one in self.variants)


@dataclass
class Audit:
    """All of it."""

    subject: Subject
    promises: list[Audited]
    accounted: Accounted | None
    unmeasured: str = ""
    """Why ε was not measured, where it should have been."""
    ledger: dict[str, float] | None = None
    """ε of the rows' life, spent and left, where a teacher's own ledger was given."""

    @property
    def incomplete(self) -> bool:
        """Whether something could not be tried on a promise that hides rows."""
        hidden = [one for one in self.promises if one.promise in ("closed", "epsilon")]
        variants = self.accounted.variants if self.accounted else []
        return bool(self.unmeasured) or any(one.failed for one in hidden) or any(one.caught is None for one in variants)


def audit(
    subject: Subject,
    promises: Sequence[str] = tuple(PROMISES),
    epsilon: float = 1.0,
    delta: float = 1e-6,
    runs: int = RUNS,
    watch: Callable[[str], None] = lambda words: None,
) -> Audit:
    """Teach under each promise in this process, and attack what left the teachers.

    Whatever cannot be taught, tried or measured is told with its reason, and the rest goes on.
    """
    result = Audit(subject, [], None)
    noisy = row = None
    why = ""
    if {"epsilon", "open", "masked"} & set(promises):
        watch("a lesson under epsilon, and the row that shows itself most")
        try:
            noisy = listen(subject, "epsilon", epsilon=epsilon, delta=delta)
            row = canary(subject, noisy.transcript, PromiseTerms("epsilon", 1, epsilon, delta))
        except Exception as error:
            why = failure(error)
    for promise in promises:
        one = Audited(promise, subject)
        result.promises.append(one)
        if promise == "epsilon" and noisy is None:
            one.refused = result.unmeasured = why
            continue
        for name, work in attacks(one, epsilon, delta, noisy, row, runs):
            watch(f"{promise}: {name}")
            one.found += tried(name, promise, work)
    if "epsilon" in promises and noisy is not None:
        watch("the measured ε, and promises broken on purpose")
        try:
            if row is None:
                raise TeachingError(why)
            result.accounted = account(subject, noisy.transcript, row, epsilon, delta, runs)
        except Exception as error:
            result.unmeasured = failure(error)
    return result


Work = Callable[[], Found | list[Found]]


def tried(name: str, promise: str, work: Work) -> list[Found]:
    """What came of an attack, or why it could not be run: one that fails must not take the others with it."""
    try:
        found = work()
    except Exception as error:
        return [Found(name, promise, 0, 0, None, 0, f"could not be run: {failure(error)}", failed=True)]
    return found if isinstance(found, list) else [found]


def attacks(
    told: Audited,
    epsilon: float,
    delta: float,
    noisy: Heard | None,
    row: tuple[Array, float] | None,
    runs: int,
) -> Iterator[tuple[str, Work]]:
    """Every attack on one promise, by name; none where the promise refuses a lesson.

    `noisy` is a lesson under epsilon and `row` the one that shows itself most in it, where there is one.
    """
    subject, promise = told.subject, told.promise
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta} if promise == "epsilon" else {}
    try:
        heard = told.heard = noisy if promise == "epsilon" and noisy else listen(subject, promise, **given)
    except Exception as error:
        told.refused = failure(error)
        return

    @cache
    def few() -> tuple[Subject, Heard]:
        """A lesson of few rows, which show themselves most in sums over chosen rows."""
        return listen_few(subject) if promise == "open" else (subject.small(), heard)

    yield "rows shown outright", partial(recovery.from_shown, subject, heard)
    yield recovery.CHOSEN, lambda: recovery.from_chosen(*few())
    yield "curvatures of all rows", lambda: recovery.from_totals(*few())
    yield "totals with and without a row", partial(recovery.one_row_more, subject, promise, **given)
    yield "budgets n and n + 1", partial(recovery.one_budget_more, subject, promise, **given)
    yield "totals with and without a teacher", partial(recovery.one_teacher_more, subject, promise, **given)
    terms = PromiseTerms(promise, len(subject.parts), epsilon, delta)
    for name in crafted.crafted_for(promise):
        yield name, partial(crafted.deviate, subject, terms, name)
    if promise == "epsilon":
        yield "a fellow teacher that tells lies", partial(fellow.lead, subject, epsilon, delta)
    if promise == "masked":
        yield fellow.LED, partial(fellow.single_out, subject)

    def known_row() -> Found:
        local = PromiseTerms("epsilon", 1, epsilon, delta)
        return membership.member(subject, promise, heard.transcript, row, local, runs)[0]

    yield membership.MEMBER, known_row
    yield membership.LESSONS, partial(membership.many_lessons, subject, promise, epsilon, delta)


def account(
    subject: Subject, transcript: Transcript, row: tuple[Array, float], epsilon: float, delta: float, runs: int
) -> Accounted:
    """Measure ε beside the one claimed, and see that broken promises are found out."""
    terms = PromiseTerms("epsilon", 1, epsilon, delta)
    _, measured = membership.member(subject, "epsilon", transcript, row, terms, runs)
    assert measured is not None
    of_row = epsilon_of(mu_of_row(released(subject, *row, transcript, terms)), delta)
    with tempfile.TemporaryDirectory() as folder:
        enough = len(subject.parts) >= LEAST
        variants = broken.check_variants(subject, transcript, row, epsilon, delta, Path(folder), runs, masks=enough)
    return Accounted(terms, measured, of_row, noise_of(subject, transcript), variants)

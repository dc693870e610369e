"""A whole audit: lessons under each promise, every attack on their transcripts, the measured ε, the broken variants."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from superteach.errors import SuperteachError
from superteach.promises.accounting import epsilon_of
from superteach.promises.terms import LEAST, PromiseTerms
from superteach.types import Array
from superteach.words import PROMISES
from superteach_lab.audit import broken, crafted, fellow, membership, recovery
from superteach_lab.audit.empirical import Measured, Noise, canary, mu_of_row, noise_of, released
from superteach_lab.audit.recovery import Found
from superteach_lab.audit.transcript import Heard, Subject, Transcript, listen

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
        return honest and all(one.caught for one in self.variants)


@dataclass
class Audit:
    """All of it."""

    subject: Subject
    promises: list[Audited]
    accounted: Accounted | None
    ledger: dict[str, float] | None = None
    """ε of the rows' life, spent and left, where a teacher's own ledger was given."""


def audit(
    subject: Subject,
    promises: Sequence[str] = tuple(PROMISES),
    epsilon: float = 1.0,
    delta: float = 1e-6,
    runs: int = RUNS,
    watch: Callable[[str], None] = lambda words: None,
) -> Audit:
    """Teach under each promise in this process, and attack what left the teachers."""
    accounted, row, noisy = None, None, None
    if {"epsilon", "open", "masked"} & set(promises):
        watch("a lesson under epsilon, and the row that shows itself most")
        noisy = listen(subject, "epsilon", epsilon=epsilon, delta=delta)
        row = canary(subject, noisy.transcript, PromiseTerms("epsilon", 1, epsilon, delta))
    done = []
    for promise in promises:
        watch(f"attacks on promise {promise!r}")
        one = attack(subject, promise, epsilon, delta, noisy, row, runs)
        done.append(one)
    if "epsilon" in promises and noisy is not None and row is not None:
        watch("the measured ε, and promises broken on purpose")
        accounted = account(subject, noisy.transcript, row, epsilon, delta, runs)
    return Audit(subject, done, accounted)


def attack(
    subject: Subject,
    promise: str,
    epsilon: float,
    delta: float,
    noisy: Heard | None,
    row: tuple[Array, float] | None,
    runs: int,
) -> Audited:
    """Every attack on one promise."""
    told = Audited(promise, subject)
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta} if promise == "epsilon" else {}
    try:
        told.heard = noisy if promise == "epsilon" and noisy else listen(subject, promise, **given)
        few = subject.small()
        alone = listen(few, promise, rounding="alone", **given) if promise == "open" else told.heard
    except SuperteachError as error:
        told.refused = str(error)
        return told
    told.found += [
        recovery.from_shown(subject, told.heard),
        recovery.from_chosen(few, alone),
        recovery.from_totals(few, alone),
        recovery.one_row_more(subject, promise, **given),
        recovery.one_budget_more(subject, promise, **given),
        recovery.one_teacher_more(subject, promise, **given),
    ]
    terms = PromiseTerms(promise, len(subject.parts), epsilon, delta)
    told.found += [crafted.deviate(subject, terms, name) for name in crafted.crafted_for(promise)]
    if promise == "epsilon":
        told.found += fellow.lead(subject, epsilon, delta)
    if promise == "masked":
        told.found.append(fellow.single_out(subject))
    if row is not None:
        local = PromiseTerms("epsilon", 1, epsilon, delta)
        told.found.append(membership.member(subject, promise, _transcript(noisy, told), row, local, runs)[0])
    told.found.append(membership.many_lessons(subject, promise, epsilon, delta))
    return told


def _transcript(noisy: Heard | None, told: Audited) -> Transcript:
    heard = noisy if told.promise == "epsilon" else told.heard
    assert heard is not None
    return heard.transcript


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

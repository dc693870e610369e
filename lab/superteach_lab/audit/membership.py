"""Was this row there? The likelihood ratio of an attacker who knows all other rows; and what piles up over many lessons."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from superteach.privacy.terms import PromiseTerms

from superteach.errors import SuperteachError, TeachingError
from superteach.privacy.accounting import epsilon_of, mu_of
from superteach.privacy.ledger import Ledger
from superteach.types import Array
from superteach_lab.audit.broken import lessons_let_pass
from superteach_lab.audit.empirical import Measured, allowed_advantage, auc_of, measure, released, scores
from superteach_lab.audit.evidence import known_rounds, sums_at
from superteach_lab.audit.recovery import Found, candidates, found_rows, score
from superteach_lab.audit.transcript import Subject, Transcript, listen, listen_few

MEMBER = "was this row there?"
LESSONS = "20 lessons"
TWENTY = 20
FAR = 40.0
"""Length of goals out of reach, in log-odds or deviations of targets: with 10 a lesson shows one row, with 40 seven."""


def member(
    subject: Subject,
    promise: str,
    transcript: Transcript,
    row: tuple[Array, float] | None,
    terms: PromiseTerms,
    runs: int,
) -> tuple[Found, Measured | None]:
    """Tell lessons with a row from lessons without it; under epsilon with the noise of `terms`."""
    if promise == "closed":
        said = "no number leaves a teacher, so there is nothing to tell by"
        return Found(MEMBER, promise, 0, 1, None, 0, said, 0.5, 0.0, 0.0), None
    if row is None:
        raise TeachingError("there is no row to look for: none was chosen from a lesson under epsilon")
    if promise == "epsilon":
        found = measure(*scores(released(subject, *row, transcript, terms), runs), terms.delta)
        doubt = 1.96 * np.sqrt(2.0 / found.runs)
        said = (
            f"{found.runs:,} lessons with and without the most telling row: hits exceed false alarms by "
            f"{found.advantage:.3f} ± {doubt:.3f}; Gaussian noise as claimed lets them by {allowed_advantage(terms.mu):.3f}"
        )
        most = (np.exp(terms.epsilon) - 1.0 + 2.0 * terms.delta) / (np.exp(terms.epsilon) + 1.0)
        asked = len(transcript.rounds)
        return Found(MEMBER, promise, 0, 1, None, asked, said, found.auc, found.advantage, float(most)), found
    evidence: list[list[float]] = [[], []]
    for there, pool in enumerate((subject, subject.with_row(*row))):
        for _ in range(2):
            evidence[there].append(exact_evidence(subject, row, listen(pool, promise).transcript))
    auc = auc_of(np.array(evidence[0]), np.array(evidence[1]))
    gain = float(np.mean(np.array(evidence[1]) > 0.0) - np.mean(np.array(evidence[0]) > 0.0))
    said = "exact totals fit either the pool with the row or the one without it"
    return Found(MEMBER, promise, 0, 1, None, len(transcript.rounds), said, auc, gain, 1.0), None


def exact_evidence(without: Subject, row: tuple[Array, float], transcript: Transcript) -> float:
    """How much better exact totals fit the pool with a row than the one without it, from −1 to 1."""
    rounds = known_rounds(transcript)
    fits = [0.0, 0.0]
    for place, pool in enumerate((without, without.with_row(*row))):
        for one, true in zip(rounds, sums_at(pool, [one.query for one in rounds], transcript), strict=True):
            fits[place] += float(np.linalg.norm(one.total - true) / (1.0 + np.linalg.norm(true)))
    return (fits[0] - fits[1]) / max(sum(fits), 1e-300)


def many_lessons(subject: Subject, promise: str, epsilon: float, delta: float) -> Found:
    """Twenty lessons with other goals: rows pile up under "open" and "masked"; a ledger ends them under "epsilon"."""
    if promise == "epsilon":
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(Path(folder) / "ledger", epsilon, delta)
            keys = ledger.keys([subject.rows, subject.targets])
            each = epsilon / 4.0
            passed = lessons_let_pass(ledger, keys, each, TWENTY)
            spent = epsilon_of(float(np.sqrt(passed)) * mu_of(each, delta), delta)
        said = (
            f"of {TWENTY} lessons of ε = {each:g} the ledger let {passed} pass, which is ε = {spent:.3g} of {epsilon:g}, "
            "and refused the rest"
        )
        return Found(LESSONS, promise, 0, subject.count, None, passed, said)
    if promise == "closed":
        said = "no number leaves a teacher, in however many lessons"
        return Found(LESSONS, promise, 0, subject.count, None, 0, said)
    draw, rows, taught = np.random.default_rng(0), list[Array](), 0
    length = 0.5 * float(np.linalg.norm(in_own_units(subject, subject.goal))) / np.sqrt(len(subject.goal))
    for _ in range(TWENTY):
        away = draw.standard_normal(len(subject.goal))
        with suppress(SuperteachError):  # some goals cannot be taught from so few rows
            if promise == "masked":
                one = replace(subject, goal=far(subject, away), budget=2)
                rows += candidates(one, listen(one, "masked").transcript)
            else:
                rows += found_rows(
                    *listen_few(replace(subject, goal=subject.goal + in_raw_units(subject, length * away)))
                )
            taught += 1
    found, error = score(rows, subject.rows)
    said = f"{found:,} different rows of {subject.count:,} were read in {taught} lessons"
    if promise == "masked":
        said += " with goals far away: few rows weigh anything in totals there, and nobody lied"
    return Found(LESSONS, promise, found, subject.count, error, taught, said)


def far(subject: Subject, direction: Array) -> Array:
    """A goal in this direction that no lesson reaches, in units of columns and targets."""
    length = FAR * max(1.0, float(np.std(subject.targets))) / np.sqrt(len(direction))
    return in_raw_units(subject, length * direction)


def in_raw_units(subject: Subject, model: Array) -> Array:
    """A model of columns with mean 0 and deviation 1 as one of the columns as they are."""
    mean, spread = _columns(subject)
    coef = model[: len(spread)] / spread
    return np.append(coef, model[len(spread) :] - mean @ coef)


def in_own_units(subject: Subject, model: Array) -> Array:
    """A model of the columns as they are as one of columns with mean 0 and deviation 1."""
    mean, spread = _columns(subject)
    coef = model[: len(spread)]
    return np.append(coef * spread, model[len(spread) :] + mean @ coef)


def _columns(subject: Subject) -> tuple[Array, Array]:
    """Means and deviations; a constant column has 1."""
    mean, spread = subject.rows.mean(axis=0), subject.rows.std(axis=0)
    return mean, np.where(spread > 0.0, spread, 1.0)

"""Promises broken on purpose, each with the detector that must find it out: an audit that passes these says nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from superteach.privacy.keys import Keys
from superteach.privacy.masks import Masker
from superteach.privacy.terms import PromiseTerms

from superteach.errors import BudgetSpent
from superteach.line.queries.private import Release
from superteach.mathematics import private
from superteach.privacy import fixed
from superteach.privacy.accounting import mu_of
from superteach.privacy.discrete_gaussian import Grid
from superteach.privacy.ledger import Ledger
from superteach.types import Array, Positions, Raw
from superteach_lab.audit.empirical import LEVEL, Measured, Noise, measure, noise_of, released, scores
from superteach_lab.audit.transcript import Subject, Tapped, Transcript, failure, listen

PLAIN = 1 << 16
"""Top words this near to 0, from above or below, are those of plain numbers: of uniform ones 1 in 2^47 is."""


class HalvedNoise(PromiseTerms):
    """Half of the noise that is claimed."""

    def grid(self, release: Release) -> Grid:
        """The grid with half of its noise."""
        whole = super().grid(release)
        return replace(whole, sigma=whole.sigma // 2)


class Quiet(Grid):
    """A grid without noise."""

    def noise(self, size: int) -> Positions:
        """None."""
        return np.zeros(size, np.int64)


class NoiselessSketch(PromiseTerms):
    """One release, the squares of the sketch, goes out without noise."""

    def grid(self, release: Release) -> Grid:
        """The grid, silent for that release."""
        whole = super().grid(release)
        return Quiet(whole.step, whole.sigma) if release.share == private.SQUARES else whole


class ReusedMasks(Masker):
    """Every round has the same masks."""

    def info(self, round: int, peer: str) -> bytes:
        """Leave the round out of what a key is for."""
        return super().info(0, peer)


class Lonely(Masker):
    """A roster of one: there is nobody to share a mask with."""

    def mask(self, round: int, words: fixed.Words) -> fixed.Words:
        """Add the masks of nobody."""
        return words


class Forgetful(Ledger):
    """A ledger that takes nothing from anybody."""

    def spend(self, lesson: str, keys: Keys, mu: float, facts: Any) -> bool:
        """Say that it was paid."""
        return True


def as_kind(kind: type[PromiseTerms], terms: PromiseTerms) -> PromiseTerms:
    """The same terms, kept in another way."""
    return kind(**{one.name: getattr(terms, one.name) for one in fields(PromiseTerms)})


class BrokenTap(Tapped):
    """Teachers whose promise is broken on the way out."""

    terms_kind: type[PromiseTerms] = PromiseTerms
    masker_kind: type[Masker] | None = None

    def keep(self, terms: PromiseTerms) -> None:
        """Keep what only looks like the promise."""
        super().keep(as_kind(self.terms_kind, terms))
        if self.masker_kind is not None:
            for teacher in self._teachers:
                if (masker := teacher.guard.masker) is not None:  # type: ignore[attr-defined]
                    masker.__class__ = self.masker_kind


def broken_tap(terms: type[PromiseTerms] = PromiseTerms, masker: type[Masker] | None = None) -> type[BrokenTap]:
    """An engine whose teachers keep a promise in a broken way."""
    return type("Tap", (BrokenTap,), {"terms_kind": terms, "masker_kind": masker})


def reused_masks(transcript: Transcript, least: int = 4) -> list[tuple[int, int, int]]:
    """Pairs of rounds whose words of one teacher differ by plain numbers: one mask served twice (round, round, teacher)."""
    found = []
    rounds = [one for one in transcript.rounds if one.query.reply_length >= least and one.replies[0].dtype == np.uint64]
    for place, one in enumerate(rounds):
        for other in rounds[:place]:
            size = min(len(one.replies[0]), len(other.replies[0]))
            for teacher, (first, second) in enumerate(zip(one.replies, other.replies, strict=True)):
                if looks_plain(_difference(first[:size], second[:size])):
                    found.append((other.number, one.number, teacher))
    return found


def _difference(first: Raw, second: Raw) -> fixed.Words:
    """Words of one less those of the other, with borrows."""
    return fixed.carried(fixed.halves(first) - fixed.halves(second))


def bare_words(transcript: Transcript, least: int = 4) -> list[tuple[int, int]]:
    """Rounds in which a teacher's words can be read as they are, although a mask should cover them (round, teacher)."""
    return [
        (one.number, teacher)
        for one in transcript.rounds
        if one.query.reply_length >= least and transcript.terms.masked
        for teacher, words in enumerate(one.replies)
        if looks_plain(words)
    ]


def looks_plain(words: Raw) -> bool:
    """Whether words are those of numbers of a usual size, and not uniform ones."""
    top = np.ascontiguousarray(words[:, -1]).view(np.int64)
    return bool((np.abs(top) < (PLAIN if words.shape[1] > 1 else 1 << 46)).all())


def lessons_let_pass(ledger: Ledger, keys: Keys, epsilon: float, asked: int = 20) -> int:
    """How many lessons of ε each a ledger lets pass."""
    mu, passed = mu_of(epsilon, ledger.delta), 0
    for number in range(asked):
        try:
            ledger.spend(f"lesson {number}", keys, mu, {})
        except BudgetSpent:
            break
        passed += 1
    return passed


@dataclass(frozen=True)
class Caught:
    """Whether a detector found a broken promise out."""

    variant: str
    caught: bool | None
    """None where the variant could not be run."""
    said: str


def check_variants(
    subject: Subject,
    transcript: Transcript,
    row: tuple[Array, float],
    epsilon: float,
    delta: float,
    folder: Path,
    runs: int,
    masks: bool = True,
) -> list[Caught]:
    """Run every broken variant against its detector; `transcript` is an honest lesson's under epsilon."""
    given = subject, transcript, row, PromiseTerms("epsilon", 1, epsilon, delta)

    def noise(kind: type[PromiseTerms]) -> tuple[bool, str]:
        told, seen = measured_as(kind, *given, runs=runs), noise_as(kind, subject, epsilon, delta)
        said = (
            f"an ε of at least {told.epsilon:.3g} was measured where {epsilon:g} was claimed; in a real lesson the noise of "
            f"{seen.least} was too small (chance {seen.chance:.1g})"
        )
        return told.epsilon > epsilon or seen.chance < 1e-6, said

    def reused() -> tuple[bool, str]:
        pairs = reused_masks(listen(subject, "masked", broken_tap(masker=ReusedMasks)).transcript)
        return bool(pairs), f"{len(pairs)} pairs of replies differ by plain numbers"

    def lonely() -> tuple[bool, str]:
        bare = bare_words(listen(subject, "masked", broken_tap(masker=Lonely)).transcript)
        return bool(bare), f"{len(bare)} replies can be read as they are"

    def forgetful() -> tuple[bool, str]:
        ledger = Forgetful(folder / "forgetful", epsilon, delta)
        keys = ledger.keys([subject.rows, subject.targets])
        passed = lessons_let_pass(ledger, keys, epsilon)
        told = measured_as(PromiseTerms, *given, runs=max(runs // 4, 500), lessons=passed)
        left = ledger.left(keys)
        said = (
            f"{passed} lessons passed where the account held one, and it still says that ε = {left:.3g} is left; "
            f"an ε of at least {told.epsilon:.3g} was measured"
        )
        return told.epsilon > epsilon or (passed > 1 and left >= epsilon), said

    variants: dict[str, Callable[[], tuple[bool, str]]] = {
        "noise halved": partial(noise, HalvedNoise),
        "one release without noise": partial(noise, NoiselessSketch),
        **({"masks used twice": reused, "a roster of one": lonely} if masks else {}),
        "a ledger that forgets": forgetful,
    }
    found = []
    for variant, work in variants.items():
        try:
            found.append(Caught(variant, *work()))
        except Exception as error:  # told on the page; the other variants are still tried
            found.append(Caught(variant, None, f"could not be run: {failure(error)}"))
    return found


def measured_as(
    kind: type[PromiseTerms],
    subject: Subject,
    transcript: Transcript,
    row: tuple[Array, float],
    claimed: PromiseTerms,
    runs: int,
    lessons: int = 1,
    level: float = LEVEL,
) -> Measured:
    """ε as measured where a promise is kept in another way, over some lessons that one was paid for."""
    parts = released(subject, *row, transcript, as_kind(kind, claimed))
    return measure(*scores(parts, runs, lessons), claimed.delta, level)


def noise_as(kind: type[PromiseTerms], subject: Subject, epsilon: float, delta: float) -> Noise:
    """Noise in a real lesson where a promise is kept in another way, against the promise as claimed."""
    heard = listen(subject, "epsilon", broken_tap(kind), epsilon=epsilon, delta=delta)
    return noise_of(subject, heard.transcript, as_kind(PromiseTerms, heard.transcript.terms))

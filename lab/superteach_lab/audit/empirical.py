"""An ε measured: many lessons with and without one row, the best test there is between them, and what it proves.

The attacker knows every other row, and where the promise lets some teachers collude also their noise. At the questions of
a recorded lesson it knows the exact totals with and without the row; each noisy total then speaks for one or the other by
its likelihood ratio. Only numbers that the row changes say anything. How noisy they are is learned from a training half,
so that noise which is missing is found out; the threshold comes from there too. On the other half false alarms and misses
are bounded by Clopper and Pearson, and turned into μ of Gaussian differential privacy, then into ε at δ: any promise of
less is broken, at the stated level of confidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta, chi2, norm
from superteach.privacy.terms import PromiseTerms

from superteach.line.queries import Private, Pull, Query
from superteach.privacy.accounting import epsilon_of
from superteach.privacy.discrete_gaussian import Grid
from superteach.types import Array, Positions
from superteach_lab.audit.evidence import known_rounds, sums_at
from superteach_lab.audit.transcript import Subject, Transcript, spread_of

LEVEL = 0.95
CHUNK = 1 << 14
"""Draws of noise made at once: they stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Released:
    """Numbers of one release that the row changes: whole steps without it and with it, and the noise they get."""

    name: str
    without: Positions
    within: Positions
    grid: Grid
    honest: int

    @property
    def change(self) -> Array:
        """What the row changes."""
        return np.asarray(self.grid.step * (self.within - self.without), dtype=np.float64)

    def draw(self, runs: int, there: bool) -> Array:
        """Noisy numbers of as many lessons, in which the row takes part or does not."""
        exact = self.within if there else self.without
        total = np.zeros(runs * len(exact), np.int64)
        for _ in range(self.honest):
            total += np.concatenate(
                [self.grid.noise(min(CHUNK, len(total) - first)) for first in range(0, len(total), CHUNK)]
            )
        return np.asarray(self.grid.step * (exact + total.reshape(runs, -1)), dtype=np.float64)


def released(subject: Subject, x: Array, y: float, transcript: Transcript, terms: PromiseTerms) -> list[Released]:
    """What a row changes in the noisy totals of a recorded lesson."""
    rounds = [one for one in known_rounds(transcript) if isinstance(one.query, Private)]
    asked = [one.query for one in rounds]
    found = []
    changes = sums_at(_alone(subject, x, y), asked, transcript)
    pairs = zip(sums_at(subject, asked, transcript), changes, strict=True)
    for query, (without, change) in zip(asked, pairs, strict=True):
        assert isinstance(query, Private)
        first = 0
        for place, part in enumerate(query.releases):
            some = slice(first, first + part.numbers)
            grid = terms.grid(part)
            plain, within = grid.to_integers(without[some]), grid.to_integers(without[some] + change[some])
            moved = plain != within
            if moved.any():
                found.append(Released(f"{query.name} {place + 1}", plain[moved], within[moved], grid, terms.honest))
            first += part.numbers
    return found


def mu_of_row(parts: Sequence[Released]) -> float:
    """μ that this very row spends, from the noise as it is claimed; at most the lesson's."""
    squares = (np.sum(np.square(part.change / (part.grid.step * part.grid.sigma))) / part.honest for part in parts)
    return float(np.sqrt(sum(squares)))


def canary(
    subject: Subject, transcript: Transcript, terms: PromiseTerms, tries: int = 400, seed: int = 0
) -> tuple[Array, float]:
    """A row that shows itself as much as a row can: the most telling of many, then moved uphill."""
    draw = np.random.default_rng(seed)
    classifies = set(np.unique(subject.targets)) <= {-1.0, 1.0}
    width, spread = subject.rows.shape[1], float(np.std(subject.rows)) or 1.0
    asked = [one.query for one in known_rounds(transcript) if isinstance(one.query, Private)]
    noise = np.concatenate([spread_of(query, terms) for query in asked if isinstance(query, Private)])
    best, row, target, along = -1.0, np.zeros(width), 1.0, list(_along_prices(asked, width, classifies))
    for turn in range(tries):
        if turn < len(along):
            x, y = along[turn]
        elif turn < tries // 2:
            x = draw.standard_normal(width) * spread * 10.0 ** draw.uniform(-0.5, 2.0)
            y = float(draw.choice([-1.0, 1.0])) if classifies else float(draw.choice(subject.targets))
        else:
            x, y = row + draw.standard_normal(width) * np.abs(row).mean() * 10.0 ** draw.uniform(-2.0, 0.0), target
        found = float(np.linalg.norm(np.concatenate(sums_at(_alone(subject, x, y), asked, transcript)) / noise))
        if found > best:
            best, row, target = found, x, y
    return row, target


def _along_prices(asked: Sequence[Query[object]], width: int, classifies: bool) -> Iterator[tuple[Array, float]]:
    """Rows whose pull points where prices do: they are as likely as a row can be."""
    for query in asked:
        if isinstance(query, Pull):
            way = (query.point[:-1] / query.cap.weights)[:width]
            way = way / max(float(np.linalg.norm(way)), 1e-300)
            for size in (1.0, 3.0, 10.0, 30.0):
                for sign in (1.0, -1.0):
                    yield way * size * sign, sign if classifies else size * size


def _alone(subject: Subject, x: Array, y: float) -> Subject:
    """One row and nobody else's."""
    return Subject(((x[None, :], np.array([y])),), subject.learner, subject.goal, 1)


def scores(parts: Sequence[Released], runs: int, lessons: int = 1) -> tuple[Array, Array]:
    """Evidence for the row over `lessons` lessons each, without it and with it; noise learned from the first half."""
    totals = np.zeros((2, runs))
    half = runs // 2
    for part in parts:
        for _ in range(lessons):
            drawn = [part.draw(runs, there) for there in (False, True)]
            exact = [part.grid.step * part.without, part.grid.step * part.within]
            seen = np.concatenate([(one[:half] - true).ravel() for one, true in zip(drawn, exact, strict=True)])
            noise = max(float(np.sqrt(np.mean(np.square(seen)))), 0.3 * part.grid.step)
            middle = 0.5 * (exact[0] + exact[1])
            for there, one in enumerate(drawn):
                totals[there] += (one - middle) @ part.change / noise**2
    return totals[0], totals[1]


@dataclass(frozen=True)
class Measured:
    """What a test between lessons with and without a row proves, at a level of confidence."""

    mu: float
    epsilon: float
    false_alarms: float
    misses: float
    auc: float
    advantage: float
    runs: int
    level: float


def measure(without: Array, within: Array, delta: float, level: float = LEVEL) -> Measured:
    """Choose a threshold on the first halves, bound errors on the second, and turn them into μ and ε."""
    half = len(without) // 2
    threshold = _threshold(without[:half], within[:half], level)
    alarms, misses = int((without[half:] > threshold).sum()), int((within[half:] <= threshold).sum())
    tested = len(without) - half
    high = _most(alarms, tested, level), _most(misses, tested, level)
    mu = max(0.0, float(norm.isf(high[0]) - norm.ppf(high[1])))
    even = _most_different(without[:half], within[:half])
    advantage = float(np.mean(within[half:] > even) - np.mean(without[half:] > even))
    auc, runs = auc_of(without, within), 2 * len(without)
    return Measured(mu, epsilon_of(mu, delta), alarms / tested, misses / tested, auc, advantage, runs, level)


def _most_different(without: Array, within: Array) -> float:
    """The threshold above which most more lessons with the row lie than without it."""
    tried = np.concatenate([without, within])
    above = [1.0 - np.searchsorted(np.sort(one), tried, side="right") / len(one) for one in (within, without)]
    return float(tried[int(np.argmax(above[0] - above[1]))])


def _threshold(without: Array, within: Array, level: float) -> float:
    """The threshold that would prove most."""
    tried = np.quantile(np.concatenate([without, within]), np.linspace(0.02, 0.98, 49))
    proved = []
    for one in tried:
        high = [_most(int(count), len(without), level) for count in ((without > one).sum(), (within <= one).sum())]
        proved.append(norm.isf(high[0]) - norm.ppf(high[1]))
    return float(tried[int(np.argmax(proved))])


def _most(count: int, of: int, level: float) -> float:
    """The largest chance that a count is compatible with (Clopper, Pearson), half of the doubt for each of two."""
    return 1.0 if count >= of else float(beta.ppf(1.0 - (1.0 - level) / 2.0, count + 1, of - count))


def auc_of(without: Array, within: Array) -> float:
    """The chance that a lesson with the row scores above one without it."""
    ordered = np.sort(without)
    below = np.searchsorted(ordered, within, side="left") + np.searchsorted(ordered, within, side="right")
    return float(np.mean(below) / (2.0 * len(ordered)))


def allowed_advantage(mu: float) -> float:
    """The most by which hits may exceed false alarms under μ, whatever the test."""
    return float(2.0 * norm.cdf(mu / 2.0) - 1.0)


@dataclass(frozen=True)
class Noise:
    """Noise found in a real lesson's totals, against the least that is claimed."""

    ratio: float
    """Its deviation over the claimed one: about 1, or above where all teachers are honest."""
    numbers: int
    chance: float
    """That claimed noise is as small as this, at the release where it is least."""
    least: str
    """The release where it is least."""


def noise_of(subject: Subject, transcript: Transcript, claimed: PromiseTerms | None = None) -> Noise:
    """Measure the noise in a transcript: whoever has all rows can subtract the exact sums at the questions asked."""
    terms = claimed or transcript.terms
    rounds = [one for one in known_rounds(transcript) if isinstance(one.query, Private)]
    exact = sums_at(subject, [one.query for one in rounds], transcript)
    squares, numbers, least, where, tests = 0.0, 0, 1.0, "", 0
    for one, true in zip(rounds, exact, strict=True):
        assert isinstance(one.query, Private)
        first = 0
        for place, part in enumerate(one.query.releases):
            some = slice(first, first + part.numbers)
            first += part.numbers
            units = (one.total[some] - true[some]) / (terms.spread(part) / np.sqrt(terms.teachers / terms.honest))
            found = float(np.sum(np.square(units)))
            chance = float(chi2.cdf(found, part.numbers))
            squares, numbers, tests = squares + found, numbers + part.numbers, tests + 1
            if chance <= least:
                least, where = chance, f"{one.query.name} {place + 1}"
    return Noise(float(np.sqrt(squares / max(numbers, 1))), numbers, min(1.0, least * tests), where)

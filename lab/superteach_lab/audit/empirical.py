"""An ε measured: many lessons with and without one row, the best test there is between them, and what it proves.

Every run goes the real way: a teacher behind its guard, a question, noise, a sealed reply. The attacker knows every other
row and the question, so it knows the exact reply with and without the row; a noisy reply speaks for one or the other by
its likelihood ratio. False alarms and misses are bounded by Clopper and Pearson and turned into μ of Gaussian
differential privacy, then into ε at δ: whoever claims less is wrong, at the stated level of confidence. Beside that the
noise itself is looked at: its size, and whether it was ever drawn before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.stats import beta, chi2, norm

from superteach.privacy.accounting import Mode, epsilon_of
from superteach.privacy.guard import Guard
from superteach.privacy.moments import read_units
from superteach.protocol.messages import Turn
from superteach.protocol.queries import CountMagnitudes, Private, Query, SecondMoments
from superteach.protocol.queries.private import MAGNITUDES
from superteach.teacher import Teacher
from superteach.types import Array
from superteach_lab.audit.subject import HONEST, Door, Reply, Row, Subject, listen

LEVEL = 0.95
"""Confidence of what is shown."""
SURE = 1.0 - 1e-5
"""Confidence from which on a claim counts as broken: an audit holds several measurements, and must not cry wolf."""
KINDS: tuple[type[Private], ...] = (CountMagnitudes, SecondMoments)
TAUGHT = {"one owner": False, "a whole lesson": True}
"""What is run, and whether it goes through a whole lesson of all owners."""
_SEEDS = 64
_ENOUGH = 32
"""Numbers from which on noise is like that of a seed by no accident."""


class _NoRules(Guard):
    """Lets a teacher answer whatever it is asked, without noise: how the auditor computes exact replies."""

    def check_query(self, query: Query[object]) -> None:
        """Refuse nothing."""


def exact(teacher: Teacher, query: Query[object]) -> Array:
    """Return a teacher's reply without noise."""
    open_ = teacher.under(_NoRules())
    return open_.answer(query, open_.start(), Turn(1, 0, 1))[1].values


def crafted(subject: Subject) -> dict[str, Row]:
    """Rows that show themselves as much as a row can, and rows at the edges of what numbers hold.

    A label against the goal makes a gradient as long as its row; columns that double from one to the next put each
    coefficient into an octave of its own.
    """
    width = subject.rows.shape[1]
    size = 50.0 * max(float(np.abs(subject.rows).max()), 1.0)
    along = np.where(subject.goal[:width] < 0.0, -1.0, 1.0)
    octaves = along * size * np.exp2(np.arange(width) % 40)

    def against(x: Array) -> Row:
        if subject.classifies:
            score = x @ subject.goal[:width] + subject.goal[width:].sum()
            return x, -1.0 if score > 0.0 else 1.0
        return x, float(subject.targets.max() + 100.0 * (np.ptp(subject.targets) + 1.0))

    first, label = subject.parts[0][0][0], float(subject.parts[0][1][0])
    return {
        "each coefficient in an octave of its own": against(octaves),
        "as long as a row can count": against(along * size),
        "a duplicate of another row": (first, label),
        "a usual row against the goal": against(np.abs(subject.rows).mean(axis=0) * along),
        "a huge row": against(along * 1e60),
        "a tiny row": against(along * 1e-300),
        "a row of zeros": against(np.zeros(width)),
    }


@dataclass(frozen=True)
class Evidence:
    """Evidence for the row of runs without and with it, by question, and what was seen of the noise."""

    scores: Array
    """2 × runs × questions."""
    squares: Array
    """Σ of squared noise in units of the claimed deviation, by question."""
    numbers: Array
    """Numbers that were seen, by question."""
    spent: Array
    """The most μ² that the row spends by the claimed noise, by question: what it changes over the deviation, squared."""
    marks: tuple[bytes, ...]
    """A fingerprint of every run's noise."""
    guessed: bool = False
    """Whether a seed that anybody can guess gave the same noise."""

    @classmethod
    def together(cls, parts: Sequence[Evidence]) -> Evidence:
        """Return several batches as one."""
        return cls(
            np.concatenate([one.scores for one in parts], axis=1),
            np.sum([one.squares for one in parts], axis=0),
            np.sum([one.numbers for one in parts], axis=0),
            np.max([one.spent for one in parts], axis=0),
            tuple(mark for one in parts for mark in one.marks),
            any(one.guessed for one in parts),
        )


def draw(subject: Subject, row: Row, mode: Mode, whole: bool, runs: int, door: Door = HONEST) -> Evidence:
    """Run as many lessons without the row as with it, and weigh the evidence for the row in each."""
    pools = subject, subject.with_row(row)
    teachers = [door.teacher("owner", *pool.parts[subject.place]) for pool in pools]
    scores, squares, numbers, spent = np.zeros((2, runs, 2)), np.zeros(2), np.zeros(2), np.zeros(2)
    marks, memory, guessed = [], dict[bytes, tuple[Array, Array]](), False
    for run in range(runs):
        for there, pool in enumerate(pools):
            transcript = _through_lesson(pool, mode, door) if whole else _of_owner(teachers[there], subject, mode, door)
            noise = []
            for one in transcript:
                assert isinstance(one.query, Private)
                place, deviation = KINDS.index(type(one.query)), mode.deviation(one.query.release)
                asked = bytes([place]) + getattr(one.query, "weights", np.zeros(0)).tobytes()
                if asked not in memory:
                    without, within = (exact(teacher, one.query) for teacher in teachers)
                    memory[asked] = without, within - without
                    spent[place] = max(spent[place], float(np.square(memory[asked][1] / deviation).sum()))
                without, change = memory[asked]
                away = one.sealed.values - without
                scores[there, run, place] = (away - 0.5 * change) @ change / deviation**2
                noise.append(away - there * change)
                squares[place] += float(np.square(noise[-1] / deviation).sum())
                numbers[place] += len(away)
            marks.append(_mark(np.concatenate(noise)))
            if run == 0:
                guessed = guessed or any(map(_guessed, noise))
            if len(memory) > 8:  # weights follow the noise, so most are asked once
                memory = {asked: replies for asked, replies in memory.items() if len(asked) == 1}
    return Evidence(scores, squares, numbers, spent, tuple(marks), guessed)


def _of_owner(teacher: Teacher, subject: Subject, mode: Mode, door: Door) -> Iterator[Reply]:
    """Ask one owner what a lesson asks it, with the weights that a coordinator would use who knows usual gradients.

    In small tables noise hides the size of gradients, weights are 0, and a lesson learns less than it might.
    """
    closed, counts = door.close(teacher, mode), CountMagnitudes(*subject.about)
    state, sealed = closed.answer(counts, closed.start(), Turn(1, 0, 1))
    yield Reply(counts, 0, sealed)
    moments = SecondMoments(*subject.about, read_units(1e9 * exact(teacher, counts), 0.0))
    yield Reply(moments, 0, closed.answer(moments, state, Turn(2, 0, 1))[1])


def _through_lesson(subject: Subject, mode: Mode, door: Door) -> list[Reply]:
    """Teach a whole lesson; the first owner has the row, or has it not."""
    transcript = listen(subject, mode, door, choose=False)
    return [one for one in transcript.replies if one.position == subject.place and isinstance(one.query, Private)]


def _mark(noise: Array) -> bytes:
    """Recognise noise: to a thousandth of its own size, for sums of doubles differ in their last bits."""
    unit = 1e-3 * max(float(np.abs(noise).max()), 1e-300)
    return hashlib.blake2b(np.rint(noise / unit).astype(np.int64).tobytes(), digest_size=16).digest()


def _guessed(noise: Array) -> bool:
    """Draw with NumPy's generator from seeds that anybody would try, and compare."""
    scale = float(np.linalg.norm(noise)) or 1.0
    drawn = (np.random.default_rng(seed).standard_normal(len(noise)) for seed in range(_SEEDS))
    return len(noise) >= _ENOUGH and any(
        abs(float(one @ noise)) > 0.9 * scale * float(np.linalg.norm(one)) for one in drawn
    )


@dataclass(frozen=True)
class Measurement:
    """What a test between lessons with and without a row proves about one or both questions."""

    what: str
    claimed: float
    """ε."""
    epsilon: float
    """At least this was spent, at LEVEL."""
    surely: float
    """At least this was spent, at SURE."""
    of_row: float
    """What this very row spends by the formulas: no test can find more than that where noise is as claimed."""
    false_alarms: float
    misses: float
    auc: float
    runs: int

    @property
    def kept(self) -> bool:
        """Whether nothing speaks against the claim."""
        return max(self.surely, self.of_row) <= self.claimed * (1.0 + 1e-9)


def measure(drawn: Evidence, mode: Mode, where: str) -> list[Measurement]:
    """Measure ε of each question, and of both together."""
    parts, measurements = (MAGNITUDES, 1.0 - MAGNITUDES), []
    for name, some in ((KINDS[0].__name__, [0]), (KINDS[1].__name__, [1]), ("both together", [0, 1])):
        without, within = drawn.scores[:, :, some].sum(axis=2)
        claimed = mode.mu * sqrt(sum(parts[place] for place in some))
        alarms, misses, runs = int((without > 0.0).sum()), int((within <= 0.0).sum()), len(without)
        low = [max(0.0, _mu_at_least(alarms, misses, runs, level)) for level in (LEVEL, SURE)]
        measurements.append(
            Measurement(
                f"{name}, {where}",
                epsilon_of(claimed, mode.delta),
                epsilon_of(low[0], mode.delta),
                epsilon_of(low[1], mode.delta),
                epsilon_of(sqrt(float(drawn.spent[some].sum())), mode.delta),
                alarms / runs,
                misses / runs,
                auc_of(without, within),
                2 * runs,
            )
        )
    return measurements


def _mu_at_least(alarms: int, misses: int, runs: int, level: float) -> float:
    return float(norm.isf(_most(alarms, runs, level)) - norm.ppf(_most(misses, runs, level)))


def _most(count: int, of: int, level: float) -> float:
    """Return the largest chance that a count is compatible with (Clopper, Pearson), half of the doubt for each of two."""
    return 1.0 if count >= of else float(beta.ppf(1.0 - (1.0 - level) / 2.0, count + 1, of - count))


def auc_of(without: Array, within: Array) -> float:
    """Return the chance that a run with the row scores above one without it."""
    ordered = np.sort(without)
    below = np.searchsorted(ordered, within, side="left") + np.searchsorted(ordered, within, side="right")
    return float(np.mean(below) / (2.0 * len(ordered)))


@dataclass(frozen=True)
class Noise:
    """Noise found in real replies, against what is claimed."""

    ratio: float
    """The least of its deviations over the claimed one, by question."""
    chance: float
    """That claimed noise is as small as this."""
    repeated: int
    """Runs whose noise had been drawn before."""
    guessed: bool
    numbers: int

    @property
    def kept(self) -> bool:
        """Whether nothing speaks against the claim."""
        return self.chance > 1.0 - SURE and not self.repeated and not self.guessed


def noise_of(drawn: Evidence) -> Noise:
    """Compare the noise that was seen with the claim."""
    chances = chi2.cdf(drawn.squares, drawn.numbers)
    ratio = float(np.sqrt(drawn.squares / drawn.numbers).min())
    repeated = len(drawn.marks) - len(set(drawn.marks))
    return Noise(ratio, float(min(1.0, 2.0 * chances.min())), repeated, drawn.guessed, int(drawn.numbers.sum()))

"""A whole audit: lessons in each privacy mode, every attack on what left, the measured ε, the broken variants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from superteach.privacy import PRIVACY
from superteach.privacy.accounting import Mode
from superteach_lab.audit import attacks, broken, delivered
from superteach_lab.audit.empirical import TAUGHT, Evidence, Measurement, Noise, crafted, draw, measure, noise_of
from superteach_lab.audit.subject import Finding, Memory, Subject, Transcript, failure, listen

RUNS = 3_000
"""Lessons with the row, and as many without it, behind a measured ε."""
LESSONS = 6
"""Whole lessons of all owners are this many times fewer: each takes as long as all owners together."""
MODELS = 40
"""Lessons that deliver a model are this many times fewer: their rows are chosen and their model is fitted."""
BATCH = 50
PRIVATE = ("isolated", "dp")
Watch = Callable[[str], None]


@dataclass
class ModeReport:
    """What an audit of one mode found."""

    mode: str
    transcript: Transcript | None = None
    findings: list[Finding] = field(default_factory=list)
    refused: str = ""
    """Why there was no lesson, where there was none."""

    @property
    def rows(self) -> int:
        """The most rows that any attack recovered."""
        return max((one.rows for one in self.findings), default=0)

    @property
    def failed(self) -> int:
        """How many attacks could not be run."""
        return sum(one.failed for one in self.findings)

    @property
    def kept(self) -> bool:
        """Whether no attack found what the mode says cannot be found."""
        return self.mode == "none" or not (self.rows or any(one.broken for one in self.findings))


@dataclass
class EpsilonReport:
    """ε of one lesson: claimed and measured, and whether the audit would have noticed."""

    mode: Mode
    measured: list[Measurement]
    noise: Noise
    row: str
    """The crafted row."""
    variants: list[broken.VariantReport]

    @property
    def kept(self) -> bool:
        """Whether nothing speaks against the claim, and every broken variant that was run was found out."""
        return self.honest and all(one.caught is not False for one in self.variants)

    @property
    def honest(self) -> bool:
        """Whether nothing speaks against the claim."""
        return self.noise.kept and all(one.kept for one in self.measured)


@dataclass
class Audit:
    """All of it."""

    subject: Subject
    modes: list[ModeReport]
    epsilon_report: EpsilonReport | None = None
    unmeasured: str = ""
    """Why ε was not measured, where it should have been."""
    ledger: dict[str, float] | None = None
    """ε of a table's life, spent and left, where an owner's own ledger was given."""

    @property
    def kept(self) -> bool:
        """Whether every mode kept what it says."""
        return all(one.kept for one in self.modes) and (self.epsilon_report is None or self.epsilon_report.kept)

    @property
    def incomplete(self) -> bool:
        """Whether something could not be tried on a mode that hides rows."""
        variants = self.epsilon_report.variants if self.epsilon_report else []
        lost = any(one.failed or one.refused for one in self.modes if one.mode in PRIVATE)
        return bool(self.unmeasured) or lost or any(one.caught is None for one in variants)


def audit(
    subject: Subject,
    modes: Sequence[str] = tuple(PRIVACY),
    epsilon: float = 1.0,
    delta: float = 1e-6,
    runs: int = RUNS,
    watch: Watch = lambda words: None,
    workers: int = 1,
) -> Audit:
    """Teach in each mode in this process, and attack what left the owners.

    Whatever cannot be taught, tried or measured is title with its reason, and the rest goes on.
    """
    result = Audit(subject, [])
    for name in modes:
        one, mode = ModeReport(name), Mode(name, epsilon, delta)
        result.modes.append(one)
        try:
            one.transcript = listen(subject, mode)
        except Exception as error:
            one.refused = failure(error)
            continue
        for attack, work in attacks_on(subject, mode, one.transcript, runs, workers, watch):
            watch(f"{name}: {attack}")
            try:
                one.findings.append(work())
            except Exception as error:
                said = f"could not be run: {failure(error)}"
                one.findings.append(Finding(attack, name, said, failed=True))
    if "dp" in modes:
        try:
            result.epsilon_report = account(subject, Mode("dp", epsilon, delta), runs, workers, watch)
        except Exception as error:
            result.unmeasured = failure(error)
    return result


def attacks_on(
    subject: Subject, mode: Mode, transcript: Transcript, runs: int, workers: int, watch: Watch
) -> Iterator[tuple[str, Callable[[], Finding]]]:
    """Name and program of every attack that makes sense against a mode."""
    yield attacks.OUTRIGHT, lambda: attacks.read_outright(subject, transcript, mode)
    yield attacks.CHOSEN, lambda: attacks.work_out_chosen(subject, mode)
    yield attacks.MISSING, lambda: attacks.work_out_missing(subject, transcript, mode)
    if mode.name == "none":
        return
    yield attacks.EVERYTHING, lambda: attacks.ask_everything(subject, mode)
    yield attacks.TABLES, lambda: attacks.silence(subject, mode)
    yield attacks.DECLARED, lambda: attacks.count_rows(subject, mode)
    if mode.name == "dp":
        yield attacks.STRETCHED, lambda: attacks.stretch(subject, mode)
        yield attacks.DISGUISED, lambda: attacks.reset_the_account(subject, mode)
        yield attacks.LESSONS, lambda: attacks.many_lessons(subject, mode)
    for attack in delivered.MODELS:
        yield attack, partial(look_at_models, subject, mode, attack, max(runs // MODELS, 20), workers, watch)


def look_at_models(
    subject: Subject, mode: Mode, attack: str, runs: int, workers: int = 1, watch: Watch = lambda words: None
) -> Finding:
    """Guess from delivered models whether a row was there, at the owner who chooses most rows."""
    chosen = [len(rows) for rows in listen(subject, mode).chosen]
    subject = replace(subject, place=int(np.argmax(chosen)))
    row = crafted(subject)[delivered.MODELS[attack]]
    memory: Memory = {}
    listen(subject, mode, memory=memory)  # other owners choose once, and the attacker knows what
    work = [partial(delivered.look, subject, row, mode, some, memory) for some in batches(runs, max(runs // 8, 1))]
    title = f"{mode.name}: {attack}"
    features = np.concatenate(side_by_side(work, workers, title, watch), axis=1)
    return delivered.judge(features, mode, attack, delivered.replayed(subject, mode))


def sample(
    subject: Subject, row: str, mode: Mode, whole: bool, runs: int, workers: int = 1, watch: Watch = lambda words: None
) -> Evidence:
    """Draw many runs of the real path, side by side."""
    one = subject if whole else subject.owner()
    crafted_row = crafted(one)[row]
    work = [partial(draw, one, crafted_row, mode, whole, some) for some in batches(runs, BATCH)]
    title = "ε of a whole lesson" if whole else "ε of one owner"
    return Evidence.together(side_by_side(work, workers, title, watch))


def batches(runs: int, most: int) -> list[int]:
    """Split runs into batches."""
    return [min(most, runs - first) for first in range(0, runs, most)]


def side_by_side(work: Sequence[Callable[[], Any]], workers: int, title: str, watch: Watch) -> list[Any]:
    """Do all of it in processes of their own, and say how far it is; the results are in the order of the work."""
    if workers < 2 or len(work) < 2:
        results = []
        for number, one in enumerate(work):
            watch(f"{title}: {100 * number // len(work)} %")
            results.append(one())
        return results
    pool = ProcessPoolExecutor(min(workers, len(work)), mp_context=get_context("forkserver"))
    try:
        waiting = [pool.submit(one) for one in work]
        for number, _ in enumerate(as_completed(waiting)):
            watch(f"{title}: {100 * number // len(work)} %")
        return [one.result() for one in waiting]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def account(
    subject: Subject, mode: Mode, runs: int, workers: int = 1, watch: Watch = lambda words: None
) -> EpsilonReport:
    """Measure ε beside the one claimed, and see that broken modes are found out."""
    row, measured, drawn = next(iter(crafted(subject))), list[Measurement](), list[Evidence]()
    for where, whole in TAUGHT.items():
        many = max(runs // LESSONS, 50) if whole else runs
        drawn.append(sample(subject, row, mode, whole, many, workers, watch))
        measured += measure(drawn[-1], mode, where)
    watch("modes broken on purpose")
    variants = broken.check_variants(subject, mode, min(runs, 100))
    return EpsilonReport(mode, measured, noise_of(Evidence.together(drawn)), row, variants)

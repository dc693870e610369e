"""Privacy modes broken on purpose, each with the detector that must find it out: an audit that passes these says nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from superteach.exceptions import TeachingError
from superteach.privacy.accounting import Mode, Release
from superteach.privacy.discrete_gaussian import Grid
from superteach.privacy.guard import Account, Guard
from superteach.privacy.ledger import Ledger
from superteach.privacy.moments import COUNTED, pack
from superteach.protocol.messages import Sealed, Turn
from superteach.protocol.queries import ChooseShare, Query, SecondMoments
from superteach.teacher import Teacher
from superteach.types import Array, Positions
from superteach_lab.audit import attacks
from superteach_lab.audit.empirical import crafted, draw, measure, noise_of
from superteach_lab.audit.subject import Door, Finding, Subject, failure, listen


class Quarter(Mode):
    """Noise a quarter too small."""

    part = 0.75

    def grid(self, release: Release) -> Grid:
        """Make the grid with a part of its noise."""
        whole = super().grid(release)
        return replace(whole, sigma=int(self.part * whole.sigma))


class Half(Quarter):
    """Half of the noise."""

    part = 0.5


class Understated(Mode):
    """A sensitivity half as large as it is."""

    def grid(self, release: Release) -> Grid:
        """Make the grid for a smaller sensitivity."""
        return super().grid(release._replace(sensitivity=0.5 * release.sensitivity))


class _Quiet(Grid):
    def noise(self, size: int) -> Positions:
        return np.zeros(size, np.int64)


class Silent(Mode):
    """One question without noise."""

    def grid(self, release: Release) -> Grid:
        """Make the grid, silent for the larger part of the budget."""
        whole = super().grid(release)
        return _Quiet(whole.step, whole.sigma) if release.part > 0.5 else whole


class _Once(Grid):
    drawn: dict[tuple[int, int], Positions] = {}  # noqa: RUF012

    def noise(self, size: int) -> Positions:
        return self.drawn.setdefault((self.sigma, size), super().noise(size))


class Reused(Mode):
    """Noise that is drawn once and used again."""

    def grid(self, release: Release) -> Grid:
        """Make a grid that remembers."""
        whole = super().grid(release)
        return _Once(whole.step, whole.sigma)


class _Seeded(Grid):
    count = 0

    def noise(self, size: int) -> Positions:
        type(self).count += 1
        drawn = np.random.default_rng(self.count).standard_normal(size)
        return np.rint(self.sigma * drawn).astype(np.int64)


class Seeded(Mode):
    """Noise from a generator whose seeds count up from 1."""

    def grid(self, release: Release) -> Grid:
        """Make a grid that begins with the first seed in every run of the audit."""
        whole = super().grid(release)
        return _Seeded(whole.step, whole.sigma)


class _Changed(Teacher):
    """A teacher whose second moments are cut in another way."""

    def __init__(self, name: str, features: Any, target: Any, **given: Any) -> None:
        super().__init__(name, features, target, **given)
        self.table = np.asarray(features, dtype=np.float64)

    def cut(self, gradients: Array, weights: Array) -> Array:
        """Return e_j for every row."""
        raise NotImplementedError

    def answer(self, query: Query[object], state: Any, turn: Turn) -> tuple[Any, Sealed]:
        """Answer as ever, but for second moments."""
        if not isinstance(query, SecondMoments):
            return super().answer(query, state, turn)
        ones = np.full(len(self.table), query.constant)
        lifted = np.column_stack([self.table, ones]) if query.constant else self.table
        slope = self.announced(query.loss).terms(lifted @ query.goal, self.target).slope
        rows = self.cut(-slope[:, None] * lifted, query.weights)
        self.guard.check_query(query)
        return state, self.guard.release(query, pack(rows.T @ rows), self.name)


def _lifted(gradients: Array) -> Array:
    return np.column_stack([gradients, np.full(len(gradients), np.sqrt(COUNTED))])


class Uncut(_Changed):
    """Rows count as long as they are, up to a thousand."""

    def cut(self, gradients: Array, weights: Array) -> Array:
        """Cut a thousand times too late."""
        rows = _lifted(gradients * weights)
        return np.asarray(rows / np.maximum(1.0, 1e-3 * np.linalg.norm(rows, axis=1))[:, None])


class Unweighted(_Changed):
    """Rows are cut by their length in the columns' own units, and weighted after that."""

    def cut(self, gradients: Array, weights: Array) -> Array:
        """Take the length without weights."""
        length = np.linalg.norm(_lifted(gradients), axis=1)
        return np.asarray(_lifted(gradients * weights) / np.maximum(1.0, length)[:, None])


class Forgetful(Guard):
    """A guard that forgets what has left."""

    def release(self, query: Query[object], reply: Array, teacher: str) -> Sealed:
        """Begin a new account with every question."""
        self.released.clear()
        return super().release(query, reply, teacher)


class Unpaid(Account):
    """An account that is never charged."""

    def pay(self, mode: Mode, people: int = 1) -> None:
        """Enter nothing."""


def account_by_table(folder: Path, table: Array) -> Ledger:
    """Keep an account for each digest of a table, as if another table were another owner."""
    mark = hashlib.blake2b(repr(table.tolist()).encode(), digest_size=8).hexdigest()
    return Ledger(folder / mark, 1.0, 1e-6)


class Telling(Teacher):
    """A teacher that fails where its rows cannot carry its share."""

    def answer(self, query: Query[object], state: Any, turn: Turn) -> tuple[Any, Sealed]:
        """Choose, and look at how that went."""
        state, sealed = super().answer(query, state, turn)
        if isinstance(query, ChooseShare) and "do not carry" in state.note:
            raise TeachingError("these rows cannot carry their share")
        return state, sealed


@dataclass(frozen=True)
class VariantReport:
    """Whether a detector found a broken mode out."""

    variant: str
    caught: bool | None
    """None where it could not be run."""
    said: str


NOISE = {
    "noise a quarter too small": Door(mode=Quarter),
    "half of the noise": Door(mode=Half),
    "a sensitivity half as large as it is": Door(mode=Understated),
    "one question without noise": Door(mode=Silent),
    "noise drawn once and used again": Door(mode=Reused),
    "noise from seeds that can be guessed": Door(mode=Seeded),
    "rows that are not cut to length": Door(teacher=Uncut),
    "rows cut without the weights": Door(teacher=Unweighted),
}
"""Variants that noise and evidence must show."""


def _noise(subject: Subject, mode: Mode, runs: int, door: Door) -> tuple[bool, str]:
    owner = subject.owner()
    if door.teacher is Unweighted:  # it breaks where columns are small
        owner = replace(owner.with_parts(lambda X, y: (1e-3 * X, y)), goal=_scaled(owner.goal, owner.rows.shape[1]))
    _Seeded.count = 0
    row = crafted(owner)["each coefficient in an octave of its own"]
    drawn = draw(owner, row, mode, False, runs, door)
    noise, told = noise_of(drawn), measure(drawn, mode, "one owner")[-1]
    seen = [
        f"an ε of at least {told.epsilon:.3g} was measured where {mode.epsilon:g} was claimed"
        * (told.surely > mode.epsilon),
        f"one row spends ε = {told.of_row:.3g} by the formulas" * (told.of_row > mode.epsilon * (1.0 + 1e-9)),
        f"the noise is {noise.ratio:.3f} times what is claimed" * (noise.chance < 1e-9),
        f"{noise.repeated} runs had the noise of an earlier one" * bool(noise.repeated),
        "the noise was drawn again from a seed that was guessed" * noise.guessed,
    ]
    return any(seen), "; ".join(filter(None, seen)) or "nothing was seen"


def _scaled(goal: Array, columns: int) -> Array:
    return np.append(1e3 * goal[:columns], goal[columns:])


def _found(work: Callable[[], Finding]) -> tuple[bool, str]:
    finding = work()
    return finding.broken, finding.said


def check_variants(subject: Subject, mode: Mode, runs: int) -> list[VariantReport]:
    """Run every broken variant against its detector."""
    variants: dict[str, Callable[[], tuple[bool, str]]] = {
        **{name: partial(_noise, subject, mode, runs, door) for name, door in NOISE.items()},
        "a question may be asked again": lambda: _found(
            lambda: attacks.ask_everything(subject, mode, Door(guard=Forgetful))
        ),
        "an account that is not charged": lambda: _found(lambda: attacks.many_lessons(subject, mode, Unpaid)),
        "an account for every digest of a table": lambda: _found(
            lambda: attacks.reset_the_account(subject, mode, account_by_table)
        ),
        "an acknowledgement that depends on rows": lambda: _found(
            lambda: attacks.silence(subject, Mode("isolated"), Door(teacher=Telling))
        ),
        "the exact number of rows declared": lambda: _found(lambda: attacks.count_rows(subject, mode, str)),
        "measurements left in lesson.json": lambda: _found(lambda: _measured(subject)),
    }
    found = []
    for variant, work in variants.items():
        try:
            found.append(VariantReport(variant, *work()))
        except Exception as error:  # told on the page; the other variants are still tried
            found.append(VariantReport(variant, None, f"could not be run: {failure(error)}"))
    return found


def _measured(subject: Subject) -> Finding:
    """Put what was measured in the open beside a private lesson."""
    transcript = listen(subject, Mode("none"))
    found = attacks.work_out_missing(subject, transcript, Mode("isolated"))
    return replace(found, broken=found.rows > 0)

"""Terms: which promise a lesson keeps, and how replies are covered so that it does.

closed   Nothing leaves.
epsilon  Sums over capped rows leave, as whole numbers on a grid with noise, under masks where there are three teachers.
masked   Exact sums leave under masks, so that only their total can be read.
open     Numbers leave as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from superteach.errors import QueryRefused, SettingError
from superteach.line.queries import Private, Query
from superteach.line.queries.private import Release
from superteach.privacy import fixed
from superteach.privacy.accounting import mu_of
from superteach.privacy.discrete_gaussian import Grid, grid_step
from superteach.privacy.fixed import Words
from superteach.types import Array
from superteach.words import PROMISES

if TYPE_CHECKING:
    from superteach.privacy.masks import Masker

LEAST = 3
"""Teachers of the smallest roster unless a policy says more: of two, each could subtract its own from the total."""


@dataclass(frozen=True)
class PromiseTerms:
    """What all teachers of a lesson know about the promise they keep."""

    promise: str = "open"
    teachers: int = 1
    epsilon: float = 1.0
    delta: float = 1e-6
    colluders: int | None = None
    """How many teachers may drop out, or tell the coordinator their noise, while ε still holds; None: a third."""
    masks: bool = True
    """Whether teachers share the noise, under masks; if not, or with fewer than three teachers, each adds all of it."""

    def __post_init__(self) -> None:
        if self.promise not in PROMISES:
            raise SettingError(f"promise={self.promise!r} is not known; there are {', '.join(map(repr, PROMISES))}")
        if self.promise == "masked" and self.teachers < LEAST:
            raise SettingError(
                f"promise='masked' needs at least {LEAST} teachers, there are {self.teachers}: of two, each could subtract "
                "its own numbers from the total; use promise='closed' or 'epsilon'"
            )
        if self.colluders is not None and not 0 <= self.colluders < self.teachers:
            raise SettingError(f"colluders={self.colluders} must be at least 0 and below the {self.teachers} teachers")

    @property
    def mu(self) -> float:
        """The lesson's budget as μ of Gaussian differential privacy."""
        return mu_of(self.epsilon, self.delta)

    @property
    def masked(self) -> bool:
        """Whether replies leave under masks."""
        return self.promise == "masked" or (self.promise == "epsilon" and self.masks and self.teachers >= LEAST)

    @property
    def honest(self) -> int:
        """Teachers whose noise together must be enough."""
        if not self.masked:
            return 1
        return self.teachers - (self.teachers // 3 if self.colluders is None else self.colluders)

    @property
    def words(self) -> int:
        """Words of 64 bits in which a number leaves."""
        return fixed.LIMBS if self.promise == "masked" else 1

    def grid(self, release: Release) -> Grid:
        """Make the grid and the noise of one teacher for some numbers."""
        noise = max(release.sensitivity, 1e-9) / (self.mu * np.sqrt(release.share))
        return grid_step(float(noise), release.numbers, max(release.sensitivity, 1e-9), self.honest)

    def spread(self, release: Release) -> float:
        """Return the standard deviation of a total's noise."""
        grid = self.grid(release)
        return float(grid.step * grid.sigma * np.sqrt(self.teachers))

    def cover(self, query: Query[object], reply: Array, number: int, masker: Masker | None) -> Words:
        """Return what leaves a teacher instead of its reply."""
        if self.promise == "masked":
            words = fixed.to_words(reply, self.teachers)
        else:
            assert isinstance(query, Private)
            parts, first = [np.zeros((0, 1), np.uint64)], 0
            for release in query.releases:
                grid, last = self.grid(release), first + release.numbers
                noisy = grid.to_integers(reply[first:last]) + grid.noise(release.numbers)
                parts.append(fixed.grid_to_words(noisy, self.teachers))
                first = last
            words = np.concatenate(parts)
        if not self.masked or not len(words):
            return words
        if masker is None:
            raise QueryRefused("this teacher has no keys for masks yet: make a roster first")
        return masker.mask(number, words)

    def uncover(self, query: Query[object], total: Words) -> Array:
        """Return the numbers that the sum of all words stands for."""
        if self.promise == "masked":
            return fixed.from_words(total)
        assert isinstance(query, Private)
        steps = fixed.words_to_grid(total)
        sizes = [self.grid(release).step for release in query.releases]
        counts = [release.numbers for release in query.releases]
        return np.asarray(steps * np.repeat(sizes, counts), dtype=np.float64)


OPEN_TERMS = PromiseTerms()

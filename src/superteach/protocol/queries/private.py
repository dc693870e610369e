"""What "isolated" and "dp" ask: two noisy releases (dp alone), and a choice of rows of which nothing is said.

Every question holds all that it depends on, so a teacher remembers nothing between them but the rows it chose.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from superteach.privacy.accounting import Release
from superteach.privacy.moments import OCTAVES
from superteach.protocol.queries.common import Announced, Query, Sensitivity
from superteach.types import Array, Mask

__all__ = ["ChooseShare", "CountMagnitudes", "Private", "SecondMoments"]

MAGNITUDES = 0.1
"""Part of the budget for magnitudes of columns; moments have the rest."""
LARGEST = 1e30
"""Size that no honest number reaches, noise and all."""


class Private(Query[Array]):
    """A query whose reply leaves with noise: `release` says how far a row moves it."""

    privacy: ClassVar[tuple[str, ...]] = ("dp",)

    @property
    def release(self) -> Release:
        """The numbers of the reply, their sensitivity, and their part of the lesson's budget."""
        raise NotImplementedError

    @property
    def reply_length(self) -> int:
        return self.release.numbers

    def read(self, total: Array) -> Array:
        return total

    def wrong(self, reply: Array) -> Mask:
        return ~(np.abs(reply) <= LARGEST)


class CountMagnitudes(Private):
    """Count rows by the octave of |g_jc|, coefficient by coefficient, with g_j the row's gradient at the goal."""

    loss: Announced
    constant: float
    goal: Array
    broadcast = "loss, constant column, goal"
    reply = "64 counts per coefficient, with noise"
    exposure = "how large gradients are, by coefficient, under noise"
    sensitivity = Sensitivity(None, "a row is in one cell of each coefficient, √d in all; noise is for that")

    @property
    def release(self) -> Release:
        width = len(self.goal)
        return Release(width * OCTAVES, float(width) ** 0.5, MAGNITUDES)


class SecondMoments(Private):
    """Σ e_j e_j' with e_j = (W g_j, s) cut to length 1: number, sum and spread of gradients."""

    loss: Announced
    constant: float
    goal: Array
    weights: Array
    """W, one weight for each coefficient."""
    broadcast = "loss, constant column, goal, a weight per coefficient"
    reply = "(d+1)(d+2)/2 sums, with noise"
    exposure = "count, mean and spread of gradients, under noise"
    sensitivity = Sensitivity(1.0, "‖e e'‖ = ‖e‖² ≤ 1 in Frobenius norm")
    listed = ("weights",)

    @property
    def release(self) -> Release:
        lifted = len(self.goal) + 1
        return Release(lifted * (lifted + 1) // 2, 1.0, 1.0 - MAGNITUDES)


class ChooseShare(Query[Array]):
    """Choose rows of your own whose gradients add up to your share of the goal, and say nothing of them."""

    loss: Announced
    constant: float
    goal: Array
    penalty: Array
    """The learner's penalty of each coefficient, for the whole lesson."""
    rows: tuple[int, ...]
    """Rows that each teacher of the roster contributes."""
    shares: Array
    """What each teacher's gradients shall add up to: one row of numbers for each teacher."""
    seed: int
    privacy: ClassVar[tuple[str, ...]] = ("isolated", "dp")
    broadcast = "loss, constant column, goal, penalty, every teacher's number of rows and share, a seed"
    reply = "nothing"
    exposure = "nothing: the reply is an acknowledgement, the same whatever the rows are"
    changes = ("chosen", "note")
    sensitivity = Sensitivity(0.0, "no number leaves")
    length = (0,)
    silent: ClassVar[bool] = True
    """The reply depends on no row, so it may leave before the rows are chosen."""
    listed = ("penalty",)

    def read(self, total: Array) -> Array:
        return total

    def misfit(self, columns: int, width: int, teachers: int) -> str | None:
        """Name a field that does not fit a lesson of `columns` columns, `width` coefficients and `teachers` teachers."""
        if len(self.rows) != teachers or self.shares.shape != (teachers, width):
            return f"shares has shape {self.shares.shape}, {(teachers, width)} is right"
        if self.penalty.shape != (width,):
            return f"penalty has shape {self.penalty.shape}, {(width,)} is right"
        return super().misfit(columns, width, teachers)

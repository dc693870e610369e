"""The goal that ranks: a pairwise surrogate of AUC, minimised exactly from two sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy import linalg

from superteach.coordinator.problem import NEWTON_WIDTH, FederatedProblem
from superteach.exceptions import GoalError, Setting, SettingError
from superteach.goals.base import OptionSource
from superteach.learner import Learner
from superteach.optim.problem import MOST, Scaling
from superteach.protocol.queries import ColumnSums, Prepare
from superteach.types import Array, Labels, is_number

_CUTOFF = 1e-12
"""Least curvature of a direction, as a share of the largest: below it a direction holds nothing but rounding."""


class Ordering(NamedTuple):
    """A model that orders rows, in raw units, and an AUC that it is proved to have on all teachers' rows."""

    vector: Array
    least_auc: float


class _Class(NamedTuple):
    """One class of all teachers' rows: their mean, and their second moments around it, per row."""

    mean: Array
    spread: Array


@dataclass(frozen=True)
class MaxAUC:
    """θ* = argmin (1/n₊n₋) Σ_{i∈+, j∈−} ½(1 − (x_i − x_j)'θ)² + (ridge/2)‖θ‖², over all teachers' rows.

    AUC is the share of pairs (i, j) with (x_i − x_j)'θ > 0; a pair in the wrong order costs at least ½ above.
    The pairs need not be formed. With the classes' means μ and second moments V around them the sum is
    quadratic, and its minimiser solves (V₊ + V₋ + δδ' + ridge·I) θ = δ with δ = μ₊ − μ₋: no bins, no
    iteration, no error but float64's. Where the classes are Gaussian this is the direction of the largest AUC.

    The moments are the curvature Σ (x, 1)(x, 1)' of ½t², once over all rows and once over the positive ones;
    the difference belongs to the negative ones.

    AUC does not see the intercept. Where the learner fits one it is −½(μ₊ + μ₋)'θ, so that the two classes'
    mean scores lie equally far from 0. The ridge acts on the learner's columns: standardised ones with
    standardize=True. With ridge=0 a direction in which the rows do not differ gets no coefficient.
    """

    ridge: float = 0.0
    option: ClassVar[str] = "max-auc"
    """Its name on the command line."""

    @classmethod
    def from_option(cls, text: str, source: OptionSource) -> Self:
        """Make it of --goal max-auc."""
        return cls()

    def __post_init__(self) -> None:
        if not (is_number(self.ridge) and 0.0 <= self.ridge <= MOST):
            raise SettingError(f"MaxAUC takes a ridge that is a number of at least 0, got {self.ridge!r}")

    @property
    def in_words(self) -> str:
        """What reports call it."""
        return "largest AUC" + (f", ridge {self.ridge:g}" if self.ridge else "")

    def check(self, learner: Learner, columns: Sequence[object], classes: Labels | None) -> None:
        """Refuse learners without classes, and rows too wide for a matrix over pairs of columns."""
        if not learner.loss.classifies:
            raise GoalError(
                Setting("goal", self),
                f" needs a classifier, and the learner's loss is {learner.loss.name!r}: AUC is about two classes; teach "
                "LogisticRegression or LinearSVC",
            )
        if learner.outputs > 1:
            raise GoalError(
                Setting("goal", self), f" is about two classes, and the labels have {learner.outputs}; keep two of them"
            )
        if len(columns) > NEWTON_WIDTH:
            raise GoalError(
                Setting("goal", self),
                f" sums a matrix over pairs of columns, too much for {len(columns)} columns (at most {NEWTON_WIDTH}); "
                "leave columns out, or give the goal as a vector",
            )

    def vector(self, problem: FederatedProblem) -> Array:
        """Return the minimiser in raw units, from four or five rounds before the lesson begins."""
        return self.order(problem).vector

    def order(self, problem: FederatedProblem) -> Ordering:
        """Return the minimiser, and the AUC it has at least: 1 − v/(v + m²), with m and v of (x_i − x_j)'θ.

        Cantelli's inequality bounds the share of pairs that are not above 0 by their mean m and variance v,
        whatever the rows; at ridge=0 it says that AUC is at least 1 − the mean of (1 − (x_i − x_j)'θ)².
        """
        positive, negative, scaling = _classes(problem)
        apart, within = positive.mean - negative.mean, positive.spread + negative.spread
        curvature = within + np.outer(apart, apart)
        slope = _solve(curvature + self.ridge * np.eye(len(apart)), apart)
        offset = -0.5 * float((positive.mean + negative.mean) @ slope)
        raw = scaling.raw(np.append(slope, offset))
        mean, variance = float(apart @ slope), max(0.0, float(slope @ within @ slope))
        least = mean * mean / (variance + mean * mean) if mean > 0.0 else 0.0
        return Ordering(raw if problem.learner.column else raw[:-1], least)


def _classes(problem: FederatedProblem) -> tuple[_Class, _Class, Scaling]:
    """Return the moments of both classes on the learner's columns, centred over all rows, and the scaling they have."""
    federation, learner, own = problem.federation, problem.learner, problem.scaling
    width = federation.features
    centre = own.centre
    if centre is None:
        # Sums of squares around a far-off origin would lose what tells the classes apart.
        centre = federation.sum(ColumnSums(np.zeros(width), 1)) / problem.rows
    scaling = Scaling(1.0, centre, own.scale)
    federation.sum(Prepare(learner.loss, scaling.constant, scaling.centre, scaling.scale))
    flat = 10.0 * np.finfo(np.float64).eps * np.abs(centre / (1.0 if own.scale is None else own.scale))
    everyone = federation.curvature("square", "all", np.zeros(width + 1))
    positive = federation.curvature("positive", "all", np.zeros(width + 1))
    federation.sum(Prepare(learner.loss, own.constant, own.centre, own.scale))
    return _moments(positive, flat), _moments(everyone - positive, flat), scaling


def _moments(total: Array, flat: Array) -> _Class:
    """Read one class from Σ (x, 1)(x, 1)' over its rows; cut what a column has below `flat`, which is rounding."""
    rows = float(total[-1, -1])
    mean = total[-1, :-1] / rows
    spread = total[:-1, :-1] / rows - np.outer(mean, mean)
    rounding = np.sqrt(np.maximum(np.diag(total)[:-1], 0.0) / rows) <= flat
    mean = np.where(rounding, 0.0, mean)
    spread[rounding, :] = spread[:, rounding] = 0.0
    return _Class(mean, spread)


def _solve(matrix: Array, right: Array) -> Array:
    """Return matrix⁻¹ right after scaling to a unit diagonal; in flat directions the solution is 0."""
    diagonal = np.diag(matrix)
    scale = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    inverse = linalg.pinvh(matrix / np.outer(scale, scale), rtol=_CUTOFF)
    return np.asarray(inverse @ (right / scale)) / scale

"""A regression on rows that may be removed: coordinates in which the curvature of all rows is 1, and refits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from superteach.losses.scalar import Loss, Squared
from superteach.types import Array, Mask, Positions

STEPS = 60
"""Newton steps of a refit, at most; it mostly takes four."""
RANK_TOLERANCE = 1e-10
"""Singular values below this share of the largest count as 0: columns that repeat others in float64."""


@dataclass(frozen=True, eq=False)
class Regression:
    """Rows in whitened coordinates, targets (±1 for margin losses), the loss, and the penalty (1/2) θ'Pθ."""

    rows: Array
    target: Array
    loss: Loss
    penalty: Array
    """P, positive semidefinite."""
    basis: Array
    """θ in the units of the table is basis @ θ."""
    first: Positions
    """Where each distinct pair of row and target occurs first: votes between the same two are one row many times."""
    kind: Positions
    """For each row, the place of its kind in `first`."""
    per_row: bool = False
    """Whether the penalty shrinks with the number of rows."""
    two_classes: bool = True
    """Whether a classifier refuses rows of one class, as scikit-learn's do."""

    @staticmethod
    def of(
        rows: Array, target: Array, loss: Loss, penalty: Array, per_row: bool = False, two_classes: bool = True
    ) -> Regression:
        """Whiten the rows by their singular vectors; `penalty` has one weight for each coefficient."""
        scale = np.sqrt(np.sum(np.square(rows), axis=0) + penalty)
        scale[scale == 0.0] = 1.0
        stacked = np.vstack([rows / scale, np.diag(np.sqrt(penalty) / scale)]) if penalty.any() else rows / scale
        _, sizes, axes = np.linalg.svd(stacked, full_matrices=False)
        used = sizes > RANK_TOLERANCE * sizes[0]
        basis = (axes[used].T / sizes[used]) / scale[:, None]
        first, kind = _distinct(rows, target)
        inner = (basis.T * penalty) @ basis
        return Regression(rows @ basis, target, loss, inner, basis, first, kind, per_row, two_classes)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.target)

    @property
    def width(self) -> int:
        """How many coefficients the rows determine."""
        return int(self.rows.shape[1])

    def direction(self, vector: Array) -> Array | None:
        """Return a such that a'θ is `vector` times the table's coefficients; None where rows do not determine it."""
        inside = self.basis @ np.linalg.lstsq(self.basis, vector, rcond=None)[0]
        scale = np.linalg.norm(self.basis, axis=1)
        lacking = np.linalg.norm((vector - inside) * scale) > 1e-6 * np.linalg.norm(vector * scale)
        return None if lacking else self.basis.T @ vector

    def penalty_without(self, removed: int) -> Array:
        """P once `removed` rows are gone."""
        return self.penalty * ((self.count - removed) / self.count) if self.per_row else self.penalty

    def kept(self, removed: Positions) -> Mask:
        """Tell the rows that stay."""
        kept = np.ones(self.count, dtype=bool)
        kept[removed] = False
        return kept

    @cached_property
    def kinds(self) -> Array:
        """Rows that differ, once each."""
        return self.rows if len(self.first) == self.count else self.rows[self.first]

    @cached_property
    def counts(self) -> Array:
        """How often each of them occurs."""
        return np.bincount(self.kind, minlength=len(self.first)).astype(np.float64)

    @cached_property
    def _sums(self) -> tuple[Array, Array]:
        return self.rows.T @ self.rows, self.rows.T @ self.target

    def fit(self, removed: Positions, start: Array) -> Array:
        """Fit without the removed rows, from `start`; NaN where no model belongs to the others."""
        if isinstance(self.loss, Squared):
            gone = self.rows[removed]
            gram, moment = self._sums
            gram = gram - gone.T @ gone + self.penalty_without(len(removed))
            return _solve(gram, moment - gone.T @ self.target[removed])
        weights = self.counts - np.bincount(self.kind[removed], minlength=len(self.first))
        target = self.target[self.first]
        if self.two_classes and self.loss.classifies and abs(float(weights @ target)) == float(weights.sum()):
            return np.full(self.width, np.nan)
        return self.minimise(weights, self.penalty_without(len(removed)), np.zeros(self.width), start)

    def minimise(self, weights: Array, penalty: Array, origin: Array, start: Array, span: Array | None = None) -> Array:
        """Minimise Σ w ℓ + (1/2) θ'Pθ over θ = origin + span·γ by Newton; all θ where there is no span.

        `weights` has a number for each kind of row.
        """
        all_rows, target = self.kinds, self.target[self.first]
        rows = all_rows if span is None else all_rows @ span
        fixed = all_rows @ origin
        inner = penalty if span is None else span.T @ penalty @ span
        pull = penalty @ origin if span is None else span.T @ (penalty @ origin)
        model = start.copy()

        def value(at: Array) -> float:
            losses = self.loss.value(fixed + rows @ at, target)
            return float(weights @ losses + pull @ at + 0.5 * at @ inner @ at)

        now = value(model)
        for _ in range(STEPS):
            terms = self.loss.terms(fixed + rows @ model, target)
            gradient = rows.T @ (weights * terms.slope) + pull + inner @ model
            step = _solve((rows * (weights * terms.curvature)[:, None]).T @ rows + inner, gradient)
            if not np.isfinite(step).all():
                return np.full(len(start), np.nan)
            length, fall = 1.0, float(gradient @ step)
            while value(model - length * step) > now - 1e-4 * length * fall + 1e-12 * abs(now) and length > 1e-9:
                length *= 0.5
            model = model - length * step
            now = value(model)
            if fall <= 1e-20 * (1.0 + abs(now)):
                break
        return model

    def hessian(self, model: Array, kept: Mask) -> Array:
        """Σ ℓ'' x x' + P over the rows kept."""
        weights = np.bincount(self.kind, kept, len(self.first))
        curvature = weights * self.loss.curvature(self.kinds @ model, self.target[self.first])
        removed = len(kept) - int(kept.sum())
        return np.asarray((self.kinds * curvature[:, None]).T @ self.kinds + self.penalty_without(removed))

    def leverage(self, inverse: Array) -> Array:
        """x'H⁻¹x of every row."""
        return np.asarray(np.einsum("jd,jd->j", self.kinds @ inverse, self.kinds)[self.kind])


def _solve(matrix: Array, right: Array) -> Array:
    """Solve by Cholesky; NaN where the matrix is singular in float64 (its scale is 1 in whitened coordinates)."""
    try:
        factor = linalg.cho_factor(matrix, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return np.full(len(right), np.nan)
    pivots = np.square(np.diag(factor[0]))
    if not pivots.min(initial=1.0) > 1e-13 * pivots.max(initial=1.0):
        return np.full(len(right), np.nan)
    return np.asarray(linalg.cho_solve(factor, right, check_finite=False))


def _distinct(rows: Array, target: Array) -> tuple[Positions, Positions]:
    """Find equal rows with equal targets: where each kind occurs first, and the kind of every row."""
    both = np.ascontiguousarray(np.column_stack([rows, target]))
    keys = both.view(np.dtype((np.void, both.dtype.itemsize * both.shape[1]))).ravel()
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order].astype(np.int64), place[kind].astype(np.int64)

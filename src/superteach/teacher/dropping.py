"""The fewest rows without which a coefficient passes a value: a search from above, a proof from below.

Without the rows of T the learner ends at θ_T. With H the curvature of all rows at their model θ, z_j = H^−½ x_j and
v = H^½(θ − θ_T),

    v = Σ_{j∈T} z_j (α_j + m_j z_j'v) + what H changes on the way,      α_j = −ℓ'(x_j'θ),  0 ≤ m_j ≤ max ℓ''

so a'(θ − θ_T) is at most the k largest influences a'H⁻¹x_j α_j together, plus terms of second order that are bounded by
lengths of sums over k rows. Squared loss has no change of H; a logistic one changes by a factor of at most e^|x'(θ−θ_T)|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from superteach.mathematics.losses import Logistic, Loss, Squared
from superteach.types import Array, Mask, Positions

GRAM_ROWS = 3000
"""Most rows for which sums over k rows are bounded by products of all pairs (72 MB); above, by lengths and spectral norm."""
STEPS = 50
"""Newton steps of a refit, at most; it mostly takes four."""
ROUNDS = 12
"""Choices of k rows in a row, each by the influences after the one before; they mostly repeat after four."""
PAIRS = 40
"""Rows of either side that are tried in exchanges, strongest first."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows with their constant column, targets (±1 for margin losses), the loss and the penalty of each coefficient."""

    rows: Array
    target: Array
    loss: Loss
    penalty: Array
    per_row: bool = False
    """Whether the penalty shrinks with the number of rows."""

    def fit(self, kept: Mask, start: Array) -> Array:
        """Fit by Newton on the rows kept; NaN where no model belongs to them."""
        rows, target, model = self.rows[kept], self.target[kept], start.copy()
        if self.loss.classifies and abs(int(target.sum())) == len(target):
            return np.full(len(start), np.nan)
        penalty = self.penalty * (len(target) / len(self.target) if self.per_row else 1.0)

        def value(at: Array) -> float:
            return float(self.loss.value(rows @ at, target).sum() + 0.5 * (penalty * at) @ at)

        now = value(model)
        for _ in range(STEPS):
            terms = self.loss.terms(rows @ model, target)
            gradient = rows.T @ terms.slope + penalty * model
            bent = (rows * terms.curvature[:, None]).T @ rows + np.diag(penalty)
            step = np.linalg.lstsq(bent, gradient, rcond=None)[0]
            length, fall = 1.0, float(gradient @ step)
            while value(model - length * step) > now - 1e-4 * length * fall + 1e-12 * abs(now) and length > 1e-9:
                length *= 0.5
            model = model - length * step
            now = value(model)
            if fall <= 1e-18 * (1.0 + abs(now)):
                break
        return model

    def curvature(self, rows: Array, weights: Array) -> Array:
        """Σ ℓ'' x x' + Λ."""
        return np.asarray((rows * weights[:, None]).T @ rows + np.diag(self.penalty))


def influences(table: Table, kept: Mask, model: Array, direction: Array, exact: bool = True) -> Array:
    """Say how far a'θ falls, to first order, when a row leaves; `exact` counts what the row itself held of the curvature."""
    terms = table.loss.terms(table.rows @ model, table.target)
    inverse = np.linalg.pinv(table.curvature(table.rows[kept], terms.curvature[kept]), hermitian=True)
    reach = table.rows @ (inverse @ direction)
    fall = -terms.slope * reach
    if not exact:
        return np.asarray(fall)
    held = terms.curvature * np.einsum("jd,de,je->j", table.rows, inverse, table.rows)
    # A row that is out would enter: then it adds to the curvature instead.
    return np.asarray(fall / np.where(kept, np.maximum(1.0 - held, 1e-3), 1.0 + held))


def search(table: Table, model: Array, direction: Array, value: float, most: int) -> Positions | None:
    """Find few rows, `most` at most, without which a'θ ≤ value; None where the search finds none."""
    low, high, best = 0, 1, None
    while best is None:
        best = lower(table, model, direction, value, high)
        if best is None:
            if high >= most:
                return None
            low, high = high, min(2 * high, most)
    while len(best) - low > 1:
        middle = (low + len(best)) // 2
        found = lower(table, model, direction, value, middle)
        low, best = (middle, best) if found is None else (low, found)
    return np.sort(best)


def lower(table: Table, model: Array, direction: Array, value: float, count: int) -> Positions | None:
    """Find `count` rows without which a'θ ≤ value; None where the search finds none."""
    everybody = np.ones(len(table.target), dtype=bool)
    found: tuple[float, Positions, Array] | None = None
    seen: set[bytes] = set()
    kept, here = everybody, model
    for _ in range(ROUNDS):
        scores = influences(table, kept, here, direction)
        chosen = np.sort(np.argpartition(-scores, count - 1)[:count]).astype(np.int64)
        if chosen.tobytes() in seen:
            break
        seen.add(chosen.tobytes())
        kept = everybody.copy()
        kept[chosen] = False
        here = table.fit(kept, here)
        reached = float(direction @ here)
        if not np.isfinite(reached):
            break
        if found is None or reached < found[0]:
            found = reached, chosen, here
        if reached <= value:
            return chosen
    return None if found is None else _exchanged(table, direction, value, *found)


def _exchanged(
    table: Table, direction: Array, value: float, reached: float, chosen: Positions, model: Array
) -> Positions | None:
    """Exchange a row of the choice for another, as long as the refitted coefficient falls."""
    improved = True
    while improved:
        improved = False
        kept = np.ones(len(table.target), dtype=bool)
        kept[chosen] = False
        scores = influences(table, kept, model, direction)
        back = chosen[np.argsort(scores[chosen])][:PAIRS]
        others = np.flatnonzero(kept)
        out = others[np.argsort(-scores[others])][:PAIRS]
        gain = scores[out][:, None] - scores[back][None, :]
        for place in np.argsort(-gain, axis=None)[:PAIRS]:
            row, spare = np.unravel_index(place, gain.shape)
            trial = kept.copy()
            trial[out[row]], trial[back[spare]] = False, True
            fitted = table.fit(trial, model)
            now = float(direction @ fitted)
            if np.isfinite(now) and now < reached - 1e-12 * (1.0 + abs(reached)):
                reached, model, improved = now, fitted, True
                chosen = np.flatnonzero(~trial).astype(np.int64)
                if reached <= value:
                    return chosen
                break
    return None


def least_rows(table: Table, model: Array, direction: Array, distance: float, most: int) -> int | None:
    """Find the least number of rows that could lower a'θ by `distance`; fewer are proved not to. None: there is no proof."""
    if not isinstance(table.loss, Squared | Logistic):
        return None
    proof = _Proof.of(table, model, direction)
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if proof.reach(middle) < distance else (low, middle)
    return low + 1


@dataclass(frozen=True, eq=False)
class _Proof:
    """What rows can do together, in units in which the curvature is 1."""

    units: Array
    """z_j."""
    pulls: Array
    """α_j z_j."""
    along: Array
    """c'z_j, c = H^−½ a."""
    influence: Array
    loss: Loss

    @staticmethod
    def of(table: Table, model: Array, direction: Array) -> _Proof:
        terms = table.loss.terms(table.rows @ model, table.target)
        values, axes = np.linalg.eigh(table.curvature(table.rows, terms.curvature))
        root = (axes / np.sqrt(np.maximum(values, 1e-14 * values[-1]))) @ axes.T
        units = table.rows @ root
        along = units @ (root @ direction)
        return _Proof(units, -terms.slope[:, None] * units, along, -terms.slope * along, table.loss)

    def reach(self, count: int) -> float:
        """Bound how far a'θ can fall when `count` rows leave."""
        lengths, most = np.sum(np.square(self.units), axis=1), self.loss.most_curvature
        held = most * min(_largest(lengths, count), _longest(self.units, count, squares=True))
        pull = _longest(self.pulls, count)
        far = self._farthest(pull, held, float(np.sqrt(lengths.max())))
        if not np.isfinite(far):
            return np.inf
        second = most * _longest(self.along[:, None] * self.units, count) * far
        if not isinstance(self.loss, Squared):  # curvature depends on the model
            reach = far * float(np.sqrt(lengths.max()))
            second += (np.expm1(reach) - reach) / reach**2 * float(np.abs(self.along).max()) * far**2 if reach else 0.0
        return _largest(np.maximum(self.influence, 0.0), count) + second

    def _farthest(self, pull: float, held: float, longest: float) -> float:
        """Bound how far v can be: ‖v‖ ≤ pull + held·‖v‖, with the left side flattened where curvature may fade on the way.

        Rows leave little by little, so ‖v‖ grows from 0 and cannot jump over lengths at which the left side is larger.
        """
        if isinstance(self.loss, Squared):
            return pull / (1.0 - held) if held < 1.0 else np.inf
        if held >= 1.0:
            return np.inf
        low, high = 0.0, -np.log(held) / longest if held > 0.0 else 700.0 / longest  # where the difference is largest

        def lacks(far: float) -> bool:
            return float(-np.expm1(-longest * far) / longest - held * far) < pull

        if lacks(high):
            return np.inf
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if lacks(middle) else (low, middle)
        return high


def _largest(values: Array, count: int) -> float:
    """Sum the `count` largest."""
    return float(np.partition(values, len(values) - count)[len(values) - count :].sum()) if count else 0.0


def _longest(vectors: Array, count: int, squares: bool = False) -> float:
    """Bound ‖Σ_T v_j‖ over all T of `count` rows; with `squares` the largest eigenvalue of Σ_T v_j v_j'."""
    total = np.linalg.eigvalsh(vectors.T @ vectors)[-1]
    norms = np.linalg.norm(vectors, axis=1)
    bound = (
        min(float(total), _largest(norms**2, count))
        if squares
        else min(float(np.sqrt(count * total)), _largest(norms, count))
    )
    if len(vectors) > GRAM_ROWS:
        return bound
    products = vectors @ vectors.T
    # Gershgorin for eigenvalues: none exceeds a row's sum. For lengths, rows that pull apart are left out of T.
    products = np.abs(products) if squares else np.maximum(products, 0.0)
    sums = np.partition(products, len(vectors) - count, axis=1)[:, len(vectors) - count :].sum(axis=1)
    if squares:
        return min(bound, float(sums.max()))
    return min(bound, float(np.sqrt(max(_largest(sums, count), 0.0))))

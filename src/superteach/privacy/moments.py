"""Shares moved by what teachers release: under "dp" each of them releases the moments of its sample gradients, once.

A fair share fails where an owner's rows cannot add up to it: all of them contradict the goal, say, or none. The first two
moments of an owner's gradients tell where its lessons lie and how far they move, so the coordinator can ask each owner for
what it can carry, such that everything adds up to the goal. The sum is exact whatever the noise, because an owner
chooses rows for what it is asked for, and what it is asked for adds up.

Two releases, each with a sensitivity that no row exceeds (adding or removing one; tests search for rows that do):

units    Counts of |g_jc| by octave, column by column. A row is in one cell of each column: √d.
moments  Σ e_j e_j' with e_j = k_j (W g_j, s), k_j = min(1, 1/‖(W g_j, s)‖): ‖e_j e_j'‖ = ‖e_j‖² ≤ 1 in Frobenius norm.
         It holds counts (s² Σ k_j²), sums (s Σ k_j² W g_j) and second moments of gradients, of long rows the less.

The noise is local: a teacher's release is private by its own noise alone, whoever else colludes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from superteach.privacy.shares import MOST, deal_rows, limits, proportional
from superteach.types import Array, Mask, Positions

COUNTED = 0.3
"""s², with which a row counts beside a gradient of squared length up to 1."""
OCTAVES, FIRST = 64, -31
"""Cells of a size: cell k holds sizes from 2^(k − 31) on, cell 0 all smaller ones, the last all larger ones."""
SURE = 5.0
"""Standard deviations by which a cell's count must exceed 0 to be no noise: it happens once in three million cells."""
STRONG = 2.0
"""Power of 1 + the mean square of an owner's gradients, in units of all owners' covariance, by which its part falls: what
rounding leaves is as long as an owner's rows are."""
SHRINKING = 2.0
"""Standard deviations of noise that owners' differences must exceed, in the mean, to count as differences."""
LEAST = 0.01
"""Least variance of an owner's gradients in any direction, in units of all owners' covariance."""
FAR = 1.25
"""Standard deviations of its rows that an owner's mean gradient can be moved by its choice, whatever their distribution."""
FEWEST = 3
"""Rows for each unknown below which an owner's rounding is expected to leave something."""
MANY = 50
"""Owners of which all are tried at first; of more, those that fair numbers of rows let carry."""
EASY = 0.5
"""Standard deviations of its rows by which every owner can move its mean gradient with ease: then shares stay fair."""
_STEPS = 60


def count_octaves(gradients: Array) -> Array:
    """Count |g_jc| by octave, column by column; sensitivity √columns."""
    cells = np.clip(np.frexp(np.abs(np.nan_to_num(gradients)))[1] - FIRST, 0, OCTAVES - 1)
    cells[gradients == 0.0] = 0
    columns = gradients.shape[1]
    return np.bincount((cells + OCTAVES * np.arange(columns)).ravel(), minlength=OCTAVES * columns).astype(np.float64)


def read_units(total: Array, noise: float) -> Array:
    """Return a weight for each column, such that a usual W g_j has length 1; 0 where noise hides a column's size.

    `total` is the sum of all teachers' releases, `noise` its standard deviation.
    """
    counts = total.reshape(-1, OCTAVES)[:, 1:]
    counts = np.where(counts > SURE * noise, counts, 0.0)
    squares = np.exp2(2.0 * (np.arange(1, OCTAVES) + FIRST) - 1.0)
    members = counts.sum(axis=1)
    seen = members > 0.0
    weights = np.zeros(len(counts))
    weights[seen] = np.sqrt(members[seen] / (counts[seen] @ squares))
    return np.asarray(weights / np.sqrt(max(int(seen.sum()), 1)))


def second_moments(gradients: Array, weights: Array) -> Array:
    """Return Σ e_j e_j' as a vector of the same length as the matrix in Frobenius norm; sensitivity 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = np.nan_to_num(gradients * weights, nan=0.0, posinf=1e150, neginf=-1e150)
    rows = np.column_stack([np.clip(rows, -1e150, 1e150), np.full(len(rows), np.sqrt(COUNTED))])
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]
    return pack(rows.T @ rows)


def pack(matrix: Array) -> Array:
    """Write a symmetric matrix as a vector that is as long as it in Frobenius norm."""
    rows, columns = np.triu_indices(len(matrix))
    return np.asarray(matrix[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0)))


def unpack(numbers: Array, width: int) -> Array:
    """Read the matrix again."""
    rows, columns = np.triu_indices(width)
    matrix = np.zeros((width, width))
    matrix[rows, columns] = numbers * np.where(rows == columns, 1.0, np.sqrt(0.5))
    matrix.T[rows, columns] = matrix[rows, columns]
    return matrix


@dataclass(frozen=True, eq=False)
class Owners:
    """What is known of owners' gradients in units W: every one a mean and a covariance, nothing else."""

    sizes: Positions
    means: Array
    """K × d."""
    covariances: Array
    """K × d × d, positive definite."""
    strengths: Array
    """Mean squares of gradients, in units of the covariance of all of them."""

    @classmethod
    def read(cls, released: Sequence[Array], sizes: Positions, weights: Array, noise: float) -> Owners | None:
        """Read noisy moments, and shrink what owners differ by towards their mean as far as noise explains it.

        None where noise hides even what all owners have in common, or all in which they differ.
        """
        weighed, width = weights > 0.0, len(weights) + 1
        some = np.append(weighed, True)
        moments = np.array([unpack(numbers, width)[np.ix_(some, some)] for numbers in released])
        columns, part = int(weighed.sum()), sizes / sizes.sum()
        common, own = moments.sum(axis=0) / sizes.sum(), moments / sizes[:, None, None]
        spread = noise / sizes * np.sqrt(1.0 - part)  # of each number of owner i's mean moments beside the common ones
        # Owners whose rows are draws from one population differ too, by what chance explains: such shares stay fair.
        chance = COUNTED / sizes * (1.0 - part)
        more = _shrunk((own - common)[:, -1, -1], spread**2 + chance * common[-1, -1], 1)
        wide = float(np.trace(common[:-1, :-1]))
        along = _shrunk((own - common)[:, -1, :-1], columns * 0.5 * spread**2 + chance * wide, columns)
        if not more.any() and not along.any():
            return None
        count = np.maximum((common[-1, -1] + more) / COUNTED, LEAST)
        means = (common[-1, :-1] + along) / np.sqrt(COUNTED) / count[:, None]
        mean = common[-1, :-1] / np.sqrt(COUNTED) / max(common[-1, -1] / COUNTED, LEAST)
        whole = common[:-1, :-1] / max(common[-1, -1] / COUNTED, LEAST) - np.outer(mean, mean)
        values, axes = np.linalg.eigh(whole)
        hidden = SURE * noise * np.sqrt(len(sizes)) / sizes.sum()
        if min(common[-1, -1], values[-1]) <= max(hidden, 1e-100):
            return None
        values = np.maximum(values, LEAST * values[-1])
        root, inverse = axes * np.sqrt(values), axes / np.sqrt(values)
        squares = np.einsum("ji,kjl,lm->kim", inverse, own[:, :-1, :-1], inverse)  # in units of the common covariance
        gram = inverse.T @ inverse
        doubt = float(np.linalg.norm(gram)) / columns * spread  # of an owner's mean square
        size = np.trace(squares, axis1=1, axis2=2) / columns
        size = np.maximum(size, np.maximum(LEAST, doubt))
        noisy = 0.5 * (np.trace(gram) ** 2 + float((gram**2).sum())) * (spread / size) ** 2
        shape = squares / size[:, None, None] - np.eye(columns)
        shape = _shrunk(shape, noisy, columns * (columns + 1) // 2)
        squares = (shape + np.eye(columns)) * (size / count)[:, None, None]
        inner = means @ inverse
        values, axes = np.linalg.eigh(squares - inner[:, :, None] * inner[:, None, :])
        values = np.maximum(values, LEAST * (size / count)[:, None])
        bent = np.einsum("ij,kjl,kl,kml,nm->kin", root, axes, values, axes, root)
        return cls(sizes, means, bent, size / count)

    def dual(self, counts: Array, target: Array) -> Array:
        """Return the u for which all owners' targets n_i (m_i + V_i u) add up to `target`."""
        return np.linalg.solve(np.einsum("k,kij->ij", counts, self.covariances), target - counts @ self.means)

    def tilts(self, counts: Array, target: Array) -> Array:
        """Return how far each owner's target lies from its mean, in standard deviations of its own rows."""
        dual = self.dual(counts, target)
        return np.asarray(np.sqrt(np.einsum("i,kij,j->k", dual, self.covariances, dual)))

    def strains(self, rows: Positions, mean: Array) -> Array:
        """Return how far a mean gradient lies from that of each carrying owner, in standard deviations of its own rows."""
        apart = mean - self.means[rows > 0]
        inverse = np.linalg.inv(self.covariances[rows > 0])
        return np.asarray(np.sqrt(np.einsum("ki,kij,kj->k", apart, inverse, apart)))

    def targets(self, counts: Array, target: Array) -> Array:
        """Return what each owner's gradients shall add up to."""
        return np.asarray(counts[:, None] * (self.means + self.covariances @ self.dual(counts, target)))

    def counts(self, target: Array, lesson: int) -> Array:
        """Return the rows of each owner in the likeliest lesson that adds up to `target`: not whole ones.

        Of all mixtures of the owners' rows that have the mean target/n it is the nearest to theirs in relative entropy,
        each owner's gradients taken as normal: n_i ∝ N_i exp(u'm_i + u'V_i u/2) / (1 + strength)^STRONG, and Newton's
        method finds u.
        """
        prior = np.log(self.sizes) - STRONG * np.log1p(self.strengths)
        dual = np.zeros(len(target))

        def value(dual: Array) -> tuple[float, Array]:
            odds = prior + self.means @ dual + 0.5 * np.einsum("i,kij,j->k", dual, self.covariances, dual)
            most = float(odds.max())
            likely = np.exp(odds - most)
            return lesson * (most + float(np.log(likely.sum()))) - float(dual @ target), lesson * likely / likely.sum()

        here, counts = value(dual)
        for _ in range(_STEPS):
            means = self.means + self.covariances @ dual
            gradient = target - counts @ means
            apart = means - counts @ means / lesson
            curvature = np.einsum("k,kij->ij", counts, self.covariances) + (apart.T * counts) @ apart
            step = np.linalg.solve(curvature, gradient)
            slope, length = float(gradient @ step), 1.0
            if slope <= 1e-12 * lesson:
                break
            while (there := value(dual + length * step))[0] > here - 1e-4 * length * slope and length > 1e-9:
                length *= 0.5
            dual, (here, counts) = dual + length * step, there
        return counts


def _shrunk(differences: Array, noise: Array, numbers: int) -> Array:
    """Shrink owners' differences by empirical Bayes: by as much of their mean square as noise explains.

    `noise` is the expected square of the noise in each owner's difference, over `numbers` numbers.
    """
    if not noise.any():
        return differences
    part = (1.0 / noise) / (1.0 / noise).sum()
    squares = np.square(differences.reshape(len(differences), -1)).sum(axis=1)
    doubt = np.sqrt(2.0 / numbers * float(part**2 @ noise**2))
    spread = max(float(part @ (squares - noise)) - SHRINKING * doubt, 0.0)
    return np.asarray(differences * (spread / (spread + noise)).reshape(-1, *[1] * (differences.ndim - 1)))


def _carriers(
    owners: Owners, rows: Positions, wanted: Array, limit: Positions, target: Array, lesson: int
) -> Positions:
    """Leave owners out, one by one, while that makes the lesson better: those asked for too much, or for too few rows."""
    unknowns = len(target) + 1

    def cost(rows: Positions) -> float:
        """Squares of what owners are expected to leave, by rounding or because their rows do not reach so far."""
        on = rows > 0
        few = np.maximum((unknowns / rows[on]) ** 3 - FEWEST**-3.0, 0.0)
        far = rows[on] * np.maximum(owners.tilts(rows.astype(np.float64), target)[on] - FAR, 0.0)
        return float(owners.strengths[on] @ (few + far**2))

    def dealt(some: Positions) -> tuple[float, Positions]:
        rows = np.zeros(len(wanted), dtype=np.int64)
        most = np.minimum(limit[some], (MOST * owners.sizes[some]).astype(np.int64))
        if most.sum() < lesson:
            return np.inf, rows
        rows[some] = proportional(wanted[some], most, lesson)
        return cost(rows), rows

    some = np.arange(len(wanted)) if len(wanted) <= MANY else np.flatnonzero(rows)
    here = dealt(some)
    while np.isfinite(here[0]):
        tried = [dealt(np.delete(some, place)) for place in range(len(some))]
        place = int(np.argmin([pair[0] for pair in tried]))
        if tried[place][0] >= here[0]:
            return here[1]
        here, some = tried[place], np.delete(some, place)
    return rows  # the lesson takes more than a third of all rows: nobody can be left out


@dataclass(frozen=True, eq=False)
class Split:
    """Whole numbers of rows, and what each owner's gradients shall add up to: together the goal's own target."""

    rows: Positions
    targets: Array


def split(
    released: Sequence[Array],
    weights: Array,
    noise: float,
    sizes: Sequence[int],
    target: Array,
    lesson: int,
    most: Sequence[float] | None = None,
) -> Split:
    """Split a target among owners by what they released; where that tells nothing, into fair shares."""
    columns, owned = len(target), np.asarray(sizes, dtype=np.int64)
    weighed: Mask = weights > 0.0
    limit = limits(owned, lesson, most)
    rows = deal_rows(owned.astype(np.float64), owned, limit, columns, lesson)
    targets = rows[:, None] / max(lesson, 1) * target
    fair = Split(rows, targets)
    if not weighed.any() or not lesson:
        return fair
    asked, aim = np.flatnonzero(limit > 0), (weights * target)[weighed]
    try:
        owners = Owners.read([released[int(place)] for place in asked], owned[asked], weights, noise)
        if owners is None or owners.strains(rows[asked], aim / lesson).max() <= EASY:
            return fair
        wanted = np.zeros(len(owned))
        wanted[asked] = owners.counts(aim, lesson)
        rows = deal_rows(wanted, owned, limit, columns, lesson)
        rows[asked] = _carriers(owners, rows[asked], wanted[asked], limit[asked], aim, lesson)
        targets = rows[:, None] / lesson * target
        targets[np.ix_(asked, weighed)] = owners.targets(rows[asked].astype(np.float64), aim) / weights[weighed]
    except np.linalg.LinAlgError:  # somebody released numbers that no rows have
        return fair
    targets += rows[:, None] / lesson * (target - targets.sum(axis=0))  # what rounding of doubles leaves
    return Split(rows, targets) if np.isfinite(targets).all() else fair

"""Rounding a fractional lesson: strong rows first; what their settling leaves, all weaker rows absorb together.

Row j does w_j to the model and counts as one, a_j = (w_j, 1). Given fractions b_j and a target, rows are settled to 0
or 1 block by block, longest w_j first. What a block leaves, r = target − Σ a_j over the lesson as it stands, is absorbed by
tilting the log-odds of all rows still free by a_j'u, u = C⁻¹r with C = Σ b_j(1 − b_j) a_j a_j'. So the last
residual is as short as the weakest rows. (The cube method of balanced sampling, done scale by scale.)

`settle` needs sums only: who holds rows answers an `Instruction` with a `Report`. One owner who rounds alone calls it on
its own rows; owners who round together add their reports up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.special import expit, logit

from superteach.protocol.queries.match import BINS, PER_OCTAVE, Instruction, Report
from superteach.selection.sums import exchange
from superteach.types import Array, Mask, Matrix, Positions

THIN, AMPLE = 0.25, 1_000
"""Rows with a smaller fraction become 0 or THIN, by lot, so that about n/THIN rows stay in play, and AMPLE where the lesson
is small: with 1/8 rounding takes twice the time and gains nothing, with 1/2 there is too little to tilt."""
IN_PLAY, IN_GRAM = 400_000, 4e9
"""Rows that stay in play at most, of an owner who rounds alone or of all who round together, half strong: lots decide
the others first, and what they leave is absorbed like that of a block. Lessons of 1 and 10 million rows of 10⁹ × 28 took 7.6
and 76 s without a limit, 1.0 and 2.3 s with it, and ended equally near. Rows times unknowns² are at most IN_GRAM."""
TILT = 8.0
"""Square of the change in log-odds that free rows may need after a block, by estimate. With 4 there are a tenth
more rounds and risks a third higher; without a limit on the longest rows one lesson in five of 100 columns went astray."""
USUAL = 4.0
"""Weight of the usual row's tilt beside that of the longest one."""
ASTRAY = 2.0
"""A block that asks for this many times more is taken back, and a third as much is tried."""
SLOWER = (1.0, 0.25, 0.05)
"""Limits in units of TILT, tried one after the other while a rounding leaves more than CLOSE."""
SLOW_ENOUGH = (0.25, 0.05)
"""The same for models of several outputs where the goal is out of reach, until little is left beside what is lacking."""
SLOWEST = (0.05, 0.01)
"""The same for models of several outputs, where most rows pull at few of them: a lesson of 15,000 rows and ten classes ends
0.16 away from its goal with 1, 0.014 with 0.25 and 7e-6 with 0.05, each in about the same time."""
CLOSE, CLOSER = 0.2, 200
"""Share of a usual row's length that a rounding may leave before it is tried again with a lower limit; less in lessons of
more than CLOSER rows, which have weak rows enough."""
WEAK = 100.0
"""How much free rows must differ along a residual to absorb it, in units of a row over the limit, where a goal of several
outputs is out of reach. Of 5,000 rows, 330 unknowns, 0.29 is left after 4.1 s; with 10, 0.25 after 7.9 s."""
FLAT = 0.1
"""The same for models of one output where the goal can be balanced. Dummies of rare words leave residuals that no free
row absorbs: without it each block of 6,000 census rows was tilted six times in vain (a lesson took 2.7 s, with it 0.5 s)."""
SPENT = 0.5
"""Freedom per unknown below which nothing can be absorbed, and the rest is settled at once."""
SHARE = 0.6
"""Of the freedom Σ b(1 − b) that is left, a block takes at most this much: the rest has to absorb it."""
ONE_BY_ONE = 20
"""Rows per unknown, at the end of a block, that are settled one by one; those before them by lot, which is faster."""
ENOUGH = 5.0
"""Freedom per unknown at which `settle` hands over to `finish`: below it owners who act at once spoil each other's work."""
HANDFUL = 1.5
"""Rows of an owner who rounds alone, for each unknown, up to which pairs are exchanged from many starts instead: so few
balance nothing, and what they leave adds up over owners. 50 owners with 4 rows each in ten columns end at a risk of 0.81 in
place of 0.86, with 10 at 0.043 in place of 0.063, in a twentieth of the time; with 20 the longer way is better."""
EXACT = ((4, 32), (12, 26), (24, 22))
"""Up to so many unknowns, so many rows are settled by looking at all subsets: 2²⁶ of them take 0.05 s."""
MOST_ROUNDS = 100
"""Rounds beyond the number of unknowns after which a rounding that gets nowhere is cut short."""
MOST_ALONE = 400
"""The same for an owner who rounds alone, where a round costs no message: on tables with rare columns 300 were needed."""
POLISHED = 400
"""Weakest rows of the finish among which pairs are exchanged while that helps."""
_GEMM_WIDTH = 128
"""Up to this width a plain product of rows is as good as the symmetric one."""
_PIECE = 1 << 14
"""Rows whose lengths are computed at once."""
_FEW = 8
"""Free rows are copied where those settled are this many times as many, so that the memory of these is given back."""
EDGE = 1e-9
"""Fractions stay this far from 0 and 1, so that a row can still be tilted back."""


def close(size: int) -> float:
    """Share of a usual row's length that the rounding of a lesson of `size` rows may leave."""
    return CLOSE * min(1.0, CLOSER / max(size, 1))


def in_play(metric: Array) -> int:
    """Rows that stay in play at most; a metric that is a diagonal costs no squares."""
    return IN_PLAY if metric.ndim == 1 else min(IN_PLAY, int(IN_GRAM / (len(metric) + 1) ** 2))


def thinning(size: int) -> float:
    """Fraction below which rows of a lesson of `size` rows are drawn by lot."""
    return min(THIN, max(size, 1) / AMPLE)


@dataclass(frozen=True, eq=False)
class InPlay:
    """One owner's rows in play. Settling gives another `InPlay`; this one stays as it was."""

    rows: Matrix
    """a_j of the free rows; in compressed form where they are wide and sparse, and settled plainly."""
    fractions: Array
    classes: npt.NDArray[np.int16]
    index: npt.NDArray[np.integer]
    """Which rows they are, to their owner."""
    settled: Array
    """Σ a_j over settled rows that are in the lesson."""
    chosen: tuple[npt.NDArray[np.integer], ...] = ()
    before: InPlay | None = None
    age: int = 0
    """Orders obeyed so far."""

    @classmethod
    def begin(
        cls, rows: Matrix, fractions: Array, index: Positions, longest: float, draw: np.random.Generator
    ) -> InPlay:
        """Sort rows into classes of length; a quarter octave of chance in the order breaks ties. Dense rows are moved."""
        octaves = np.maximum(lengths(rows), 1e-300)
        np.log2(np.divide(longest, octaves, out=octaves), out=octaves)
        octaves += 0.5 * draw.random(len(octaves))
        octaves *= PER_OCTAVE
        classes = np.clip(np.floor(octaves, out=octaves), 0, BINS - 1, out=octaves).astype(np.int16)
        del octaves
        order = np.argsort(classes, kind="stable")
        fractions = fractions[order]
        np.clip(fractions, EDGE, 1.0 - EDGE, out=fractions)
        if sparse.issparse(rows):
            rows = rows[order]
        else:
            for column in rows.T:  # a second copy of all rows would be the largest thing in a large lesson
                column[:] = column[order]
        return cls(rows, fractions, classes[order], index[order], np.zeros(rows.shape[1]))

    def report(self) -> Report:
        """Its sums."""
        free = self.fractions * (1.0 - self.fractions)
        third = -(-self.rows.shape[1] // 3)  # not all at once: that would be another copy of all rows
        if self.rows.shape[1] > _GEMM_WIDTH:  # few rows are in play, and a symmetric product takes half the time
            parts = [(half := self.rows * np.sqrt(free)[:, None]).T @ half]
        else:
            parts = [(self.rows.T[k : k + third] * free) @ self.rows for k in range(0, self.rows.shape[1], third)]
        return Report(
            self.settled + self.fractions @ self.rows,
            np.concatenate(parts),
            np.bincount(self.classes, free, BINS).astype(np.float64),
            np.bincount(self.classes, minlength=BINS).astype(np.float64),
        )

    def obey(self, order: Instruction, draw: np.random.Generator) -> InPlay:
        """Tilt, settle, and go on with the rows that are still free."""
        if order.take_back and self.before is not None:
            return self.before.obey(replace(order, take_back=False), draw)
        tilted = np.clip(expit(logit(self.fractions) + np.clip(self.rows @ order.tilt, -2.0, 2.0)), EDGE, 1.0 - EDGE)
        last = int(np.searchsorted(self.classes, np.int16(order.cut), side="right"))
        last = max(0, min(last, len(self.rows) - order.spare))
        taken = settle_block(self.rows[:last], tilted[:last], order, draw)
        rows = self.rows[last:]
        if isinstance(rows.base, np.ndarray) and _FEW * rows.size < rows.base.size:
            rows = rows.copy()  # lets go of all that is settled
        return InPlay(
            rows,
            tilted[last:],
            self.classes[last:],
            self.index[last:],
            self.settled + taken @ self.rows[:last],
            (*self.chosen, self.index[:last][taken]),
            replace(self, before=None),
            self.age + 1,
        )

    def close(self, taken: Mask) -> Positions:
        """The whole choice, with these of the free rows."""
        return np.sort(np.concatenate([*self.chosen, self.index[taken]])).astype(np.int64)


def settle_block(rows: Array, fractions: Array, order: Instruction, draw: np.random.Generator) -> Mask:
    """Settle rows: by lot, and the last ones one by one to the side that leaves the shorter residual."""
    taken = np.empty(len(rows), dtype=bool)
    first = max(0, len(rows) - ONE_BY_ONE * rows.shape[1])
    taken[:first] = draw.random(first) < fractions[:first]
    left = (order.residual + (fractions[:first] - taken[:first]) @ rows[:first]) @ order.root
    taken[first:] = one_by_one(rows[first:] @ order.root, fractions[first:], left)
    return taken


def one_by_one(moves: Array, fractions: Array, left: Array) -> Mask:
    """Settle each row to the side that leaves the shorter residual."""
    taken, left = np.empty(len(moves), dtype=bool), left.copy()
    half = (0.5 - fractions) * np.einsum("ij,ij->i", moves, moves)
    for j in range(len(moves)):
        taken[j] = into = bool(left @ moves[j] > half[j])
        left += (fractions[j] - into) * moves[j]
    return taken


def settle(
    ask: Callable[[Instruction], Report],
    start: Report,
    target: Array,
    longest: float,
    owners: int,
    until_rows: int,
    until: float,
    limit: float = TILT,
    weak: float = 0.0,
) -> Report:
    """Settle rows until at most `until_rows` are free, or `until` of freedom per unknown; the last report.

    `longest` is the length that classes are counted from, `limit` the tilt that a block may ask of the rest, `weak` is WEAK.
    """
    here, size, take_back = start, len(target), False
    part, pace, again, tilts, rounds = 1.0, 1.0, 0, 0, 0
    while here.rows.sum() > until_rows and here.freedom.sum() > until * size:
        residual = target - here.total
        root, step, decrement = _absorbed(here, residual, longest, weak / limit)
        cut = _next_cut(here, decrement, owners, limit * part)
        if cut is None and tilts < 6 and _needed(here, decrement) > 0.1 * limit:
            cut, tilts = -1, tilts + 1
        else:
            tilts = 0
        rounds += 1
        forced = cut is None
        spent = weak and not until_rows and here.freedom.sum() < SPENT * size
        if spent or rounds > (MOST_ROUNDS if owners > 1 else MOST_ALONE) + size:
            if owners > 1:
                break
            cut = BINS
        elif cut is None:  # nothing fits: the longest rows have to go, whatever they leave
            cut = int(np.flatnonzero(here.rows)[0])
        expected = (residual - pace * (here.curvature @ step)) / owners
        there = ask(Instruction(pace * step, cut, root, expected, until_rows, take_back))
        rest = target - there.total
        if cut < 0:
            astray = float(np.sum(np.square(rest @ root))) > float(residual @ step)
        else:
            left = _absorbed(there, rest, longest, weak / limit)[2]
            astray = not forced and there.freedom.sum() > 0.5 * size and _needed(there, left) > ASTRAY * limit
        take_back = astray and again < 8
        if take_back:
            part, pace, again = part / 3.0, pace / 2.0, again + 1
        else:
            here, part, pace, again = there, min(1.0, 2.0 * part), min(1.0, 2.0 * pace), 0
    if take_back:
        here = ask(Instruction(np.zeros(size), -1, np.eye(size), np.zeros(size), until_rows, True))
    return here


def _lengths() -> Array:
    """Square of the longest length in each class, in units of the longest of all."""
    return np.asarray(4.0 ** (-np.arange(BINS) / PER_OCTAVE))


def _absorbed(report: Report, residual: Array, longest: float, weak: float) -> tuple[Array, Array, float]:
    """L with L L' = (C + ε)⁻¹, the tilt u = L L'r, and the square of what it absorbs.

    A residual as short as the weakest rows is none; one along which free rows hardly differ stays (see WEAK).
    """
    square = longest**2 * float(report.freedom @ _lengths()) / max(float(report.freedom.sum()), 1e-300)
    weakest = longest**2 * _lengths()[np.flatnonzero(report.rows)[-1:]].sum()
    floor = max(weakest, weak * square * _needed(report, 1.0))
    diagonal = np.diag(report.curvature)
    softened = report.curvature + np.diag(1e-13 * diagonal + floor + 1e-300)
    scale = 1.0 / np.sqrt(np.diag(softened))
    factor = linalg.cholesky(softened * np.outer(scale, scale), lower=True)
    root = np.asarray(linalg.solve_triangular(factor, np.diag(scale), lower=True).T)
    step = root @ (residual @ root)
    return root, step, float(step @ report.curvature @ step if weak else residual @ step)


def _needed(report: Report, decrement: float) -> float:
    """Square of the tilt in log-odds that free rows need, where the residual's square in C⁻¹ is `decrement`."""
    longest = float(_lengths()[np.flatnonzero(report.rows)[:1]].sum())
    freedom, strength = float(report.freedom.sum()), float(report.freedom @ _lengths())
    return decrement * (longest / max(strength, 1e-300) + USUAL / max(freedom, 1e-300))


def _next_cut(report: Report, decrement: float, owners: int, limit: float) -> int | None:
    """The last class of the largest block whose noise the rest can absorb; None where there is none."""
    size, square = len(report.total), _lengths()
    strength = report.freedom * square
    taken, taken_strength = np.cumsum(report.freedom), np.cumsum(strength)
    rest = strength.sum() - taken_strength
    # Settled one by one, a block leaves what a sixth of a row per unknown and owner weighs; by lot, all it weighs.
    kept = np.minimum(1.0, owners * size / 6.0 / np.maximum(taken, 1e-300))
    kept[np.cumsum(report.rows) > owners * ONE_BY_ONE * size] = 1.0
    carried = decrement * min(1.0, _needed(report, decrement)) * strength.sum()
    with np.errstate(over="ignore"):
        noise = (kept * taken_strength * size + carried) / np.maximum(rest, 1e-300)
        needed = noise * (
            _next_lengths(report) / np.maximum(rest, 1e-300) + USUAL / np.maximum(taken[-1] - taken, 1e-300)
        )
        fits = (needed <= limit) & (rest > 0.0) & (taken > 0.0)
    if not fits.any():
        return None
    most = int(np.searchsorted(taken, SHARE * taken[-1]))
    return max(int(np.flatnonzero(report.rows)[0]), min(int(np.flatnonzero(fits)[-1]), most))


def _next_lengths(report: Report) -> Array:
    """Square of the longest length behind each class, in units of the longest of all; 0 where none is left."""
    present = np.where(report.rows > 0, _lengths(), 0.0)
    return np.append(np.maximum.accumulate(present[::-1])[::-1][1:], 0.0)


def finish(
    rows: Array,
    fractions: Array,
    residual: Array,
    least: int,
    most: int,
    draw: np.random.Generator,
    beyond: Array | float = 0.0,
    starts: int = 1,
    limit: float = TILT,
    weak: float = 0.0,
) -> Mask:
    """Settle the last rows, all in one place: `residual` is what the lesson lacks beside their fractional sum.

    Of them `least` to `most` may be taken. `beyond` is what the fractional lesson itself lacks. The best of several starts.
    """
    wanted = residual + fractions @ rows
    lacking = wanted[:-1] + beyond
    longest = float(np.linalg.norm(rows[:, :-1], axis=1).max(initial=0.0))
    if longest == 0.0:
        taken = np.zeros(len(rows), dtype=bool)
        taken[: min(max(round(float(fractions.sum())), least), most)] = True
        return taken
    found = []
    for _ in range(starts):
        taken = _settle_all(rows, fractions, wanted, longest, draw, limit, weak)
        taken = polish(rows[:, :-1], taken, lacking, least, most)
        found.append((float(np.linalg.norm(lacking - taken @ rows[:, :-1])), taken))
    return min(found, key=lambda pair: pair[0])[1]


def _settle_all(
    rows: Array, fractions: Array, wanted: Array, longest: float, draw: np.random.Generator, limit: float, weak: float
) -> Mask:
    """Settle rows block by block, and the last few of them by looking at all subsets."""
    play = InPlay.begin(rows.copy(), fractions, np.arange(len(rows)), longest, draw)
    few = next((count for width, count in EXACT if rows.shape[1] <= width), 0)

    def ask(order: Instruction) -> Report:
        nonlocal play
        play = play.obey(order, draw)
        return play.report()

    settle(ask, play.report(), wanted, longest, 1, few, 0.0, limit, weak)
    subset = np.zeros(len(play.rows), dtype=bool)
    if 0 < len(play.rows) <= few:
        subset = best_subset(play.rows, wanted - play.settled)
    taken = np.zeros(len(rows), dtype=bool)
    taken[play.close(subset)] = True
    return taken


def settle_plainly(play: InPlay, target: Array, size: int) -> Mask:
    """Settle all rows one by one, strongest first, without matrices: for models too wide for them."""
    width = len(target)
    scale = np.ones(width)
    scale[-1] = float(lengths(play.rows).mean()) if len(play.fractions) else 1.0
    residual = target - play.settled - play.fractions @ play.rows
    if sparse.issparse(play.rows):
        taken = _sparsely(play.rows.multiply(scale).tocsr(), play.fractions, residual * scale)
    else:
        taken = one_by_one(play.rows * scale, play.fractions, residual * scale)
    extra = int(taken.sum()) + sum(map(len, play.chosen)) - size
    some = np.flatnonzero(taken if extra > 0 else ~taken)
    taken[some[len(some) - min(abs(extra), len(some)) :]] = extra <= 0  # the weakest come last
    return taken


def lengths(rows: Matrix) -> Array:
    """‖w_j‖ of rows (w_j, 1), dense or sparse."""
    if sparse.issparse(rows):
        return np.asarray(sparse.linalg.norm(rows[:, :-1], axis=1))
    starts = range(0, max(len(rows), 1), _PIECE)
    return np.concatenate([np.linalg.norm(rows[start : start + _PIECE, :-1], axis=1) for start in starts])


def _sparsely(moves: Matrix, fractions: Array, left: Array) -> Mask:
    """`one_by_one` for rows in compressed form: each looks at its own entries of the residual alone."""
    taken, left = np.empty(len(fractions), dtype=bool), left.copy()
    half = (0.5 - fractions) * np.asarray(moves.multiply(moves).sum(axis=1)).ravel()
    for j, (first, last) in enumerate(pairwise(moves.indptr.tolist())):
        where, move = moves.indices[first:last], moves.data[first:last]
        taken[j] = into = bool(left[where] @ move > half[j])
        left[where] += (fractions[j] - into) * move
    return taken


def best_subset(rows: Array, wanted: Array) -> Mask:
    """Of all subsets of a few rows the one whose sum is nearest to `wanted`, by meeting in the middle."""
    from scipy.spatial import cKDTree  # teachers import this module, and need no such trees

    half = len(rows) // 2
    parts = rows[:half], rows[half:]
    ways = [(np.arange(2 ** len(part))[:, None] >> np.arange(len(part))) & 1 for part in parts]
    tree = cKDTree(ways[0] @ parts[0], balanced_tree=False, compact_nodes=False)
    asked = wanted - ways[1] @ parts[1]
    best, pair = np.inf, (0, 0)
    step = max(64, len(asked) // 64)
    for first in range(0, len(asked), step):  # what is known so far bounds the search of the next
        distance, found = tree.query(asked[first : first + step], distance_upper_bound=best)
        nearest = int(distance.argmin())
        if distance[nearest] < best:
            best, pair = float(distance[nearest]), (int(found[nearest]), first + nearest)
    return np.concatenate([ways[0][pair[0]], ways[1][pair[1]]]).astype(bool)


def polish(rows: Array, taken: Mask, wanted: Array, least: int, most: int) -> Mask:
    """Put the count right, then exchange pairs of weak rows while that shortens the residual."""
    taken = taken.copy()
    left = wanted - taken @ rows
    count = int(taken.sum())
    for _ in range(abs(min(max(count, least), most) - count)):
        sign = -1.0 if count > most else 1.0
        some = np.flatnonzero(taken if count > most else ~taken)
        if not len(some):
            break
        best = some[np.square(left - sign * rows[some]).sum(axis=1).argmin()]
        left, taken[best] = left - sign * rows[best], not taken[best]
    # Few rows can leave a small lesson, so more may enter: as many pairs either way.
    looked = max(POLISHED, min(POLISHED**2 // max(int(taken.sum()), 1), 4 * POLISHED))
    strength = np.einsum("ij,ij->i", rows, rows)
    if int(taken.sum()) <= POLISHED // 4:
        strength[taken] = 0.0
    weak = np.argsort(strength)[:looked]
    chosen = taken[weak]
    taken[weak] = exchange(rows[weak], left + chosen @ rows[weak], chosen[None])[0]
    return taken


def deal(count: int, places: tuple[int, ...]) -> tuple[int, ...]:
    """Deal a count out in proportion to places, no more than there are."""
    total = sum(places)
    edges = np.floor(np.cumsum((0, *places)) * (min(max(count, 0), total) / max(total, 1)) + 1e-9).astype(int)
    return tuple(int(share) for share in np.diff(edges))

"""Small changes that one teacher could make, for the coordinator to pick from those of all teachers.

The row with the weakest pull is the finest tool there is, and all teachers together have finer ones than each alone.
So every teacher tells what some changes of its choice would do: sums of pulls, of rows that enter less rows that leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from superteach.halves import ASKED, near_subsets
from superteach.teacher.refine import finest, weakest

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_SHARE = 4
"""Of single rows proposed, one in so many at least is chosen, and one in so many is not."""
_WAYS, _CANDIDATES = 60_000, 10_000
"""Ways of half the weak rows that a change of several is sought among, with ten columns; and how many of the best
are looked through for such as lie far apart."""


@dataclass(frozen=True, eq=False)
class Proposed:
    """A choice, and the rows that each change of it would flip."""

    chosen: Positions
    changes: tuple[Positions, ...] = ()
    stands: bool = True
    """Whether the choice is still that one, or one that the changes led to."""

    def more(self, count: int) -> bool:
        """Whether so many single rows ask for others beside those told of; of another choice all are told anew."""
        return not self.stands or (self.together and len(self.changes) < count)

    @property
    def together(self) -> bool:
        """Whether several may be made: those of single rows, which have no row in common."""
        return all(len(rows) == 1 for rows in self.changes)

    @property
    def choices(self) -> tuple[Positions, ...]:
        """The choice that each change alone leads to."""
        return tuple(self.choice([number]) for number in range(len(self.changes)))

    def choice(self, made: Sequence[int]) -> Positions:
        """The choice that these changes lead to."""
        flipped = np.concatenate([self.changes[number] for number in made]) if len(made) else ()
        return np.setxor1d(self.chosen, flipped) if len(made) else self.chosen


def propose(
    shifts: Array,
    chosen: Positions,
    count: int,
    least: int,
    past: tuple[Positions, ...],
    told: Proposed | None = None,
    reach: float = 0.0,
    seed: int = 0,
) -> Proposed:
    """At most so many changes: of one row each; or of at least `least` rows, as many in as out, one of which is made.

    Single rows come beside those told of that choice before. The sums of several are told, so the choice that they
    lead to is at least that far from all told before. Where a change must flip very many rows there is none that is
    small.
    """
    before = np.zeros(len(shifts), dtype=bool)
    before[chosen] = True
    size = np.sqrt(np.einsum("ij,ij->i", shifts, shifts))
    if least <= 1:
        told = told if told is not None and told.stands else Proposed(chosen)
        rows = _singles(size, before, told, count, reach, seed)
        return replace(told, changes=(*told.changes, *rows[:, None]))
    if least > ASKED:
        return Proposed(chosen)
    rows = finest(size, before, np.ones_like(before), least, _WAYS * 10 // max(10, shifts.shape[1]))
    if not count or not len(rows):
        return Proposed(chosen)
    signs, nothing = np.where(before[rows], -1, 1), np.zeros(shifts.shape[1])
    flips = near_subsets(signs[:, None] * shifts[rows], signs, nothing, least, count=_CANDIDATES)
    flips = flips[_far_from(flips, before, rows, past, least)]
    picked: list[Positions] = []
    while len(flips) and len(picked) < count:
        picked.append(np.sort(rows[flips[0]]))
        flips = flips[np.count_nonzero(flips ^ flips[0], axis=1) >= least]
    return Proposed(chosen, tuple(picked))


def _far_from(flips: Mask, before: Mask, rows: Positions, past: tuple[Positions, ...], least: int) -> Mask:
    """Which flips of these rows lead to a choice that is at least so far from all earlier ones."""
    far = np.ones(len(flips), dtype=bool)
    for old in past:
        differs = before.copy()
        differs[old] = ~differs[old]
        beside = np.count_nonzero(differs) - np.count_nonzero(differs[rows])
        far &= beside + np.count_nonzero(flips ^ differs[rows], axis=1) >= least
    return far


def _singles(size: Array, before: Mask, told: Proposed, count: int, reach: float, seed: int) -> Positions:
    """Rows beside those told of, so many in all: the weakest, with some on both sides; or, to enter, any within reach."""
    free = np.ones(len(size), dtype=bool)
    free[np.concatenate([np.zeros(0, dtype=np.int64), *told.changes])] = False
    count = max(0, count - len(told.changes))
    inside, outside = (
        rows[np.argsort(size[rows], kind="stable")]
        for rows in (weakest(size, np.flatnonzero(side & free), count) for side in (before, ~before))
    )
    if reach > 0.0:
        leave = min(count // 2, len(inside))
        within = np.flatnonzero(~before & free & (size <= reach))
        if len(within) > count - leave:
            draw = np.random.default_rng([seed, len(told.changes)])
            outside = draw.choice(within, count - leave, replace=False)
    else:
        both = np.argsort(np.concatenate([size[inside], size[outside]]), kind="stable")[:count]
        some = count // 2 if count < _SHARE else -(-count // _SHARE)
        leave = min(max(int(np.count_nonzero(both < len(inside))), some), count - some)
    # Where one side has too few, the other fills their places.
    leave = min(max(leave, count - len(outside)), len(inside))
    rows = np.concatenate([inside[:leave], outside[: count - leave]])
    return rows[np.argsort(size[rows], kind="stable")]

"""The last step of refine, all teachers together: each proposes small changes, and those are made that cancel best.

A turn has one teacher's rows to work with, and what it leaves is as long as that teacher's weakest pulls. All
teachers together have weaker ones, and many more ways to combine them: with V changes proposed there are 2^V.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from superteach.federation import Federation
from superteach.halves import ASKED, near_subsets
from superteach.queries import Propose

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MOST_ROUNDS = 9
"""Rounds in which changes are proposed; a reply holds d + 1 of them, with d + 1 numbers each."""
MOST_CHANGES = 99
"""Changes to be proposed, all teachers together; more take longer to search through."""
_WAYS = 100_000
"""Ways that half of the changes may have with ten columns, which is what the search takes time for."""
_DEPTHS, _DEEPEST = (4, 6, 4), (50,)
"""Changes made in each half, at most, in one search after another: few of many, more of the finest, and few again. Of
changes of several rows, where a teacher makes one, as many as there are teachers."""
_ALTERNATIVES = 25
"""Changes of several rows of one teacher that are looked at: one of them can be made."""
MOST_COLUMNS = 25
"""With more columns so few changes do not cancel."""
LEAST_TEACHERS = 5
"""With fewer teachers there are too few ways to combine changes of which each makes one."""
_ASKEW = 1
GATHERINGS, TIMES = 3, 2
"""In a lesson of few rows: how often changes are gathered, and how often some are made after each."""
_REACH, _WITHIN = 3.5, 8.0
"""There, how long a shift may be beside the residual: of rows to propose, and of changes to search through."""
_LEAVE, _ENTER = 15, 60
"""Changes drawn for one search: those by which rows leave, and those by which rows enter."""
_TRIES, _DEPTH, _FEWER_WAYS = 2, 4, 20_000
"""Searches before some are made, changes in each half at most, and ways of a half."""


@dataclass(frozen=True, eq=False)
class Proposals:
    """Changes that teachers proposed: whose they are, what they shift, and by how many rows the lesson would grow.

    Of several rows as many enter as leave, and one such change of a teacher can be made. Of single rows any can.
    """

    owners: Positions
    numbers: Positions
    shifts: Array
    balance: Positions

    def best(self, residual: Array) -> Positions:
        """Which to make, all at once, so that as little as possible of the residual is left; none if none helps."""
        # Threads of the library that wait for each other cost more than they bring.
        with ThreadpoolController().limit(limits=1):
            return self._best(residual)

    def _best(self, residual: Array) -> Positions:
        made = np.zeros(len(self.owners), dtype=bool)
        # Each search goes on from where the last one ended: what is made can be taken back.
        for depth in _DEPTHS if np.any(self.balance) else _DEEPEST:
            made, residual = self._onward(residual, made, depth, self._free(made), _WAYS)
        return np.flatnonzero(made)

    def some(self, residual: Array, made: Mask, draw: np.random.Generator) -> Mask:
        """Which to make where these are made: a few searches, each through some changes drawn from those near in size."""
        with ThreadpoolController().limit(limits=1):
            lengths = np.linalg.norm(self.shifts, axis=1)
            for _ in range(_TRIES):
                drawn = self._drawn(lengths, _WITHIN * float(np.linalg.norm(residual)), made, draw)
                made, residual = self._onward(residual, made, _DEPTH, drawn, _FEWER_WAYS)
        return made

    def _drawn(self, lengths: Array, within: float, made: Mask, draw: np.random.Generator) -> Positions:
        """Some of both kinds: a small lesson has few weak rows that could leave, and each makes room for another."""
        free = self._free(made)
        free = free[np.argsort(lengths[free], kind="stable")]
        leaves = (self.balance[free] < 0) != made[free]
        drawn = [
            draw.choice(
                side[: max(count, int(np.count_nonzero(lengths[side] <= within)))],
                min(count, len(side)),
                False,
            )
            for side, count in ((free[leaves], _LEAVE), (free[~leaves], _ENTER))
        ]
        return np.sort(np.concatenate(drawn))

    def _free(self, made: Mask) -> Positions:
        """Changes to look at: who has made one of several rows can take it back, and make no other."""
        busy = np.isin(self.owners, self.owners[made]) & (self.balance == 0)
        return np.flatnonzero(made | ~busy)

    def _onward(
        self, residual: Array, made: Mask, depth: int, free: Positions, ways: int
    ) -> tuple[Mask, Array]:
        """Make, or take back, those of the free changes that leave least of the residual."""
        signs = np.where(made, -1, 1)
        turned = replace(self, shifts=signs[:, None] * self.shifts, balance=signs * self.balance)
        found = turned._search(residual, depth, free, ways)
        after = made.copy()
        after[found] ^= True
        return after, residual + turned.shifts[found].sum(axis=0)

    def seen(self, metric: Array) -> Proposals:
        """With shifts of the model in place of pulls."""
        return replace(self, shifts=self.shifts @ metric.T)

    def beside(self, others: Proposals) -> Proposals:
        """These and those."""
        return Proposals(
            np.concatenate([self.owners, others.owners]),
            np.concatenate([self.numbers, others.numbers]),
            np.concatenate([self.shifts, others.shifts]),
            np.concatenate([self.balance, others.balance]),
        )

    def those(self, made: Mask | Positions) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Whose they are and which, as a query says it."""
        return tuple(self.owners[made].tolist()), tuple(self.numbers[made].tolist())

    def _search(self, residual: Array, depth: int, free: Positions, ways: int) -> Positions:
        """The changes that leave least of the residual, so many in each half at most; none if none helps."""
        some = self._few(
            free[np.argsort(np.linalg.norm(self.shifts[free], axis=1), kind="stable")], depth, ways
        )
        subsets = near_subsets(
            self.shifts[some], self.balance[some], residual, 0, depth, _ASKEW, self._groups(some)
        )
        found = some[subsets[0]] if len(subsets) else some[:0]
        shorter = np.linalg.norm(residual + self.shifts[found].sum(axis=0)) < np.linalg.norm(residual)
        return found if shorter else found[:0]

    def _groups(self, some: Positions) -> Positions:
        """Changes of one group exclude each other; groups alike are side by side, so that halves get some of each."""
        alone = np.where(self.balance[some] == 0, -1, np.arange(len(some)))
        keys = np.column_stack([self.balance[some], np.where(alone < 0, self.owners[some], 0), alone])
        return np.asarray(np.unique(keys, axis=0, return_inverse=True)[1].ravel())

    def _few(self, order: Positions, depth: int, ways: int) -> Positions:
        """The finest changes, as many as can be searched through, with so many ways of a half for ten columns."""
        most = ways * 10 // max(10, self.shifts.shape[1])
        few, many = 0, min(len(order), MOST_CHANGES) + 1
        if self._ways(order[: many - 1], depth) <= most:
            return order[: many - 1]
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if self._ways(order[:middle], depth) <= most else (few, middle)
        return order[:few]

    def _ways(self, some: Positions, depth: int) -> int:
        """How many ways half of the changes have: every second group."""
        groups, ways = self._groups(some), {(0, 0): 1}
        for group in range(0, int(groups.max(initial=-1)) + 1, 2):
            members, then = self.balance[some][groups == group].tolist(), dict(ways)
            for (tilt, made), count in ways.items():
                for more in members if made < depth else ():
                    key = tilt + more, made + 1
                    then[key] = then.get(key, 0) + count
            ways = then
        return sum(count for (tilt, _), count in ways.items() if abs(tilt) <= _ASKEW)


def useful(teachers: int, columns: int, least: int) -> bool:
    """Whether the step is worth its rounds."""
    return columns <= MOST_COLUMNS and (least <= 1 or (least <= ASKED and teachers >= LEAST_TEACHERS))


def gather(
    federation: Federation,
    goal: Array,
    metric: Array,
    least: int,
    before: int = 0,
    residual: Array | None = None,
    seed: int = 0,
) -> Proposals:
    """Ask for changes and their pulls, as many of every teacher, in a few rounds; of many teachers some are asked.

    It may be the first time, or the next after so many. Where a residual is given, rows are drawn from those that
    shift the model not much farther.
    """
    slots = len(goal) + 1
    most = min(MOST_CHANGES, MOST_ROUNDS * slots)
    if least <= 1:
        each = max(2, most // federation.teachers)  # one that enters and one that leaves
        asked = min(federation.teachers, most // each)
    else:  # no more than can be searched through, with none or one of each teacher
        asked = min(federation.teachers, most // 3)
        each = max(1, min(most // asked, int(_WAYS ** (2.0 / asked)) - 1, _ALTERNATIVES))
    askers = np.unique(np.linspace(0, federation.teachers - 1, asked).astype(int))
    owners, numbers = np.repeat(askers, each), np.tile(np.arange(each), len(askers)) + before * each
    reach = 0.0 if residual is None else _REACH * float(np.linalg.norm(residual))
    replies = [
        federation.sum(
            Propose(
                goal,
                metric,
                least,
                (before + 1) * each,
                tuple(owners[first : first + slots].tolist()),
                tuple(numbers[first : first + slots].tolist()),
                reach,
                seed,
            )
        )
        for first in range(0, len(owners), slots)
    ]
    pulls = np.concatenate(replies)
    balance = np.rint(pulls[:, -1]).astype(np.int64)
    looked = (balance != 0) | (numbers < _ALTERNATIVES)
    given = np.flatnonzero(np.any(pulls != 0.0, axis=1) & looked)
    return Proposals(owners[given], numbers[given], pulls[given, :-1], balance[given])

"""Search for few rows whose removal brings a statistic to 0: greedy orders, repeated influences, exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from superteach.robustness.regression import Regression, Statistic
from superteach.types import Array, Positions

Report = Callable[[str], None]


ROUNDS = 12
"""Choices of k rows in a row, each by the influences after the one before; they mostly repeat after four."""
SINGLY = 500
"""Rows that are removed one by one; beyond, a hundredth of those gone at a time: large tables would take hours."""
EXCHANGES = 40
"""Exchanges of a row removed for one kept that are refitted before a set counts as good, most promising first."""


@dataclass(frozen=True, eq=False)
class Removal:
    """Rows removed, the model of all others, and the statistic there."""

    rows: Positions
    model: Array
    value: float


@dataclass(eq=False)
class RemovalSearch:
    """The best removal of each size that was tried."""

    regression: Regression
    statistic: Statistic
    most: int
    """Most rows that may be removed."""
    report: Report = lambda text: None
    best: dict[int, Removal] = field(default_factory=dict)

    def run(self) -> Removal | None:
        """Find few rows without which the statistic is at most 0; None where the search finds none."""
        for exact in (False, True):
            for refit in (False, True):
                self.report("greedy removal" if refit else "removal by influence")
                self._in_order(exact, refit)
        self.improve()
        return self.fewest()

    def fewest(self) -> Removal | None:
        """Return the smallest removal that is enough."""
        enough = [one for one in self.best.values() if one.value <= 0.0]
        return min(enough, key=lambda one: (len(one.rows), one.value), default=None)

    def path(self) -> tuple[Removal, ...]:
        """Return the best removal of 1, 2, … rows, up to the smallest that is enough or to the largest tried."""
        last = self.fewest()
        end = max(self.best, default=0) if last is None else len(last.rows)
        return tuple(self.best[count] for count in range(1, end + 1) if count in self.best)

    def try_rows(self, rows: Positions, start: Array | None = None) -> Removal | None:
        """Refit without these rows and keep the removal if it is the best of its size; None where no model is left."""
        rows = np.sort(np.asarray(rows, dtype=np.int64))
        model = self.regression.fit(rows, self.regression.model if start is None else start)
        if not np.isfinite(model).all():
            return None
        value = self.statistic.value(self.regression, self.regression.kept(rows), model)
        if not np.isfinite(value):
            return None
        removal = Removal(rows, model, value)
        if len(rows) not in self.best or value < self.best[len(rows)].value:
            self.best[len(rows)] = removal
        return removal

    def _limit(self) -> int:
        found = self.fewest()
        return self.most if found is None else len(found.rows)

    def _in_order(self, exact: bool, refit: bool) -> None:
        """Remove one row after the other by influence, computed once or after each refit, until it is enough."""
        kept = np.ones(self.regression.count, dtype=bool)
        model = self.regression.model
        scores = self.statistic.influences(self.regression, kept, model, exact)
        order = np.argsort(-scores, kind="stable")
        removed: list[int] = []
        while len(removed) < self._limit():
            size = 1 if len(removed) < SINGLY else len(removed) // 100
            size = min(size, self._limit() - len(removed))
            rows = order[len(removed) : len(removed) + size]
            if refit and removed:
                scores = self.statistic.influences(self.regression, kept, model, exact)
                rows = np.argsort(np.where(kept, -scores, np.inf), kind="stable")[:size]
            removed.extend(rows.tolist())
            kept[rows] = False
            removal = self.try_rows(np.array(removed), model)
            if removal is None or removal.value <= 0.0:
                return
            model = removal.model

    def improve(self, candidates: Iterable[Positions] = ()) -> None:
        """Look for fewer rows than are known to be enough: from candidates, and below the smallest removal known."""
        for rows in candidates:
            self.try_rows(rows)
        found = self.fewest()
        high = self.most + 1 if found is None else len(found.rows)
        low, step = 0, 1
        while high - low > 1:
            count = max(high - step, (low + high) // 2)
            self.report(f"search among sets of {count:,} rows")
            if self.lower(count):
                high, step = count, 2 * step
            else:
                low, step = count, 1

    def lower(self, count: int) -> bool:
        """Tell whether `count` rows bring the statistic to 0, as far as repeated influences and exchanges find out."""
        kept, model = np.ones(self.regression.count, dtype=bool), self.regression.model
        seen: set[bytes] = set()
        for _ in range(ROUNDS):
            scores = self.statistic.influences(self.regression, kept, model)
            chosen = np.sort(np.argpartition(-scores, count - 1)[:count])
            if chosen.tobytes() in seen:
                break
            seen.add(chosen.tobytes())
            removal = self.try_rows(chosen, model)
            if removal is None:
                break
            kept, model = self.regression.kept(removal.rows), removal.model
        best = self.best.get(count)
        while best is not None and best.value > 0.0:
            better = self._exchange(best)
            if better is None:
                return False
            best = better
        return best is not None

    def _exchange(self, now: Removal) -> Removal | None:
        """Exchange a removed row for a kept one so that the statistic falls; None where no promising exchange does."""
        kept = self.regression.kept(now.rows)
        scores = self.statistic.influences(self.regression, kept, now.model)
        most = EXCHANGES
        back = now.rows[np.argsort(scores[now.rows])][:most]
        others = np.flatnonzero(kept)
        out = others[np.argsort(-scores[others])][:most]
        gain = scores[out][:, None] - scores[back][None, :]
        for place in np.argsort(-gain, axis=None)[:most]:
            new, old = np.unravel_index(place, gain.shape)
            rows = np.append(now.rows[now.rows != back[old]], out[new])
            trial = self.try_rows(rows, now.model)
            if trial is not None and trial.value < now.value - 1e-12 * (1.0 + abs(now.value)):
                return trial
        return None

"""What restarts, walks over sizes and the way back to the best choice add to what can be subtracted.

A search begins where all teachers choose anew (`Keep`) and ends where they do so again, or go back to an earlier choice
(`Recall`). Within a search the rule of refine holds for any two rounds. Between searches all teachers change at once.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

import superteach as st
from superteach.goals import PerturbedFit
from superteach.losses import Logistic
from superteach.queries import Approach, AskMoments, Keep, Recall, Refine

ROWS, WIDTH, K, LEAST = 300, 4, 3, 10
FAR = 30.0 * np.array([0.6, -0.4, 0.8, 0.2])


class Listener(st.InProcess):
    """Keeps, search by search, every choice whose sums or counts were heard."""

    def __init__(self, teachers):
        super().__init__(teachers)
        self.searches: list[list[list[np.ndarray]]] = []
        self.returns: list[list[np.ndarray]] = []
        self._open = False

    def sum(self, query, number):
        """The sum as ever."""
        total = super().sum(query, number)
        if isinstance(query, Keep):
            self.searches.append([])
            self._open = True
        if isinstance(query, Recall) and not query.remember:
            self.returns.append(self.choice())
            self._open = False
        moments = isinstance(query, AskMoments) and query.rows == "chosen"
        if self._open and (moments or isinstance(query, Keep | Refine | Approach)):
            self.searches[-1].append(self.choice())
        return total

    def choice(self) -> list[np.ndarray]:
        """Every teacher's own."""
        return [
            teacher.ids[state.chosen] for teacher, state in zip(self._teachers, self.states(), strict=True)
        ]


def changes(first: list[np.ndarray], second: list[np.ndarray]) -> list[int]:
    """In how many rows each teacher's two choices differ."""
    return [len(np.setxor1d(old, new)) for old, new in zip(first, second, strict=True)]


def overheard(pool, *, own_costs: bool = False, goal=PerturbedFit(4), **options) -> Listener:  # noqa: B008
    """A lesson of three teachers who change ten rows at a time."""
    X, y = pool("logistic", ROWS, WIDTH, 20)
    costs = np.random.default_rng(5).random(ROWS)
    engine = Listener(
        [
            st.Teacher(f"t{i}", X[part], y[part], part, costs[part] if own_costs else None)
            for i, part in enumerate(np.array_split(np.arange(ROWS), K))
        ]
    )
    st.teach(st.Federation(engine), st.Learner(Logistic(), 1.0), goal, least_change=LEAST, **options)
    return engine


CASES = {
    "restarts": {"budget": 60, "restarts": 3},
    "own costs": {"budget": 60, "restarts": 3, "own_costs": True},
    "sizes": {"budget": (59, 61), "restarts": 2},
    "out of reach": {"budget": 60, "restarts": 3, "goal": FAR},
    "smallest": {"budget": "smallest", "restarts": 2, "risk_target": 0.1},
}


@pytest.fixture(scope="module")
def heard(pool) -> dict[str, Listener]:
    """One lesson of each kind."""
    return {name: overheard(pool, **options) for name, options in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_within_a_search_ten_rows_change_or_none(heard, name):
    """Any two rounds of a search: a teacher's choices differ in ten rows at least, or not at all."""
    moved = 0
    for rounds in heard[name].searches:
        for first, second in combinations(rounds, 2):
            counts = changes(first, second)
            assert all(count == 0 or count >= LEAST for count in counts)
            moved += any(counts)
    assert moved
    assert len(heard[name].searches) > 1


@pytest.mark.parametrize("name", ["sizes", "smallest"])
def test_going_back_shows_no_new_choice(heard, name):
    """Every choice that `Recall` brings back was heard before, by all teachers together."""
    engine = heard[name]
    known = {tuple(part.tobytes() for part in choice) for rounds in engine.searches for choice in rounds}
    assert engine.returns
    assert all(tuple(part.tobytes() for part in choice) in known for choice in engine.returns)


def nearest_rounds(engine: Listener) -> int:
    """In how many rows, over all teachers, two rounds of different searches differ at least."""
    return min(
        sum(changes(first, second))
        for one, other in combinations(engine.searches, 2)
        for first, second in product(one, other)
    )


@pytest.mark.parametrize("name", ["restarts", "sizes", "out of reach"])
def test_another_search_is_another_lesson(heard, name):
    """Restarts, and sizes that differ by one row, draw other costs: no two rounds are within ten rows in all."""
    assert nearest_rounds(heard[name]) >= LEAST


def test_own_costs_bring_searches_near_each_other(heard):
    """A known limit: where owners' costs decide, another search ends at nearly the same rows."""
    assert 0 < nearest_rounds(heard["own costs"]) < LEAST

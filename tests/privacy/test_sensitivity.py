"""What one row can change: rows are searched for that change a release by more than its sensitivity says.

A reply is a sum over rows, so a row more or less changes it by the reply of a teacher that holds this row alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

import superteach as st
from superteach.line import queries
from superteach.line.messages import Turn
from superteach.line.queries.private import Cap, DualCap, Private, Release
from superteach.losses import LOSSES
from superteach.teacher.capped import HANDLERS

TURN = Turn(1, 0, 1)
HOLDS = {
    "dense": lambda X: X,
    "dense, float32": lambda X: X.astype(np.float32),
    "sparse": sparse.csr_array,
    "sparse, float32": lambda X: sparse.csr_array(X.astype(np.float32)),
}
ROUNDED = 1.0 + 1e-12
"""A hundredth of a step of noise, 4e-8 of its deviation, is allowed for beside the sensitivity: doubles need far less."""


@dataclass(frozen=True)
class Case:
    """A script's questions about one lesson, drawn at random."""

    loss: str
    constant: float
    columns: int
    hold: str
    asked: tuple[Private, ...]
    """`Sketch` first: what follows takes pulls from it."""

    def changes(self, x: np.ndarray, y: float) -> list[tuple[str, float]]:
        """How much of its sensitivity each release changes by, for one row."""
        teacher = st.Teacher("one", HOLDS[self.hold](x[None, :]), np.array([y]))
        state, _ = HANDLERS[queries.Begin](teacher, queries.Begin(LOSSES[self.loss](), self.constant), None, TURN)
        found = []
        for query in self.asked:
            state, reply = HANDLERS[type(query)](teacher, query, state, TURN)
            ends = np.cumsum([part.numbers for part in query.releases])
            for place, (part, numbers) in enumerate(
                zip(query.releases, np.split(reply, ends[:-1]), strict=True), start=1
            ):
                assert np.isfinite(numbers).all(), f"{query.name} is no number for {x} of {self}"
                found.append((f"{query.name} {place}", float(np.linalg.norm(numbers)) / part.sensitivity))
        return found


def drawn(draw: np.random.Generator) -> Case:
    columns, constant = int(draw.integers(1, 13)), float(draw.choice([0.0, 1.0, 3.0]))
    width, name = columns + (constant > 0.0), str(draw.choice(list(LOSSES)))
    weights = np.exp2(draw.uniform(-30.0, 30.0, width) if draw.random() < 0.5 else np.full(width, draw.uniform(-6, 6)))
    point = draw.standard_normal(width + 1) * 10 ** draw.uniform(-2, 2)
    after, base = point + draw.standard_normal(width + 1) * 10 ** draw.uniform(-9, 1), draw.uniform(-5.0, 3.0)
    if draw.random() < 0.5:  # a row along the prices is as likely as not between the two
        after, base = 1.1 * point, -1.05 * float(np.linalg.norm(point))
    cap = Cap(weights, float(np.exp2(draw.uniform(-30, 30))), base, draw.uniform(0.01, 1.0))
    most = min(LOSSES[name]().most_curvature, 1.0)
    goal = draw.standard_normal(width) * 10 ** draw.uniform(-3, 2)
    switch = float(draw.choice([0.0, 1.0])) * 10 ** draw.uniform(-3, 1)
    dual = DualCap(weights, float(np.exp2(draw.uniform(-30, 30))), draw.standard_normal(width), switch)
    asked = (
        queries.Sketch(goal, weights, 2.0 * most * width, (0.1,) * 5),
        queries.Widths(columns, 0.1),
        queries.Pull(point, cap, 0.1, 0.1),
        queries.PullChange(point, after, cap, 0.1),
        queries.Bend(point, cap, 10 ** draw.uniform(-5, 5), 0.1),
        queries.Lengths(goal, weights, 0.1),
        queries.RowSquares(weights, 10 ** draw.uniform(-5, 5), 0.1),
        queries.DualPull(goal, dual, 0.1, 0.1),
        queries.CountAbove(goal, dual, float(draw.standard_normal()), 0.1),
    )
    return Case(name, constant, columns, str(draw.choice(list(HOLDS))), asked)


def row_of(draw: np.random.Generator, case: Case) -> tuple[np.ndarray, float]:
    """A row of any size that a teacher takes in, from numbers that squares cannot hold to the largest allowed."""
    low, high = (-44.0, 37.0) if "32" in case.hold else (-170.0, 99.0)
    size = 10.0 ** (draw.uniform(low, high) if draw.random() < 0.6 else draw.uniform(-3.0, 3.0))
    spread = 10.0 ** draw.uniform(-1.0, 1.0, case.columns) if draw.random() < 0.5 else np.ones(case.columns)
    x = np.clip(draw.choice([-1.0, 1.0], case.columns) * size * spread, -1e99, 1e99)
    if LOSSES[case.loss].classifies:
        return x, float(draw.choice([-1.0, 1.0]))
    return x, float(abs(draw.standard_normal()) * 10.0 ** draw.uniform(-3.0, 3.0))


def worst(seed: int, cases: int, climbs: int = 12) -> dict[str, float]:
    """The most that any row found changed each release by; rows that change much are moved on uphill."""
    draw, most = np.random.default_rng(seed), {}
    for _ in range(cases):
        case = drawn(draw)
        x, y = row_of(draw, case)
        best = dict(case.changes(x, y))
        wanted = "PullChange 1" if draw.random() < 0.5 else str(draw.choice(list(best)))  # the hardest to climb
        for _ in range(climbs):
            moved = x * 10.0 ** (draw.standard_normal(case.columns) * 10.0 ** draw.uniform(-3.0, 0.0))
            moved = np.clip(moved, *((-3e37, 3e37) if "32" in case.hold else (-1e99, 1e99)))
            found = dict(case.changes(moved, y))
            if found[wanted] >= best[wanted]:
                x = moved
            best = {name: max(value, best[name]) for name, value in found.items()}
        most = {name: max(value, most.get(name, 0.0)) for name, value in best.items()}
    return most


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_row_changes_a_release_by_more_than_its_sensitivity(seed):
    found = worst(seed, 200)
    assert len(found) == 15
    assert max(found.values()) <= ROUNDED, found
    assert min(found.values()) > 0.8, f"the search is too weak to say anything: {found}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "part"),
    [("Sketch", 0), ("Sketch", 1), ("Sketch", 2), ("Sketch", 3), ("Sketch", 4), ("Widths", 0), ("Pull", 0), ("Pull", 1),
     ("PullChange", 0), ("Bend", 0)],
)  # fmt: skip
def test_a_sensitivity_a_quarter_too_small_is_found_out(kind, part, monkeypatch):
    asked = getattr(queries, kind)
    stated = asked.releases.fget

    def understated(self: Private) -> tuple[Release, ...]:
        parts = list(stated(self))
        parts[part] = parts[part]._replace(sensitivity=0.75 * parts[part].sensitivity)
        return tuple(parts)

    monkeypatch.setattr(asked, "releases", property(understated))
    found = worst(0, 200 if kind == "PullChange" else 40)  # few rows lie between the prices
    assert [name for name, value in found.items() if value > ROUNDED] == [f"{kind} {part + 1}"]


@pytest.mark.parametrize("hold", list(HOLDS))
def test_rows_that_doubles_cannot_square_pull_at_nothing(hold):
    """Once 29 columns of 1e-23 in float32 changed the sums by 10^15 times their sensitivity, and 1e-160 ended the lesson."""
    width = 29
    sketch = queries.Sketch(np.ones(width), np.full(width, 2.0**30), 1.0, (0.1,) * 5)
    for size in (1e-23, 2.7e-23, 1e-22, 1.0, 1e18, 1e20, 1e30) + (() if "32" in hold else (1e-160, 2e-162, 1e99)):
        for loss, y in (("squared", 1.0), ("poisson", 3.0), ("logistic", 1.0)):
            changes = Case(loss, 0.0, width, hold, (sketch,)).changes(np.linspace(0.5, 1.0, width) * size, y)
            assert max(value for _, value in changes) <= ROUNDED

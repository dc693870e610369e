"""What one row can change: rows are searched for that change a release by more than its sensitivity says.

A release is a sum over rows, so a row more or less changes it by the reply of a teacher that holds this row alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

import superteach as st
from superteach.losses import LOSSES
from superteach.protocol.messages import Turn
from superteach.protocol.queries.private import CountMagnitudes, Private, SecondMoments
from superteach.teacher import HANDLERS

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
    """Both releases of one lesson, drawn at random."""

    loss: str
    columns: int
    hold: str
    asked: tuple[Private, ...]

    def changes(self, x: np.ndarray, y: float) -> dict[str, float]:
        """How much of its sensitivity each release changes by, for one row."""
        teacher = st.Teacher("one", HOLDS[self.hold](x[None, :]), np.array([y]))
        found = {}
        for query in self.asked:
            _, reply = HANDLERS[type(query)](teacher, query, teacher.start(), TURN)
            assert reply.shape == (query.reply_length,)
            assert np.isfinite(reply).all(), f"{query.name} is no number for {x} of {self}"
            found[query.name] = float(np.linalg.norm(reply)) / query.release.sensitivity
        return found


def drawn(draw: np.random.Generator) -> Case:
    columns, constant = int(draw.integers(1, 13)), float(draw.choice([0.0, 1.0, 3.0]))
    width, name = columns + (constant > 0.0), str(draw.choice(list(LOSSES)))
    weights = np.exp2(draw.uniform(-30.0, 30.0, width) if draw.random() < 0.5 else np.full(width, draw.uniform(-6, 6)))
    about = LOSSES[name](), constant, draw.standard_normal(width) * 10 ** draw.uniform(-3, 2)
    asked = CountMagnitudes(*about), SecondMoments(*about, weights)
    return Case(name, columns, str(draw.choice(list(HOLDS))), asked)


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
        best = case.changes(x, y)
        wanted = str(draw.choice(list(best)))
        for _ in range(climbs):
            moved = x * 10.0 ** (draw.standard_normal(case.columns) * 10.0 ** draw.uniform(-3.0, 0.0))
            moved = np.clip(moved, *((-3e37, 3e37) if "32" in case.hold else (-1e99, 1e99)))
            found = case.changes(moved, y)
            if found[wanted] >= best[wanted]:
                x = moved
            best = {name: max(value, best[name]) for name, value in found.items()}
        most = {name: max(value, most.get(name, 0.0)) for name, value in best.items()}
    return most


@pytest.mark.long(every=3)
@pytest.mark.parametrize("seed", range(3))
def test_no_row_changes_a_release_by_more_than_its_sensitivity(seed):
    found = worst(seed, 200)
    assert len(found) == 2
    assert max(found.values()) <= ROUNDED, found
    assert min(found.values()) > 0.8, f"the search is too weak to say anything: {found}"


@pytest.mark.parametrize("kind", [CountMagnitudes, SecondMoments])
def test_a_sensitivity_a_quarter_too_small_is_found_out(kind, monkeypatch):
    right = kind.release.fget
    monkeypatch.setattr(
        kind, "release", property(lambda self: right(self)._replace(sensitivity=0.75 * right(self).sensitivity))
    )
    assert worst(0, 60)[kind.__name__] > 1.05


@pytest.mark.parametrize("hold", HOLDS)
def test_rows_that_doubles_can_hardly_hold_change_no_more(hold):
    """Squares of such rows lose digits or are no numbers; the reply stays within bounds."""
    width = 4
    for size in (1e-23, 2.7e-23, 1e-22, 1.0, 1e18, 1e20, 1e30) + (() if "32" in hold else (1e-160, 2e-162, 1e99)):
        for loss, y in (("squared", 1.0), ("poisson", 3.0), ("logistic", 1.0)):
            about = LOSSES[loss](), 0.0, np.ones(width)
            asked = CountMagnitudes(*about), SecondMoments(*about, np.full(width, 2.0**30))
            changes = Case(loss, width, hold, asked).changes(np.linspace(0.5, 1.0, width) * size, y)
            assert max(changes.values()) <= ROUNDED

"""Attacks that are quick: what leaves, what a lesson's files say, and an account that cannot be reset by a disguise.

The laboratory's audit runs these and slower ones on any table, and measures ε with thousands of lessons.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.linear_model import LogisticRegression

import superteach as st
from superteach.coordinator.teach import teach
from superteach.exceptions import BudgetSpent, QueryRefused
from superteach.lesson import Lesson, to_json
from superteach.losses import Logistic
from superteach.privacy.accounting import Mode
from superteach.privacy.guard import Account, Guard
from superteach.privacy.ledger import AuditLog, Ledger
from superteach.privacy.policy import draft
from superteach.protocol import wire
from superteach.protocol.messages import Turn
from superteach.protocol.queries import CountMagnitudes, SecondMoments
from superteach.report import page_of
from superteach.teacher import HANDLERS

TURN = Turn(1, 0, 1)
GOAL = np.array([0.6, -0.4, 0.3, 0.1])
ASKED = CountMagnitudes(Logistic(), 1.0, GOAL)
MOMENTS = SecondMoments(Logistic(), 1.0, GOAL, np.ones(4))
WHOLE = Mode("dp", 1.0, 1e-6)


def rows(count: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    X = draw.standard_normal((count, 3))
    return X, np.where(X.sum(axis=1) + draw.standard_normal(count) > 0.0, 1.0, -1.0)


class Recorded(st.Threads):
    """Keeps the bytes that would cross the line."""

    def __init__(self, teachers: list[st.Teacher]) -> None:
        super().__init__(teachers)
        self.carried: list[bytes] = []

    def _ask(self, position, query, number):
        sealed = super()._ask(position, query, number)
        self.carried.append(wire.pack_reply(sealed))
        return sealed


def lesson(
    X: np.ndarray, y: np.ndarray, privacy: str, budget: int = 15, kind: type[Recorded] = Recorded
) -> tuple[Lesson, Recorded]:
    engine = kind([st.Teacher(f"t{k}", X[k::3], y[k::3], ids=np.arange(k, len(y), 3)) for k in range(3)])
    return teach(st.Federation(engine), LogisticRegression(), GOAL, privacy=privacy, budget=budget), engine


TABLES: dict[str, Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "as they are": lambda X, y: (X, y),
    "one label": lambda X, y: (X, np.ones(len(y))),
    "the other label": lambda X, y: (X, -np.ones(len(y))),
    "zeros": lambda X, y: (0.0 * X, y),
    "a huge row": lambda X, y: (np.vstack([np.full((1, 3), 1e99), X[1:]]), y),
    "huge rows": lambda X, y: (1e60 * X, y),
    "tiny rows": lambda X, y: (1e-160 * X, y),
    "equal rows": lambda X, y: (np.repeat(X[:1], len(X), axis=0), y),
    "one column": lambda X, y: (X * np.array([1.0, 0.0, 0.0]), y),
}


@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_what_leaves_under_isolated_is_the_same_over_very_different_tables():
    """Bytes, and lesson.json."""
    seen, told = set(), set()
    for change in TABLES.values():
        taught, engine = lesson(*change(*rows()), "isolated")
        seen.add(tuple(engine.carried))
        told.add(to_json(taught.as_dict()))
    assert len(seen) == 1
    assert len(told) == 1


@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_shapes_under_dp_are_the_same_and_nothing_fails():
    shapes = {tuple(map(len, lesson(*change(*rows()), "dp")[1].carried)) for change in TABLES.values()}
    assert len(shapes) == 1


def missing_row(stored: dict, X: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The last row from the fit on all rows and all other rows, where that fit is in the file."""
    if stored["pool_model"] is None:
        return None
    model = np.ravel(stored["pool_model"])
    lifted = np.column_stack([X[:-1], np.ones(len(X) - 1)])
    lacking = np.append(model[:-1], 0.0) - lifted.T @ (y[:-1] / (1.0 + np.exp(y[:-1] * (lifted @ model))))
    return lacking[:-1] / lacking[-1]


@pytest.mark.parametrize(("privacy", "read"), [("none", True), ("isolated", False), ("dp", False)])
def test_a_missing_row_follows_from_lesson_json_only_where_nothing_is_private(privacy, read):
    X, y = rows()
    taught, _ = lesson(X, y, privacy)
    stored = json.loads(to_json(taught.as_dict()))
    found = missing_row(stored, X, y)
    assert (found is not None) == read
    if read:
        np.testing.assert_allclose(found, X[-1], rtol=1e-5)
        return
    for name in ("risk", "agreement", "pool_risk", "pool_agreement", "prediction_distance", "pool_model"):
        assert stored[name] is None, name
    html = page_of(taught).html()
    assert not [value for value in X[-1] if f"{abs(value):.3g}" in html and len(f"{abs(value):.3g}") > 4]


def disguised(X: np.ndarray, y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Forty tables that are the same rows to a person, or nearly."""
    draw, found = np.random.default_rng(0), []
    for place in range(10):  # a cell
        changed = X.copy()
        changed[place, place % 3] = (0.0, -0.0, 1e99, 1e-300, 7.0)[place % 5]
        found.append((changed, y))
    found += [(X.astype(kind).astype(float), y) for kind in ("f4", "f2", "i8", "U", "S")]
    found += [
        (np.insert(X, place, X[0], axis=0), np.insert(y, place, y[0])) for place in (0, 1, 20, len(X) - 1, len(X))
    ]
    found += [(X[count:], y[count:]) for count in (1, 2, 10, 80)]
    found += [(X[order], y[order]) for order in (draw.permutation(len(X)) for _ in range(3))]
    found += [(X[:, order], y) for order in ([2, 1, 0], [1, 2, 0], [0, 2, 1])]
    found += [(X * factor, y) for factor in (1.0 + 1e-12, 1000.0, -1.0)]
    found += [(X, -y), (X, np.ones(len(y))), (X[::-1], y[::-1]), (np.vstack([X, X]), np.append(y, y))]
    found += [(X + 1e-9, y), (X.round(2), y), rows(seed=1)]  # the last is another file in its place
    return found


def test_no_disguise_resets_an_account(tmp_path):
    """One account for the table: nothing about rows decides what is left, and nothing unpaid leaves."""
    ledger = Ledger(tmp_path / "kept", 1.0, 1e-6, audit=AuditLog(tmp_path / "audit.log"))

    def ask(X: np.ndarray, y: np.ndarray, name: str) -> None:
        teacher = st.Teacher("t", X, y).under(Guard().under(WHOLE, Account(ledger, name)))
        teacher.answer(ASKED, teacher.start(), TURN)

    X, y = rows()
    ask(X, y, "first")
    left, kept = ledger.left, ledger.path.read_bytes()
    tables = disguised(X, y)
    assert len(tables) == 40
    for number, table in enumerate(tables):
        with pytest.raises(BudgetSpent):
            ask(*table, f"lesson {number}")
        assert ledger.left == left
    assert ledger.path.read_bytes() == kept


def test_a_table_that_is_replaced_after_the_promise_to_pay_pays_once(tmp_path):
    """A guard that was made before the account was spent pays when numbers leave, or lets none leave."""
    ledger, (X, y) = Ledger(tmp_path / "kept", 1.0, 1e-6), rows()
    tables = (X, y), rows(seed=1), (X, y)
    guards = [Guard().under(WHOLE, Account(ledger, name)) for name in ("a", "b", "a")]
    closed = [st.Teacher("t", *table).under(guard) for table, guard in zip(tables, guards, strict=True)]
    first, *others = closed
    first.answer(ASKED, first.start(), TURN)
    for teacher in others:
        with pytest.raises(QueryRefused):
            teacher.answer(ASKED, teacher.start(), TURN)
    assert len(ledger.entries()) == 1


def test_a_declared_number_of_rows_hides_most_rows():
    """It is rounded to two digits: one row more shows for one size in ten up to 999 rows, one in a hundred beyond."""
    for first, most in ((10, 0.1), (100, 0.1), (1_000, 0.01), (10_000, 0.001)):
        told = [draft(count, ("a",), "y", None) for count in range(first, 2 * first + 1)]
        assert np.mean([one != other for one, other in pairwise(told)]) <= most + 1e-12


def exact(X: np.ndarray, y: np.ndarray, query) -> np.ndarray:
    teacher = st.Teacher("t", X, y)
    return HANDLERS[type(query)](teacher, query, teacher.start(), TURN)[1]


def noise_seen(mode: Mode, runs: int = 40) -> tuple[float, float, int]:
    """Through teacher, guard and seal: the chance of noise as small as this, as large as this, and repeated draws."""
    X, y = rows()
    squares, numbers, drawn = 0.0, 0, set()
    teacher = st.Teacher("t", X, y)
    for _ in range(runs):
        closed = teacher.under(Guard(mode=mode))
        state = closed.start()
        for query in (ASKED, MOMENTS):
            state, sealed = closed.answer(query, state, TURN)
            noise = (sealed.values - exact(X, y, query)) / WHOLE.deviation(query.release)
            squares, numbers = squares + float(noise @ noise), numbers + len(noise)
            drawn.add(noise.round(6).tobytes())
    return float(chi2.cdf(squares, numbers)), float(chi2.sf(squares, numbers)), 2 * runs - len(drawn)


class Quarter(Mode):
    """Noise a quarter too small."""

    def grid(self, release):
        """Make the grid with less noise."""
        whole = super().grid(release)
        return type(whole)(whole.step, 3 * whole.sigma // 4)


def test_noise_in_real_replies_is_what_is_claimed_and_a_quarter_less_is_found_out():
    small, large, repeated = noise_seen(WHOLE)
    assert min(small, large) > 1e-9
    assert not repeated
    assert noise_seen(Quarter("dp", 1.0, 1e-6))[0] < 1e-30


def worst_row(seed: int, tries: int = 300) -> float:
    """How much of its sensitivity the most telling row changes a reply by; the questions' weights are an attacker's."""
    draw, most = np.random.default_rng(seed), 0.0
    for _ in range(tries):
        size = 10.0 ** (draw.uniform(-3.0, 3.0) if draw.random() < 0.5 else draw.uniform(-160.0, 99.0))
        x = np.clip(draw.choice([-1.0, 1.0], 3) * size * 10.0 ** draw.uniform(-2.0, 2.0, 3), -1e99, 1e99)
        weights = 10.0 ** draw.uniform(-100.0, 100.0) * np.exp2(draw.uniform(-9.0, 9.0, 4))
        for query in (ASKED, SecondMoments(Logistic(), 1.0, GOAL, weights)):
            changed = exact(x[None, :], np.array([draw.choice([-1.0, 1.0])]), query)
            most = max(most, float(np.linalg.norm(changed)) / query.release.sensitivity)
    return most


def test_no_row_and_no_weights_stretch_a_reply(monkeypatch):
    assert 0.99 < worst_row(0) <= 1.0 + 1e-12
    monkeypatch.setattr("superteach.teacher.private.second_moments", lambda g, w: second_moments_uncut(g))
    assert worst_row(0) > 2.0, "rows that are not cut must be found"


def second_moments_uncut(gradients: np.ndarray) -> np.ndarray:
    rows = np.column_stack([np.clip(gradients, -1e3, 1e3), np.ones(len(gradients))])
    return (rows.T @ rows)[np.triu_indices(5)]


class Apart(Recorded):
    """Teachers of different organisations: nobody hands them the secret of their draws."""

    def keep(self, mode: Mode) -> None:
        self._teachers = tuple(teacher.under(Guard(mode=mode)) for teacher in self._teachers)


@pytest.mark.parametrize("privacy", ["isolated", "dp"])
def test_a_choice_cannot_be_made_again_by_whoever_knows_the_seed(privacy):
    """From all other rows, the public seed and the model that was handed over, one row more was once seen at once."""
    X, y = rows(300)
    first, second = (lesson(X, y, privacy, 60, Apart)[1].states() for _ in range(2))
    assert any(not np.array_equal(a.chosen, b.chosen) for a, b in zip(first, second, strict=True))

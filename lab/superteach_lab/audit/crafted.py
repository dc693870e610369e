"""A coordinator that deviates: it asks what no lesson asks, and reads a row from the answers where a teacher's door is open.

Each attack asks real teachers behind real guards. What stops it is reported: the guard, or that the line carries no such
message. Where nothing stops it, the rows it read are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
from superteach.privacy.terms import PromiseTerms

from superteach.errors import QueryRefused, SettingError, TeachingError
from superteach.line.queries import (
    QUERIES,
    AskMoments,
    Balance,
    Begin,
    CountRanks,
    Draw,
    Keep,
    Prepare,
    Pull,
    Query,
    RankRows,
    Sketch,
    Weigh,
)
from superteach.line.queries.private import Cap
from superteach.mathematics.learner import Learner
from superteach.types import Array
from superteach_lab.audit.recovery import Found, as_row, directions_of_one, score
from superteach_lab.audit.transcript import Subject, Tapped

MOST = 120
"""Questions after which an attack gives up."""
HUGE = 1e300


class Deviant:
    """A coordinator that follows no script; it counts its questions."""

    def __init__(self, subject: Subject, terms: PromiseTerms) -> None:
        self.subject, self.learner = subject, Learner.of(subject.learner)
        self.engine = Tapped(subject.teachers())
        if terms.promise != "open":
            self.engine.keep(terms)
        self.asked = 0
        self.last: Query[object] | None = None

    def ask(self, query: Query[object]) -> Array:
        """Ask all teachers, and read the total."""
        self.asked += 1
        self.last = query
        return self.engine.sum(query, self.asked)

    @property
    def width(self) -> int:
        """Coefficients of the learner."""
        return len(self.subject.goal)

    def begin(self) -> None:
        """Announce the learner."""
        self.ask(Prepare(self.learner.loss, self.learner.column))


def _weighed(who: Deviant) -> tuple[list[Array], str]:
    """Is this row there? Thresholds overflow for rows orthogonal to a direction when the sparsity is huge."""
    draw = np.random.default_rng(1)
    target = who.subject.parts[0][0][-1]
    who.begin()
    counts = []
    for row in (target, draw.standard_normal(len(target)) * np.linalg.norm(target)):
        lifted = np.append(row, who.learner.column) if who.learner.column else row
        across = draw.standard_normal(len(lifted))
        for _ in range(2):  # twice: the first time leaves rounding
            across -= lifted * (lifted @ across) / (lifted @ lifted)
        counts.append(float(who.ask(Weigh(across, HUGE))[0]))
    known = counts[0] >= 1.0 and counts[1] == 0.0
    return ([target] if known else []), "one count tells whether a known row is there"


def _alone(who: Deviant) -> tuple[list[Array], str]:
    """Give one row all the weight: prices so long that a single fraction is 1 and all others 0."""
    who.begin()
    who.ask(Balance(who.subject.goal, np.ones(who.width)))
    who.ask(Draw(np.zeros(96), 0.0, 0))
    along = np.random.default_rng(2).standard_normal(who.width)
    low, high = -1e3, 1e3
    while who.asked < MOST:
        middle = 0.5 * (low + high)
        point = 1e8 * np.append(along, -middle)
        total = who.ask(AskMoments("relax", "drawn", point, 1))
        count = total[-1]
        if abs(count - 1.0) < 1e-9:
            pull = total[1:-1]
            return [as_row(pull / np.linalg.norm(pull), who.learner)], "at these prices the sum is one row's pull"
        low, high = (middle, high) if count > 1.0 else (low, middle)
    return [], "no prices single a row out"


def _kept(who: Deviant) -> tuple[list[Array], str]:
    """Choose fewer and fewer rows by lot, until one is left, and ask for its curvature."""
    who.begin()
    who.ask(RankRows("random", seed=7))
    low, high = 0, 2**64 - 1
    while who.asked < MOST:
        middle = (low + high) // 2
        count = who.ask(Keep(middle.to_bytes(8, "big") + b"\xff" * 8))[0]
        if count == 1.0:
            total = who.ask(AskMoments("loss", "chosen", np.zeros(who.width), 2))
            curvature = AskMoments("loss", "chosen", np.zeros(who.width), 2).read(total).curvature
            assert curvature is not None
            found = directions_of_one(curvature)
            return [as_row(unit, who.learner) for unit in found], "a sum over one chosen row is the row"
        low, high = (middle, high) if count < 1.0 else (low, middle)
    return [], "no single row could be chosen"


def _counted(who: Deviant) -> tuple[list[Array], str]:
    """Count ranks byte by byte until one row is left: its score, exactly."""
    who.begin()
    who.ask(Weigh(np.ones(who.width), 0.0))
    point = np.random.default_rng(3).standard_normal(who.width)
    who.ask(RankRows("dual", point))
    prefix = b""
    while len(prefix) < 8:
        counts = who.ask(CountRanks((prefix,)))
        some = np.flatnonzero(counts)
        prefix += bytes([int(some[np.argmin(counts[some])])])
    bits = ~np.uint64(int.from_bytes(prefix, "big"))
    sign = np.uint64(1 << 63)
    read = float(np.array([bits & ~sign if bits & sign else ~bits]).view(np.float64)[0])
    X, y = who.subject.rows, who.subject.targets
    lifted = np.column_stack([X, np.full(len(X), who.learner.column)]) if who.learner.column else X
    true = who.learner.loss.rank(lifted @ point, y, np.zeros(len(X)))
    near = int(np.argmin(np.abs(true - read)))
    exact = abs(true[near] - read) <= 1e-12 * max(abs(read), 1e-12)
    return (
        [X[near]] if exact else []
    ), "counts show the exact score of a single row (one number of it, not the whole row)"


def _rescaled(who: Deviant) -> tuple[list[Array], str]:
    """Ask the script's own question by hand, with a cap in other units than pulls were taken in: nothing is capped then."""
    width, share = who.width, 0.05
    who.ask(Begin(who.learner.loss, who.learner.column))
    who.ask(Sketch(who.subject.goal, np.ones(width), 1.0, (share,) * 5))
    along = np.random.default_rng(4).standard_normal(width)
    cap = Cap(np.full(width, 1e9), 1.0, 0.0, 1.0)
    total = who.ask(Pull(np.append(along, 0.0), cap, share))
    breached = float(np.linalg.norm(total)) > 1e3 * who.subject.count  # capped rows add 1 each at most
    return who.subject.rows[:breached].tolist(), "the sum was not capped, so noise does not cover what one row adds"


def _refunded(who: Deviant) -> tuple[list[Array], str]:
    """Ask with a negative share of ε, so that later questions seem paid for."""
    width = who.width
    who.ask(Begin(who.learner.loss, who.learner.column))
    with suppress(SettingError):  # such noise cannot be drawn; but was the account changed?
        who.ask(Sketch(who.subject.goal, np.ones(width), 1.0, (-9.0, 0.1, 0.1, 0.1, 0.1)))
    for _ in range(8):
        who.ask(Sketch(who.subject.goal, np.ones(width), 1.0, (0.2,) * 5))
    return [who.subject.rows[0]], "more was released than the lesson's ε pays for"


Attack = Callable[[Deviant], tuple[list[Array], str]]
CRAFTED: dict[str, Attack] = {
    "a huge sparsity": _weighed,
    "one row with all the weight": _alone,
    "keep fewer and fewer rows": _kept,
    "counts of ranks": _counted,
    "the script by hand, caps in other units": _rescaled,
    "the script by hand, a negative share": _refunded,
}
BY_HAND = tuple(name for name in CRAFTED if "by hand" in name)
"""Attacks on the script's own questions: for promises under which nothing else is answered."""


def crafted_for(promise: str) -> tuple[str, ...]:
    """Attacks that make sense against a promise."""
    return tuple(name for name in CRAFTED if promise in ("closed", "epsilon") or name not in BY_HAND)


def deviate(subject: Subject, terms: PromiseTerms, attack: str) -> Found:
    """Run one crafted attack against teachers that keep a promise."""
    who = Deviant(subject, terms)
    try:
        found, said = CRAFTED[attack](who)
    except (QueryRefused, TeachingError) as error:
        return Found(attack, terms.promise, 0, 1, None, who.asked, f"refused: {error}{_carried(who.last)}")
    finally:
        who.engine.close()
    rows, away = score(found, subject.rows)
    said = said if rows else f"nothing was read; tried: {said}"
    return Found(attack, terms.promise, min(rows, 1), 1, away, who.asked, said)


def _carried(query: Query[object] | None) -> str:
    """Whether the line has a message for a question at all."""
    if query is None or type(query) in QUERIES:
        return ""
    return "; besides, no message carries this question"

"""One door: nothing leaves a teacher but through its guard, and a guard that forgets a rule is found out."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import superteach as st
import superteach_lab
from superteach.exceptions import BudgetSpent, QueryRefused
from superteach.losses import Logistic
from superteach.privacy.accounting import Mode
from superteach.privacy.guard import Account, Guard
from superteach.privacy.ledger import Ledger
from superteach.privacy.policy import Policy
from superteach.protocol import wire
from superteach.protocol.messages import SEAL, Sealed, Turn
from superteach.protocol.queries import (
    OPEN,
    QUERIES,
    AskMoments,
    Census,
    ChooseShare,
    CountMagnitudes,
    Query,
    SecondMoments,
)
from tests.protocol.test_queries import TALK, TURN, after, put, teacher_of

WIDTH = 3
DP = Mode("dp")


def used_in(*names: str) -> set[str]:
    """Modules of product and laboratory that use one of these names, or call an attribute of that name."""
    roots = [Path(package.__file__).parent for package in (st, superteach_lab)]
    return {
        ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        for root in roots
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (getattr(node, "id", None) or getattr(node, "attr", None)) in names
        or (isinstance(node, ast.alias) and node.name.split(".")[-1] in names)
    }


def test_the_guard_alone_makes_sealed_replies():
    """No other source names the seal, and the wire packs nothing but sealed numbers."""
    assert used_in("SEAL") == {"superteach.protocol.messages", "superteach.privacy.guard"}
    with pytest.raises(AttributeError):
        wire.pack_reply(np.zeros(2))


class Shut(Guard):
    """Lets nothing pass."""

    def release(self, *given):
        raise QueryRefused("shut")


@pytest.mark.parametrize("position", range(len(TALK)), ids=[query.name for query in TALK])
def test_no_reply_goes_round_the_guard(position, pool):
    """In one process, too: behind a guard that lets nothing pass no query has an answer."""
    teacher = teacher_of(50, pool)
    state = after(teacher, position)
    query = put(TALK[position], teacher, state)
    teacher.answer(query, state, TURN)
    teacher.guard = Shut()
    with pytest.raises(QueryRefused, match="shut"):
        teacher.answer(query, state, TURN)


def questions() -> dict[str, Query]:
    """What private modes ask, for a lesson of ten rows of one teacher."""
    about = Logistic(), 0.0, np.array([1.0, 0.5, -0.4])
    return {
        "counts": CountMagnitudes(*about),
        "moments": SecondMoments(*about, np.ones(WIDTH)),
        "choice": ChooseShare(*about, np.ones(WIDTH), (10,), np.ones((1, WIDTH)), 0),
    }


def asked_behind(guard: Guard, name: str, pool) -> np.ndarray:
    teacher = st.Teacher("t", *pool("logistic", 60, WIDTH, 0)).under(guard)
    return teacher.answer(questions()[name], teacher.start(), Turn(1, 0, 1))[1].values


def broken_rules(kind: type[Guard], pool, folder) -> set[str]:
    """Rules that this kind of guard does not keep."""
    found = set()

    def passes(guard: Guard, name: str = "counts") -> bool:
        try:
            asked_behind(guard, name, pool)
        except (QueryRefused, BudgetSpent):
            return False
        return True

    if passes(kind(mode=Mode("isolated"))):
        found.add("nothing but an acknowledgement")
    try:
        kind(Policy((), privacy=("isolated",))).under(DP)
        found.add("accepted modes")
    except QueryRefused:
        pass
    guard = kind(mode=DP)
    first = asked_behind(guard, "counts", pool)
    if (first == np.round(first)).all() and first.min() >= 0.0:
        found.add("noise")
    if passes(guard):
        found.add("one draw")
    ledger = Ledger(folder / kind.__name__, 0.5, 1e-6)
    try:
        guard = kind(mode=DP, account=Account(ledger, "l"))
        asked_behind(guard, "counts", pool)
        found.add("paid before it leaves")
    except BudgetSpent:
        pass
    try:
        guard.admit(AskMoments("loss", "all", np.zeros(5000), 1), 3)
        found.add("size")
    except QueryRefused:
        pass
    return found


def nothing(*given):
    """Check nothing."""


def exact(self, query, reply):
    """Add no noise, and pay nothing."""
    return np.array(reply)


def everything(self, query, reply, teacher):
    """Let every reply pass."""
    return Sealed(np.array(reply), SEAL)


BROKEN = {
    "modes are not compared": ({"check_mode": nothing}, {"accepted modes"}),
    "no noise": ({"_with_noise": exact}, {"noise", "one draw", "paid before it leaves"}),
    "nothing is looked at": (
        {"release": everything, "check_query": nothing, "admit": nothing},
        {"nothing but an acknowledgement", "noise", "one draw", "paid before it leaves", "size"},
    ),
}


def test_the_guard_keeps_every_rule(pool, tmp_path):
    """As it is, no rule is broken."""
    assert broken_rules(Guard, pool, tmp_path) == set()


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_guard_is_found_out(how, pool, tmp_path):
    """Leave a part of the guard out, and just the rules it keeps are broken."""
    parts, rules = BROKEN[how]
    assert broken_rules(type("Broken", (Guard,), parts), pool, tmp_path) == rules


def test_isolated_lets_the_same_nothing_pass_whatever_the_rows_are(pool):
    for seed in range(5):
        teacher = st.Teacher("t", *pool("logistic", 20 + 30 * seed, WIDTH, seed)).under(Guard(mode=Mode("isolated")))
        _, sealed = teacher.answer(questions()["choice"], teacher.start(), Turn(1, 0, 1))
        assert sealed.values.shape == (0,)


def test_a_lesson_is_paid_for_once_and_before_its_first_release(pool, tmp_path):
    ledger = Ledger(tmp_path, 2.0, 1e-6)
    guard = Guard(Policy((), privacy=("dp",), rows_per_person=3, identity="who")).under(
        Mode("dp", 0.3), Account(ledger, "a")
    )
    assert ledger.spent == 0.0
    asked_behind(guard, "counts", pool)
    paid = ledger.spent
    asked_behind(guard, "moments", pool)
    assert ledger.spent == paid == pytest.approx((3 * Mode("dp", 0.3).mu) ** 2), (
        "three rows of one person cost three times"
    )
    with pytest.raises(BudgetSpent):
        Guard(Policy((), privacy=("dp",))).under(Mode("dp", 1.99), Account(ledger, "b"))
    with pytest.raises(QueryRefused):
        asked_behind(Guard(mode=DP, account=Account(ledger, "a")), "counts", pool)


def test_queries_of_sums_are_refused_in_private_modes(pool):
    for privacy in ("isolated", "dp"):
        guard = Guard(mode=Mode(privacy))
        for query in QUERIES:
            if "none" in query.privacy:
                with pytest.raises(QueryRefused):
                    guard.release(Census(), np.zeros(2), "t")


def test_open_queries_are_those_that_show_rows():
    """The list that users see is made from the facts of the classes."""
    assert {query.__name__ for query in OPEN} == {"Candidates", "Select", "Show"}


@pytest.mark.parametrize("position", range(len(TALK)), ids=[query.name for query in TALK])
def test_a_stated_sensitivity_holds(position, pool):
    """A row less, with what is remembered of all others, changes no number of a reply by more than is stated."""
    bound = TALK[position].sensitivity.bound
    X, y = pool("logistic", 50, WIDTH, 50)
    replies = []
    for rows in (50, 49):
        teacher = st.Teacher("t", X[:rows], y[:rows], np.arange(rows))
        state = after(teacher, position)
        _, reply = teacher.answer(put(TALK[position], teacher, state), state, TURN)
        replies.append(reply.values)
    if TALK[position].varies:
        assert bound is None
        return
    assert bound is None or np.abs(replies[0] - replies[1]).max() <= bound + 1e-12


def test_every_query_states_its_facts():
    """None is left to the base class."""
    for query in QUERIES:
        facts = [query.broadcast, query.reply, query.exposure, query.sensitivity.why]
        assert all(isinstance(fact, str) and fact and "|" not in fact for fact in facts), query
        assert query.over in ("all", "chosen", "sampled", "likely", "as asked")

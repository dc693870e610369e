"""One door: nothing leaves a teacher but through its guard, and a guard that forgets a rule is found out."""

from __future__ import annotations

import ast
from dataclasses import replace

import numpy as np
import pytest

import superteach as st
from superteach.errors import QueryRefused
from superteach.line import wire
from superteach.line.messages import SEAL, Sealed
from superteach.line.queries.private import Release
from superteach.losses import Logistic
from superteach.mathematics.learner import Learner
from superteach.organisations.agreement import agree
from superteach.privacy.audit_log import Audit
from superteach.privacy.guard import Guard
from superteach.privacy.terms import PromiseTerms
from superteach.queries import (
    OPEN,
    QUERIES,
    AskMoments,
    Begin,
    Cap,
    Census,
    Prepare,
    Pull,
    Sketch,
    Widths,
)
from tests.contracts.test_layers import MODULES
from tests.line.test_queries import TALK, TURN, after, put, teacher_of
from tests.loopback import Loopback

WIDTH = 3


def used_in(*names: str) -> set[str]:
    """Modules of product and laboratory that use one of these names, or call an attribute of that name."""
    return {
        module
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (getattr(node, "id", None) or getattr(node, "attr", None)) in names
        or (isinstance(node, ast.alias) and node.name.split(".")[-1] in names)
    }


def test_the_guard_alone_makes_sealed_replies():
    """No other source names the seal, none but sites pack replies, and the wire packs nothing but sealed numbers."""
    assert used_in("SEAL") == {"superteach.line.messages", "superteach.privacy.guard"}
    assert used_in("Sealed") == {
        "superteach.line.messages", "superteach.line.wire", "superteach.privacy.guard", "superteach.engines.inprocess",
        "superteach.teacher", "superteach.teacher.paged", "superteach.teacher.device",
        "superteach.organisations.site.follower",
    }  # fmt: skip
    assert used_in("pack_reply", "pack_part") == {"superteach.organisations.site", "superteach.teacher.resident"}
    with pytest.raises(AttributeError):
        wire.pack_reply(np.zeros(2))


class Shut(Guard):
    """Lets nothing pass."""

    def release(self, *given):
        raise QueryRefused("shut")

    def send(self, message, facts):
        return b"shut"


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


def test_no_message_goes_round_the_guard(pool, site_of):
    """Greetings, answers, refusals, failures and nonsense: each leaves a site through its guard."""
    site = site_of("a", *pool("logistic", 60, WIDTH, 0))
    site.guard = Shut(site.guard.policy, site.guard.audit)
    for kind in wire.KINDS:
        assert site.answer(wire.pack(kind, {"lesson": "l", "loss": "logistic"})) == b"shut"
    assert site.answer(b"nonsense") == b"shut"


def broken_rules(kind: type[Guard], pool, site_of) -> set[str]:
    """Rules of a policy that a site with this kind of guard does not keep."""
    X, y = pool("logistic", 60, WIDTH, 0)

    def begin(name, **rules):
        site = site_of(name, X, y, **rules)
        site.guard = kind(site.guard.policy, site.guard.audit)
        agree(Loopback({name: site.answer}), "lesson", (name,), Learner(Logistic()))
        numbers = iter(range(1, 100))

        def answers(query) -> bool:
            reply = wire.read_reply(site.answer(wire.pack_question("lesson", next(numbers), query)))
            return reply.status == "ok"

        assert answers(Prepare(Logistic(), 0.0))
        return site, answers

    found = set()
    site, answers = begin("a")
    site.guard.policy = replace(site.guard.policy, promise="masked")
    if answers(Census()):
        found.add("promise")
    _, answers = begin("b")
    if answers(AskMoments("loss", "all", np.zeros(5000), 1)):
        found.add("size")
    site, answers = begin("d")
    site.guard.audit = Audit("/dev/full")
    if answers(Census()):
        found.add("record")
    site, answers = begin("e")
    site.coordinator = "mallory"
    if answers(Census()):
        found.add("coordinator")
    return found


def nothing(*given):
    """Check nothing."""


def sealed(self, query, reply, teacher, number):
    """Let every reply pass."""
    return Sealed(np.array(reply), SEAL)


def sent(self, message, facts):
    """Let every message pass, and write nothing."""
    return message


BROKEN = {
    "promises are not compared": ({"check_promise": nothing}, {"promise"}),
    "nothing is looked at": ({"admit": nothing, "release": sealed}, {"promise"}),
    "nothing is written": ({"send": sent}, {"record"}),
    "anybody may ask": ({"check_coordinator": nothing}, {"coordinator"}),
}


def test_the_guard_keeps_every_rule(pool, site_of):
    """As it is, no rule is broken."""
    assert broken_rules(Guard, pool, site_of) == set()


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_guard_is_found_out(how, pool, site_of):
    """Leave a part of the guard out, and just the rules it keeps are broken."""
    parts, rules = BROKEN[how]
    assert broken_rules(type("Broken", (Guard,), parts), pool, site_of) == rules


def test_open_queries_are_those_that_show_rows():
    """The list that users see is made from the facts of the classes."""
    assert {query.__name__ for query in OPEN} == {"Play", "Settle", "Gather", "Assign", "Show", "Take"}


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
    assert bound is None or np.abs(replies[0] - replies[1]).max() <= bound + 1e-12


def test_every_query_states_its_facts():
    """None is left to the base class."""
    for query in QUERIES:
        facts = [query.broadcast, query.reply, query.exposure, query.sensitivity.why]
        assert all(isinstance(fact, str) and fact and "|" not in fact for fact in facts), query
        assert query.over in ("all", "chosen", "drawn", "in play", "as asked")


def test_a_share_below_nothing_pays_for_nothing():
    """Once a question with a negative share failed, and left an account on which later ones could draw."""
    guard = Guard(terms=PromiseTerms("epsilon"))
    for share in (-5.0, 0.0, float("nan")):
        with pytest.raises(QueryRefused, match="each must be above 0"):
            guard.release(Widths(1, share), np.zeros(64), "t", 1)
    assert guard.spent == 0.0


def test_caps_in_other_units_than_pulls_are_refused(pool):
    """Pulls are as long as `Sketch` took them; in other units a row would add more than noise covers."""
    teacher = teacher_of(60, pool).under(Guard(terms=PromiseTerms("epsilon")))
    state, _ = teacher.answer(Begin(Logistic(), 0.0), teacher.start(), TURN)
    state, _ = teacher.answer(Sketch(np.ones(WIDTH), np.ones(WIDTH), 1.0, (0.1,) * 5), state, TURN)
    point = np.zeros(WIDTH + 1)
    teacher.answer(Pull(point, Cap(np.ones(WIDTH), 1.0, 0.0, 1.0), 0.1), state, TURN)
    with pytest.raises(QueryRefused, match="other weights"):
        teacher.answer(Pull(point, Cap(np.full(WIDTH, 1e6), 1.0, 0.0, 1.0), 0.1), state, TURN)


@pytest.mark.parametrize("teachers", range(1, 13))
def test_noise_is_enough_without_that_of_a_third_of_the_teachers(teachers):
    """Of two teachers each adds all of it; of three one may be silent or tell its own, and a second one may not."""
    release, terms = Release(100, 1.0, 0.3), PromiseTerms("epsilon", teachers)
    grid = terms.grid(release)
    needed, each = 1.0 / (terms.mu * np.sqrt(0.3)), grid.step * grid.sigma
    others = teachers - teachers // 3 if teachers > 2 else 1
    assert terms.honest == others
    assert needed < each * np.sqrt(others) < 1.001 * needed
    assert teachers < 3 or each * np.sqrt(others - 1) < needed

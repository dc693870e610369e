"""Lessons across organisations under each promise: real sites behind a line, without a network."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from superteach.errors import (
    BadReply,
    BudgetSpent,
    QueryRefused,
    SuperteachError,
    TeacherLost,
)  # fmt: skip
from superteach.line import wire
from superteach.privacy.fixed import add_words, from_words
from superteach.queries import AskMoments, Census
from superteach.report.of_lesson import page_of
from tests.inside import lesson_at, log_of
from tests.organisations.promised import NAMES, ROWS, chosen, teach


@pytest.mark.parametrize("promise", ["closed", "epsilon", "masked"])
def test_a_lesson_under_a_promise(promise, town):
    """Every teacher has its own rows; the coordinator has a size, a ledger, no model, and no question was asked."""
    here = town()
    lesson = teach(here, promise, epsilon=0.9)
    rows = chosen(here)
    if promise != "epsilon":  # with so few rows noise may miss the size by far
        assert sum(map(len, rows.values())) == pytest.approx(100, abs=2)
    assert (lesson.promise, lesson.delivered, lesson.size, lesson.pool_rows) == (promise, False, 100, 3 * ROWS)
    assert np.isnan(lesson.model).all()
    page = page_of(lesson).html()
    assert "nothing was measured" in page
    assert "The risk is measured" not in page
    assert "rows asked for" in page
    assert not (here.folder / "model.json").exists()
    stored = json.loads((here.folder / "lesson.json").read_text())
    assert all(number is None for number in stored["model"]["coef"])
    assert all(set(entry) == {"teacher", "held"} for entry in stored["files"]), "no count of chosen rows"
    assert (lesson.stated_risk is not None) <= (promise == "epsilon")
    kinds = {wire.unpack(data).kind for _, data, _ in here.line.sent}
    assert kinds == {"hello", "begin", "step", "finish"}
    notes = [site.guard.policy.folder / "lesson.txt" for site in here.sites.values()]
    assert [note.exists() for note in notes] == [promise == "closed"] * 3
    said = b"".join(reply for _, _, reply in here.line.sent)
    if promise == "closed":
        assert "balance the goal" in notes[0].read_text()
        assert all(wire.read_reply(reply).words.size == 0 for _, data, reply in here.line.sent if b'"step"' in data)
        assert b"balance" not in said
    if promise == "epsilon":
        assert lesson.rounds <= 20
        assert stored["left"] == {name: pytest.approx(0.396, abs=0.001) for name in NAMES}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"method": "dual"}, "nothing was measured"),
        ({"goal": [40.0, -30.0, 20.0, 10.0]}, "no lesson of this size ends"),
    ],
    ids=["the paper's method", "a goal out of reach"],
)
def test_the_page_of_a_lesson_that_nobody_saw_claims_no_measured_risk(told, words, town):
    """What was proved on the way stands there; what was not measured does not."""
    text = re.sub(r"<[^>]+>", "", page_of(teach(town(), "masked", **told)).html())
    assert words in text
    assert not re.search(r"\bnan\b|is measured|ends . away", text)


def test_an_open_lesson_measures(town):
    """The fourth promise is the protocol that shows rows, for policies that say so."""
    here = town("open")
    lesson = teach(here, "open")
    assert lesson.delivered
    assert (here.folder / "model.json").exists()
    with pytest.raises(QueryRefused, match="promises 'open', and the policy accepts nothing weaker than 'masked'"):
        teach(town("masked"), "open", "another")


@pytest.mark.parametrize("promise", ["epsilon", "masked"])
def test_all_teachers_come_to_one_point(promise, town):
    """Each computes the prices by itself, from totals: marks of every round are the same, and so is the state."""
    here = town()
    teach(here, promise)
    marks = {}
    for _, data, reply in here.line.sent:
        message = wire.unpack(data)
        if message.kind == "step":
            marks.setdefault(message.header["number"], set()).add(wire.read_reply(reply).facts["mark"])
    assert len(marks) > 5
    assert all(len(found) == 1 for found in marks.values())


def test_a_lesson_that_only_adds_sees_no_teachers_own_numbers(town):
    """Words of one teacher are masked: alone they are noise of 64 bits, together the total."""
    here = town()
    teach(here, "masked")
    first = [
        wire.read_reply(reply).words for _, data, reply in here.line.sent if b'"number":1,' in data and b"step" in data
    ]
    assert len(first) == 3
    assert min(np.log2(words.astype(float)).max() for words in first) > 55
    assert from_words(add_words(*first))[0] == 3 * ROWS


@pytest.mark.parametrize("promise", ["closed", "epsilon", "masked"])
def test_no_question_is_answered_under_a_promise(promise, town):
    """Neither before the lesson begins, nor after."""
    here = town(names=NAMES)
    teach(here, promise)
    for site in here.sites.values():
        said = wire.read_reply(site.answer(wire.pack_question("lesson", 99, Census())))
        assert (said.status, said.values) == ("refused", None)
        assert "no question is answered beside it" in said.reason
        assert log_of(site.guard.audit)[-1]["verdict"].startswith("refused")


def test_two_lessons_with_one_seed_differ(town):
    """Noise and lots are each teacher's own."""
    here = town()
    for lesson in ("one", "two"):
        teach(here, "epsilon", lesson, epsilon=0.3, random_state=5)
    one, two = chosen(here, "one"), chosen(here, "two")
    assert any(set(one[name]) != set(two[name]) for name in NAMES)
    words = [wire.read_reply(reply).words for _, data, reply in here.line.sent if b'"number":2}' in data]
    assert len({data.tobytes() for data in words if data is not None}) == len(words)


def test_the_budget_runs_out_at_the_third_lesson(town):
    """The coordinator hears what is left before it begins; a site refuses too, whatever the coordinator thinks."""
    here = town()
    for lesson in ("one", "two"):
        teach(here, "epsilon", lesson, epsilon=0.6)
    before = [len(site.ledger.entries()) for site in here.sites.values()]
    with pytest.raises(
        BudgetSpent, match=r"teacher north's rows have ε = 0\.4.* left, .*asks for 0\.6: .*nothing was spent"
    ):
        teach(here, "epsilon", "three", epsilon=0.6)

    ask = here.line.ask

    def blind(requests, seconds):
        found = ask(requests, seconds)
        for name, reply in found.items():
            facts = wire.read_reply(reply).facts
            if "left" in facts:
                found[name] = wire.pack_facts(facts | {"left": 9.0})
        return found

    here.line.ask = blind
    with pytest.raises(QueryRefused, match=r"teacher north refuses to begin: .*have 0\.4.* left; nothing was spent"):
        teach(here, "epsilon", "four", epsilon=0.6)
    assert before == [len(site.ledger.entries()) for site in here.sites.values()] == [2, 2, 2]


def test_the_ledger_counts_epsilon_alone(town):
    """What leaves under a weaker promise, where the policy accepts one, has no number."""
    here = town()
    teach(here, "masked")
    assert [site.ledger.entries() for site in here.sites.values()] == [[], [], []]


def test_rows_pay_by_what_they_are(town):
    """The same rows in another file, behind a new process, find what they have spent."""
    here = town()
    teach(here, "epsilon", epsilon=0.8)
    again = town()
    with pytest.raises(BudgetSpent, match="left"):
        teach(again, "epsilon", "next", epsilon=0.8)


def test_a_paid_lesson_is_not_answered_twice(town):
    """A process that begins the same lesson anew would draw noise a second time."""
    here = town()
    teach(here, "epsilon", epsilon=0.3)
    again = town()
    with pytest.raises(QueryRefused, match="was paid for before, and its answers may have left"):
        teach(again, "epsilon", epsilon=0.3)


def test_the_same_step_again_is_the_same_bytes(town):
    """And another step of the same round is refused."""
    here, seen = town(), []

    def twice(name, message, data):
        if message.kind in ("begin", "step", "finish"):
            seen.append(here.sites[name].answer(data))
        return data

    here.line.change = twice
    teach(here, "epsilon")
    assert seen == [reply for _, data, reply in here.line.sent if wire.unpack(data).kind != "hello"]
    assert lesson_at(here.sites["north"]).follower.number == 14
    said = wire.read_reply(here.sites["north"].answer(wire.pack("step", {"lesson": "lesson", "number": 3})))
    assert "is over" in said.reason


def test_a_step_beyond_the_end_does_not_hold_a_teacher(town):
    """Whoever steps once too often is told so, and the lesson still ends with rows."""
    here = town()

    def further(name, message, data):
        if message.kind == "finish":
            number = lesson_at(here.sites[name]).follower.number + 1
            step = wire.pack("step", {"lesson": "lesson", "number": number}, message.words)
            for _ in range(2):
                assert "the script is over" in wire.read_reply(here.sites[name].answer(step)).reason
        return data

    here.line.change = further
    teach(here, "epsilon")
    assert all(chosen(here).values())


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda head, words: (head, [words[:-1]]), "the total of round 2 has shape"),
        (lambda head, words: (head, []), "the total of round 2 has shape"),
        (lambda head, words: (head, [words, words]), "the total of round 2 has shape"),
        (lambda head, words: ({**head, "number": 5}, [words]), "round 3 is next, not 5"),
        (lambda head, words: ({**head, "query": "Census"}, [words]), "'query' does not fit"),
    ],
)
def test_a_wrong_total_is_refused(wrong, reason, town):
    """By the teacher that gets it."""
    here = town()

    def change(name, message, data):
        if name != "south" or message.kind != "step" or message.header["number"] != 3:
            return data
        head, words = wrong(message.header, message.words[0])
        return wire.pack("step", head, words)

    here.line.change = change
    with pytest.raises(QueryRefused, match=f"teacher south refuses round 3: .*{reason}"):
        teach(here, "epsilon")


def test_a_teacher_out_of_step_is_named(town):
    """One that was told another total answers at another point; its words are not added."""
    here = town()

    def change(name, message, data):
        if name != "west" or message.kind != "step" or message.header["number"] != 4:
            return data
        return wire.pack("step", message.header, [message.words[0] + np.uint64(2**40)])

    here.line.change = change
    with pytest.raises(BadReply, match="teacher west is out of step in round 4"):
        teach(here, "epsilon")


def other_total(message):
    words = message.words[0].copy()
    words[0] += np.uint64(1)
    return wire.pack("step", message.header, [words])


def other_terms(message):
    script = message.header["script"]
    script = {**script, "settings": {**script["settings"], "epsilon": 0.8}}
    return wire.pack("begin", {**message.header, "script": script}, message.arrays)


@pytest.mark.parametrize(
    ("kind", "number", "lie"), [("step", 4, other_total), ("begin", None, other_terms), (None, None, None)]
)
def test_teachers_that_were_told_different_things_share_no_masks(kind, number, lie, town):
    """A part of the noise is enough beside those of the others alone: at other prices or terms they might add less."""
    here = town()
    here.line.change = lambda name, message, data: (
        lie(message) if name == "west" and (message.kind, message.header.get("number")) == (kind, number) else data
    )
    with contextlib.suppress(SuperteachError):
        teach(here, "epsilon", epsilon=0.9)
    steps = [(wire.unpack(data), reply) for _, data, reply in here.line.sent if b'"step"' in data]
    said = [wire.read_reply(reply).words for message, reply in steps if message.header["number"] == (number or 2)]
    total = add_words(*said).view(np.int64)
    assert (np.median(np.abs(total)) > 2.0**58) == (lie is not None)


@pytest.mark.parametrize("round_", [1, 3])
def test_a_lost_teacher_ends_the_lesson(round_, town):
    """The error says what was paid and how to go on without it; nobody is dropped on the way."""
    here = town()
    here.line.change = lambda name, message, data: (
        None if name == "south" and message.header.get("number") == round_ else data
    )
    paid = "Nothing was spent" if round_ == 1 else "This one is paid for"
    with pytest.raises(TeacherLost, match=f"south is lost: .*--teachers north,west; .*new keys.*{paid}, ε left: north"):
        teach(here, "epsilon", epsilon=0.5)
    here.line.change = lambda name, message, data: data
    assert teach(here, "epsilon", "without", ["north", "west"], epsilon=0.3).pool_rows == 2 * ROWS


@pytest.mark.parametrize("promise", ["closed", "epsilon", "masked"])
def test_a_fit_is_delivered_where_all_policies_say_so(promise, town):
    """It is a release of its own: in every ledger, and outside of what was promised, as the lesson says."""
    here = town(deliver=True)
    lesson = teach(here, promise)
    rows = chosen(here)
    X = np.concatenate([here.X[place * ROWS :][rows[name]] for place, name in enumerate(NAMES)])
    y = np.concatenate([here.y[place * ROWS :][rows[name]] for place, name in enumerate(NAMES)])
    fitted = LogisticRegression(tol=1e-12, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(lesson.model, [*fitted.coef_[0], *fitted.intercept_], atol=1e-4)
    assert (lesson.delivered, lesson.size) == (True, len(y))
    assert "outside of the promise" in lesson.reason
    assert "The risk is measured" in (page := page_of(lesson).html())
    assert promise == "closed" or "and for the fit" in page
    assert (here.folder / "model.json").exists()
    for site in here.sites.values():
        notes = [entry["note"] for entry in site.ledger.entries() if "note" in entry]
        assert notes == [{"delivered": "lesson", "coordinator": "c", "promise": promise}]
        for query in (
            Census(),
            AskMoments("loss", "all", np.zeros(4), 1),
            AskMoments("square", "chosen", np.zeros(4), 1),
        ):
            said = wire.read_reply(site.answer(wire.pack_question("lesson", 900, query)))
            assert (said.status, said.values) == ("refused", None)


def test_one_policy_without_delivery_is_enough(town):
    """Then nobody is asked for a fit."""
    here = town(deliver=True)
    here.sites["west"].guard.policy = replace(here.sites["west"].guard.policy, deliver=False)
    assert not teach(here, "masked").delivered
    assert not [entry for site in here.sites.values() for entry in site.ledger.entries()]

"""Lessons across organisations under each promise: real sites behind a line, without a network."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression

from superteach.engines.remote import Loopback
from superteach.errors import (
    BadReply,
    BudgetError,
    BudgetSpent,
    DataError,
    GoalError,
    QueryRefused,
    SettingError,
    SuperteachError,
    TeacherLost,
    TeachingError,
)  # fmt: skip
from superteach.line import wire
from superteach.organisations.conductor import Order, conduct
from superteach.organisations.site import MOST_LESSONS, Site
from superteach.organisations.site.rows import open_holding
from superteach.promises.audit import Audit
from superteach.promises.fixed import add_words, from_words
from superteach.promises.guard import Guard
from superteach.promises.ledger import Ledger
from superteach.promises.policy import Declared, Policy
from superteach.promises.rosters import Identity, Rosters
from superteach.queries import AskMoments, Census
from superteach.settings import Settings
from superteach.versions import VERSION
from tests.inside import lesson_at

NAMES, WIDTH, ROWS = ["north", "south", "west"], 3, 400
COLUMNS = tuple(f"x{column}" for column in range(WIDTH))
GOAL = [0.8, -0.5, 0.3, 0.1]
PEOPLE = {name: Identity.ephemeral(name) for name in (*NAMES, "east")}


class Carrier(Loopback):
    """A line that keeps what it carries, and may change a message on its way."""

    def __init__(self, doors):
        super().__init__(doors)
        self.sent, self.change = [], lambda name, message, data: data

    def ask(self, requests, seconds):
        found = {}
        for name, data in requests.items():
            changed = self.change(name, wire.unpack(data), data)
            if changed is not None:
                found |= super().ask({name: changed}, seconds)
            self.sent.append((name, data, found.get(name)))
        return found


@pytest.fixture
def town(tmp_path, pool):
    """`town(promise, **policy)` gives sites from files of their own, with ledgers and keys, and a line to them."""

    def make(promise="masked", names=NAMES, **rules):
        X, y = pool("logistic", len(names) * ROWS, WIDTH, 1)
        marks = tuple(PEOPLE[name].fingerprint for name in names)
        made = {}
        for place, name in enumerate(names):
            home = tmp_path / name
            home.mkdir(exist_ok=True)
            part = slice(place * ROWS, (place + 1) * ROWS)
            columns = {column: X[part, i] for i, column in enumerate(COLUMNS)}
            parquet.write_table(pa.table({**columns, "y": y[part].astype(int)}), home / "rows.parquet")
            declared = Declared(ROWS, COLUMNS, "y", (-1, 1))
            policy = Policy(("c",), promise, declared=declared, teachers=marks, folder=home / "chosen")
            policy = replace(policy, **rules)
            made[name] = open_site(home, name, policy)
        return SimpleNamespace(
            sites=made, line=Carrier({name: site.answer for name, site in made.items()}), folder=tmp_path, X=X, y=y,
        )  # fmt: skip

    return make


def open_site(home, name, policy):
    """As a lesson's process does it, from what is on disk."""
    holding = open_holding(name, home / "rows.parquet", "y")
    holding.check(policy)
    guard = Guard(policy, Audit(home / "audit.jsonl"))
    ledger = Ledger(home / "ledger", policy.epsilon, policy.delta)
    rosters = Rosters(PEOPLE[name], policy.least_teachers, policy.teachers)
    return Site(name, holding, guard, "c", ledger=ledger, rosters=rosters)


def teach(town, promise, lesson="lesson", names=NAMES, goal=GOAL, order=None, **settings):
    """One lesson through the conductor, up to its files."""
    settings = Settings(**{"budget": 100, "promise": promise, "rounding": "alone", **settings})
    return conduct(
        town.line, lesson, Order(list(names), "logistic", goal, settings=settings, **(order or {})), town.folder
    )


def chosen(town, lesson="lesson"):
    return {
        name: [int(row) for row in (site.guard.policy.folder / f"{lesson}.csv").read_text().split()[1:]]
        for name, site in town.sites.items()
    }


@pytest.mark.parametrize("promise", ["closed", "epsilon", "masked"])
def test_a_lesson_under_a_promise(promise, town):
    """Every teacher has its own rows; the coordinator has a size, a ledger, no model, and no question was asked."""
    here = town()
    lesson = teach(here, promise, epsilon=0.9)
    rows = chosen(here)
    if promise != "epsilon":  # with so few rows noise may miss the size by far
        assert sum(map(len, rows.values())) == pytest.approx(100, abs=2)
    assert (lesson.promise, lesson.delivered, lesson.size, lesson.rows) == (promise, False, 100, 3 * ROWS)
    assert np.isnan(lesson.model).all()
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
        assert site.guard.audit.entries()[-1]["verdict"].startswith("refused")


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
    assert lesson_at(here.sites["north"]).follower.number == 12
    said = wire.read_reply(here.sites["north"].answer(wire.pack("step", {"lesson": "lesson", "number": 3})))
    assert "is over" in said.reason


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
    assert teach(here, "epsilon", "without", ["north", "west"], epsilon=0.3).rows == 2 * ROWS


@pytest.mark.parametrize(
    ("order", "error", "reason"),
    [
        ({"order": {"resume": True}}, SettingError, "goes without --resume and --on-loss"),
        ({"order": {"on_loss": "drop"}}, SettingError, "goes without --resume and --on-loss"),
        ({"goal": None}, GoalError, "--goal perturbed is fitted on the teachers' rows"),
        ({"goal": "max-auc"}, GoalError, "--goal max-auc is fitted on the teachers' rows"),
        ({"goal": [1.0]}, GoalError, "has 1 entries, expected 4"),
        ({"delta": 0.01}, SettingError, "not below one over the 1200 rows"),
        ({"epsilon": -1.0}, SettingError, "epsilon=-1.0 must be"),
        ({"budget": "best"}, BudgetError, "give a count or a fraction"),
        ({"budget": 1190}, BudgetError, "leaves no choice"),
        ({"method": "random"}, SettingError, "does not go with method='random'"),
        ({"standardize": True}, SettingError, "needs sums over rows"),
        ({"colluders": 0}, QueryRefused, "teacher north refuses to begin: colluders=0 is less than a third"),
    ],
    ids=str,
)
def test_bad_input_is_said_before_anything_is_spent(order, error, reason, town):
    """On the side that can mend it."""
    here = town()
    with pytest.raises(error, match=reason):
        teach(here, "epsilon", **order)
    assert [site.ledger.entries() for site in here.sites.values()] == [[], [], []]


@pytest.mark.parametrize(
    ("rules", "promise", "reason"),
    [
        ({"declared": Declared(ROWS, COLUMNS, "y")}, "closed", "does not declare the labels of its rows"),
        ({"least_teachers": 4}, "masked", "the roster has 3 teachers, this one wants at least 4"),
        ({"least_teachers": 4}, "epsilon", "the roster has 3 teachers, this one wants at least 4"),
        ({"teachers": ()}, "masked", "lists no certificates"),
        ({"teachers": (PEOPLE["east"].fingerprint,)}, "masked", "the policy does not list its certificate"),
        ({"promise": "closed"}, "epsilon", "promises 'epsilon', and the policy accepts nothing weaker than 'closed'"),
    ],
)
def test_a_policy_says_no_before_anything_is_spent(rules, promise, reason, town):
    """With a reason for both sides."""
    here = town(**rules)
    with pytest.raises(QueryRefused, match=reason):
        teach(here, promise)
    assert [site.ledger.entries() for site in here.sites.values()] == [[], [], []]


def test_without_masks_two_teachers_keep_an_epsilon(town):
    """Each adds all of the noise; masks need three."""
    here = town(names=["north", "south"], teachers=())
    assert teach(here, "epsilon", names=["north", "south"]).promise == "epsilon"
    with pytest.raises(SettingError, match="needs at least 3 teachers, there are 2"):
        teach(here, "masked", "other", ["north", "south"])


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"declared": None}, "declares nothing of the rows: .*superteach federation declare FILE --target COLUMN"),
        ({"declared": Declared(ROWS, ("x0", "x1", "age"), "y")}, "other columns than the file has .*'age', 'x2'"),
        ({"declared": Declared(ROWS, COLUMNS, "z")}, "other target"),
        ({"declared": Declared(ROWS, COLUMNS, "y", (0, 1))}, "has the label -1, and the policy declares"),
    ],
)
def test_rows_that_contradict_what_is_declared_are_refused_at_home(rules, reason, town):
    """Before the teacher joins."""
    with pytest.raises(SettingError, match=reason):
        town(**rules)


def test_a_row_that_cannot_take_part_is_refused_at_home(town):
    """Where it would fail when a lesson begins, whoever asks would learn that it is there."""
    home, site = (here := town()).folder / "north", here.sites["north"]
    columns = parquet.read_table(home / "rows.parquet").to_pydict()
    columns["x1"][7] = 1e200
    parquet.write_table(pa.table(columns), home / "rows.parquet")
    with pytest.raises(DataError, match=r"column 'x1', row 7: .*too large to be squared"):
        open_site(home, "north", site.guard.policy)


def test_a_record_may_be_named_by_a_column(town, tmp_path):
    """Then other values in the same record are the same account; a column that is not there is said."""
    here = town(identity="x0")
    teach(here, "epsilon", epsilon=0.8)
    assert len(here.sites["north"].holding.records("x0")) == 1
    assert len(here.sites["north"].holding.records(None)) == WIDTH + 1
    with pytest.raises(SuperteachError, match="has no column 'patient'"):
        here.sites["north"].holding.records("patient")


def test_what_a_site_remembers_is_bounded(town):
    """Greetings cost memory."""
    site = town().sites["north"]
    hello = {"loss": "logistic", "promise": "closed", "version": VERSION}
    said = [
        wire.read_reply(site.answer(wire.pack("hello", {"lesson": str(i), **hello}))) for i in range(MOST_LESSONS + 1)
    ]
    assert [reply.status for reply in said] == ["ok"] * MOST_LESSONS + ["refused"]


@pytest.mark.parametrize(
    "head",
    [
        {"lesson": "l", "loss": "logistic"},
        {"lesson": "l", "loss": "logistic", "promise": "all"},
        {"lesson": "l", "loss": "logistic", "promise": "closed", "more": 1},
        {"lesson": "\ud800", "loss": "logistic", "promise": "closed"},
    ],
)
def test_an_odd_hello_is_refused(head, town):
    """In words, and with a line in the log."""
    site = town().sites["north"]
    text = json.dumps({"kind": "hello", **head, "arrays": []}).encode()
    data = b"STW1" + len(text).to_bytes(4, "little") + text
    assert wire.read_reply(site.answer(data)).status == "refused"
    assert len(site.guard.audit.entries()) == 1


def test_a_script_must_be_the_one_of_the_hellos(town):
    """A coordinator that changes promise, rows or roster between hello and begin is refused."""
    for change in (
        lambda head: {
            **head,
            "script": {**head["script"], "settings": {**head["script"]["settings"], "promise": "open"}},
        },
        lambda head: {
            **head,
            "script": {**head["script"], "settings": {**head["script"]["settings"], "promise": "masked"}},
        },
        lambda head: {**head, "script": {**head["script"], "rows": [5, 5, 5]}},
        lambda head: {**head, "script": {}},
        lambda head: {**head, "names": ["north", "south"]},
        lambda head: {**head, "hellos": head["hellos"][:2]},
        lambda head: {**head, "position": 2 - head["position"]},
    ):
        here = town()
        here.line.change = lambda name, message, data, change=change: (
            wire.pack("begin", change(message.header), message.arrays) if message.kind == "begin" else data
        )
        with pytest.raises((QueryRefused, TeachingError), match="refuses to begin"):
            teach(here, "epsilon")
        assert [site.ledger.entries() for site in here.sites.values()] == [[], [], []]


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

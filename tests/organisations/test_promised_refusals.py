"""What is refused under a promise, on which side, in which words, and that nothing is spent."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from superteach.errors import (
    BudgetError,
    DataError,
    GoalError,
    QueryRefused,
    SettingError,
    SuperteachError,
    TeachingError,
)  # fmt: skip
from superteach.line import wire
from superteach.organisations.site import MOST_LESSONS
from superteach.privacy.policy import Declared
from superteach.versions import VERSION
from tests.inside import log_of
from tests.organisations.promised import COLUMNS, PEOPLE, ROWS, WIDTH, open_site, teach


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
    assert len(log_of(site.guard.audit)) == 1


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
        # More places than people: each would add its part of a noise that all places share.
        lambda head: {
            **head,
            "script": {**head["script"], "rows": [*head["script"]["rows"], *[ROWS] * 97]},
            "names": [*head["names"], *["west"] * 97],
        },
        lambda head: {**head, "position": 2 - head["position"]},
    ):
        here = town()
        here.line.change = lambda name, message, data, change=change: (
            wire.pack("begin", change(message.header), message.arrays) if message.kind == "begin" else data
        )
        with pytest.raises((QueryRefused, TeachingError), match="refuses to begin"):
            teach(here, "epsilon")
        assert [site.ledger.entries() for site in here.sites.values()] == [[], [], []]

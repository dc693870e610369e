"""A coordinator that deviates listens to refusals and acknowledgements: neither may tell it anything of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from superteach.coordinator.promised import Script
from superteach.errors import DataError, TeachingError
from superteach.line import wire
from superteach.mathematics.learner import Learner
from superteach.organisations.site import Site
from superteach.organisations.site.rows import open_holding
from superteach.privacy.audit_log import Audit
from superteach.privacy.guard import Guard
from superteach.privacy.ledger import Ledger
from superteach.privacy.policy import Declared, Policy
from superteach.queries import AskMoments
from superteach.settings import Settings
from superteach.versions import VERSION

COLUMNS, GOAL, TRUE, DECLARED = ("x0", "x1", "x2"), np.array([0.8, -0.5, 0.3, 0.1]), 40, 60
X = np.random.default_rng(0).standard_normal((DECLARED, 3))
LABELS = np.where(np.arange(DECLARED) % 2, 1, -1)


def site_of(home, rows=None, y=LABELS, labels=(-1, 1), more=None, **rules):
    """One site alone, of a table that its owner declares with a rounded size."""
    home.mkdir(exist_ok=True)
    rows = X[:TRUE] if rows is None else rows
    table = {**{name: rows[:, place] for place, name in enumerate(COLUMNS)}, "y": y[: len(rows)]}
    parquet.write_table(pa.table(table if more is None else more(table)), home / "rows.parquet")
    declared = Declared(DECLARED, COLUMNS, "y", labels)
    policy = replace(Policy(("c",), "epsilon", declared=declared, folder=home / "chosen"), **rules)
    holding = open_holding("a", home / "rows.parquet", "y", COLUMNS)
    holding.check(policy)
    ledger = Ledger(home / "ledger", policy.epsilon, policy.delta)
    return Site("a", holding, Guard(policy, Audit(home / "audit.jsonl")), "c", ledger=ledger)


def begin(site, promise, learner=None, lesson="l", classes=(-1, 1), goal=GOAL, **settings):
    """Greet and begin; what the site says to both."""
    known = Learner.of(learner or LogisticRegression())
    given = Settings(**{"budget": 6, "promise": promise, "masks": False, **settings}).for_learner(known)
    told = {"script": Script.of(known, goal, (DECLARED,), given).told(), "columns": list(COLUMNS), "classes": classes}
    hello = {"lesson": lesson, "loss": known.loss.name, "promise": promise, "version": VERSION}
    order = {"lesson": lesson, **told, "names": ["a"], "position": 0, "hellos": []}
    return site.answer(wire.pack("hello", hello)), site.answer(wire.pack("begin", order, [goal]))


def follow(site, lesson="l"):
    """Step to the end; the last step's reason and the bytes of the acknowledgement."""
    told, number, reply = [], 1, None
    while reply is None or reply.words is not None:
        reply = wire.read_reply(site.answer(wire.pack("step", {"lesson": lesson, "number": number}, told)))
        told, number = ([] if reply.words is None else [reply.words]) or told, number + 1
    return reply.reason, site.answer(wire.pack("finish", {"lesson": lesson}, told))


@pytest.mark.parametrize("promise", ["closed", "epsilon"])
@pytest.mark.parametrize("classes", [[1, 7], [7, 1], [1, 1], [-1, 1], [1, -1], ["a", "b"], None, [[1], -1], 5], ids=str)
def test_whether_a_label_is_there_is_not_told(classes, promise, tmp_path):
    """Once label values that nobody declared were refused where a row had the other label, and taken where none had."""
    replies = {
        begin(site_of(tmp_path / str(place), y=y), promise, classes=classes)[1]
        for place, y in enumerate((LABELS, np.ones(DECLARED, int), -np.ones(DECLARED, int)))
    }
    assert len(replies) == 1
    assert wire.read_reply(replies.pop()).status == ("ok" if classes in ([-1, 1], [1, -1]) else "refused")


@pytest.mark.parametrize("promise", ["closed", "epsilon"])
@pytest.mark.parametrize("learner", [PoissonRegressor(), Ridge()], ids=str)
@pytest.mark.parametrize(
    ("labels", "targets"),
    [
        (None, (np.arange(60.0), np.arange(60.0) - 1.0)),
        ((-1, 1), (np.ones(60, int), LABELS)),
        (("1", "no"), (np.full(60, "1"), np.where(LABELS > 0, "1", "no"))),
    ],
    ids=["numbers", "labels", "texts"],
)
def test_whether_a_target_suits_a_learner_is_not_told(labels, targets, learner, promise, tmp_path):
    """Once a target below 0 ended a lesson of counts: whoever asked learned that there is one."""
    replies = []
    for place, y in enumerate(targets):
        site = site_of(tmp_path / str(place), y=y, labels=labels)
        replies.append((begin(site, promise, learner, classes=None)[1], *follow(site)))
    assert replies[0] == replies[1]


def test_a_target_too_large_to_be_squared_is_refused_at_home(tmp_path):
    """As features are: not when a lesson begins."""
    with pytest.raises(DataError, match="too large to be squared"):
        site_of(tmp_path / "a", y=np.where(LABELS > 0, 1e200, 1.0), labels=None)


@pytest.mark.parametrize("budget", [TRUE - 1, TRUE, TRUE + 1, DECLARED - 6])
@pytest.mark.parametrize("write", ["numbers", "rows", "nothing"])
@pytest.mark.parametrize("promise", ["closed", "epsilon"])
def test_an_acknowledgement_is_the_same_however_many_rows_there_are(promise, write, budget, tmp_path):
    """Once a lesson of more rows than there are ended in an accident: asked for in halves, that was the exact number."""
    ends = set()
    for rows in (X[:1], X[:TRUE], X):
        site = site_of(tmp_path / str(len(rows)), rows, write=write)
        assert wire.read_reply(begin(site, promise, budget=budget)[1]).status == "ok"
        ends.add(follow(site))
        kept = site.guard.policy.folder / "l.csv"
        assert promise == "epsilon" or write != "numbers" or len(kept.read_text().split()) - 1 <= len(rows)
    assert len(ends) == 1
    assert wire.read_reply(ends.pop()[1]).facts == {"written": write}


def test_a_row_that_no_sum_can_hold_is_not_told(tmp_path):
    """Once a goal that gave such a row a curvature of 1e147 ended the lesson while teachers chose in silence."""
    odd, goal = X[:TRUE].copy(), np.array([3.4e-96, 0.0, 0.0, 0.0])
    odd[7] = 1e98
    ends = []
    for place, rows in enumerate((X[:TRUE], odd)):
        site = site_of(tmp_path / str(place), rows, np.arange(60.0), None)
        begin(site, "epsilon", PoissonRegressor(), classes=None, goal=goal)
        ends.append(follow(site))
        assert (site.guard.policy.folder / "l.csv").exists()
    assert ends[0] == ends[1]


@pytest.mark.parametrize("promise", ["closed", "epsilon"])
@pytest.mark.parametrize("accident", [ValueError, MemoryError, ArithmeticError, np.linalg.LinAlgError, TeachingError])
def test_an_accident_while_rows_are_chosen_is_for_their_owner(accident, promise, tmp_path, monkeypatch):
    """Firm rows, rounding, a choice alone: whether they fail depends on rows, so nobody but the owner hears of it."""

    def fail(*given, **named):
        raise accident("42 rows")

    ends = []
    for part in (None, "Newton.minimise", "play.round_alone", "play.octaves"):
        site = site_of(tmp_path / str(part))
        begin(site, promise)
        with monkeypatch.context() as patch:
            if part is not None:
                patch.setattr(f"superteach.teacher.capped.{part}", fail)
            ends.append(follow(site))
        assert (site.guard.policy.folder / "l.csv").exists()
    assert "none were chosen" in (tmp_path / "play.octaves" / "chosen" / "l.txt").read_text()
    assert ends == [ends[0]] * 4


def test_a_fit_that_is_delivered_shows_the_chosen_rows(tmp_path):
    """One policy with `deliver` is enough for its own rows; of the other rows nothing is asked."""
    site = site_of(tmp_path / "a", deliver=True)
    begin(site, "closed", budget=1)
    follow(site)
    asked = AskMoments("loss", "chosen", np.zeros(4), 2)
    reply = wire.read_reply(site.answer(wire.pack_question("l", 1, asked)))
    values, axes = np.linalg.eigh(asked.read(reply.values).curvature)
    row = axes[:-1, -1] / axes[-1, -1]
    assert values[-1] > 1e9 * abs(values[-2])
    assert np.abs(X[:TRUE] - row).max(axis=1).min() < 1e-12
    assert [entry["note"]["delivered"] for entry in site.ledger.entries()] == ["l"]
    said = wire.read_reply(site.answer(wire.pack_question("l", 2, AskMoments("loss", "all", np.zeros(4), 2))))
    assert said.status == "refused"


def test_a_lesson_with_a_name_that_was_paid_for_tells_nothing_of_rows(tmp_path):
    """Once the refusal counted the rows of both lessons, and had other words where they were the same."""
    begin(site := site_of(tmp_path / "a"), "epsilon", epsilon=0.2)
    follow(site)
    said = set()
    for rows, epsilon in ((X[:TRUE], 0.2), (X[:TRUE], 0.1), (X[1:TRUE], 0.2), (X[: TRUE + 1], 0.2), (X[TRUE:], 0.2)):
        begin(again := site_of(tmp_path / "a", rows), "epsilon", epsilon=epsilon)
        said.add(follow(again)[0])
    assert len(said) == 1
    assert not any(character.isdigit() for character in said.pop())


# Who a row is ----------------------------------------------------------------------------------------


def paid(home, **table):
    begin(site := site_of(home, **table), "epsilon", epsilon=0.7)
    follow(site)


def left(home, **table):
    hello, _ = begin(site_of(home, **table), "epsilon", lesson="next")
    return wire.read_reply(hello).facts["left"]


def test_rows_keep_their_account_in_another_order_of_rows_and_columns(tmp_path):
    paid(tmp_path / "a")
    before = left(tmp_path / "a")
    assert before < 0.75
    order = np.random.default_rng(1).permutation(TRUE)
    assert left(tmp_path / "a", rows=X[order], y=LABELS[order]) == before
    assert left(tmp_path / "a", more=lambda table: dict(reversed(table.items()))) == before
    twice = np.append(order, order)
    assert left(tmp_path / "a", rows=X[twice], y=LABELS[twice]) == before


@pytest.mark.parametrize(
    "other",
    [
        {"more": lambda table: {**table, "diagnosis": table["x0"]}},
        {"identity": "x0"},
    ],
    ids=["a column more", "another identity"],
)
def test_rows_known_by_other_columns_are_refused(other, tmp_path):
    """Every row would be new and have spent nothing; columns that are not offered are not named."""
    paid(tmp_path / "a")
    reply = wire.read_reply(begin(site_of(tmp_path / "a", **other), "epsilon", lesson="next")[0])
    assert reply.status == "refused"
    assert "ledger knows rows by other columns" in reply.reason
    assert "diagnosis" not in reply.reason
    assert left(tmp_path / "a") < 0.75


def test_a_value_that_changes_makes_another_row_unless_a_column_names_it(tmp_path):
    """What the ledger cannot know: the page says so."""
    for place, identity, known in (("all", None, False), ("named", "x0", True)):
        paid(tmp_path / place, identity=identity)
        moved = X[:TRUE] + np.array([0.0, 1e-9, 0.0])
        assert (left(tmp_path / place, rows=moved, identity=identity) < 0.75) == known


def test_the_same_rows_at_two_teachers_pay_at_each(tmp_path):
    """No ledger knows of another."""
    paid(tmp_path / "a")
    assert left(tmp_path / "b") == pytest.approx(1.0)
